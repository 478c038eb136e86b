//! What becomes of a receive that is lent: what meets it, what its sender answers, and how it ends otherwise.

use bowline_base::slab::Key;
use bowline_uct::PeerFailure;

use super::ANY;
use super::receiver::is_lent;
use crate::action::Action;
use crate::engine::Engine;
use crate::error::OpError;
use crate::matching::{Envelope, ItemId};
use crate::peer::PeerIndex;
use crate::proto::announced::{
    Announced, AnnouncedStage, announced_mut, announced_shut_by, end_announced,
};
use crate::request::Receive;
use crate::status::OpStatus;
use crate::unexpected::{Payload, Unexpected};
use crate::wire;

impl Engine {
    /// A message has met a receive. Whether that is lent: the message is to be kept for it (rule 3).
    #[cold]
    pub(super) fn is_lent(&self, key: Key) -> bool {
        self.requests.get(key).is_some_and(is_lent)
    }

    /// A message is kept for the lent receive that it has met.
    pub(super) fn note_kept(&mut self, key: Key, message: Key) {
        if let Some(announced) = announced_mut(&mut self.requests, key) {
            announced.stage = AnnouncedStage::Met(message);
        }
    }

    /// The user wants a lent receive back (rule 4).
    pub(super) fn cancel_lent(&mut self, key: Key) {
        let Some(announced) = announced_mut(&mut self.requests, key) else { return };
        if announced.stage == AnnouncedStage::Posted {
            announced.stage = AnnouncedStage::Withdrawing;
        }
    }

    /// A lent receive is to end (rule 4). It is in no matching engine any more.
    pub(super) fn finish_lent(&mut self, key: Key, status: OpStatus) {
        let Some(announced) = announced_mut(&mut self.requests, key) else { return };
        let before = std::mem::replace(&mut announced.stage, AnnouncedStage::Ended(status));
        let (peer, open) = (announced.peer, announced.open_buffer);
        if let AnnouncedStage::Met(message) = before {
            self.drop_message(message, wire::refusal(None));
        }
        let how = self.peers[peer as usize].failure();
        if how.is_some_and(|how| open.is_shut_by(how)) {
            self.end_loan(key);
        }
    }

    /// A peer has failed: its flags mean nothing, and nothing it was lent will be written.
    pub(super) fn end_loans_to(&mut self, index: PeerIndex, how: PeerFailure) {
        for entry in &mut self.any_table().entries {
            entry.drop_peer(index);
        }
        for key in announced_shut_by(&self.requests, (index, how), &ANY) {
            self.end_loan(key);
        }
    }

    /// A sender has written nothing to a receive that it was lent.
    pub(super) fn lent_unused(&mut self, peer: PeerIndex, key: Key) -> Option<()> {
        self.lent_to(peer, key)?;
        self.counters.any_missed += 1;
        self.end_loan(key);
        Some(())
    }

    /// The receive, if it is lent to this peer.
    fn lent_to(&mut self, peer: PeerIndex, key: Key) -> Option<&mut Announced> {
        announced_mut(&mut self.requests, key).filter(|one| one.is_with(peer, &ANY))
    }

    /// A sender has written a message to a receive that it was lent (rule 1).
    pub(super) fn lent_written(
        &mut self,
        peer: PeerIndex,
        envelope: &Envelope,
        key: Key,
        length: u64,
    ) -> Option<()> {
        let lent = self.lent_to(peer, key)?;
        if length > lent.receive.buffer.len() as u64 {
            return None;
        }
        let Envelope { space, source, tag } = *envelope;
        let met = self.spaces.arrive(space, source, tag).map(Key::from_wire);
        if met == Some(key) {
            self.shut(key)?;
            let met = self.note_match(key);
            debug_assert!(met.is_ok(), "a receive belongs to one protocol at a time");
            let request = self.requests.get_mut(key)?;
            request.status = OpStatus { source, tag, length, outcome: Ok(()) };
            (self.counters.matched, self.counters.landed) =
                (self.counters.matched + 1, self.counters.landed + 1);
            self.taken(peer, length as usize);
            self.complete_receive(key);
            self.actions.push(Action::Poll(&ANY));
            return Some(());
        }
        self.counters.any_copied += 1;
        let view = self.lent_to(peer, key)?.receive.buffer.view();
        let payload = Payload::of(view.slice(0, length as usize)?);
        match met {
            None => _ = self.enqueue_unexpected(peer, envelope, (length, 0), payload, None),
            Some(other) => {
                let message = Unexpected { space, source, tag, length, peer, request: 0, payload };
                let message = self.add_entry(message);
                self.match_kept(other, message);
            }
        }
        self.end_loan(key);
        Some(())
    }

    /// Makes a lent receive an ordinary one, whose buffer nobody writes.
    fn shut(&mut self, key: Key) -> Option<&mut Receive> {
        let (receive, open_buffer) = end_announced(&mut self.requests, key)?;
        if let Some((lane, memory)) = open_buffer.lent() {
            self.actions.push(Action::Withdraw { lane, memory });
        }
        Some(receive)
    }

    /// Nothing is written to a lent receive any more: what had to wait for that follows.
    fn end_loan(&mut self, key: Key) {
        let Some(announced) = announced_mut(&mut self.requests, key) else { return };
        let stage = announced.stage;
        let Some(receive) = self.shut(key) else { return };
        let (space, item) = (receive.space, receive.item);
        match stage {
            AnnouncedStage::Posted => {}
            AnnouncedStage::Met(message) => {
                receive.item = ItemId::NONE;
                self.hand_over(key, message);
            }
            AnnouncedStage::Withdrawing => {
                self.spaces.withdraw(space, item, key.to_wire());
                self.fail(key, OpError::Cancelled);
            }
            AnnouncedStage::Ended(status) => self.finish(key, status),
        }
        self.actions.push(Action::Poll(&ANY));
    }
}
