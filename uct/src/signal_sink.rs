//! Progress in a signal handler that has interrupted the thread of an interface. See [`SignalSafe::progress_signal_safe`](SignalSafe::progress_signal_safe).
//!
//! It may do much less than `progress`: what it interrupted may be the allocator, a lock's owner
//! or the formatting of a log line. So the layer above is *offered* each message, and what it cannot
//! take without one of these stays where it is, for the next call of `progress`.

use crate::error::PeerFailure;
use crate::ids::Token;
use crate::sink::Arrival;

/// The layer above, as a transport sees it in a signal handler. What it does not take is offered again, by the
/// next handler, or given to the [`Sink`](crate::Sink) by the next `progress`.
pub trait SignalSink {
    /// Whether the layer above has taken the message. Where it has not, the transport stops reading
    /// from this sender, so that the order of its messages stays.
    fn offer(&mut self, arrival: &Arrival<'_>) -> bool;

    /// The operation posted with `token` is complete; whether the layer above has taken note.
    fn offer_completion(&mut self, token: Token, result: Result<u64, PeerFailure>) -> bool;
}

/// Progress in a signal handler; with [`Caps::SIGNAL_SAFE`](crate::Caps::SIGNAL_SAFE).
pub trait SignalSafe {
    /// Progress in a signal handler that has interrupted the interface's thread outside of all its
    /// methods, as far as that goes without allocating or freeing, without a lock, and without a line
    /// in a log: hands out messages that the sink takes and completions, at most `budget`; returns how
    /// many. Everything else is left to `progress`. Between two such calls, within the same handler,
    /// `am_short`, `get_zcopy`, `mem_view` and `want_writable` keep to the same rule on endpoints
    /// that work. With [`Caps::SIGNAL_SAFE`](crate::Caps::SIGNAL_SAFE).
    fn progress_signal_safe(&mut self, sink: &mut dyn SignalSink, budget: u32) -> u32;
}
