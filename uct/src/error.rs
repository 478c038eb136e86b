//! Why an operation, a connection or an opening failed.
//!
//! On the data path an error is a small `Copy` word; text is made where it is shown.

use thiserror::Error;

/// Why a posted operation did not start. Nothing observable has happened in any of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PostError {
    /// Queues are full now. Ask with [`Iface::want_writable`](crate::Iface::want_writable), or
    /// try again after `progress`.
    #[error("the transport's queue is full; progress and post again")]
    NoResource,
    /// The capability bit of this operation is not set.
    #[error("this transport lacks the operation; its capabilities say which it has")]
    Unsupported,
    /// Longer than the limit of this flavour.
    #[error("the payload is longer than the transport's limit for this operation")]
    TooLong,
    /// No such endpoint, or it was closed.
    #[error("no such endpoint; it was closed or never connected")]
    BadEndpoint,
    /// No such active message id, rkey, memory handle, or an operand that the operation refuses.
    #[error("an argument names nothing that this transport knows")]
    BadArgument,
    /// A remote address outside what its rkey opens.
    #[error("the remote address lies outside the memory that its key opens")]
    BadRemote,
    /// The peer is known to be dead or damaged.
    #[error("the peer has failed")]
    PeerFailed,
}

/// How a peer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PeerFailure {
    /// Its process or thread ended without closing.
    #[error("the peer died")]
    Died,
    /// It closed its interface in order.
    #[error("the peer has closed its side")]
    Closed,
    /// It does not answer.
    #[error("the peer cannot be reached any more")]
    Unreachable,
    /// It wrote what no correct peer writes.
    #[error("the peer wrote damaged data")]
    Damaged,
    /// The kernel refused access to its memory.
    #[error("access to the peer's memory was refused")]
    Refused,
    /// It ended the connection because it found damage in what it received from this side.
    #[error(
        "the peer ended the connection: it found this side's messages damaged; its log says what"
    )]
    Rejected,
    /// More was sent on the connection, in either direction, than the receiver agreed to keep.
    #[error("more was sent without being asked for than the receiver's limits admit")]
    Overrun,
}

/// Why an address cannot be reached, in words for the person who asks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Unreachable {
    /// The reason, naming the differing namespace, host, permission or missing support.
    pub reason: String,
}

impl Unreachable {
    /// Not reachable, because of `reason`.
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// Why an interface could not be opened or an endpoint not be made.
#[derive(Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The peer cannot be reached by this transport.
    #[error("cannot connect: {0}")]
    Unreachable(#[from] Unreachable),
    /// The peer is known to have failed, so that no other transport reaches it either.
    #[error("cannot connect: {0}")]
    PeerFailed(PeerFailure),
    /// The address is damaged or from another version.
    #[error("cannot connect: the address is damaged ({0})")]
    BadAddress(String),
    /// A resource ran out or the system refused.
    #[error("cannot {act}: {source}")]
    System {
        /// What was tried.
        act: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A limit of the interface is reached.
    #[error("cannot connect: {0}")]
    Limit(String),
}

bowline_base::debug_by_display!(OpenError);

impl OpenError {
    /// Why there is no endpoint to a peer that has failed as `how` says. One that ended is reached by no transport;
    /// another failure may be the transport's own.
    pub fn of_failed_peer(how: PeerFailure) -> Self {
        match how {
            PeerFailure::Died | PeerFailure::Closed => Self::PeerFailed(how),
            _ => Unreachable::because(format!("the peer failed before: {how}")).into(),
        }
    }
}
