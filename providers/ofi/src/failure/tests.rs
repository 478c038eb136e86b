//! Late data of peers that are not dead: they never reach memory that was given back.

use std::time::{Duration, Instant};

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_uct::conformance::Watchdog;
use bowline_uct::{
    AmId, Arrival, EpId, Iface as _, LocalSlice, MemoryDomain as _, OneSided as _, OpenError,
    PeerFailure, Posted, RemoteSlice, Sink, Source, Token, Verdict,
};

use crate::{OfiIface, OfiOptions};

#[derive(Default)]
struct Seen {
    messages: Vec<u64>,
    completed: Vec<(Token, Result<u64, PeerFailure>)>,
    failed: Vec<PeerFailure>,
}

impl Sink for Seen {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.messages.push(arrival.header[0]);
        Verdict::Consumed
    }
    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        self.completed.push((token, result));
    }
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        self.failed.push(how);
    }
}

/// Two interfaces of this process that take each other for peers on another host.
struct Pair {
    near: OfiIface,
    far: OfiIface,
    to_far: EpId,
    to_near: EpId,
    seen: Seen,
    other: Seen,
}

/// Socket providers of libfabric: with `ofi_rxm` in front and without.
const PROVIDERS: [&str; 2] = ["tcp", "net"];
/// Long enough not to fit into the kernel's buffers.
const LEN: usize = 32 << 20;
const PATTERN: u8 = 0xaa;

impl Pair {
    fn new(provider: &str) -> Option<Self> {
        let options = OfiOptions {
            provider: Some(provider.to_owned()),
            far: true,
            lost_after: Duration::from_millis(300),
            ..OfiOptions::default()
        };
        let mut near = match OfiIface::open(options.clone()) {
            Ok(near) => near,
            Err(error) => {
                println!("late data over {provider}: not run: {error}");
                return None;
            }
        };
        let mut far = OfiIface::open(options).expect("a second one");
        let to_far = near.connect(&far.address()).expect("it is there");
        let to_near = far.connect(&near.address()).expect("it is there");
        let (seen, other) = (Seen::default(), Seen::default());
        let mut pair = Self { near, far, to_far, to_near, seen, other };
        while !(pair.near.is_settled() && pair.far.is_settled()) {
            pair.both();
        }
        Some(pair)
    }

    fn both(&mut self) {
        self.near.progress(&mut self.seen, 16);
        self.far.progress(&mut self.other, 16);
    }

    /// The number by which `near` knows `far`.
    fn number(&self) -> u32 {
        *self.near.endpoints.get(self.to_far).expect("not closed")
    }

    /// Progress of `near` alone until the failure was reported: the other side is cut off.
    fn until_failed(&mut self) {
        while self.seen.failed.is_empty() {
            self.near.progress(&mut self.seen, 16);
        }
    }

    /// The network is whole again: both sides make progress for a while.
    fn heal(&mut self) {
        let end = Instant::now() + Duration::from_millis(500);
        while Instant::now() < end {
            self.both();
        }
    }
}

#[test]
fn a_late_answer_to_a_read_reaches_no_memory_that_was_given_back() {
    let name = "a_late_answer_to_a_read_reaches_no_memory_that_was_given_back";
    let _watchdog = Watchdog::start("ofi", name);
    for provider in PROVIDERS {
        for how in [PeerFailure::Unreachable, PeerFailure::Damaged, PeerFailure::Closed] {
            let Some(mut pair) = Pair::new(provider) else { continue };
            let window = pair.far.mem_alloc(LEN).expect("there is memory");
            let start = pair.far.mem_view(window).expect("just made").as_ptr() as u64;
            let packed = pair.far.rkey_pack(window).expect("just made");
            let rkey = pair.near.rkey_unpack(pair.to_far, &packed).expect("a whole key");
            let there = RemoteSlice { address: start, rkey };
            let mut memory = RecvBuf::owned(vec![1; LEN]);
            // SAFETY: the buffer is kept, and left alone, until the operation has ended.
            let into = unsafe { LocalSlice::of_recv(&mut memory, 0, LEN) }.expect("inside");
            let posted = pair.near.get_zcopy(pair.to_far, &[into], there, Token(1));
            assert_eq!(posted, Ok(Posted::InFlight), "{provider}");
            // The question leaves; the answer needs the other side's progress.
            for _ in 0..50 {
                pair.near.progress(&mut pair.seen, 16);
            }
            assert_eq!(pair.seen.completed, [], "{provider}: the other side is cut off");
            let number = pair.number();
            pair.near.fail_peer(number, how);
            pair.until_failed();
            let expected = [(Token(1), Err(how))];
            assert_eq!(pair.seen.completed, expected, "{provider}: answered once, and before");
            assert_eq!(pair.seen.failed, [how], "{provider}");
            // From here on the memory is the caller's.
            let mut memory = memory.into_owned().expect("it was owned");
            memory.fill(PATTERN);
            pair.heal();
            let written = memory.iter().filter(|&&byte| byte != PATTERN).count();
            assert_eq!(written, 0, "{provider}, {how:?}: bytes written after the failure");
        }
    }
}

