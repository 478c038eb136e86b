//! Closing endpoints, in every state of what is under way, and connecting anew.

use std::sync::{Arc, Mutex};

use crate::sides::Sides;
use bowline_sim::{Faults, NetworkOptions};
use bowline_ucp::{
    CloseMode, ConnectError, EpOptions, EpState, ErrorMode, OpError, PeerFailure, SendMode, Sent,
};

const CLOSED: OpError = OpError::PeerFailed(PeerFailure::Closed);

/// What an error handler was called with.
#[derive(Clone, Default)]
struct Reported(Arc<Mutex<Vec<PeerFailure>>>);

impl Reported {
    fn options(&self) -> EpOptions {
        let reported = self.clone();
        let on_error: bowline_ucp::ErrorHandler = Box::new(move |worker, ep, how| {
            // No borrow is held: the handler may ask, and its send fails.
            assert!(worker.ep_info(ep).is_some());
            worker.progress();
            reported.0.lock().expect("no test panics with it").push(how);
        });
        EpOptions { errors: ErrorMode::Peer, on_error: Some(on_error) }
    }

    fn all(&self) -> Vec<PeerFailure> {
        self.0.lock().expect("no test panics with it").clone()
    }
}

fn small(slots: u32, seed: u64) -> NetworkOptions {
    let faults = Faults { loss: 50_000, retransmit_ns: 5000, ..Faults::default() };
    NetworkOptions { seed, slots, faults, ..NetworkOptions::default() }
}

#[test]
fn an_endpoint_that_was_never_used_closes_at_once() {
    let sides = Sides::new(2, NetworkOptions::default(), &[]);
    let ep = sides.connect(0, 1);
    assert_eq!(sides.workers[0].ep_info(ep).expect("there").state, EpState::Idle);
    assert!(matches!(sides.workers[0].close(ep, CloseMode::Flush), Ok(Sent::Done)));
    assert!(
        matches!(sides.send(0, ep, vec![1], SendMode::Standard), Err(error) if error == CLOSED)
    );
    let again = sides.connect(0, 1);
    assert_ne!(ep, again, "a closed endpoint stays closed");
}

/// Everything sent before a close that waits arrives, by every protocol, and the peer is notified in
/// order.
#[test]
fn a_close_that_waits_delivers_everything() {
    for (slots, threshold) in [(2, "64m"), (3, "0"), (64, "auto")] {
        for seed in 0..8 {
            let settings =
                [("BOWLINE_RNDV_THRESHOLD", threshold), ("BOWLINE_EAGER_SHARE_FIRST", "1g")];
            let sides = Sides::new(2, small(slots, seed), &settings);
            let reported = [Reported::default(), Reported::default()];
            let to = sides.workers[0]
                .connect_with(&sides.workers[1].address(), reported[0].options())
                .expect("reachable");
            let lengths = [3, 40, 9000, 100_000, 0, 70_000];
            let mut sends = Vec::new();
            for (at, &len) in lengths.iter().enumerate() {
                let mode = if at % 2 == 0 { SendMode::Standard } else { SendMode::Synchronous };
                sends.push(sides.send(0, to, vec![at as u8; len], mode).expect("sent"));
            }
            let back = sides.connect(1, 0);
            let (worker, handler) =
                (&sides.workers[1], reported[1].options().on_error.expect("one"));
            worker.on_error(back, handler).expect("it is new");
            let close = sides.workers[0].close(to, CloseMode::Flush).expect("it is open");
            assert!(matches!(
                sides.send(0, to, vec![1], SendMode::Standard),
                Err(OpError::EndpointClosed)
            ));
            let again = sides.workers[0].connect(&sides.workers[1].address());
            assert!(matches!(again, Err(ConnectError::Closing { rank: 1 })), "{again:?}");
            sides.rounds(500);
            let Sent::Pending(id) = close else { panic!("nobody has received yet") };
            assert!(!sides.workers[0].is_complete(id), "synchronous messages are not matched");
            let receives: Vec<_> = lengths.iter().map(|&len| sides.recv(1, len)).collect();
            assert_eq!(sides.end(0, Ok(Sent::Pending(id))).outcome, Ok(()));
            for (at, send) in sends.into_iter().enumerate() {
                assert_eq!(sides.end(0, Ok(send)).outcome, Ok(()), "send {at}");
            }
            for (at, receive) in receives.into_iter().enumerate() {
                sides.until(|| sides.workers[1].is_complete(receive));
                let (status, bytes) = sides.workers[1].take_with_buffer(receive).expect("done");
                assert_eq!(status.outcome, Ok(()));
                assert_eq!(bytes, Some(vec![at as u8; lengths[at]]));
            }
            assert_eq!(reported[1].all(), [PeerFailure::Closed], "reported once, and in order");
            assert_eq!(reported[0].all(), [], "the closer is not notified");
            let state = |at: usize, ep| sides.workers[at].ep_info(ep).expect("it was there").state;
            assert_eq!(state(0, to), EpState::Ended(PeerFailure::Closed));
            assert_eq!(state(1, back), EpState::Ended(PeerFailure::Closed));
        }
    }
}

