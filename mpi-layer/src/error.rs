//! What can go wrong, and which MPI error class that is.
//!
//! One enum for the whole layer; the mapping to error classes is here and nowhere else. Texts are
//! made where they are shown, the data path carries small values.

use bowline_ucp::{OpError, PeerFailure, ReceiveError};
use thiserror::Error;

/// Why a call failed. (MPI: MPI Environmental Management, "Error Codes and Classes".)
///
/// An error of an argument means that nothing was sent or received.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MpiError {
    /// A partner's rank outside the communicator.
    #[error("rank {rank} is not in a communicator of {size} ranks; ranks run from 0 to size - 1")]
    InvalidRank {
        /// The rank that was given.
        rank: i32,
        /// Ranks in the communicator.
        size: u32,
    },
    /// A root outside the communicator.
    #[error("root {root} is not in a communicator of {size} ranks")]
    InvalidRoot {
        /// The root that was given.
        root: i32,
        /// Ranks in the communicator.
        size: u32,
    },
    /// A negative tag, or a wildcard where a message is sent.
    #[error("tag {tag} is not allowed here; tags run from 0 to {}", crate::TAG_UB)]
    InvalidTag {
        /// The tag that was given.
        tag: i32,
    },
    /// A colour below zero that is not [`UNDEFINED`](crate::UNDEFINED).
    #[error("colour {color} is negative; colours are 0 or more, or UNDEFINED")]
    InvalidColor {
        /// The colour that was given.
        color: i32,
    },
    /// A buffer of the wrong length.
    #[error("{what} holds {got} elements where {expected} are needed")]
    InvalidLength {
        /// Which argument.
        what: &'static str,
        /// Elements that the call needs.
        expected: usize,
        /// Elements that it was given.
        got: usize,
    },
    /// Elements whose bytes, or whose bounds in memory, are beyond what can be counted.
    #[error("so many elements have more bytes than can be counted")]
    Uncountable,
    /// A nonblocking or persistent collective whose buffers reach beyond a terabyte.
    #[error(
        "a collective in the background works on at most 1 TiB of a buffer; use the blocking call"
    )]
    BeyondReach,
    /// A persistent collective was to be started, or its buffers used, while it is under way.
    #[error("the persistent collective is under way; wait for its end first")]
    CollectiveActive,
    /// The number of a nonblocking or persistent collective is that of one that is still there: since that, all 4,194,304
    /// numbers of its kind were taken on the communicator. Each call takes a number, those that are refused too.
    #[error(
        "the communicator has begun or made 4194304 collectives since one that is not complete or not freed, whose \
         number this one would have; free what is not used, or use another communicator"
    )]
    NumberInUse,
    /// A count and displacement that reach beyond their buffer, or whose sum overflows.
    #[error("{what}: block {index} ({count} at {displacement}) leaves a buffer of {len} elements")]
    BlockOutOfRange {
        /// Which argument.
        what: &'static str,
        /// Which block.
        index: usize,
        /// Elements in the block.
        count: usize,
        /// Where it starts, in elements.
        displacement: usize,
        /// Elements in the buffer.
        len: usize,
    },
    /// Two blocks of a receive buffer share elements.
    #[error("{what}: blocks {first} and {second} overlap, and both would be written")]
    BlocksOverlap {
        /// Which argument.
        what: &'static str,
        /// One block.
        first: usize,
        /// The other block.
        second: usize,
    },
    /// A group that names a rank outside its parent, or one rank twice.
    #[error("rank {rank} is outside the group of {size} or named twice")]
    InvalidGroup {
        /// The offending rank.
        rank: i32,
        /// Ranks in the parent group.
        size: u32,
    },
    /// A topology was asked of a communicator that has none of its kind.
    #[error("the communicator has no {needed} topology")]
    NoTopology {
        /// The kind, or `process` where any will do.
        needed: &'static str,
    },
    /// Dimensions that no grid of so many ranks has.
    #[error("the dimensions of a grid are wrong: {why}")]
    InvalidDims {
        /// What is wrong.
        why: &'static str,
    },
    /// A coordinate outside of a grid that is no ring in this dimension.
    #[error("coordinate {coordinate} of dimension {index} is not in a grid of {dim} ranks there")]
    InvalidCoordinate {
        /// Which dimension.
        index: usize,
        /// The coordinate that was given.
        coordinate: i32,
        /// Ranks in the dimension.
        dim: i32,
    },
    /// Edges that make no graph.
    #[error("the graph is wrong: {why}")]
    InvalidGraph {
        /// What is wrong.
        why: &'static str,
    },
    /// Parts that do not belong to the same rank of the same world.
    #[error("the communicator belongs to another rank than the scope")]
    ForeignCommunicator,
    /// A message was longer than its receive buffer. The receive is complete and the bytes that
    /// fit have been delivered.
    #[error("a message of {message} bytes was cut to the {capacity} bytes of its receive buffer")]
    Truncated {
        /// Bytes of the message as it was sent.
        message: u64,
        /// Bytes of the receive buffer.
        capacity: u64,
    },
    /// In a collective a partner sent a block of another length than this rank expects; the ranks
    /// did not give matching counts.
    #[error("a partner's block has {got} bytes where {expected} are expected; do counts agree?")]
    CountMismatch {
        /// Bytes expected.
        expected: u64,
        /// Bytes that came.
        got: u64,
    },
    /// The partner of the operation has failed.
    #[error("a partner of the operation failed: {0}")]
    PeerFailed(PeerFailure),
    /// A member of the communicator has failed, so that a receive from any source, or a
    /// collective, may never complete.
    #[error("rank {rank} of the communicator has failed")]
    MemberFailed {
        /// Its rank in the communicator.
        rank: u32,
    },
    /// A buffered send found too little space in the buffer that was attached for it.
    #[error("a buffered send needs {needed} bytes of its buffer, which has {free} to give")]
    NoBufferSpace {
        /// Bytes that the message takes.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The operation was cancelled before it was matched.
    #[error("the operation was cancelled before it was matched")]
    Cancelled,
    /// The partner's address is unknown or cannot be reached.
    #[error("no path to rank {world_rank} of the world; see the log for the reason")]
    Unreachable {
        /// The rank in the world.
        world_rank: u32,
    },
    /// All context ids are taken at one member or another.
    #[error("no free communicator id is left; drop communicators that are not used")]
    TooManyCommunicators,
    /// A member has failed in a part of the call of which the others know nothing.
    #[error("a member of the communicator has given up in this call; its own error says why")]
    MemberGaveUp,
    /// Members of a communicator would choose the algorithms of its collectives differently, and wait for each other
    /// in them.
    #[error(
        "members of the communicator choose algorithms of collectives by different settings or info keys, which \
         must be alike: BOWLINE_BCAST and the like, BOWLINE_COLL_COSTS, bowline_bcast and the like"
    )]
    ChoicesDiffer,
    /// A collective has no algorithm of the name that was given.
    #[error(
        "{collective} has no algorithm of the name that was given; settings such as BOWLINE_BCAST list them"
    )]
    UnknownAlgorithm {
        /// The collective.
        collective: &'static str,
    },
    /// The memory through which ranks of one machine carry out collectives holds what this call does not expect:
    /// members called different collectives, or one has written where it must not. These calls are errors at every
    /// member of the communicator from now on.
    #[error(
        "the memory in which the ranks of the communicator meet holds what does not belong to this call: \
         another rank called another collective (or one with another root or other counts), or overwrote \
         the memory; make another communicator, or end the job"
    )]
    MemoryOverwritten,
    /// The protocol layer refused or ended the operation for a reason of its own.
    #[error("the protocol layer: {0}")]
    Protocol(OpError),
}

