//! Whether the peers of this host still live, asked without their help.
//!
//! libfabric reports a dead peer only where an operation to it fails, and some providers not
//! even then. So a peer in another process of this host is watched by a pidfd, which the kernel
//! makes readable at its end, and a peer in this process by a word that its interface writes when
//! it goes. For a peer on another host there is what libfabric reports, helped by a message now
//! and then (see `failure`).
//!
//! The word of an interface goes from OPEN to CLOSED (dropped; its Close may be under way) or to
//! GONE (as by a crash), and stays there.
//!
//! **Remains.** Some providers (`shm`) reach endpoints of their own process through plain pointers,
//! and would follow those after the endpoint was closed. What such an interface leaves behind is
//! therefore kept with its word, and freed when the last peer of the process that knew it goes.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_base::sync::atomic::{AtomicU8, Ordering};
use bowline_uct::PeerFailure;
use rustix::event::epoll;

use crate::addr::Home;
use crate::remains::Remains;
use crate::shortage::is_shortage;

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
const GONE: u8 = 2;

/// What peers in the same process share with an interface.
#[derive(Debug)]
pub(crate) struct Shared {
    word: AtomicU8,
    remains: Mutex<Option<Remains>>,
}

/// The open interfaces of this process.
static PRESENT: Mutex<Vec<(u64, Arc<Shared>)>> = Mutex::new(Vec::new());

/// This interface's entry among those of the process.
#[derive(Debug)]
pub(crate) struct Presence {
    instance: u64,
    shared: Arc<Shared>,
}

impl Presence {
    pub(crate) fn new(instance: u64) -> Self {
        let shared = Arc::new(Shared { word: AtomicU8::new(OPEN), remains: Mutex::new(None) });
        let mut all = PRESENT.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((instance, shared.clone()));
        Self { instance, shared }
    }

    /// Keeps what the interface leaves behind until nobody here knows it any more.
    pub(crate) fn leave(&self, remains: Remains) {
        let mut place = self.shared.remains.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(remains);
    }

    /// Ends as a crash would.
    pub(crate) fn crash(&self) {
        // Release: pairs with the Acquire in `Liveness::state`; what was sent before is visible there.
        self.shared.word.store(GONE, Ordering::Release);
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut all = PRESENT.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(instance, _)| *instance != self.instance);
        drop(all);
        // Relaxed: this interface alone writes the word.
        if self.shared.word.load(Ordering::Relaxed) == OPEN {
            // Release: pairs with the Acquire in `Liveness::state`.
            self.shared.word.store(CLOSED, Ordering::Release);
        }
    }
}

/// First distance of messages that ask a silent peer of another host whether it is still there.
pub(crate) const ASK_FIRST: Duration = Duration::from_secs(1);

/// How it is known whether a peer lives.
#[derive(Debug)]
pub(crate) enum Liveness {
    /// Not at all from here.
    Far,
    /// Another process of this host.
    Process(OwnedFd),
    /// Another process of this host that could not be watched when it was met, for want of a
    /// descriptor; it is tried again.
    Unwatched(Home),
    /// A process that had ended when it was to be watched at last.
    Ended,
    /// Another interface of this process.
    Here(Arc<Shared>),
}

/// Whether a peer lives, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Lives,
    Closed,
    Dead,
}

impl Liveness {
    /// Begins to watch the process at `home`.
    ///
    /// # Errors
    /// `Died` when the process is not there any more, `Closed` when it is this one and the interface is not.
    pub(crate) fn watch(own: &Home, home: &Home, instance: u64) -> Result<Self, PeerFailure> {
        if !own.near(home) {
            return Ok(Self::Far);
        }
        if own == home {
            let all = PRESENT.lock().unwrap_or_else(PoisonError::into_inner);
            let known = all.iter().find(|(known, _)| *known == instance);
            return match known {
                Some((_, shared)) => Ok(Self::Here(shared.clone())),
                None => Err(PeerFailure::Closed),
            };
        }
        let pid = i32::try_from(home.pid).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.ok_or(PeerFailure::Died)?;
        let flags = rustix::process::PidfdFlags::empty();
        match rustix::process::pidfd_open(pid, flags) {
            // The descriptor names whatever has the number now; its start says whether that is
            // the peer.
            Ok(fd) => match bowline_base::job::start_time_of(home.pid) {
                Ok(start) if start == home.start_time => Ok(Self::Process(fd)),
                Err(error) if is_shortage(&error) || !has_ended(&fd) => {
                    tracing::debug!("the start of process {}: {error}", home.pid);
                    Ok(Self::Unwatched(*home))
                }
                _ => Err(PeerFailure::Died),
            },
            Err(rustix::io::Errno::SRCH) => Err(PeerFailure::Died),
            Err(error) if is_shortage(&error.into()) => Ok(Self::Unwatched(*home)),
            // Refused by a policy: as if it were on another host.
            Err(error) => {
                tracing::debug!("watching process {}: {error}", home.pid);
                Ok(Self::Far)
            }
        }
    }

