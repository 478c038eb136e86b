//! The lock of a worker: one word, three modes. It costs a worker that one thread uses nothing but a plain load
//! and store, and serves progress beside that thread, and several threads, by the same word.
//!
//! | mode | who enters | how |
//! |---|---|---|
//! | alone | the owner's thread | load, store |
//! | beside | the owner, and [`RemoteHandle`]s: a progress thread, a signal handler | compare-and-swap |
//! | several | any thread by a claim ([`SharedLock`]), and `RemoteHandle`s | compare-and-swap; the claimer is the owner until it releases: load, store |
//!
//! ```text
//!   alone    ALONE ◄──enter, leave──► ALONE|OWNER_IN
//!              │ remote()
//!   beside   BESIDE ◄──owner──► BESIDE|OWNER_IN      BESIDE ◄──remote──► BESIDE|REMOTE_IN
//!              │ share()        (from ALONE, too; the end of the sharing leads back)
//!   several  FREE ◄──remote──► FREE|REMOTE_IN
//!              ▲
//!              └──claim, release──► CLAIMED ◄──claimer──► CLAIMED|OWNER_IN
//! ```
//! 1. The value is reached through guards, and there is one guard at a time: a mark `_IN` in the word says that it exists.
//! 2. In the mode alone only the owner's thread uses the word. [`WorkerLock`] is not `Sync` and its guard is
//!    not `Send`, so that this is one thread at a time.
//! 3. BESIDE and FREE are left by compare-and-swap alone (Acquire). The thread that has left one of them is the only one
//!    that changes the word until it returns there, by a store (Release): no other thread has a transition from a word with
//!    a mark or from CLAIMED. ALONE says that there never was a remote handle: one is made by the owner, which under
//!    claims is the thread that has one, and the end of the sharing leads to BESIDE if one was ever made.
//! 4. From CLAIMED only the thread enters that claimed: its token lies beside the word. A claim is released by that
//!    thread, and not while its guard lives.
//! 5. A signal handler may only [try](RemoteHandle::try_enter): the code that it interrupted may be inside and
//!    does not go on before the handler has returned.
//! 6. A thread that waits for the lock spins, yields, and then sleeps for short times. It does not have to be woken, so that
//!    leaving is a plain store in all modes. The inside must not block.
//!
//! Who of several threads makes progress, and how the others sleep, is [`SharedLock`]'s part, with the
//! election of a progress leader in front of it.

mod election;
#[cfg(all(test, bowline_loom))]
mod loom_tests;
mod shared;
#[cfg(all(test, not(bowline_loom)))]
mod tests;

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

pub use shared::{Driven, Parker, SharedLock};

use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::sync::{spin_loop, thread_token, yield_now};

/// Marks of the word.
const OWNER_IN: u32 = 1;
const REMOTE_IN: u32 = 2;
const MARKS: u32 = OWNER_IN | REMOTE_IN;

/// What the word is without marks.
const ALONE: u32 = 0;
const BESIDE: u32 = 4;
const FREE: u32 = 8;
const CLAIMED: u32 = 12;

/// Attempts before the first yield.
const SPINS: u32 = 100;

/// Yields before the first sleep: a holder that runs has left by then, unless it copies something long.
#[cfg(not(bowline_loom))]
const YIELDS: u32 = 100;

/// One sleep of a thread that waits for the lock. As long as the kernel's default timer slack: shorter ones are
/// not shorter.
#[cfg(not(bowline_loom))]
const SLEEP: std::time::Duration = std::time::Duration::from_micros(50);

