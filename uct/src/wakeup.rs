//! Sleep until something arrives.

use std::os::fd::BorrowedFd;

use bowline_base::doorbell::Doorbell;

use crate::error::OpenError;

/// Answer of `arm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Armed {
    /// Anything that arrives from now on rings; one may sleep.
    Ready,
    /// Something is there already: progress first.
    Busy,
}

/// Waking of a sleeper: by the doorbell with [`Caps::WAKEUP`](crate::Caps::WAKEUP), by the event descriptor
/// with [`Caps::EVENT_FD`](crate::Caps::EVENT_FD).
pub trait Wakeup {
    /// Where peers ring when this interface's worker sleeps; `None` without wakeup.
    fn doorbell(&self) -> Option<&Doorbell>;

    /// Prepares for sleep on `doorbell`/`event_fd`: whatever arrives after [`Armed::Ready`] wakes.
    /// `descriptor` says whether the sleeper waits on the event descriptor, else on the doorbell.
    fn arm(&mut self, descriptor: bool) -> Armed;

    /// The sleeper is awake again.
    fn disarm(&mut self);

    /// A descriptor that becomes readable when an armed interface is rung.
    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError>;
}
