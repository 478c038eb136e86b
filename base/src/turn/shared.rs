//! Something that several threads use under one lock, and that has to be made progress for: the lock, the
//! election of [`Turns`], and the sleep of the thread that was elected.
//!
//! ```text
//!   with(op) ───► lock ── op ── settle ── unlock ── wakes the sleeper, if there is one
//!   progress() ─► lock ── progress ── settle ── unlock ── the same, if anything happened
//!   until(key) ─► lock ── progress: it is there ── unlock ── the same
//!                            └─ elected: progress, unlocked between two rounds, asleep without the lock
//!                            └─ else: parked, until called
//! ```
//! Rules. (1) Nobody sleeps with the lock, but for a moment where a transport that lacks what it sleeps on
//! answers [`Driven::begin_nap`]; the lock is offered to others behind it. (2) `asleep` is set under the lock in which the sleeper has
//! found nothing and has armed what it sleeps on, so that whatever another thread changes comes before
//! the look or finds the mark. (3) Whoever has changed anything under the lock clears the mark and wakes
//! the sleeper once the lock is free: with a post, since what a post leaves undone is moved on by progress;
//! with progress, since that may have taken the very event that the sleeper would be woken by, and completed
//! what it waits for. (4) A wake-up that comes before the sleep ends the sleep at once: that is what
//! [`Driven::begin_nap`] promises. (5) Rule 3 holds for calls that unwind as well: they may have changed
//! anything.

use std::sync::PoisonError;

use super::{Call, Role, Turns};
#[cfg(bowline_loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(bowline_loom))]
use std::sync::{Mutex, MutexGuard};

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::yield_now;

/// Yields of the elected thread between two rounds for those that want the lock.
#[cfg(not(bowline_loom))]
const COURTESY: u32 = 64;
/// A model tries every order without being asked to.
#[cfg(bowline_loom)]
const COURTESY: u32 = 0;

/// What the lock protects. All methods are called with the lock held.
pub trait Driven {
    /// What a waiter waits for.
    type Key;
    /// What a sleeper sleeps on.
    type Nap;

    /// Makes progress once. Returns how many events there were.
    fn progress(&mut self) -> u32;

    /// Whether a parked waiter is to look whether its end has come. `events`: whether anything happened.
    fn is_there(&mut self, key: &Self::Key, events: bool) -> bool;

    /// Arms what there is to sleep on: from now on every event, and every wake-up since the last nap, ends
    /// the sleep. `None` when something is there already.
    fn begin_nap(&mut self) -> Option<Self::Nap>;

    /// The sleeper is awake.
    fn end_nap(&mut self);

    /// The number of the sleep of a thread that sleeps on the same things by itself, outside of
    /// [`Shared::until`]; each sleep has another.
    fn other_sleep(&self) -> Option<u64> {
        None
    }

    /// That sleep will be ended.
    fn end_other_sleep(&mut self) {}
}

/// How the elected thread passes its time. Called without the lock but for [`Bed::is_tired`].
pub trait Bed<N> {
    /// Whether to sleep after so many rounds in a row that found nothing.
    fn is_tired(&self, round: u32) -> bool;
    /// Between two rounds.
    fn rest(&mut self, round: u32);
    /// Sleeps until an event or a wake-up.
    fn sleep(&mut self, nap: N, round: u32);
}

#[derive(Debug)]
struct State<D: Driven> {
    driven: D,
    turns: Turns<D::Key>,
    /// Rule 2.
    asleep: bool,
}

/// See the module's text. `W` wakes the sleeper.
pub struct Shared<D: Driven, W: Fn()> {
    state: Mutex<State<D>>,
    /// Threads that want the lock.
    wanted: AtomicU32,
    wake: W,
}

impl<D: Driven, W: Fn()> std::fmt::Debug for Shared<D, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

/// The lock, held; with what is owed when it is free again.
struct Held<'a, D: Driven, W: Fn()> {
    shared: &'a Shared<D, W>,
    state: Option<MutexGuard<'a, State<D>>>,
    wakes: bool,
}

