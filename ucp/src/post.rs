//! One message to a peer: its header and number, and the call of the transport that takes it.
//!
//! All that a worker sends by messages goes through here: tagged messages, active messages, streams,
//! and messages of its own. A number is used up only by a message that the transport has taken, so
//! that one that was refused is posted again with the same number.

use bowline_base::buffer::SendBuf;
use bowline_base::view::View;
use bowline_uct::{AmId, Iface, LocalSlice, PostError, Posted, Token};

use crate::error::OpError;
use crate::pack;
use crate::peer::Peer;
use crate::request::SendKind;
use crate::state::counters::Counters;
use crate::unexpected::INLINE;
use crate::wire::{self, MessageId};

/// How far a request came.
pub(crate) enum Post {
    /// Nothing is left to do.
    Complete,
    /// All that can be posted is; an answer is awaited.
    Awaiting,
    /// The lane is full.
    Blocked,
    /// Eager credit is used up; its return resumes what waits.
    Starved,
    Failed(OpError),
}

/// Longest payload in several parts that is put together for a call that takes one piece.
const JOINED: usize = 64;

/// Posts a message whose payload the transport copies in the call.
#[inline(always)]
pub(crate) fn short(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    id: MessageId,
    words: [u64; 2],
    payload: &[u8],
) -> Result<(), PostError> {
    lane.am_short(peer.ep, id.am(), &id.header(words, peer.tx_sequence), payload)?;
    peer.number();
    Ok(())
}

/// Posts a message of at most `max` bytes, which `pack` writes to the transport's memory. Returns how
/// many it wrote.
pub(crate) fn packed(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    id: impl Into<MessageId>,
    words: [u64; 2],
    max: usize,
    pack: &mut dyn FnMut(View<'_>) -> usize,
) -> Result<usize, PostError> {
    let id = id.into();
    let header = id.header(words, peer.tx_sequence);
    let bytes = lane.am_bcopy(peer.ep, id.am(), &header, max, pack)?;
    peer.number();
    Ok(bytes)
}

/// Posts a message from where it lies.
pub(crate) fn lent(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    id: AmId,
    words: [u64; 2],
    runs: &[LocalSlice],
    token: Token,
) -> Result<Posted, PostError> {
    let header = MessageId::own(id).header(words, peer.tx_sequence);
    let posted = lane.am_zcopy(peer.ep, id, &header, runs, token)?;
    peer.number();
    Ok(posted)
}

/// Posts a user's message whose payload the transport copies in the call, if its credit is there.
/// Whether it was posted; else nothing has happened. Without `long`, the payload is one that counts as
/// part of its envelope.
#[inline(always)]
pub(crate) fn eager(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    kind: SendKind,
    payload: &[u8],
    long: bool,
    counters: &mut Counters,
) -> bool {
    let (mut charge, is_stream) = (0, matches!(kind, SendKind::Stream));
    if is_stream || long && payload.len() > INLINE {
        charge = payload.len() as i64;
    }
    let affordable = match is_stream {
        // Of a stream every byte counts, and its last credit takes a whole message.
        true => peer.streams && peer.credit > 0 && charge > 0,
        false => charge == 0 || peer.credit >= charge,
    };
    let (id, _, words) = kind.eager(0);
    if !affordable || short(lane, peer, id.into(), words, payload).is_err() {
        return false;
    }
    peer.credit -= charge;
    *match kind {
        SendKind::Tagged(_) => &mut counters.sent_short,
        SendKind::Am { .. } => &mut counters.am_short,
        SendKind::Stream => &mut counters.stream_short,
    } += 1;
    true
}

/// Posts a message whose payload is all of `parts`, one after the other.
pub(crate) fn parts(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    id: impl Into<MessageId>,
    words: [u64; 2],
    parts: &[&[u8]],
) -> Result<(), PostError> {
    let id = id.into();
    let total = parts.iter().map(|part| part.len()).sum();
    if total > lane.attr().limits.am.max_short {
        let mut pack = |out: View<'_>| pack::gather(parts, out);
        return packed(lane, peer, id, words, total, &mut pack).map(drop);
    }
    if let Some(whole) = parts.iter().find(|part| part.len() == total) {
        return short(lane, peer, id, words, whole);
    }
    if total > JOINED {
        let mut pack = |out: View<'_>| pack::gather(parts, out);
        return packed(lane, peer, id, words, total, &mut pack).map(drop);
    }
    let (mut joined, mut at) = ([0; JOINED], 0);
    for part in parts {
        joined[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    short(lane, peer, id, words, &joined[..total])
}

/// Posts a message whose payload is `before` and then `buffer`.
pub(crate) fn message(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    id: AmId,
    words: [u64; 2],
    before: [&[u8]; 2],
    buffer: &mut SendBuf,
) -> Result<(), PostError> {
    let [first, second] = before;
    if let Some(bytes) = buffer.contiguous() {
        return parts(lane, peer, id, words, &[first, second, bytes]);
    }
    // Packed when the transport has taken the message, since callbacks are asked once: never into the
    // call's own slot, which may be refused.
    let total = first.len() + second.len() + buffer.len();
    let mut pack = |out: View<'_>| {
        let at = pack::gather(&before, out);
        at + buffer.pack(0, out.slice(at, out.len() - at).unwrap_or(View::empty()))
    };
    packed(lane, peer, id, words, total, &mut pack).map(drop)
}

impl SendKind {
    /// How a message goes eagerly: the id of a whole one, that of a first piece, the words of both.
    #[inline(always)]
    pub(crate) fn eager(&self, header: usize) -> (AmId, AmId, [u64; 2]) {
        match self {
            Self::Tagged(envelope) => {
                let [first, second, _] = wire::tagged(envelope, 0);
                (wire::EAGER, wire::EAGER_FIRST, [first, second])
            }
            Self::Am { id } => (wire::AM, wire::AM_FIRST, [u64::from(*id), header as u64]),
            Self::Stream => (wire::STREAM, wire::STREAM, [0, 0]),
        }
    }
}