#[test]
fn the_rest_of_a_peers_write_reaches_no_memory_that_was_given_back() {
    let name = "the_rest_of_a_peers_write_reaches_no_memory_that_was_given_back";
    let _watchdog = Watchdog::start("ofi", name);
    for provider in PROVIDERS {
        let Some(mut pair) = Pair::new(provider) else { continue };
        let memory = RecvBuf::owned(vec![0; LEN]);
        let start = memory.address();
        let handle = pair.near.mem_register(memory).expect("it can be registered");
        let packed = pair.near.rkey_pack(handle).expect("just made");
        let rkey = pair.far.rkey_unpack(pair.to_near, &packed).expect("a whole key");
        let bytes = SendBuf::owned(vec![7; LEN]);
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        let from = unsafe { LocalSlice::of_send(&bytes, 0, LEN) }.expect("inside");
        let there = RemoteSlice { address: start, rkey };
        let posted = pair.far.put_zcopy(pair.to_near, &[from], there, Token(1));
        assert_eq!(posted, Ok(Posted::InFlight), "{provider}");
        let first = |pair: &Pair| {
            let mut byte = [0];
            let view = pair.near.mem_view(handle).expect("registered");
            view.slice(0, 1).expect("inside").copy_out(&mut byte);
            byte[0]
        };
        while first(&pair) == 0 {
            pair.both();
        }
        // The rest of it is on its way, or waits at the other side.
        let number = pair.number();
        pair.near.fail_peer(number, PeerFailure::Unreachable);
        pair.until_failed();
        let memory = pair.near.mem_release(handle).expect("registered").expect("it was ours");
        let mut memory = memory.into_owned().expect("it was owned");
        assert_eq!(memory[LEN - 1], 0, "{provider}: the write had ended before");
        memory.fill(PATTERN);
        pair.heal();
        let written = memory.iter().filter(|&&byte| byte != PATTERN).count();
        assert_eq!(written, 0, "{provider}: bytes written after the failure");
    }
}

/// Rule 4: a provider without connections that could be ended, and no answer.
#[test]
fn an_operation_that_is_never_answered_ends_with_the_endpoint() {
    let name = "an_operation_that_is_never_answered_ends_with_the_endpoint";
    let _watchdog = Watchdog::start("ofi", name);
    let Some(mut pair) = Pair::new("udp;ofi_rxd") else { return };
    let window = pair.far.mem_alloc(LEN).expect("there is memory");
    let start = pair.far.mem_view(window).expect("just made").as_ptr() as u64;
    let packed = pair.far.rkey_pack(window).expect("just made");
    let rkey = pair.near.rkey_unpack(pair.to_far, &packed).expect("a whole key");
    let mut memory = RecvBuf::owned(vec![1; 4096]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let into = unsafe { LocalSlice::of_recv(&mut memory, 0, 4096) }.expect("inside");
    let there = RemoteSlice { address: start, rkey };
    let posted = pair.near.get_zcopy(pair.to_far, &[into], there, Token(1));
    assert_eq!(posted, Ok(Posted::InFlight));
    let number = pair.number();
    pair.near.fail_peer(number, PeerFailure::Damaged);
    pair.until_failed();
    assert_eq!(pair.seen.completed, [(Token(1), Err(PeerFailure::Damaged))]);
    assert!(pair.near.net.is_closed(), "nothing else takes the operation from libfabric");
    let mut memory = memory.into_owned().expect("it was owned");
    memory.fill(PATTERN);
    pair.heal();
    assert!(memory.iter().all(|&byte| byte == PATTERN), "bytes written after the failure");
    // The interface says so, and does nothing that would need an endpoint.
    pair.near.disconnect(pair.to_far);
    let again = pair.near.connect(&pair.far.address());
    assert!(again.is_err(), "there is no endpoint to connect with");
    assert!(pair.near.mem_alloc(4096).is_err());
}

#[test]
fn an_interface_that_is_gone_is_a_failed_peer_at_the_first_connection_and_later() {
    let options = OfiOptions { provider: Some("tcp".to_owned()), ..OfiOptions::default() };
    let open = || OfiIface::open(options.clone());
    let (mut near, met, unmet) = match (open(), open(), open()) {
        (Ok(near), Ok(met), Ok(unmet)) => (near, met, unmet),
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
            return println!("an interface that is gone: not run: {error}");
        }
    };
    let (known, unknown) = (met.address().to_vec(), unmet.address().to_vec());
    near.connect(&known).expect("it is there");
    drop((met, unmet));
    for address in [unknown, known] {
        let mut seen = Seen::default();
        let error = loop {
            near.progress(&mut seen, 16);
            if let Err(error) = near.connect(&address) {
                break error;
            }
        };
        assert!(matches!(error, OpenError::PeerFailed(PeerFailure::Closed)), "{error}");
    }
}