#[derive(Debug)]
struct Core<T> {
    word: AtomicU32,
    /// The thread that has claimed; 0 for none. A thread finds its own token here only if it has stored it itself
    /// and not taken it back: so Relaxed suffices for the question whether it is the caller.
    claimer: AtomicUsize,
    /// A remote handle was made. Only the owner writes it. Relaxed: the end of the sharing has claimed, and so sees what
    /// the owner did before.
    has_remotes: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through guards, of which there is one at a time (rules 1 to 4). In the mode alone
// they are all of one thread, or of threads between which the owner was sent. In the others a compare-and-swap, whose
// Acquire pairs with the Release of the one that left before, comes before each guard or before the claim that it is
// under. So the value is handed from thread to thread as by sending it.
unsafe impl<T: Send> Sync for Core<T> {}

impl<T> Core<T> {
    #[inline]
    fn swap(&self, from: u32, to: u32) -> bool {
        // Acquire: pairs with the Release in `leave` and `release`; what the one before has done is seen.
        // Relaxed: one that is refused reads nothing.
        self.word.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The owner enters, or not, in another mode than alone. Whether it did.
    #[cold]
    #[inline(never)]
    fn owner_enters(&self, waits: bool) -> bool {
        // Relaxed: where the caller is the claimer it wrote the word itself; else the compare-and-swap decides.
        match self.word.load(Ordering::Relaxed) {
            CLAIMED if self.is_claimer() => {
                // Relaxed: nobody else has a transition from CLAIMED (rule 3).
                self.word.store(CLAIMED | OWNER_IN, Ordering::Relaxed);
                true
            }
            word if word & !REMOTE_IN == BESIDE => {
                let try_it = || self.swap(BESIDE, BESIDE | OWNER_IN);
                if waits {
                    wait_until(try_it);
                    return true;
                }
                try_it()
            }
            _ => false,
        }
    }

    #[inline]
    fn remote_enters(&self) -> bool {
        // Relaxed: the compare-and-swap decides.
        let word = self.word.load(Ordering::Relaxed);
        matches!(word, BESIDE | FREE) && self.swap(word, word | REMOTE_IN)
    }

    #[inline(always)]
    fn leave(&self) {
        // Relaxed: nobody else changes a word with a mark (rule 3). Release: pairs with the Acquire in `swap`.
        self.word.store(self.word.load(Ordering::Relaxed) & !MARKS, Ordering::Release);
    }

    #[inline]
    fn claim(&self) -> bool {
        let claimed = self.swap(FREE, CLAIMED);
        if claimed {
            // Relaxed: see the field.
            self.claimer.store(thread_token(), Ordering::Relaxed);
        }
        claimed
    }

    fn is_claimer(&self) -> bool {
        // Relaxed: see the field.
        self.claimer.load(Ordering::Relaxed) == thread_token()
    }

    /// Ends a claim of the calling thread.
    #[inline]
    fn release(&self) {
        // Relaxed: the word is the caller's own. Rule 4.
        assert!(self.word.load(Ordering::Relaxed) == CLAIMED, "a claim ends with its owner inside");
        // Relaxed: see the field.
        self.claimer.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `swap`.
        self.word.store(FREE, Ordering::Release);
    }
}

/// Rule 6.
fn wait_until(mut done: impl FnMut() -> bool) {
    let mut attempts = 0u32;
    while !done() {
        attempts = attempts.saturating_add(1);
        if attempts < SPINS { spin_loop() } else { pause(attempts) }
    }
}

#[cfg(not(bowline_loom))]
fn pause(attempts: u32) {
    if attempts < SPINS + YIELDS { yield_now() } else { std::thread::sleep(SLEEP) }
}

#[cfg(bowline_loom)]
fn pause(_: u32) {
    yield_now();
}

/// The owner's side of the lock. `Send`, and not `Sync`: one thread has it at a time.
pub struct WorkerLock<T> {
    core: Arc<Core<T>>,
    _not_sync: PhantomData<std::cell::Cell<()>>,
}

impl<T> WorkerLock<T> {
    /// A lock in the mode alone.
    pub fn new(value: T) -> Self {
        let core = Core {
            word: AtomicU32::new(ALONE),
            claimer: AtomicUsize::new(0),
            has_remotes: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        };
        Self { core: Arc::new(core), _not_sync: PhantomData }
    }

    /// Enters. Waits while a remote handle is inside.
    ///
    /// # Panics
    /// When the owner is inside already; in the mode several, when the caller has not claimed the lock.
    #[inline(always)]
    pub fn borrow_mut(&self) -> OwnerGuard<'_, T> {
        if !self.enters(true) {
            entered_twice();
        }
        Guard { core: &self.core, _kind: PhantomData }
    }

    /// The same, for calls that only read.
    ///
    /// # Panics
    /// As [`borrow_mut`](Self::borrow_mut).
    #[inline(always)]
    pub fn borrow(&self) -> OwnerGuard<'_, T> {
        self.borrow_mut()
    }

    /// Enters, unless somebody is inside.
    pub fn try_borrow_mut(&self) -> Option<OwnerGuard<'_, T>> {
        self.enters(false).then(|| Guard { core: &self.core, _kind: PhantomData })
    }

    #[inline(always)]
    fn enters(&self, waits: bool) -> bool {
        // Acquire: pairs with the Release of the end of a sharing. Relaxed: rule 2.
        if self.core.word.load(Ordering::Acquire) == ALONE {
            self.core.word.store(ALONE | OWNER_IN, Ordering::Relaxed);
            return true;
        }
        self.core.owner_enters(waits)
    }

    /// A handle by which a progress thread or a signal handler enters. The mode is no longer alone. The value stays
    /// until the last handle is gone.
    ///
    /// # Panics
    /// When the owner is inside; in the mode several, when the caller has not claimed the lock.
    pub fn remote(&self) -> RemoteHandle<T> {
        // Acquire: as in `enters`.
        match self.core.word.load(Ordering::Acquire) {
            // Relaxed: rule 2; how the handle comes to another thread orders what the owner did before.
            ALONE => self.core.word.store(BESIDE, Ordering::Relaxed),
            word if word & !REMOTE_IN == BESIDE => {}
            // The sharing cannot end meanwhile: the claim borrows it.
            CLAIMED if self.core.is_claimer() => {}
            _ => entered_twice(),
        }
        // Relaxed: see the field.
        self.core.has_remotes.store(true, Ordering::Relaxed);
        RemoteHandle { core: Arc::clone(&self.core) }
    }

    /// Begins the mode several.
    ///
    /// # Panics
    /// When the owner is inside, or the mode is several.
    fn share(&self) -> Claims<T> {
        // As in `remote`.
        match self.core.word.load(Ordering::Acquire) {
            ALONE => self.core.word.store(FREE, Ordering::Relaxed),
            word if word & !REMOTE_IN == BESIDE => wait_until(|| self.core.swap(BESIDE, FREE)),
            word if word & OWNER_IN != 0 => entered_twice(),
            _ => panic!("the lock is shared already"),
        }
        Claims(Arc::clone(&self.core))
    }

    /// Whether the mode is several.
    pub fn is_shared(&self) -> bool {
        // Relaxed: only its owner, and in the mode several none, changes the mode.
        self.core.word.load(Ordering::Relaxed) >= FREE
    }
}