/// After a close the same two workers meet anew, from either side, many times.
#[test]
fn connecting_after_a_close_makes_a_fresh_endpoint() {
    // Over the transport's own messages, and over receive queues of each kind.
    let queues = ["auto", "scmp", "scmp-seq", "ring", "auto", "scmp"];
    for (seed, queue) in queues.into_iter().enumerate() {
        let sides = Sides::new(2, small(3, seed as u64), &[("BOWLINE_RECV_QUEUE", queue)]);
        let mut eps = Vec::new();
        for round in 0..40u8 {
            let (from, to) = if round % 3 == 0 { (1, 0) } else { (0, 1) };
            let ep = sides.connect(from, to);
            assert!(!eps.contains(&(from, ep)), "an endpoint came back from the dead");
            eps.push((from, ep));
            let receive = sides.recv(to, 1000);
            let sent = sides.send(from, ep, vec![round; 1000], SendMode::Standard);
            sides.end(from, sent).outcome.expect("the peer is there");
            sides.until(|| sides.workers[to].is_complete(receive));
            let (_, bytes) = sides.workers[to].take_with_buffer(receive).expect("complete");
            assert_eq!(bytes, Some(vec![round; 1000]));
            // One side closes, the other, or both at once.
            let close = |at: usize, to: usize| {
                let ep = sides.workers[at].connect(&sides.workers[to].address());
                ep.map(|ep| sides.workers[at].close(ep, CloseMode::Flush))
            };
            let first = close(from, to).expect("connected");
            let second = (round % 2 == 0).then(|| close(to, from));
            assert_eq!(sides.end(from, first).outcome, Ok(()));
            if let Some(Ok(second)) = second {
                assert_eq!(sides.end(to, second).outcome, Ok(()));
            }
            sides.rounds(200);
        }
        let counters = sides.workers[0].counters();
        assert_eq!(counters.stray, 0);
    }
}

/// A close that does not wait cancels; a buffer that the peer may be reading stays until it has
/// answered.
#[test]
fn a_forced_close_cancels_what_is_under_way() {
    for (threshold, read) in [("64m", false), ("0", true)] {
        let settings = [("BOWLINE_RNDV_THRESHOLD", threshold), ("BOWLINE_EAGER_SHARE_FIRST", "1g")];
        let sides = Sides::new(2, small(4, 3), &settings);
        let to = sides.connect(0, 1);
        let Ok(Sent::Pending(send)) = sides.send(0, to, vec![7; 300_000], SendMode::Synchronous)
        else {
            panic!("nobody has matched it")
        };
        if read {
            // Its envelope has arrived, and the receive reads piece by piece.
            sides.rounds(200);
        }
        let receive = sides.recv(1, 300_000);
        sides.workers[1].progress();
        let close = sides.workers[0].close(to, CloseMode::Force).expect("it is open");
        assert_eq!(
            sides.workers[0].is_complete(send),
            !read,
            "a peer that may be read from stays, everything else ends"
        );
        assert_eq!(sides.end(0, Ok(close)).outcome, Ok(()));
        let outcome = sides.workers[0].take(send).expect("it has ended").outcome;
        assert!(matches!(outcome, Err(OpError::Cancelled) | Ok(())), "{outcome:?}");
        if !read {
            // Nothing of it had left: the receive waits for somebody else.
            sides.workers[1].cancel(receive);
        }
        sides.until(|| sides.workers[1].is_complete(receive));
        let outcome = sides.workers[1].take(receive).expect("it has ended").outcome;
        let fine = [Err(CLOSED), Err(OpError::Cancelled), Ok(())];
        assert!(fine.contains(&outcome), "{outcome:?}");
        sides.connect(0, 1);
    }
}

