//! Where a panic must not unwind: in the midst of an operation that uses a buffer of the caller.

/// Ends the process when it is dropped: a panic must not free a buffer that an operation uses.
struct NoUnwind;

impl Drop for NoUnwind {
    #[cold]
    fn drop(&mut self) {
        tracing::error!("a panic inside a blocking operation whose buffer is in use; aborting");
        std::process::abort();
    }
}

/// Runs `act`, during which a panic would free a buffer that is in use.
#[inline]
pub(crate) fn without_unwinding<R>(act: impl FnOnce() -> R) -> R {
    let guard = NoUnwind;
    let result = act();
    std::mem::forget(guard);
    result
}
