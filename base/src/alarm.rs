//! Whether a helper thread is wanted, and whether a timer runs that wakes it: for owners who want a helper after a time, often
//! take that back before, and pay dearly for each setting of a timer.
//!
//! ```text
//!            request: the timer is to be set               the timer ends
//!   IDLE ────────────────────────────────────► WANTED ────────────────────► the helper works
//!    ▲ ▲                                          │                            │
//!    │ └── take_back: the timer goes on ──────────┘                            │
//!    └──── take_back, or nothing is left (leave) ──────────────────────────────┘
//! ```
//! Rules. (1) One owner requests and takes back; one helper works and leaves. (2) A timer that runs is not set again: when it ends the
//! helper finds that it is wanted, and sets it for what was requested later. (3) The helper leaves in two steps: it says that it
//! does, and asks a last time whether anything is left. What the owner has left before that is found; for what it leaves
//! later it finds that the helper leaves, and the timer is set. "Before" and "later" is by a lock under which both do it. (4) A helper
//! that stays after all does so only if the owner has not taken its request back meanwhile.
//!
//! The timer itself is its users', who call what is said here to be called.

use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// States of `wanted`.
const IDLE: u32 = 0;
const WANTED: u32 = 1;
/// The helper asks a last time.
const LEAVING: u32 = 2;

/// See the module's text.
#[derive(Debug, Default)]
pub struct Alarm {
    wanted: AtomicU32,
    /// The timer runs, or its end was not taken yet.
    runs: AtomicBool,
}

impl Alarm {
    /// Nobody is wanted.
    pub fn new() -> Self {
        Self::default()
    }

    /// The owner wants the helper. Whether the timer is to be set.
    #[must_use]
    pub fn request(&self) -> bool {
        // AcqRel, both: pairs with the swap of `end_timer`, of which and of ours one comes first. If it is ours, the other one
        // acquires what was written here, and the helper sees `wanted`; if not, ours sees that no timer runs.
        self.wanted.swap(WANTED, Ordering::AcqRel) != WANTED
            && !self.runs.swap(true, Ordering::AcqRel)
    }

    /// The owner does without it. Whether it was wanted.
    pub fn take_back(&self) -> bool {
        // AcqRel: pairs with the loads and exchanges of the helper, which may work once more.
        self.wanted.swap(IDLE, Ordering::AcqRel) != IDLE
    }

    /// Whether the helper is wanted.
    pub fn is_wanted(&self) -> bool {
        // Acquire: pairs with `request`, in front of which the owner has written what the helper comes for.
        self.wanted.load(Ordering::Acquire) == WANTED
    }

    /// The helper has taken the timer's end.
    pub fn end_timer(&self) {
        // AcqRel: pairs with `request`. A swap, since a store would acquire nothing.
        self.runs.swap(false, Ordering::AcqRel);
    }

    /// The helper has come too early, and is still wanted. Whether it is to set the timer.
    #[must_use]
    pub fn restart(&self) -> bool {
        // AcqRel: pairs with the swap in `request`, whose caller has set it if it runs.
        !self.runs.swap(true, Ordering::AcqRel)
    }

    /// The helper has found nothing to do, and leaves unless `anything` is left after all. Whether it stays.
    pub fn leave(&self, anything: impl FnOnce() -> bool) -> bool {
        let exchange = |from, to| {
            // AcqRel, and Acquire where another state is found: pairs with the swaps of the owner.
            self.wanted.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
        };
        if exchange(WANTED, LEAVING).is_err() {
            return false;
        }
        // Rule 3: the lock that `anything` takes orders the exchange in front of what it finds. Rule 4.
        let next = if anything() { WANTED } else { IDLE };
        match exchange(LEAVING, next) {
            Ok(_) => next == WANTED,
            Err(now) => now == WANTED,
        }
    }
}

#[cfg(all(test, bowline_loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Mutex};

    /// The timer: set, or not.
    struct World {
        alarm: Alarm,
        left: Mutex<u32>,
        timer: AtomicBool,
    }

    /// The helper's loop, as long as the timer ends. SeqCst throughout: what is modelled is the alarm.
    fn help(world: &World) {
        // A timer that is set ends at some time.
        while world.timer.swap(false, Ordering::SeqCst) {
            world.alarm.end_timer();
            while world.alarm.is_wanted() {
                let nothing = {
                    let mut left = world.left.lock().unwrap();
                    std::mem::take(&mut *left) == 0
                };
                if nothing {
                    world.alarm.leave(|| *world.left.lock().unwrap() > 0);
                }
            }
        }
    }

    fn request(world: &World) {
        *world.left.lock().unwrap() += 1;
        if world.alarm.request() {
            // A swap, of which the models put no two in another order than they are made.
            world.timer.swap(true, Ordering::SeqCst);
        }
    }

    /// Whatever the owner requests is done, by the helper that is awake or by one that the timer wakes; or it was taken back.
    fn nothing_is_lost(takes_back: bool) {
        loom::model(move || {
            let world = Arc::new(World {
                alarm: Alarm::new(),
                left: Mutex::new(0),
                timer: AtomicBool::new(false),
            });
            request(&world);
            let helper = {
                let world = Arc::clone(&world);
                loom::thread::spawn(move || help(&world))
            };
            if takes_back {
                world.alarm.take_back();
            }
            request(&world);
            helper.join().unwrap();
            // The helper that the timer wakes later.
            help(&world);
            assert_eq!(*world.left.lock().unwrap(), 0, "a request is left, and nobody comes");
            assert!(!world.timer.load(Ordering::SeqCst));
        });
    }

    /// Rule 4: a helper that is about to stay does not want itself back.
    #[test]
    fn loom_what_was_taken_back_is_not_wanted() {
        loom::model(|| {
            let alarm = Arc::new(Alarm::new());
            assert!(alarm.request());
            let helper = {
                let alarm = Arc::clone(&alarm);
                loom::thread::spawn(move || {
                    alarm.end_timer();
                    alarm.leave(|| true)
                })
            };
            assert!(alarm.take_back());
            helper.join().unwrap();
            assert!(!alarm.is_wanted());
        });
    }

    #[test]
    fn loom_requests_are_not_lost() {
        nothing_is_lost(false);
    }

    #[test]
    fn loom_requests_are_not_lost_after_one_was_taken_back() {
        nothing_is_lost(true);
    }
}

#[cfg(all(test, not(bowline_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_runs_is_not_set_again() {
        let alarm = Alarm::new();
        assert!(alarm.request());
        assert!(!alarm.request(), "wanted already");
        assert!(alarm.take_back() && !alarm.take_back());
        assert!(!alarm.request(), "the timer runs");
        alarm.end_timer();
        assert!(alarm.is_wanted() && alarm.restart(), "it was set for an earlier request");
        assert!(!alarm.restart());
        alarm.end_timer();
        assert!(alarm.leave(|| true) && alarm.is_wanted());
        assert!(!alarm.leave(|| false) && !alarm.is_wanted());
        assert!(alarm.request());
    }
}
