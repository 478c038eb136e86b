//! Shared messages in signal-safe progress. A sender that waits in a call copies faster than signals come, and costs the
//! receiver's computation nothing. If it does not claim, which the first round polls for a moment, it computes as well,
//! and both copy the message in half of the time when they wait. So pieces are copied here only if the sender has left.

use bowline_base::slab::Key;
use bowline_base::sync::spin_loop;
use bowline_uct::Iface;

use super::{Cursors, Queues, Share, Stage, can_share, cursor_at};
use crate::engine::Inner;
use crate::request::receive_of;
use crate::state::async_state::RESERVE;

/// In place of the pieces that the sender had claimed at the last round, before the first.
pub(super) const NEVER: u32 = u32::MAX;

/// Polls for the sender's first claim at the first round: some 5 us, less than another signal takes. One
/// that waits in a call claims within one or two.
const LISTEN: u32 = 300;

impl Inner {
    /// Makes the cursors of a lane, where it can share messages.
    pub(super) fn prepare_cursors(&mut self, lane: usize) {
        let iface = &mut *self.lanes[lane].iface;
        let all = &mut self.engine.protocols.kept.of_mut::<Queues>().cursors;
        if !can_share(iface.attr().caps) || all.get(lane).is_some_and(Option::is_some) {
            return;
        }
        if all.len() <= lane {
            all.resize_with(lane + 1, || None);
        }
        all[lane] = Cursors::new(iface);
    }
}

impl Share {
    /// How many bytes of the message its sender has still to copy, if it does.
    pub(super) fn left_to_sender(&self, lane: &dyn Iface) -> Option<u64> {
        let (front, back) = cursor_at(lane, self)?.claimed();
        let left = u64::from(self.pieces).saturating_sub(u64::from(front) + u64::from(back));
        let goes_on = match self.stage {
            Stage::Claiming => self.left_to_sender,
            Stage::Waiting => true,
            Stage::Alone => false,
        };
        goes_on.then_some((left + 1) * self.piece)
    }

    /// Who copies the message, as signal-safe progress sees it.
    fn copier(&mut self, lane: &dyn Iface) -> Copier {
        if self.failed.is_some() {
            return Copier::Sender;
        }
        if self.stage != Stage::Claiming {
            return Copier::Receiver;
        }
        let Some(cursor) = cursor_at(lane, self) else { return Copier::Sender };
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
        match (self.left_to_sender, all) {
            (true, _) => Copier::Sender,
            (false, true) => Copier::Receiver,
            (false, false) => Copier::Both,
        }
    }
}

/// Who copies a shared message while its receiver computes.
enum Copier {
    /// Its sender, who waits; or nobody, since it has failed, which is for an ordinary call.
    Sender,
    /// Both, when they wait: its sender computes as well. By the receiver alone it would take twice as long, of the
    /// receiver's time.
    Both,
    /// The receiver, what is left: its sender has written all that it can.
    Receiver,
}

impl Inner {
    /// Begins to share a message, if it is long enough, and there is space for what that takes.
    pub(super) fn share_signal_safe(&mut self, key: Key) -> bool {
        let engine = &mut self.engine;
        let Some((_, fetch)) = receive_of(&mut engine.requests, key) else { return false };
        let peer = &engine.peers[fetch.peer as usize];
        let lane = &self.lanes[peer.lane as usize];
        let long = super::is_long(lane, fetch.wanted);
        let knows = peer.address.features & super::COOPERATES != 0;
        let queues = engine.protocols.kept.of::<Queues>();
        let ready = queues.cursors.get(peer.lane as usize).is_some_and(Option::is_some);
        let shares = &queues.shares;
        long && knows
            && ready
            && peer.can_queue_control()
            && !queues.spare_shares.is_empty()
            && engine.async_state.has_payloads()
            && shares.capacity() > shares.len()
            && engine.actions.has_capacity(RESERVE / 4)
            && self.share(key)
    }

    /// One piece of the oldest shared message, if it is for this side to copy.
    pub(super) fn copy_signal_safe(&mut self, copied: &mut bool) {
        let Some(&key) = self.engine.coop().shares.front() else { return };
        if *copied || !self.can_end_signal_safe(key) {
            return;
        }
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return };
        let lane = &self.lanes[self.engine.peers[fetch.peer as usize].lane as usize];
        match fetch.state::<Share>().map_or(Copier::Receiver, |share| share.copier(&*lane.iface)) {
            Copier::Sender => {}
            Copier::Both => self.engine.async_state.left = true,
            Copier::Receiver => match self.next_piece(key) {
                Some(piece) => {
                    *copied = true;
                    self.read_piece(key, piece);
                }
                None => drop(self.engine.coop().shares.pop_front()),
            },
        }
    }
}
