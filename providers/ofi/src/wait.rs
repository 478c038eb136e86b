//! Sleeping until something comes.
//!
//! A worker sleeps on one descriptor, an epoll of three: the one that libfabric makes readable when
//! its queue may have entries, the watch over peers' processes, and a timer for looks after peers
//! on other hosts and after those that nobody watches yet, set only while somebody sleeps. There is no doorbell: peers
//! ring by what they send. libfabric has to be asked before each sleep (`fi_trywait`).
//!
//! Where a provider has no descriptor (`shm` of 1.17) there is no sleep: the interface says so by
//! its capabilities, and its worker yields.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use bowline_base::doorbell::Doorbell;
use bowline_uct::{Armed, EpId, OpenError, Wakeup};
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

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

/// What a worker sleeps on.
#[derive(Debug)]
pub(crate) struct Bed {
    all: OwnedFd,
    timer: OwnedFd,
}

impl Bed {
    /// `None` where libfabric has no descriptor.
    pub(crate) fn open(net: &Net, watch: BorrowedFd<'_>) -> Result<Option<Self>, OpenError> {
        let Some(queue) = net.wait_fd() else { return Ok(None) };
        let all = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(system)?;
        for fd in [queue, watch, timer.as_fd()] {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&all, fd, data, epoll::EventFlags::IN).map_err(system)?;
        }
        Ok(Some(Self { all, timer }))
    }

    /// Rings after `time`, or not at all. A timer that does not take it is one that does not ring.
    fn set(&self, time: Option<Duration>) {
        let time = time.unwrap_or_default();
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value =
            Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let spec = Itimerspec { it_interval: zero, it_value: value };
        if let Err(error) = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec) {
            tracing::debug!("setting the timer of a sleeper: {error}");
        }
    }
}

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
            || self.bed.is_none();
        if something || self.somebody_may_post() || self.watch.ended().is_some() {
            return Armed::Busy;
        }
        for _ in 0..LOOKS {
            if self.net.may_sleep() {
                if let (Some(bed), Some(time)) = (&self.bed, self.next_look()) {
                    bed.set(Some(time));
                }
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
        if self.next_look().is_some() {
            if let Some(bed) = &self.bed {
                bed.set(None);
            }
            // It may have slept through many looks.
            self.look_at_the_far();
        }
    }

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        match &self.bed {
            Some(bed) => Ok(bed.all.as_fd()),
            None => Err(OpenError::Limit(format!(
                "the libfabric provider {} has no descriptor to sleep on, or it is switched off \
                 (BOWLINE_OFI_WAKEUP)",
                self.net.traits.provider
            ))),
        }
    }
}
