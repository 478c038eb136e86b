//! An operation on its way.
//!
//! ```text
//!   posted ─(Depart: a lent payload is copied)─► in the air ─(Arrive)─► arrived
//!      ─(nothing in front that it has to wait for: applied)─► gone
//!                                                         └─► done ─(Complete)─► gone
//! ```
//! It is `done` when it has happened at its target but its initiator does not know yet.

use bowline_base::slab::Key;
use bowline_uct::{AmHeader, AmId, AtomicOp, AtomicWidth, PeerFailure, Token};

use crate::payload::{Bytes, Lent, Payload};

/// A place in the target's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    /// The memory; `None` for all of it.
    pub(crate) handle: Option<Key>,
    pub(crate) address: u64,
}

/// What an operation does.
#[derive(Debug)]
pub(crate) enum Kind {
    Am {
        id: AmId,
        header: AmHeader,
        payload: Payload,
    },
    Put {
        at: Remote,
        payload: Payload,
    },
    Get {
        at: Remote,
        len: usize,
        into: Lent,
        data: Option<Bytes>,
    },
    Atomic {
        at: Remote,
        op: AtomicOp,
        width: AtomicWidth,
    },
    /// Part of a flush; the group knows whose.
    Flush {
        group: Key,
    },
    /// The sender's end.
    Close,
}

/// What the order of operations depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Am = 1,
    Put,
    Get,
    Atomic,
    /// Waits for everything in front of it.
    Barrier,
}

impl Kind {
    pub(crate) const fn class(&self) -> Class {
        match self {
            Self::Am { .. } => Class::Am,
            Self::Put { .. } => Class::Put,
            Self::Get { .. } => Class::Get,
            Self::Atomic { .. } => Class::Atomic,
            Self::Flush { .. } | Self::Close => Class::Barrier,
        }
    }

    /// Whether it points into a buffer of its initiator.
    pub(crate) const fn borrows(&self) -> bool {
        match self {
            Self::Am { payload, .. } | Self::Put { payload, .. } => {
                matches!(payload, Payload::Lent(_))
            }
            Self::Get { .. } => true,
            Self::Atomic { .. } | Self::Flush { .. } | Self::Close => false,
        }
    }

    /// Whether it counts among the one-sided operations under way.
    pub(crate) const fn one_sided(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Get { .. } | Self::Atomic { .. })
    }
}

/// An operation on its way.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Its number on its link.
    pub(crate) seq: u64,
    pub(crate) token: Token,
    /// When it leaves its sender.
    pub(crate) departs: u64,
    /// Not to arrive.
    pub(crate) lost: bool,
    /// A copy that the network made.
    pub(crate) copy: bool,
    /// What will be reported to its initiator.
    pub(crate) result: Result<u64, PeerFailure>,
    pub(crate) kind: Kind,
}
