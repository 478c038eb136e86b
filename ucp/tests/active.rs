//! Active messages whose data lies with its sender: received now or later, dropped, refused, and
//! what a death leaves, over a simulated network.

use std::sync::{Arc, Mutex};

use crate::pair::{Pair, pattern};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_sim::NetworkOptions;
use bowline_ucp::{AmKept, OpError, RequestCompletion, RequestId, Sent, WaitsFor, Worker};

type Cell<T> = Arc<Mutex<Vec<T>>>;

fn cell<T>() -> Cell<T> {
    Arc::new(Mutex::new(Vec::new()))
}

fn put<T>(cell: &Cell<T>, value: T) {
    cell.lock().expect("not poisoned").push(value);
}

fn take<T>(cell: &Cell<T>) -> Option<T> {
    cell.lock().expect("not poisoned").pop()
}

fn count<T>(cell: &Cell<T>) -> usize {
    cell.lock().expect("not poisoned").len()
}

fn pending(sent: Result<Sent, OpError>) -> RequestId {
    match sent {
        Ok(Sent::Pending(id)) => id,
        other => panic!("it cannot be complete: {other:?}"),
    }
}

/// Has messages of id 1 kept.
fn keep_all(worker: &Worker) -> Cell<AmKept> {
    let kept = cell();
    let log = Arc::clone(&kept);
    worker.am_handler(1, Box::new(move |_, message| put(&log, message.keep())));
    kept
}

/// What may be read of the sender: its whole memory, memory that it lends, none.
const ACCESS: [(bool, bool); 3] = [(true, true), (false, true), (false, false)];

fn network((whole_process, one_sided): (bool, bool)) -> NetworkOptions {
    NetworkOptions { seed: 5, whole_process, one_sided, ..NetworkOptions::default() }
}

#[test]
fn data_is_fetched_when_the_receiver_wants_it() {
    for access in ACCESS {
        for (header, len) in [(0, 1), (5, 40), (700, 100_000), (0, 9_000_000)] {
            let pair = Pair::new(network(access), &[("BOWLINE_RNDV_THRESHOLD", "0")]);
            let [sender, receiver] = &pair.workers;
            let kept = keep_all(receiver);
            let (head, data) = (pattern(header, 1), pattern(len, 2));
            let buffer = SendBuf::owned(data.clone());
            let send = pending(sender.am_send(pair.eps[0], 1, &head, buffer));
            pair.settle();
            assert!(!sender.is_complete(send), "nobody has received it");
            let message = take(&kept).expect("the handler ran");
            assert_eq!((message.header(), message.len()), (&head[..], len as u64));
            assert!(message.data().is_none(), "it lies with its sender");
            let buffer = RecvBuf::owned(vec![0; len]);
            let receive = receiver.am_recv(message, buffer).expect("the sender lives");
            pair.until(|| receiver.is_complete(receive) && sender.is_complete(send));
            let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
            assert_eq!((status.outcome, status.length), (Ok(()), len as u64));
            assert!(bytes == Some(data), "the bytes changed");
            assert_eq!(sender.wait(send).outcome, Ok(()));
        }
    }
}

#[test]
fn a_short_buffer_cuts_a_message_and_its_sender_is_done() {
    for threshold in ["0", "64m"] {
        let settings = [("BOWLINE_RNDV_THRESHOLD", threshold), ("BOWLINE_EAGER_SHARE_FIRST", "1g")];
        let pair = Pair::new(network(ACCESS[0]), &settings);
        let [sender, receiver] = &pair.workers;
        let kept = keep_all(receiver);
        let sent = sender.am_send(pair.eps[0], 1, b"h", SendBuf::owned(pattern(5000, 3)));
        let sent = sent.expect("sent");
        pair.settle();
        let message = take(&kept).expect("the handler ran");
        let receive = receiver.am_recv(message, RecvBuf::owned(vec![0; 10])).expect("posted");
        pair.until(|| receiver.is_complete(receive));
        let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
        assert_eq!(status.outcome, Err(OpError::Truncated { message: 5000, capacity: 10 }));
        assert_eq!(bytes.expect("owned"), &pattern(5000, 3)[..10]);
        if let Sent::Pending(id) = sent {
            assert_eq!(pair.finish(0, id).outcome, Ok(()));
        }
    }
}

