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

use bowline_base::doorbell::{Signal, Sleep, WakeFd, WakeSet, WakeSource};
use bowline_uct::{Armed, Caps};
use thiserror::Error;

use crate::engine::Inner;
use crate::lanes::Lane;
use crate::state::wakeup::ArmedSleep;
use crate::wait::Waits;
use crate::waits::List;
use crate::worker::Worker;

/// Longest sleep of a worker on a network while somebody else may know of deaths.
const NEWS: Duration = Duration::from_millis(100);

/// Answer of [`Worker::arm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Arm {
    /// One may sleep on the descriptor.
    Ready {
        /// Longest time after which the worker has to be polled although nothing came.
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
            self.inner.borrow_mut().end_sleep();
        }
        let Some(armed) = self.arm_sleep() else { return Ok(Arm::Busy) };
        let inner = &mut *self.inner.borrow_mut();
        inner.wakeup.armed = true;
        inner.wakeup.sleeps += 1;
        self.slept_on.set(Some(inner.wakeup.sleeps));
        // What a signal handler takes has made the descriptor readable.
        inner.shut_out_signals(false);
        Ok(Arm::Ready { within: armed.deadline })
    }

    /// Sleeps, by the worker's waiter, until something happens, a signal is raised, or the worker
    /// has to be polled; returns at once when something is there already. May return for nothing.
    /// Progress is the caller's.
    pub fn wait_event(&self) {
        self.sleep(true);
    }
}

impl Inner {
    /// Has the worker's descriptor watch what the worker would sleep on.
    fn watch_descriptors(&mut self) -> Result<(), WakeError> {
        if self.engine.async_state.has_thread() {
            return self.wakeup.watch_signal().map_err(WakeError::System);
        }
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
    pub(crate) fn arm_sleep(&mut self) -> Option<ArmedSleep> {
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
            // A transport may wake by one means only: libfabric's has descriptors and no doorbell.
            let wakes = if by_descriptor { Caps::EVENT_FD } else { Caps::WAKEUP };
            if !lane.iface.attr().caps.contains(wakes) {
                deadline = Some(Duration::from_millis(1));
            } else if lane.iface.arm(by_descriptor) == Armed::Busy {
                busy = true;
                break;
            }
        }
        if let Some(signal) = inner.signal_beside_lanes() {
            if by_descriptor {
                signal.doorbell().arm(Sleep::Fd);
            }
            busy |= signal.take();
        }
        busy |= inner.connection_manager_is_busy();
        // A report of a death rings the memory's doorbell, which need not be among what is
        // slept on here.
        let soonest = |deadline: Option<Duration>, other: Duration| {
            Some(deadline.map_or(other, |deadline| other.min(deadline)))
        };
        if inner.failures.is_some() && inner.has_dear_lane() {
            deadline = soonest(deadline, NEWS);
        }
        if let Some(after) = inner.wakeup.poll_after {
            deadline = soonest(deadline, after);
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
            // What has failed by that is its user's when the call returns.
            inner.act();
            inner.disarm();
            return None;
        }
        Some(ArmedSleep { doorbell, descriptors, deadline })
    }

    /// What a thread sleeps on beside a progress thread, which sleeps on the lanes: the doorbell of the signal, which the
    /// progress thread rings, too.
    fn arm_sleep_beside_thread(&mut self) -> Option<ArmedSleep> {
        // The thread may sleep without knowing what is waited for now, space in a lane for instance.
        self.call_progress_thread();
        let signal = self.wakeup.signal.as_ref()?;
        let doorbell = signal.doorbell().clone();
        let descriptors = self.wakeup.beside_thread.clone().unwrap_or_default();
        doorbell.arm(if descriptors.is_empty() { Sleep::Futex } else { Sleep::Fd });
        if signal.take() {
            doorbell.disarm();
            return None;
        }
        Some(ArmedSleep { doorbell: Some(doorbell), descriptors, deadline: self.wakeup.poll_after })
    }

    fn end_sleep(&mut self) {
        match self.wakeup.signal() {
            Some(signal) if self.engine.async_state.has_thread() => signal.doorbell().disarm(),
            _ => self.disarm(),
        }
    }
}

