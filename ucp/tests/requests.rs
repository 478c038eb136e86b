//! Requests: asked about, tested, cancelled, detached, and called back when they are complete.

use std::sync::{Arc, Mutex};

use crate::pair::{Pair, pattern};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_sim::NetworkOptions;
use bowline_ucp::{
    Envelope, MatchSpec, OpError, OperationKind, RequestCompletion, RequestId, SendMode, Sent,
    StreamReceived, StreamWant, WaitsFor, Worker,
};

const ANY: MatchSpec = MatchSpec { space: 0, source: None, tag: 0, tag_mask: 0 };
const TO: Envelope = Envelope { space: 0, source: 0, tag: 5 };

fn pending(sent: Result<Sent, OpError>) -> RequestId {
    match sent {
        Ok(Sent::Pending(id)) => id,
        other => panic!("it cannot be complete: {other:?}"),
    }
}

#[test]
fn a_query_says_what_a_request_waits_for() {
    let pair = Pair::new(NetworkOptions::default(), &[("BOWLINE_RNDV_THRESHOLD", "100")]);
    let [a, b] = &pair.workers;
    let ask = |worker: &Worker, id| {
        let info = worker.query(id).expect("it is there");
        assert_eq!(info.status.is_some(), worker.is_complete(id), "{info}");
        (info.operation, info.rank, info.length, info.waits_for)
    };
    let send =
        pending(a.send(pair.eps[0], TO, SendBuf::owned(pattern(900, 1)), SendMode::Standard));
    pair.settle();
    assert_eq!(ask(a, send), (OperationKind::TagSend, Some(1), 900, WaitsFor::Receiver));
    let active = pending(a.am_send(pair.eps[0], 1, b"", SendBuf::owned(pattern(800, 1))));
    assert_eq!(ask(a, active).0, OperationKind::AmSend);
    let receive = b.recv(ANY, RecvBuf::owned(vec![0; 1000])).expect("posted");
    assert_eq!(ask(b, receive), (OperationKind::Receive, Some(0), 900, WaitsFor::Data));
    let later = b.recv(ANY, RecvBuf::owned(vec![0; 10])).expect("posted");
    assert_eq!(ask(b, later), (OperationKind::Receive, None, 10, WaitsFor::Arrival));
    let buffer = RecvBuf::owned(vec![0; 7]);
    let stream = match b.stream_recv(pair.eps[1], buffer, StreamWant::ALL).expect("alive") {
        StreamReceived::Pending(id) => id,
        done => panic!("nothing was sent: {done:?}"),
    };
    let _ = a.stream_send(pair.eps[0], SendBuf::owned(vec![1; 3])).expect("alive");
    pair.until(|| b.is_complete(receive));
    pair.settle();
    assert_eq!(ask(b, stream), (OperationKind::StreamReceive, Some(0), 7, WaitsFor::Arrival));
    assert_eq!(b.query(stream).map(|info| info.moved), Some(3));
    assert_eq!(ask(b, receive).3, WaitsFor::Nothing);
    // Asked, tested and peeked at, it is still there.
    assert_eq!(b.peek(receive).map(|status| status.length), Some(900));
    assert_eq!(b.query(receive).and_then(|info| info.status), b.peek(receive));
    assert_eq!(b.take(receive).map(|status| status.outcome), Some(Ok(())));
    assert_eq!((b.query(receive), b.peek(receive)), (None, None));
    assert!(b.is_complete(receive), "what was taken is complete");
    b.cancel(later);
    let shown = b.query(later).map(|info| info.to_string()).expect("cancelled, not taken");
    assert!(shown.contains("cancelled"), "{shown}");
}

