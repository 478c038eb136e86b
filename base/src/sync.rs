//! The seam between `std` and `loom`.
//!
//! Every lock-free algorithm of the workspace takes its atomics from here, so that the models
//! run with `--cfg bowline_loom` and everything else runs on the real ones. It is not a place
//! for locks or channels of our own; the lock here is that of the library, for what is no short path.

#[cfg(not(bowline_loom))]
pub use std::sync::atomic;

#[cfg(bowline_loom)]
pub use loom::sync::atomic;

#[cfg(not(bowline_loom))]
pub use std::sync::Mutex;

#[cfg(bowline_loom)]
pub use loom::sync::Mutex;

/// A hint to the processor (or the model) that the caller spins.
#[inline]
pub fn spin_loop() {
    #[cfg(not(bowline_loom))]
    std::hint::spin_loop();
    #[cfg(bowline_loom)]
    loom::thread::yield_now();
}

/// Lets another thread run, or another one of the model's.
#[inline]
pub fn yield_now() {
    #[cfg(not(bowline_loom))]
    std::thread::yield_now();
    #[cfg(bowline_loom)]
    loom::thread::yield_now();
}

/// Names the calling thread among those that run: never 0, and used again after its end.
#[inline]
pub fn thread_token() -> usize {
    #[cfg(not(bowline_loom))]
    std::thread_local! {
        static PLACE: u8 = const { 0 };
    }
    // The threads of a model are all of one of the system's.
    #[cfg(bowline_loom)]
    loom::thread_local! {
        static PLACE: u8 = 0;
    }
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// Runs a model in all orders with at most so many preemptions; with `None`, in all.
#[cfg(all(test, bowline_loom))]
pub(crate) fn check_orders(
    preemptions: impl Into<Option<usize>>,
    model: impl Fn() + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.into();
    builder.check(model);
}

/// A value alone on its cache line, so that writers of neighbours do not disturb its readers.
///
/// 64 bytes is the line of every x86-64 and of most aarch64 machines. The adjacent-line
/// prefetcher would argue for 128, but the layouts shared between processes count their lines,
/// and measured ping-pong figures did not change.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct CacheLine<T>(pub T);

impl<T> std::ops::Deref for CacheLine<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> std::ops::DerefMut for CacheLine<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Bytes of a cache line, the unit in which messages are counted.
pub const LINE: usize = 64;
