//! Models of the lock's word: owner, remote handles and claims. The models of the election are with it.

use super::*;
use crate::sync::check_orders;

type Counter = loom::cell::UnsafeCell<u32>;

/// The model's cell notices two that are inside at once, and one that does not see what the one before has done.
#[test]
fn loom_one_is_inside() {
    loom::model(|| {
        let lock = WorkerLock::new(Counter::new(0u32));
        // What the owner did while it was alone is seen by remote handles.
        add(&lock.borrow_mut());
        let remote = lock.remote();
        let other = loom::thread::spawn(move || {
            add(&remote.enter());
            remote.try_enter().is_some_and(|inside| {
                add(&inside);
                true
            })
        });
        add(&lock.borrow_mut());
        let twice = other.join().unwrap();
        let expected = if twice { 4 } else { 3 };
        // SAFETY: the other thread has ended.
        lock.borrow().with(|count| assert_eq!(unsafe { *count }, expected));
    });
}

/// The owner tries instead of waiting, refuses itself while it is inside, and goes to another
/// thread with its lock.
#[test]
fn loom_an_owner_tries_and_moves() {
    loom::model(|| {
        let lock = WorkerLock::new(Counter::new(0u32));
        let remote = lock.remote();
        let moved = loom::thread::spawn(move || {
            let mut done = 0;
            if let Some(inside) = lock.try_borrow_mut() {
                add(&inside);
                done += 1;
                assert!(lock.try_borrow_mut().is_none(), "it is inside already");
            }
            add(&lock.borrow_mut());
            (lock, done + 1)
        });
        add(&remote.enter());
        let (lock, done) = moved.join().unwrap();
        // SAFETY: the other thread has ended.
        lock.borrow().with(|count| assert_eq!(unsafe { *count }, done + 1));
    });
}

/// The model must be able to fail: in the mode alone, two threads with the owner are both inside. The type system
/// refuses it, so the test shares the owner by force.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_an_owner_must_not_be_shared() {
    struct Forced(&'static WorkerLock<Counter>);
    // SAFETY: it is not: this is what the model must notice. Models run one thread at a time.
    unsafe impl Send for Forced {}
    loom::model(|| {
        let lock: &'static _ = Box::leak(Box::new(WorkerLock::new(Counter::new(0))));
        let other = Forced(lock);
        let other = loom::thread::spawn(move || {
            let whole = other;
            whole.0.try_borrow_mut().map(|inside| add(&inside)).is_some()
        });
        lock.try_borrow_mut().map(|inside| add(&inside));
        other.join().unwrap();
    });
}

fn add(count: &Counter) {
    // SAFETY: only inside of the lock; the model fails if that is not enough.
    count.with_mut(|count| unsafe { *count += 1 });
}

/// What threads use under claims; the rest is not of interest here.
struct Inside(WorkerLock<Counter>);

impl Driven for Inside {
    type Value = Counter;
    type Key = ();
    type ArmedSleep = ();

    fn lock(&self) -> &WorkerLock<Self::Value> {
        &self.0
    }
    fn progress(&mut self) -> u32 {
        0
    }
    fn is_there(&mut self, (): &(), _: bool) -> bool {
        false
    }
    fn arm_sleep(&mut self) -> Option<()> {
        None
    }
    fn end_sleep(&mut self) {}
}

/// Two threads claim and enter as the owner, a remote handle tries as a signal handler does, and the lock is one of a
/// single owner afterwards.
fn claims_and_a_remote_handle(tries: bool) {
    check_orders(2, move || {
        let lock = WorkerLock::new(Counter::new(0u32));
        add(&lock.borrow_mut());
        let remote = lock.remote();
        let shared = std::sync::Arc::new(SharedLock::new(Inside(lock), || {}));
        let other = {
            let shared = std::sync::Arc::clone(&shared);
            loom::thread::spawn(move || shared.with(|it| add(&it.0.borrow_mut())))
        };
        let tried = loom::thread::spawn(move || {
            if !tries {
                // SAFETY: it is not safe: this is what the model must notice.
                add(unsafe { &*remote.core.value.get() });
            }
            let entered = remote.try_enter().is_some_and(|inside| {
                add(&inside);
                true
            });
            drop(remote);
            entered
        });
        shared.with(|it| add(&it.0.borrow_mut()));
        other.join().unwrap();
        let tried = tried.join().unwrap();
        let shared = std::sync::Arc::into_inner(shared).expect("the threads have ended");
        let Inside(lock) = shared.into_inner();
        let expected = if tried { 4 } else { 3 };
        // SAFETY: the other threads have ended.
        lock.borrow().with(|count| assert_eq!(unsafe { *count }, expected));
    });
}

#[test]
fn loom_claims_and_a_remote_handle_exclude_each_other() {
    claims_and_a_remote_handle(true);
}

/// The control: a remote handle that does not enter meets a claim.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_a_remote_handle_must_enter() {
    claims_and_a_remote_handle(false);
}

/// The sharing ends while a remote handle is on its way in.
#[test]
fn loom_a_sharing_ends_beside_a_remote_handle() {
    check_orders(3, || {
        let lock = WorkerLock::new(Counter::new(0));
        let remote = lock.remote();
        let shared = SharedLock::new(Inside(lock), || {});
        let other = loom::thread::spawn(move || add(&remote.enter()));
        let Inside(lock) = shared.into_inner();
        add(&lock.borrow_mut());
        other.join().unwrap();
        // SAFETY: the other thread has ended.
        lock.borrow().with(|count| assert_eq!(unsafe { *count }, 2));
    });
}

/// The owner is taken out of what was shared, as no sane code does, and another thread ends the sharing after a remote
/// handle was inside. The owner sees what that handle has done, whatever it calls first.
fn a_sharing_ends_elsewhere(first: impl Fn(WorkerLock<Counter>) + Copy + Send + Sync + 'static) {
    check_orders(3, move || {
        let lock = WorkerLock::new(Counter::new(0));
        let remote = lock.remote();
        let shared = SharedLock::new(Inside(lock), || {});
        let other = WorkerLock::new(Counter::new(0));
        let lock = shared.with(|it| std::mem::replace(&mut it.0, other));
        let ends = loom::thread::spawn(move || {
            add(&remote.enter());
            drop(remote);
            drop(shared);
        });
        wait_until(|| !lock.is_shared());
        first(lock);
        ends.join().unwrap();
    });
}

#[test]
fn loom_a_remote_handle_is_made_after_the_sharing_has_ended_elsewhere() {
    a_sharing_ends_elsewhere(|lock| add(&lock.remote().enter()));
}

#[test]
fn loom_a_lock_is_shared_again_after_the_sharing_has_ended_elsewhere() {
    a_sharing_ends_elsewhere(|lock| {
        SharedLock::new(Inside(lock), || {}).with(|it| add(&it.0.borrow_mut()));
    });
}
