//! From buffers to what a transport takes: messages packed into its memory, and what an envelope says of
//! a message that does not lie in one piece. What pieces and callbacks are is in
//! [`bowline_base::buffer`].

use bowline_base::buffer::{RecvBuf, SendBuf, Shape};
use bowline_base::view::View;
use bowline_uct::{AmHeader, AmId, Iface, PostError};

use crate::peer::{Peer, header};
use crate::wire::Rts;

/// Pieces that one operation of a transport is given.
pub(crate) const RUNS: usize = 16;

/// Average bytes of a piece from which on a transport is asked to go from piece to piece: below, what
/// it does for each costs more than to pack them.
const COARSE: usize = 1024;

/// Copies `parts`, one after the other, to `out`.
fn gather(parts: &[&[u8]], out: View<'_>) -> usize {
    let mut at = 0;
    for part in parts {
        let room = out.slice(at, out.len() - at).unwrap_or(View::empty());
        at += room.copy_in(part);
    }
    at
}

/// Copies at most `max` bytes of a message, `front` and then `buffer`, from `skip` on to `out`.
pub(crate) fn message(
    front: &[u8],
    buffer: &mut SendBuf,
    skip: usize,
    max: usize,
    out: View<'_>,
) -> usize {
    let room = out.slice(0, out.len().min(max)).unwrap_or(View::empty());
    let lead = front.get(skip..).unwrap_or(&[]);
    let at = room.copy_in(lead);
    if at < lead.len() {
        return at;
    }
    let rest = room.slice(at, room.len() - at).unwrap_or(View::empty());
    at + buffer.pack(skip.saturating_sub(front.len()), rest)
}

/// Posts one message with `parts` as its payload. The sequence number is used only on success.
pub(crate) fn post_am(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    id: AmId,
    words: [u64; 2],
    parts: &[&[u8]],
) -> Result<(), PostError> {
    let total: usize = parts.iter().map(|part| part.len()).sum();
    let header: AmHeader = header(words, peer.tx_sequence);
    let mut joined = [0; 64];
    if total <= lane.attr().limits.am.max_short.min(joined.len()) {
        let mut at = 0;
        for part in parts {
            joined[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        lane.am_short(peer.ep, id, &header, &joined[..total])?;
    } else {
        let mut pack = |out: View<'_>| gather(parts, out);
        lane.am_bcopy(peer.ep, id, &header, total, &mut pack)?;
    }
    peer.number();
    Ok(())
}

/// Posts one message whose payload is `lead` and then `buffer`.
pub(crate) fn post_message(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    id: AmId,
    words: [u64; 2],
    lead: &[&[u8]],
    buffer: &mut SendBuf,
) -> Result<(), PostError> {
    if let Some(bytes) = buffer.contiguous() {
        return match lead {
            [first] => post_am(lane, peer, id, words, &[first, bytes]),
            [first, second] => post_am(lane, peer, id, words, &[first, second, bytes]),
            _ => post_am(lane, peer, id, words, &[&lead.concat(), bytes]),
        };
    }
    // Packed when the transport has taken the message, since callbacks are asked once: never into the
    // call's own slot, which may be refused.
    let total = lead.iter().map(|part| part.len()).sum::<usize>() + buffer.len();
    let header: AmHeader = header(words, peer.tx_sequence);
    let mut pack = |out: View<'_>| {
        let at = gather(lead, out);
        at + buffer.pack(0, out.slice(at, out.len() - at).unwrap_or(View::empty()))
    };
    lane.am_bcopy(peer.ep, id, &header, total, &mut pack)?;
    peer.number();
    Ok(())
}

/// Whether a transport is to go from piece to piece.
fn is_coarse(shape: Shape, len: usize) -> bool {
    match shape {
        Shape::Whole => true,
        Shape::Pieces(count) => len / count.max(1) >= COARSE,
        Shape::Callbacks => false,
    }
}

/// What an envelope says of where a message lies: see [`Rts`].
pub(crate) fn address(buffer: &SendBuf) -> u64 {
    match buffer.shape() {
        Shape::Whole => buffer.address(),
        shape if is_coarse(shape, buffer.len()) => Rts::IN_PIECES,
        _ => Rts::PACKED,
    }
}

/// Whether a message can be written to its receiver.
pub(crate) fn is_written(buffer: &SendBuf) -> bool {
    is_coarse(buffer.shape(), buffer.len())
}

/// Whether a message can be given to a transport where it lies that takes so many pieces.
pub(crate) fn is_lent(buffer: &SendBuf, most: usize) -> bool {
    match buffer.shape() {
        Shape::Whole => most > 0,
        shape @ Shape::Pieces(count) => count <= most.min(RUNS) && is_coarse(shape, buffer.len()),
        Shape::Callbacks => false,
    }
}

/// Whether a message can be read into a buffer.
pub(crate) fn is_read_into(buffer: &RecvBuf) -> bool {
    is_coarse(buffer.shape(), buffer.len())
}
