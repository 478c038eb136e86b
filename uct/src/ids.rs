//! By what the contract names things: endpoints, senders, operations, memory.

use bowline_base::slab::Key;

/// An endpoint of an interface: small, dense, used again after `disconnect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpId(pub u32);

/// A sender as the receiving interface numbers it: small, dense, stable while it is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source(pub u32);

/// Chosen by the caller of an operation and returned by its completion. [`Token::NONE`] asks for
/// no completion; if local slices are in flight then, their memory is free when the interface is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

impl Token {
    /// No completion wanted.
    pub const NONE: Self = Self(0);
}

/// How far a posted operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Posted {
    /// Complete in the call; there will be no completion event.
    Done,
    /// Under way; `Sink::completed` will report its token.
    InFlight,
}

/// A place in a peer's memory: the address as the peer knows it, and the key that opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteSlice {
    /// Address in the peer's address space.
    pub address: u64,
    /// Key unpacked on this interface.
    pub rkey: RkeyId,
}

/// A piece of local memory that peers may reach: allocated or registered here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemHandle(pub Key);

/// Memory that was prepared for gets of signal handlers; see [`SignalSafe::prepare`](crate::SignalSafe::prepare).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PreparedId(pub Key);

/// An unpacked key of a peer's memory, valid on the interface that unpacked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RkeyId(pub Key);