/// A close that waits for a message that nobody receives can be forced.
#[test]
fn a_close_that_waits_too_long_is_forced() {
    let sides = Sides::new(2, NetworkOptions::default(), &[("BOWLINE_RNDV_THRESHOLD", "0")]);
    let to = sides.connect(0, 1);
    let send = sides.send(0, to, vec![1; 5000], SendMode::Standard).expect("offered");
    let close = sides.workers[0].close(to, CloseMode::Flush).expect("open");
    sides.rounds(300);
    let again = sides.workers[0].close(to, CloseMode::Flush);
    assert!(matches!(again, Err(OpError::EndpointClosed)), "{again:?}");
    let forced = sides.workers[0].close(to, CloseMode::Force);
    assert_eq!(sides.end(0, forced).outcome, Ok(()));
    assert_eq!(sides.end(0, Ok(close)).outcome, Ok(()), "both requests end");
    assert_eq!(sides.end(0, Ok(send)).outcome, Err(OpError::Cancelled));
    // The envelope that lies at the receiver leads nowhere.
    let receive = sides.recv(1, 5000);
    sides.until(|| sides.workers[1].is_complete(receive));
    assert_eq!(sides.workers[1].take(receive).expect("done").outcome, Err(CLOSED));
}

/// A send that the peer's answer ends is its user's at once: no peer can read its buffer any more then.
#[test]
fn memory_of_a_cancelled_send_is_closed_before_its_user_has_it() {
    let options =
        NetworkOptions { exposes: true, whole_process: false, ..NetworkOptions::default() };
    let sides = Sides::new(2, options, &[("BOWLINE_RNDV_THRESHOLD", "0")]);
    let to = sides.connect(0, 1);
    let sent = sides.send(0, to, vec![1; 5000], SendMode::Standard);
    let Ok(Sent::Pending(send)) = sent else { panic!("nobody has received it: {sent:?}") };
    sides.rounds(300);
    assert_eq!(sides.network.memories(0), 1, "the receiver may read it");
    let close = sides.workers[0].close(to, CloseMode::Force);
    sides.until(|| sides.workers[0].is_complete(send));
    assert_eq!(sides.network.memories(0), 0, "it is open, and its user's");
    assert_eq!(sides.end(0, close).outcome, Ok(()));
}

/// What the peer was doing when it hears of a close ends with an error that says so, and its handler
/// is called once.
#[test]
fn the_peer_of_a_close_is_notified_in_order() {
    let settings = [("BOWLINE_RNDV_THRESHOLD", "0")];
    let sides = Sides::new(2, NetworkOptions::default(), &settings);
    let (reported, there) = (Reported::default(), sides.connect(0, 1));
    let back = sides.workers[1].connect_with(&sides.workers[0].address(), reported.options());
    let back = back.expect("reachable");
    let sent = sides.send(0, there, vec![], SendMode::Standard);
    let receive = sides.recv(1, 0);
    sides.until(|| sides.workers[1].is_complete(receive));
    let waits = sides.send(1, back, vec![1; 100], SendMode::Standard);
    sides.rounds(100);
    let _ = sides.end(0, sent);
    let close = sides.workers[0].close(there, CloseMode::Flush);
    assert_eq!(sides.end(0, close).outcome, Ok(()), "an unmatched message does not hold it up");
    assert_eq!(sides.end(1, waits).outcome, Err(CLOSED));
    sides.rounds(200);
    assert_eq!(reported.all(), [PeerFailure::Closed]);
    assert!(
        sides.workers[0].probe(&crate::sides::ANY).is_none(),
        "its message lies nowhere any more"
    );
    assert!(sides.workers[1].on_error(back, Box::new(|_, _, _| {})).is_err());
}