/// An interface of this process, and another one that has sent so many messages to it and was dropped; of
/// these `taken` have been handed over. `None` where the machine lacks the provider.
fn left_by_a_closed_peer(provider: &str, sent: u64, taken: usize) -> Option<(OfiIface, Seen)> {
    let options = OfiOptions { provider: Some(provider.to_owned()), ..OfiOptions::default() };
    let mut near = match OfiIface::open(options.clone()) {
        Ok(near) => near,
        Err(error) => {
            println!("messages of a closed peer over {provider}: not run: {error}");
            return None;
        }
    };
    let mut far = OfiIface::open(options).expect("a second one");
    let to_near = far.connect(&near.address()).expect("it is there");
    let (mut seen, mut other) = (Seen::default(), Seen::default());
    while !far.is_settled() || near.peers[0].under_way > 0 {
        near.progress(&mut seen, 16);
        far.progress(&mut other, 16);
    }
    for number in 0..sent {
        while far.am_short(to_near, AmId::new(1), &[number, 0, 0], &[7; 16]).is_err() {
            far.progress(&mut other, 16);
        }
    }
    while seen.messages.len() < taken {
        near.progress(&mut seen, 1);
        far.progress(&mut other, 1);
    }
    assert_eq!(seen.failed, [], "{provider}");
    drop(far);
    Some((near, seen))
}

/// The end of a peer was noticed before its messages, and nobody polled for a time after that.
#[test]
fn messages_of_a_closed_peer_arrive_however_late_they_are_polled_for() {
    const SENT: u64 = 48;
    let name = "messages_of_a_closed_peer_arrive_however_late_they_are_polled_for";
    let _watchdog = Watchdog::start("ofi", name);
    for provider in ["tcp", "net", "shm"] {
        for taken in [0, 20] {
            let Some((mut near, mut seen)) = left_by_a_closed_peer(provider, SENT, taken) else {
                continue;
            };
            near.check_local_peers();
            while seen.failed.is_empty() {
                std::thread::sleep(2 * super::SILENT_FOR);
                near.progress(&mut seen, 16);
            }
            let expected: Vec<u64> = (0..SENT).collect();
            assert_eq!(seen.messages, expected, "{provider}, {taken} taken before");
            assert_eq!(seen.failed, [PeerFailure::Closed], "{provider}");
        }
    }
}

/// Others keep the queue full, so that it is never found empty.
#[test]
fn a_closed_peer_is_reported_though_the_queue_is_never_empty() {
    let _watchdog =
        Watchdog::start("ofi", "a_closed_peer_is_reported_though_the_queue_is_never_empty");
    let Some((mut near, _)) = left_by_a_closed_peer("tcp", 0, 0) else { return };
    near.check_local_peers();
    std::thread::sleep(super::SILENT_FOR);
    for _ in 0..2 * super::BUSY {
        near.settle_failures(false, false);
    }
    assert_eq!(near.failing, [0], "the queue was not polled");
    for _ in 1..super::BUSY {
        near.settle_failures(true, false);
    }
    assert_eq!(near.failing, [0], "more of its messages may be in the queue");
    near.settle_failures(true, false);
    assert!(near.failing.is_empty());
}

/// Its process, or its connection, was found to have ended before its Close was read.
#[test]
fn a_close_that_is_read_late_says_that_the_peer_closed() {
    let name = "a_close_that_is_read_late_says_that_the_peer_closed";
    let _watchdog = Watchdog::start("ofi", name);
    for provider in ["tcp", "net", "shm"] {
        for (first, reported) in [
            (PeerFailure::Died, PeerFailure::Closed),
            (PeerFailure::Unreachable, PeerFailure::Closed),
            (PeerFailure::Refused, PeerFailure::Refused),
        ] {
            let Some((mut near, mut seen)) = left_by_a_closed_peer(provider, 3, 0) else {
                continue;
            };
            near.fail_peer(0, first);
            while seen.failed.is_empty() {
                near.progress(&mut seen, 16);
            }
            assert_eq!(seen.messages, [0, 1, 2], "{provider}");
            assert_eq!(seen.failed, [reported], "{provider}: {first:?} and a Close");
        }
    }
}