impl Inner {
    pub(crate) fn disarm(&mut self) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.polled && !lane.loopback) {
            lane.iface.disarm();
            lane.rest.wake();
        }
        if let Some(signal) = self.signal_beside_lanes() {
            signal.doorbell().disarm();
        }
        self.disarm_connection_manager();
    }

    /// Whether a lane is polled whose peers do not ring the memory's doorbell.
    pub(crate) fn has_dear_lane(&self) -> bool {
        self.lanes.iter().any(|lane| lane.polled && lane.inter_node)
    }

    /// The signal, where the thread that sleeps on the lanes is the one that it wakes: a progress thread is not.
    fn signal_beside_lanes(&self) -> Option<&Signal> {
        self.wakeup.signal().filter(|_| !self.engine.async_state.has_thread())
    }

    /// Adds what becomes readable by a signal to what is slept on.
    fn add_signal(&self, all: &mut WakeSet) {
        let Some(signal) = self.signal_beside_lanes() else { return };
        let event = signal.doorbell().event_fd();
        if let Err(error) = event.and_then(|event| all.add(event)) {
            tracing::warn!(%error, "no event descriptor for signals; sleeps are short");
            all.clear();
        }
    }

    /// What to sleep on beside the doorbell: nothing, where one lane is polled, whose peers ring it;
    /// else the event descriptor of each.
    pub(crate) fn descriptors(&mut self) -> Arc<WakeSet> {
        if let Some(known) = &self.descriptors {
            return Arc::clone(known);
        }
        let polled = |lane: &&mut Lane| lane.polled && !lane.loopback;
        let rings = |lane: &mut Lane| {
            let by_thread = lane.iface.attr().caps.contains(Caps::RUNG_BY_THREAD);
            !by_thread && lane.iface.doorbell().is_some()
        };
        let count = self.lanes.iter_mut().filter(polled).count();
        let by_thread = self.engine.async_state.has_thread();
        let alone = (by_thread || !self.wakeup.wants_descriptors())
            && !self.has_connection_manager()
            && count <= 1
            && self.lanes.iter_mut().filter(polled).all(rings);
        let mut all = WakeSet::default();
        for lane in self.lanes.iter_mut().filter(polled) {
            if alone || !lane.iface.attr().caps.contains(Caps::EVENT_FD) {
                continue;
            }
            let event = lane.iface.event_fd().map_err(|error| error.to_string());
            match event.and_then(|event| all.add(event).map_err(|error| error.to_string())) {
                Ok(()) => {}
                // Without it the worker would sleep through arrivals: it polls now and then.
                Err(error) => {
                    let provider = lane.iface.attr().provider;
                    tracing::warn!(provider, error, "no event descriptor; sleeps are short");
                    all.clear();
                    break;
                }
            }
        }
        if !alone {
            self.add_signal(&mut all);
            if !self.add_connection_manager(&mut all) {
                all.clear();
            }
        }
        let all = Arc::new(all);
        self.descriptors = Some(Arc::clone(&all));
        all
    }
}

impl Worker {
    /// Arms what the worker sleeps on, and shuts out signal handlers until the end of the armed. `None` when something is
    /// there already, and when there was async progress since the last poll, which may have taken what the sleeper would
    /// be woken for.
    #[cold]
    pub(crate) fn arm_sleep(&self) -> Option<ArmedSleep> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.has_async_progress() {
            return None;
        }
        let has_thread = inner.engine.async_state.has_thread();
        let armed = if has_thread { inner.arm_sleep_beside_thread() } else { inner.arm_sleep() }?;
        inner.shut_out_signals(true);
        Some(armed)
    }

    /// Arms all and sleeps, unless something is there already, or was moved by others meanwhile: `false`.
    /// `first`: something has happened since the last sleep.
    #[cold]
    pub(crate) fn sleep(&self, first: bool) -> bool {
        if self.inner.is_shared() {
            // A claim is held that others want: see `shared.rs`.
            self.waiter.borrow_mut().yield_now();
            return true;
        }
        let Some(armed) = self.arm_sleep() else { return false };
        self.sleeps.set(self.sleeps.get() + 1);
        self.waiter.borrow_mut().sleep(armed.idle(Waits(&List(self)), first));
        self.end_sleep();
        true
    }

    /// The worker is awake again.
    pub(crate) fn end_sleep(&self) {
        {
            let inner = &mut *self.inner.borrow_mut();
            inner.shut_out_signals(false);
            inner.end_sleep();
        }
        self.call_lane_thread();
    }
}
