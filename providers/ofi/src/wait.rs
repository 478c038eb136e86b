//! Sleeping until something comes.
//!
//! A worker sleeps on one descriptor, an epoll of three: the one that libfabric makes readable when
//! its queue may have entries, the watch over peers' processes, and a timer for checks of peers
//! on other hosts and after those that nobody watches yet, set only while somebody sleeps. There is no doorbell: peers
//! ring by what they send. libfabric has to be asked before each sleep (`fi_trywait`).
//!
//! Where a provider has no descriptor (`shm` of 1.17) there is no sleep: the interface says so by
//! its capabilities, and its worker yields.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};

use bowline_base::doorbell::Doorbell;
use bowline_uct::{Armed, EpId, OpenError, Wakeup};

use crate::iface::OfiIface;
use crate::net::{Entry, Read};
use crate::progress::ENTRIES;

/// Polls of a queue that libfabric does not let us sleep on before we say that it is busy.
const POLLS: u32 = 8;

impl OfiIface {
    pub(crate) fn arm_descriptor(&mut self) -> Armed {
        self.repost(true);
        let something = !self.events.is_empty()
            || !self.stash.is_empty()
            || !self.late_puts.is_empty()
            || self.refusals.wait()
            || !self.failing.is_empty()
            || !self.invalid.is_empty()
            // What waits for a peer's greeting ends with a message of that peer.
            || !self.busy.is_empty()
            || self.wait_set.is_none();
        if something || self.somebody_may_post() || self.watch.ended().is_some() {
            return Armed::Busy;
        }
        for _ in 0..POLLS {
            if self.net.may_sleep() {
                if let (Some(wait_set), Some(time)) = (&self.wait_set, self.next_check()) {
                    wait_set.set(Some(time));
                }
                return Armed::Ready;
            }
            // It may say so once for nothing; a poll makes the progress that it wants.
            let mut space = [const { MaybeUninit::<Entry>::uninit() }; ENTRIES];
            let (read, entries) = self.net.read(&mut space);
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
                    self.ended_badly(failure);
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
        let waiters: Vec<EpId> = self.waiters.iter().collect();
        self.tx.left() > 0 && waiters.into_iter().any(|ep| self.may_post(ep))
    }
}

impl Wakeup for OfiIface {
    fn doorbell(&self) -> Option<&Doorbell> {
        None
    }

    fn arm(&mut self, descriptor: bool) -> Armed {
        if descriptor { self.arm_descriptor() } else { Armed::Busy }
    }

    /// The sleeper is awake.
    fn disarm(&mut self) {
        if self.next_check().is_some() {
            if let Some(wait_set) = &self.wait_set {
                wait_set.set(None);
            }
            // It may have slept through many polls.
            self.check_remote_peers();
        }
    }

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        match &self.wait_set {
            Some(wait_set) => Ok(wait_set.all.as_fd()),
            None => Err(OpenError::Limit(format!(
                "the libfabric provider {} has no descriptor to sleep on, or it is switched off \
                 (BOWLINE_OFI_WAKEUP)",
                self.net.traits.provider
            ))),
        }
    }
}
