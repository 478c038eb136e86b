//! Rails over RDMA devices: reads of memory that nobody has registered, into memory that nobody has registered, by two
//! devices, by one, and by a device and sockets; a cable that is cut among such reads; and the contract's suite over two
//! devices.
//!
//! They are for the guest of `cargo xtask guest`, which has two devices on the ends of one cable. Elsewhere they print
//! that in place of each test. One cuts the cable, so they run one at a time.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_model::transport::{CostOrigin, Figure, TransportCosts};
use bowline_multirail::{MultiRail, Rail};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_uct::conformance::{Exclusion, Provider, Watchdog, skipped};
use bowline_uct::{
    Arrival, EpId, Iface, LocalSlice, MemoryDomain, OneSided, PeerFailure, PostError, Posted,
    RemoteSlice, RkeyId, Sink, Source, Token, Verdict,
};
use bowline_verbs::{ConnectWhen, VerbsIface, VerbsOptions};

use super::pattern;
use super::suite::IN_ORDER;

/// Set in the guest, where devices must be there.
const GUEST: &str = "BOWLINE_TEST_GUEST";

/// The ends of the guest's cable.
const ENDS: [&str; 2] = ["left", "right"];

const ELSEWHERE: &str = "it is for the guest, which has two RDMA devices";

/// The guest for one test at a time; `None` elsewhere.
fn guest() -> Option<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::new(());
    if std::env::var_os(GUEST).is_none() {
        skipped(ELSEWHERE);
        return None;
    }
    Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The cable, cut. It is mended when this is dropped.
struct CutCable;

impl CutCable {
    fn cut() -> Self {
        let cable = Self;
        for end in ENDS {
            let netem = ["qdisc", "replace", "dev", end, "root", "netem", "loss", "100%"];
            let output = Command::new("tc").args(netem).output().expect("the guest has it");
            assert!(output.status.success(), "tc: {}", String::from_utf8_lossy(&output.stderr));
        }
        cable
    }
}

impl Drop for CutCable {
    fn drop(&mut self) {
        for end in ENDS {
            // Errors: this end was not cut.
            let _ = Command::new("tc").args(["qdisc", "del", "dev", end, "root"]).output();
        }
    }
}

/// A rail over a device, or over sockets.
fn rail(name: &str) -> Rail {
    let iface: Box<dyn Iface> = match name {
        "tcp" => Box::new(TcpIface::open(TcpOptions::with_secret([7; 32])).expect("it opens")),
        device => {
            let mut options = VerbsOptions::default();
            options.device = device.to_owned();
            // A cable that was cut is to be noticed soon.
            options.peer_timeout = Duration::from_secs(2);
            options.connect = ConnectWhen::AtOnce;
            (options.receive_buffers, options.send_buffers) = (512, 256);
            Box::new(VerbsIface::open(&options).expect("the guest has this device"))
        }
    };
    // Equal figures: a read is split into equal parts.
    let mut costs = TransportCosts::assumed("verbs", true);
    costs.get.per_byte = Figure { value: 1.0, origin: CostOrigin::Calibrated };
    Rail { costs, iface }
}

fn member(rails: [&str; 2], uid: u64) -> MultiRail {
    MultiRail::open(rails.map(rail).into(), uid).expect("they carry messages")
}

/// What the reader hears.
#[derive(Default)]
struct Seen {
    completed: Vec<Token>,
}

impl Sink for Seen {
    fn am(&mut self, _: Arrival<'_>) -> Verdict {
        panic!("nobody sends messages");
    }
    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        assert_eq!(result.map(drop), Ok(()), "a read fails while a path is left");
        self.completed.push(token);
    }
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        panic!("one path is left, and yet: {how}");
    }
}

/// One who reads the memory of another.
struct Pair {
    reader: MultiRail,
    owner: MultiRail,
    ep: EpId,
}

/// A read under way.
struct Reading {
    into: RecvBuf,
    token: Token,
}

