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
use crate::proto::rtr::RTR;
use crate::request::{Announced, AnnouncedStage, Body, Receive, Request};
use crate::settings::{AnySource, RndvScheme};
use crate::status::OpStatus;
use crate::unexpected::{INLINE, Payload, Unexpected};
use crate::wire;

impl Engine {
    /// An ordinary message has met a receive. Whether that is lent: the message is to be kept for it, by the next
    /// call that keeps one (rule 3).
    #[cold]
    pub(crate) fn has_met_lent(&mut self, key: Key) -> bool {
        let lent = self.requests.get(key).is_some_and(is_lent);
        if lent {
            self.any_table().met = Some(key);
        }
        lent
    }

    /// Keeps a message for the lent receive that it has met, if it has met one.
    #[cold]
    pub(crate) fn keep_for_lent(&mut self, message: Unexpected) -> Result<Key, Unexpected> {
        if self.options.any_source != AnySource::Flags {
            return Err(message);
        }
        let Some(key) = self.any_table().met.take() else { return Err(message) };
        let message = self.add_entry(message);
        self.note_met(key, message);
        Ok(message)
    }

    fn note_met(&mut self, key: Key, message: Key) {
        if let Some(Body::Announced(announced)) = self.requests.get_mut(key).map(|r| &mut r.body) {
            announced.stage = AnnouncedStage::Met(message);
        }
    }

    /// The user wants a lent receive back (rule 4).
    pub(super) fn cancel_lent(&mut self, key: Key) {
        let Some(Body::Announced(announced)) = self.requests.get_mut(key).map(|r| &mut r.body)
        else {
            return;
        };
        if announced.stage == AnnouncedStage::Posted {
            announced.stage = AnnouncedStage::Withdrawing;
        }
    }

    /// A lent receive is to end (rule 4). It is in no matching engine any more.
    pub(super) fn finish_lent(&mut self, key: Key, status: OpStatus) {
        let Some(Body::Announced(announced)) = self.requests.get_mut(key).map(|r| &mut r.body)
        else {
            return;
        };
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
        let shut = |request: &Request| match &request.body {
            Body::Announced(one) => {
                one.protocol == &ANY && one.peer == index && one.open_buffer.is_shut_by(how)
            }
            _ => false,
        };
        let keys: Vec<Key> =
            self.requests.iter().filter(|(_, r)| shut(r)).map(|(key, _)| key).collect();
        for key in keys {
            self.end_loan(key);
        }
    }

    /// A sender has written nothing to a receive that it was lent.
    pub(super) fn asked_in_vain(&mut self, peer: PeerIndex, key: Key) -> Option<()> {
        self.lent_to(peer, key)?;
        self.counters.any_missed += 1;
        self.end_loan(key);
        Some(())
    }

    /// The receive, if it is lent to this peer.
    fn lent_to(&mut self, peer: PeerIndex, key: Key) -> Option<&mut Announced> {
        match &mut self.requests.get_mut(key)?.body {
            Body::Announced(one) if one.protocol == &ANY && one.peer == peer => Some(one),
            _ => None,
        }
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
            self.shut(key)?.item = ItemId::NONE;
            let request = self.requests.get_mut(key)?;
            request.status = OpStatus { source, tag, length, outcome: Ok(()) };
            (self.counters.matched, self.counters.landed) =
                (self.counters.matched + 1, self.counters.landed + 1);
            self.taken(peer, length as usize);
            self.complete_receive(key);
            self.actions.push(Action::Poll(&ANY));
            if self.options.rndv_scheme == RndvScheme::Rtr {
                // Receives behind it may be announced now.
                self.actions.push(Action::Poll(&RTR));
            }
            return Some(());
        }
        self.counters.any_copied += 1;
        let view = self.lent_to(peer, key)?.receive.buffer.view();
        let bytes = view.slice(0, length as usize)?;
        let payload = if bytes.len() <= INLINE {
            let mut inline = [0; INLINE];
            bytes.copy_out(&mut inline);
            Payload::Inline(inline)
        } else {
            Payload::Whole(bytes.to_vec())
        };
        match met {
            None => _ = self.keep_as(peer, envelope, length, 0, payload),
            Some(other) => {
                let message = Unexpected { space, source, tag, length, peer, request: 0, payload };
                let message = self.add_entry(message);
                if self.requests.get(other).is_some_and(is_lent) {
                    self.note_met(other, message);
                } else {
                    self.met(other);
                    self.hand_over(other, message);
                }
            }
        }
        self.end_loan(key);
        Some(())
    }

    /// Makes a lent receive an ordinary one, whose buffer nobody writes.
    fn shut(&mut self, key: Key) -> Option<&mut Receive> {
        let request = self.requests.get_mut(key)?;
        let Body::Announced(announced) = &mut request.body else { return None };
        let receive = std::mem::replace(&mut announced.receive, Receive::empty());
        let open_buffer = announced.open_buffer;
        request.body = Body::Receive(receive);
        if let Some((lane, memory)) = open_buffer.lent() {
            self.actions.push(Action::Withdraw { lane, memory });
        }
        match &mut request.body {
            Body::Receive(receive) => Some(receive),
            _ => None,
        }
    }

    /// Nothing is written to a lent receive any more: what had to wait for that follows.
    fn end_loan(&mut self, key: Key) {
        let Some(Body::Announced(announced)) = self.requests.get(key).map(|r| &r.body) else {
            return;
        };
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
