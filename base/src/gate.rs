//! A value with one owner, and a side door through which others may come when the owner is out.
//!
//! ```text
//!   the owner's word, which nobody else touches     the door's word
//!     OUT ──enter──► IN ──leave──► OUT                FREE ──compare-and-swap──► HELD
//!      │ visitor(): for good                           ▲────────store────────────┘
//!     SHARED_OUT ──enter, by the door──► SHARED_IN ──leave──► SHARED_OUT
//! ```
//! 1. [`Owner`] belongs to one thread at a time. While there is no side door, it enters by a plain
//!    load and store of a word of its own: what a `RefCell` costs.
//! 2. [`Owner::visitor`] opens the side door, for good. From then on everybody enters by a
//!    compare-and-swap of the door's word, so that there is one inside at most, whatever thread or
//!    signal handler it comes from.
//! 3. Who leaves does the same in both cases, without asking: leaving is on everybody's way.
//! 4. A visitor in a signal handler may only [try](Visitor::try_enter): whoever it interrupted may be
//!    inside, and does not go on before the handler has returned.
//! 5. Who waits for the door spins for a moment and then yields its processor. So nobody may
//!    sleep inside.
//!
//! It is no lock for data structures: there is no queue in front of the door.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::cell::Cell;
use crate::sync::{spin_loop, yield_now};

/// The owner's word.
const OUT: u32 = 0;
const IN: u32 = 1;
const SHARED_OUT: u32 = 2;
const SHARED_IN: u32 = 3;

/// Looks at the door before the first yield.
const SPINS: u32 = 100;

#[derive(Debug)]
struct Gate<T> {
    /// Read and written by the owner's thread alone; a model notices any other.
    owner: Cell<u32>,
    /// Whether somebody is inside, where there are visitors.
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `owner` is used by `Owner` and its guard alone. `Owner` is not `Sync`, so one thread has it at a
// time; its guard is not `Send` and borrows it, so the guard is dropped on that thread, and the owner
// does not move before. The value is reached through guards, of which there is one at a time: without visitors by the owner's word, with
// visitors because everybody enters by a compare-and-swap (rule 2), whose Acquire pairs with the
// Release of whoever left before. So the value is handed from thread to thread as by sending it.
unsafe impl<T: Send> Sync for Gate<T> {}

impl<T> Gate<T> {
    #[inline]
    fn try_door(&self) -> bool {
        // Acquire: pairs with the Release in `open`; what the one before has done is seen.
        // Relaxed: one that is refused reads nothing.
        self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn wait_at_door(&self) {
        let mut looks = 0u32;
        while !self.try_door() {
            looks = looks.saturating_add(1);
            if looks < SPINS { spin_loop() } else { yield_now() }
        }
    }

    #[inline(always)]
    fn open(&self) {
        // Release: pairs with the Acquire in `try_door`.
        self.held.store(false, Ordering::Release);
    }

    /// The owner comes in and is not simply out. Whether it got in.
    #[cold]
    #[inline(never)]
    fn owner_enters(&self, waits: bool) -> bool {
        if self.owner.get() != SHARED_OUT {
            return false;
        }
        if waits {
            self.wait_at_door();
        } else if !self.try_door() {
            return false;
        }
        self.owner.set(SHARED_IN);
        true
    }
}

/// The owner's side. `Send`, and not `Sync`: one thread has it at a time.
pub struct Owner<T> {
    gate: Arc<Gate<T>>,
    _not_sync: PhantomData<std::cell::Cell<()>>,
}

impl<T> Owner<T> {
    /// A gate without side door.
    pub fn new(value: T) -> Self {
        let gate = Gate {
            owner: Cell::new(OUT),
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        };
        Self { gate: Arc::new(gate), _not_sync: PhantomData }
    }

    /// Enters. Waits while a visitor is inside.
    ///
    /// # Panics
    /// When the owner is inside already.
    #[inline(always)]
    pub fn borrow_mut(&self) -> Entered<'_, T> {
        let gate = &*self.gate;
        if gate.owner.get() == OUT {
            gate.owner.set(IN);
        } else if !gate.owner_enters(true) {
            entered_twice();
        }
        Entered { gate, _not_send: PhantomData }
    }

    /// The same, for those that only look.
    ///
    /// # Panics
    /// As [`borrow_mut`](Self::borrow_mut).
    #[inline(always)]
    pub fn borrow(&self) -> Entered<'_, T> {
        self.borrow_mut()
    }

    /// Enters, unless somebody is inside.
    pub fn try_borrow_mut(&self) -> Option<Entered<'_, T>> {
        let gate = &*self.gate;
        if gate.owner.get() == OUT {
            gate.owner.set(IN);
        } else if !gate.owner_enters(false) {
            return None;
        }
        Some(Entered { gate, _not_send: PhantomData })
    }

    /// Opens the side door, for good, and hands out a key to it. The value stays until the last key
    /// is gone.
    ///
    /// # Panics
    /// When the owner is inside.
    pub fn visitor(&self) -> Visitor<T> {
        // How the key comes to another thread orders what the owner did before it.
        match self.gate.owner.get() {
            OUT => self.gate.owner.set(SHARED_OUT),
            IN => entered_twice(),
            _ => {}
        }
        Visitor { gate: Arc::clone(&self.gate) }
    }
}

