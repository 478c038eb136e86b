//! Sending: which protocol a message takes, and what waits when the lane is full.
//!
//! Everything to one peer goes in order over one lane. `post` moves a send request as far as the
//! lane takes it; what is left waits in the peer's `pending` queue, and everything newer behind
//! it.

use bowline_base::buffer::{SendBuf, Shape};
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmId, Caps, Iface, LocalSlice, PeerFailure, PostError, Posted};

use crate::action::Action;
use crate::address::{AM_RENDEZVOUS, PIECES, STREAMS};
use crate::am;
use crate::engine::Counters;
use crate::error::OpError;
use crate::lanes::Lane;
use crate::matching::Envelope;
use crate::pack::{self, RUNS, post_am, post_message};
use crate::peer::{Peer, PeerIndex, PeerState, Pending, header};
use crate::proto::Protocol;
use crate::request::{self, Body, Request, RequestId, Send, SendKind, SendPhase, Status, token};
use crate::rndv::can_land;
use crate::rtr;
use crate::settings::RndvScheme;
use crate::stream::{self, Pieces};
use crate::tagged::Sent;
use crate::unexpected::INLINE;
use crate::wire::{self, AmEnvelope, FirstPiece, MAX_RKEY, Rts};
use crate::worker::Inner;

/// How far a request came.
enum Post {
    /// Nothing is left to do.
    Complete,
    /// All that can be posted is; an answer is awaited.
    Awaiting,
    /// The lane is full.
    Blocked,
    /// Eager credit is used up; its return resumes what waits.
    Starved,
    Failed(OpError),
}

impl Inner {
    /// Makes the endpoint to a peer and greets it, if that was not done yet.
    pub(crate) fn ready(&mut self, index: PeerIndex) -> Result<(), OpError> {
        let peer = self.engine.peers.get(index as usize).ok_or(OpError::BadEndpoint)?;
        match peer.state {
            PeerState::Ready => Ok(()),
            PeerState::Failed(how) => Err(how.into()),
            PeerState::Closing => Err(OpError::EndpointClosed),
            PeerState::Leaving => Err(PeerFailure::Closed.into()),
            PeerState::Known => self.establish(index),
        }
    }

    #[cold]
    fn establish(&mut self, index: PeerIndex) -> Result<(), OpError> {
        let address = self.engine.peers[index as usize].address.clone();
        let route = self.route(&address);
        let peer = &mut self.engine.peers[index as usize];
        let (lane, ep) = match route {
            Ok(route) => route,
            Err(error) => {
                tracing::warn!(rank = peer.address.rank, %error, "no way to a peer");
                self.engine.fail_peer(index, PeerFailure::Unreachable);
                return Err(PeerFailure::Unreachable.into());
            }
        };
        peer.lane = lane as u32;
        peer.ep = ep;
        peer.state = PeerState::Ready;
        self.watch_over(index);
        let peer = &mut self.engine.peers[index as usize];
        let payload = self.own_address.clone();
        peer.pending.push_front(Pending::Control { id: wire::HELLO, words: [0, 0], payload });
        self.resume(index);
        Ok(())
    }

    /// Posts what waits for a peer, in order, until the lane is full.
    pub(crate) fn resume(&mut self, index: PeerIndex) {
        loop {
            let peer = &mut self.engine.peers[index as usize];
            if !matches!(peer.state, PeerState::Ready | PeerState::Closing | PeerState::Leaving) {
                return;
            }
            let Some(first) = peer.pending.pop_front() else {
                let lane = &self.lanes[peer.lane as usize];
                let stream = self.engine.streams.get_mut(index);
                let parked = stream.is_some_and(|stream| !stream.parked_ams.is_empty());
                if peer.state != PeerState::Ready || peer.end.is_some() {
                    self.sent_all(index);
                } else if !peer.has_offers() && !parked {
                    peer.short_limit = lane.iface.attr().limits.am.max_short.min(INLINE) as i32;
                }
                return;
            };
            peer.short_limit = -1;
            let outcome = match &first {
                Pending::Send(key) => self.post(*key),
                Pending::Control { id, words, payload } => {
                    let lane = &mut *self.lanes[peer.lane as usize].iface;
                    let first = peer.tx_sequence;
                    match post_am(lane, peer, *id, *words, &[payload]) {
                        Ok(()) => {
                            let _ = peer.note_posted(first, None);
                            Post::Complete
                        }
                        Err(error) => self.refused(index, error),
                    }
                }
            };
            match (outcome, first) {
                (Post::Complete, Pending::Send(key)) => self.sent(key),
                (Post::Failed(error), Pending::Send(key)) => self.engine.fail(key, error),
                (Post::Blocked, first) => {
                    self.wait_for_room(index, first);
                    return;
                }
                (Post::Starved, Pending::Send(key)) => self.park_am(index, key),
                (Post::Starved, Pending::Control { .. }) => {}
                (Post::Complete | Post::Awaiting | Post::Failed(_), _) => {}
            }
        }
    }

