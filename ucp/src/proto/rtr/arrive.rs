//! The receiver's side of what a sender says: its message is written to an announced receive, or being
//! written, or a receive that was wanted back is forgotten.

use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmHeader, PeerFailure};

use super::message::LONGEST;
use super::{RTR, RtrMessage};
use crate::action::Action;
use crate::engine::Engine;
use crate::engine::life::Keeps as _;
use crate::error::OpError;
use crate::matching::{Envelope, ItemId};
use crate::peer::PeerIndex;
use crate::proto::announced::{AnnouncedStage, announced_mut, end_announced};
use crate::proto::put::Written;
use crate::request::{Body, Fetch, OpenBuffer};
use crate::status::OpStatus;
use crate::wire::{self, Rts};

impl Engine {
    /// What the other side says about announced receives.
    pub(super) fn rtr(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let mut bytes = [0; LONGEST];
        if payload.len() > bytes.len() {
            return None;
        }
        let n = payload.copy_out(&mut bytes);
        let message = RtrMessage::parse(&bytes[..n])?;
        let envelope = wire::envelope(header);
        match message {
            RtrMessage::Rtr { .. } => self.announced(peer, &envelope, message),
            RtrMessage::Withdraw { receive } => {
                self.withdraw(peer, receive);
                Some(())
            }
            RtrMessage::Taken { receive, request, length } => {
                self.taken_by(peer, &envelope, Key::from_wire(receive), request, length)
            }
            RtrMessage::Written { receive, length } => {
                self.written_by(peer, &envelope, Key::from_wire(receive), length)
            }
            RtrMessage::Withdrawn { receive } => self.given_back(peer, Key::from_wire(receive)),
        }
    }

    /// A message has met the announced receive that its sender names. An error: the receive has ended with it
    /// otherwise. `None`: it is not the one that any message of this envelope would meet.
    fn meets_announced(
        &mut self,
        peer: PeerIndex,
        envelope: &Envelope,
        key: Key,
    ) -> Option<Result<(), OpError>> {
        let announced = announced_mut(&mut self.requests, key)?;
        let stage = announced.stage;
        if !announced.is_with(peer, &RTR) {
            return None;
        }
        match stage {
            AnnouncedStage::Met(_) => None,
            AnnouncedStage::Ended(status) => {
                Some(Err(status.outcome.err().unwrap_or(OpError::Cancelled)))
            }
            AnnouncedStage::Posted | AnnouncedStage::Withdrawing => {
                let Envelope { space, source, tag } = *envelope;
                let met = self.spaces.arrive(space, source, tag).map(Key::from_wire);
                if met != Some(key) {
                    tracing::warn!(peer, "a peer writes to a receive that is not its message's");
                    if let Some(other) = met {
                        self.fail(other, PeerFailure::Damaged.into());
                    }
                    return None;
                }
                Some(Ok(()))
            }
        }
    }

    /// Makes an announced receive that its message has met an ordinary one. Its memory, open to the sender.
    fn begin_written(&mut self, envelope: &Envelope, key: Key, length: u64) -> Option<OpenBuffer> {
        self.counters.matched += 1;
        let (receive, open_buffer) = end_announced(&mut self.requests, key)?;
        receive.item = ItemId::NONE;
        let request = self.requests.get_mut(key)?;
        let Envelope { source, tag, .. } = *envelope;
        request.status = OpStatus { source, tag, length, outcome: Ok(()) };
        self.announcer().out -= 1;
        if self.announcer().waits() {
            self.actions.push(Action::Poll(&RTR));
        }
        Some(open_buffer)
    }

    /// A sender writes a message to an announced receive.
    fn taken_by(
        &mut self,
        peer: PeerIndex,
        envelope: &Envelope,
        key: Key,
        sender: u64,
        length: u64,
    ) -> Option<()> {
        let ended = self.meets_announced(peer, envelope, key)?;
        let open = self.begin_written(envelope, key, length)?;
        let request = self.requests.get_mut(key)?;
        let Body::Receive(receive) = &mut request.body else { return None };
        let wanted = length.min(receive.buffer.len() as u64);
        let rts = Rts { request: sender, length, ..Rts::NONE };
        receive.fetch = Some(self.async_state.boxed(Fetch {
            receiver: Some(Box::new(Written { open, ended: ended.err() })),
            ..Fetch::new(peer, rts, wanted)
        }));
        Some(())
    }

    /// A sender has written a message to an announced receive.
    fn written_by(
        &mut self,
        peer: PeerIndex,
        envelope: &Envelope,
        key: Key,
        length: u64,
    ) -> Option<()> {
        let ended = self.meets_announced(peer, envelope, key)?;
        let open = self.begin_written(envelope, key, length)?;
        if let Some((lane, memory)) = open.lent() {
            self.actions.push(Action::Withdraw { lane, memory });
        }
        match ended {
            Err(error) => self.fail(key, error),
            Ok(()) => {
                self.counters.landed += 1;
                self.complete_receive(key);
            }
        }
        Some(())
    }

    /// A sender has forgotten a receive.
    fn given_back(&mut self, peer: PeerIndex, key: Key) -> Option<()> {
        let Some(announced) = announced_mut(&mut self.requests, key) else {
            // It was met meanwhile.
            return Some(());
        };
        let stage = announced.stage;
        if !announced.is_with(peer, &RTR) {
            return None;
        }
        match stage {
            AnnouncedStage::Posted | AnnouncedStage::Met(_) => return None,
            AnnouncedStage::Withdrawing => self.finish_withdrawing(key),
            AnnouncedStage::Ended(status) => {
                self.unannounce(key);
                self.finish(key, status);
            }
        }
        if self.announcer().waits() {
            self.actions.push(Action::Poll(&RTR));
        }
        Some(())
    }
}
