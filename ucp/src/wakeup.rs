//! Sleeping until a worker has something to do, for programs that do not wait in one of its calls: by
//! a descriptor in an event loop of their own, by a call that sleeps once, and by a signal of another
//! thread.
//!
//! ```text
//!   loop {
//!       while worker.progress() > 0 {}
//!       match worker.arm()? {
//!           Arm::Busy => continue,                          something came meanwhile
//!           Arm::Ready { within } => epoll_wait(fd, within)  whatever comes now makes `fd` readable
//!       }
//!   }
//! ```
//! Rules. (1) Between an `arm` that answered [`Arm::Ready`] and the sleep the worker must not be asked
//! to post anything: what a post leaves undone belongs to `progress`. (2) The descriptor says that
//! something may have happened, never what; it stays readable until the next `arm`. (3) It is the same
//! as long as the worker lives, whatever transports come into use. (4) A [`Signal`] is not lost: one
//! that is raised while the worker is awake ends its next sleep.

use std::sync::Arc;
use std::time::Duration;

use bowline_base::doorbell::{Doorbell, Signal, WakeFd, WakeSet, WakeSource};
use bowline_uct::{Armed, Caps};
use thiserror::Error;

use crate::wait::Idle;
use crate::waits::Waits;
use crate::worker::{Inner, Worker};

/// Between two looks whether messages have left.
pub(crate) const LOOK: Duration = Duration::from_millis(1);

/// Answer of [`Worker::arm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Arm {
    /// One may sleep on the descriptor.
    Ready {
        /// Longest time after which the worker wants to be looked at although nothing came.
        within: Option<Duration>,
    },
    /// Something is there already: progress first.
    Busy,
}

/// Why a worker has no descriptor to sleep on.
#[derive(Error)]
#[non_exhaustive]
pub enum WakeError {
    /// A transport has none.
    #[error(
        "the transport {transport} has no event descriptor: call progress now and then, or leave it out"
    )]
    NoDescriptor {
        /// Its name.
        transport: &'static str,
    },
    /// The system refused.
    #[error("cannot make the worker's event descriptor: {0}")]
    System(std::io::Error),
}

bowline_base::debug_by_display!(WakeError);

/// What a worker sleeps on, once it is armed.
#[derive(Debug)]
pub(crate) struct Nap {
    pub(crate) doorbell: Option<Doorbell>,
    pub(crate) descriptors: Arc<WakeSet>,
    pub(crate) deadline: Option<Duration>,
}

impl Nap {
    /// The nap as a waiter sees it.
    pub(crate) fn idle<'a>(&'a self, waits: Waits<'a>, first: bool) -> Idle<'a> {
        let (doorbell, descriptors) = (self.doorbell.as_ref(), &*self.descriptors);
        Idle { doorbell, descriptors, deadline: self.deadline, waits, first }
    }
}

/// The parts of a worker that only sleepers need.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    signal: Option<Signal>,
    source: Option<WakeSource>,
    /// `arm` was the last that happened.
    armed: bool,
    /// How often `arm` has answered that one may sleep.
    sleeps: u64,
    /// Longest sleep while something is waited for of which nothing tells.
    pub(crate) look: Option<Duration>,
}

impl Wakeup {
    /// Whether the worker must sleep on descriptors even where one transport's doorbell would do.
    pub(crate) fn wants_descriptors(&self) -> bool {
        self.source.is_some()
    }

    pub(crate) fn signal(&self) -> Option<&Signal> {
        self.signal.as_ref()
    }
}

impl Worker {
    /// A handle by which any thread of the process wakes this worker.
    pub fn signal(&self) -> Signal {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(signal) = &inner.wakeup.signal {
            return signal.clone();
        }
        let bells = inner.lanes.iter().filter_map(|lane| lane.iface.doorbell().cloned());
        let signal = Signal::new(bells.collect());
        inner.wakeup.signal = Some(signal.clone());
        inner.descriptors = None;
        signal
    }

    /// A descriptor that becomes readable when an armed worker has something to do; for `epoll`, `poll`
    /// and event loops built on them.
    ///
    /// # Errors
    /// When a transport in use has no event descriptor, or the system refuses.
    pub fn event_fd(&self) -> Result<WakeFd, WakeError> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.wakeup.source.is_none() {
            inner.wakeup.source = Some(WakeSource::new().map_err(WakeError::System)?);
            inner.descriptors = None;
        }
        inner.watch_descriptors()?;
        let source = inner.wakeup.source.as_ref().map(|source| source.fd().clone());
        Ok(source.expect("made in the lines above"))
    }

    /// Prepares for a sleep on the descriptor of [`Worker::event_fd`].
    ///
    /// # Errors
    /// As for [`Worker::event_fd`].
    pub fn arm(&self) -> Result<Arm, WakeError> {
        self.event_fd()?;
        self.slept_on.set(None);
        if std::mem::take(&mut self.inner.borrow_mut().wakeup.armed) {
            self.inner.borrow_mut().disarm();
        }
        let Some(nap) = self.begin_nap() else { return Ok(Arm::Busy) };
        let inner = &mut *self.inner.borrow_mut();
        inner.wakeup.armed = true;
        inner.wakeup.sleeps += 1;
        self.slept_on.set(Some(inner.wakeup.sleeps));
        // What a signal handler takes has made the descriptor readable.
        inner.shut_out_signals(false);
        Ok(Arm::Ready { within: nap.deadline })
    }

    /// Sleeps, by the worker's waiter, until something happens, a signal is raised, or the worker
    /// wants to be looked at; returns at once when something is there already. May return for nothing.
    /// Progress is the caller's.
    pub fn wait_event(&self) {
        self.sleep(true);
    }
}

