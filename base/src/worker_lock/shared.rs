//! The mode several of a [`WorkerLock`]: what threads use under claims, the election of the thread that makes progress for
//! all, and the sleep of that leader.
//!
//! ```text
//!   with(op) ───► claim ── op ── settle ── release ── wakes the leader, if it sleeps
//!   progress() ─► claim ── progress ── settle ── release ── the same, if anything happened
//!   until(key) ─► claim ── progress: it is there ── release ── the same
//!                            └─ elected: progress, released between two rounds, asleep without a claim
//!                            └─ else: parked, until called
//! ```
//! Rules. (1) No thread sleeps with a claim, but for a moment where a transport that lacks what it sleeps on
//! answers [`Driven::arm_sleep`]; the lock is offered to others behind it. (2) `asleep` is set under the claim in which the
//! leader has found nothing and has armed what it sleeps on, so that whatever another thread changes comes before
//! that poll or finds the mark. (3) A thread that has changed anything under its claim clears the mark and wakes
//! the leader after the release: with a post, since what a post leaves undone is moved on by progress;
//! with progress, since that may have taken the very event that the leader would be woken by, and completed
//! what it waits for. (4) A wake-up that comes before the sleep ends the sleep at once: that is what
//! [`Driven::arm_sleep`] promises. (5) Rule 3 holds for calls that unwind as well: they may have changed
//! anything. (6) A thread that would claim while it has a claim panics: it would wait for itself.

#[cfg(all(test, bowline_loom))]
mod loom_tests;

use std::cell::UnsafeCell;
use std::marker::PhantomData;

use super::election::{Call, ProgressElection, Role};
use super::{Claims, FREE, WorkerLock, wait_until};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::yield_now;

/// Yields of the leader between two rounds for those that want the lock.
#[cfg(not(bowline_loom))]
const COURTESY: u32 = 64;
/// A model tries every order without being asked to.
#[cfg(bowline_loom)]
const COURTESY: u32 = 0;

/// What threads use under claims. All methods but [`lock`](Self::lock) are called under one.
pub trait Driven {
    /// What the lock itself protects, be it from remote handles.
    type Value;
    /// What a waiter waits for.
    type Key;
    /// What a leader sleeps on.
    type ArmedSleep;

    /// The lock. Under a claim its methods enter as the owner does.
    fn lock(&self) -> &WorkerLock<Self::Value>;

    /// Makes progress once. Returns how many events there were.
    fn progress(&mut self) -> u32;

    /// Whether a parked waiter is to check whether its end has come. `events`: whether anything happened.
    fn is_there(&mut self, key: &Self::Key, events: bool) -> bool;

    /// Arms what there is to sleep on: from now on every event, and every wake-up since the last sleep, ends
    /// the sleep. `None` when something is there already.
    fn arm_sleep(&mut self) -> Option<Self::ArmedSleep>;

    /// The leader is awake.
    fn end_sleep(&mut self);

    /// The number of the sleep of a thread that sleeps on the same things by itself, outside of
    /// [`SharedLock::until`]; each sleep has another.
    fn other_sleep(&self) -> Option<u64> {
        None
    }

    /// That sleep will be ended.
    fn end_other_sleep(&mut self) {}
}

/// How the leader passes its time. Called without a claim but for [`Parker::should_sleep`].
pub trait Parker<N> {
    /// Whether to sleep after so many rounds in a row that found nothing.
    fn should_sleep(&self, round: u32) -> bool;
    /// Between two rounds.
    fn rest(&mut self, round: u32);
    /// Sleeps until an event or a wake-up.
    fn sleep(&mut self, armed: N, round: u32);
}

#[derive(Debug)]
struct State<D: Driven> {
    driven: D,
    election: ProgressElection<D::Key>,
    /// Rule 2.
    asleep: bool,
}

/// See the module's text. `W` wakes the leader.
pub struct SharedLock<D: Driven, W: Fn()> {
    /// First: its drop makes the lock one of a single owner again, before `driven` goes, which has that owner.
    claims: Claims<D::Value>,
    state: UnsafeCell<State<D>>,
    /// Threads that want the lock.
    wanted: AtomicU32,
    wake: W,
}

