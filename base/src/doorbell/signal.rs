//! Waking a worker from any thread of its process, without a message: a flag that stays up until the
//! worker has seen it, and the doorbells on which it may be sleeping.

use std::sync::Arc;

use super::Doorbell;
use crate::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
struct Inner {
    raised: AtomicBool,
    /// For a sleep on descriptors, where no transport's doorbell need be among them.
    own: Doorbell,
    /// For a sleep on a transport's word.
    transports: Vec<Doorbell>,
}

/// A handle that wakes a worker. Clones wake the same one.
#[derive(Clone, Debug)]
pub struct Signal(Arc<Inner>);

impl Signal {
    /// For a worker that may sleep on these doorbells.
    pub fn new(transports: Vec<Doorbell>) -> Self {
        let raised = AtomicBool::new(false);
        Self(Arc::new(Inner { raised, own: Doorbell::private(), transports }))
    }

    /// Wakes the worker if it sleeps; else its next sleep ends at once.
    pub fn raise(&self) {
        // Release pairs with the Acquire of `take`; the ring has the fence that goes between this and
        // its load of the sleeper's word.
        self.0.raised.store(true, Ordering::Release);
        self.0.own.ring();
        self.0.transports.iter().for_each(Doorbell::ring);
    }

    /// Whether it was raised since it was last asked. To be asked between arming and sleeping.
    pub fn take(&self) -> bool {
        // Acquire pairs with the Release of `raise`.
        self.0.raised.swap(false, Ordering::AcqRel)
    }

    /// The doorbell that is the signal's own: what the worker sleeps on where no transport's would do.
    pub fn doorbell(&self) -> &Doorbell {
        &self.0.own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_stays_until_it_was_seen() {
        let signal = Signal::new(vec![Doorbell::private()]);
        assert!(!signal.take());
        signal.raise();
        signal.clone().raise();
        assert!(signal.take());
        assert!(!signal.take(), "seen once");
    }
}
