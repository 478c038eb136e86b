//! Messages and receives that meet, and messages that are kept until a receive is posted for them.

use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::Verdict;

use super::Engine;
use super::life::Holder;
use crate::action::Action;
use crate::error::OpError;
use crate::matching::{Envelope, ItemId, MatchEngine as _};
use crate::peer::PeerIndex;
use crate::request::{Body, Request};
use crate::select::{Marks, Measure, MessageKind};
use crate::status::OpStatus;
use crate::unexpected::{Payload, Unexpected};

/// Messages from this length on are better not taken in before their receive is posted.
pub(crate) const LONG: usize = 1 << 10;

impl Engine {
    /// What is said of the last piece of a message of `length` bytes that has completed a receive of this space.
    ///
    /// Where that was the last one posted, the next one is most likely posted when the call of progress has
    /// returned, and what comes until then is copied twice. A short message is quicker copied than left where it lies.
    pub(crate) fn verdict(&mut self, space: u32, length: usize) -> Verdict {
        match length >= LONG && !self.spaces.has_posted(space) {
            true => Verdict::Enough,
            false => Verdict::Consumed,
        }
    }

    /// A message has met a receive where receives are watched, and goes on to that.
    ///
    /// # Errors
    /// When a protocol wants it to be kept, which then holds the receive.
    #[cold]
    pub(crate) fn note_match(&mut self, key: Key) -> Result<(), Holder> {
        for at in 0..self.protocols.lives.len() {
            let life = self.protocols.lives[at];
            if !life.on_met(self, key) {
                return Err(Holder { receive: key, life });
            }
        }
        let body = self.requests.get(key).map(|request| &request.body);
        debug_assert!(
            !matches!(body, Some(Body::Expecting(_))),
            "a met receive is an ordinary one"
        );
        if let Some(Request { body: Body::Receive(receive), .. }) = self.requests.get_mut(key) {
            receive.item = ItemId::NONE;
        }
        Ok(())
    }

    /// The same of a message that is here already, which the receive is given, or its protocol.
    #[cold]
    pub(crate) fn match_kept(&mut self, key: Key, message: Key) {
        match self.note_match(key) {
            Ok(()) => self.hand_over(key, message),
            Err(Holder { receive, life }) => life.on_kept(self, receive, message),
        }
    }

    /// Keeps a message that no receive waits for, or whose receive has a holder.
    pub(crate) fn keep(
        &mut self,
        peer: PeerIndex,
        envelope: &Envelope,
        bytes: View<'_>,
        request: u64,
        holder: Option<Holder>,
    ) {
        let payload = Payload::of(bytes);
        self.enqueue_unexpected(peer, envelope, (bytes.len() as u64, request), payload, holder);
    }

    /// Keeps a message with what there is of its payload.
    pub(crate) fn enqueue_unexpected(
        &mut self,
        peer: PeerIndex,
        envelope: &Envelope,
        (length, request): (u64, u64),
        payload: Payload,
        holder: Option<Holder>,
    ) -> Key {
        self.counters.unexpected += 1;
        let Envelope { space, source, tag } = *envelope;
        let message = Unexpected { space, source, tag, length, peer, request, payload };
        let key = self.add_entry(message);
        if let Some(Holder { receive, life }) = holder {
            life.on_kept(self, receive, key);
        } else {
            let space = self.spaces.make(space);
            space.engine.add_unexpected(source, tag, key.to_wire());
        }
        self.note_entry();
        key
    }

    /// The posted receive for an envelope.
    ///
    /// # Errors
    /// When there is none, or one whose holder wants the message to be kept.
    pub(crate) fn posted(&mut self, envelope: &Envelope) -> Result<Key, Option<Holder>> {
        let Envelope { space, source, tag } = *envelope;
        let key = self.spaces.arrive(space, source, tag).map(Key::from_wire).ok_or(None)?;
        if self.watches_receives {
            self.note_match(key).map_err(Some)?;
        }
        Ok(key)
    }

    /// The dead member because of which no receive will ever be posted for an envelope; none where it has met a receive,
    /// which has left its matching engine and waits for the message.
    pub(crate) fn failed_collective_member(
        &mut self,
        envelope: &Envelope,
        holder: Option<Holder>,
    ) -> Option<u32> {
        if holder.is_some() {
            return None;
        }
        self.spaces.get_mut(envelope.space).and_then(|space| space.failed_collective_member())
    }

