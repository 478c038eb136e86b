//! A message that goes without being asked for: whole, in pieces, or from where it lies.

use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{Iface, LocalSlice, PostError, Posted};

use crate::loan;
use crate::pack::{self, RUNS};
use crate::peer::Peer;
use crate::post;
use crate::request::{Send, SendPhase, token};
use crate::state::counters::Counters;
use crate::unexpected::INLINE;
use crate::wire::{self, FirstPiece};

/// An eager send that is being posted.
pub(super) struct Eager<'a> {
    pub(super) lane: &'a mut dyn Iface,
    pub(super) peer: &'a mut Peer,
    pub(super) send: &'a mut Send,
    pub(super) key: Key,
}

impl Eager<'_> {
    /// Posts the message, or the rest of it. `true` when nothing is awaited any more.
    pub(super) fn post(
        &mut self,
        mut offset: u64,
        mut message: u64,
        counters: &mut Counters,
    ) -> Result<bool, PostError> {
        let length = self.send.header.len() + self.send.buffer.len();
        if message == 0 && self.send.lent {
            match self.lend(length) {
                Ok(posted) => {
                    counters.sent_zcopy += 1;
                    return Ok(posted == Posted::Done);
                }
                // What the transport says that it takes and does not is copied.
                Err(PostError::Unsupported | PostError::TooLong | PostError::BadArgument) => {
                    self.send.lent = false;
                }
                Err(error) => return Err(error),
            }
        }
        if message == 0 {
            (offset, message) = self.begin(length, counters)?;
            if length > INLINE {
                self.peer.credit -= length as i64;
            }
            self.send.phase = SendPhase::Queued { offset, message };
        }
        let max = self.lane.attr().limits.am.max_bcopy;
        while (offset as usize) < length {
            let Send { header, buffer, .. } = &mut *self.send;
            let left = (length - offset as usize).min(max);
            let mut pack =
                |out: View<'_>| pack::message(header, buffer, offset as usize, left, out);
            let words = [message, offset];
            let n = post::packed(self.lane, self.peer, wire::PIECE, words, left, &mut pack)?;
            offset += n as u64;
            self.send.phase = SendPhase::Queued { offset, message };
        }
        if self.send.synchronous {
            self.send.phase = SendPhase::Offered;
        }
        Ok(!self.send.synchronous)
    }

    /// Posts the message from where it lies.
    fn lend(&mut self, length: usize) -> Result<Posted, PostError> {
        let Self { lane, peer, send, key } = self;
        let (id, _, words) = send.kind.eager(0);
        let mut runs = [LocalSlice::EMPTY; RUNS];
        let (count, bytes) = loan::runs_of_send(&send.buffer, 0, length, &mut runs);
        if bytes != length {
            return Err(PostError::BadArgument);
        }
        let posted = post::lent(*lane, peer, id, words, &runs[..count], token(*key))?;
        if length > INLINE {
            peer.credit -= length as i64;
        }
        send.phase = SendPhase::Lent;
        Ok(posted)
    }

    /// Posts the message whole, or its first piece. Returns how much went, and its number.
    fn begin(&mut self, length: usize, counters: &mut Counters) -> Result<(u64, u64), PostError> {
        let Self { lane, peer, send, key } = self;
        let (single, first_of_many, words) = send.kind.eager(send.header.len());
        let max = lane.attr().limits.am.max_bcopy;
        let Send { header, buffer, synchronous, marks, .. } = &mut **send;
        let (synchronous, marks, whole) = (*synchronous, marks.unwrap_or_default(), length as u64);
        if synchronous && length + 8 <= max {
            let request = key.to_wire().to_le_bytes();
            post::message(*lane, peer, wire::EAGER_SYNC, words, [&request, header], buffer)?;
            return Ok((whole, u64::MAX));
        }
        if !synchronous && length <= max {
            post::message(*lane, peer, single, words, [header, &[]], buffer)?;
            counters.sent_bcopy += 1;
            return Ok((whole, u64::MAX));
        }
        let request = if synchronous { key.to_wire() } else { 0 };
        let message = peer.next_message;
        let first = first_of(FirstPiece::BYTES + length, max);
        let first_piece = FirstPiece { message, total: whole, marks, request }.pack();
        let mut packed = 0;
        let mut pack = |out: View<'_>| {
            let at = out.copy_in(&first_piece);
            let rest = out.slice(at, out.len() - at).unwrap_or(View::empty());
            packed = pack::message(header, buffer, 0, length, rest);
            at + packed
        };
        post::packed(*lane, peer, first_of_many, words, first, &mut pack)?;
        peer.next_message += 1;
        counters.sent_multi += 1;
        Ok((packed as u64, message))
    }
}

/// Bytes of the first of the pieces of at most `max` bytes in which `total` bytes go. It is shorter than the others where
/// that takes no further piece: its receiver, which can do nothing before it comes, begins earlier, and is not much ahead of
/// the second one. What the last piece has is more by as much; so of two pieces the second one stays short where it is that: between
/// processors that are far apart its copy out is waited for longer than the first one's copy in. It is not so short that
/// a transport sends it beside its header, and does not ask the receiver whether it has enough then ([`bowline_uct::Verdict::Enough`]).
const fn first_of(total: usize, max: usize) -> usize {
    if total < max + max / 2 {
        let second = total - max;
        return if second < max / SHORTEST_PART { total - max / SHORTEST_PART } else { max };
    }
    let unused = total.next_multiple_of(max) - total;
    let most = max / 5 * 2;
    max - if unused < most { unused } else { most }
}

/// The part of the longest piece that a second one has at least.
const SHORTEST_PART: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_first_piece_takes_no_further_one() {
        for max in [256, 2048, 8192, 20_480, 31 << 10] {
            for total in (max + 1..9 * max).step_by(37).chain((2..9).map(|n| n * max)) {
                let first = first_of(total, max);
                assert!((max * 3 / 5..=max).contains(&first), "{first} of {total} by {max}");
                let pieces = 1 + (total - first).div_ceil(max);
                assert_eq!(pieces, total.div_ceil(max), "{total} by {max}");
                assert!(total - first >= max / SHORTEST_PART, "{first} of {total} by {max}");
            }
        }
        let of_64k = FirstPiece::BYTES + (64 << 10);
        assert_eq!(first_of(of_64k, 20_480), 12_288);
        assert_eq!(first_of(20_480 + 4096, 20_480), 20_480);
    }
}
