//! Every protocol, aborted at every step: by the death of either side, by the end of either worker,
//! and by cancelling.

use bowline_sim::{Death, Moment, NetworkOptions};
use bowline_ucp::{CloseMode, OpError, PeerFailure, SendMode, WaitsFor};

use super::ranks::{Ranks, pattern};

const SCHEMES: [&str; 5] = ["auto", "get", "put", "copy", "rtr"];
const LEN: usize = 60_000;

/// Space for two operations at a time, and pieces of 2 KB, so that there are many steps.
fn network(seed: u64) -> NetworkOptions {
    NetworkOptions {
        seed,
        jitter_ns: 500,
        slots: 4,
        outstanding: 2,
        max_bcopy: 2048,
        detect_ns: 20_000,
        ..NetworkOptions::default()
    }
}

fn settings(scheme: &'static str) -> [(&'static str, &'static str); 2] {
    [("BOWLINE_RNDV_THRESHOLD", "0"), ("BOWLINE_RNDV_SCHEME", scheme)]
}

/// One of the two dies instead of its n-th operation; for the other one everything ends, and whole
/// where it ends well.
#[test]
fn either_side_dies_at_any_operation() {
    for scheme in SCHEMES {
        for victim in [0, 1_u32] {
            for nth in 1..60 {
                let when = Moment::Operation(nth);
                let deaths = vec![Death { node: victim, when }];
                let options = NetworkOptions { deaths, ..network(nth) };
                let mut ranks = Ranks::simulated(2, options, &settings(scheme));
                let data = pattern(LEN, 1);
                let receives = [1, 2].map(|tag| ranks.receive(1, Some(0), Some(tag), LEN));
                // The victim's own first operation may be the one.
                let sends = [1, 2].map(|tag| {
                    let sent = ranks.try_send(0, 1, tag, data.clone(), SendMode::Standard);
                    sent.unwrap_or_default()
                });
                let alive =
                    |ranks: &Ranks| ranks.network.as_ref().expect("simulated").is_alive(victim);
                let over = |ranks: &Ranks| match (victim, alive(ranks)) {
                    (_, true) => {
                        sends.iter().flatten().all(|id| ranks.worker(0).is_complete(*id))
                            && receives.iter().all(|id| ranks.worker(1).is_complete(*id))
                    }
                    _ => true,
                };
                ranks.until(|| over(&ranks));
                if !alive(&ranks) {
                    ranks.kill(victim as usize);
                }
                if victim == 0 {
                    ranks.until(|| receives.iter().all(|id| ranks.worker(1).is_complete(*id)));
                    for id in receives {
                        let (status, bytes) = ranks.received(1, id);
                        match status.outcome {
                            Ok(()) => assert!(bytes == data, "{scheme}, operation {nth}"),
                            Err(error) => assert!(
                                matches!(
                                    error,
                                    OpError::PeerFailed(_) | OpError::MemberFailed { .. }
                                ),
                                "{scheme}, operation {nth}: {error}"
                            ),
                        }
                    }
                } else {
                    ranks.until(|| {
                        sends.iter().flatten().all(|id| ranks.worker(0).is_complete(*id))
                    });
                    for id in sends.into_iter().flatten() {
                        let outcome = ranks.worker(0).take(id).expect("complete").outcome;
                        let known = match outcome {
                            Ok(()) => true,
                            Err(error) => matches!(
                                error,
                                OpError::PeerFailed(_) | OpError::MemberFailed { .. }
                            ),
                        };
                        assert!(known, "{scheme}, operation {nth}: {outcome:?}");
                    }
                }
                let survivor = 1 - victim;
                let network = ranks.network.as_ref().expect("simulated");
                assert_eq!(network.memories(survivor), 0, "{scheme}, operation {nth}: left open");
            }
        }
    }
}

/// The same over shared memory, where copies are complete in their calls, in rounds.
#[test]
fn either_side_dies_in_any_round_over_shared_memory() {
    for scheme in SCHEMES {
        for victim in [0, 1] {
            for rounds in 0..24 {
                let mut ranks = Ranks::shared(2, &settings(scheme));
                // Two segments.
                let data = pattern(5 << 20, 1);
                let receive = ranks.receive(1, Some(0), Some(1), data.len());
                let send = ranks.send(0, 1, 1, data.clone()).expect("it waits for its receiver");
                for round in 0..rounds {
                    ranks.worker(round % 2).progress();
                }
                ranks.kill(victim);
                let survivor = 1 - victim;
                let id = if victim == 0 { receive } else { send };
                ranks.until(|| ranks.worker(survivor).is_complete(id));
                let worker = ranks.worker(survivor);
                let (status, bytes) = worker.take_with_buffer(id).expect("complete");
                if victim == 0 && status.outcome.is_ok() {
                    assert!(bytes.is_some_and(|bytes| bytes == data), "{scheme}, {rounds} rounds");
                }
            }
        }
    }
}

