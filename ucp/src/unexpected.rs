//! Messages that came before their receive.
//!
//! Up to [`INLINE`] bytes of payload live in the envelope's own entry: such messages are never
//! refused, like envelopes. Longer payload is what the sender's credit bounds.

use bowline_base::view::View;

use crate::peer::PeerIndex;
use crate::protocol::Protocol;
use crate::select::Marks;
use crate::wire::Rts;

/// Payload that counts as part of the envelope.
pub(crate) const INLINE: usize = 32;

/// Where the payload of a waiting message is.
#[derive(Debug)]
pub(crate) enum Payload {
    /// In the entry; the length is the message's.
    Inline([u8; INLINE]),
    /// Whole, in memory of its own.
    Whole(Vec<u8>),
    /// The same of one that has come in pieces, with what its sender says of it and what they took
    /// (see [`crate::proto::eager`]).
    Assembled { bytes: Vec<u8>, marks: Marks, spent: u64 },
    /// What has come of a message whose rest is still arriving by a protocol.
    Partial { bytes: Vec<u8>, protocol: &'static Protocol },
    /// With the sender.
    Remote(Box<Rts>),
}

impl Payload {
    /// That of a whole message, copied.
    #[inline]
    pub(crate) fn of(bytes: View<'_>) -> Self {
        if bytes.len() <= INLINE {
            let mut inline = [0; INLINE];
            bytes.copy_out(&mut inline);
            Self::Inline(inline)
        } else {
            Self::Whole(bytes.to_vec())
        }
    }
}

/// A waiting message.
#[derive(Debug)]
pub(crate) struct Unexpected {
    pub(crate) space: u32,
    pub(crate) source: u32,
    pub(crate) tag: u64,
    pub(crate) length: u64,
    pub(crate) peer: PeerIndex,
    /// The sender's request that wants to know of the match; 0 for none.
    pub(crate) request: u64,
    pub(crate) payload: Payload,
}
