//! A thread that lets a futex sleeper hear of sockets.
//!
//! A worker that also has memory lanes sleeps on its doorbell's word, which no socket can ring.
//! While the interface is armed for that, this thread sleeps on the interface's epoll in its place
//! and rings when it has something. A worker that sleeps on the descriptor itself does without.
//!
//! ```text
//!   arm ──► armed = true, one-shot watch on ──► (something) ──► ring, again each millisecond
//!   disarm ──► armed = false                                          until disarmed
//! ```
//!
//! It rings more than once since the doorbell may be armed by another lane of the worker after
//! this interface was armed, which would swallow a single ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use bowline_base::doorbell::Doorbell;
use bowline_base::sync::atomic::{AtomicBool, Ordering};
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

const READY: u64 = 0;
const END: u64 = 1;

/// The thread; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Watches the interface's epoll, once for each arming.
    outer: Arc<OwnedFd>,
    end: Arc<OwnedFd>,
    armed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread; a forked child has only this value.
    pid: u32,
}

impl Watcher {
    pub(crate) fn start(inner: BorrowedFd<'_>, bell: Doorbell) -> io::Result<Self> {
        let outer = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        epoll::add(&*outer, inner, EventData::new_u64(READY), EventFlags::ONESHOT)?;
        epoll::add(&*outer, &*end, EventData::new_u64(END), EventFlags::IN)?;
        let armed = Arc::new(AtomicBool::new(false));
        let thread = {
            let (outer, end, armed) = (Arc::clone(&outer), Arc::clone(&end), Arc::clone(&armed));
            let body = move || watch(outer.as_fd(), end.as_fd(), &armed, &bell);
            let builder = std::thread::Builder::new().name("bowline-tcp-watch".to_owned());
            without_signals(|| builder.stack_size(64 << 10).spawn(body))?
        };
        Ok(Self { outer, end, armed, thread: Some(thread), pid: std::process::id() })
    }

    /// From here on the thread rings when `inner`, the descriptor given at the start, is readable.
    pub(crate) fn arm(&self, inner: BorrowedFd<'_>) -> io::Result<()> {
        // Release: pairs with the thread's Acquire; the epoll call below orders it too.
        self.armed.store(true, Ordering::Release);
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        epoll::modify(&*self.outer, inner, EventData::new_u64(READY), flags)?;
        Ok(())
    }

    pub(crate) fn disarm(&self) {
        // Release: pairs with the thread's Acquire. A ring too many does no harm.
        self.armed.store(false, Ordering::Release);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.pid != std::process::id() {
            // Ending or joining it from a child would end the parent's.
            std::mem::forget(thread);
            return;
        }
        if let Err(error) = rustix::io::write(&*self.end, &1u64.to_ne_bytes()) {
            // The thread then ends with its process; it holds what it uses.
            tracing::warn!(%error, "cannot end the thread that watches sockets");
            return;
        }
        // It does nothing that panics, and a panic there is no reason for one here.
        let _ = thread.join();
    }
}

fn watch(outer: BorrowedFd<'_>, end: BorrowedFd<'_>, armed: &AtomicBool, bell: &Doorbell) {
    let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(READY) };
    loop {
        let mut events = [nothing; 2];
        let count = match epoll::wait(outer, &mut events[..], None) {
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(error) => {
                tracing::error!(%error, "cannot watch sockets for a sleeping worker");
                return;
            }
        };
        if events[..count].iter().any(|event| event.data.u64() == END) {
            return;
        }
        // Acquire: pairs with the Release of `arm` and `disarm`.
        while armed.load(Ordering::Acquire) {
            bell.ring();
            let soon = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            let mut fds = [PollFd::new(&end, PollFlags::IN)];
            if matches!(poll(&mut fds, Some(&soon)), Ok(ended) if ended > 0) {
                return;
            }
        }
    }
}

/// Runs `spawn` with all signals blocked, which the new thread inherits: no handler of the
/// program runs on it.
fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
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
