//! Tests of [`WorkerLock`](super::WorkerLock) with real threads.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn the_owner_cannot_enter_twice_alone_or_beside() {
    let lock = WorkerLock::new(1);
    let mut remotes = Vec::new();
    for _ in 0..2 {
        let mut inside = lock.borrow_mut();
        *inside += 1;
        assert!(lock.try_borrow_mut().is_none());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(lock.borrow_mut()))).is_err());
        drop(inside);
        assert!(lock.try_borrow_mut().is_some());
        remotes.push(lock.remote());
    }
    assert_eq!(*lock.borrow(), 3);
}

#[test]
fn a_remote_handle_is_refused_while_the_owner_is_inside() {
    let lock = WorkerLock::new(String::new());
    let remote = lock.remote();
    let inside = lock.borrow_mut();
    assert!(remote.try_enter().is_none());
    drop(inside);
    let mut inside = remote.try_enter().expect("nobody is inside");
    inside.push('x');
    assert!(remote.clone().try_enter().is_none());
    assert!(lock.try_borrow_mut().is_none());
    drop(inside);
    assert_eq!(*lock.borrow(), "x");
    // A guard that a panic drops leaves.
    let panics = catch_unwind(AssertUnwindSafe(|| {
        let _inside = lock.borrow_mut();
        panic!("inside");
    }));
    assert!(panics.is_err());
    assert!(remote.try_enter().is_some());
    drop(lock);
    assert_eq!(*remote.enter(), "x");
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
    assert_eq!(send_and_sync!(WorkerLock<Cell<u8>>), (true, false));
    assert_eq!(send_and_sync!(RemoteHandle<Cell<u8>>), (true, true));
    assert_eq!(send_and_sync!(OwnerGuard<'static, u8>), (false, false));
    assert_eq!(send_and_sync!(RemoteGuard<'static, u8>), (true, true));
    assert_eq!(send_and_sync!(RemoteGuard<'static, Cell<u8>>), (true, false));
    // A value of one thread keeps everything there.
    assert_eq!(send_and_sync!(WorkerLock<std::rc::Rc<u8>>), (false, false));
    assert_eq!(send_and_sync!(RemoteHandle<std::rc::Rc<u8>>), (false, false));
    assert_eq!(send_and_sync!(RemoteGuard<'static, std::rc::Rc<u8>>), (false, false));
}

#[test]
fn an_owner_and_a_remote_handle_alternate() {
    let lock = WorkerLock::new(0u64);
    let remote = lock.remote();
    let other = std::thread::spawn(move || {
        for _ in 0..100_000 {
            *remote.enter() += 1;
        }
    });
    for _ in 0..100_000 {
        *lock.borrow_mut() += 1;
    }
    other.join().unwrap();
    assert_eq!(*lock.borrow(), 200_000);
}

/// Threads that count under claims, with the lock's owner inside.
struct Counts(WorkerLock<u64>);

impl Driven for Counts {
    type Value = u64;
    type Key = ();
    type ArmedSleep = ();

    fn lock(&self) -> &WorkerLock<u64> {
        &self.0
    }
    fn progress(&mut self) -> u32 {
        0
    }
    fn is_there(&mut self, (): &(), _: bool) -> bool {
        false
    }
    fn arm_sleep(&mut self) -> Option<()> {
        Some(())
    }
    fn end_sleep(&mut self) {}
}

#[test]
fn threads_and_a_remote_handle_share_a_lock_that_is_one_of_an_owner_before_and_after() {
    const EACH: u64 = 20_000;
    for beside in [false, true] {
        let lock = WorkerLock::new(0);
        let remote = beside.then(|| lock.remote());
        let shared = SharedLock::new(Counts(lock), || {});
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        shared.with(|counts| *counts.0.borrow_mut() += 1);
                    }
                });
            }
            if let Some(remote) = &remote {
                scope.spawn(|| (0..EACH).for_each(|_| *remote.enter() += 1));
            }
        });
        shared.with(|counts| {
            let refused = remote.as_ref().is_none_or(|remote| remote.try_enter().is_none());
            assert!(refused, "a remote handle enters beside a claim");
            assert!(counts.0.is_shared());
            assert!(shared.try_inspect(|_| ()).is_none());
        });
        let Counts(lock) = shared.into_inner();
        assert!(!lock.is_shared());
        assert_eq!(*lock.borrow(), EACH * if beside { 4 } else { 3 });
        assert!(remote.is_none_or(|remote| remote.try_enter().is_some()));
        // It can be shared again.
        assert_eq!(
            SharedLock::new(Counts(lock), || {}).with(|counts| *counts.0.borrow()) % EACH,
            0
        );
    }
}

#[test]
fn a_thread_with_a_claim_cannot_claim_again_nor_use_the_lock_without_one() {
    let shared = SharedLock::new(Counts(WorkerLock::new(0)), || {});
    let twice = catch_unwind(AssertUnwindSafe(|| shared.with(|_| shared.progress())));
    assert!(twice.is_err(), "it would wait for itself");
    // The owner taken out of what was shared, as no sane code does, is refused without a claim.
    let lock = shared.with(|counts| std::mem::replace(&mut counts.0, WorkerLock::new(0)));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(lock.borrow_mut()))).is_err());
    assert!(lock.try_borrow_mut().is_none());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(lock.remote()))).is_err());
    shared.with(|_| assert!(lock.try_borrow_mut().is_some(), "under a claim it enters"));
    // The sharing ends after the owner: a handle that is made under a claim enters afterwards.
    let remote = shared.with(|_| lock.remote());
    drop(lock);
    drop(shared);
    assert!(remote.try_enter().is_some());
}
