//! What an interface can do, and up to what size.

use bitflags::bitflags;

bitflags! {
    /// Operations and properties of an interface. A missing bit means that the operation answers
    /// [`PostError::Unsupported`](crate::PostError::Unsupported).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Caps: u64 {
        /// `am_short`.
        const AM_SHORT = 1 << 0;
        /// `am_bcopy`.
        const AM_BCOPY = 1 << 1;
        /// `am_zcopy`.
        const AM_ZCOPY = 1 << 2;
        /// `put_short`.
        const PUT_SHORT = 1 << 3;
        /// `put_bcopy`.
        const PUT_BCOPY = 1 << 4;
        /// `put_zcopy`.
        const PUT_ZCOPY = 1 << 5;
        /// `get_bcopy`.
        const GET_BCOPY = 1 << 6;
        /// `get_zcopy`.
        const GET_ZCOPY = 1 << 7;
        /// Atomics are coherent with the target processor's own atomics.
        const ATOMIC_CPU = 1 << 8;
        /// Atomics are coherent only with atomics that pass through the same device.
        const ATOMIC_DEVICE = 1 << 9;
        /// Active messages of one endpoint arrive in the order in which they were posted.
        const AM_ORDERED = 1 << 10;
        /// A put is visible at the target before a later atomic of the same endpoint.
        const PUT_BEFORE_ATOMIC = 1 << 11;
        /// A put is visible at the target before a later active message of the same endpoint is delivered there, without
        /// a flush between them.
        const PUT_BEFORE_AM = 1 << 13;
        /// A put can carry a notification (`put_notify`).
        const PUT_NOTIFY = 1 << 12;
        /// The death of a peer is noticed without the peer's progress.
        const PEER_FAILURE = 1 << 14;
        /// `check` asks for the peer's life now.
        const EP_CHECK = 1 << 15;
        /// `arm` and `doorbell` work.
        const WAKEUP = 1 << 16;
        /// `event_fd` works.
        const EVENT_FD = 1 << 17;
        /// Reaches other hosts.
        const INTER_NODE = 1 << 20;
        /// An rkey can be turned into a pointer (`rkey_ptr`).
        const RKEY_PTR = 1 << 22;
        /// One-sided operations on memory that was merely registered, not allocated here.
        const RMA_REGISTERED = 1 << 23;
        /// Memory of the user can be lent to the reads of peers (`mem_expose`).
        const EXPOSE = 1 << 25;
        /// What peers do to memory here by one-sided operations is done by this side's progress,
        /// and wakes it as their messages do.
        const RMA_WAKES = 1 << 26;
        /// Memory of the user can be lent to the writes of peers (`mem_lend`).
        const LEND = 1 << 27;
        /// Reaches only its own worker; needs no progress until it has an endpoint.
        const LOOPBACK = 1 << 24;
        /// Zcopy operations are carried out without the processor of the initiator. One-sided ones of a
        /// transport with neither this nor [`Caps::EXPOSE`] that has [`Caps::RKEY_PTR`] end in the call,
        /// if they are posted with [`Token::NONE`](crate::Token::NONE).
        const CARRIES = 1 << 31;
        /// No key of a peer, not even that of its whole memory, opens more than the peer has
        /// allocated, registered, exposed or lent at the time: peers are threads of one process, and
        /// no kernel checks an address. `mem_expose` and `mem_lend` work for that, whatever
        /// [`Caps::EXPOSE`] and [`Caps::LEND`] say.
        const LENT_ONLY = 1 << 28;
        /// `progress_signal_safe` works.
        const SIGNAL_SAFE = 1 << 30;
        /// In a signal handler gets are those of [`SignalSafe::get_prepared`](crate::SignalSafe::get_prepared).
        const GET_PREPARED = 1 << 33;
        /// A thread of the transport's rings the doorbell for what arrives: who waits for this transport
        /// alone sleeps on its event descriptor at less cost.
        const RUNG_BY_THREAD = 1 << 32;
    }
}

bitflags! {
    /// Atomic operations, by kind.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AtomicOps: u8 {
        /// Addition.
        const ADD = 1 << 0;
        /// Bitwise and.
        const AND = 1 << 1;
        /// Bitwise or.
        const OR = 1 << 2;
        /// Bitwise exclusive or.
        const XOR = 1 << 3;
        /// Replacement.
        const SWAP = 1 << 4;
        /// Compare and swap.
        const CSWAP = 1 << 5;
    }
}

/// Sizes, in bytes, of one class of operation. Zero where a flavour is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpLimits {
    /// Largest payload of the short flavour.
    pub max_short: usize,
    /// Largest payload of the bcopy flavour.
    pub max_bcopy: usize,
    /// Smallest payload of the zcopy flavour.
    pub min_zcopy: usize,
    /// Largest payload of the zcopy flavour.
    pub max_zcopy: usize,
    /// Most pieces of local memory in one zcopy operation.
    pub max_iov: usize,
    /// Alignment of remote addresses that is fastest; never required.
    pub opt_align: usize,
}

impl Caps {
    /// What an interface has that carries messages by itself, as every lane of a worker does.
    pub const MESSAGES: Self = Self::AM_SHORT.union(Self::AM_BCOPY).union(Self::AM_ORDERED);

    /// Puts of all flavours.
    pub const PUTS: Self = Self::PUT_SHORT.union(Self::PUT_BCOPY).union(Self::PUT_ZCOPY);
}

/// Limits by class of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Active messages; payload without the fixed header.
    pub am: OpLimits,
    /// Puts.
    pub put: OpLimits,
    /// Gets.
    pub get: OpLimits,
}

/// What an interface says of itself.
#[derive(Clone, Debug)]
pub struct IfaceAttr {
    /// The provider's name, for instance `shm`.
    pub provider: &'static str,
    /// The device within the provider, for instance `memory` or `eth0`.
    pub device: String,
    /// Operations and properties.
    pub caps: Caps,
    /// Sizes.
    pub limits: Limits,
    /// Atomics, each with the old value and without.
    pub atomics: AtomicOps,
    /// Most endpoints that the interface carries.
    pub max_endpoints: u32,
    /// Bytes of receive memory that the interface holds, whatever the number of peers.
    pub receive_bytes: usize,
}
