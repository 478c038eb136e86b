//! Threads that run soon after they are woken, on processors that others keep busy. Not a real-time
//! policy: their share of the processor stays what it was.

/// Asks the kernel to let the calling thread take its processor soon after each wake-up, for a short
/// time: a time slice of 0.1 ms, which is the least. With the usual slice of some milliseconds a woken
/// thread waits, since Linux 6.6, until the slice of the thread that computes there is over.
///
/// Where the kernel knows no slices of threads (before 6.12) or refuses, the thread goes on as before: this is about
/// speed alone.
pub fn request() {
    let mut attr = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let size = attr.size;
    // SAFETY: the kernel writes at most `size` bytes to the structure, which has that many.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    if known != 0 || attr.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    attr.size = size;
    attr.sched_runtime = 100_000;
    // SAFETY: the kernel reads the structure, whose size is in it.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if done != 0 {
        let error = std::io::Error::last_os_error();
        tracing::debug!(%error, "a thread keeps its usual time slice");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_that_asks_goes_on() {
        std::thread::spawn(super::request).join().unwrap();
    }
}
