//! Posting a message that goes without being asked for: whole, from where it lies, or in pieces.

use bowline_base::buffer::SendBuf;
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{Iface, LocalSlice, PostError, Posted};

use super::Transfers;
use crate::engine::life::Kept;
use crate::error::OpError;
use crate::loan;
use crate::pack::{self, RUNS};
use crate::peer::Peer;
use crate::post;
use crate::protocol::eager::MULTI;
use crate::protocol::{Protocol, SendStep, Sending};
use crate::request::{Send, SendPhase, token};
use crate::state::counters::Counters;
use crate::status::WaitsFor;
use crate::unexpected::INLINE;
use crate::wire::{self, FirstPiece};

/// A send of whose pieces some are posted.
#[derive(Debug)]
pub(super) struct PartlyPosted {
    /// The number of the message; 0 where it went whole.
    message: u64,
    /// Bytes posted.
    offset: u64,
    synchronous: bool,
    /// The receiver's, which has matched the first piece.
    answer: Option<Result<(), OpError>>,
}

impl Sending for PartlyPosted {
    fn protocol(&self) -> &'static Protocol {
        &MULTI
    }

    fn post(
        &mut self,
        lane: &mut dyn Iface,
        peer: &mut Peer,
        header: &[u8],
        buffer: &mut SendBuf,
    ) -> Result<SendStep, PostError> {
        let (length, max) = (header.len() + buffer.len(), lane.attr().limits.am.max_bcopy);
        while (self.offset as usize) < length {
            let (skip, words) = (self.offset as usize, [self.message, self.offset]);
            let left = (length - skip).min(max);
            let mut pack = |out: View<'_>| pack::message(header, buffer, skip, left, out);
            let n = post::packed(lane, peer, wire::PIECE, words, left, &mut pack)?;
            self.offset += n as u64;
        }
        match self.synchronous && self.answer.is_none() {
            true => Ok(SendStep::Offered),
            false => Ok(SendStep::Complete),
        }
    }

    fn touches_memory(&self) -> bool {
        false
    }

    fn answer(&mut self) -> Option<&mut Option<Result<(), OpError>>> {
        self.synchronous.then_some(&mut self.answer)
    }

    fn answer_is_enough(&self) -> bool {
        false
    }

    fn describe(&self) -> (u64, WaitsFor) {
        (self.offset, WaitsFor::Resource)
    }
}

/// A send that the transport has, and reads from where it lies.
#[derive(Debug)]
struct Lent;

impl Sending for Lent {
    fn protocol(&self) -> &'static Protocol {
        &MULTI
    }

    fn in_flight(&self) -> bool {
        true
    }

    fn touches_memory(&self) -> bool {
        false
    }

    fn describe(&self) -> (u64, WaitsFor) {
        (0, WaitsFor::Transport)
    }
}

/// An eager send of which nothing is posted.
pub(crate) struct EagerSend<'a> {
    pub(crate) lane: &'a mut dyn Iface,
    pub(crate) peer: &'a mut Peer,
    pub(crate) send: &'a mut Send,
    pub(crate) key: Key,
}

impl EagerSend<'_> {
    /// Posts the message. What the lane does not take goes on by a state from those that are `kept`.
    pub(crate) fn post(
        &mut self,
        kept: &mut Kept,
        counters: &mut Counters,
    ) -> Result<SendStep, PostError> {
        let length = self.send.header.len() + self.send.buffer.len();
        if self.send.lent {
            match self.lend(length) {
                Ok(step) => {
                    counters.sent_zcopy += 1;
                    return Ok(step);
                }
                // What the transport says that it takes and does not is copied.
                Err(PostError::Unsupported | PostError::TooLong | PostError::BadArgument) => {
                    self.send.lent = false;
                }
                Err(error) => return Err(error),
            }
        }
        let (offset, message) = self.begin(length, counters)?;
        let Self { lane, peer, send, .. } = self;
        if length > INLINE {
            peer.credit -= length as i64;
        }
        let mut state =
            PartlyPosted { message, offset, synchronous: send.synchronous, answer: None };
        let posted = state.post(*lane, peer, &send.header, &mut send.buffer);
        if posted.is_err() {
            let place = match kept.of_mut::<Transfers>().spare.pop() {
                Some(mut place) => {
                    *place = state;
                    place
                }
                None => Box::new(state),
            };
            send.phase = SendPhase::Moving(place);
        }
        posted
    }

    /// Posts the message from where it lies.
    fn lend(&mut self, length: usize) -> Result<SendStep, PostError> {
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
        if posted == Posted::Done {
            return Ok(SendStep::Complete);
        }
        // Which takes no memory.
        send.phase = SendPhase::Moving(Box::new(Lent));
        Ok(SendStep::Moving)
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
            return Ok((whole, 0));
        }
        if !synchronous && length <= max {
            post::message(*lane, peer, single, words, [header, &[]], buffer)?;
            counters.sent_bcopy += 1;
            return Ok((whole, 0));
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