#[test]
fn a_dropped_message_completes_its_sender() {
    let pair = Pair::new(network(ACCESS[0]), &[("BOWLINE_RNDV_THRESHOLD", "0")]);
    let [sender, receiver] = &pair.workers;
    let kept = keep_all(receiver);
    receiver.am_handler(2, Box::new(|_, message| assert!(message.data().is_none())));
    let by_return = pending(sender.am_send(pair.eps[0], 2, b"", SendBuf::owned(vec![1; 100])));
    let by_call = pending(sender.am_send(pair.eps[0], 1, b"", SendBuf::owned(vec![1; 100])));
    let nobodys = pending(sender.am_send(pair.eps[0], 9, b"x", SendBuf::owned(vec![1; 100])));
    pair.settle();
    assert!(!sender.is_complete(by_call), "it is kept");
    receiver.am_drop(take(&kept).expect("the handler ran"));
    assert_eq!(pair.finish(0, by_return).outcome, Ok(()));
    assert_eq!(pair.finish(0, by_call).outcome, Ok(()));
    assert_eq!(pair.finish(0, nobodys).outcome, Err(OpError::NoHandler));
    assert_eq!(receiver.counters().stray, 1);
}

#[test]
fn kept_data_moves_and_stays() {
    let pair = Pair::new(network(ACCESS[0]), &[]);
    let [sender, receiver] = &pair.workers;
    let kept = keep_all(receiver);
    for len in [0, 1, 64, 65, 600] {
        let data = SendBuf::owned(pattern(len, 7));
        let _ = sender.am_send(pair.eps[0], 1, b"head", data).expect("sent");
    }
    pair.until(|| count(&kept) == 5);
    for len in [600, 65, 64, 1, 0] {
        let message = take(&kept).expect("five");
        assert_eq!((message.header(), message.data()), (&b"head"[..], Some(&pattern(len, 7)[..])));
        assert_eq!((message.len(), message.is_empty()), (len as u64, len == 0));
        assert_eq!(message.from(), pair.eps[1]);
        let receive = receiver.am_recv(message, RecvBuf::owned(vec![0; 600])).expect("here");
        let (status, bytes) = receiver.take_with_buffer(receive).expect("complete at once");
        assert_eq!((status.outcome, status.length), (Ok(()), len as u64));
        assert_eq!(bytes.expect("owned")[..len], pattern(len, 7));
    }
}

#[test]
fn headers_have_a_limit_that_can_be_asked_for() {
    for threshold in ["0", "64m"] {
        let pair = Pair::new(network(ACCESS[0]), &[("BOWLINE_RNDV_THRESHOLD", threshold)]);
        let [sender, receiver] = &pair.workers;
        let kept = keep_all(receiver);
        let limit = sender.am_max_header(pair.eps[0]).expect("reachable");
        for len in [0, 1, 3000] {
            let head = pattern(limit, 4);
            let sent = sender.am_send(pair.eps[0], 1, &head, SendBuf::owned(pattern(len, 5)));
            let sent = sent.expect("within the limit");
            pair.until(|| count(&kept) == 1);
            let message = take(&kept).expect("the handler ran");
            assert_eq!((message.header(), message.len()), (&head[..], len as u64));
            receiver.am_drop(message);
            if let Sent::Pending(id) = sent {
                assert_eq!(pair.finish(0, id).outcome, Ok(()));
            }
        }
        let long = pattern(limit + 1, 4);
        let refused = sender.am_send(pair.eps[0], 1, &long, SendBuf::owned(vec![1]));
        assert_eq!(refused.err(), Some(OpError::HeaderTooLong { limit: limit as u64 }));
    }
}

/// The receiver never connected: it answers the sender of the message, and a handler may do
/// that, receive, and progress.
#[test]
fn a_handler_answers_a_peer_never_connected_to() {
    let pair = Pair::new(network(ACCESS[0]), &[("BOWLINE_RNDV_THRESHOLD", "0")]);
    let [asks, answers] = &pair.workers;
    let got = keep_all(asks);
    let requests = cell();
    let log = Arc::clone(&requests);
    answers.am_handler(
        1,
        Box::new(move |worker, message| {
            worker.progress();
            let len = message.len() as usize;
            let from = message.from;
            let id = message.recv(RecvBuf::owned(vec![0; len])).expect("the sender lives");
            let log = Arc::clone(&log);
            let done = move |worker: &Worker, completion: RequestCompletion| {
                let data = SendBuf::owned(completion.buffer.expect("owned"));
                put(&log, worker.am_send(from, 1, b"answer", data).expect("sent"));
            };
            worker.on_complete(id, Box::new(done)).expect("it is there");
        }),
    );
    let sent = pending(asks.am_send(pair.eps[0], 1, b"question", SendBuf::owned(pattern(777, 6))));
    pair.until(|| count(&got) == 1);
    assert_eq!(pair.finish(0, sent).outcome, Ok(()));
    let message = take(&got).expect("an answer");
    assert_eq!(message.header(), b"answer");
    let receive = asks.am_recv(message, RecvBuf::owned(vec![0; 777])).expect("it lives");
    pair.until(|| asks.is_complete(receive));
    let (_, bytes) = asks.take_with_buffer(receive).expect("complete");
    assert_eq!(bytes, Some(pattern(777, 6)));
}