#[cold]
#[inline(never)]
fn entered_twice() -> ! {
    panic!(
        "entered from inside of itself: what is called back must not hold what it was called from"
    )
}

impl<T> fmt::Debug for Owner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("state", &self.gate.owner).finish_non_exhaustive()
    }
}

/// The owner inside. Neither `Send` nor `Sync`: dropping it writes the owner's word, which only the
/// owner's thread may do.
///
/// ```compile_fail,E0277
/// let owner = bowline_base::gate::Owner::new(0);
/// let inside = owner.borrow_mut();
/// std::thread::scope(|scope| {
///     scope.spawn(move || drop(inside));
/// });
/// ```
#[derive(Debug)]
pub struct Entered<'a, T> {
    gate: &'a Gate<T>,
    _not_send: PhantomData<*const ()>,
}

impl<T> Deref for Entered<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, as told at `Gate`.
        unsafe { &*self.gate.value.get() }
    }
}

impl<T> DerefMut for Entered<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, as told at `Gate`.
        unsafe { &mut *self.gate.value.get() }
    }
}

impl<T> Drop for Entered<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // In to out, shared or not. Before the door opens: whoever comes then may be in a handler.
        self.gate.owner.set(self.gate.owner.get() - 1);
        self.gate.open();
    }
}

/// A key to the side door; for any thread, and for signal handlers.
pub struct Visitor<T> {
    gate: Arc<Gate<T>>,
}

impl<T> Clone for Visitor<T> {
    fn clone(&self) -> Self {
        Self { gate: Arc::clone(&self.gate) }
    }
}

impl<T> fmt::Debug for Visitor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor").field("held", &self.gate.held).finish_non_exhaustive()
    }
}

impl<T> Visitor<T> {
    /// Enters, unless somebody is inside. Async-signal-safe: one compare-and-swap.
    #[inline]
    pub fn try_enter(&self) -> Option<Visit<'_, T>> {
        self.gate.try_door().then(|| Visit { gate: &self.gate, _not_sync: PhantomData })
    }

    /// Enters, and waits for whoever is inside. Never from a signal handler.
    pub fn enter(&self) -> Visit<'_, T> {
        self.gate.wait_at_door();
        Visit { gate: &self.gate, _not_sync: PhantomData }
    }
}

/// A visitor inside. It may be sent to another thread, and shared where the value may be; with a cell
/// it may not:
///
/// ```compile_fail,E0277
/// let owner = bowline_base::gate::Owner::new(std::cell::Cell::new(0));
/// let visitor = owner.visitor();
/// let inside = visitor.enter();
/// std::thread::scope(|scope| {
///     scope.spawn(|| inside.set(1));
/// });
/// ```
#[derive(Debug)]
pub struct Visit<'a, T> {
    gate: &'a Gate<T>,
    /// The gate itself is `Sync` where the value is only `Send`; a guard hands out `&T`.
    _not_sync: PhantomData<std::cell::Cell<()>>,
}

// SAFETY: a shared guard gives `&T` to several threads, which `T: Sync` allows; it has no other method
// by a shared reference.
unsafe impl<T: Send + Sync> Sync for Visit<'_, T> {}

impl<T> Deref for Visit<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, as told at `Gate`.
        unsafe { &*self.gate.value.get() }
    }
}

impl<T> DerefMut for Visit<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, as told at `Gate`.
        unsafe { &mut *self.gate.value.get() }
    }
}

impl<T> Drop for Visit<'_, T> {
    fn drop(&mut self) {
        self.gate.open();
    }
}

