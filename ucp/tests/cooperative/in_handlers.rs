//! Messages that a signal handler begins to share, between threads of one process, where the receive's buffer is lent to its
//! sender. No signal is raised: the tests call what a handler would, in place of calls of the receiver's.

use std::cell::RefCell;
use std::convert::Infallible;

use bowline_ucp::{
    AsyncProgress, DriverKind, LeftToWatch, ProgressDriver, RemoteWorker, WatchedReceive,
};

use super::*;
use crate::doubles::Loans;

/// Does nothing: the tests are the handler.
struct ByHand;

impl ProgressDriver for ByHand {
    fn watch(&mut self, _: WatchedReceive) {}
    fn serve(&mut self) {}
    fn copies_always(&self) -> bool {
        true
    }
    fn pause(&mut self) {}
    fn resume(&mut self, _: LeftToWatch) {}
}

/// The receiver has signals.
struct Signalled {
    pair: Pair,
    handler: RemoteWorker,
    /// What the receiver has lent.
    loans: Loans,
}

const LEN: usize = 1 << 20;

impl Signalled {
    fn new() -> Self {
        let loans = RefCell::new(Vec::new());
        let pair = Pair::over(|lane| {
            let lane = Altered::new(lane, |_| (), |_| true);
            loans.borrow_mut().push(lane.loans());
            Box::new(lane)
        });
        let mut handler = None;
        let installed = pair.receiver.install_progress(DriverKind::Signal, |side| {
            handler = Some(side);
            Ok::<_, Infallible>(Box::new(ByHand))
        });
        installed.expect("nothing is refused");
        let handler = handler.expect("a worker makes its driver");
        let loans = loans.into_inner().pop().expect("the receiver is opened last");
        Self { pair, handler, loans }
    }

    /// A message whose receive is there first.
    fn begin(&self, data: &[u8]) -> (RequestId, RequestId) {
        let receive = self.pair.receive(1, data.len());
        (self.pair.send(1, data.to_vec()), receive)
    }

    /// Rounds of one of the two each, `rounds` in all: of handlers of the receiver, and, as `calls` says, of its own.
    fn rounds(&self, rounds: u64, calls: bool) {
        for round in 0..rounds {
            match round % 4 {
                1 => drop(self.pair.sender.progress()),
                3 if calls => drop(self.pair.receiver.progress()),
                _ => drop(self.signal()),
            }
        }
    }

    fn signal(&self) -> AsyncProgress {
        self.handler.progress_signal_safe(|| false)
    }
}

/// The sender computes, too: the handler asks it to help, and leaves the copy to both.
#[test]
fn a_handler_begins_and_both_copy_in_their_waits() {
    let signalled = Signalled::new();
    let Signalled { pair, loans, .. } = &signalled;
    let data = pattern(LEN, 1);
    let (send, receive) = signalled.begin(&data);
    // It begins, and sees later whether the sender comes.
    let _ = signalled.signal();
    for _ in 0..10 {
        assert_eq!(signalled.signal(), AsyncProgress::Left, "the sender computes");
    }
    assert_eq!(pair.receiver.counters().shared, 1, "the handler has not begun to share it");
    assert_eq!((loans.standing(), loans.by_handlers()), (1, 1));
    pair.until(|| pair.sender.is_complete(send) && pair.receiver.is_complete(receive));
    assert_eq!(loans.standing(), 0, "the buffer is lent still");
    assert!(pair.received(receive) == (Ok(()), data));
    let helped = pair.sender.counters().helped;
    assert!((4..=12).contains(&helped), "{helped} of 16 pieces");
}

/// The sender waits: it copies all, and is acknowledged, before the receiver makes a call, which takes the loan back.
#[test]
fn a_sender_that_waits_copies_all_and_is_acknowledged_by_a_handler() {
    let signalled = Signalled::new();
    let Signalled { pair, loans, .. } = &signalled;
    let data = pattern(LEN, 2);
    let (send, receive) = signalled.begin(&data);
    for _ in 0..1000 {
        let _ = signalled.signal();
        pair.sender.progress();
    }
    assert!(pair.sender.is_complete(send), "nothing moves while the receiver computes");
    assert_eq!(pair.sender.counters().helped, 16);
    assert_eq!(signalled.signal(), AsyncProgress::Idle, "nothing is left to handlers");
    assert!(!pair.receiver.is_complete(receive), "the loan is taken back by a call");
    assert_eq!((loans.standing(), loans.by_handlers()), (1, 1));
    pair.receiver.progress();
    assert!(pair.receiver.is_complete(receive));
    assert_eq!(loans.standing(), 0, "the buffer is lent still");
    assert!(pair.received(receive) == (Ok(()), data));
    // Nothing is acknowledged twice, which the sender would reject.
    for _ in 0..1000 {
        pair.sender.progress();
        pair.receiver.progress();
    }
    let (send, receive) = signalled.begin(&pattern(LEN, 3));
    pair.until(|| pair.sender.is_complete(send) && pair.receiver.is_complete(receive));
    assert!(pair.received(receive) == (Ok(()), pattern(LEN, 3)));
}

