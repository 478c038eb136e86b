//! Shared messages in turns. A sender that waits copies faster than turns do, and costs the
//! receiver's computation nothing: a turn copies only if the sender did not move since the last one.

use bowline_base::cursor::Cursor;
use bowline_base::slab::Key;

use super::{Cursors, Stage, cursor_at, receive_of};
use crate::lanes::Lane;
use crate::proto::can_share;
use crate::worker::Inner;

/// In place of the pieces that the sender had claimed at the last turn, before the first.
pub(super) const NO_TURN: u32 = u32::MAX;

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
        let (front, back) = cursor.claimed();
        let all = u64::from(front) + u64::from(back) >= u64::from(share.pieces);
        let moved = std::mem::replace(&mut share.seen_back, back) != back;
        !all && (moved || !cursor.is_settled(back))
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