// SAFETY: the state is reached through `Held`, of which there is one at a time: each comes from a successful claim,
// `claims` is the only right to claim for its lock, and a claim's Acquire pairs with the Release of the one before. So
// the state is handed from thread to thread as by sending it; the value as explained at `Core`. `wake` is called by
// several threads at once, which `W: Sync` allows.
unsafe impl<D: Driven + Send, W: Fn() + Sync> Sync for SharedLock<D, W>
where
    D::Key: Send,
    D::Value: Send,
{
}

impl<D: Driven, W: Fn()> std::fmt::Debug for SharedLock<D, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedLock").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

/// A claim; with what is owed after its release. It ends on the thread that claimed (rule 4 of the lock).
struct Held<'a, D: Driven, W: Fn()> {
    shared: &'a SharedLock<D, W>,
    wakes: bool,
    _not_send: PhantomData<*const ()>,
}

impl<'a, D: Driven, W: Fn()> Held<'a, D, W> {
    /// For a claim that was just made.
    fn new(shared: &'a SharedLock<D, W>) -> Self {
        Self { shared, wakes: false, _not_send: PhantomData }
    }

    fn state(&mut self) -> &mut State<D> {
        // SAFETY: this is the only `Held`, as explained at `SharedLock`, and it is borrowed by `&mut`.
        unsafe { &mut *self.shared.state.get() }
    }

    /// Something changed: those whose end has come are called, and rule 3.
    fn changed(&mut self, events: bool) {
        let State { driven, election, asleep } = self.state();
        election.settle(|key| driven.is_there(key, events));
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
        if std::thread::panicking() {
            self.changed(true);
        }
        self.shared.claims.0.release();
        if self.wakes {
            (self.shared.wake)();
        }
    }
}

impl<D: Driven, W: Fn()> SharedLock<D, W> {
    /// Shares `driven`; `wake` ends the sleep of a [`Parker`], or its next one.
    ///
    /// # Panics
    /// When the owner of its lock is inside, or the lock is shared already.
    pub fn new(driven: D, wake: W) -> Self {
        let claims = driven.lock().share();
        let state = State { driven, election: ProgressElection::default(), asleep: false };
        Self { claims, state: UnsafeCell::new(state), wanted: AtomicU32::new(0), wake }
    }

    /// What was shared, with its lock in the mode that it was in.
    pub fn into_inner(self) -> D {
        let Self { claims, state, .. } = self;
        drop(claims);
        state.into_inner().driven
    }

