//! Shared messages in turns. A sender that waits copies faster than turns do, and costs the
//! receiver's computation nothing: a turn copies only if the sender does not claim, which the first turn
//! looks for a moment.

use bowline_base::cursor::Cursor;
use bowline_base::slab::Key;
use bowline_base::sync::spin_loop;

use super::{Cursors, Share, Stage, can_share, cursor_at, receive_of};
use crate::lanes::Lane;
use crate::peer::PeerIndex;
use crate::worker::Inner;

/// In place of the pieces that the sender had claimed at the last turn, before the first.
pub(super) const NO_TURN: u32 = u32::MAX;

/// Looks for the sender's first claim at the first turn: some 5 us, less than another signal takes. One
/// that waits in a call claims within one or two.
const LISTEN: u32 = 300;

impl Share {
    /// At most how many of the message's `wanted` bytes are not claimed yet.
    pub(crate) fn left(&self, wanted: u64) -> u64 {
        wanted.saturating_sub(self.piece)
    }
}

impl Lane {
    /// Makes the cursors, where the lane can share messages.
    pub(crate) fn prepare_cursors(&mut self) {
        if can_share(self.iface.attr().caps) && self.cursors.is_none() {
            self.cursors = Cursors::new(&mut *self.iface);
        }
    }
}

impl Inner {
    /// A turn's part of the oldest shared message. Whether none is left.
    pub(crate) fn copy_in_turn(&mut self, copied: &mut bool) -> bool {
        let Some(&key) = self.engine.shares.front() else { return true };
        if *copied || !self.can_end_in_turn(key) || self.leaves_it_to_sender(key) {
            return false;
        }
        match self.next_piece(key) {
            Some(piece) => {
                *copied = true;
                self.read_piece(key, piece);
            }
            None => drop(self.engine.shares.pop_front()),
        }
        self.engine.shares.is_empty()
    }

    /// Whether there is nothing for the receiver to do at a shared message: it has failed, which is
    /// for an ordinary call, or its sender copies it.
    fn leaves_it_to_sender(&mut self, key: Key) -> bool {
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return false };
        let index = fetch.peer as usize;
        let Some(share) = fetch.share.as_mut() else { return false };
        if share.failed.is_some() {
            return true;
        }
        if share.stage != Stage::Claiming {
            return false;
        }
        let lane = &self.lanes[self.engine.peers[index].lane as usize];
        let Some(cursor) = cursor_at(lane, share.cursor) else { return true };
        let mut claimed = cursor.claimed();
        let before = if share.seen_back == NO_TURN {
            for _ in 0..LISTEN {
                if claimed.1 != 0 {
                    break;
                }
                spin_loop();
                claimed = cursor.claimed();
            }
            0
        } else {
            share.seen_back
        };
        let (front, back) = claimed;
        let all = u64::from(front) + u64::from(back) >= u64::from(share.pieces);
        share.seen_back = back;
        share.left_to_sender = !all && (before != back || !cursor.is_settled(back));
        share.left_to_sender
    }

    /// How many bytes of a shared message its sender has still to copy, if it does.
    pub(crate) fn left_to_sender(&self, peer: PeerIndex, share: &Share) -> Option<u64> {
        let lane = &self.lanes[self.engine.peers[peer as usize].lane as usize];
        let cursor = cursor_at(lane, share.cursor)?;
        let (front, back) = cursor.claimed();
        let left = u64::from(share.pieces).saturating_sub(u64::from(front) + u64::from(back));
        let goes_on = match share.stage {
            Stage::Claiming => share.left_to_sender,
            Stage::Waiting => true,
            Stage::Alone => false,
        };
        goes_on.then_some((left + 1) * share.piece)
    }

    /// A message of which the sender had claimed the last pieces is complete as soon as those are
    /// written. Whether it is.
    pub(crate) fn settle_in_turn(&mut self, key: Key) -> bool {
        let waits = |inner: &mut Self| {
            let (_, fetch) = receive_of(&mut inner.engine.requests, key)?;
            let index = fetch.peer as usize;
            let share = fetch.share.as_ref()?;
            let waits = share.stage == Stage::Waiting && share.failed.is_none();
            let lane = &inner.lanes[inner.engine.peers[index].lane as usize];
            let settled = |cursor: Cursor<'_>| cursor.is_settled(cursor.claimed().1);
            (waits && settled(cursor_at(lane, share.cursor)?)).then_some(())
        };
        if waits(self).is_none() || !self.can_end_in_turn(key) {
            return false;
        }
        if let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) {
            fetch.share = None;
        }
        self.fetched(key);
        true
    }
}
