//! A value that one thread at a time works on, where a call that comes meanwhile has the work repeated.
//!
//! ```text
//!                  work                     work of another        end of the work
//!   FREE ──compare-and-swap──► BUSY ──compare-and-swap──► ASKED ──swap──► BUSY: once more
//!     ▲                          │ compare-and-swap
//!     └──────────────────────────┘ end of the work
//! ```
//! It is for work that does whatever can be done at its time, such as to carry out the next steps of something.
//! 1. No call blocks: one that finds the word BUSY sets it to ASKED and returns.
//! 2. No call is lost: whatever happened before a call that went is seen by a whole work that begins later.
//! 3. The one inside repeats its own work for the one that went. Where the works of two threads differ, what only
//!    the other one would have done is left: who needs it must call again.
//!
//! A call from inside of the work, by the same thread, only leaves the mark.

use std::cell::UnsafeCell;
use std::fmt;

use crate::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const BUSY: u32 = 1;
const ASKED: u32 = 2;

/// The value. See the module's text.
pub struct Repeat<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by `work` alone, and there by the thread that has changed the word from `FREE`,
// of which there is one until it has changed the word back. That change is a Release, with which the Acquire of
// the next one pairs. So the value goes from thread to thread as by sending it.
unsafe impl<T: Send> Sync for Repeat<T> {}

/// Ends the work, also by a panic; then nothing is repeated.
struct Inside<'a>(&'a AtomicU32);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `enter`.
        self.0.store(FREE, Ordering::Release);
    }
}

impl<T> Repeat<T> {
    /// A value that nobody works on.
    pub fn new(value: T) -> Self {
        Self { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Does `work`, and again as long as other threads have asked for it meanwhile. `false`: somebody else is at
    /// work, and will do theirs once more from the beginning.
    pub fn work(&self, mut work: impl FnMut(&mut T)) -> bool {
        if !self.enter() {
            return false;
        }
        let inside = Inside(&self.word);
        loop {
            // SAFETY: `enter` has changed the word from `FREE`, so this is the only thread here; the reference
            // ends before the word is changed back. A call from inside of `work` finds the word busy.
            work(unsafe { &mut *self.value.get() });
            if self.leave() {
                std::mem::forget(inside);
                return true;
            }
        }
    }

    /// Whether the value was free; else its owner is asked to repeat its work.
    fn enter(&self) -> bool {
        // Relaxed: only a guess for the exchange below.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let next = if seen == FREE { BUSY } else { ASKED };
            // Acquire: pairs with the Release of the thread that left; what it has done to the value is seen. Release: of
            // one that asks; pairs with the Acquire in `leave`, so that the repeated work sees what it has done
            // before. Each one that asks exchanges, also where the word is `ASKED`: a load could be older than
            // the owner's `swap`. Relaxed on failure: only another guess.
            match self.word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return seen == FREE,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether nobody has asked for more; else the value is still this thread's.
    fn leave(&self) -> bool {
        // Release: pairs with the Acquire in `enter`. Relaxed on failure: the swap below reads it again.
        if self.word.compare_exchange(BUSY, FREE, Ordering::Release, Ordering::Relaxed).is_ok() {
            return true;
        }
        // Acquire: pairs with the Release of all that have asked, whose exchanges come before in the word's order.
        self.word.swap(BUSY, Ordering::Acquire);
        false
    }
}

impl<T> fmt::Debug for Repeat<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Repeat").field("word", &self.word).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(bowline_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_call_from_inside_has_the_work_repeated() {
        let count = Repeat::new(0);
        let mut asked = false;
        assert!(count.work(|value| {
            *value += 1;
            if !asked {
                asked = true;
                assert!(!count.work(|_| panic!("it is busy")));
            }
        }));
        assert!(count.work(|value| assert_eq!(*value, 2)));
    }

    #[test]
    fn a_panic_frees_the_value() {
        let count = Repeat::new(0);
        let panicked = catch_unwind(AssertUnwindSafe(|| count.work(|_| panic!("in the work"))));
        assert!(panicked.is_err());
        assert!(count.work(|value| *value += 1));
    }

    #[test]
    fn what_was_added_before_a_call_is_taken_by_some_work() {
        use crate::sync::atomic::AtomicU64;
        let (taken, added) = (Arc::new(Repeat::new(0)), Arc::new(AtomicU64::new(0)));
        let each = 50_000;
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..each {
                        // Relaxed: what is tested is that `work` orders it.
                        added.fetch_add(1, Ordering::Relaxed);
                        taken.work(|value| *value += added.swap(0, Ordering::Relaxed));
                    }
                });
            }
        });
        taken.work(|value| assert_eq!(*value, 3 * each));
        assert_eq!(added.load(Ordering::Relaxed), 0);
    }
}

#[cfg(all(test, bowline_loom))]
mod loom_tests {
    use super::*;
    use crate::sync::check_orders;

    use loom::sync::Arc;

    /// Three threads add something each and then ask for work: all of it is taken, by one at a time, whichever does
    /// it. The model's cell notices two inside at once, and one that does not see what was done before.
    #[test]
    fn loom_no_call_is_lost() {
        check_orders(3, || {
            let value = Arc::new(Repeat::new(loom::cell::UnsafeCell::new(0)));
            let added = Arc::new([AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)]);
            let add = |index: usize,
                       value: &Repeat<loom::cell::UnsafeCell<u32>>,
                       added: &[AtomicU32; 3]| {
                // Relaxed: what is modelled is that `work` orders it.
                added[index].store(1, Ordering::Relaxed);
                value.work(|sum| {
                    let found = added.iter().map(|one| one.load(Ordering::Relaxed)).sum();
                    // SAFETY: only inside of the work; the model fails if that is not enough.
                    sum.with_mut(|sum| unsafe { *sum = found });
                });
            };
            let threads: Vec<_> = (1..3)
                .map(|index| {
                    let (value, added) = (Arc::clone(&value), Arc::clone(&added));
                    loom::thread::spawn(move || add(index, &value, &added))
                })
                .collect();
            add(0, &value, &added);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            // The last work of all has seen all: nobody does it after the threads have ended.
            // SAFETY: they have ended.
            value.work(|sum| sum.with(|sum| assert_eq!(unsafe { *sum }, 3)));
        });
    }
}
