//! A thread that lets a futex sleeper hear of sockets.
//!
//! A worker that also has memory lanes sleeps on its doorbell's word, which no socket can ring.
//! While the interface is armed for that, this thread sleeps on the interface's epoll in its place
//! and rings when it has something. A worker that sleeps on the descriptor itself does without.
//!
//! ```text
//!   arm ──► arming odd, one-shot watch on ──► (something) ──► ring, again each millisecond
//!   disarm ──► arming even                                  until disarmed or armed anew
//! ```
//!
//! 1. It rings more than once for an arming since the doorbell may be armed by another lane of the worker
//!    after this interface was armed, which would swallow a single ring.
//! 2. Armings are numbered. While it rings for one it waits for the event of the next, so that a worker
//!    which has slept again meanwhile hears of sockets at once, and of nothing else.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use bowline_base::doorbell::Doorbell;
use bowline_base::helper_thread::without_signals;
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

const READY: u64 = 0;
const END: u64 = 1;

/// From one ring to the next for the same arming.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// The thread; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Watches the interface's epoll, once for each arming.
    outer: Arc<OwnedFd>,
    end: Arc<OwnedFd>,
    /// Number of the arming: odd while armed. Only the owner changes it.
    arming: Arc<AtomicU64>,
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
        let arming = Arc::new(AtomicU64::new(0));
        let thread = {
            let (outer, arming) = (Arc::clone(&outer), Arc::clone(&arming));
            let body = move || watch(outer.as_fd(), &arming, &bell);
            let builder = std::thread::Builder::new().name("bowline-tcp-watch".to_owned());
            without_signals(|| builder.stack_size(64 << 10).spawn(body))?
        };
        Ok(Self { outer, end, arming, thread: Some(thread), pid: std::process::id() })
    }

    /// From here on the thread rings when `inner`, the descriptor given at the start, is readable.
    pub(crate) fn arm(&self, inner: BorrowedFd<'_>) -> io::Result<()> {
        // Relaxed: this thread alone stores it.
        let last = self.arming.load(Ordering::Relaxed);
        // Release: pairs with the thread's Acquire; the epoll call below orders it too.
        self.arming.store(last + 1 + last % 2, Ordering::Release);
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        epoll::modify(&*self.outer, inner, EventData::new_u64(READY), flags)?;
        Ok(())
    }

    pub(crate) fn disarm(&self) {
        // Relaxed: this thread alone stores it.
        let last = self.arming.load(Ordering::Relaxed);
        // Release: pairs with the thread's Acquire. A ring too many does no harm.
        self.arming.store(last + last % 2, Ordering::Release);
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

fn watch(outer: BorrowedFd<'_>, arming: &AtomicU64, bell: &Doorbell) {
    let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(READY) };
    // The arming for which it has rung.
    let mut rung = None;
    loop {
        let mut events = [nothing; 2];
        let limit = rung.is_some().then_some(&AGAIN);
        let count = match epoll::wait(outer, &mut events[..], limit) {
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(error) => {
                tracing::error!(%error, "cannot watch sockets for a sleeping worker");
                return;
            }
        };
        let events = &events[..count];
        if events.iter().any(|event| event.data.u64() == END) {
            return;
        }
        // Acquire: pairs with the Release of `arm` and `disarm`.
        let now = arming.load(Ordering::Acquire);
        let due = !events.is_empty() || rung == Some(now);
        rung = (now % 2 == 1 && due).then_some(now);
        if rung.is_some() {
            bell.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bowline_base::doorbell::Sleep;

    use super::*;

    fn until_rung(bell: &Doorbell) {
        while !bell.is_rung() {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    #[test]
    fn a_sleeper_is_rung_for_what_is_there_and_not_for_what_was() {
        let inner = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let bell = Doorbell::private();
        let watcher = Watcher::start(inner.as_fd(), bell.clone()).unwrap();
        for _ in 0..5 {
            bell.arm(Sleep::Futex);
            watcher.arm(inner.as_fd()).unwrap();
            rustix::io::write(&inner, &1u64.to_ne_bytes()).unwrap();
            until_rung(&bell);
            // Another lane has swallowed the ring.
            bell.arm(Sleep::Futex);
            until_rung(&bell);
            watcher.disarm();
            bell.disarm();
            rustix::io::read(&inner, &mut [0; 8]).unwrap();
            // It sleeps again at once, and nothing comes: not even what is left of the ring before.
            bell.arm(Sleep::Futex);
            watcher.arm(inner.as_fd()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            assert!(!bell.is_rung(), "nobody had anything");
            watcher.disarm();
            bell.disarm();
        }
    }
}
