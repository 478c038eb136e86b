//! What a worker sleeps on: the descriptors of libfabric's queue and of peers' processes, and a timer.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use bowline_uct::OpenError;
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::net::Net;

fn system(source: rustix::io::Errno) -> OpenError {
    OpenError::System {
        act: "make the event descriptor of the libfabric transport",
        source: source.into(),
    }
}

/// What a worker sleeps on.
#[derive(Debug)]
pub(crate) struct WaitSet {
    pub(crate) all: OwnedFd,
    timer: OwnedFd,
}

impl WaitSet {
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
    pub(crate) fn set(&self, time: Option<Duration>) {
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