    /// An active message waits for credit, and later ones behind it; nothing else does. The short path
    /// would overtake it.
    fn park_am(&mut self, index: PeerIndex, key: Key) {
        self.engine.peers[index as usize].short_limit = -1;
        self.engine.streams.make(index).parked_ams.push_back(key);
    }

    fn wait_for_room(&mut self, index: PeerIndex, first: Pending) {
        let peer = &mut self.engine.peers[index as usize];
        peer.short_limit = -1;
        peer.pending.push_front(first);
        self.lanes[peer.lane as usize].iface.want_writable(peer.ep);
    }

    /// What a refusal by the lane means.
    fn refused(&mut self, index: PeerIndex, error: PostError) -> Post {
        match error {
            PostError::NoResource => Post::Blocked,
            PostError::Unsupported => Post::Failed(OpError::Unsupported),
            PostError::TooLong => Post::Failed(OpError::TooLong),
            PostError::BadRemote | PostError::BadArgument => Post::Failed(OpError::BadRemote),
            // The lane tells of the failure itself, after what the peer has sent before it: that may
            // be all that anybody still wants of a peer that has closed.
            PostError::PeerFailed => Post::Failed(PeerFailure::Died.into()),
            _ => {
                tracing::debug!(index, %error, "a lane refused a message to a peer");
                self.engine.fail_peer(index, PeerFailure::Died);
                Post::Failed(PeerFailure::Died.into())
            }
        }
    }

    /// An eager send request is wholly posted.
    fn sent(&mut self, key: Key) {
        let (length, outcome) = match self.engine.requests.get(key) {
            Some(Request { body: Body::Send(send), .. }) => (send.buffer.len() as u64, send.answer),
            _ => (0, Ok(())),
        };
        self.engine.finish(key, Status { length, outcome, ..Status::NONE });
    }

    /// Sends a control message, behind what waits.
    pub(crate) fn control(&mut self, index: PeerIndex, id: AmId, words: [u64; 2], payload: &[u8]) {
        if self.ready(index).is_err() {
            return;
        }
        let peer = &mut self.engine.peers[index as usize];
        if !peer.pending.is_empty() {
            let payload = self.engine.attendance.payload(payload);
            peer.pending.push_back(Pending::Control { id, words, payload });
            return;
        }
        let lane = &mut *self.lanes[peer.lane as usize].iface;
        let first = peer.tx_sequence;
        match post_am(lane, peer, id, words, &[payload]) {
            Ok(()) => {
                let _ = peer.note_posted(first, None);
            }
            Err(PostError::NoResource) => {
                let payload = self.engine.attendance.payload(payload);
                self.wait_for_room(index, Pending::Control { id, words, payload });
            }
            Err(error) => {
                let _ = self.refused(index, error);
            }
        }
    }

