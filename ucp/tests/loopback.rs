//! The engine against itself: every protocol over the loopback transport, one worker, one thread.

use std::sync::{Arc, Mutex};

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_self::{SelfConfig, SelfIface};
use bowline_ucp::{
    Envelope, Ep, Idle, MatchSpec, OpError, RequestCompletion, SendMode, Sent, SpaceOptions,
    Stages, Waiter, Worker, WorkerParts,
};

struct Spin;

impl Waiter for Spin {
    fn stages(&self) -> Stages {
        Stages { spins: 1000, yields: 1000 }
    }
    fn yield_now(&mut self) {}
    fn sleep(&mut self, idle: Idle<'_>) {
        panic!("the worker waits for what cannot come: {}", idle.waits);
    }
}

pub(crate) fn config(pairs: &[(&str, &str)]) -> Config {
    let tables = [bowline_ucp::SETTINGS, bowline_self::SETTINGS];
    Config::from_pairs(pairs.iter().copied(), &tables).expect("the settings are good")
}

fn worker(config: &Config) -> (Worker, Ep) {
    worker_that_waits(config, Box::new(Spin))
}

pub(crate) fn worker_that_waits(config: &Config, waiter: Box<dyn Waiter>) -> (Worker, Ep) {
    let itself = SelfIface::open(SelfConfig::of(config)).expect("loopback opens");
    let worker = Worker::new(WorkerParts {
        job: 1,
        rank: 0,
        incarnation: 0,
        uid: 42,
        lanes: vec![Box::new(itself)],
        waiter,
        failures: None,
        config: config.clone(),
    })
    .expect("a worker with one lane");
    worker.open_space(0, SpaceOptions::default()).expect("space 0 is new");
    let ep = worker.connect(&worker.address()).expect("a worker reaches itself");
    (worker, ep)
}

fn envelope(tag: u64) -> Envelope {
    Envelope { space: 0, source: 0, tag }
}

fn any() -> MatchSpec {
    MatchSpec { space: 0, source: None, tag: 0, tag_mask: 0 }
}

