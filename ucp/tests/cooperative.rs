//! Messages that receiver and sender copy together, over shared memory, both driven by one thread:
//! every order of their rounds that a schedule of bits can say, and with either side gone.

mod in_handlers;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::job::{JobMemory, JobSpec};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_ucp::{
    CloseMode, Envelope, Ep, MatchSpec, OpError, PeerFailure, RequestId, SendMode, Sent,
    SpaceOptions, Worker,
};
use bowline_uct::Iface;
use proptest::prelude::*;

use crate::doubles::{Altered, config, opened, parts};

struct Pair {
    job: JobMemory,
    sender: Worker,
    receiver: Worker,
    to: Ep,
}

const LEAST: usize = 64 << 10;

impl Pair {
    fn new() -> Self {
        Self::over(|lane| Box::new(lane))
    }

    /// Over interfaces that `made` makes of those of shared memory.
    fn over(made: impl Fn(ShmIface) -> Box<dyn Iface>) -> Self {
        let options = ShmOptions::default();
        let job_id = 1;
        let area_bytes = options.area_bytes();
        let spec = JobSpec { job_id, ranks: 2, first_rank: 0, area_bytes };
        let job = JobMemory::create_private(&spec).expect("two ranks fit into memory");
        let worker = |rank| {
            job.attach(rank).expect("the place is free");
            let lane = ShmIface::open(job.clone(), rank, options.clone()).expect("a fresh rank");
            let settings = [("BOWLINE_COOPERATE", "64k"), ("BOWLINE_RNDV_THRESHOLD", "32k")];
            opened(parts(rank, made(lane), &config(&settings)), 0, SpaceOptions::default())
        };
        let (sender, receiver) = (worker(0), worker(1));
        let to = sender.connect(&receiver.address()).expect("they reach each other");
        let pair = Self { job, sender, receiver, to };
        // The first message proves that the sender's memory can be read, and is not shared.
        let (send, receive) = (pair.send(0, vec![1; LEAST]), pair.receive(0, LEAST));
        pair.until(|| pair.sender.is_complete(send) && pair.receiver.is_complete(receive));
        assert_eq!(pair.receiver.counters().shared, 0);
        pair
    }

    fn send(&self, tag: u64, data: Vec<u8>) -> RequestId {
        let envelope = Envelope { space: 0, source: 0, tag };
        let sent = self.sender.send(self.to, envelope, SendBuf::owned(data), SendMode::Standard);
        match sent.expect("sent") {
            Sent::Pending(id) => id,
            Sent::Done => panic!("a message of this size waits for its receiver"),
        }
    }

    fn receive(&self, tag: u64, len: usize) -> RequestId {
        let spec = MatchSpec { space: 0, source: Some(0), tag, tag_mask: u64::MAX };
        self.receiver.recv(spec, RecvBuf::owned(vec![0; len])).expect("posted")
    }

    fn until(&self, done: impl Fn() -> bool) {
        for _ in 0..1_000_000 {
            if done() {
                return;
            }
            self.sender.progress();
            self.receiver.progress();
        }
        panic!("it never happened");
    }