    /// Sends what the short path could not: decides the protocol, and makes a request when the
    /// message cannot be handed to the lane at once.
    #[inline(never)]
    pub(crate) fn send_slow(
        &mut self,
        index: PeerIndex,
        kind: SendKind,
        front: &[u8],
        mut buffer: SendBuf,
        synchronous: bool,
    ) -> Result<Sent, OpError> {
        if !synchronous && front.is_empty() && self.sent_at_once(index, &kind, &buffer) {
            return Ok(Sent::Done);
        }
        self.ready(index)?;
        if self.engine.peers[index as usize].end.is_some() {
            return Err(OpError::EndpointClosed);
        }
        let length = front.len() + buffer.len();
        let peer = &mut self.engine.peers[index as usize];
        let Lane { iface: lane, choices, .. } = &mut self.lanes[peer.lane as usize];
        let lane = &mut **lane;
        let max_bcopy = lane.attr().limits.am.max_bcopy;
        let mut in_credit = length <= INLINE || peer.credit >= length as i64;
        let (able, table) = match &kind {
            SendKind::Tagged(_) => (true, &choices.tag_send),
            SendKind::Am { .. } => {
                let limit = am::max_header(max_bcopy);
                if front.len() > limit {
                    return Err(OpError::HeaderTooLong { limit: limit as u64 });
                }
                let takes = peer.address.features & AM_RENDEZVOUS != 0;
                (takes && !buffer.is_empty(), &choices.am_send)
            }
            SendKind::Stream => {
                if peer.address.features & STREAMS == 0 {
                    return Err(OpError::Unsupported);
                }
                if length == 0 {
                    return Ok(Sent::Done);
                }
                let parked = self.engine.streams.get_mut(index);
                peer.streams = parked.is_none_or(|stream| stream.parked.is_empty());
                in_credit = peer.streams && peer.credit > 0;
                (length <= stream::MAX_REMOTE, &choices.stream_send)
            }
        };
        let protocol = table.pick(length as u64);
        let chosen = protocol.is_some_and(Protocol::is_rendezvous);
        // A stream waits for credit: its bytes would be offered in ever smaller parts.
        let is_stream = matches!(kind, SendKind::Stream);
        let rendezvous = able && (chosen || !in_credit && !is_stream);
        let knows = peer.address.features & PIECES != 0;
        if rendezvous && !knows && buffer.shape() != Shape::Whole {
            return Err(OpError::Unsupported);
        }
        if !chosen && !in_credit {
            self.engine.counters.credit_exhausted += 1;
        }
        let whole = length <= max_bcopy && !synchronous && !rendezvous && in_credit;
        let most = lane.attr().limits.am.max_iov;
        let lent = protocol == Some(Protocol::EagerZcopy)
            && whole
            && front.is_empty()
            && !is_stream
            && pack::is_lent(&buffer, most);
        let behind = matches!(kind, SendKind::Am { .. })
            && self.engine.streams.get_mut(index).is_some_and(|s| !s.parked_ams.is_empty());
        if whole && !lent && !behind && peer.pending.is_empty() {
            let (id, _, words) = kind.eager(front.len());
            let number = peer.tx_sequence;
            match post_message(lane, peer, id, words, &[front], &mut buffer) {
                Ok(()) => {
                    if peer.note_posted(number, kind.envelope()) {
                        self.engine.actions.push(Action::Resume(index));
                    }
                    if length > INLINE || is_stream {
                        peer.credit -= length as i64;
                    }
                    self.engine.counters.sent_bcopy += 1;
                    return Ok(Sent::Done);
                }
                Err(PostError::NoResource) => {}
                Err(error) => {
                    return match self.refused(index, error) {
                        Post::Failed(error) => Err(error),
                        _ => Err(OpError::Unsupported),
                    };
                }
            }
        }
        let phase = SendPhase::Queued { offset: 0, message: 0 };
        let front = front.to_vec();
        let answer = Ok(());
        let send = Send {
            buffer,
            peer: index,
            kind,
            front,
            synchronous,
            rendezvous,
            lent,
            take_back: false,
            answer,
            answered: false,
            help: None,
            put: None,
            exposed: None,
            phase,
        };
        let key = request::begin(&mut self.engine.requests, Body::Send(Box::new(send)));
        let peer = &mut self.engine.peers[index as usize];
        if !peer.pending.is_empty() {
            peer.pending.push_back(Pending::Send(key));
            return Ok(Sent::Pending(RequestId(key)));
        }
        match self.post(key) {
            Post::Complete => self.sent(key),
            Post::Awaiting => {}
            Post::Blocked => {
                self.engine.counters.send_waited += 1;
                self.wait_for_room(index, Pending::Send(key));
            }
            Post::Starved => {
                self.engine.counters.credit_exhausted += 1;
                self.park_am(index, key);
            }
            Post::Failed(error) => {
                self.engine.fail(key, error);
                request::end(&mut self.engine.requests, key);
                self.act();
                return Err(error);
            }
        }
        Ok(Sent::Pending(RequestId(key)))
    }

