//! The handle of a doorbell: the word where it lives, the futex and the socket behind it.
//!
//! A worker that waits for memory alone sleeps on the word. One that also waits for descriptors
//! (a network, the user's `epoll`) sleeps on one socket, into which each waker writes a datagram. Their names belong to a network namespace; ranks in different ones cannot wake
//! each other this way, which [`network_namespace`] lets an address say.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::thread::futex;

use crate::doorbell_word::{
    DoorbellWords, FENCED, FUTEX, Sleep, Woken, announce_socket, arm_word, disarm_word,
    light_fence_needed, membarrier, prepare_to_wake, ring_word, rung, wake_futex,
};
use crate::job::JobMemory;
use crate::sync::CacheLine;
use crate::sync::atomic::Ordering;

/// Where the words live.
#[derive(Debug)]
enum Home {
    Job {
        job: JobMemory,
        local: u32,
    },
    /// Kept for the pointer of the handle. Not a `Box`, whose move would claim the words for
    /// itself alone.
    Private {
        _words: Arc<CacheLine<DoorbellWords>>,
    },
}

#[derive(Debug)]
struct Inner {
    home: Home,
    /// The owner's socket (job) or event counter (private), made when first asked for.
    event: OnceLock<OwnedFd>,
}

/// A doorbell, to ring or, by the one worker that owns it, to sleep on. Clones are the same
/// handle; a handle keeps the memory of the word alive.
#[derive(Clone, Debug)]
pub struct Doorbell {
    /// Into `inner.home`: it saves one load before the word's.
    words: NonNull<DoorbellWords>,
    inner: Arc<Inner>,
}

// SAFETY: the pointer leads to atomics in memory that `inner` keeps alive and in place (a mapping
// or an `Arc`), and everything else is `Send + Sync` by itself.
unsafe impl Send for Doorbell {}
// SAFETY: as for `Send`.
unsafe impl Sync for Doorbell {}

impl Doorbell {
    /// The doorbell of a local rank of a job; `None` when there is no such rank.
    ///
    /// The worker that owns it makes one handle and clones it: the event descriptor belongs to
    /// the handle.
    pub fn of_job(job: &JobMemory, local: u32) -> Option<Self> {
        light_fence_needed();
        prepare_to_wake();
        let words = NonNull::from(&*job.control(local)?.doorbell);
        let home = Home::Job { job: job.clone(), local };
        Some(Self { words, inner: Arc::new(Inner { home, event: OnceLock::new() }) })
    }

    /// A doorbell with a word of its own, for a worker without job memory; only threads of this
    /// process can ring it.
    pub fn private() -> Self {
        light_fence_needed();
        // Its ringers are few: they make the fence, and its sleeper interrupts no processor (rule 5).
        // Relaxed: nobody else has the word yet.
        let home = Arc::new(CacheLine(DoorbellWords::default()));
        home.word.store(FENCED, Ordering::Relaxed);
        let words = NonNull::from(&**home);
        let inner = Inner { home: Home::Private { _words: home }, event: OnceLock::new() };
        Self { words, inner: Arc::new(inner) }
    }

    #[inline]
    fn words(&self) -> &DoorbellWords {
        // SAFETY: `inner` keeps the memory alive and in place for as long as `self`; it holds
        // atomics, which other threads and processes may change.
        unsafe { self.words.as_ref() }
    }

    /// Wakes the owner if it sleeps. To be called after the message was published; includes the
    /// fence that goes between the two.
    #[inline]
    pub fn ring(&self) {
        ring_word(&self.words().word, |sleep| self.wake(sleep));
    }

    /// Whether nothing is left to do.
    #[cold]
    fn wake(&self, sleep: Sleep) -> bool {
        match sleep {
            Sleep::Futex => {
                wake_futex(&self.words().word);
                true
            }
            Sleep::Fd => match &self.inner.home {
                Home::Job { job, local } => {
                    job.wake_socket(*local).is_none_or(|socket| socket.wake())
                }
                Home::Private { .. } => {
                    if let Some(event) = self.inner.event.get() {
                        // A counter that is full (EAGAIN) is readable already.
                        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
                    }
                    true
                }
            },
        }
    }

    /// States that the owner is about to sleep. It must check everything it waits for once more
    /// before it does, and [`disarm`](Self::disarm) when it is awake again. For
    /// [`Sleep::Fd`] the event descriptor must have been made before.
    pub fn arm(&self, kind: Sleep) {
        let settle = || std::thread::sleep(Duration::from_millis(1));
        arm_word(&self.words().word, kind, membarrier, settle);
    }

    /// States that the owner is awake, and empties the event descriptor. A ring that is under way
    /// may still make the descriptor readable afterwards.
    pub fn disarm(&self) {
        disarm_word(&self.words().word, || self.drain());
    }

    /// Takes out of the event descriptor what wakers have written.
    fn drain(&self) {
        let Some(event) = self.inner.event.get() else {
            return;
        };
        let mut bytes = [0; 8];
        match self.inner.home {
            Home::Private { .. } => {
                let _ = rustix::io::read(event, &mut bytes);
            }
            Home::Job { .. } => {
                // A datagram per ring. The kernel keeps few, but a peer in a loop must not keep
                // the owner here: what is left makes the next sleep short.
                for _ in 0..64 {
                    if rustix::net::recv(event, &mut bytes, RecvFlags::DONTWAIT).is_err() {
                        break;
                    }
                }
            }
        }
    }

    /// Sleeps until rung, if armed with [`Sleep::Futex`]; returns at once otherwise. May end for
    /// no reason. The doorbell stays as it is: the caller disarms.
    pub fn wait(&self, timeout: Option<Duration>) -> Woken {
        let word = &self.words().word;
        // Relaxed: the kernel compares the word again.
        let expected = FUTEX | (word.load(Ordering::Relaxed) & FENCED);
        let timeout = timeout.map(|t| rustix::time::Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        match futex::wait(word, futex::Flags::empty(), expected, timeout.as_ref()) {
            Err(Errno::TIMEDOUT) if !rung(word) => Woken::TimedOut,
            _ if rung(word) => Woken::Rung,
            // Armed for the descriptor, or damaged: not ours to sleep on.
            Err(Errno::AGAIN) => Woken::Rung,
            _ => Woken::Spurious,
        }
    }

    /// Whether somebody rang since the doorbell was armed (or it is not armed).
    pub fn is_rung(&self) -> bool {
        rung(&self.words().word)
    }

    /// The descriptor that becomes readable when the doorbell is rung while armed with
    /// [`Sleep::Fd`]. Made on first use; only by the owner, after it attached to its job.
    ///
    /// # Errors
    /// When the rank has not attached, or a socket cannot be made.
    pub fn event_fd(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(event) = self.inner.event.get() {
            return Ok(event.as_fd());
        }
        let made = match &self.inner.home {
            Home::Private { .. } => {
                rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?
            }
            Home::Job { job, local } => {
                let socket = job.wake_socket(*local).ok_or_else(|| {
                    io::Error::new(
                        io::ErrorKind::NotConnected,
                        "the rank must attach to its job before it has an event descriptor",
                    )
                })?;
                socket.open()?
            }
        };
        let event = self.inner.event.get_or_init(|| made);
        announce_socket(self.words());
        Ok(event.as_fd())
    }
}

/// The network namespace of this process: ranks with different ones cannot ring each other's
/// event descriptors.
///
/// # Errors
/// When `/proc` is not mounted.
pub fn network_namespace() -> io::Result<u64> {
    Ok(rustix::fs::stat("/proc/self/ns/net")?.st_ino)
}
