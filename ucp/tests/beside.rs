//! A helper beside a worker's thread, driven by hand: what it must not sleep over.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use crate::loopback::{config, worker_that_waits};
use crate::sides::Sides;
use bowline_base::buffer::SendBuf;
use bowline_base::doorbell::Doorbell;
use bowline_sim::NetworkOptions;
use bowline_ucp::{
    DriverKind, Envelope, Idle, ProgressDriver, RemoteWorker, SendMode, Stages, Waiter,
    WatchedReceive,
};

/// Does nothing: the test has the side door.
struct ByHand;

impl ProgressDriver for ByHand {
    fn watch(&mut self, _: WatchedReceive) {}
    fn pause(&mut self) {}
    fn resume(&mut self) {}
}

#[test]
fn what_a_call_leaves_between_the_last_look_and_the_nap_is_looked_at() {
    let sides = Sides::new(2, NetworkOptions::default(), &[("BOWLINE_RNDV_THRESHOLD", "100")]);
    let mut door = None;
    let helper = DriverKind::Thread(Doorbell::private());
    let attended = sides.workers[1].install_progress(helper, |side| {
        door = Some(side);
        Ok::<_, Infallible>(Box::new(ByHand))
    });
    attended.expect("nothing is refused");
    let door: RemoteWorker = door.expect("a worker makes its driver");
    let naps = || {
        let mut slept = false;
        door.sleep(|_, _, _| slept = true);
        slept
    };
    let ep = sides.connect(0, 1);
    let sent = sides.send(0, ep, vec![1; 1000], SendMode::Standard).expect("it begins");
    for _ in 0..100 {
        sides.workers[0].progress();
        door.serve();
        sides.network.advance();
    }
    while door.serve() > 0 {}
    assert!(naps(), "the message waits for its receive");
    // The word is read from now on. No lane wakes the helper for it.
    let receive = sides.recv(1, 1000);
    assert!(!naps(), "the receive has left something to do");
    while door.serve() > 0 {}
    assert!(naps(), "it has looked since");
    sides.until(|| sides.workers[1].is_complete(receive));
    sides.end(0, Ok(sent));
}

/// Sleeps at once, and notes which sleeps are the first since something has happened.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<bool>>>);

impl Waiter for Noting {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: 0 }
    }
    fn yield_now(&mut self) {}
    fn sleep(&mut self, idle: Idle<'_>) {
        self.0.lock().unwrap().push(idle.first);
    }
}

/// A waiter says what is waited for when nothing happens for long.
#[test]
fn what_a_helper_has_dealt_with_has_happened() {
    let noted = Noting::default();
    let (worker, ep) = worker_that_waits(&config(&[]), Box::new(noted.clone()));
    let mut door = None;
    let attended = worker.install_progress(DriverKind::Thread(Doorbell::private()), |side| {
        door = Some(side);
        Ok::<_, Infallible>(Box::new(ByHand))
    });
    attended.expect("nothing is refused");
    let door: RemoteWorker = door.expect("a worker makes its driver");
    let mut looks = 0;
    worker.wait_until(|| {
        looks += 1;
        if looks == 4 {
            let envelope = Envelope { space: 0, source: 0, tag: 7 };
            let _ = worker.send(ep, envelope, SendBuf::owned(vec![1]), SendMode::Standard).unwrap();
            assert!(door.serve() > 0, "the message has come");
        }
        looks == 8
    });
    let noted = noted.0.lock().unwrap();
    assert_eq!(noted.iter().filter(|first| **first).count(), 2, "{noted:?}");
}