    /// Sends a message that is longer than what counts as part of its envelope, and yet goes in one
    /// call of the transport: nothing has to be decided but whether its credit is there. Whether it
    /// was sent; else nothing has happened.
    fn sent_at_once(&mut self, index: PeerIndex, kind: &SendKind, buffer: &SendBuf) -> bool {
        let Some(peer) = self.engine.peers.get_mut(index as usize) else { return false };
        let lane = &mut self.lanes[peer.lane as usize];
        // Below 0: the peer is not ready, something waits for it, or it announces receives.
        let free = peer.short_limit >= 0;
        let Some(bytes) = buffer.short(lane.at_once).filter(|_| free) else { return false };
        let credit = bytes.len() as i64;
        let is_stream = matches!(kind, SendKind::Stream);
        if peer.credit < credit || is_stream && (!peer.streams || bytes.is_empty()) {
            return false;
        }
        let (id, _, words) = kind.eager(0);
        let header = header(words, peer.tx_sequence);
        if lane.iface.am_short(peer.ep, id, &header, bytes).is_err() {
            return false;
        }
        peer.number();
        if is_stream || bytes.len() > INLINE {
            peer.credit -= credit;
        }
        let counters = &mut self.engine.counters;
        *match kind {
            SendKind::Tagged(_) => &mut counters.sent_short,
            SendKind::Am { .. } => &mut counters.am_short,
            SendKind::Stream => &mut counters.stream_short,
        } += 1;
        true
    }

    /// Moves a send request as far as the lane takes it.
    fn post(&mut self, key: Key) -> Post {
        let Some(request) = self.engine.requests.get_mut(key) else {
            return Post::Awaiting;
        };
        if request.done {
            return Post::Awaiting;
        }
        let Body::Send(send) = &mut request.body else {
            return Post::Awaiting;
        };
        let index = send.peer;
        let peer = &mut self.engine.peers[index as usize];
        let lane = &mut *self.lanes[peer.lane as usize].iface;
        let counters = &mut self.engine.counters;
        let untouched = matches!(send.phase, SendPhase::Queued { message: 0, .. });
        let is_am = matches!(send.kind, SendKind::Am { .. });
        if untouched && is_am {
            let knows = |bit| peer.address.features & bit != 0;
            let starved = |send: &Send| send.unasked() > INLINE && peer.credit <= 0;
            let offered = knows(AM_RENDEZVOUS)
                && !send.buffer.is_empty()
                && (knows(PIECES) || send.buffer.shape() == Shape::Whole);
            if starved(send) && offered {
                // There was credit when it was sent.
                send.rendezvous = true;
            }
            let stream = self.engine.streams.get_mut(index);
            if starved(send) || stream.is_some_and(|stream| !stream.parked_ams.is_empty()) {
                return Post::Starved;
            }
        }
        let queued = matches!(send.phase, SendPhase::Queued { .. });
        let is_stream = matches!(send.kind, SendKind::Stream) && queued;
        let streams = &mut self.engine.streams;
        let mut park = |peer: &mut Peer| {
            peer.streams = false;
            streams.make(index).parked.push_back(key);
            Post::Awaiting
        };
        if is_stream && !peer.streams {
            return park(peer);
        }
        let envelope = match send.kind {
            SendKind::Tagged(envelope) if untouched => Some(envelope),
            _ => None,
        };
        let first = peer.tx_sequence;
        let taken = envelope
            .filter(|_| send.rendezvous && peer.has_offers() && pack::is_written(&send.buffer))
            .and_then(|envelope| Some((rtr::take(peer, send, &envelope, key)?, envelope)));
        let result = match send.phase {
            SendPhase::Queued { .. } if is_stream && !send.rendezvous => {
                match stream::post_pieces(lane, peer, send) {
                    Ok(Pieces::All) => Ok(true),
                    Ok(Pieces::Starved) => return park(peer),
                    Err(error) => Err(error),
                }
            }
            SendPhase::Queued { .. } if send.rendezvous => {
                if let Some(((payload, _), envelope)) = &taken {
                    let [first, second, _] = wire::tagged(envelope, 0);
                    post_am(lane, peer, wire::RTR, [first, second], &[payload]).map(|()| false)
                } else {
                    let offered = offer(lane, peer, send, key, self.engine.options.rndv_scheme);
                    counters.sent_rndv += u64::from(offered.is_ok());
                    offered
                }
            }
            SendPhase::Queued { offset, message } => {
                Eager { lane, peer, send, key }.post(offset, message, counters)
            }
            SendPhase::Streaming { .. } => stream(lane, peer, send),
            SendPhase::Offered | SendPhase::Putting | SendPhase::Lent => Ok(false),
        };
        if send.take_back && send.phase == SendPhase::Offered {
            self.engine.actions.push(Action::AskBack(key));
        }
        if peer.note_posted(first, envelope.as_ref()) {
            self.engine.actions.push(Action::Resume(index));
        }
        if let Some(((_, put), _)) = taken
            && result.is_ok()
        {
            self.begin_taken(key, put);
        }
        match result {
            Ok(true) => Post::Complete,
            Ok(false) => Post::Awaiting,
            Err(error) => self.refused(index, error),
        }
    }