bowline_base::debug_by_display!(MpiError);

/// The error classes of MPI that this layer produces, with the values of the standard ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(i32)]
pub enum ErrorClass {
    /// `MPI_ERR_BUFFER`
    Buffer = 1,
    /// `MPI_ERR_COUNT`
    Count = 2,
    /// `MPI_ERR_TAG`
    Tag = 4,
    /// `MPI_ERR_COMM`
    Comm = 5,
    /// `MPI_ERR_RANK`
    Rank = 6,
    /// `MPI_ERR_REQUEST`
    Request = 7,
    /// `MPI_ERR_ROOT`
    Root = 8,
    /// `MPI_ERR_GROUP`
    Group = 9,
    /// `MPI_ERR_TOPOLOGY`
    Topology = 11,
    /// `MPI_ERR_DIMS`
    Dims = 12,
    /// `MPI_ERR_ARG`
    Arg = 13,
    /// `MPI_ERR_TRUNCATE`
    Truncate = 15,
    /// `MPI_ERR_OTHER`
    Other = 16,
    /// `MPI_ERR_PROC_ABORTED`; the standard has no class of its own for a failed peer, so this
    /// is the one that says the most.
    ProcFailed = 58,
}

impl MpiError {
    /// The class under which a C program sees this error.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::InvalidRank { .. } => ErrorClass::Rank,
            Self::InvalidRoot { .. } => ErrorClass::Root,
            Self::CollectiveActive => ErrorClass::Request,
            Self::InvalidTag { .. } => ErrorClass::Tag,
            Self::InvalidLength { .. }
            | Self::CountMismatch { .. }
            | Self::Uncountable
            | Self::BeyondReach => ErrorClass::Count,
            Self::UnknownAlgorithm { .. }
            | Self::InvalidColor { .. }
            | Self::InvalidCoordinate { .. }
            | Self::InvalidGraph { .. }
            | Self::BlockOutOfRange { .. }
            | Self::BlocksOverlap { .. } => ErrorClass::Arg,
            Self::InvalidGroup { .. } => ErrorClass::Group,
            Self::NoTopology { .. } => ErrorClass::Topology,
            Self::InvalidDims { .. } => ErrorClass::Dims,
            Self::ForeignCommunicator => ErrorClass::Comm,
            Self::Truncated { .. } => ErrorClass::Truncate,
            Self::NoBufferSpace { .. } => ErrorClass::Buffer,
            Self::PeerFailed(_) | Self::MemberFailed { .. } => ErrorClass::ProcFailed,
            Self::Cancelled
            | Self::Unreachable { .. }
            | Self::TooManyCommunicators
            | Self::MemberGaveUp
            | Self::MemoryOverwritten
            | Self::NumberInUse
            | Self::ChoicesDiffer
            | Self::Protocol(_) => ErrorClass::Other,
        }
    }
}

