//! Progress from beside the thread that an interface belongs to: in a signal handler that has
//! interrupted it. See [`Iface::turn`](crate::Iface::turn).
//!
//! A turn may do much less than `progress`: what it interrupted may be the allocator, a lock's owner
//! or the formatting of a log line. So the layer above is *offered* each message, and what it cannot
//! take without one of these stays where it is, for the next call of `progress`.

use crate::error::PeerFailure;
use crate::iface::Token;
use crate::sink::Arrival;

/// The layer above, as a transport sees it in a turn. What it does not take is offered again, by the
/// next turn, or given to the [`Sink`](crate::Sink) by the next `progress`.
pub trait TurnSink {
    /// Whether the layer above has taken the message. Where it has not, the transport stops reading
    /// from this sender, so that the order of its messages stays.
    fn offer(&mut self, arrival: &Arrival<'_>) -> bool;

    /// The operation posted with `token` is complete; whether the layer above has taken note.
    fn offer_completion(&mut self, token: Token, result: Result<u64, PeerFailure>) -> bool;
}
