//! What the engine does with each kind of arrival.

use bowline_base::buffer::RecvBuf;
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmHeader, Arrival, PeerFailure, Verdict};

use super::Engine;
use super::life::Holder;
use crate::action::Action;
use crate::address::WorkerAddress;
use crate::error::OpError;
use crate::matching::{Envelope, ItemId, MatchEngine as _};
use crate::peer::{NO_PEER, Peer, PeerIndex};
use crate::request::{Body, Fetch, Request, Send, SendPhase, send_of};
use crate::select::{Measure, MessageKind};
use crate::status::OpStatus;
use crate::unexpected::{INLINE, Payload, Unexpected};
use crate::wire::{self, MessageId, Rts};

/// Longest control payload: an RTS with the longest key.
const CONTROL: usize = Rts::FIXED + wire::MAX_RKEY;

/// Messages from this length on are better not taken in before their receive is posted.
pub(crate) const LONG: usize = 1 << 10;

impl Engine {
    /// A tagged message in one piece: a part of the sink, with all that a short one for the oldest receive needs
    /// in it, and no call that it would have to keep anything across.
    #[inline(always)]
    pub(super) fn eager(&mut self, peer: PeerIndex, arrival: &Arrival<'_>) -> Verdict {
        let Envelope { space, source, tag } = wire::envelope(&arrival.header);
        match self.spaces.arrive_first(space, source, tag) {
            // Of so few bytes no credit is counted (`taken`).
            Some(value) if arrival.payload.len() <= INLINE => {
                self.deliver_here(Key::from_wire(value), &arrival.header, arrival.payload);
                Verdict::Consumed
            }
            found => self.eager_further(peer, arrival, found),
        }
    }

    /// The same of a longer message, or where the receive was not `found` yet.
    #[inline(never)]
    fn eager_further(
        &mut self,
        peer: PeerIndex,
        arrival: &Arrival<'_>,
        found: Option<u64>,
    ) -> Verdict {
        let envelope = wire::envelope(&arrival.header);
        let Envelope { space, source, tag } = envelope;
        match found.or_else(|| self.spaces.arrive(space, source, tag)) {
            Some(value) => {
                self.taken(peer, arrival.payload.len());
                self.deliver_here(Key::from_wire(value), &arrival.header, arrival.payload);
                self.verdict(space, arrival.payload.len())
            }
            None => {
                self.keep(peer, &envelope, arrival.payload, 0, None);
                Verdict::Consumed
            }
        }
    }

    /// What is said of the last piece of a message of `length` bytes that has completed a receive of this space.
    ///
    /// Where that was the last one posted, the next one is most likely posted when the call of progress has
    /// returned, and what comes until then is copied twice. A short message is quicker copied than left where it lies.
    pub(super) fn verdict(&mut self, space: u32, length: usize) -> Verdict {
        match length >= LONG && !self.spaces.has_posted(space) {
            true => Verdict::Enough,
            false => Verdict::Consumed,
        }
    }

    /// Copies a whole message into a matched receive and completes it.
    #[inline(never)]
    pub(crate) fn deliver(&mut self, key: Key, header: &AmHeader, payload: View<'_>) {
        self.deliver_here(key, header, payload);
    }

    /// The same without a call.
    #[inline(always)]
    fn deliver_here(&mut self, key: Key, header: &AmHeader, payload: View<'_>) {
        self.counters.matched += 1;
        let Some(request) = self.requests.get_own(key) else {
            return;
        };
        let Body::Receive(receive) = &mut request.body else {
            return self.deliver_expected(key, header, payload);
        };
        // It is a success from its begin.
        if !receive.buffer.copy_whole(payload) {
            return self.deliver_part(key, header, payload);
        }
        if request.delivered(header, payload.len()) {
            self.end_detached(key);
        }
    }

    /// The same for a receive that takes a part of the message, or takes it in several pieces.
    #[inline(never)]
    fn deliver_part(&mut self, key: Key, header: &AmHeader, payload: View<'_>) {
        let Some(request) = self.requests.get_own(key) else { return };
        let Body::Receive(receive) = &mut request.body else { return };
        request.status.outcome = copy_part(&mut receive.buffer, payload);
        if request.delivered(header, payload.len()) {
            self.end_detached(key);
        }
    }