#[cold]
#[inline(never)]
fn entered_twice() -> ! {
    panic!(
        "entered from inside of itself: what is called back must not hold what it was called from"
    )
}

impl<T> fmt::Debug for WorkerLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerLock").field("word", &self.core.word).finish_non_exhaustive()
    }
}

/// The owner inside. Neither `Send` nor `Sync`: it stays on the thread that has the owner (rule 2), or the claim (rule 4).
///
/// ```compile_fail,E0277
/// let lock = bowline_base::worker_lock::WorkerLock::new(0);
/// let inside = lock.borrow_mut();
/// std::thread::scope(|scope| {
///     scope.spawn(move || drop(inside));
/// });
/// ```
pub type OwnerGuard<'a, T> = Guard<'a, T, *const ()>;

/// A remote handle inside. It may be sent to another thread, and shared where the value may be; with a cell
/// it may not:
///
/// ```compile_fail,E0277
/// let lock = bowline_base::worker_lock::WorkerLock::new(std::cell::Cell::new(0));
/// let remote = lock.remote();
/// let inside = remote.enter();
/// std::thread::scope(|scope| {
///     scope.spawn(|| inside.set(1));
/// });
/// ```
pub type RemoteGuard<'a, T> = Guard<'a, T, std::cell::Cell<()>>;

/// One that is inside. `K` says on which threads: [`OwnerGuard`], [`RemoteGuard`].
#[derive(Debug)]
pub struct Guard<'a, T, K> {
    core: &'a Core<T>,
    /// Without it the guard would be `Sync` where the value is only `Send`, as the core is; but it hands out `&T`.
    _kind: PhantomData<K>,
}

// SAFETY: a shared guard gives `&T` to several threads, which `T: Sync` allows; it has no other method
// by a shared reference.
unsafe impl<T: Send + Sync> Sync for RemoteGuard<'_, T> {}

impl<T, K> Deref for Guard<'_, T, K> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, as explained at `Core`.
        unsafe { &*self.core.value.get() }
    }
}

impl<T, K> DerefMut for Guard<'_, T, K> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, as explained at `Core`.
        unsafe { &mut *self.core.value.get() }
    }
}

impl<T, K> Drop for Guard<'_, T, K> {
    #[inline(always)]
    fn drop(&mut self) {
        self.core.leave();
    }
}

/// Enters beside the owner, from any thread and from signal handlers.
pub struct RemoteHandle<T> {
    core: Arc<Core<T>>,
}

impl<T> Clone for RemoteHandle<T> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core) }
    }
}

impl<T> fmt::Debug for RemoteHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteHandle").field("word", &self.core.word).finish_non_exhaustive()
    }
}

impl<T> RemoteHandle<T> {
    /// Enters, unless somebody is inside or has claimed. Async-signal-safe: a load and a compare-and-swap.
    #[inline]
    pub fn try_enter(&self) -> Option<RemoteGuard<'_, T>> {
        let entered = self.core.remote_enters();
        entered.then(|| Guard { core: &self.core, _kind: PhantomData })
    }

    /// Enters, and waits while somebody is inside or has claimed. Never from a signal handler.
    pub fn enter(&self) -> RemoteGuard<'_, T> {
        wait_until(|| self.core.remote_enters());
        Guard { core: &self.core, _kind: PhantomData }
    }
}

/// The right to claim; its drop ends the mode several. There is one for each lock.
struct Claims<T>(Arc<Core<T>>);

impl<T> Drop for Claims<T> {
    fn drop(&mut self) {
        // No claim is under way: each borrows this. One that ended by the panic of `release` stays, with what it
        // protects. Relaxed: then the word does not change any more.
        let is_stuck = || self.0.word.load(Ordering::Relaxed) >= CLAIMED;
        let mut claimed = false;
        wait_until(|| {
            claimed = !is_stuck() && self.0.claim();
            claimed || is_stuck()
        });
        if claimed {
            // Relaxed: see the field.
            self.0.claimer.store(0, Ordering::Relaxed);
            // Relaxed: see the field.
            let mode = if self.0.has_remotes.load(Ordering::Relaxed) { BESIDE } else { ALONE };
            // Release: pairs with the Acquires in `swap` and of the owner.
            self.0.word.store(mode, Ordering::Release);
        }
    }
}
