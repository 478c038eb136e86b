//! Threads of the library's own, of which the program does not know.

/// Runs `spawn` with all signals blocked, which the threads that it starts inherit: no handler of the program
/// runs on them.
pub fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises `all`, and `pthread_sigmask` reads it and initialises
    // `before`; both point to memory of the right type.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = spawn();
    // SAFETY: `before` was initialised above; with a valid operation the call cannot fail.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}