impl MpiError {
    /// Whether a collective that fails with this at one rank may go on at others, which learn nothing of it: no
    /// process was lost.
    #[cold]
    pub(crate) const fn is_own(&self) -> bool {
        !matches!(
            self,
            Self::PeerFailed(_)
                | Self::MemberFailed { .. }
                | Self::Protocol(OpError::BadRemote | OpError::TooManyUnexpected)
        )
    }
}

impl From<ReceiveError> for MpiError {
    #[cold]
    #[inline(never)]
    fn from(error: ReceiveError) -> Self {
        error.error().into()
    }
}

impl From<OpError> for MpiError {
    #[cold]
    #[inline(never)]
    fn from(error: OpError) -> Self {
        match error {
            OpError::Truncated { message, capacity } => Self::Truncated { message, capacity },
            OpError::PeerFailed(failure) => Self::PeerFailed(failure),
            OpError::MemberFailed { rank } => Self::MemberFailed { rank },
            OpError::Cancelled => Self::Cancelled,
            other => Self::Protocol(other),
        }
    }
}

/// Success when a buffer has the length that it needs.
#[inline]
pub(crate) const fn length(
    what: &'static str,
    expected: usize,
    got: usize,
) -> Result<(), MpiError> {
    if expected == got {
        return Ok(());
    }
    Err(MpiError::InvalidLength { what, expected, got })
}