impl<D: Driven, W: Fn()> Held<'_, D, W> {
    fn state(&mut self) -> &mut State<D> {
        self.state.as_mut().expect("it is there until the drop")
    }

    /// Something changed: those whose end has come are called, and rule 3.
    fn changed(&mut self, events: bool) {
        let State { driven, turns, asleep } = self.state();
        turns.settle(|key| driven.is_there(key, events));
        if !events {
            return;
        }
        let other = driven.other_sleep().is_some();
        if other {
            driven.end_other_sleep();
        }
        let wakes = std::mem::take(asleep) | other;
        self.wakes |= wakes;
    }

    fn progress(&mut self) -> u32 {
        let events = self.state().driven.progress();
        self.changed(events > 0);
        events
    }
}

impl<D: Driven, W: Fn()> Drop for Held<'_, D, W> {
    fn drop(&mut self) {
        // Rule 5.
        if std::thread::panicking() && self.state.is_some() {
            self.changed(true);
        }
        self.state = None;
        if self.wakes {
            (self.shared.wake)();
        }
    }
}

impl<D: Driven, W: Fn()> Shared<D, W> {
    /// Shares `driven`; `wake` ends the sleep of a [`Bed`], or its next one.
    pub fn new(driven: D, wake: W) -> Self {
        let state = State { driven, turns: Turns::default(), asleep: false };
        Self { state: Mutex::new(state), wanted: AtomicU32::new(0), wake }
    }

    /// What was shared.
    ///
    /// # Panics
    /// When a thread panicked with the lock.
    pub fn into_inner(self) -> D {
        self.state.into_inner().expect("no thread panicked with the lock").driven
    }

    fn lock(&self) -> Held<'_, D, W> {
        let state = self.state.try_lock().or_else(|refused| match refused {
            std::sync::TryLockError::Poisoned(poisoned) => Err(poisoned),
            std::sync::TryLockError::WouldBlock => {
                // Relaxed: a hint for the elected thread.
                self.wanted.fetch_add(1, Ordering::Relaxed);
                let state = self.state.lock();
                self.wanted.fetch_sub(1, Ordering::Relaxed);
                state
            }
        });
        // A call that panicked has left the inside as it was before or behind it.
        let state = state.unwrap_or_else(PoisonError::into_inner);
        Held { shared: self, state: Some(state), wakes: false }
    }

    /// Calls `op` with the lock. It may change anything.
    pub fn with<R>(&self, op: impl FnOnce(&mut D) -> R) -> R {
        let mut held = self.lock();
        let before = held.state().driven.other_sleep();
        let result = op(&mut held.state().driven);
        let State { driven, turns, asleep } = held.state();
        turns.settle(|key| driven.is_there(key, true));
        // A sleep that `op` itself has begun is the caller's own.
        let other = before.is_some() && driven.other_sleep() == before;
        if other {
            driven.end_other_sleep();
        }
        let asleep = std::mem::take(asleep);
        held.wakes |= asleep | other;
        result
    }

    /// Calls `op` with the lock. It must change nothing that anybody waits for or that progress would
    /// move on.
    pub fn look<R>(&self, op: impl FnOnce(&mut D) -> R) -> R {
        op(&mut self.lock().state().driven)
    }

    /// The same, unless somebody has the lock.
    pub fn try_look<R>(&self, op: impl FnOnce(&mut D) -> R) -> Option<R> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        let mut held = Held { shared: self, state: Some(state), wakes: false };
        Some(op(&mut held.state().driven))
    }

    /// Makes progress once. Returns how many events there were.
    pub fn progress(&self) -> u32 {
        self.lock().progress()
    }

    /// Waits until `done`, which is asked with the lock held whenever something happened that `key` says.
    /// `bed` is made where this thread is elected.
    pub fn until<B: Bed<D::Nap>>(
        &self,
        key: D::Key,
        done: &mut dyn FnMut(&mut D) -> bool,
        bed: impl Fn() -> B,
    ) where
        D::Key: Copy,
    {
        loop {
            let mut held = self.lock();
            held.progress();
            if done(&mut held.state().driven) {
                return;
            }
            let Role::Park(slot) = held.state().turns.enter(key) else {
                drop(held);
                return self.drive(done, bed());
            };
            drop(held);
            if slot.wait() == Call::Elected {
                return self.drive(done, bed());
            }
        }
    }

    /// Lets those have the lock that want it.
    fn offer(&self) {
        let mut courtesy = COURTESY;
        // Relaxed: a hint.
        while courtesy > 0 && self.wanted.load(Ordering::Relaxed) > 0 {
            yield_now();
            courtesy -= 1;
        }
    }

    /// Progress for all, until `done`.
    fn drive<B: Bed<D::Nap>>(&self, done: &mut dyn FnMut(&mut D) -> bool, mut bed: B) {
        let leaving = Leaving(self);
        let mut round = 0_u32;
        loop {
            let mut held = self.lock();
            let events = held.progress();
            if done(&mut held.state().driven) {
                drop(bed);
                held.state().turns.leave();
                std::mem::forget(leaving);
                return;
            }
            round = if events > 0 { 0 } else { round.saturating_add(1) };
            if bed.is_tired(round) {
                let Some(nap) = held.state().driven.begin_nap() else {
                    // The look may have taken what it found, so that progress does not find it again.
                    held.changed(true);
                    drop(held);
                    self.offer();
                    continue;
                };
                held.state().asleep = true;
                drop(held);
                bed.sleep(nap, round);
                let mut held = self.lock();
                held.state().asleep = false;
                held.state().driven.end_nap();
                continue;
            }
            drop(held);
            bed.rest(round);
            self.offer();
        }
    }
}