/// One-sided operations are visible when a close that waits is complete.
#[test]
fn a_close_flushes_what_was_put() {
    let sides = Sides::new(2, NetworkOptions { outstanding: 2, ..small(4, 5) }, &[]);
    let [origin, target] = &sides.workers[..] else { panic!("two") };
    let memory = target.mem_alloc(64 * 1024).expect("the network lends memory");
    let base = target.mem_view(memory, |view| view.as_ptr().addr() as u64).expect("there");
    let ep = sides.connect(0, 1);
    let key = origin.rkey_unpack(ep, &target.rkey_pack(memory).expect("there")).expect("lent");
    let flushed = origin.flush_ep(ep);
    assert_eq!(sides.end(0, flushed).outcome, Ok(()));
    for block in 0..64u64 {
        let buffer = bowline_base::buffer::SendBuf::owned(vec![block as u8 + 1; 1024]);
        let _ = origin.put(key, base + block * 1024, buffer).expect("put");
    }
    let flushed = origin.flush_begin();
    let Ok(Sent::Pending(_)) = flushed else { panic!("a network takes its time: {flushed:?}") };
    let close = origin.close(ep, CloseMode::Flush);
    assert_eq!(sides.end(0, close).outcome, Ok(()));
    let bytes = target.mem_view(memory, |view| view.to_vec()).expect("there");
    for (block, piece) in bytes.chunks(1024).enumerate() {
        assert!(piece.iter().all(|&byte| byte == block as u8 + 1), "block {block}");
    }
    assert_eq!(sides.end(0, flushed).outcome, Ok(()));
    origin.rkey_release(key);
}

/// The peer dies at any moment of a close: the close ends, and nothing hangs.
#[test]
fn a_close_ends_when_the_peer_dies() {
    for mode in [CloseMode::Flush, CloseMode::Force] {
        for steps in 0..60 {
            let settings = [("BOWLINE_RNDV_THRESHOLD", "0"), ("BOWLINE_EAGER_SHARE_FIRST", "1g")];
            let sides = Sides::new(2, small(3, u64::from(steps)), &settings);
            let reported = Reported::default();
            let to = sides.workers[0]
                .connect_with(&sides.workers[1].address(), reported.options())
                .expect("reachable");
            let sends: Vec<_> = (0..4)
                .map(|at| sides.send(0, to, vec![at; 20_000], SendMode::Standard).expect("sent"))
                .collect();
            let _ = sides.recv(1, 20_000);
            sides.rounds(20);
            let close = sides.workers[0].close(to, mode).expect("open");
            sides.rounds(steps);
            sides.network.kill(1);
            let outcome = sides.end(0, Ok(close)).outcome;
            match mode {
                CloseMode::Flush => assert!(outcome.is_err(), "three messages were not received"),
                CloseMode::Force => assert_eq!(outcome, Ok(())),
            }
            for send in sends {
                let _ = sides.end(0, Ok(send));
            }
            assert_eq!(reported.all(), [], "the endpoint was closed here");
        }
    }
}

/// The death of a peer is reported once, to the endpoint's handler, with the kind.
#[test]
fn a_death_is_reported_to_the_handler() {
    let sides = Sides::new(2, NetworkOptions::default(), &[]);
    let reported = Reported::default();
    let to = sides.workers[0].connect_with(&sides.workers[1].address(), reported.options());
    let to = to.expect("reachable");
    let sent = sides.send(0, to, vec![1], SendMode::Standard);
    sides.end(0, sent).outcome.expect("it is there");
    sides.rounds(50);
    sides.network.kill(1);
    sides.until(|| !reported.all().is_empty());
    sides.rounds(50);
    assert_eq!(reported.all(), [PeerFailure::Died]);
    assert!(matches!(sides.workers[0].close(to, CloseMode::Flush), Ok(Sent::Done)));
}

/// A worker's endpoint to itself has one end, which is both.
#[test]
fn an_endpoint_to_oneself_closes_too() {
    for mode in [CloseMode::Flush, CloseMode::Force] {
        let sides = Sides::new(1, NetworkOptions::default(), &[("BOWLINE_RNDV_THRESHOLD", "0")]);
        for _ in 0..3 {
            let ep = sides.connect(0, 0);
            let receive = sides.recv(0, 5000);
            let sent = sides.send(0, ep, vec![3; 5000], SendMode::Standard);
            assert_eq!(sides.end(0, sent).outcome, Ok(()));
            let (status, bytes) = sides.workers[0].take_with_buffer(receive).expect("complete");
            assert_eq!((status.outcome, bytes), (Ok(()), Some(vec![3; 5000])));
            let close = sides.workers[0].close(ep, mode);
            assert_eq!(sides.end(0, close).outcome, Ok(()));
        }
    }
}
