//! From buffers to what a transport takes: messages packed into its memory, and what an envelope says of
//! a message that does not lie in one piece. What pieces and callbacks are is in
//! [`bowline_base::buffer`].

use bowline_base::buffer::{MemoryLayout, RecvBuf, SendBuf};
use bowline_base::view::View;

use crate::wire::Rts;

/// Pieces that one operation of a transport is given.
pub(crate) const RUNS: usize = 16;

/// Average bytes of a piece from which on a transport is asked to go from piece to piece: below, what
/// it does for each costs more than to pack them.
const COARSE: usize = 1024;

/// Copies `parts`, one after the other, to `out`.
pub(crate) fn gather(parts: &[&[u8]], out: View<'_>) -> usize {
    let mut at = 0;
    for part in parts {
        let rest = out.slice(at, out.len() - at).unwrap_or(View::empty());
        at += rest.copy_in(part);
    }
    at
}

/// Copies at most `max` bytes of a message, `header` and then `buffer`, from `skip` on to `out`.
pub(crate) fn message(
    header: &[u8],
    buffer: &mut SendBuf,
    skip: usize,
    max: usize,
    out: View<'_>,
) -> usize {
    let out = out.slice(0, out.len().min(max)).unwrap_or(View::empty());
    let left = header.get(skip..).unwrap_or(&[]);
    let at = out.copy_in(left);
    if at < left.len() {
        return at;
    }
    let rest = out.slice(at, out.len() - at).unwrap_or(View::empty());
    at + buffer.pack(skip.saturating_sub(header.len()), rest)
}

/// Whether a transport is to go from piece to piece.
fn is_coarse(shape: MemoryLayout, len: usize) -> bool {
    match shape {
        MemoryLayout::Whole => true,
        MemoryLayout::Pieces(count) => len / count.max(1) >= COARSE,
        MemoryLayout::Callbacks => false,
    }
}

/// What an envelope says of where a message lies: see [`Rts`].
pub(crate) fn address(buffer: &SendBuf) -> u64 {
    match buffer.shape() {
        MemoryLayout::Whole => buffer.address(),
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
        MemoryLayout::Whole => most > 0,
        shape @ MemoryLayout::Pieces(count) => {
            count <= most.min(RUNS) && is_coarse(shape, buffer.len())
        }
        MemoryLayout::Callbacks => false,
    }
}

pub(crate) fn is_read_into(buffer: &RecvBuf) -> bool {
    is_coarse(buffer.shape(), buffer.len())
}