/// Hands the turn on where a call panics.
struct Leaving<'a, D: Driven, W: Fn()>(&'a Shared<D, W>);

impl<D: Driven, W: Fn()> Drop for Leaving<'_, D, W> {
    fn drop(&mut self) {
        self.0.lock().state().turns.leave();
    }
}

#[cfg(all(test, not(bowline_loom)))]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    use super::*;

    /// Takes an event, and panics in the handler of it.
    struct Panics;

    impl Driven for Panics {
        type Key = ();
        type Nap = ();

        fn progress(&mut self) -> u32 {
            panic!("a handler");
        }
        fn is_there(&mut self, (): &(), _: bool) -> bool {
            false
        }
        fn begin_nap(&mut self) -> Option<()> {
            Some(())
        }
        fn end_nap(&mut self) {}
    }

    type Shared = super::Shared<Panics, Box<dyn Fn()>>;

    fn a_panic_wakes_the_sleeper(call: impl FnOnce(&Shared)) {
        let woken = Rc::new(Cell::new(0));
        let count = Rc::clone(&woken);
        let shared = Shared::new(Panics, Box::new(move || count.set(count.get() + 1)));
        shared.lock().state().asleep = true;
        catch_unwind(AssertUnwindSafe(|| call(&shared))).unwrap_err();
        assert_eq!(woken.get(), 1, "rule 5");
        assert!(!shared.lock().state().asleep);
    }

    #[test]
    fn a_handler_that_panics_wakes_the_sleeper() {
        a_panic_wakes_the_sleeper(|shared| _ = shared.progress());
    }

    #[test]
    fn a_call_that_panics_wakes_the_sleeper() {
        a_panic_wakes_the_sleeper(|shared| shared.with(|_| panic!("a call")));
    }
}

#[cfg(all(test, bowline_loom))]
mod loom_tests {
    //! Threads wait for messages that a network brings, and what one of them sleeps on tells only of what
    //! nobody has taken yet: as a socket does.

    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    const UNREAD: u32 = 1;
    const READ: u32 = 2;

    /// What is outside of the lock: messages, and the signal.
    #[derive(Default)]
    struct Outside {
        messages: [AtomicU32; 2],
        raised: AtomicU32,
    }

    impl Outside {
        fn is_readable(&self) -> bool {
            // Acquire pairs with the Release of `send`.
            self.messages.iter().any(|message| message.load(Ordering::Acquire) == UNREAD)
        }

        fn send(&self, key: usize) {
            // Release pairs with the Acquires of those that look.
            self.messages[key].store(UNREAD, Ordering::Release);
        }

        fn raise(&self) {
            // Release pairs with the Acquire of the sleeper.
            self.raised.store(1, Ordering::Release);
        }
    }

    struct Inside {
        outside: Arc<Outside>,
        here: [bool; 2],
        /// What a post has left for progress to do.
        posted: Option<usize>,
    }

