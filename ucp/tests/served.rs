//! The thread of the mode of signals, driven by hand over a simulated network, whose lanes no handler may poll: which
//! requests it is notified of, what it moves, and when it goes away.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use crate::sides::Sides;
use bowline_sim::NetworkOptions;
use bowline_ucp::{
    DriverKind, Idle, LeftToWatch, ProgressDriver, RemoteWorker, RequestId, SendMode, Sent, Stages,
    Waiter, WatchedReceive, Worker,
};

const OFFERED: &[(&str, &str)] = &[("BOWLINE_RNDV_THRESHOLD", "100")];

/// Notes what it is notified of.
#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<&'static str>>>);

impl Noted {
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl ProgressDriver for Noted {
    fn watch(&mut self, _: WatchedReceive) {
        self.0.lock().unwrap().push("watch");
    }
    fn serve(&mut self) {
        self.0.lock().unwrap().push("serve");
    }
    fn copies_always(&self) -> bool {
        false
    }
    fn pause(&mut self) {
        self.0.lock().unwrap().push("pause");
    }
    fn resume(&mut self, left: LeftToWatch) {
        assert_eq!(left, LeftToWatch { handled: false, served: true });
        self.0.lock().unwrap().push("resume");
    }
}

fn install(worker: &Worker) -> (RemoteWorker, Noted) {
    let (mut remote, noted) = (None, Noted::default());
    let driver = Box::new(noted.clone());
    assert!(worker.has_served_lanes());
    let installed = worker.install_progress(DriverKind::SignalAndThread, |handle| {
        remote = Some(handle);
        Ok::<_, Infallible>(driver)
    });
    installed.expect("nothing is refused");
    (remote.expect("a worker makes its driver"), noted)
}

fn pending(sent: Result<Sent, bowline_ucp::OpError>) -> RequestId {
    match sent.expect("it begins") {
        Sent::Pending(id) => id,
        Sent::Done => panic!("a message that is offered is complete at once"),
    }
}

#[test]
fn a_thread_of_each_side_moves_a_message_that_neither_side_progresses() {
    let sides = Sides::new(2, NetworkOptions::default(), OFFERED);
    let threads = [install(&sides.workers[0]), install(&sides.workers[1])];
    let ep = sides.connect(0, 1);
    sides.rounds(50);
    let receive = sides.recv(1, 1000);
    let send = pending(sides.send(0, ep, vec![1; 1000], SendMode::Standard));
    sides.workers[0].watch_send(send);
    for (remote, noted) in &threads {
        assert_eq!(noted.take(), ["serve"], "no handler is of use here");
        assert!(remote.has_watched());
    }
    let mut left = [true; 2];
    for _ in 0..200 {
        for ((remote, _), left) in threads.iter().zip(&mut left) {
            *left = remote.serve_watched().left;
        }
        sides.network.advance();
    }
    assert_eq!(left, [false; 2], "both have ended");
    assert!(threads.iter().all(|(remote, _)| !remote.has_watched()));
    assert!(sides.workers[1].is_complete(receive) && sides.workers[0].is_complete(send));
    assert_eq!(sides.workers[1].take(receive).map(|status| status.length), Some(1000));
}

#[test]
fn short_messages_and_awaited_receives_and_sends_are_nothing_to_a_thread() {
    let sides = Sides::new(2, NetworkOptions::default(), OFFERED);
    let (remote, noted) = install(&sides.workers[1]);
    sides.recv(1, 99);
    let spec = crate::sides::ANY;
    let awaited = bowline_base::buffer::RecvBuf::owned(vec![0; 1000]);
    sides.workers[1].recv_awaited(spec, awaited).expect("space 0 is open");
    let ep = sides.connect(1, 0);
    // Nobody says that its sender is going to compute.
    pending(sides.send(1, ep, vec![1; 1000], SendMode::Standard));
    assert_eq!(noted.take(), [""; 0]);
    assert!(!remote.has_watched());
}

/// A receive of a message that a probe has claimed is watched where its poster says so.
#[test]
fn receives_of_claimed_messages_are_watched() {
    let sides = Sides::new(2, NetworkOptions::default(), OFFERED);
    let (remote, noted) = install(&sides.workers[1]);
    let ep = sides.connect(0, 1);
    let send = pending(sides.send(0, ep, vec![1; 200_000], SendMode::Standard));
    let spec = crate::sides::ANY;
    sides.until(|| sides.workers[1].probe(&spec).is_some());
    let (_, claimed) = sides.workers[1].claim(&spec).expect("it was probed");
    let buffer = bowline_base::buffer::RecvBuf::owned(vec![0; 200_000]);
    let receive = sides.workers[1].recv_claimed(claimed, buffer).expect("its sender lives");
    assert!(!remote.has_watched());
    sides.workers[1].watch_claimed(receive);
    assert_eq!(noted.take(), ["serve"]);
    assert!(remote.has_watched());
    sides.until(|| sides.workers[1].is_complete(receive) && sides.workers[0].is_complete(send));
    assert!(!remote.has_watched());
}

#[test]
fn what_was_cancelled_or_taken_is_forgotten() {
    let sides = Sides::new(2, NetworkOptions::default(), OFFERED);
    let (remote, _) = install(&sides.workers[1]);
    let receive = sides.recv(1, 1000);
    assert!(remote.has_watched());
    sides.workers[1].cancel(receive);
    assert!(!remote.has_watched() && !remote.serve_watched().left);
}

/// Sleeps at once, and asks the thread then.
#[derive(Clone, Default)]
struct AsksThread(Arc<Mutex<Option<RemoteWorker>>>);

impl Waiter for AsksThread {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: 0 }
    }
    fn yield_now(&mut self) {}
    fn sleep(&mut self, _: Idle<'_>) {
        let remote = self.0.lock().unwrap();
        let remote = remote.as_ref().expect("it was installed before anybody waits");
        assert!(!remote.serve_watched().left, "the rank sleeps on its lanes itself");
        assert!(!remote.has_watched());
        remote.sleep_watched(|_, _| panic!("the thread sleeps on lanes that the rank has armed"));
    }
}

#[test]
fn a_rank_that_waits_has_its_lanes_for_itself_and_the_thread_back_afterwards() {
    let asks = AsksThread::default();
    let sides = Sides::waiting(2, NetworkOptions::default(), OFFERED, |_| Box::new(asks.clone()));
    let (remote, noted) = install(&sides.workers[1]);
    *asks.0.lock().unwrap() = Some(remote.clone());
    let receive = sides.recv(1, 1000);
    assert_eq!(noted.take(), ["serve"]);
    let mut polls = 0;
    sides.workers[1].wait_until(|| {
        polls += 1;
        polls == 5
    });
    assert_eq!(noted.take(), ["pause", "resume"], "the receive is still watched");
    assert!(remote.has_watched());
    let mut slept = false;
    while !slept {
        assert!(remote.serve_watched().left);
        remote.sleep_watched(|_, _| slept = true);
    }
    sides.workers[1].cancel(receive);
    // The worker holds the waiter, which holds a handle of the worker.
    *asks.0.lock().unwrap() = None;
}
