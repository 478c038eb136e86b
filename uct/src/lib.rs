//! The transport contract of Bowline.
//!
//! A provider implements [`Iface`]: numbered endpoints, operations in three flavours (*short*:
//! copied in the call; *bcopy*: packed by the caller into the transport's buffer; *zcopy*: sent
//! from where it lies, completed by a token), and one `progress` that pushes what happened into a
//! [`Sink`]. The contract holds no policy: which lane, which protocol and what to do about an
//! error is decided above, in ucp.
//!
//! **Thread safety.** An interface belongs to one thread at a time (`&mut self`, `Send`).
//! **Cleanup.** Dropping an interface closes its endpoints and gives its memory back; peers see
//! it as closed.
//!
//! The suite in the module `conformance` (feature of the same name) is the contract's executable half: every provider runs it.

mod addr;
mod atomic;
mod auth;
mod caps;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod iface;
mod md;
pub mod runtime;
mod sink;
mod slice;
mod tag;
mod turn;

pub use addr::{AddrReader, AddrWriter, Truncated};
pub use atomic::{AtomicOp, AtomicWidth};
pub use auth::{MAC_BYTES, Secret};
pub use caps::{AtomicOps, Caps, IfaceAttr, Limits, OpLimits};
pub use error::{OpenError, PeerFailure, PostError, Unreachable};
pub use iface::{Armed, EpId, Iface, Posted, RemoteSlice, Source, Token};
pub use md::{MdAttr, MemError, MemHandle, MemoryDomain, RkeyId, WHOLE_PROCESS};
pub use sink::{AmId, Arrival, Desc, Sink, Verdict};
pub use slice::LocalSlice;
/// What [`Iface::event_fd`] lends.
pub use std::os::fd::BorrowedFd;
pub use tag::{CUT, TagMatch, WITHDRAWN};
pub use turn::TurnSink;

/// The fixed header that every active message carries in front of its payload: three words
/// whose meaning is the business of the layer above.
pub type AmHeader = [u64; 3];

/// Bytes of [`AmHeader`] on the wire.
pub const AM_HEADER_BYTES: usize = 24;