impl Pair {
    /// Rail number n of one leads to number n of the other.
    fn open(reader: [&str; 2], owner: [&str; 2]) -> Self {
        let (mut reader, owner) = (member(reader, 1), member(owner, 2));
        let ep = reader.connect(&owner.address()).expect("they reach each other");
        Self { reader, owner, ep }
    }

    fn progress(&mut self, seen: &mut Seen) {
        let events = self.reader.progress(seen, 32) + self.owner.progress(&mut Seen::default(), 32);
        if events == 0 {
            std::thread::yield_now();
        }
    }

    /// Begins a read of `len` bytes at `from` into fresh memory.
    fn begin(&mut self, from: (u64, RkeyId), len: usize, token: Token, seen: &mut Seen) -> Reading {
        let mut into = RecvBuf::owned(vec![0xee; len]);
        // SAFETY: the buffer stays, untouched, until the read's completion was seen.
        let slice = unsafe { LocalSlice::of_recv(&mut into, 0, len) }.expect("all of it");
        let from = RemoteSlice { address: from.0, rkey: from.1 };
        loop {
            match self.reader.get_zcopy(self.ep, &[slice], from, token) {
                Ok(Posted::InFlight) => break,
                Ok(Posted::Done) => {
                    seen.completed.push(token);
                    break;
                }
                Err(PostError::NoResource) => self.progress(seen),
                Err(error) => panic!("{error}"),
            }
        }
        Reading { into, token }
    }

    /// Waits for a read and compares what it has brought.
    fn end(&mut self, reading: Reading, expected: &[u8], seen: &mut Seen) {
        while !seen.completed.contains(&reading.token) {
            self.progress(seen);
        }
        seen.completed.retain(|&token| token != reading.token);
        let arrived = reading.into.into_owned().expect("it was made of owned memory");
        assert!(arrived == expected, "{} bytes: not what lies there", expected.len());
    }

    /// Lends `bytes` to reads while `body` runs, which gets their address and key.
    fn lend(&mut self, bytes: &[u8], body: impl FnOnce(&mut Self, (u64, RkeyId))) {
        let lent = SendBuf::owned(bytes.to_vec());
        // SAFETY: the buffer stays until the handle is released, and nobody writes it.
        let slice = unsafe { LocalSlice::of_send(&lent, 0, bytes.len()) }.expect("all of it");
        let handle = self.owner.mem_expose(slice).expect("a path lends it");
        let packed = self.owner.rkey_pack(handle).expect("it has a key");
        let rkey = self.reader.rkey_unpack(self.ep, &packed).expect("a whole key opens");
        body(self, (slice.as_ptr() as u64, rkey));
        self.reader.rkey_release(rkey);
        self.owner.mem_release(handle).expect("nothing reads it any more");
    }

    fn read_bytes(&self) -> [u64; 2] {
        let bytes: Vec<u64> = self.reader.read_bytes().collect();
        bytes.try_into().expect("two rails")
    }
}

/// Short reads go by one rail, long ones by both, each with all of its bytes.
fn reads_of_many_sizes(name: &'static str, reader: [&str; 2], owner: [&str; 2]) {
    const SIZES: [usize; 7] = [1, 63, 4096, 40_000, 100_000, 600_001, 3 << 20 | 5];
    let Some(_alone) = guest() else { return };
    let _watchdog = Watchdog::start("multirail over devices", name);
    let mut pair = Pair::open(reader, owner);
    let mut seen = Seen::default();
    for (seed, len) in SIZES.into_iter().enumerate() {
        let (split, before) = (pair.reader.stats().split_reads, pair.read_bytes());
        let bytes = pattern(len, seed as u64);
        pair.lend(&bytes, |pair, from| {
            let reading = pair.begin(from, len, Token(seed as u64 + 1), &mut seen);
            pair.end(reading, &bytes, &mut seen);
        });
        let now = pair.read_bytes();
        let by = [now[0] - before[0], now[1] - before[1]];
        assert_eq!(by[0] + by[1], len as u64, "each byte is read once");
        let split = pair.reader.stats().split_reads - split;
        assert_eq!(split, u64::from(len >= 100_000), "{len} bytes");
        assert_eq!(by[0] > 0 && by[1] > 0, split == 1, "{len} bytes: {by:?}");
    }
    assert_eq!(pair.reader.stats().paths_lost + pair.owner.stats().paths_lost, 0);
}

