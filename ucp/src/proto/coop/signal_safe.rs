//! Shared messages in signal-safe progress. A sender that waits in a call copies faster than signals come, and costs the
//! receiver's computation nothing: a piece is copied here only if the sender does not claim, which the first round looks
//! for a moment.

use bowline_base::slab::Key;
use bowline_base::sync::spin_loop;
use bowline_uct::Caps;

use super::{Cursors, Receiver, Share, Stage, can_share, cursor_at, receive_of};
use crate::async_progress::ROOM;
use crate::lanes::Lane;
use crate::worker::Inner;

/// In place of the pieces that the sender had claimed at the last round, before the first.
pub(super) const NEVER: u32 = u32::MAX;

/// Looks for the sender's first claim at the first round: some 5 us, less than another signal takes. One
/// that waits in a call claims within one or two.
const LISTEN: u32 = 300;

impl Lane {
    /// Makes the cursors, where the lane can share messages.
    pub(crate) fn prepare_cursors(&mut self) {
        if can_share(self.iface.attr().caps) && self.cursors.is_none() {
            self.cursors = Cursors::new(&mut *self.iface);
        }
    }
}

impl Share {
    /// How many bytes of the message its sender has still to copy, if it does.
    pub(super) fn left_to_sender(&self, lane: &Lane) -> Option<u64> {
        let (front, back) = cursor_at(lane, self.cursor)?.claimed();
        let left = u64::from(self.pieces).saturating_sub(u64::from(front) + u64::from(back));
        let goes_on = match self.stage {
            Stage::Claiming => self.left_to_sender,
            Stage::Waiting => true,
            Stage::Alone => false,
        };
        goes_on.then_some((left + 1) * self.piece)
    }

    /// Whether there is nothing for the receiver to do: the message has failed, which is for an ordinary call, or its
    /// sender copies it.
    fn leaves_it_to_sender(&mut self, lane: &Lane) -> bool {
        if self.failed.is_some() {
            return true;
        }
        if self.stage != Stage::Claiming {
            return false;
        }
        let Some(cursor) = cursor_at(lane, self.cursor) else { return true };
        let mut claimed = cursor.claimed();
        let before = if self.seen_back == NEVER {
            for _ in 0..LISTEN {
                if claimed.1 != 0 {
                    break;
                }
                spin_loop();
                claimed = cursor.claimed();
            }
            0
        } else {
            self.seen_back
        };
        let (front, back) = claimed;
        let all = u64::from(front) + u64::from(back) >= u64::from(self.pieces);
        self.seen_back = back;
        self.left_to_sender = !all && (before != back || !cursor.is_settled(back));
        self.left_to_sender
    }
}

impl Inner {
    /// Begins to share a message, if it is long enough, and there is room for what that takes.
    pub(super) fn share_signal_safe(&mut self, key: Key) -> bool {
        let engine = &mut self.engine;
        let Some((_, fetch)) = receive_of(&mut engine.requests, key) else { return false };
        let peer = &engine.peers[fetch.peer as usize];
        let lane = &self.lanes[peer.lane as usize];
        let long = lane.choices.fetch.first(&super::COOP).is_some_and(|from| fetch.wanted >= from);
        let knows = peer.address.features & super::COOPERATES != 0;
        // To lend the buffer takes memory.
        let lends = lane.iface.attr().caps.contains(Caps::LENT_ONLY);
        let shares = &engine.protocols.kept.coop.shares;
        long && knows
            && !lends
            && lane.cursors.is_some()
            && engine.async_state.has_payloads()
            && shares.capacity() > shares.len()
            && engine.actions.has_room(ROOM / 4)
            && self.share(key)
    }

    /// One piece of the oldest shared message, if it is for this side to copy.
    pub(super) fn copy_signal_safe(&mut self, copied: &mut bool) {
        let Some(&key) = self.engine.protocols.kept.coop.shares.front() else { return };
        if *copied || !self.can_end_signal_safe(key) || self.leaves_it_to_sender(key) {
            return;
        }
        match self.next_piece(key) {
            Some(piece) => {
                *copied = true;
                self.read_piece(key, piece);
            }
            None => drop(self.engine.protocols.kept.coop.shares.pop_front()),
        }
    }

    fn leaves_it_to_sender(&mut self, key: Key) -> bool {
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return false };
        let lane = &self.lanes[self.engine.peers[fetch.peer as usize].lane as usize];
        match &mut fetch.receiver {
            Some(Receiver::Coop(share)) => share.leaves_it_to_sender(lane),
            _ => false,
        }
    }
}