    /// The receiver asked for fragments.
    pub(crate) fn stream(&mut self, key: Key) {
        let Some(Request { body: Body::Send(send), .. }) = self.engine.requests.get(key) else {
            return;
        };
        let index = send.peer;
        let peer = &mut self.engine.peers[index as usize];
        peer.pending.push_back(Pending::Send(key));
        if peer.pending.len() == 1 {
            self.resume(index);
        }
    }

    /// Gives eager credit back, and more of it while the budget lasts.
    pub(crate) fn give_credit(&mut self, index: PeerIndex) {
        let engine = &mut self.engine;
        let Some(peer) = engine.peers.get_mut(index as usize) else {
            return;
        };
        let mut bytes = std::mem::take(&mut peer.taken);
        let growth = engine.options.share - engine.options.share_first;
        if !peer.share_grown && growth > 0 && engine.budget >= growth {
            peer.share_grown = true;
            engine.budget -= growth;
            bytes += growth as u64;
        }
        if bytes > 0 {
            self.control_now(index, wire::CREDIT, [bytes, 0]);
        }
    }

    /// Sends a control message in front of what waits. Sends that wait for credit would otherwise
    /// keep the peer's credit from it, and two such peers each other.
    fn control_now(&mut self, index: PeerIndex, id: AmId, words: [u64; 2]) {
        if self.ready(index).is_err() {
            return;
        }
        let peer = &mut self.engine.peers[index as usize];
        if matches!(peer.pending.front(), Some(Pending::Control { id: wire::HELLO, .. })) {
            // Nothing goes before the greeting.
            let payload = Vec::new();
            return peer.pending.push_back(Pending::Control { id, words, payload });
        }
        let lane = &mut *self.lanes[peer.lane as usize].iface;
        match post_am(lane, peer, id, words, &[]) {
            Ok(()) => {}
            Err(PostError::NoResource) => {
                self.wait_for_room(index, Pending::Control { id, words, payload: Vec::new() });
            }
            Err(error) => {
                let _ = self.refused(index, error);
            }
        }
    }
}

impl SendKind {
    /// What a tagged message says of itself.
    const fn envelope(&self) -> Option<&Envelope> {
        match self {
            Self::Tagged(envelope) => Some(envelope),
            Self::Am { .. } | Self::Stream => None,
        }
    }