/// What handlers may lend is used again; messages beyond it are read by the receiver alone.
#[test]
fn loans_of_handlers_are_limited_and_come_back() {
    let signalled = Signalled::new();
    let Signalled { pair, loans, .. } = &signalled;
    for round in 1..4 {
        let before = loans.by_handlers();
        // All receives first: to post one is a call, which would take in what has come.
        let receives: Vec<_> = (1..=24).map(|tag| pair.receive(tag, 2 * LEAST)).collect();
        let send = |(tag, receive)| (pair.send(tag, pattern(2 * LEAST, tag)), receive, tag);
        let all: Vec<_> = (1..).zip(receives).map(send).collect();
        for _ in 0..100 {
            let _ = signalled.signal();
        }
        let lent = loans.by_handlers() - before;
        assert!((8..24).contains(&lent), "{lent} loans of handlers in round {round}");
        for (send, receive, tag) in all {
            pair.until(|| pair.sender.is_complete(send) && pair.receiver.is_complete(receive));
            assert!(pair.received(receive) == (Ok(()), pattern(2 * LEAST, tag)));
        }
        assert_eq!(loans.standing(), 0, "a buffer is lent still");
    }
}

/// Either side may die in any round: the other one's operation ends, and nothing stays lent.
#[test]
fn either_side_may_die_in_any_round_of_a_handler() {
    let mut begun = 0;
    for case in 0..160 {
        let (rounds, receiver_dies, calls) = (case / 4, case % 2 == 0, case % 4 < 2);
        let signalled = Signalled::new();
        let data = pattern(LEN, 1);
        let (send, receive) = signalled.begin(&data);
        signalled.rounds(rounds, calls);
        begun += signalled.loans.by_handlers();
        let Signalled { pair: Pair { job, sender, receiver, .. }, handler, loans } = signalled;
        let (dead, rank, survivor, id) = if receiver_dies {
            (receiver, 1, &sender, send)
        } else {
            (sender, 0, &receiver, receive)
        };
        // As a crash: nothing is closed, and the launcher reports it.
        std::mem::forget(dead);
        job.mark_dead(rank);
        for _ in 0..10_000 {
            if !receiver_dies && !calls {
                let _ = handler.progress_signal_safe(|| false);
            }
            survivor.progress();
        }
        assert!(survivor.is_complete(id), "died after {rounds} rounds, rank {rank}");
        assert!(receiver_dies || loans.standing() == 0, "lent after {rounds} rounds");
        let (status, bytes) = survivor.take_with_buffer(id).expect("complete");
        match status.outcome {
            Ok(()) if !receiver_dies => assert!(bytes.is_some_and(|bytes| bytes == data)),
            Ok(()) => {}
            Err(error) => assert_eq!(error, OpError::PeerFailed(PeerFailure::Died)),
        }
    }
    assert!(begun > 100, "handlers have begun to share {begun} messages of 160");
}

/// A receiver that is dropped in any round leaves nothing to write to.
#[test]
fn a_receiver_is_dropped_in_any_round_of_a_handler() {
    for rounds in 0..40 {
        let signalled = Signalled::new();
        let (send, _) = signalled.begin(&pattern(LEN, 1));
        signalled.rounds(rounds, rounds % 2 == 0);
        let Signalled { pair: Pair { sender, receiver, .. }, handler, .. } = signalled;
        // As a driver's goes with its worker.
        drop((handler, receiver));
        let helped = sender.counters().helped;
        for _ in 0..10_000 {
            sender.progress();
        }
        assert_eq!(sender.counters().helped, helped, "it wrote after {rounds} rounds");
        assert!(sender.is_complete(send), "dropped after {rounds} rounds");
    }
}

/// Either side closes its endpoint, or cancels, in any round: everything ends, and nothing stays lent.
#[test]
fn either_side_closes_or_cancels_in_any_round_of_a_handler() {
    let closed = Err(OpError::PeerFailed(PeerFailure::Closed));
    for mode in [None, Some(CloseMode::Flush), Some(CloseMode::Force)] {
        for by_sender in [true, false] {
            let mut whole = 0;
            for rounds in 0..60 {
                let signalled = Signalled::new();
                let Signalled { pair, loans, .. } = &signalled;
                let back = pair.receiver.connect(&pair.sender.address()).expect("reachable");
                let data = pattern(LEN, rounds);
                let (send, receive) = signalled.begin(&data);
                signalled.rounds(rounds, rounds % 2 == 0);
                let (worker, ep, id) = match by_sender {
                    true => (&pair.sender, pair.to, send),
                    false => (&pair.receiver, back, receive),
                };
                let close = mode.map(|mode| match worker.close(ep, mode).expect("it is open") {
                    Sent::Pending(close) => close,
                    Sent::Done => panic!("the two have talked"),
                });
                if mode.is_none() {
                    worker.cancel(id);
                }
                for _ in 0..4 {
                    let _ = signalled.signal();
                }
                let ended = || close.is_none_or(|close| worker.is_complete(close));
                for _ in 0..1000 {
                    pair.sender.progress();
                    pair.receiver.progress();
                }
                // One that had not been matched by then is posted still.
                pair.receiver.cancel(receive);
                if !pair.sender.is_complete(send) {
                    pair.sender.cancel(send);
                }
                pair.until(|| ended() && pair.sender.is_complete(send));
                assert!(pair.receiver.is_complete(receive), "{mode:?} after {rounds} rounds");
                assert_eq!(loans.standing(), 0, "{mode:?} after {rounds} rounds");
                let sent = pair.sender.take(send).expect("complete").outcome;
                let (received, bytes) = pair.received(receive);
                let known = [Ok(()), Err(OpError::Cancelled), Err(OpError::BadRemote), closed];
                assert!(known.contains(&sent), "{mode:?}: {sent:?}");
                assert!(known.contains(&received), "{mode:?}: {received:?}");
                if received.is_ok() {
                    assert!(bytes == data, "{mode:?} after {rounds} rounds: the bytes changed");
                    whole += 1;
                }
            }
            println!("{mode:?}, by the sender: {by_sender}: {whole} of 60 were whole");
        }
    }
}