    impl Driven for Inside {
        type Key = usize;
        type Nap = Arc<Outside>;

        fn progress(&mut self) -> u32 {
            let mut events = 0;
            for (here, message) in self.here.iter_mut().zip(&self.outside.messages) {
                // Acquire pairs with the Release of `send`; only the holder of the lock reads.
                if message.load(Ordering::Acquire) == UNREAD {
                    message.store(READ, Ordering::Release);
                    *here = true;
                    events += 1;
                }
            }
            if let Some(key) = self.posted.take() {
                self.outside.send(key);
                events += 1;
            }
            events
        }

        fn is_there(&mut self, key: &usize, _: bool) -> bool {
            self.here[*key]
        }

        fn begin_nap(&mut self) -> Option<Arc<Outside>> {
            // AcqRel: pairs with `raise`, and takes it.
            let raised = self.outside.raised.swap(0, Ordering::AcqRel) == 1;
            (!raised && !self.outside.is_readable()).then(|| Arc::clone(&self.outside))
        }

        fn end_nap(&mut self) {}
    }

    struct Asleep;

    impl Bed<Arc<Outside>> for Asleep {
        fn is_tired(&self, _: u32) -> bool {
            true
        }
        fn rest(&mut self, _: u32) {}
        fn sleep(&mut self, outside: Arc<Outside>, _: u32) {
            // Acquire pairs with the Release of `raise`.
            while outside.raised.load(Ordering::Acquire) == 0 && !outside.is_readable() {
                yield_now();
            }
        }
    }

    type Model = Shared<Inside, Box<dyn Fn() + Send + Sync>>;

    fn model(wakes: bool) -> (Arc<Model>, Arc<Outside>) {
        let outside = Arc::new(Outside::default());
        let signal = Arc::clone(&outside);
        let wake: Box<dyn Fn() + Send + Sync> =
            if wakes { Box::new(move || signal.raise()) } else { Box::new(|| {}) };
        let inside = Inside { outside: Arc::clone(&outside), here: [false; 2], posted: None };
        (Arc::new(Shared::new(inside, wake)), outside)
    }

    fn wait(shared: &Model, key: usize) {
        shared.until(key, &mut |inside| inside.here[key], || Asleep);
    }

    /// A thread that polls takes the message of the one that sleeps.
    fn another_takes_the_event(wakes: bool) {
        loom::model(move || {
            let (shared, outside) = model(wakes);
            let waiter = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || wait(&shared, 0))
            };
            let poller = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.progress();
                })
            };
            outside.send(0);
            waiter.join().expect("it has its message");
            poller.join().expect("it looked once");
        });
    }

    #[test]
    fn loom_the_sleeper_hears_of_what_another_thread_took() {
        another_takes_the_event(true);
    }

    /// The control: without the wake-up the model must not end.
    #[test]
    #[should_panic]
    fn loom_without_a_wake_up_the_sleeper_is_lost() {
        another_takes_the_event(false);
    }

    /// What another thread posts is left undone until there is progress.
    fn another_posts(wakes: bool) {
        loom::model(move || {
            let (shared, outside) = model(wakes);
            let waiter = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || wait(&shared, 0))
            };
            shared.with(|inside| inside.posted = Some(0));
            waiter.join().expect("its message was sent");
            drop(outside);
        });
    }

    #[test]
    fn loom_a_post_of_another_thread_wakes_the_sleeper() {
        another_posts(true);
    }

    /// The control of it.
    #[test]
    #[should_panic]
    fn loom_without_a_wake_up_the_post_is_lost() {
        another_posts(false);
    }

    /// Two waiters, each of which may be the one that sleeps and take what the other waits for.
    #[test]
    fn loom_two_waiters_each_get_their_own() {
        loom::model(|| {
            let (shared, outside) = model(true);
            let waiter = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || wait(&shared, 1))
            };
            outside.send(1);
            outside.send(0);
            wait(&shared, 0);
            waiter.join().expect("it has its message");
            // Acquire pairs with the Release of the reader.
            assert_eq!(outside.messages[0].load(Ordering::Acquire), READ);
        });
    }
}
