//! The engine over a simulated network, one thread, where things come in orders that fast
//! transports hardly ever show.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::sync::atomic::{AtomicU32, Ordering};
use bowline_sim::{Faults, Network, NetworkOptions};
use bowline_ucp::{
    Envelope, Ep, FailureSource, MatchSpec, Members, OpError, SendMode, Sent, SpaceOptions, Worker,
    WorkerParts,
};
use bowline_uct::{AtomicOp, AtomicWidth};

use crate::doubles::{Everybody, config, joined, opened, parts, until};

/// Rank 2 of the job, which is none of the pair, once it is said to be dead.
#[derive(Default)]
struct Third(AtomicU32);

impl FailureSource for &'static Third {
    fn generation(&self) -> u32 {
        // Relaxed: one thread.
        self.0.load(Ordering::Relaxed)
    }
    fn dead(&self, out: &mut Vec<u32>) {
        out.extend((self.generation() > 0).then_some(2));
    }
}

struct Pair {
    /// What reports deaths to each worker.
    thirds: [&'static Third; 2],
    network: Network,
    workers: [Worker; 2],
    eps: [Ep; 2],
}

impl Pair {
    fn new(options: NetworkOptions, settings: &[(&str, &str)]) -> Self {
        let network = Network::new(options);
        let config = config(settings);
        let thirds = [0, 1].map(|_| &*Box::leak(Box::new(Third::default())));
        let workers = [0, 1].map(|rank| {
            let failures: Box<dyn FailureSource> = Box::new(thirds[rank as usize]);
            let parts = parts(rank, Box::new(network.open()), &config);
            let parts = WorkerParts { failures: Some(failures), ..parts };
            opened(parts, 0, SpaceOptions::default())
        });
        let eps = joined(&workers);
        Self { thirds, network, workers, eps }
    }