    /// How a message goes eagerly: the id of a whole one, that of a first piece, the words of both.
    fn eager(&self, header: usize) -> (AmId, AmId, [u64; 2]) {
        match self {
            Self::Tagged(envelope) => {
                let [first, second, _] = wire::tagged(envelope, 0);
                (wire::EAGER, wire::EAGER_FIRST, [first, second])
            }
            Self::Am { id } => (wire::AM, wire::AM_FIRST, [u64::from(*id), header as u64]),
            Self::Stream => (wire::STREAM, wire::STREAM, [0, 0]),
        }
    }
}

impl Send {
    /// Bytes that the peer has to take without having asked for them.
    fn unasked(&self) -> usize {
        self.front.len() + if self.rendezvous { 0 } else { self.buffer.len() }
    }
}

/// Posts the envelope of a message that the receiver fetches.
fn offer(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    send: &mut Send,
    key: Key,
    scheme: RndvScheme,
) -> Result<bool, PostError> {
    let (address, length) = (pack::address(&send.buffer), send.buffer.len());
    let (request, mut rkey) = (key.to_wire(), [0; MAX_RKEY]);
    let whole = send.buffer.shape() == Shape::Whole;
    let rkey_len = match lane.rkey_of(address, length, &mut rkey) {
        _ if !whole => 0,
        Some(len) => len as u8,
        None if scheme.reads_nothing(can_land(lane.attr().caps, peer)) => 0,
        None => expose(lane, send, &mut rkey),
    };
    let rts = Rts { request, length: length as u64, address, rkey, rkey_len };
    let mut payload = [0; Rts::FIXED + MAX_RKEY];
    let n = rts.pack(&mut payload);
    match send.kind {
        SendKind::Tagged(envelope) => {
            let [first, second, _] = wire::tagged(&envelope, 0);
            post_am(lane, peer, wire::RTS, [first, second], &[&payload[..n]])?;
        }
        SendKind::Stream => post_am(lane, peer, wire::STREAM_RTS, [0, 0], &[&payload[..n]])?,
        SendKind::Am { id } => {
            let envelope = AmEnvelope { id, rts: n as u16, header: send.front.len() as u32 };
            post_am(lane, peer, wire::AM_RTS, envelope.words(), &[&payload[..n], &send.front])?;
        }
    }
    if send.unasked() > INLINE {
        peer.credit -= send.unasked() as i64;
    }
    send.phase = SendPhase::Offered;
    Ok(false)
}

/// Lends the buffer to the peer's reads, where the lane does that. Returns the length of the key in
/// `out`; without one, the receiver asks for fragments if it cannot read on its own.
fn expose(lane: &mut dyn Iface, send: &mut Send, out: &mut [u8; MAX_RKEY]) -> u8 {
    if !lane.attr().caps.contains(Caps::EXPOSE) {
        return 0;
    }
    if send.exposed.is_none() {
        let all = LocalSlice::of_send(&send.buffer, 0, send.buffer.len());
        send.exposed = all.and_then(|all| lane.mem_expose(all).ok());
    }
    let key = send.exposed.and_then(|memory| lane.rkey_pack(memory).ok()).unwrap_or_default();
    match out.get_mut(..key.len()) {
        Some(place) => {
            place.copy_from_slice(&key);
            key.len() as u8
        }
        None => 0,
    }
}

/// An eager send that is being posted.
struct Eager<'a> {
    lane: &'a mut dyn Iface,
    peer: &'a mut Peer,
    send: &'a mut Send,
    key: Key,
}

