//! What can fail, and how it is reported.

use bowline_uct::PeerFailure;
use thiserror::Error;

/// Why an operation did not do what was asked. Small and `Copy`: it is kept in every status.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpError {
    /// The message was longer than the receive buffer; what fits was delivered.
    #[error(
        "the message of {message} bytes was cut to the receive buffer's {capacity} bytes; give a larger buffer or probe first"
    )]
    Truncated {
        /// Bytes of the message.
        message: u64,
        /// Bytes of the buffer.
        capacity: u64,
    },
    /// The callback that unpacks a message refused its bytes, or panicked.
    #[error(
        "the callback that unpacks the message refused its bytes, or panicked; what it took is its own to judge"
    )]
    NotUnpacked,
    /// The peer failed before the operation could complete.
    #[error("{0}")]
    PeerFailed(PeerFailure),
    /// A member of the communicator failed, so that a receive from any source, or a collective,
    /// may never complete.
    #[error("rank {rank} of the communicator has failed")]
    MemberFailed {
        /// Its rank in the space.
        rank: u32,
    },
    /// It was cancelled.
    #[error("the operation was cancelled")]
    Cancelled,
    /// The message's sender has cancelled it.
    #[error("the sender has taken the message back before it was received")]
    TakenBack,
    /// No such endpoint.
    #[error("no such endpoint; connect first")]
    BadEndpoint,
    /// The endpoint was closed here.
    #[error("the endpoint was closed; connect to the peer anew")]
    EndpointClosed,
    /// No such space.
    #[error("the matching space {0} is not open; open it before posting to it")]
    BadSpace(u32),
    /// No lane to this peer has the operation.
    #[error("no transport to this peer can do this operation on this memory")]
    Unsupported,
    /// A remote address outside of what its key opens, or misaligned for an atomic.
    #[error("the remote address or its alignment does not fit the key")]
    BadRemote,
    /// The payload exceeds what this operation carries.
    #[error("the payload is longer than this operation carries")]
    TooLong,
    /// The header of an active message is longer than one message of the transport.
    #[error(
        "the header of an active message may have {limit} bytes here; put the rest into its data"
    )]
    HeaderTooLong {
        /// Longest header, in bytes.
        limit: u64,
    },
    /// The peer has no handler for an active message.
    #[error("the peer has no handler for this active message; register one there before sending")]
    NoHandler,
    /// The buffer of a receive of a stream is no multiple of its unit.
    #[error("a buffer of {capacity} bytes is no multiple of the stream's unit of {unit} bytes")]
    BadUnit {
        /// Bytes of an element.
        unit: u64,
        /// Bytes of the buffer.
        capacity: u64,
    },
    /// No such request.
    #[error("no such request; it was taken or detached before")]
    BadRequest,
    /// What the sender had sent, and the receiver had not asked for, reached a limit of the receiver.
    #[error(
        "too many unexpected messages: those that no receive asked for reached a limit of their receiver, which its log names (BOWLINE_UNEXPECTED_ENVELOPES, as a rule); receive some before more are sent, or raise it there"
    )]
    TooManyUnexpected,
}

bowline_base::debug_by_display!(OpError);

impl From<PeerFailure> for OpError {
    fn from(how: PeerFailure) -> Self {
        match how {
            PeerFailure::Overrun => Self::TooManyUnexpected,
            how => Self::PeerFailed(how),
        }
    }
}

/// Why a worker could not be made.
#[derive(Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// There must be one lane at least.
    #[error("a worker needs at least one transport; all were refused or none was given")]
    NoLane,
    /// More lanes than an address can name.
    #[error("a worker has at most 255 transports")]
    TooManyLanes,
    /// A transport lacks what every lane needs.
    #[error(
        "the transport {transport} has no short, packed and ordered active messages, which a worker \
         needs; receive queues carry them over puts and atomics"
    )]
    NoActiveMessages {
        /// Its name.
        transport: &'static str,
    },
}

bowline_base::debug_by_display!(WorkerError);

/// Why an endpoint could not be made.
#[derive(Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address is damaged.
    #[error("cannot connect: {0}")]
    Address(#[from] crate::AddressError),
    /// No transport reaches the peer; the reasons, one per transport.
    #[error("cannot connect to rank {rank}: {}", reasons.join("; "))]
    NoLane {
        /// The peer's rank in its job.
        rank: u32,
        /// `transport: reason` for each transport tried.
        reasons: Vec<String>,
    },
    /// The peer is known to have failed.
    #[error("cannot connect to rank {rank}: {how}")]
    PeerFailed {
        /// The peer's rank in its job.
        rank: u32,
        /// How it failed.
        how: PeerFailure,
    },
    /// The worker's book of addresses has none with this number, or it has no book.
    #[error("the worker's book has no address {index}; give it one that has")]
    NotInBook {
        /// The number.
        index: u32,
    },
    /// The endpoint to the peer is being closed.
    #[error("the endpoint to rank {rank} is being closed; wait for that and connect anew")]
    Closing {
        /// The peer's rank in its job.
        rank: u32,
    },
}

bowline_base::debug_by_display!(ConnectError);

/// Why a space could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// It is open already.
    #[error("the matching space {0} is open already")]
    Taken(u32),
}

bowline_base::debug_by_display!(SpaceError);
