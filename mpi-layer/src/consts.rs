//! Special values of ranks, tags and counts.
//!
//! They have the values of the MPI standard ABI, so that the C library passes them through.

/// Matches a message from any rank of the communicator. (MPI: Point-to-Point Communication,
/// "Blocking Receive".)
pub const ANY_SOURCE: i32 = -1;

/// Matches a message with any tag. (MPI: Point-to-Point Communication, "Blocking Receive".)
pub const ANY_TAG: i32 = -2;

/// A partner that is nobody: sends to it and receives from it succeed at once and move nothing.
/// (MPI: Point-to-Point Communication, "Null Processes".)
pub const PROC_NULL: i32 = -3;

/// The colour of a rank that takes no part in a split, and the rank of a process outside a
/// group. (MPI: Groups, Contexts, Communicators, "Communicator Constructors".)
pub const UNDEFINED: i32 = -32766;

/// The largest tag. (MPI: MPI Environmental Management, "Environmental Inquiries".)
pub const TAG_UB: i32 = i32::MAX;