#[test]
fn reads_go_by_two_devices() {
    // Each to itself, so that both carry half.
    reads_of_many_sizes("two devices", ["rxe0", "rxe1"], ["rxe0", "rxe1"]);
}

#[test]
fn reads_go_by_a_device_and_sockets() {
    reads_of_many_sizes("a device and sockets", ["rxe0", "tcp"], ["rxe1", "tcp"]);
}

/// The first rail ends while reads are under way, and each read is whole.
fn reads_survive_a_cut_cable(name: &'static str, reader: [&str; 2], owner: [&str; 2]) {
    const LEN: usize = 4 << 20;
    const READS: u64 = 3;
    let Some(_alone) = guest() else { return };
    let _watchdog = Watchdog::start("multirail over devices", name);
    let mut pair = Pair::open(reader, owner);
    let mut seen = Seen::default();
    let bytes = pattern(LEN, 3);
    pair.lend(&bytes, |pair, from| {
        let whole = pair.begin(from, LEN, Token(100), &mut seen);
        pair.end(whole, &bytes, &mut seen);
        let before = pair.read_bytes();
        assert!(before[0] > 0 && before[1] > 0, "both rails are in use: {before:?}");
        let mut all: Vec<_> =
            (1..=READS).map(|at| pair.begin(from, LEN, Token(at), &mut seen)).collect();
        while pair.read_bytes()[0] == before[0] {
            pair.progress(&mut seen);
        }
        let cable = CutCable::cut();
        // What was under way may have come before the cut; of this one the first rail brings nothing.
        all.push(pair.begin(from, LEN, Token(READS + 1), &mut seen));
        for reading in all {
            pair.end(reading, &bytes, &mut seen);
        }
        assert_eq!(pair.reader.stats().paths_lost, 1, "{:?}", pair.reader.stats());
        assert!(pair.reader.stats().moved_parts > 0, "{:?}", pair.reader.stats());
        // A path that was given up stays so: what comes now comes by the other.
        let (before, split) = (pair.read_bytes(), pair.reader.stats().split_reads);
        drop(cable);
        let last = pair.begin(from, LEN, Token(101), &mut seen);
        pair.end(last, &bytes, &mut seen);
        assert_eq!(pair.read_bytes(), [before[0], before[1] + LEN as u64]);
        assert_eq!(pair.reader.stats().split_reads, split);
    });
}

#[test]
fn reads_survive_the_end_of_one_device_of_two() {
    // The first rail is over the cable, the second within a device.
    reads_survive_a_cut_cable("one device of two", ["rxe0", "rxe1"], ["rxe1", "rxe1"]);
}

#[test]
fn reads_survive_the_end_of_a_device_beside_sockets() {
    reads_survive_a_cut_cable("a device beside sockets", ["rxe0", "tcp"], ["rxe1", "tcp"]);
}

/// Members have a rail on each device.
struct Devices;

impl Provider for Devices {
    type Iface = MultiRail;
    const NAME: &'static str = "multirail over two devices";
    const EXCLUDED: &'static [Exclusion] = &[IN_ORDER];

    fn unavailable() -> Option<String> {
        std::env::var_os(GUEST).is_none().then(|| ELSEWHERE.to_owned())
    }

    fn open(size: usize) -> (Self, Vec<MultiRail>) {
        let open = |i| member(["rxe0", "rxe1"], i as u64 + 1);
        (Self, (0..size).map(open).collect())
    }
}

mod contract {
    use super::Devices;

    bowline_uct::conformance!(Devices);
}