    fn received(&self, id: RequestId) -> (Result<(), OpError>, Vec<u8>) {
        let (status, bytes) = self.receiver.take_with_buffer(id).expect("complete");
        (status.outcome, bytes.expect("the buffer was owned"))
    }
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let word = |i: usize| (i as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..len).map(|i| word(i) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    /// Several messages at once, of any length, into buffers that may be too short; which side runs
    /// when is random, and now and then one of the two has none for long.
    #[test]
    fn everything_arrives_in_any_order_of_rounds(
        messages in proptest::collection::vec((LEAST..700_000usize, 0..3u8), 1..5),
        rounds in proptest::collection::vec((any::<bool>(), 1..40u8), 1..40),
    ) {
        let pair = Pair::new();
        let mut under_way = Vec::new();
        for (tag, &(len, cut)) in (1u64..).zip(&messages) {
            let data = pattern(len, tag);
            // Shorter than a shared message, or than the sent one, or as long.
            let capacity = match cut { 0 => len, 1 => len - 1, _ => len - LEAST / 2 };
            let send = pair.send(tag, data.clone());
            under_way.push((send, pair.receive(tag, capacity), data, capacity));
        }
        for &(receiver, many) in &rounds {
            let worker = if receiver { &pair.receiver } else { &pair.sender };
            for _ in 0..many {
                worker.progress();
            }
        }
        for (send, receive, data, capacity) in under_way {
            pair.until(|| pair.sender.is_complete(send) && pair.receiver.is_complete(receive));
            prop_assert_eq!(pair.sender.take(send).map(|status| status.outcome), Some(Ok(())));
            let (outcome, bytes) = pair.received(receive);
            let cut = Err(OpError::Truncated { message: data.len() as u64, capacity: capacity as u64 });
            prop_assert_eq!(outcome, if capacity < data.len() { cut } else { Ok(()) });
            prop_assert!(bytes == data[..capacity], "the bytes of a message of {}", data.len());
        }
        let counters = pair.receiver.counters();
        prop_assert_eq!(counters.copied, 0);
        // Cursors are free again: more messages than there are cursors, one after the other.
        for tag in 100..170 {
            let (send, receive) = (pair.send(tag, pattern(LEAST, tag)), pair.receive(tag, LEAST));
            pair.until(|| pair.sender.is_complete(send) && pair.receiver.is_complete(receive));
            prop_assert!(pair.received(receive).1 == pattern(LEAST, tag));
        }
        prop_assert!(pair.receiver.counters().shared >= counters.shared + 70);
    }
}

/// While the receiver works the sender helps, from the back.
#[test]
fn both_sides_copy() {
    let pair = Pair::new();
    let data = pattern(4 << 20, 1);
    let (send, receive) = (pair.send(1, data.clone()), pair.receive(1, data.len()));
    pair.until(|| pair.sender.is_complete(send) && pair.receiver.is_complete(receive));
    assert!(pair.received(receive).1 == data);
    let helped = pair.sender.counters().helped;
    assert!((4..=12).contains(&helped), "{helped} of 16 pieces");
}

/// A piece that a transport has no resources for is copied later, and fails nothing.
#[test]
fn a_piece_waits_for_resources() {
    let pair =
        Pair::over(|lane| Box::new(Altered::new(lane, |_| (), |read| read.is_multiple_of(3))));
    for (tag, away) in (1..).zip([false, true, false]) {
        let data = pattern((1 << 20) + 5, tag);
        let (send, receive) = (pair.send(tag, data.clone()), pair.receive(tag, data.len()));
        if away {
            for _ in 0..1000 {
                pair.receiver.progress();
            }
        }
        pair.until(|| pair.sender.is_complete(send) && pair.receiver.is_complete(receive));
        let (outcome, bytes) = pair.received(receive);
        assert_eq!(outcome, Ok(()));
        assert!(bytes == data);
    }
    assert_eq!(pair.receiver.counters().shared, 3);
}

/// A sender that computes is not waited for: the receiver has everything, and the sender learns of
/// it when it comes by.
#[test]
fn the_receiver_goes_on_alone() {
    let pair = Pair::new();
    let data = pattern(1 << 20, 1);
    let (send, receive) = (pair.send(1, data.clone()), pair.receive(1, data.len()));
    for _ in 0..1000 {
        pair.receiver.progress();
    }
    assert!(pair.receiver.is_complete(receive));
    assert!(pair.received(receive).1 == data);
    assert!(!pair.sender.is_complete(send));
    pair.until(|| pair.sender.is_complete(send));
    assert_eq!(pair.sender.counters().helped, 0);
}

/// A sender that has helped and then computes is not waited for either, however far it came.
#[test]
fn a_sender_that_goes_away_is_not_waited_for() {
    for rounds in 1..20 {
        let pair = Pair::new();
        let data = pattern(1 << 20, 1);
        let (send, receive) = (pair.send(1, data.clone()), pair.receive(1, data.len()));
        for _ in 0..5 {
            pair.receiver.progress();
        }
        for _ in 0..rounds {
            pair.sender.progress();
        }
        for _ in 0..1000 {
            pair.receiver.progress();
        }
        assert!(pair.receiver.is_complete(receive), "the sender went after {rounds} rounds");
        assert!(pair.received(receive).1 == data);
        pair.until(|| pair.sender.is_complete(send));
        assert!(rounds < 5 || pair.sender.counters().helped > 0);
    }
}

/// With more messages than cursors the rest is read by the receiver alone.
#[test]
fn messages_beyond_the_cursors_arrive() {
    let pair = Pair::new();
    let all: Vec<_> = (1..=100)
        .map(|tag| (pair.send(tag, pattern(LEAST, tag)), pair.receive(tag, LEAST), tag))
        .collect();
    for (send, receive, tag) in all {
        pair.until(|| pair.sender.is_complete(send) && pair.receiver.is_complete(receive));
        assert!(pair.received(receive).1 == pattern(LEAST, tag));
    }
}

/// Either side may die in any round: the other one's operation ends, with an error unless the
/// message was whole.
#[test]
fn either_side_may_die_in_any_round() {
    for rounds in 0..40 {
        for receiver_dies in [false, true] {
            let pair = Pair::new();
            let data = pattern(1 << 20, 1);
            let (send, receive) = (pair.send(1, data.clone()), pair.receive(1, data.len()));
            for round in 0..rounds {
                if round % 3 == 0 {
                    pair.sender.progress()
                } else {
                    pair.receiver.progress()
                };
            }
            let Pair { job, sender, receiver, .. } = pair;
            let (dead, rank, survivor, id) = if receiver_dies {
                (receiver, 1, &sender, send)
            } else {
                (sender, 0, &receiver, receive)
            };
            // As a crash: nothing is closed, and the launcher reports it.
            std::mem::forget(dead);
            job.mark_dead(rank);
            for _ in 0..10_000 {
                survivor.progress();
            }
            assert!(survivor.is_complete(id), "died after {rounds} rounds, rank {rank}");
            let (status, bytes) = survivor.take_with_buffer(id).expect("complete");
            match status.outcome {
                Ok(()) if !receiver_dies => assert!(bytes.is_some_and(|bytes| bytes == data)),
                Ok(()) => {}
                Err(error) => assert_eq!(error, OpError::PeerFailed(PeerFailure::Died)),
            }
        }
    }
}

/// A receiver that is dropped while its sender is about to help leaves nothing to write to.
#[test]
fn a_receiver_is_dropped_in_any_round() {
    for rounds in 0..40 {
        let pair = Pair::new();
        let data = pattern(1 << 20, 1);
        let (send, _) = (pair.send(1, data.clone()), pair.receive(1, data.len()));
        for round in 0..rounds {
            if round % 3 == 0 {
                pair.sender.progress()
            } else {
                pair.receiver.progress()
            };
        }
        let Pair { sender, receiver, .. } = pair;
        drop(receiver);
        let helped = sender.counters().helped;
        for _ in 0..10_000 {
            sender.progress();
        }
        assert_eq!(sender.counters().helped, helped, "it wrote after {rounds} rounds");
        assert!(sender.is_complete(send), "dropped after {rounds} rounds");
    }
}

/// Either side closes its endpoint, in both modes, in any round of a message that both copy: everything
/// ends, and what is said to have arrived is whole.
#[test]
fn either_side_closes_in_the_middle() {
    let closed = Err(OpError::PeerFailed(PeerFailure::Closed));
    for mode in [CloseMode::Flush, CloseMode::Force] {
        for by_sender in [true, false] {
            let mut whole = 0;
            for rounds in 0..60 {
                let pair = Pair::new();
                let data = pattern(1 << 20, rounds);
                let back = pair.receiver.connect(&pair.sender.address()).expect("reachable");
                let (send, receive) = (pair.send(7, data.clone()), pair.receive(7, data.len()));
                for round in 0..rounds {
                    let worker = if round % 3 == 0 { &pair.sender } else { &pair.receiver };
                    worker.progress();
                }
                let (worker, ep) =
                    if by_sender { (&pair.sender, pair.to) } else { (&pair.receiver, back) };
                let close = match worker.close(ep, mode).expect("it is open") {
                    Sent::Pending(close) => close,
                    Sent::Done => panic!("the two have talked"),
                };
                pair.until(|| worker.is_complete(close) && pair.sender.is_complete(send));
                for _ in 0..100 {
                    pair.sender.progress();
                    pair.receiver.progress();
                }
                // One that had not been matched by then is posted still.
                pair.receiver.cancel(receive);
                assert_eq!(worker.take(close).expect("complete").outcome, Ok(()));
                let sent = pair.sender.take(send).expect("complete").outcome;
                let (received, bytes) = pair.received(receive);
                let known = [Ok(()), Err(OpError::Cancelled), closed];
                let refused = Err(OpError::BadRemote);
                assert!(known.contains(&sent) || sent == refused, "{mode:?}: {sent:?}");
                assert!(known.contains(&received), "{mode:?}: {received:?}");
                if received.is_ok() {
                    assert!(bytes == data, "{mode:?} after {rounds} rounds: the bytes changed");
                    whole += 1;
                }
                if by_sender && mode == CloseMode::Flush {
                    assert_eq!((sent, received), (Ok(()), Ok(())), "a flush loses nothing");
                }
            }
            println!("{mode:?}, by the sender: {by_sender}: {whole} of 60 were whole");
        }
    }
}