impl Inner {
    /// Has the worker's descriptor watch what the worker would sleep on.
    fn watch_descriptors(&mut self) -> Result<(), WakeError> {
        let lacking = self.lanes.iter().find(|lane| {
            let caps = lane.iface.attr().caps;
            lane.polled && !lane.loopback && !caps.contains(Caps::EVENT_FD)
        });
        if let Some(lane) = lacking {
            return Err(WakeError::NoDescriptor { transport: lane.iface.attr().provider });
        }
        let set = self.descriptors();
        match &mut self.wakeup.source {
            Some(source) => source.watch(&set).map_err(WakeError::System),
            None => Ok(()),
        }
    }
}

impl Inner {
    /// Arms every lane; `None` when something is there already.
    #[cold]
    pub(crate) fn begin_nap(&mut self) -> Option<Nap> {
        let doorbell = self.doorbell();
        let inner = self;
        let descriptors = inner.descriptors();
        let by_descriptor = !descriptors.is_empty();
        let mut deadline = None;
        let mut busy = false;
        for lane in inner.lanes.iter_mut().filter(|lane| lane.polled) {
            if lane.loopback {
                // Only this thread puts anything there, and it has just found nothing.
                continue;
            }
            // A transport may wake by one way only: libfabric's has descriptors and no doorbell.
            let wakes = if by_descriptor { Caps::EVENT_FD } else { Caps::WAKEUP };
            if !lane.iface.attr().caps.contains(wakes) {
                deadline = Some(Duration::from_millis(1));
            } else if lane.iface.arm(by_descriptor) == Armed::Busy {
                busy = true;
                break;
            }
        }
        if let Some(signal) = &inner.wakeup.signal {
            if by_descriptor {
                signal.arm();
            }
            busy |= signal.take();
        }
        busy |= inner.introducer_is_busy();
        // Whoever tells of deaths rings the memory's doorbell, which need not be among what is
        // slept on here.
        let soonest = |deadline: Option<Duration>, other: Duration| {
            Some(deadline.map_or(other, |deadline| other.min(deadline)))
        };
        if inner.failures.is_some() && inner.has_dear_lane() {
            deadline = soonest(deadline, crate::lanes::NEWS);
        }
        if let Some(look) = inner.wakeup.look {
            deadline = soonest(deadline, look);
        }
        // A round of keep-alive is due then.
        if let Some(left) = inner.rounds.remaining() {
            deadline = soonest(deadline, left);
            busy |= left.is_zero() && inner.keep_alive() > 0;
        }
        let failed = !busy && inner.failures_changed();
        if failed {
            inner.note_failures();
        }
        if busy || failed {
            inner.disarm();
            return None;
        }
        Some(Nap { doorbell, descriptors, deadline })
    }
}

impl Worker {
    /// The same, and shuts out signal handlers until the end of the nap; `None` also when there was async progress since
    /// the last look, which may have taken what the sleeper would be woken for.
    #[cold]
    pub(crate) fn begin_nap(&self) -> Option<Nap> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.has_async_progress() {
            return None;
        }
        let nap = inner.begin_nap()?;
        inner.shut_out_signals(true);
        Some(nap)
    }

    /// Arms every lane and sleeps, unless something is there already, or was moved by others meanwhile: `false`.
    /// `first`: something has happened since the last sleep.
    #[cold]
    pub(crate) fn sleep(&self, first: bool) -> bool {
        if self.inner.is_shared() {
            // A claim is held that others want: see `shared.rs`.
            self.waiter.borrow_mut().yield_now();
            return true;
        }
        if let Some(slept) = self.sleep_beside_thread(first) {
            return slept;
        }
        let Some(nap) = self.begin_nap() else { return false };
        self.sleeps.set(self.sleeps.get() + 1);
        self.waiter.borrow_mut().sleep(nap.idle(Waits::of(self), first));
        self.end_nap();
        true
    }

    /// The worker is awake again.
    pub(crate) fn end_nap(&self) {
        let inner = &mut *self.inner.borrow_mut();
        inner.shut_out_signals(false);
        inner.disarm();
    }
}