    /// The state of the peer, asked now.
    pub(crate) fn state(&self) -> State {
        match self {
            Self::Far | Self::Unwatched(_) => State::Lives,
            Self::Ended => State::Dead,
            Self::Process(fd) if has_ended(fd) => State::Dead,
            Self::Process(_) => State::Lives,
            // Acquire: pairs with the Release of its writer.
            Self::Here(shared) => match shared.word.load(Ordering::Acquire) {
                OPEN => State::Lives,
                CLOSED => State::Closed,
                _ => State::Dead,
            },
        }
    }
}

/// Whether the process of a descriptor has ended.
fn has_ended(process: &OwnedFd) -> bool {
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [rustix::event::PollFd::new(process, rustix::event::PollFlags::IN)];
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(1..))
}

/// The pidfds of all watched peers behind one descriptor.
#[derive(Debug)]
pub(crate) struct Watch {
    epoll: OwnedFd,
    watched: u32,
}

impl Watch {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, watched: 0 })
    }

    /// Watches a peer under a number; at the end of its process, [`ended`](Self::ended) says it.
    pub(crate) fn add(&mut self, peer: u32, liveness: &Liveness) -> io::Result<()> {
        if let Liveness::Process(fd) = liveness {
            let data = epoll::EventData::new_u64(u64::from(peer));
            epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)?;
            self.watched += 1;
        }
        Ok(())
    }

    /// Stops watching a peer.
    pub(crate) fn remove(&mut self, liveness: &Liveness) {
        if let Liveness::Process(fd) = liveness {
            // Already removed, or the descriptor is gone: nothing is watched either way.
            if epoll::delete(&self.epoll, fd).is_ok() {
                self.watched -= 1;
            }
        }
    }

    /// A peer whose process has ended, if there is one; it stays until it is removed.
    pub(crate) fn ended(&self) -> Option<u32> {
        if self.watched == 0 {
            return None;
        }
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, &mut events[..], Some(&now)) {
            Ok(1..) => u32::try_from(events[0].data.u64()).ok(),
            _ => None,
        }
    }

    /// Readable when somebody's process has ended.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_of_this_process_is_watched() {
        let home = Home::current().expect("a process of Linux");
        let presence = Presence::new(77);
        let liveness = Liveness::watch(&home, &home, 77).expect("it is present");
        assert_eq!(liveness.state(), State::Lives);
        drop(presence);
        assert_eq!(liveness.state(), State::Closed);
        assert_eq!(Liveness::watch(&home, &home, 77).unwrap_err(), PeerFailure::Closed);
        let presence = Presence::new(78);
        let liveness = Liveness::watch(&home, &home, 78).expect("it is present");
        presence.crash();
        drop(presence);
        assert_eq!(liveness.state(), State::Dead);
    }

    #[test]
    fn another_process_is_watched() {
        let own = Home::current().expect("a process of Linux");
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let pid = child.id();
        let start_time = bowline_base::job::start_time_of(pid).expect("it runs");
        let home = Home { pid, start_time, ..own };
        let mut watch = Watch::new().expect("a descriptor");
        let liveness = Liveness::watch(&own, &home, 1).expect("it runs");
        watch.add(5, &liveness).expect("space for one");
        assert_eq!((liveness.state(), watch.ended()), (State::Lives, None));
        let other = Home { start_time: start_time + 1, ..home };
        let gone = Liveness::watch(&own, &other, 1).unwrap_err();
        assert_eq!(gone, PeerFailure::Died, "a recycled pid");
        child.kill().expect("it is ours");
        child.wait().expect("it was killed");
        assert_eq!((liveness.state(), watch.ended()), (State::Dead, Some(5)));
        watch.remove(&liveness);
        assert_eq!(watch.ended(), None);
        assert!(matches!(Liveness::watch(&own, &Home { host: 0, ..home }, 1), Ok(Liveness::Far)));
    }
}
