//! Waits beside active messages: in a handler whose id has a second message, and in a flood. One worker
//! that sends to itself.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::loopback::{config, worker_that_waits};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_ucp::{Envelope, Ep, Idle, MatchSpec, SendMode, Sent, Stages, Waiter, Worker};

const ANY: MatchSpec = MatchSpec { space: 0, source: None, tag: 0, tag_mask: 0 };
const TO: Envelope = Envelope { space: 0, source: 0, tag: 5 };

/// Sleeps at once, and counts that.
struct Counts(Arc<AtomicU32>);

impl Waiter for Counts {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: 0 }
    }
    fn yield_now(&mut self) {}
    fn sleep(&mut self, _: Idle<'_>) {
        // Relaxed: one thread.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn worker() -> (Worker, Ep, Arc<AtomicU32>) {
    let sleeps = Arc::new(AtomicU32::new(0));
    let (worker, ep) = worker_that_waits(&config(&[]), Box::new(Counts(Arc::clone(&sleeps))));
    (worker, ep, sleeps)
}

fn am(worker: &Worker, ep: Ep, id: u16) {
    let sent = worker.am_send(ep, id, b"", SendBuf::owned(vec![1; 8])).expect("it leaves");
    assert!(matches!(sent, Sent::Done), "it is short");
}

fn tagged(worker: &Worker, ep: Ep) {
    let data = SendBuf::owned(vec![1; 8]);
    let sent = worker.send(ep, TO, data, SendMode::Standard).expect("it leaves");
    assert!(matches!(sent, Sent::Done), "it is short");
}

/// Has each message of id 2 send the next one: every poll finds one. A wait that does not end
/// panics.
fn flood(worker: &Worker, ep: Ep) {
    let mut count = 0;
    worker.am_handler(
        2,
        Box::new(move |worker, _| {
            count += 1;
            assert!(count < 1000, "the wait does not end");
            am(worker, ep, 2);
        }),
    );
    am(worker, ep, 2);
}

/// Ways to wait for a tagged message that the next poll finds.
const WAITS: [fn(&Worker, Ep); 3] = [
    |worker, ep| {
        let receive = worker.recv(ANY, RecvBuf::owned(vec![0; 8])).expect("space 0 is open");
        tagged(worker, ep);
        assert_eq!(worker.wait(receive).outcome, Ok(()));
    },
    |worker, ep| {
        tagged(worker, ep);
        let message = worker.recv_blocking(ANY, RecvBuf::owned(vec![0; 8]));
        assert_eq!(message.expect("it arrives").length, 8);
    },
    |worker, ep| {
        let data = SendBuf::owned(vec![1; 8]);
        let sent = worker.send(ep, TO, data, SendMode::Synchronous).expect("it begins");
        let Sent::Pending(send) = sent else { panic!("nobody has received it") };
        let receive = worker.recv(ANY, RecvBuf::owned(vec![0; 8])).expect("space 0 is open");
        assert_eq!(worker.wait(send).outcome, Ok(()));
        assert_eq!(worker.wait(receive).outcome, Ok(()));
    },
];

#[test]
fn a_wait_in_a_handler_ends_while_its_id_has_a_second_message() {
    for wait in WAITS {
        let (worker, ep, _) = worker();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&calls);
        worker.am_handler(
            1,
            Box::new(move |worker, _| {
                log.lock().expect("not poisoned").push("begins");
                wait(worker, ep);
                log.lock().expect("not poisoned").push("ends");
            }),
        );
        flood(&worker, ep);
        am(&worker, ep, 1);
        am(&worker, ep, 1);
        worker.wait_until(|| calls.lock().expect("not poisoned").len() == 4);
        let calls = calls.lock().expect("not poisoned");
        assert_eq!(*calls, ["begins", "ends", "begins", "ends"], "one after the other");
    }
}

#[test]
fn a_flood_of_messages_does_not_keep_a_wait_from_its_end() {
    for wait in WAITS {
        let (worker, ep, _) = worker();
        flood(&worker, ep);
        wait(&worker, ep);
    }
}

/// What lies there for a handler that runs is nothing to stay awake for.
#[test]
fn a_wait_in_a_handler_sleeps_though_its_id_has_a_second_message() {
    let (worker, ep, sleeps) = worker();
    let (done, log) = (Arc::new(AtomicU32::new(0)), Arc::clone(&sleeps));
    let count = Arc::clone(&done);
    worker.am_handler(
        1,
        Box::new(move |worker, _| {
            let before = log.load(Ordering::Relaxed);
            let mut polls = 0;
            worker.wait_until(|| {
                polls += 1;
                assert!(polls < 1000, "it polls without ever sleeping");
                log.load(Ordering::Relaxed) > before
            });
            count.fetch_add(1, Ordering::Relaxed);
        }),
    );
    am(&worker, ep, 1);
    am(&worker, ep, 1);
    worker.wait_until(|| done.load(Ordering::Relaxed) == 2);
}
