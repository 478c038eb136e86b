//! What a worker sleeps on, and how long. How it falls asleep is in [`crate::wakeup`].

use std::sync::Arc;
use std::time::Duration;

use bowline_base::doorbell::{Doorbell, Signal, WakeSet, WakeSource};

use crate::wait::{Idle, Waits};

/// Between two polls whether messages have left.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// What a worker sleeps on, once it is armed.
#[derive(Debug)]
pub(crate) struct ArmedSleep {
    pub(crate) doorbell: Option<Doorbell>,
    pub(crate) descriptors: Arc<WakeSet>,
    pub(crate) deadline: Option<Duration>,
}

impl ArmedSleep {
    /// It as a waiter sees it.
    pub(crate) fn idle<'a>(&'a self, waits: Waits<'a>, first: bool) -> Idle<'a> {
        let (doorbell, descriptors) = (self.doorbell.as_ref(), &*self.descriptors);
        Idle { doorbell, descriptors, deadline: self.deadline, waits, first }
    }
}

/// The parts of a worker that only sleepers need.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    pub(crate) signal: Option<Signal>,
    pub(crate) source: Option<WakeSource>,
    /// What the worker's descriptor watches beside a progress thread: the signal's doorbell.
    pub(crate) beside_thread: Option<Arc<WakeSet>>,
    /// `arm` was the last that happened.
    pub(crate) armed: bool,
    /// How often `arm` has answered that one may sleep.
    pub(crate) sleeps: u64,
    /// Longest sleep while something is waited for that rings nothing.
    pub(crate) poll_after: Option<Duration>,
}

impl Wakeup {
    /// Whether the worker must sleep on descriptors even where one transport's doorbell would do.
    pub(crate) fn wants_descriptors(&self) -> bool {
        self.source.is_some()
    }

    pub(crate) fn signal(&self) -> Option<&Signal> {
        self.signal.as_ref()
    }

    /// Has the worker's descriptor watch the signal alone.
    pub(crate) fn watch_signal(&mut self) -> std::io::Result<()> {
        let (Some(signal), Some(source)) = (&self.signal, &mut self.source) else { return Ok(()) };
        let set = match &self.beside_thread {
            Some(set) => set,
            None => {
                let mut set = WakeSet::default();
                set.add(signal.doorbell().event_fd()?)?;
                self.beside_thread.insert(Arc::new(set))
            }
        };
        source.watch(set)
    }
}