/// Either worker is dropped: the other one's operation ends.
#[test]
fn either_worker_ends_in_any_round() {
    for shared in [false, true] {
        for scheme in SCHEMES {
            for victim in [0, 1] {
                for rounds in 0..24 {
                    let mut ranks = if shared {
                        Ranks::shared(2, &settings(scheme))
                    } else {
                        Ranks::simulated(2, network(rounds), &settings(scheme))
                    };
                    let data = pattern(if shared { 5 << 20 } else { LEN }, 1);
                    let receive = ranks.receive(1, Some(0), Some(1), data.len());
                    let send = ranks.send(0, 1, 1, data.clone()).expect("it waits");
                    for round in 0..rounds {
                        ranks.worker(round as usize % 2).progress();
                        if let Some(network) = &ranks.network {
                            network.advance();
                        }
                    }
                    drop(ranks.workers[victim].take());
                    let (survivor, id) = if victim == 0 { (1, receive) } else { (0, send) };
                    ranks.until(|| ranks.worker(survivor).is_complete(id));
                    let worker = ranks.worker(survivor);
                    let (status, bytes) = worker.take_with_buffer(id).expect("complete");
                    if victim == 0 && status.outcome.is_ok() {
                        assert!(bytes.is_some_and(|bytes| bytes == data), "{scheme}, {rounds}");
                    }
                }
            }
        }
    }
}

/// A send or a receive is cancelled in any round: either nothing has happened, or everything.
#[test]
fn either_side_cancels_in_any_round() {
    for scheme in SCHEMES {
        for sender_cancels in [false, true] {
            for rounds in 0..40 {
                for post_first in [false, true] {
                    let ranks = Ranks::simulated(2, network(rounds), &settings(scheme));
                    let data = pattern(LEN, 1);
                    let early = post_first.then(|| ranks.receive(1, Some(0), Some(1), LEN));
                    let send = ranks.send(0, 1, 1, data.clone()).expect("it waits");
                    for _ in 0..rounds {
                        ranks.round();
                        ranks.network.as_ref().expect("simulated").advance();
                    }
                    if sender_cancels {
                        ranks.worker(0).cancel(send);
                    } else if let Some(early) = early {
                        ranks.worker(1).cancel(early);
                    }
                    let first = early.unwrap_or_else(|| ranks.receive(1, Some(0), Some(1), LEN));
                    ranks.run(|| ranks.worker(1).is_complete(first));
                    let received = ranks.worker(1).is_complete(first).then(|| {
                        let (status, bytes) = ranks.received(1, first);
                        if status.outcome.is_ok() {
                            assert!(bytes == data);
                        }
                        status.outcome
                    });
                    // What was not received is, or was taken back.
                    match received {
                        Some(Ok(())) => {
                            ranks.until(|| ranks.worker(0).is_complete(send));
                            assert_eq!(
                                ranks.worker(0).take(send).expect("complete").outcome,
                                Ok(())
                            );
                        }
                        Some(Err(error)) => {
                            assert_eq!(error, OpError::Cancelled);
                            let again = ranks.receive(1, Some(0), Some(1), LEN);
                            ranks.through(0, Some(send), 1, again);
                            assert!(ranks.received(1, again).1 == data);
                        }
                        None => {
                            assert!(sender_cancels);
                            ranks.until(|| ranks.worker(0).is_complete(send));
                            let outcome = ranks.worker(0).take(send).expect("complete").outcome;
                            assert_eq!(outcome, Err(OpError::Cancelled));
                        }
                    }
                }
            }
        }
    }
}

/// The launcher reports a death before the transport does, while an endpoint is being closed: a buffer
/// that the transport reads stays with its send until the transport has reported the operation.
#[test]
fn a_death_in_the_middle_of_a_close_does_not_end_a_write_under_way() {
    for mode in [CloseMode::Flush, CloseMode::Force] {
        let ranks = Ranks::simulated(2, network(1), &settings("put"));
        let sender = ranks.worker(0);
        let receive = ranks.receive(1, Some(0), Some(1), LEN);
        let send = ranks.send(0, 1, 1, pattern(LEN, 1)).expect("it is offered");
        let is_written = || {
            let info = sender.query(send).expect("it was not taken");
            info.waits_for == WaitsFor::Transport && info.moved > 0
        };
        ranks.until(is_written);
        assert!(!ranks.worker(1).is_complete(receive), "it is under way");
        let close = ranks.close(0, 1, mode).expect("it is in use");
        ranks.report_death(1);
        // Time stands still: the transport goes on reading.
        (0..200).for_each(|_| _ = sender.progress());
        let outcome = sender.take(close).expect("nobody answers any more").outcome;
        assert_eq!(outcome.is_ok(), mode == CloseMode::Force, "{outcome:?}");
        assert!(!sender.is_complete(send), "the transport reads its buffer");
        ranks.until(|| sender.is_complete(send));
        let (status, bytes) = ranks.received(0, send);
        assert_eq!(status.outcome, Err(OpError::PeerFailed(PeerFailure::Died)));
        assert!(bytes == pattern(LEN, 1), "its buffer is back");
    }
}