fn exactly(tag: u64) -> MatchSpec {
    MatchSpec { space: 0, source: Some(0), tag, tag_mask: u64::MAX }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn finish(worker: &Worker, sent: Sent) {
    if let Sent::Pending(id) = sent {
        assert_eq!(worker.wait(id).outcome, Ok(()));
    }
}

const SIZES: &[usize] =
    &[0, 1, 7, 8, 31, 32, 33, 100, 1000, 8191, 8192, 8193, 20_000, 131_072, 131_073, 3_000_000];

fn every_size(config: &Config, mode: SendMode, receive_first: bool) {
    let (worker, ep) = worker(config);
    for &len in SIZES {
        let data = pattern(len, len as u8);
        let receive = || worker.recv(exactly(5), RecvBuf::owned(vec![0; len + 3])).expect("posted");
        let early = receive_first.then(receive);
        let sent = worker.send(ep, envelope(5), SendBuf::owned(data.clone()), mode).expect("sent");
        if !receive_first {
            worker.progress();
            worker.progress();
        }
        let id = early.unwrap_or_else(receive);
        worker.wait_until(|| worker.is_complete(id));
        let (status, bytes) = worker.take_with_buffer(id).expect("it is complete");
        assert_eq!((status.source, status.tag, status.length), (0, 5, len as u64));
        assert_eq!(status.outcome, Ok(()));
        assert_eq!(&bytes.expect("the buffer was owned")[..len], &data[..], "{len} bytes");
        finish(&worker, sent);
    }
}

#[test]
fn every_size_in_every_order() {
    for pairs in [&[][..], &[("BOWLINE_RNDV_THRESHOLD", "64m")], &[("BOWLINE_RNDV_THRESHOLD", "0")]]
    {
        let config = config(pairs);
        for mode in [SendMode::Standard, SendMode::Synchronous] {
            every_size(&config, mode, true);
            every_size(&config, mode, false);
        }
    }
}

#[test]
fn a_long_message_is_cut_and_said_so() {
    let (worker, ep) = worker(&config(&[]));
    for len in [20, 4000, 50_000, 1_000_000] {
        let id = worker.recv(any(), RecvBuf::owned(vec![0; 10])).expect("posted");
        let data = SendBuf::owned(pattern(len, 1));
        let sent = worker.send(ep, envelope(1), data, SendMode::Standard).expect("sent");
        worker.wait_until(|| worker.is_complete(id));
        let (status, bytes) = worker.take_with_buffer(id).expect("complete");
        assert_eq!(
            status.outcome,
            Err(OpError::Truncated { message: len as u64, capacity: 10 }),
            "{len} bytes"
        );
        assert_eq!(bytes.expect("owned"), &pattern(len, 1)[..10]);
        finish(&worker, sent);
    }
}

#[test]
fn synchronous_sends_wait_for_their_match() {
    let (worker, ep) = worker(&config(&[]));
    for len in [4, 4000, 100_000] {
        let data = SendBuf::owned(pattern(len, 1));
        let sent = worker.send(ep, envelope(9), data, SendMode::Synchronous).expect("sent");
        let Sent::Pending(send) = sent else { panic!("nobody has received it") };
        for _ in 0..50 {
            worker.progress();
        }
        assert!(!worker.is_complete(send), "complete before its match");
        let id = worker.recv(exactly(9), RecvBuf::owned(vec![0; len])).expect("posted");
        assert_eq!(worker.wait(id).outcome, Ok(()));
        assert_eq!(worker.wait(send).outcome, Ok(()));
    }
}

#[test]
fn probes_claims_and_cancels() {
    let (worker, ep) = worker(&config(&[]));
    assert_eq!(worker.probe(&any()), None);
    for tag in [3, 4] {
        let data = SendBuf::owned(pattern(tag as usize * 100, 0));
        finish(&worker, worker.send(ep, envelope(tag), data, SendMode::Standard).expect("sent"));
    }
    worker.wait_until(|| worker.probe(&exactly(4)).is_some());
    assert_eq!(worker.probe(&any()).map(|m| (m.tag, m.length)), Some((3, 300)));
    let (info, message) = worker.claim(&exactly(4)).expect("it is there");
    assert_eq!((info.tag, info.length), (4, 400));
    assert_eq!(worker.probe(&exactly(4)), None);
    let id = worker.recv_claimed(message, RecvBuf::owned(vec![0; 400])).expect("received");
    assert_eq!(worker.wait(id).outcome, Ok(()));

    let cancelled = worker.recv(exactly(77), RecvBuf::owned(vec![0; 4])).expect("posted");
    worker.cancel(cancelled);
    assert_eq!(worker.wait(cancelled).outcome, Err(OpError::Cancelled));
    let id = worker.recv(any(), RecvBuf::owned(vec![0; 300])).expect("posted");
    assert_eq!((worker.wait(id).tag, worker.take(id)), (3, None));
}

/// Sends of every kind that wait for their match: short and long ones, in pieces, and such as the
/// receiver fetches.
#[test]
fn sends_are_taken_back_until_they_are_matched() {
    let (worker, ep) = worker(&config(&[("BOWLINE_RNDV_THRESHOLD", "1M")]));
    for &len in SIZES {
        let modes = [SendMode::Synchronous, SendMode::Standard];
        for mode in modes.into_iter().filter(|&m| m == SendMode::Synchronous || len > 1 << 20) {
            let data = pattern(len, 3);
            let send = |tag| {
                let buffer = SendBuf::owned(data.clone());
                match worker.send(ep, envelope(tag), buffer, mode).expect("sent") {
                    Sent::Pending(id) => id,
                    Sent::Done => panic!("{len} bytes went without a match"),
                }
            };
            let (gone, kept) = (send(1), send(2));
            worker.progress();
            worker.cancel(gone);
            worker.cancel(gone);
            assert_eq!(worker.wait(gone).outcome, Err(OpError::Cancelled), "{len} bytes");
            assert_eq!(worker.probe(&exactly(1)), None);
            let buffer = RecvBuf::owned(vec![0; len]);
            let receive = worker.recv(exactly(2), buffer).expect("posted");
            worker.cancel(kept);
            assert_eq!(worker.wait(kept).outcome, Ok(()), "{len} bytes, matched before");
            worker.wait_until(|| worker.is_complete(receive));
            let (status, bytes) = worker.take_with_buffer(receive).expect("complete");
            assert_eq!((status.outcome, bytes.as_deref()), (Ok(()), Some(&data[..])));
            // Claimed is matched.
            let claimed = send(4);
            worker.progress();
            worker.wait_until(|| worker.probe(&exactly(4)).is_some());
            let (_, message) = worker.claim(&exactly(4)).expect("it waits");
            worker.cancel(claimed);
            let receive = worker.recv_claimed(message, RecvBuf::owned(vec![0; len]));
            assert_eq!(worker.wait(receive.expect("posted")).outcome, Ok(()));
            assert_eq!(worker.wait(claimed).outcome, Ok(()), "{len} bytes, claimed before");
        }
    }
}

#[test]
fn messages_for_a_space_not_yet_open_wait() {
    let (worker, ep) = worker(&config(&[]));
    let (dense, sparse) = (9, 1 << 20);
    for space in [dense, sparse] {
        let envelope = Envelope { space, source: 6, tag: 1 };
        let data = SendBuf::owned(vec![space as u8; 5]);
        finish(&worker, worker.send(ep, envelope, data, SendMode::Standard).expect("sent"));
        worker.progress();
        worker.progress();
        let spec = MatchSpec { space, source: Some(6), tag: 1, tag_mask: u64::MAX };
        let refused = worker.recv(spec, RecvBuf::owned(vec![0; 5]));
        assert_eq!(refused.err(), Some(OpError::BadSpace(space)));
        worker.open_space(space, SpaceOptions::default()).expect("new");
        let id = worker.recv(spec, RecvBuf::owned(vec![0; 5])).expect("posted");
        assert_eq!(worker.wait(id).length, 5);
        worker.close_space(space);
    }
}

#[test]
fn messages_that_nobody_will_receive_can_be_dropped() {
    let (worker, ep) = worker(&config(&[]));
    worker.open_space(5, SpaceOptions::default()).expect("new");
    let send = |space, tag, len, mode| {
        let envelope = Envelope { space, source: 6, tag };
        worker.send(ep, envelope, SendBuf::owned(vec![1; len]), mode).expect("sent")
    };
    // Small and large ones, and such whose sender waits for the receiver.
    let mut waiting = Vec::new();
    for (space, tag) in [(9, 1), (9, 2), (1 << 20, 1), (5, 1)] {
        for (len, mode) in
            [(5, SendMode::Standard), (8, SendMode::Synchronous), (4 << 20, SendMode::Standard)]
        {
            waiting.push(((space, tag), send(space, tag, len, mode)));
        }
    }
    for _ in 0..20 {
        worker.progress();
    }
    assert_eq!(worker.early_messages(), 9);
    worker.drop_early(|space, tag| {
        assert_ne!(space, 5, "an open space is not asked about");
        (space, tag) != (9, 2)
    });
    assert_eq!(worker.early_messages(), 3, "what may be received stays");
    worker.open_space(9, SpaceOptions::default()).expect("new");
    assert_eq!(worker.early_messages(), 0);
    for (space, tag, len) in
        [(9, 2, 5), (9, 2, 8), (9, 2, 4 << 20), (5, 1, 5), (5, 1, 8), (5, 1, 4 << 20)]
    {
        let spec = MatchSpec { space, source: Some(6), tag, tag_mask: u64::MAX };
        let id = worker.recv(spec, RecvBuf::owned(vec![0; len])).expect("posted");
        let status = worker.wait(id);
        assert_eq!((status.outcome, status.length), (Ok(()), len as u64));
    }
    let spec = MatchSpec { space: 9, source: None, tag: 0, tag_mask: 0 };
    assert!(worker.probe(&spec).is_none(), "the other message of the space is gone");
    // A sender that waited for a receiver is notified.
    for ((space, tag), sent) in waiting {
        let Sent::Pending(id) = sent else { continue };
        let outcome = worker.wait(id).outcome;
        assert_eq!(
            outcome.is_ok(),
            (space, tag) == (9, 2) || space == 5,
            "{space} {tag}: {outcome:?}"
        );
    }
}

#[test]
fn order_is_kept_across_protocols() {
    let (worker, ep) = worker(&config(&[]));
    let lens: Vec<usize> = (0..200).map(|i| SIZES[i * 7 % 14] + i % 3).collect();
    let mut sends = Vec::new();
    for (i, &len) in lens.iter().enumerate() {
        let data = SendBuf::owned(pattern(len, i as u8));
        sends.push(worker.send(ep, envelope(2), data, SendMode::Standard).expect("sent"));
    }
    for (i, &len) in lens.iter().enumerate() {
        let id = worker.recv(exactly(2), RecvBuf::owned(vec![0; len])).expect("posted");
        worker.wait_until(|| worker.is_complete(id));
        let (status, bytes) = worker.take_with_buffer(id).expect("complete");
        assert_eq!(status.length, len as u64, "message {i}");
        assert_eq!(bytes.expect("owned"), pattern(len, i as u8), "message {i}");
    }
    for sent in sends {
        finish(&worker, sent);
    }
}

#[test]
fn a_million_small_messages_before_the_one_received_first() {
    let (worker, ep) = worker(&config(&[]));
    for i in 0..1_000_000u64 {
        let data = SendBuf::owned(i.to_le_bytes().to_vec());
        finish(&worker, worker.send(ep, envelope(1), data, SendMode::Standard).expect("sent"));
    }
    let last = SendBuf::owned(vec![7]);
    finish(&worker, worker.send(ep, envelope(2), last, SendMode::Standard).expect("sent"));
    let id = worker.recv(exactly(2), RecvBuf::owned(vec![0; 1])).expect("posted");
    assert_eq!(worker.wait(id).length, 1);
    for i in 0..1_000_000u64 {
        let id = worker.recv(exactly(1), RecvBuf::owned(vec![0; 8])).expect("posted");
        worker.wait_until(|| worker.is_complete(id));
        let (_, bytes) = worker.take_with_buffer(id).expect("complete");
        assert_eq!(bytes.expect("owned"), i.to_le_bytes());
    }
}

#[test]
fn active_messages_of_every_size_and_from_handlers() {
    use std::sync::{Arc, Mutex};
    let (worker, ep) = worker(&config(&[]));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    worker.am_handler(
        7,
        Box::new(move |worker, message| {
            let header = message.header().to_vec();
            let Some(data) = message.data().map(<[u8]>::to_vec) else {
                let buffer = RecvBuf::owned(vec![0; message.len() as usize]);
                let id = message.recv(buffer).expect("the sender lives");
                let log = Arc::clone(&log);
                let done = move |_: &Worker, completion: RequestCompletion| {
                    assert_eq!(completion.status.outcome, Ok(()));
                    let data = completion.buffer.expect("it was owned");
                    log.lock().expect("not poisoned").push((header, data));
                };
                return worker.on_complete(id, Box::new(done)).expect("it is there");
            };
            log.lock().expect("not poisoned").push((header, data));
            if message.len() < 5 {
                // A handler may send, and progress.
                let reply = SendBuf::owned(pattern(message.len() as usize + 1, 9));
                let _ = worker.am_send(message.from, 7, b"again", reply).expect("sent");
                worker.progress();
            }
        }),
    );
    for &len in SIZES {
        let sent = worker.am_send(ep, 7, b"head", SendBuf::owned(pattern(len, 3))).expect("sent");
        finish(&worker, sent);
        worker.wait_until(|| {
            let seen = seen.lock().expect("not poisoned");
            seen.iter().any(|(h, d)| h == b"head" && *d == pattern(len, 3))
        });
    }
    worker.wait_until(|| {
        let seen = seen.lock().expect("not poisoned");
        seen.iter().filter(|(h, _)| h == b"again").count() >= 5 + 4
    });
    let missing = worker.am_send(ep, 8, b"", SendBuf::owned(vec![1])).expect("sent");
    finish(&worker, missing);
    worker.progress();
    worker.progress();
    assert_eq!(worker.counters().stray, 1);
}

#[test]
fn blocking_receives_take_every_kind_of_message() {
    for threshold in ["auto", "0", "64m"] {
        let (worker, ep) = worker(&config(&[("BOWLINE_RNDV_THRESHOLD", threshold)]));
        for &len in SIZES {
            for mode in [SendMode::Standard, SendMode::Synchronous] {
                let data = pattern(len, 7);
                let sent = worker.send(ep, envelope(3), SendBuf::owned(data.clone()), mode);
                let sent = sent.expect("sent");
                let mut memory = vec![0; len + 1];
                // SAFETY: the call returns after the receive is complete.
                let buffer = unsafe { RecvBuf::borrowed(memory.as_mut_ptr(), memory.len()) };
                let status = worker.recv_blocking(exactly(3), buffer).expect("space 0 is open");
                assert_eq!((status.source, status.tag, status.length), (0, 3, len as u64));
                assert_eq!(&memory[..len], &data[..], "{len} bytes");
                finish(&worker, sent);
            }
        }
        let sent = worker.send(ep, envelope(3), SendBuf::owned(vec![1; 9]), SendMode::Standard);
        finish(&worker, sent.expect("sent"));
        let cut = worker.recv_blocking(exactly(3), RecvBuf::owned(vec![0; 4]));
        let cut = cut.expect_err("it is longer than its buffer");
        assert_eq!(cut.error(), OpError::Truncated { message: 9, capacity: 4 });
        assert_eq!((cut.status().source, cut.status().tag, cut.status().length), (0, 3, 9));
    }
}

#[test]
fn a_blocking_receive_keeps_its_place_among_those_of_a_handler() {
    use std::sync::{Arc, Mutex};
    let (worker, ep) = worker(&config(&[]));
    let inner = Arc::new(Mutex::new(None));
    let posted = Arc::clone(&inner);
    worker.am_handler(
        1,
        Box::new(move |worker, message| {
            // Posted while the blocking receive below waits: it comes second.
            let id = worker.recv(any(), RecvBuf::owned(vec![0; 1])).expect("space 0 is open");
            *posted.lock().expect("not poisoned") = Some(id);
            for byte in [1, 2] {
                let data = SendBuf::owned(vec![byte]);
                let sent = worker.send(message.from, envelope(4), data, SendMode::Synchronous);
                let Ok(Sent::Pending(id)) = sent else { panic!("nobody has matched it") };
                worker.detach(id);
            }
        }),
    );
    let _ = worker.am_send(ep, 1, b"", SendBuf::empty()).expect("sent");
    let mut first = [0u8];
    // SAFETY: the call returns after the receive is complete.
    let buffer = unsafe { RecvBuf::borrowed(first.as_mut_ptr(), 1) };
    worker.recv_blocking(any(), buffer).expect("space 0 is open");
    assert_eq!(first, [1]);
    let second = inner.lock().expect("not poisoned").expect("the handler ran");
    worker.wait_until(|| worker.is_complete(second));
    let (_, bytes) = worker.take_with_buffer(second).expect("complete");
    assert_eq!(bytes, Some(vec![2]));
}

/// Yields three times; the third shows that yields do not pay. Counts what it is asked for.
#[derive(Clone, Default)]
struct Discouraged(Arc<Mutex<(u32, u32)>>);

impl Waiter for Discouraged {
    fn stages(&self) -> Stages {
        let (yields, _) = *self.0.lock().unwrap();
        Stages { spins: 2, yields: if yields < 3 { 1000 } else { 0 } }
    }
    fn yield_now(&mut self) {
        self.0.lock().unwrap().0 += 1;
    }
    fn sleep(&mut self, _: Idle<'_>) {
        self.0.lock().unwrap().1 += 1;
    }
}

/// A waiter that finds in the midst of a wait that yields do not pay is put to sleep by the same wait.
#[test]
fn a_wait_sleeps_when_its_yields_stop_to_pay() {
    let counts = Discouraged::default();
    let (worker, _) = worker_that_waits(&config(&[]), Box::new(counts.clone()));
    worker.wait_until(|| counts.0.lock().unwrap().1 == 5);
    assert_eq!(*counts.0.lock().unwrap(), (3, 5));

    // Waiting for what no message announces: the same, but the caller is to do the sleeping.
    *counts.0.lock().unwrap() = (0, 0);
    assert!(!worker.yield_until(None, || false));
    assert_eq!(*counts.0.lock().unwrap(), (3, 0));
    // From now on it does not yield at all.
    assert!(!worker.yield_until(None, || false));
    assert_eq!(*counts.0.lock().unwrap(), (3, 0));
}

/// Rank 1 has a processor, rank 2 has none. Counts yields.
#[derive(Clone, Default)]
struct Beside(Arc<Mutex<u32>>);

impl Waiter for Beside {
    fn stages(&self) -> Stages {
        Stages { spins: 8, yields: 1000 }
    }
    fn runs(&self, rank: u32) -> bool {
        rank == 1
    }
    fn yield_now(&mut self) {
        *self.0.lock().unwrap() += 1;
    }
    fn sleep(&mut self, _: Idle<'_>) {}
}

#[test]
fn a_wait_for_a_rank_that_has_a_processor_looks_on_before_it_yields() {
    let yields = Beside::default();
    let (worker, _) = worker_that_waits(&config(&[]), Box::new(yields.clone()));
    let polls_for = |rank, wanted| {
        let mut polls = 0;
        *yields.0.lock().unwrap() = 0;
        assert!(worker.yield_until(rank, || {
            polls += 1;
            polls == wanted
        }));
        *yields.0.lock().unwrap()
    };
    assert_eq!(polls_for(Some(1), 20), 0);
    assert!(polls_for(Some(1), 200) > 0, "it does not poll for ever");
    assert!(polls_for(Some(2), 20) > 10 && polls_for(None, 20) > 10);
}