#[cfg(all(test, not(bowline_loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn the_owner_cannot_enter_twice_with_or_without_a_side_door() {
        let owner = Owner::new(1);
        let mut keys = Vec::new();
        for _ in 0..2 {
            let mut inside = owner.borrow_mut();
            *inside += 1;
            assert!(owner.try_borrow_mut().is_none());
            assert!(catch_unwind(AssertUnwindSafe(|| drop(owner.borrow_mut()))).is_err());
            drop(inside);
            assert!(owner.try_borrow_mut().is_some());
            keys.push(owner.visitor());
        }
        assert_eq!(*owner.borrow(), 3);
    }

    #[test]
    fn a_visitor_is_refused_while_somebody_is_inside() {
        let owner = Owner::new(String::new());
        let key = owner.visitor();
        let inside = owner.borrow_mut();
        assert!(key.try_enter().is_none());
        drop(inside);
        let mut visit = key.try_enter().expect("nobody is inside");
        visit.push('x');
        assert!(key.clone().try_enter().is_none());
        assert!(owner.try_borrow_mut().is_none());
        drop(visit);
        assert_eq!(*owner.borrow(), "x");
        // A guard that a panic drops opens the door.
        let panics = catch_unwind(AssertUnwindSafe(|| {
            let _inside = owner.borrow_mut();
            panic!("inside");
        }));
        assert!(panics.is_err());
        assert!(key.try_enter().is_some());
        drop(owner);
        assert_eq!(*key.enter(), "x");
    }

    /// Whether a type is `Send` and whether it is `Sync`: the inherent constants exist where the bound
    /// holds, and hide those of the traits.
    macro_rules! send_and_sync {
        ($type:ty) => {{
            struct Probe<T>(std::marker::PhantomData<T>);
            trait No {
                const SEND: bool = false;
                const SYNC: bool = false;
            }
            impl<T> No for Probe<T> {}
            struct Shared<T>(std::marker::PhantomData<T>);
            impl<T> No for Shared<T> {}
            impl<T: Send> Probe<T> {
                const SEND: bool = true;
            }
            impl<T: Sync> Shared<T> {
                const SYNC: bool = true;
            }
            (Probe::<$type>::SEND, Shared::<$type>::SYNC)
        }};
    }

    #[test]
    #[allow(dead_code, reason = "of each pair of constants one is asked")]
    fn guards_cross_threads_only_where_their_value_allows_it() {
        use std::cell::Cell;
        assert_eq!(send_and_sync!(Owner<Cell<u8>>), (true, false));
        assert_eq!(send_and_sync!(Visitor<Cell<u8>>), (true, true));
        assert_eq!(send_and_sync!(Entered<'static, u8>), (false, false));
        assert_eq!(send_and_sync!(Visit<'static, u8>), (true, true));
        assert_eq!(send_and_sync!(Visit<'static, Cell<u8>>), (true, false));
        // A value of one thread keeps everything there.
        assert_eq!(send_and_sync!(Owner<std::rc::Rc<u8>>), (false, false));
        assert_eq!(send_and_sync!(Visitor<std::rc::Rc<u8>>), (false, false));
        assert_eq!(send_and_sync!(Visit<'static, std::rc::Rc<u8>>), (false, false));
    }

    #[test]
    fn threads_take_turns() {
        let owner = Owner::new(0u64);
        let key = owner.visitor();
        let other = std::thread::spawn(move || {
            for _ in 0..100_000 {
                *key.enter() += 1;
            }
        });
        for _ in 0..100_000 {
            *owner.borrow_mut() += 1;
        }
        other.join().unwrap();
        assert_eq!(*owner.borrow(), 200_000);
    }
}

#[cfg(all(test, bowline_loom))]
mod loom_tests {
    use super::*;

    /// The model's cells, that of the value and that of the owner's word, notice two that are inside
    /// at once, and one that does not see what the one before has done.
    #[test]
    fn loom_one_is_inside() {
        loom::model(|| {
            let owner = Owner::new(loom::cell::UnsafeCell::new(0u32));
            // What the owner did while it was alone is seen by visitors.
            add(&owner.borrow_mut());
            let key = owner.visitor();
            let other = loom::thread::spawn(move || {
                add(&key.enter());
                key.try_enter().is_some_and(|visit| {
                    add(&visit);
                    true
                })
            });
            add(&owner.borrow_mut());
            let twice = other.join().unwrap();
            let expected = if twice { 4 } else { 3 };
            // SAFETY: the other thread has ended.
            owner.borrow().with(|count| assert_eq!(unsafe { *count }, expected));
        });
    }

    /// The owner tries instead of waiting, refuses itself while it is inside, and goes to another
    /// thread with its word.
    #[test]
    fn loom_an_owner_tries_and_moves() {
        loom::model(|| {
            let owner = Owner::new(loom::cell::UnsafeCell::new(0u32));
            let key = owner.visitor();
            let moved = loom::thread::spawn(move || {
                let mut done = 0;
                if let Some(inside) = owner.try_borrow_mut() {
                    add(&inside);
                    done += 1;
                    assert!(owner.try_borrow_mut().is_none(), "it is inside already");
                }
                add(&owner.borrow_mut());
                (owner, done + 1)
            });
            add(&key.enter());
            let (owner, done) = moved.join().unwrap();
            // SAFETY: the other thread has ended.
            owner.borrow().with(|count| assert_eq!(unsafe { *count }, done + 1));
        });
    }

    /// The model must be able to fail: a guard that is dropped on another thread than the owner's
    /// writes the owner's word there. The type system refuses it, so the test sends it by force.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn loom_a_guard_must_not_move() {
        struct Forced<T>(T);
        // SAFETY: it is not: this is what the model must notice. Models run one thread at a time.
        unsafe impl<T> Send for Forced<T> {}
        loom::model(|| {
            let owner: &'static Owner<u32> = Box::leak(Box::new(Owner::new(0)));
            owner.visitor();
            let inside = Forced(owner.borrow_mut());
            let other = loom::thread::spawn(move || {
                let whole = inside;
                drop(whole.0);
            });
            drop(owner.try_borrow_mut());
            other.join().unwrap();
        });
    }

    fn add(count: &loom::cell::UnsafeCell<u32>) {
        // SAFETY: only inside of the gate; the model fails if that is not enough.
        count.with_mut(|count| unsafe { *count += 1 });
    }
}