/// Pieces are on their way: both sides say how far they came, and the death of the sender ends the receive.
#[test]
fn a_query_says_how_many_pieces_have_come() {
    let options = NetworkOptions { slots: 2, ..NetworkOptions::default() };
    let settings = [("BOWLINE_RNDV_THRESHOLD", "64m"), ("BOWLINE_EAGER_SHARE_FIRST", "1g")];
    let pair = Pair::new(options, &settings);
    let [a, b] = &pair.workers;
    let receive = b.recv(ANY, RecvBuf::owned(vec![0; 200_000])).expect("posted");
    let buffer = SendBuf::owned(pattern(200_000, 1));
    let send = pending(a.send(pair.eps[0], TO, buffer, SendMode::Standard));
    pair.until(|| b.query(receive).is_some_and(|info| info.moved > 0));
    let [sending, receiving] =
        [a.query(send), b.query(receive)].map(|info| info.expect("it is under way"));
    assert_eq!((receiving.rank, receiving.length), (Some(0), 200_000), "{receiving}");
    assert_eq!((sending.waits_for, receiving.waits_for), (WaitsFor::Resource, WaitsFor::Data));
    assert!(receiving.moved <= sending.moved && sending.moved < 200_000, "{sending}, {receiving}");
    pair.network.kill(0);
    pair.until(|| b.is_complete(receive));
    assert!(b.wait(receive).outcome.is_err());
}

#[test]
fn a_callback_runs_in_a_later_progress_and_may_call_in() {
    let pair = Pair::new(NetworkOptions::default(), &[]);
    let [a, b] = &pair.workers;
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let log = Arc::clone(&log);
        move |worker: &Worker, completion: RequestCompletion| {
            // It may ask, post and progress.
            worker.progress();
            let next = worker.recv(ANY, RecvBuf::owned(vec![0; 4])).expect("posted");
            worker.cancel(next);
            assert_eq!(worker.wait(next).outcome, Err(OpError::Cancelled));
            let entry = (what, completion.status.outcome, completion.buffer);
            log.lock().expect("not poisoned").push(entry);
        }
    };
    let count = || log.lock().expect("not poisoned").len();
    // One that completes by an arrival.
    let receive = b.recv(ANY, RecvBuf::owned(vec![0; 3])).expect("posted");
    b.on_complete(receive, Box::new(note("arrived"))).expect("there");
    assert_eq!(b.on_complete(receive, Box::new(note("twice"))), Err(OpError::BadRequest));
    let _ = a.send(pair.eps[0], TO, SendBuf::owned(vec![7; 3]), SendMode::Standard).expect("sent");
    pair.until(|| count() == 1);
    assert!(b.query(receive).is_none(), "it was freed");
    // One that is cancelled: not inside of the call.
    let receive = b.recv(ANY, RecvBuf::owned(vec![0; 3])).expect("posted");
    b.on_complete(receive, Box::new(note("cancelled"))).expect("there");
    b.cancel(receive);
    assert_eq!(count(), 1);
    b.progress();
    assert_eq!(count(), 2);
    // One that is complete before it has a callback.
    let receive = b.recv(ANY, RecvBuf::owned(vec![0; 3])).expect("posted");
    b.cancel(receive);
    b.on_complete(receive, Box::new(note("late"))).expect("there");
    assert_eq!(count(), 2);
    b.progress();
    // And one that a death completes.
    let synchronous = SendMode::Synchronous;
    let send = pending(a.send(pair.eps[0], TO, SendBuf::owned(vec![1; 9]), synchronous));
    a.on_complete(send, Box::new(note("died"))).expect("there");
    pair.network.kill(1);
    pair.settle();
    let log = log.lock().expect("not poisoned");
    let ends: Vec<_> = log.iter().map(|(what, outcome, _)| (*what, outcome.is_ok())).collect();
    assert_eq!(ends, [("arrived", true), ("cancelled", false), ("late", false), ("died", false)]);
    assert_eq!(log[0].2, Some(vec![7; 3]));
    assert_eq!(log[3].2, Some(vec![1; 9]), "the buffer comes back");
}

#[test]
fn a_detached_request_leaves_nothing() {
    let pair = Pair::new(NetworkOptions::default(), &[("BOWLINE_RNDV_THRESHOLD", "0")]);
    let [a, b] = &pair.workers;
    let send = pending(a.send(pair.eps[0], TO, SendBuf::owned(vec![3; 99]), SendMode::Standard));
    a.detach(send);
    assert_eq!(a.on_complete(send, Box::new(|_, _| {})), Err(OpError::BadRequest));
    let receive = b.recv(ANY, RecvBuf::owned(vec![0; 99])).expect("posted");
    assert_eq!(pair.finish(1, receive).outcome, Ok(()));
    pair.settle();
    assert!(a.query(send).is_none(), "it was freed by its end");
}
