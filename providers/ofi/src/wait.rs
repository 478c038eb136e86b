//! Sleeping until something comes.
//!
//! A worker sleeps on one descriptor, an epoll of two: the one that libfabric makes readable when
//! its queue may have entries, and the watch over peers' processes. There is no doorbell: peers
//! ring by what they send. libfabric has to be asked before each sleep (`fi_trywait`).
//!
//! Where a provider has no descriptor (`shm` of 1.17) there is no sleep: the interface says so by
//! its capabilities, and its worker yields.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use bowline_uct::{Armed, EpId, OpenError};
use rustix::event::epoll;

use crate::iface::OfiIface;
use crate::net::{Entry, Net, Read};
use crate::progress::ENTRIES;

/// Looks at a queue that libfabric does not let us sleep on before we say that it is busy.
const LOOKS: u32 = 8;

fn system(source: rustix::io::Errno) -> OpenError {
    OpenError::System {
        act: "make the event descriptor of the libfabric transport",
        source: source.into(),
    }
}

/// The descriptor to sleep on, where libfabric has one.
pub(crate) fn open(net: &Net, watch: BorrowedFd<'_>) -> Result<Option<OwnedFd>, OpenError> {
    let Some(queue) = net.wait_fd() else { return Ok(None) };
    let all = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
    for fd in [queue, watch] {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&all, fd, data, epoll::EventFlags::IN).map_err(system)?;
    }
    Ok(Some(all))
}

impl OfiIface {
    pub(crate) fn arm_descriptor(&mut self) -> Armed {
        self.repost(true);
        let something = !self.events.is_empty()
            || !self.stash.is_empty()
            || !self.late_puts.is_empty()
            || !self.failing.is_empty()
            || !self.invalid.is_empty()
            // What waits for a peer's greeting ends with a message of that peer.
            || !self.busy.is_empty()
            || self.event_fd.is_none();
        if something || self.somebody_may_post() || self.watch.ended().is_some() {
            return Armed::Busy;
        }
        for _ in 0..LOOKS {
            if self.net.may_sleep() {
                return Armed::Ready;
            }
            // It may say so once for nothing; looking makes the progress that it wants.
            let mut room = [const { MaybeUninit::<Entry>::uninit() }; ENTRIES];
            let (read, entries) = self.net.read(&mut room);
            match read {
                Read::Entries(0) => {}
                Read::Entries(_) => {
                    self.stash.extend(entries.iter().map(|entry| {
                        // SAFETY: `read` returns the entries that libfabric has written.
                        let entry = unsafe { entry.assume_init_ref() };
                        (entry.op_context as usize, entry.len)
                    }));
                    return Armed::Busy;
                }
                Read::Failed(failure) => {
                    self.ended_badly(failure.context, failure.error);
                    return Armed::Busy;
                }
                Read::Broken(error) => {
                    self.break_down(error);
                    return Armed::Busy;
                }
            }
        }
        Armed::Busy
    }

    fn somebody_may_post(&mut self) -> bool {
        let waiters: Vec<EpId> = self.waiters.iter().copied().collect();
        self.tx.left() > 0 && waiters.into_iter().any(|ep| self.may_post(ep))
    }

    pub(crate) fn sleep_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        match &self.event_fd {
            Some(fd) => Ok(fd.as_fd()),
            None => Err(OpenError::Limit(format!(
                "the libfabric provider {} has no descriptor to sleep on, or it is switched off \
                 (BOWLINE_OFI_WAKEUP)",
                self.net.traits.provider
            ))),
        }
    }
}