    #[inline]
    #[track_caller]
    fn claim(&self) -> Held<'_, D, W> {
        if !self.claims.0.claim() {
            self.wait_for_claim();
        }
        Held::new(self)
    }

    #[cold]
    #[track_caller]
    fn wait_for_claim(&self) {
        assert!(
            !self.claims.0.is_claimer(),
            "a handler, or a closure under the lock, uses what it would have to wait for itself to leave; it is to \
             use what it was given"
        );
        // Relaxed: a hint for the leader.
        self.wanted.fetch_add(1, Ordering::Relaxed);
        // Relaxed: the claim decides. Read first, so that the holder keeps its line.
        wait_until(|| self.claims.0.word.load(Ordering::Relaxed) == FREE && self.claims.0.claim());
        self.wanted.fetch_sub(1, Ordering::Relaxed);
    }

    /// Calls `op` under a claim. It may change anything.
    ///
    /// # Panics
    /// As all methods that claim: when the calling thread has a claim.
    #[track_caller]
    pub fn with<R>(&self, op: impl FnOnce(&mut D) -> R) -> R {
        let mut held = self.claim();
        let before = held.state().driven.other_sleep();
        let result = op(&mut held.state().driven);
        let State { driven, election, asleep } = held.state();
        election.settle(|key| driven.is_there(key, true));
        // A sleep that `op` itself has begun is the caller's own.
        let other = before.is_some() && driven.other_sleep() == before;
        if other {
            driven.end_other_sleep();
        }
        let asleep = std::mem::take(asleep);
        held.wakes |= asleep | other;
        result
    }

    /// Calls `op` under a claim. It must change nothing that anybody waits for or that progress would
    /// move on.
    #[track_caller]
    pub fn inspect<R>(&self, op: impl FnOnce(&mut D) -> R) -> R {
        op(&mut self.claim().state().driven)
    }

    /// The same, unless the lock is taken.
    pub fn try_inspect<R>(&self, op: impl FnOnce(&mut D) -> R) -> Option<R> {
        self.claims.0.claim().then(|| op(&mut Held::new(self).state().driven))
    }

    /// Makes progress once. Returns how many events there were.
    #[track_caller]
    pub fn progress(&self) -> u32 {
        self.claim().progress()
    }

    /// Waits until `done`, which is asked under a claim whenever something happened that `key` says.
    /// `parker` is made where this thread is elected.
    #[track_caller]
    pub fn until<P: Parker<D::ArmedSleep>>(
        &self,
        key: D::Key,
        done: &mut dyn FnMut(&mut D) -> bool,
        parker: impl Fn() -> P,
    ) where
        D::Key: Copy,
    {
        loop {
            let mut held = self.claim();
            held.progress();
            if done(&mut held.state().driven) {
                return;
            }
            let Role::Park(slot) = held.state().election.enter(key) else {
                drop(held);
                return self.lead(done, parker());
            };
            drop(held);
            if slot.wait() == Call::Elected {
                return self.lead(done, parker());
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
    fn lead<P: Parker<D::ArmedSleep>>(&self, done: &mut dyn FnMut(&mut D) -> bool, mut parker: P) {
        let leaving = Leaving(self);
        let mut round = 0_u32;
        loop {
            let mut held = self.claim();
            let events = held.progress();
            if done(&mut held.state().driven) {
                drop(parker);
                held.state().election.leave();
                std::mem::forget(leaving);
                return;
            }
            round = if events > 0 { 0 } else { round.saturating_add(1) };
            if parker.should_sleep(round) {
                let Some(armed) = held.state().driven.arm_sleep() else {
                    // The poll may have taken what it found, so that progress does not find it again.
                    held.changed(true);
                    drop(held);
                    self.offer();
                    continue;
                };
                held.state().asleep = true;
                drop(held);
                parker.sleep(armed, round);
                let mut held = self.claim();
                held.state().asleep = false;
                held.state().driven.end_sleep();
                continue;
            }
            drop(held);
            parker.rest(round);
            self.offer();
        }
    }
}

/// Has another thread lead where a call panics.
struct Leaving<'a, D: Driven, W: Fn()>(&'a SharedLock<D, W>);

impl<D: Driven, W: Fn()> Drop for Leaving<'_, D, W> {
    fn drop(&mut self) {
        self.0.claim().state().election.leave();
    }
}

#[cfg(all(test, not(bowline_loom)))]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    use super::*;

    /// Takes an event, and panics in the handler of it.
    struct Panics(WorkerLock<()>);

    impl Driven for Panics {
        type Value = ();
        type Key = ();
        type ArmedSleep = ();

        fn lock(&self) -> &WorkerLock<()> {
            &self.0
        }

        fn progress(&mut self) -> u32 {
            panic!("a handler");
        }
        fn is_there(&mut self, (): &(), _: bool) -> bool {
            false
        }
        fn arm_sleep(&mut self) -> Option<()> {
            Some(())
        }
        fn end_sleep(&mut self) {}
    }

    type Shared = SharedLock<Panics, Box<dyn Fn()>>;

    fn a_panic_wakes_the_sleeper(call: impl FnOnce(&Shared)) {
        let woken = Rc::new(Cell::new(0));
        let count = Rc::clone(&woken);
        let shared =
            Shared::new(Panics(WorkerLock::new(())), Box::new(move || count.set(count.get() + 1)));
        shared.claim().state().asleep = true;
        catch_unwind(AssertUnwindSafe(|| call(&shared))).unwrap_err();
        assert_eq!(woken.get(), 1, "rule 5");
        assert!(!shared.claim().state().asleep);
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