    /// Completes a receive whose status names the message, truncated or not.
    pub(crate) fn complete_receive(&mut self, key: Key) {
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        let Body::Receive(receive) = &request.body else {
            return;
        };
        let (message, capacity) = (request.status.length, receive.buffer.len() as u64);
        let outcome = match message > capacity {
            _ if receive.buffer.failed() => Err(OpError::NotUnpacked),
            true => Err(OpError::Truncated { message, capacity }),
            false => Ok(()),
        };
        let status = OpStatus { outcome, ..request.status };
        self.finish(key, status);
    }

    /// Gives a waiting message to a receive that was posted after it came.
    pub(crate) fn hand_over(&mut self, receive: Key, message: Key) {
        if let Some(waiting) = self.unexpected.get_mut(message)
            && let Some(request) = self.requests.get_mut(receive)
        {
            request.status = OpStatus {
                source: waiting.source,
                tag: waiting.tag,
                length: waiting.length,
                outcome: Ok(()),
            };
        }
        self.acknowledge_match(message);
        let Some(waiting) = self.remove_unexpected(message) else {
            return;
        };
        let length = waiting.length as usize;
        let bytes: &[u8] = match &waiting.payload {
            Payload::Inline(inline) => &inline[..length],
            Payload::Whole(bytes) => bytes,
            Payload::Assembled { bytes, marks, spent } => {
                return self.hand_over_assembled(receive, waiting.peer, bytes, (*marks, *spent));
            }
            Payload::Partial { bytes, protocol } => {
                let life = self.protocols.life(protocol);
                return life.on_late_receive(self, waiting.peer, message, receive, bytes);
            }
            Payload::Remote(rts) => {
                let envelope =
                    Envelope { space: waiting.space, source: waiting.source, tag: waiting.tag };
                self.begin_fetch(
                    receive,
                    waiting.peer,
                    &envelope,
                    **rts,
                    Some(MessageKind::Unexpected),
                );
                return;
            }
        };
        if let Some(Body::Receive(to)) = self.requests.get_mut(receive).map(|r| &mut r.body) {
            to.buffer.write_at(0, bytes);
        }
        self.taken(waiting.peer, length);
        self.complete_receive(receive);
    }

    /// The same of a message that has come in pieces, and is measured.
    fn hand_over_assembled(
        &mut self,
        receive: Key,
        peer: PeerIndex,
        bytes: &[u8],
        (marks, spent): (Marks, u64),
    ) {
        let timed = spent != 0 && spent != Measure::UNTIMED;
        let begun = if timed { self.meter.now() } else { None };
        if let Some(Body::Receive(to)) = self.requests.get_mut(receive).map(|r| &mut r.body) {
            to.buffer.write_at(0, bytes);
        }
        let now = if timed { self.meter.now() } else { None };
        let copied = now.zip(begun).map_or(0, |(now, begun)| now.saturating_sub(begun));
        self.end_unexpected(peer, marks, bytes.len() as u64, (spent.saturating_add(copied), now));
        self.taken(peer, bytes.len());
        self.complete_receive(receive);
    }

    /// Reports to the sender of a synchronous message that it was matched. A message that lies with
    /// its sender is acknowledged when it was fetched.
    fn acknowledge_match(&mut self, message: Key) {
        let Some(waiting) = self.unexpected.get_mut(message) else {
            return;
        };
        if waiting.request != 0 && !matches!(waiting.payload, Payload::Remote(_)) {
            let request = std::mem::take(&mut waiting.request);
            self.actions.push(Action::Acknowledge { peer: waiting.peer, request });
        }
    }

    /// Forgets a message that nobody will receive. `outcome` is reported to its sender, where it waits.
    pub(crate) fn drop_message(&mut self, message: Key, outcome: u64) {
        let Some(waiting) = self.remove_unexpected(message) else {
            return;
        };
        let peer = waiting.peer;
        match waiting.payload {
            Payload::Remote(rts) => {
                self.actions.push(Action::Refuse { peer, request: rts.request, outcome });
            }
            Payload::Partial { protocol, .. } => {
                self.protocols.life(protocol).on_dropped(self, peer, message);
            }
            Payload::Inline(_) | Payload::Whole(_) | Payload::Assembled { .. } => {
                self.taken(peer, waiting.length as usize);
            }
        }
        if waiting.request != 0 {
            self.actions.push(Action::Refuse { peer, request: waiting.request, outcome });
        }
    }
}
