//! Latency and bandwidth of the bare transport between two pinned processes.
//!
//! ```text
//! cargo run --release -p bowline-tcp --example tcp_pingpong [--in NETNS] [round trips] [blocks]
//! ```
//!
//! The second process runs in the network namespace `NETNS` if one is given, so that the route leads
//! through a veth pair instead of loopback. Settings come from the environment (`BOWLINE_TCP_*`).
//! Times of a shared machine wander; what they are compared with belongs into the same minute.

use std::process::{Command, Stdio};
use std::time::Instant;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_tcp::{SETTINGS, TcpIface, TcpOptions};
use bowline_uct::{
    AmId, Arrival, EpId, Iface, LocalSlice, MemoryDomain, OneSided, PeerFailure, PostError, Posted,
    RemoteSlice, RkeyId, Sink, Source, Token, Verdict,
};
use rustix::thread::{CpuSet, sched_setaffinity};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const SECRET: [u8; 32] = [0x51; 32];
const MEGABYTE: usize = 1 << 20;
/// Messages of a megabyte in a window.
const WINDOW: usize = 16;

/// What a message is for.
mod id {
    use bowline_uct::AmId;
    pub(crate) const HELLO: AmId = AmId::new(0);
    pub(crate) const PING: AmId = AmId::new(1);
    pub(crate) const DATA: AmId = AmId::new(2);
    pub(crate) const DONE: AmId = AmId::new(3);
    pub(crate) const END: AmId = AmId::new(4);
}

/// Counts what arrives; data go where a receiver would put them.
struct Counter {
    pings: u64,
    bytes: usize,
    done: u64,
    completed: u64,
    failed: bool,
    ended: bool,
    hello: Vec<u8>,
    space: Vec<u8>,
}

impl Counter {
    fn new() -> Self {
        let space = vec![0; MEGABYTE + (1 << 20)];
        Self {
            pings: 0,
            bytes: 0,
            done: 0,
            completed: 0,
            failed: false,
            ended: false,
            hello: Vec::new(),
            space,
        }
    }
}

impl Sink for Counter {
    #[inline]
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        match arrival.id {
            id::PING => {
                arrival.payload.copy_out(&mut self.space[..8]);
                self.pings += 1;
            }
            id::DATA => {
                let at = self.bytes % MEGABYTE;
                self.bytes += arrival.payload.copy_out(&mut self.space[at..]);
            }
            id::HELLO => self.hello = arrival.payload.to_vec(),
            id::DONE => self.done += 1,
            id::END => self.ended = true,
            _ => {}
        }
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, result: Result<u64, PeerFailure>) {
        self.failed |= result.is_err();
        self.completed += 1;
    }
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, _: PeerFailure) {
        self.failed = true;
    }
}

struct Side {
    iface: TcpIface,
    seen: Counter,
    ep: EpId,
}

impl Side {
    fn open(cpu: usize) -> Outcome<Self> {
        let mut cpus = CpuSet::new();
        cpus.set(cpu);
        sched_setaffinity(None, &cpus)?;
        let config = Config::from_env(&[SETTINGS])?;
        let iface = TcpIface::open(TcpOptions::from_config(&config, SECRET))?;
        Ok(Self { iface, seen: Counter::new(), ep: EpId(0) })
    }

    #[inline]
    fn until(&mut self, mut done: impl FnMut(&Counter) -> bool) {
        while !done(&self.seen) {
            self.iface.progress(&mut self.seen, 16);
            assert!(!self.seen.failed, "the other process has ended");
        }
    }