    /// The same for a receive that a peer knows of, which did not bring the message by its protocol.
    #[cold]
    fn deliver_expected(&mut self, key: Key, header: &AmHeader, payload: View<'_>) {
        let body = self.requests.get(key).map(|request| &request.body);
        if !matches!(body, Some(Body::Expecting(_))) {
            return;
        }
        self.counters.matched -= 1;
        if let Err(holder) = self.note_match(key) {
            // The credit of its payload was given back when it was met.
            self.keep(NO_PEER, &wire::envelope(header), payload, 0, Some(holder));
        } else if matches!(self.requests.get(key), Some(Request { body: Body::Receive(_), .. })) {
            self.deliver(key, header, payload);
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
    fn keep(
        &mut self,
        peer: PeerIndex,
        envelope: &Envelope,
        bytes: View<'_>,
        request: u64,
        holder: Option<Holder>,
    ) {
        let payload = if bytes.len() <= INLINE {
            let mut inline = [0; INLINE];
            bytes.copy_out(&mut inline);
            Payload::Inline(inline)
        } else {
            Payload::Whole(bytes.to_vec())
        };
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
    pub(super) fn posted(&mut self, envelope: &Envelope) -> Result<Key, Option<Holder>> {
        let Envelope { space, source, tag } = *envelope;
        let key = self.spaces.arrive(space, source, tag).map(Key::from_wire).ok_or(None)?;
        if self.watches_receives {
            self.note_match(key).map_err(Some)?;
        }
        Ok(key)
    }

    /// The dead member because of which no receive will ever be posted for an envelope; none where it has met a receive,
    /// which has left its matching engine and waits for the message.
    pub(super) fn failed_collective_member(
        &mut self,
        envelope: &Envelope,
        holder: Option<Holder>,
    ) -> Option<u32> {
        if holder.is_some() {
            return None;
        }
        self.spaces.get_mut(envelope.space).and_then(|space| space.failed_collective_member())
    }

    /// Anything but a plain eager message. Bytes of a stream are asked for here, since most sends of one are short.
    #[inline(never)]
    pub(super) fn other(&mut self, peer: PeerIndex, arrival: &Arrival<'_>) -> Verdict {
        match arrival.id {
            wire::AM if self.am_in_place(peer, arrival) => Verdict::Consumed,
            wire::STREAM => match self.stream_data(peer, arrival.payload) {
                Some(verdict) => verdict,
                None => self.reject_message(peer, wire::STREAM.into()),
            },
            _ => self.arrive(peer, arrival),
        }
    }

    /// What is neither of a stream, in one piece, nor taken in place by a handler.
    #[inline(never)]
    pub(super) fn arrive(&mut self, peer: PeerIndex, arrival: &Arrival<'_>) -> Verdict {
        let header = &arrival.header;
        let fine = match arrival.id {
            // A message that lies with a peer whose endpoint is being closed cannot be read any more.
            wire::RTS | wire::AM_RTS if self.is_closing(peer) => Some(()),
            wire::EAGER_SYNC => self.eager_sync(peer, header, arrival.payload),
            wire::EAGER_FIRST => self.eager_first(peer, header, arrival.payload),
            wire::PIECE => match self.piece(peer, header, arrival.payload) {
                Some(verdict) => return verdict,
                None => None,
            },
            wire::RTS => self.rts(peer, header, arrival.payload),
            wire::ACK => self.ack(peer, header),
            wire::CREDIT => self.credit(peer, header),
            wire::SELECT => self.selected(peer, [header[0], header[1]]),
            wire::SEND_CANCEL => self.on_send_cancel(peer, header, arrival.payload),
            wire::DISCONNECT => self.disconnected(peer, header, arrival.payload),
            wire::PROBE => Some(()),
            wire::NOTICE => self.notice(peer, header, arrival.payload),
            wire::REMOTE => self.remote(peer, header, arrival.payload),
            wire::REMOTE_DONE => self.remote_done(peer, header, arrival.payload),
            wire::AM => self.am(peer, header, arrival.payload),
            wire::AM_FIRST => self.am_first(peer, header, arrival.payload),
            wire::STREAM_END => {
                match self.stream_end_piece(peer, [header[0], header[1]], arrival.payload) {
                    Some(verdict) => return verdict,
                    None => None,
                }
            }
            wire::STREAM_RTS => self.stream_rts(peer, arrival.payload),
            wire::AM_RTS => self.am_rts(peer, header, arrival.payload),
            // Else a second HELLO, a reserved id or one that never was.
            _ => match self.protocols.of(MessageId::of(arrival)) {
                Some(life) => life.on_message(self, peer, arrival),
                None => None,
            },
        };
        match fine {
            Some(()) => Verdict::Consumed,
            None => self.reject_message(peer, MessageId::of(arrival)),
        }
    }

    /// Gives up a peer whose message no correct peer sends.
    #[cold]
    fn reject_message(&mut self, peer: PeerIndex, id: MessageId) -> Verdict {
        let (number, id) = (id.number(), id.am().get());
        let why = match number {
            Some(number) => format!("a message of id {id} and number {number} that means nothing"),
            None if wire::RESERVED.contains(&id) => {
                format!("a message of id {id}, which is reserved")
            }
            None => format!("a message of id {id} that means nothing"),
        };
        self.reject(peer, PeerFailure::Damaged, &why);
        Verdict::Consumed
    }

    /// The first message of a sender must be its HELLO.
    #[cold]
    pub(super) fn first_contact(&mut self, lane: usize, arrival: &Arrival<'_>) {
        if arrival.id != wire::HELLO || self.is_rejected(lane, arrival.source) {
            self.counters.stray += 1;
            return;
        }
        let address = match WorkerAddress::parse(&arrival.payload.to_vec()) {
            Ok(address) => address,
            Err(error) => {
                self.counters.stray += 1;
                tracing::warn!(lane, %error, "dropped a first contact");
                return;
            }
        };
        let peer = self.meet(address);
        if self.peers[peer as usize].failure().is_some() {
            // A peer that was given up does not come back by another connection.
            self.counters.stray += 1;
            return;
        }
        self.bind(lane, arrival.source, peer);
        self.peers[peer as usize].rx_sequence = wire::sequence(&arrival.header).wrapping_add(1);
        self.actions.push(Action::Connect(peer));
    }

    /// The peer with this address, new or known.
    pub(crate) fn meet(&mut self, address: WorkerAddress) -> PeerIndex {
        if let Some(&known) = self.by_uid.get(&address.uid) {
            return known;
        }
        let uid = address.uid;
        let index = self.settle_in(Peer::new(address, self.options.share_first));
        self.by_uid.insert(uid, index);
        index
    }

    #[cold]
    pub(super) fn out_of_sequence(&mut self, peer: PeerIndex) {
        self.reject(peer, PeerFailure::Damaged, "its messages are out of sequence");
    }

    fn eager_sync(&mut self, peer: PeerIndex, header: &AmHeader, payload: View<'_>) -> Option<()> {
        let mut request = [0; 8];
        let data = payload.slice(8, payload.len().checked_sub(8)?)?;
        payload.copy_out(&mut request);
        let request = u64::from_le_bytes(request);
        let envelope = wire::envelope(header);
        match self.posted(&envelope) {
            Ok(key) => {
                self.taken(peer, data.len());
                self.deliver(key, header, data);
                self.actions.push(Action::Acknowledge { peer, request });
            }
            Err(holder) => match self.failed_collective_member(&envelope, holder) {
                Some(dead) => {
                    self.taken(peer, data.len());
                    let outcome = wire::refusal(Some(dead));
                    self.actions.push(Action::Refuse { peer, request, outcome });
                }
                None => self.keep(peer, &envelope, data, request, holder),
            },
        }
        Some(())
    }

    fn rts(&mut self, peer: PeerIndex, header: &AmHeader, payload: View<'_>) -> Option<()> {
        let mut bytes = [0; CONTROL];
        if payload.len() > CONTROL {
            return None;
        }
        let n = payload.copy_out(&mut bytes);
        let rts = Rts::parse(&bytes[..n])?;
        let envelope = wire::envelope(header);
        match self.posted(&envelope) {
            Ok(key) => {
                self.begin_fetch(key, peer, &envelope, rts, Some(MessageKind::Tagged));
            }
            Err(holder) => match self.failed_collective_member(&envelope, holder) {
                Some(dead) => {
                    let (request, outcome) = (rts.request, wire::refusal(Some(dead)));
                    self.actions.push(Action::Refuse { peer, request, outcome });
                }
                None => {
                    let remote = Payload::Remote(Box::new(rts));
                    self.enqueue_unexpected(peer, &envelope, (rts.length, 0), remote, holder);
                }
            },
        }
        Some(())
    }

    /// A receive has found a message that lies with its sender, and that is measured where it has a `kind` and no key.
    pub(crate) fn begin_fetch(
        &mut self,
        key: Key,
        peer: PeerIndex,
        env: &Envelope,
        rts: Rts,
        kind: Option<MessageKind>,
    ) {
        self.counters.matched += 1;
        // What memory with a key of its own takes, which may be mapped here, says nothing of other memory.
        let measure = kind
            .filter(|_| rts.rkey.is_none())
            .map_or(Measure::NONE, |kind| self.begin_measure(peer, kind, rts.marks, rts.length));
        if self.may_grow(peer, rts.length) {
            self.actions.push(Action::Credit(peer));
        }
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        let Body::Receive(receive) = &mut request.body else {
            return;
        };
        let wanted = rts.length.min(receive.buffer.len() as u64);
        let outcome = if wanted == rts.length {
            Ok(())
        } else {
            Err(OpError::Truncated { message: rts.length, capacity: wanted })
        };
        request.status = OpStatus { source: env.source, tag: env.tag, length: rts.length, outcome };
        let measure = if wanted == rts.length { measure } else { Measure::NONE };
        let fetch = Fetch { measure, ..Fetch::new(peer, rts, wanted) };
        receive.fetch = Some(self.async_state.boxed(fetch));
        self.actions.push(Action::Run(key));
    }

    /// The send that a receiver asks for, which lies here for it. `None`: no correct peer asks for that. `Some(None)`: the
    /// question crosses our DISCONNECT, behind which nothing is written or sent to the receiver; its own end of the close
    /// ends what it asked for.
    pub(crate) fn asked_for(&mut self, peer: PeerIndex, request: u64) -> Option<Option<&mut Send>> {
        if self.is_closing(peer) {
            return Some(None);
        }
        let send = send_of(&mut self.requests, Key::from_wire(request))?;
        (send.peer == peer && send.is_offered()).then_some(Some(send))
    }

    pub(crate) fn ack(&mut self, peer: PeerIndex, header: &AmHeader) -> Option<()> {
        let key = Key::from_wire(header[0]);
        let outcome = wire::outcome(header[1])?;
        // A request that was failed meanwhile is gone; its acknowledgement means nothing.
        if let Some(send) = send_of(&mut self.requests, key).filter(|send| send.peer == peer) {
            match &mut send.phase {
                SendPhase::Offered => {
                    let length = send.buffer.len() as u64;
                    self.finish(key, OpStatus { length, outcome, ..OpStatus::NONE });
                }
                SendPhase::Moving(sender) => {
                    *sender.answer()? = Some(outcome);
                    self.actions.push(Action::Run(key));
                }
                // Matched by its first piece, while others still wait for space.
                SendPhase::Queued { message, .. } if *message != 0 && send.synchronous => {
                    send.synchronous = false;
                    send.answer = outcome;
                }
                SendPhase::Queued { .. } | SendPhase::Lent => return None,
            }
        }
        Some(())
    }

    pub(crate) fn credit(&mut self, peer: PeerIndex, header: &AmHeader) -> Option<()> {
        let bytes = i64::try_from(header[0]).ok()?;
        let known = &mut self.peers[peer as usize];
        known.credit = known.credit.checked_add(bytes)?;
        if !known.pending.is_empty() {
            self.actions.push(Action::Resume(peer));
        }
        let parked = |stream: &mut crate::state::stream::Stream| {
            !stream.parked.is_empty() || !stream.parked_ams.is_empty()
        };
        if self.streams.get_mut(peer).is_some_and(parked) {
            self.actions.push(Action::Unpark(peer));
        }
        Some(())
    }
}

impl Request {
    /// Completes a receive whose buffer has what it takes of a message of `length` bytes. Whether it was
    /// detached.
    #[inline(always)]
    fn delivered(&mut self, header: &AmHeader, length: usize) -> bool {
        let (Envelope { source, tag, .. }, status) = (wire::envelope(header), &mut self.status);
        (status.source, status.tag, status.length) = (source, tag, length as u64);
        self.done = true;
        self.detached
    }
}

/// Copies what a buffer takes of a message that is longer, or that is received in several pieces.
#[inline(never)]
fn copy_part(buffer: &mut RecvBuf, payload: View<'_>) -> Result<(), OpError> {
    let (message, capacity) = (payload.len() as u64, buffer.copy_at(0, payload) as u64);
    match (capacity == message, buffer.failed()) {
        (true, _) => Ok(()),
        (false, true) => Err(OpError::NotUnpacked),
        (false, false) => Err(OpError::Truncated { message, capacity }),
    }
}
