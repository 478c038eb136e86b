//! One descriptor for all that a worker waits on, for programs that have an event loop of their own.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::epoll;

use super::WakeSet;

/// A descriptor that becomes readable when one of a changing set does. It stays the same while the set
/// changes. Clones are the same descriptor.
#[derive(Clone, Debug)]
pub struct WakeFd(Arc<OwnedFd>);

/// The owner's side: what the descriptor watches.
#[derive(Debug)]
pub struct WakeSource {
    fd: WakeFd,
    watched: Option<Arc<WakeSet>>,
}

impl WakeSource {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// When the process has too many descriptors.
    pub fn new() -> io::Result<Self> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { fd: WakeFd(Arc::new(fd)), watched: None })
    }

    /// The descriptor.
    pub const fn fd(&self) -> &WakeFd {
        &self.fd
    }

    /// The same, borrowed, as interfaces hand out theirs.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// From now on it watches `set` and nothing else.
    ///
    /// # Errors
    /// When the system refuses; it then watches nothing.
    pub fn watch(&mut self, set: &Arc<WakeSet>) -> io::Result<()> {
        if self.watched.as_ref().is_some_and(|watched| Arc::ptr_eq(watched, set)) {
            return Ok(());
        }
        for old in self.watched.take().iter().flat_map(|set| set.descriptors()) {
            // One that was closed is watched no more, which is what is wanted.
            let _ = epoll::delete(&*self.fd.0, old);
        }
        for (added, new) in set.descriptors().iter().enumerate() {
            let data = epoll::EventData::new_u64(0);
            let Err(error) = epoll::add(&*self.fd.0, new, data, epoll::EventFlags::IN) else {
                continue;
            };
            // All or none, so that the next call begins anew.
            for old in &set.descriptors()[..added] {
                let _ = epoll::delete(&*self.fd.0, old);
            }
            return Err(error.into());
        }
        self.watched = Some(Arc::clone(set));
        Ok(())
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for WakeFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

    use super::*;

    fn readable(fd: &WakeFd) -> bool {
        let mut fds = [PollFd::new(fd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).expect("one descriptor") == 1
    }

    #[test]
    fn it_follows_a_changing_set() {
        let event = || eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor");
        let (first, second) = (event(), event());
        let set = |fds: &[&OwnedFd]| {
            let mut set = WakeSet::default();
            fds.iter().for_each(|fd| set.add(fd.as_fd()).expect("a descriptor"));
            Arc::new(set)
        };
        let mut source = WakeSource::new().expect("a descriptor");
        let fd = source.fd().clone();
        source.watch(&set(&[&first])).expect("watched");
        assert!(!readable(&fd));
        rustix::io::write(&second, &1u64.to_ne_bytes()).expect("written");
        assert!(!readable(&fd), "it is not in the set");
        source.watch(&set(&[&first, &second])).expect("watched");
        assert!(readable(&fd));
        source.watch(&set(&[&first])).expect("watched");
        assert!(!readable(&fd));
    }
}