    #[inline]
    fn retry<T>(&mut self, mut post: impl FnMut(&mut TcpIface, EpId) -> Result<T, PostError>) -> T {
        loop {
            match post(&mut self.iface, self.ep) {
                Ok(posted) => return posted,
                Err(PostError::NoResource) => {
                    self.iface.progress(&mut self.seen, 16);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn short(&mut self, id: AmId) {
        self.retry(|iface, ep| iface.am_short(ep, id, &[1, 2, 3], &[7; 8]));
    }
}

fn main() -> Outcome<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "--echo") {
        return echo(&args[1]);
    }
    let mut prefix = Vec::new();
    if args.first().is_some_and(|arg| arg == "--in") {
        prefix = vec!["ip".to_owned(), "netns".into(), "exec".into(), args[1].clone()];
        args.drain(..2);
    }
    let trips: u64 = args.first().map_or(Ok(20_000), |text| text.parse())?;
    let blocks: usize = args.get(1).map_or(Ok(11), |text| text.parse())?;
    let mut side = Side::open(0)?;
    let own = std::env::current_exe()?.to_string_lossy().into_owned();
    prefix.extend([own, "--echo".to_owned(), hex(&side.iface.address())]);
    let mut child = Command::new(&prefix[0]).args(&prefix[1..]).stdin(Stdio::null()).spawn()?;
    side.until(|seen| !seen.hello.is_empty());
    let (address, rest) = side.seen.hello.split_at(side.seen.hello.len() - 48);
    let (address, rest) = (address.to_vec(), rest.to_vec());
    side.ep = side.iface.connect(&address)?;
    for route in side.iface.explain(&address)? {
        println!("{route}");
    }
    let (remote, key) = rest.split_at(8);
    let remote = u64::from_le_bytes(remote.try_into()?);
    let rkey = side.iface.rkey_unpack(side.ep, key)?;
    latency(&mut side, trips, blocks);
    messages(&mut side, blocks);
    one_sided(&mut side, blocks, remote, rkey);
    let idle = idle(&mut side);
    println!("idle progress: {idle:.0} ns a call");
    side.short(id::END);
    child.wait()?;
    println!("{:?}", side.iface.counters());
    Ok(())
}

fn show(what: &str, unit: &str, values: &mut [f64]) {
    values.sort_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    println!("{what}: median {:.2} {unit} ({least:.2} to {most:.2})", values[values.len() / 2]);
}

fn latency(side: &mut Side, trips: u64, blocks: usize) {
    let mut all = Vec::new();
    for block in 0..=blocks {
        let start = Instant::now();
        for _ in 0..trips {
            let seen = side.seen.pings;
            side.short(id::PING);
            side.until(|counter| counter.pings != seen);
        }
        // The first block warms up.
        if block > 0 {
            all.push(start.elapsed().as_nanos() as f64 / (2000 * trips) as f64);
        }
    }
    show("am short, 8 bytes, one way", "us", &mut all);
}

fn rate(bytes: usize, start: Instant) -> f64 {
    bytes as f64 / start.elapsed().as_secs_f64() / 1e9
}

/// Megabytes in messages of the longest kind, from one buffer into one buffer.
fn messages(side: &mut Side, blocks: usize) {
    let most = side.iface.attr().limits.am.max_zcopy;
    let buffer = SendBuf::owned(vec![5; MEGABYTE]);
    let mut tokens = 0;
    for (name, packed) in [("am bcopy, 1 MB", true), ("am zcopy, 1 MB", false)] {
        let mut all = Vec::new();
        for block in 0..=blocks {
            let (start, done) = (Instant::now(), side.seen.done);
            for _ in 0..WINDOW * 4 {
                let mut at = 0;
                while at < MEGABYTE {
                    let len = most.min(MEGABYTE - at);
                    let bytes = &buffer.contiguous().expect("in one piece")[at..at + len];
                    if packed {
                        side.retry(|iface, ep| {
                            let mut pack =
                                |space: bowline_base::view::View<'_>| space.copy_in(bytes);
                            iface.am_bcopy(ep, id::DATA, &[0; 3], len, &mut pack)
                        });
                    } else {
                        // SAFETY: the buffer stays until the operation has ended, which is waited for below.
                        let piece =
                            unsafe { LocalSlice::of_send(&buffer, at, len) }.expect("inside");
                        let posted = side.retry(|iface, ep| {
                            iface.am_zcopy(ep, id::DATA, &[0; 3], &[piece], Token(1))
                        });
                        tokens += u64::from(posted == Posted::InFlight);
                    }
                    at += len;
                }
            }
            side.until(|seen| seen.done != done);
            if block > 0 {
                all.push(rate(4 * WINDOW * MEGABYTE, start));
            }
        }
        side.until(|seen| seen.completed == tokens);
        show(name, "GB/s", &mut all);
    }
}

/// Megabytes read from and written to the other's memory.
fn one_sided(side: &mut Side, blocks: usize, address: u64, rkey: RkeyId) {
    let at = RemoteSlice { address, rkey };
    let mut buffer = RecvBuf::owned(vec![0; MEGABYTE]);
    // SAFETY: the buffer stays until the operation has ended, which is waited for below.
    let piece = unsafe { LocalSlice::of_recv(&mut buffer, 0, MEGABYTE) }.expect("all of it");
    for (name, get) in [("get zcopy, 1 MB", true), ("put zcopy, 1 MB", false)] {
        let mut all = Vec::new();
        for block in 0..=blocks {
            let start = Instant::now();
            let mut wanted = side.seen.completed;
            for _ in 0..WINDOW * 4 {
                let posted = side.retry(|iface, ep| {
                    if get {
                        iface.get_zcopy(ep, &[piece], at, Token(1))
                    } else {
                        iface.put_zcopy(ep, &[piece], at, Token(1))
                    }
                });
                wanted += u64::from(posted == Posted::InFlight);
            }
            let posted = side.retry(|iface, ep| iface.flush(ep, Token(2)));
            wanted += u64::from(posted == Posted::InFlight);
            side.until(|seen| seen.completed == wanted);
            if block > 0 {
                all.push(rate(4 * WINDOW * MEGABYTE, start));
            }
        }
        show(name, "GB/s", &mut all);
    }
}

fn idle(side: &mut Side) -> f64 {
    const CALLS: u32 = 100_000;
    let start = Instant::now();
    for _ in 0..CALLS {
        side.iface.progress(&mut side.seen, 16);
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn echo(parent: &str) -> Outcome<()> {
    let mut side = Side::open(1)?;
    side.ep = side.iface.connect(&unhex(parent)?)?;
    let memory = side.iface.mem_alloc(MEGABYTE)?;
    let start = side.iface.mem_view(memory).ok_or("allocated above")?.as_ptr() as u64;
    let mut hello = side.iface.address();
    hello.extend_from_slice(&start.to_le_bytes());
    hello.extend_from_slice(&side.iface.rkey_pack(memory)?);
    side.retry(|iface, ep| iface.am_short(ep, id::HELLO, &[0; 3], &hello));
    let (mut answered, mut bytes) = (0, 0);
    while !side.seen.ended {
        side.iface.progress(&mut side.seen, 16);
        if side.seen.failed {
            return Ok(());
        }
        if side.seen.pings != answered {
            answered = side.seen.pings;
            side.short(id::PING);
        }
        if side.seen.bytes >= bytes + 4 * WINDOW * MEGABYTE {
            bytes += 4 * WINDOW * MEGABYTE;
            side.short(id::DONE);
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Outcome<Vec<u8>> {
    let pairs = (0..text.len()).step_by(2);
    Ok(pairs.map(|at| u8::from_str_radix(&text[at..at + 2], 16)).collect::<Result<_, _>>()?)
}
