//! Memory domains: memory that peers may reach, and the keys that open it.

use bowline_base::buffer::RecvBuf;
use bowline_base::view::View;
use thiserror::Error;

use crate::error::PeerFailure;
use crate::ids::{EpId, MemHandle, RkeyId};
use crate::slice::LocalSlice;

/// The packed key of all memory of the peer's process, the same for every peer, as far as the system opens
/// that memory to this one; of a peer that is a thread, it opens what the peer has registered, exposed or
/// lent at the time. A transport without it refuses it as it refuses any bytes that are no key of its own,
/// and no transport packs it for memory that it allocates or registers. To unpack it is cheap; one unpacked
/// key serves an endpoint for as long as it is connected.
pub const WHOLE_PROCESS: [u8; 1] = [1];

/// What a memory domain can do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MdAttr {
    /// Memory can be allocated here, which peers then reach fastest.
    pub can_alloc: bool,
    /// Memory of the user can be registered.
    pub can_register: bool,
    /// Largest packed rkey, in bytes.
    pub rkey_bytes: usize,
    /// Cost of registration, in nanoseconds, as a constant and per byte.
    pub register_cost_ns: (f32, f32),
}

/// Why memory could not be made reachable or a key not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MemError {
    /// The domain lacks the ability.
    #[error("this transport cannot {0}")]
    Unsupported(&'static str),
    /// The system refused or memory ran out.
    #[error("cannot {act}: {source}")]
    System {
        /// What was tried.
        act: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// No such handle, endpoint or key.
    #[error("no such memory handle, endpoint or key")]
    NoSuch,
    /// The packed key is damaged or belongs to another transport.
    #[error("the packed key is damaged or belongs to another transport")]
    BadKey,
    /// The owner of the memory has failed.
    #[error("the owner of the memory has failed: {0}")]
    Peer(#[from] PeerFailure),
}

/// Allocation, registration and keys. A transport without one-sided operations answers
/// [`MemError::Unsupported`].
pub trait MemoryDomain {
    /// What the domain can do.
    fn md_attr(&self) -> MdAttr;

    /// Allocates `len` bytes, zeroed, that peers can reach.
    ///
    /// # Errors
    /// When memory runs out (checked before, never by a signal later) or the domain cannot.
    fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError>;

    /// Makes memory of the user reachable. The domain keeps the handle until `mem_release`.
    ///
    /// # Errors
    /// When the system refuses or the domain cannot.
    fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError>;

    /// Lends `bytes` to the gets of peers until `mem_release`; nobody can write them through the
    /// handle. The caller keeps them readable and unwritten until then, as it keeps the pieces of
    /// a zcopy operation. Where the same bytes are exposed several times, the keys of all may open them
    /// until the last of these handles is released.
    ///
    /// # Errors
    /// When the system refuses or the domain cannot ([`Caps::EXPOSE`](crate::Caps::EXPOSE)).
    fn mem_expose(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError>;

    /// Lends `bytes` to the puts and gets of peers until `mem_release`. The caller keeps them
    /// writable until then, and neither reads nor writes them while a peer may put.
    ///
    /// # Errors
    /// When the system refuses or the domain cannot ([`Caps::LEND`](crate::Caps::LEND)).
    fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError>;

    /// The bytes of a handle; `None` for those of `mem_expose`, which nobody may write. They may change under the
    /// reader.
    fn mem_view(&self, handle: MemHandle) -> Option<View<'_>>;

    /// Ends reachability; returns registered memory to its owner. Peers' later operations fail
    /// with an error of theirs or reach memory that nobody uses, never somebody else's.
    fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError>;

    /// The key that opens `handle` to a peer, as bytes that may travel anywhere.
    fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError>;

    /// Opens a key that came from the peer of `ep`.
    fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError>;

    /// A direct view of `len` bytes at `remote`, where the transport can map them.
    fn rkey_ptr(&self, rkey: RkeyId, remote: u64, len: usize) -> Option<View<'_>>;

    /// Whether puts by this key end with their last word: a thread that finds the last 8 aligned bytes of
    /// a put of at least 16 changed, by a load with Acquire, finds all of its bytes.
    fn puts_end_last(&self, rkey: RkeyId) -> bool;

    /// Closes a key.
    fn rkey_release(&mut self, rkey: RkeyId);

    /// The packed key of the allocation that holds `start .. start + len`, if it was allocated
    /// here: such memory is read by peers without a system call. Does not allocate.
    fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize>;
}
