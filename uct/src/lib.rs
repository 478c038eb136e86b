//! The transport contract of Bowline.
//!
//! A provider implements [`Iface`]: numbered endpoints, operations in three flavours (*short*:
//! copied in the call; *bcopy*: packed by the caller into the transport's buffer; *zcopy*: sent
//! from where it lies, completed by a token), and one `progress` that pushes what happened into a
//! [`Sink`]. What a transport has beside messages is a trait of its own, for instance [`OneSided`]; what
//! it lacks of these it says by [`lacks!`]. The module [`runtime`] has parts of which an implementation is
//! built. The contract holds no policy: which lane, which protocol and what to do about an
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
mod forward;
mod ids;
mod iface;
mod md;
mod one_sided;
pub mod runtime;
mod signal_sink;
mod sink;
mod slice;
mod wakeup;

/// Types of base that the contract speaks of.
#[doc(no_inline)]
pub use bowline_base::{buffer::RecvBuf, doorbell::Doorbell, view::View};

pub use addr::{AddrReader, AddrWriter, Truncated, fnv_32, fnv_64};
pub use atomic::{AtomicOp, AtomicWidth};
pub use auth::{MAC_BYTES, Secret};
pub use caps::{AtomicOps, Caps, IfaceAttr, Limits, OpLimits};
pub use error::{OpenError, PeerFailure, PostError, Unreachable};
pub use ids::{EpId, MemHandle, Posted, PreparedId, RemoteSlice, RkeyId, Source, Token};
pub use iface::Iface;
pub use md::{MdAttr, MemError, MemoryDomain, WHOLE_PROCESS};
pub use one_sided::OneSided;
pub use signal_sink::{SignalSafe, SignalSink};
pub use sink::{AmId, Arrival, Discard, Sink, Verdict};
pub use slice::LocalSlice;
/// What [`Wakeup::event_fd`] lends.
pub use std::os::fd::BorrowedFd;
pub use wakeup::{Armed, Wakeup};

/// The fixed header that every active message carries in front of its payload: three words
/// whose meaning is the business of the layer above.
pub type AmHeader = [u64; 3];

/// Bytes of [`AmHeader`] on the wire.
pub const AM_HEADER_BYTES: usize = 24;