/// Whichever step a rank dies in, a rank that waits for it gets an error or what it waited for.
#[test]
fn a_death_at_any_step_leaves_nobody_waiting() {
    for access in ACCESS {
        for victim in [0, 1] {
            let mut survived = 0;
            for step in 0..4000 {
                let pair = Pair::new(network(access), &[("BOWLINE_RNDV_THRESHOLD", "0")]);
                let [sender, receiver] = &pair.workers;
                let received = cell();
                let log = Arc::clone(&received);
                receiver.am_handler(
                    1,
                    Box::new(move |_, message| {
                        let len = message.len() as usize;
                        put(&log, message.recv(RecvBuf::owned(vec![0; len])));
                    }),
                );
                let data = SendBuf::owned(pattern(30_000, 1));
                let send = pending(sender.am_send(pair.eps[0], 1, b"head", data));
                for _ in 0..step {
                    pair.step();
                }
                pair.network.kill(victim);
                pair.settle();
                if victim == 1 {
                    assert!(sender.is_complete(send), "step {step}: it waits for a dead rank");
                    match sender.wait(send).outcome {
                        Ok(()) => survived += 1,
                        Err(error) => assert!(matches!(error, OpError::PeerFailed(_)), "{error}"),
                    }
                } else if let Some(Ok(receive)) = take(&received) {
                    assert!(receiver.is_complete(receive), "step {step}: it waits for a dead rank");
                    let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
                    match status.outcome {
                        Ok(()) => {
                            assert!(bytes == Some(pattern(30_000, 1)), "step {step}");
                            survived += 1;
                        }
                        Err(error) => assert!(matches!(error, OpError::PeerFailed(_)), "{error}"),
                    }
                }
                if survived > 3 {
                    break;
                }
            }
            assert!(survived > 0, "no run was long enough to see the end, victim {victim}");
        }
    }
}

/// Two ranks that flood each other with messages that need credit: both return it, though their
/// own messages wait in front of what they have to say.
#[test]
fn floods_in_both_directions_do_not_keep_credit_from_each_other() {
    for (header, len) in [(300, 0), (0, 300), (300, 300)] {
        let options = NetworkOptions { slots: 4, ..network(ACCESS[0]) };
        let settings = [("BOWLINE_EAGER_SHARE_FIRST", "1k"), ("BOWLINE_EAGER_SHARE", "1k")];
        let pair = Pair::new(options, &settings);
        let counts: Vec<_> = pair
            .workers
            .iter()
            .map(|worker| {
                let seen = cell();
                let log = Arc::clone(&seen);
                worker.am_handler(
                    1,
                    Box::new(move |_, message| put(&log, message.header().to_vec())),
                );
                seen
            })
            .collect();
        let mut open = Vec::new();
        for _ in 0..100 {
            for rank in 0..2 {
                let head = pattern(header, rank as u8);
                let data = SendBuf::owned(pattern(len, 1));
                let sent = pair.workers[rank].am_send(pair.eps[rank], 1, &head, data);
                if let Sent::Pending(id) = sent.expect("sent") {
                    open.push((rank, id));
                }
            }
        }
        pair.until(|| counts.iter().all(|seen| count(seen) == 100));
        for (rank, id) in open {
            assert_eq!(pair.finish(rank, id).outcome, Ok(()));
        }
        for (rank, seen) in counts.iter().enumerate() {
            assert_eq!(take(seen), Some(pattern(header, 1 - rank as u8)));
        }
    }
}