/// A receiver asks for a message, which crosses a forced close: nothing is written or sent to it behind
/// DISCONNECT.
#[test]
fn what_is_asked_for_behind_a_disconnect_is_not_done() {
    const LEN: usize = 1 << 20;
    for scheme in ["auto", "put", "copy"] {
        let [threshold, scheme] = settings(scheme);
        let ranks = Ranks::shared(2, &[threshold, scheme, ("BOWLINE_COOPERATE", "64k")]);
        let (sender, receiver) = (ranks.worker(0), ranks.worker(1));
        // The first message shows that memory can be read, from which on both sides would copy.
        let send = ranks.send(0, 1, 1, pattern(LEN, 1));
        let receive = ranks.receive(1, Some(0), Some(1), LEN);
        ranks.through(0, send, 1, receive);
        let send = ranks.send(0, 1, 2, pattern(LEN, 2)).expect("it is offered");
        let receive = ranks.receive(1, Some(0), Some(2), LEN);
        let asks = || {
            receiver.progress();
            let info = receiver.query(receive).expect("it was not taken");
            info.waits_for == WaitsFor::Data
        };
        assert!((0..1000).any(|_| asks()), "{scheme:?}: the message does not arrive");
        let close = ranks.close(0, 1, CloseMode::Force).expect("it is in use");
        (0..1000).for_each(|_| _ = sender.progress());
        assert!(!sender.is_complete(send), "{scheme:?}: it was brought behind DISCONNECT");
        assert_eq!(
            sender.counters().helped,
            0,
            "{scheme:?}: pieces were written behind DISCONNECT"
        );
        ranks.until(|| sender.is_complete(close) && receiver.is_complete(receive));
        assert_eq!(ranks.received(0, send).0.outcome, Err(OpError::Cancelled));
        let closed = OpError::PeerFailed(PeerFailure::Closed);
        assert_eq!(ranks.received(1, receive).0.outcome, Err(closed));
    }
}

/// Either side closes its endpoint, in both ways, in any turn of a message: everything ends, what is said
/// to have arrived is whole, and no memory stays open.
#[test]
fn either_side_closes_in_any_turn() {
    for scheme in SCHEMES {
        for mode in [CloseMode::Flush, CloseMode::Force] {
            for (from, to) in [(0, 1), (1, 0)] {
                for rounds in 0..40 {
                    let ranks = Ranks::simulated(2, network(rounds), &settings(scheme));
                    let network = ranks.network.as_ref().expect("simulated");
                    let data = pattern(LEN, 1);
                    let receive = ranks.receive(1, Some(0), Some(1), LEN);
                    let send = ranks.send(0, 1, 1, data.clone()).expect("it waits");
                    for _ in 0..rounds {
                        ranks.round();
                        network.advance();
                    }
                    let close = ranks.close(from, to, mode);
                    ranks.until(|| {
                        close.is_none_or(|close| ranks.worker(from).is_complete(close))
                            && ranks.worker(0).is_complete(send)
                    });
                    let what = format!("{scheme}, {mode:?} by {from}, {rounds} rounds");
                    if let Some(close) = close {
                        let closed = ranks.worker(from).take(close).expect("complete");
                        assert_eq!(closed.outcome, Ok(()), "{what}");
                    }
                    // One that was not matched by then is posted still.
                    ranks.worker(1).cancel(receive);
                    ranks.until(|| ranks.worker(1).is_complete(receive));
                    let sent = ranks.received(0, send).0.outcome;
                    let (received, bytes) = ranks.received(1, receive);
                    let closed = Err(OpError::PeerFailed(PeerFailure::Closed));
                    let known = [Ok(()), Err(OpError::Cancelled), closed];
                    assert!(known.contains(&sent), "{what}: {sent:?}");
                    assert!(known.contains(&received.outcome), "{what}: {received:?}");
                    assert!(received.outcome.is_err() || bytes == data, "{what}");
                    assert_eq!([network.memories(0), network.memories(1)], [0, 0], "{what}");
                }
            }
        }
    }
}