    /// Progress of both and time, until `done`.
    #[track_caller]
    fn until(&self, done: impl Fn() -> bool) {
        until(&self.network, &self.workers, done);
    }
}

const EVERYTHING: MatchSpec = MatchSpec { space: 0, source: None, tag: 0, tag_mask: 0 };

/// A synchronous message in pieces is matched by its first one, and the answer may come while
/// others wait for space.
#[test]
fn a_synchronous_message_is_answered_before_its_last_piece_is_posted() {
    for (seed, slots) in [(1, 2), (2, 3), (3, 4), (4, 16)] {
        for receive_first in [true, false] {
            let options = NetworkOptions { seed, slots, ..NetworkOptions::default() };
            let settings = [("BOWLINE_RNDV_THRESHOLD", "64m"), ("BOWLINE_EAGER_SHARE_FIRST", "1g")];
            let pair = Pair::new(options, &settings);
            let [sender, receiver] = &pair.workers;
            let data: Vec<u8> = (0..200_000).map(|i| (i % 253) as u8).collect();
            let post = || receiver.recv(EVERYTHING, RecvBuf::owned(vec![0; data.len()]));
            let early = receive_first.then(|| post().expect("posted"));
            let envelope = Envelope { space: 0, source: 0, tag: 9 };
            let buffer = SendBuf::owned(data.clone());
            let sent = sender.send(pair.eps[0], envelope, buffer, SendMode::Synchronous);
            let Ok(Sent::Pending(send)) = sent else { panic!("it cannot be complete: {sent:?}") };
            if !receive_first {
                for _ in 0..200 {
                    sender.progress();
                    receiver.progress();
                    pair.network.advance();
                }
                assert!(!sender.is_complete(send), "nobody has matched it");
            }
            let receive = early.unwrap_or_else(|| post().expect("posted"));
            pair.until(|| sender.is_complete(send) && receiver.is_complete(receive));
            assert_eq!(sender.wait(send).outcome, Ok(()));
            let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
            assert_eq!((status.outcome, status.length), (Ok(()), data.len() as u64));
            assert!(bytes == Some(data), "the bytes changed");
        }
    }
}

/// A message that lies with its sender is read by a get that takes its time.
#[test]
fn reading_from_the_sender_takes_its_time_and_may_be_refused() {
    for (whole_process, one_sided) in [(true, true), (false, true), (false, false)] {
        let faults = Faults { loss: 200_000, retransmit_ns: 5000, ..Faults::default() };
        let options =
            NetworkOptions { seed: 9, whole_process, one_sided, faults, ..Default::default() };
        let pair = Pair::new(options, &[("BOWLINE_RNDV_THRESHOLD", "0")]);
        let [sender, receiver] = &pair.workers;
        for len in [1, 5000, 9_000_000] {
            let data: Vec<u8> = (0..len).map(|i| (i % 253) as u8).collect();
            let receive = receiver.recv(EVERYTHING, RecvBuf::owned(vec![0; len])).expect("posted");
            let envelope = Envelope { space: 0, source: 0, tag: 9 };
            let buffer = SendBuf::owned(data.clone());
            let sent = sender.send(pair.eps[0], envelope, buffer, SendMode::Standard);
            let Ok(Sent::Pending(send)) = sent else { panic!("it is to be fetched: {sent:?}") };
            pair.until(|| sender.is_complete(send) && receiver.is_complete(receive));
            assert_eq!(sender.wait(send).outcome, Ok(()));
            let (_, bytes) = receiver.take_with_buffer(receive).expect("complete");
            assert!(bytes == Some(data), "{len} bytes changed");
        }
        let counters = receiver.counters();
        // What cannot be read is written by its sender, where that can be.
        let expected = match (whole_process, one_sided) {
            (true, _) => (3, 0, 0),
            (false, true) => (0, 3, 0),
            (false, false) => (0, 0, 3),
        };
        assert_eq!((counters.fetched, counters.landed, counters.copied), expected);
    }
}

/// A sender into a collective of which the receiver knows that it cannot succeed is notified
/// which member has failed, before it has heard of that itself.
#[test]
fn a_refused_message_says_whose_failure_it_is() {
    for reported_first in [false, true] {
        for (threshold, len) in [("0", 100), ("64m", 100), ("64m", 100_000)] {
            let options = NetworkOptions { slots: 4, ..NetworkOptions::default() };
            let settings =
                [("BOWLINE_RNDV_THRESHOLD", threshold), ("BOWLINE_EAGER_SHARE_FIRST", "1g")];
            let pair = Pair::new(options, &settings);
            for worker in &pair.workers {
                let members = Some(std::sync::Arc::new(Everybody) as std::sync::Arc<dyn Members>);
                worker
                    .open_space(
                        5,
                        SpaceOptions { members, collective: true, ..SpaceOptions::default() },
                    )
                    .expect("new");
            }
            let [sender, receiver] = &pair.workers;
            // Relaxed: one thread.
            let report = || pair.thirds[1].0.store(1, Ordering::Relaxed);
            let poll = || {
                for _ in 0..200 {
                    receiver.progress();
                }
            };
            if reported_first {
                report();
                poll();
                assert_eq!(receiver.failures(), [2]);
            }
            let envelope = Envelope { space: 5, source: 0, tag: 9 };
            let buffer = SendBuf::owned(vec![1; len]);
            let sent = sender.send(pair.eps[0], envelope, buffer, SendMode::Synchronous);
            let Ok(Sent::Pending(send)) = sent else { panic!("nobody receives it: {sent:?}") };
            for _ in 0..200 {
                sender.progress();
                receiver.progress();
                pair.network.advance();
            }
            if !reported_first {
                assert!(!sender.is_complete(send), "nobody has matched it");
                report();
                poll();
            }
            pair.until(|| sender.is_complete(send));
            assert!(sender.failures().is_empty(), "it has not heard of the death");
            assert_eq!(sender.wait(send).outcome, Err(OpError::MemberFailed { rank: 2 }));
        }
    }
}

/// One-sided operations wait for space in a transport that takes two at a time, and end when their
/// peer does.
#[test]
fn one_sided_operations_wait_for_space() {
    for dies in [false, true] {
        let options = NetworkOptions { seed: 3, outstanding: 2, ..NetworkOptions::default() };
        let pair = Pair::new(options, &[]);
        let [origin, target] = &pair.workers;
        let memory = target.mem_alloc(64 * 1024).expect("the network lends memory");
        let base =
            target.mem_view(memory, |view| view.as_ptr().addr() as u64).expect("it is there");
        let packed = target.rkey_pack(memory).expect("it is there");
        let key = origin.rkey_unpack(pair.eps[0], &packed).expect("the target lent it");
        let mut puts = Vec::new();
        for block in 0..64u64 {
            let buffer = SendBuf::owned(vec![block as u8 + 1; 1024]);
            if let Sent::Pending(put) = origin.put(key, base + block * 1024, buffer).expect("put") {
                puts.push(put);
            }
            let (op, width) = (AtomicOp::Add(1), AtomicWidth::W64);
            origin.atomic_post(key, base + 63 * 1024 + 8, op, width).expect("posted");
        }
        assert!(puts.len() > 32, "two at a time, yet only {} of 64 wait", puts.len());
        if dies {
            pair.network.kill(1);
        }
        pair.until(|| puts.iter().all(|put| origin.is_complete(*put)));
        let failed = puts.iter().filter(|put| origin.wait(**put).outcome.is_err()).count();
        assert_eq!(failed > 0, dies);
        if dies {
            continue;
        }
        let mut fetched = None;
        let (op, width) = (AtomicOp::Add(0), AtomicWidth::W64);
        for _ in 0..8 {
            let word = base + 62 * 1024 + 8;
            if let Err(id) = origin.atomic_fetch(key, word, op, width).expect("posted") {
                fetched = Some(id);
            }
        }
        let fetched = fetched.expect("a network answers later");
        pair.until(|| origin.is_complete(fetched));
        assert_eq!(origin.wait(fetched).length, u64::from_ne_bytes([63; 8]));
        let bytes = target.mem_view(memory, |view| view.to_vec()).expect("it is there");
        for (block, piece) in bytes.chunks(1024).take(63).enumerate() {
            assert!(piece.iter().all(|&byte| byte == block as u8 + 1), "block {block}");
        }
    }
}