/// A sender takes messages back: before they leave, while they wait for their handler, while they are
/// kept, and in the midst of a handler. Either the receiver has nothing of it, or the sender is as if it
/// had never asked.
#[test]
fn what_nobody_has_received_can_be_taken_back() {
    for access in ACCESS {
        for steps in 0..40 {
            let pair = Pair::new(network(access), &[("BOWLINE_RNDV_THRESHOLD", "0")]);
            let [sender, receiver] = &pair.workers;
            let kept = keep_all(receiver);
            let data = SendBuf::owned(pattern(50_000, 3));
            let send = pending(sender.am_send(pair.eps[0], 1, b"head", data));
            (0..steps).for_each(|_| _ = pair.step());
            let early = take(&kept).filter(|_| steps % 2 == 0);
            let receive = early.map(|m| receiver.am_recv(m, RecvBuf::owned(vec![0; 50_000])));
            sender.cancel(send);
            sender.cancel(send);
            pair.settle();
            let (status, bytes) = sender.take_with_buffer(send).expect("it has ended");
            assert_eq!(bytes, Some(pattern(50_000, 3)), "its buffer is back");
            match receive {
                Some(receive) => {
                    assert_eq!(status.outcome, Ok(()), "step {steps}: it is being received");
                    let receive = receive.expect("the sender lives");
                    let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
                    assert_eq!((status.outcome, bytes), (Ok(()), Some(pattern(50_000, 3))));
                }
                None => {
                    assert_eq!(status.outcome, Err(OpError::Cancelled), "step {steps}");
                    // One that is still kept can be asked for or dropped, and neither hurts.
                    if let Some(message) = take(&kept) {
                        let refused = receiver.am_recv(message, RecvBuf::owned(vec![0; 50_000]));
                        assert_eq!(refused.err(), Some(OpError::TakenBack));
                    }
                }
            }
            // The next message arrives.
            let send = pending(sender.am_send(pair.eps[0], 1, b"h", SendBuf::owned(vec![1; 100])));
            pair.until(|| count(&kept) > 0);
            receiver.am_drop(take(&kept).expect("the handler ran"));
            assert_eq!(pair.finish(0, send).outcome, Ok(()));
        }
    }
}

#[test]
fn a_message_taken_back_in_its_handler_is_neither_received_nor_dropped() {
    let pair = Pair::new(network(ACCESS[0]), &[("BOWLINE_RNDV_THRESHOLD", "0")]);
    let [sender, receiver] = &pair.workers;
    let seen = cell();
    let (log, time) = (Arc::clone(&seen), pair.network.clone());
    // It polls until the sender has asked for its message, and then receives it, or lets it go.
    receiver.am_handler(
        1,
        Box::new(move |worker, message| {
            put(&log, Ok(()));
            while worker.progress() > 0 || time.advance() {}
            if message.header() == b"receive" {
                put(&log, message.recv(RecvBuf::owned(vec![0; 100])).map(drop));
            }
        }),
    );
    for head in [&b"receive"[..], b"let go"] {
        let send = pending(sender.am_send(pair.eps[0], 1, head, SendBuf::owned(vec![1; 100])));
        // The envelope is on its way, and the question behind it.
        sender.progress();
        let offered = || sender.query(send).map(|info| info.waits_for) == Some(WaitsFor::Receiver);
        assert!(offered(), "it is with the network");
        sender.cancel(send);
        pair.settle();
        assert_eq!(sender.take(send).expect("ended").outcome, Err(OpError::Cancelled));
    }
    let seen: Vec<Result<(), OpError>> = seen.lock().expect("not poisoned").drain(..).collect();
    assert_eq!(seen, [Ok(()), Err(OpError::TakenBack), Ok(())]);
}

/// A handler that panics has had its message; its id keeps it, and what was set aside meanwhile stays.
#[test]
fn a_handler_that_panics_keeps_its_id_and_the_messages_behind_it() {
    let pair = Pair::new(network(ACCESS[0]), &[]);
    let [sender, receiver] = &pair.workers;
    let seen: Cell<Vec<u8>> = cell();
    let log = Arc::clone(&seen);
    receiver.am_handler(
        1,
        Box::new(move |worker, message| {
            let data = message.data().expect("it came along").to_vec();
            put(&log, data.clone());
            if data == [1; 40] {
                // The second message arrives, and is set aside for this handler.
                for _ in 0..20 {
                    worker.progress();
                }
                panic!("the handler's own fault");
            }
        }),
    );
    for number in 1..=3 {
        let sent = sender.am_send(pair.eps[0], 1, &[], SendBuf::owned(vec![number; 40]));
        let _ = sent.expect("the receiver lives");
    }
    pair.network.run_until_quiet();
    sender.progress();
    pair.network.run_until_quiet();
    let progress =
        || std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| receiver.progress()));
    let unwound = (0..100).any(|_| progress().is_err());
    assert!(unwound, "the handler was not called");
    pair.settle();
    let seen = std::mem::take(&mut *seen.lock().expect("not poisoned"));
    assert_eq!(seen, [vec![1; 40], vec![2; 40], vec![3; 40]]);
    assert_eq!(receiver.counters().am_received, 3);
    assert_eq!(receiver.counters().stray, 0);
}
