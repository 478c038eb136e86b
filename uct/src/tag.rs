//! Messages that the transport matches by tag: for hardware, or a library below, that does so.
//!
//! A tagged message has a tag of 64 bits and a payload, nothing else; who sent it and in which
//! space is the caller's business, as bits of the tag. A receive names a tag and the bits of it
//! that do not matter. Messages of one endpoint that a receive would take match in the order of
//! sending, receives in the order of posting. What matches no receive waits in the transport,
//! which bounds it by no credit: a sender posts no more than the other side expects.
//!
//! [`TagOffload::tag_send`](crate::TagOffload::tag_send) completes when the payload may be used again,
//! [`TagOffload::tag_recv`](crate::TagOffload::tag_recv) with the length of the message;
//! [`TagOffload::tag_cancel`](crate::TagOffload::tag_cancel) ends a receive that has matched nothing with
//! [`WITHDRAWN`]. A space has to be as long as the longest message that its receive may take: what
//! becomes of a longer one differs (its receive ends with [`CUT`], or with what fits, or not at
//! all), so that lengths are agreed on before. A receive belongs to no endpoint: the death of a
//! peer does not end it, its poster withdraws it.

use crate::caps::OpLimits;
use crate::error::PostError;
use crate::ids::{EpId, Posted, Token};
use crate::slice::LocalSlice;

/// The result of a receive that was withdrawn. No message is so long.
pub const WITHDRAWN: u64 = u64::MAX;

/// The result of a receive whose message did not fit its buffer, where the transport notices.
pub const CUT: u64 = u64::MAX - 1;

/// Which messages a receive takes: those whose tag differs from `tag` in bits of `ignore` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TagMatch {
    /// The tag.
    pub tag: u64,
    /// Bits of it that do not matter.
    pub ignore: u64,
}

/// Messages that are matched by the transport; with [`Caps::TAG_OFFLOAD`](crate::Caps::TAG_OFFLOAD).
pub trait TagOffload {
    /// Sends a tagged message from where it lies; see [`TagMatch`](crate::TagMatch) and its module
    /// for matching and order.
    fn tag_send(
        &mut self,
        ep: EpId,
        tag: u64,
        payload: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError>;

    /// Receives a tagged message of any peer to where it belongs. Its completion has the length
    /// of the message, or [`CUT`](crate::CUT) or [`WITHDRAWN`](crate::WITHDRAWN).
    fn tag_recv(
        &mut self,
        which: TagMatch,
        space: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError>;

    /// Withdraws the receive posted with `token`. It completes either way.
    fn tag_cancel(&mut self, token: Token) -> Result<(), PostError>;

    /// Sizes of tagged messages; all zero without [`Caps::TAG_OFFLOAD`](crate::Caps::TAG_OFFLOAD).
    fn tag_limits(&self) -> OpLimits;
}
