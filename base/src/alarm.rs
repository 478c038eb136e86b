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
//! helper finds `wanted`, and sets it for what was requested later. (3) The helper leaves in two steps: it takes `wanted`
//! down, and asks a last time whether anything is left. What the owner has left before that is found; for what it leaves
//! later it finds `wanted` down, and the timer is set. "Before" and "later" is by a lock under which both do it.
//!
//! The timer itself is its users', who call what is said here to be called.

use crate::sync::atomic::{AtomicBool, Ordering};

/// See the module's text.
#[derive(Debug, Default)]
pub struct Alarm {
    wanted: AtomicBool,
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
        !self.wanted.swap(true, Ordering::AcqRel) && !self.runs.swap(true, Ordering::AcqRel)
    }

    /// The owner does without it. Whether it was wanted.
    pub fn take_back(&self) -> bool {
        // AcqRel: pairs with the loads of the helper, which may work once more.
        self.wanted.swap(false, Ordering::AcqRel)
    }

    /// Whether the helper is wanted.
    pub fn is_wanted(&self) -> bool {
        // Acquire: pairs with `request`, in front of which the owner has written what the helper comes for.
        self.wanted.load(Ordering::Acquire)
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
        // Release, both: pairs with the swaps of the owner. Rule 3: the lock that `anything` takes orders the first in front of
        // what it finds.
        self.wanted.store(false, Ordering::Release);
        let stays = anything();
        if stays {
            self.wanted.store(true, Ordering::Release);
        }
        stays
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
