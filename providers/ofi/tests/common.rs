//! One test at a time over `udp;ofi_rxd`.
//!
//! A packet of `ofi_rxd` (libfabric 1.17) says which entry of its receiver's table of peers it comes
//! from, and nobody checks who sent it. A test whose peer has gone goes on repeating packets to the
//! peer's port; an endpoint of another test that the kernel gives this port to takes them for those of
//! its own peers. Messages are then lost, or libfabric crashes: with sixteen ports for all
//! tests, two at a time, it does so within seconds. Tests one after the other leave nobody who
//! repeats.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

static ONE: Mutex<()> = Mutex::new(());

thread_local! {
    /// How often this thread holds `ONE`, and the lock while it does.
    static HELD: RefCell<(usize, Option<MutexGuard<'static, ()>>)> = const { RefCell::new((0, None)) };
}

/// Held by a test, as often as it likes, while endpoints of its own are open.
#[derive(Debug)]
pub(crate) struct Alone(PhantomData<*const ()>);

impl Alone {
    /// Waits for those of other threads, if `provider` is one that has to be alone.
    pub(crate) fn over(provider: &str) -> Option<Self> {
        provider.contains("ofi_rxd").then(|| {
            HELD.with_borrow_mut(|(times, lock)| {
                *times += 1;
                // A test that failed has closed what it had, too.
                lock.get_or_insert_with(|| ONE.lock().unwrap_or_else(PoisonError::into_inner));
            });
            Self(PhantomData)
        })
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|(times, lock)| {
            *times -= 1;
            if *times == 0 {
                *lock = None;
            }
        });
    }
}
