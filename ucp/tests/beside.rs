//! A helper beside a worker's thread, driven by hand: what it must not sleep over.

use std::convert::Infallible;
use std::io::Read as _;
use std::sync::{Arc, Mutex};

use crate::loopback::{config, worker_that_waits};
use crate::sides::Sides;
use bowline_base::buffer::SendBuf;
use bowline_base::sync::atomic::{AtomicU32, Ordering};
use bowline_sim::NetworkOptions;
use bowline_ucp::{
    Arm, DriverKind, Envelope, Ep, Idle, LeftToWatch, ProgressDriver, RemoteWorker, SendMode,
    SharedWorker, Stages, Waiter, WatchedReceive, Worker,
};

/// Does nothing: the test has the side door.
struct ByHand;

impl ProgressDriver for ByHand {
    fn watch(&mut self, _: WatchedReceive) {}
    fn serve(&mut self) {}
    fn copies_always(&self) -> bool {
        false
    }
    fn pause(&mut self) {}
    fn resume(&mut self, _: LeftToWatch) {}
}

/// What a helper of the worker would have.
pub(crate) fn by_hand(worker: &Worker) -> RemoteWorker {
    let mut door = None;
    let attended = worker.install_progress(DriverKind::Thread, |side| {
        door = Some(side);
        Ok::<_, Infallible>(Box::new(ByHand))
    });
    attended.expect("nothing is refused");
    door.expect("a worker makes its driver")
}

#[test]
fn what_a_call_leaves_between_the_last_poll_and_the_nap_is_done() {
    let sides = Sides::new(2, NetworkOptions::default(), &[("BOWLINE_RNDV_THRESHOLD", "100")]);
    let door = by_hand(&sides.workers[1]);
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
    assert!(naps(), "it has polled since");
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
    let door = by_hand(&worker);
    let mut polls = 0;
    worker.wait_until(|| {
        polls += 1;
        if polls == 4 {
            let envelope = Envelope { space: 0, source: 0, tag: 7 };
            let _ = worker.send(ep, envelope, SendBuf::owned(vec![1]), SendMode::Standard).unwrap();
            assert!(door.serve() > 0, "the message has come");
        }
        polls == 8
    });
    let noted = noted.0.lock().unwrap();
    assert_eq!(noted.iter().filter(|first| **first).count(), 2, "{noted:?}");
}

/// Sleeps until it is released, and notes whether something woke it until then.
#[derive(Clone, Default)]
struct Deaf {
    asleep: Arc<AtomicU32>,
    released: Arc<AtomicU32>,
    /// Of the first sleep: [`LEFT_ASLEEP`] or [`WOKEN`], 0 before its end.
    noted: Arc<AtomicU32>,
}

const LEFT_ASLEEP: u32 = 1;
const WOKEN: u32 = 2;

impl Waiter for Deaf {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: 0 }
    }
    fn yield_now(&mut self) {
        std::thread::yield_now();
    }
    fn sleep(&mut self, idle: Idle<'_>) {
        // Release pairs with the Acquire of the test, Acquire with its Release.
        let first = self.asleep.swap(1, Ordering::Release) == 0;
        while self.released.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let is_readable = |fd: &std::os::fd::OwnedFd| {
            let mut event = std::fs::File::from(fd.try_clone().expect("a descriptor"));
            event.read(&mut [0; 8]).is_ok()
        };
        let woken = match idle.descriptors.descriptors() {
            [] => idle.doorbell.is_some_and(|doorbell| doorbell.is_rung()),
            several => several.iter().any(is_readable),
        };
        if first {
            // Release pairs with the Acquire of the test.
            self.noted.store(if woken { WOKEN } else { LEFT_ASLEEP }, Ordering::Release);
        }
    }
}

/// The leader of a shared worker sleeps, `meanwhile` happens beside it: it must have been woken.
fn wakes_the_leader(meanwhile: impl Fn(&Sides, Ep, &RemoteWorker, &SharedWorker)) {
    for on_descriptors in [false, true] {
        let waiter = Deaf::default();
        let mut sides =
            Sides::waiting(2, NetworkOptions::default(), &[], |_| Box::new(waiter.clone()));
        let ep = sides.connect(0, 1);
        let receive = sides.recv(1, 8);
        let worker = sides.workers.pop().expect("there are two");
        let door = by_hand(&worker);
        if on_descriptors {
            worker.event_fd().expect("the network has descriptors");
        }
        let worker = SharedWorker::of(worker);
        std::thread::scope(|scope| {
            let leader = scope.spawn(|| worker.wait(receive));
            // Acquire and Release: see the waiter.
            while waiter.asleep.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            meanwhile(&sides, ep, &door, &worker);
            // The helper goes to sleep, too, and awakes.
            door.sleep(|_, _, _| ());
            waiter.released.store(1, Ordering::Release);
            // To cancel the receive wakes the leader, too: it is to have polled before.
            while waiter.noted.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            worker.with(|worker| worker.cancel(receive));
            let _ = leader.join().expect("it does not panic");
        });
        let noted = waiter.noted.load(Ordering::Acquire);
        assert_eq!(noted, WOKEN, "on descriptors: {on_descriptors}");
    }
}

fn brings_a_message(sides: &Sides, ep: Ep, door: &RemoteWorker) {
    let _ = sides.send(0, ep, vec![1; 8], SendMode::Standard).expect("it begins");
    let mut events = 0;
    for _ in 0..100 {
        sides.workers[0].progress();
        sides.network.advance();
        events += door.serve();
    }
    assert!(events > 0, "the helper has taken the message");
}

#[test]
fn a_helper_wakes_the_leader_whose_message_it_has_taken() {
    wakes_the_leader(|sides, ep, door, _| brings_a_message(sides, ep, door));
}

#[test]
fn another_thread_wakes_the_leader_beside_a_helper() {
    wakes_the_leader(|_, _, _, worker| worker.signal().raise());
}

#[test]
fn a_helper_takes_no_wake_up_of_the_leader() {
    wakes_the_leader(|_, _, door, worker| {
        // The leader has called the helper before it went to sleep, which keeps the helper awake until it has polled.
        door.serve();
        let mut slept = false;
        door.sleep(|_, _, _| {
            slept = true;
            worker.signal().raise();
        });
        assert!(slept, "nothing keeps the helper awake");
        door.serve();
    });
}

#[test]
fn a_helper_wakes_whoever_sleeps_on_the_descriptor() {
    let mut sides = Sides::new(2, NetworkOptions::default(), &[]);
    let ep = sides.connect(0, 1);
    sides.recv(1, 8);
    let worker = sides.workers.pop().expect("there are two");
    let door = by_hand(&worker);
    while worker.arm().expect("the network has descriptors") == Arm::Busy {
        worker.progress();
    }
    let signal = worker.signal();
    assert!(!signal.doorbell().is_rung());
    brings_a_message(&sides, ep, &door);
    door.sleep(|_, _, _| ());
    assert!(signal.doorbell().is_rung(), "the descriptor watches it");
}
