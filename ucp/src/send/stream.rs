//! Sends of a stream that go in pieces, while there is credit. Without, they are parked: rule 4 of
//! [`crate::stream`].

use bowline_base::buffer::MemoryLayout;
use bowline_base::view::View;
use bowline_uct::{Iface, PostError};

use crate::pack;
use crate::peer::Peer;
use crate::post;
use crate::request::{Send, SendPhase};
use crate::wire;

/// How far a send of a stream came that goes in pieces.
pub(super) enum Pieces {
    All,
    /// Credit is used up.
    Starved,
}

/// Posts what is left of a send while credit lasts.
pub(super) fn pieces(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    send: &mut Send,
) -> Result<Pieces, PostError> {
    let max = lane.attr().limits.am.max_bcopy;
    let total = send.buffer.len();
    // What callbacks pack into a piece may be less than it takes.
    let marks =
        send.marks.filter(|_| send.buffer.shape() != MemoryLayout::Callbacks && total > max);
    while let SendPhase::Queued { offset } = send.phase
        && (offset as usize) < total
    {
        if peer.credit <= 0 {
            return Ok(Pieces::Starved);
        }
        let left = (total - offset as usize).min(max);
        let buffer = &mut send.buffer;
        let mut pack = |out: View<'_>| pack::message(&[], buffer, offset as usize, left, out);
        let (id, words) = match marks {
            // Who measures has to know where it begins and ends.
            Some(marks) if offset == 0 => (wire::STREAM_END, [marks.mark(total as u64), 0]),
            Some(_) if left == total - offset as usize => (wire::STREAM_END, [0, 1]),
            _ => (wire::STREAM, [0, 0]),
        };
        let n = post::packed(lane, peer, id, words, left, &mut pack)?;
        peer.credit -= n as i64;
        send.phase = SendPhase::Queued { offset: offset + n as u64 };
    }
    Ok(Pieces::All)
}