impl Eager<'_> {
    /// Posts the message, or the rest of it. `true` when nothing is awaited any more.
    fn post(
        &mut self,
        mut offset: u64,
        mut message: u64,
        counters: &mut Counters,
    ) -> Result<bool, PostError> {
        let length = self.send.front.len() + self.send.buffer.len();
        if message == 0 && self.send.lent {
            match self.lend(length) {
                Ok(posted) => {
                    counters.sent_zcopy += 1;
                    return Ok(posted == Posted::Done);
                }
                // What the transport says that it takes and does not is copied.
                Err(PostError::Unsupported | PostError::TooLong | PostError::BadArgument) => {
                    self.send.lent = false;
                }
                Err(error) => return Err(error),
            }
        }
        if message == 0 {
            (offset, message) = self.begin(length, counters)?;
            if length > INLINE {
                self.peer.credit -= length as i64;
            }
            self.send.phase = SendPhase::Queued { offset, message };
        }
        let max = self.lane.attr().limits.am.max_bcopy;
        while (offset as usize) < length {
            let header = header([message, offset], self.peer.tx_sequence);
            let Send { front, buffer, .. } = &mut *self.send;
            let left = (length - offset as usize).min(max);
            let mut pack = |out: View<'_>| pack::message(front, buffer, offset as usize, left, out);
            let n = self.lane.am_bcopy(self.peer.ep, wire::PIECE, &header, left, &mut pack)?;
            self.peer.number();
            offset += n as u64;
            self.send.phase = SendPhase::Queued { offset, message };
        }
        if self.send.synchronous {
            self.send.phase = SendPhase::Offered;
        }
        Ok(!self.send.synchronous)
    }

    /// Posts the message from where it lies.
    fn lend(&mut self, length: usize) -> Result<Posted, PostError> {
        let Self { lane, peer, send, key } = self;
        let (id, _, words) = send.kind.eager(0);
        let mut runs = [LocalSlice::EMPTY; RUNS];
        let (count, bytes) = LocalSlice::runs_of_send(&send.buffer, 0, length, &mut runs);
        if bytes != length {
            return Err(PostError::BadArgument);
        }
        let header = header(words, peer.tx_sequence);
        let posted = lane.am_zcopy(peer.ep, id, &header, &runs[..count], token(*key))?;
        peer.number();
        if length > INLINE {
            peer.credit -= length as i64;
        }
        send.phase = SendPhase::Lent;
        Ok(posted)
    }

    /// Posts the message whole, or its first piece. Returns how much went, and its number.
    fn begin(&mut self, length: usize, counters: &mut Counters) -> Result<(u64, u64), PostError> {
        let Self { lane, peer, send, key } = self;
        let (single, first_of_many, words) = send.kind.eager(send.front.len());
        let max = lane.attr().limits.am.max_bcopy;
        let Send { front: lead, buffer, synchronous, .. } = &mut **send;
        let (synchronous, whole) = (*synchronous, length as u64);
        if synchronous && length + 8 <= max {
            let request = key.to_wire().to_le_bytes();
            post_message(*lane, peer, wire::EAGER_SYNC, words, &[&request, lead], buffer)?;
            return Ok((whole, u64::MAX));
        }
        if !synchronous && length <= max {
            post_message(*lane, peer, single, words, &[lead], buffer)?;
            counters.sent_bcopy += 1;
            return Ok((whole, u64::MAX));
        }
        let request = if synchronous { key.to_wire() } else { 0 };
        let message = peer.next_message;
        let front = FirstPiece { message, total: whole, request }.pack();
        let header = header(words, peer.tx_sequence);
        let mut packed = 0;
        let mut pack = |out: View<'_>| {
            let at = out.copy_in(&front);
            let room = out.slice(at, out.len() - at).unwrap_or(View::empty());
            packed = pack::message(lead, buffer, 0, length, room);
            at + packed
        };
        lane.am_bcopy(peer.ep, first_of_many, &header, max, &mut pack)?;
        peer.number();
        peer.next_message += 1;
        counters.sent_multi += 1;
        Ok((packed as u64, message))
    }
}

/// Posts fragments for a receiver that could not fetch.
fn stream(lane: &mut dyn Iface, peer: &mut Peer, send: &mut Send) -> Result<bool, PostError> {
    let max = lane.attr().limits.am.max_bcopy;
    while let SendPhase::Streaming { remote, wanted, offset } = send.phase {
        if offset >= wanted {
            break;
        }
        let left = (wanted - offset).min(max as u64) as usize;
        let header = header([remote, offset], peer.tx_sequence);
        let buffer = &mut send.buffer;
        let mut pack = |out: View<'_>| pack::message(&[], buffer, offset as usize, left, out);
        let n = lane.am_bcopy(peer.ep, wire::FRAGMENT, &header, left, &mut pack)?;
        peer.number();
        send.phase = SendPhase::Streaming { remote, wanted, offset: offset + n as u64 };
    }
    Ok(true)
}
