//! Sending: which protocol a message takes, and how far it comes.
//!
//! Everything to one peer goes in order over one lane. `post` moves a send request as far as the
//! lane takes it; what is left waits in the peer's `pending` queue (see `queue`), and everything
//! newer behind it.

mod control;
mod offer;
mod queue;
mod stream;

use bowline_base::buffer::{MemoryLayout, SendBuf};
use bowline_base::slab::Key;
use bowline_uct::PostError;

use crate::action::Action;
use crate::address::{AM_RENDEZVOUS, PIECES, STREAMS};
use crate::engine::Inner;
use crate::error::OpError;
use crate::lanes::Lane;
use crate::matching::Envelope;
use crate::measured;
use crate::pack;
use crate::peer::{Ep, Peer, PeerIndex, Pending};
use crate::post::{self, Post};
use crate::proto::eager::EagerSend;
use crate::protocol::{SendStep, eager};
use crate::request::{self, Body, RequestId, Send, SendKind, SendPhase, Sent};
use crate::state::stream::MAX_REMOTE;
use crate::unexpected::INLINE;
use crate::wire;

use offer::{has_key, offer};
use stream::Pieces;

impl Inner {
    /// Sends what the short path could not: decides the protocol, and makes a request when the
    /// message cannot be handed to the lane at once.
    #[inline(never)]
    pub(crate) fn send_slow(
        &mut self,
        ep: Ep,
        kind: SendKind,
        header: &[u8],
        mut buffer: SendBuf,
        synchronous: bool,
    ) -> Result<Sent, OpError> {
        let index = self.engine.index_of(ep)?;
        if !synchronous && header.is_empty() && self.long_at_once(index, kind, &buffer) {
            return Ok(Sent::Done);
        }
        if self.engine.peers[index as usize].watches.note() {
            self.before_send(index, &kind, buffer.len());
        }
        self.ready(index)?;
        if self.engine.peers[index as usize].end.is_some() {
            return Err(OpError::EndpointClosed);
        }
        let length = header.len() + buffer.len();
        let peer = &mut self.engine.peers[index as usize];
        let Lane { iface: lane, choices, .. } = &mut self.lanes[peer.lane as usize];
        let lane = &mut **lane;
        let max_bcopy = lane.attr().limits.am.max_bcopy;
        let mut in_credit = length <= INLINE || peer.credit >= length as i64;
        let (able, table) = match &kind {
            SendKind::Tagged(_) => (true, &choices.tag_send),
            SendKind::Am { .. } => {
                let limit = wire::max_am_header(max_bcopy);
                if header.len() > limit {
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
                (length <= MAX_REMOTE, &choices.stream_send)
            }
        };
        let protocol = table.pick(length as u64);
        let mut chosen = protocol.is_some_and(|protocol| protocol.rendezvous);
        let mut marks = None;
        if length > max_bcopy && able {
            let (bytes, address) = (buffer.len() as u64, pack::address(&buffer));
            let meter = &self.engine.meter;
            let selected = measured::selected_for(peer, meter, kind.message(), bytes, address);
            // What others took says nothing of memory with a key of its own. Pieces of a stream that callbacks pack are not measured.
            let packed =
                matches!(kind, SendKind::Stream) && buffer.shape() == MemoryLayout::Callbacks;
            chosen = match selected.offered {
                Some(offered) if !has_key(lane, &buffer) && !packed => offered,
                _ => chosen,
            };
            marks = selected.marks;
        }
        // A stream waits for credit: its bytes would be offered in ever smaller parts.
        let is_stream = matches!(kind, SendKind::Stream);
        let rendezvous = able && (chosen || !in_credit && !is_stream);
        let knows = peer.address.features & PIECES != 0;
        if rendezvous && !knows && buffer.shape() != MemoryLayout::Whole {
            return Err(OpError::Unsupported);
        }
        if !chosen && !in_credit {
            self.engine.counters.credit_exhausted += 1;
        }
        let passes = peer.watches.let_pass(kind.envelope(), length as u64);
        let whole = length <= max_bcopy && !synchronous && !rendezvous && in_credit;
        let most = lane.attr().limits.am.max_iov;
        let lent = protocol == Some(&eager::ZCOPY)
            && whole
            && header.is_empty()
            && !is_stream
            && pack::is_lent(&buffer, most);
        let behind = matches!(kind, SendKind::Am { .. })
            && self.engine.streams.get_mut(index).is_some_and(|s| !s.parked_ams.is_empty());
        if whole && passes && !lent && !behind && peer.pending.is_empty() {
            let (id, _, words) = kind.eager(header.len());
            let number = peer.tx_sequence;
            match post::message(lane, peer, id, words, [header, &[]], &mut buffer) {
                Ok(()) => {
                    peer.note_posted(number, kind.envelope());
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
        let phase = SendPhase::Queued { offset: 0 };
        let header = header.to_vec();
        let send = Send {
            buffer,
            peer: index,
            kind,
            header,
            synchronous,
            rendezvous,
            lent,
            marks,
            cancel_wanted: false,
            exposed: None,
            phase,
        };
        let key = request::begin(&mut self.engine.requests, Body::Send(Box::new(send)));
        let peer = &mut self.engine.peers[index as usize];
        if !peer.pending.is_empty() {
            peer.queue(Pending::Send(key));
            return Ok(Sent::Pending(RequestId(key)));
        }
        match self.post(key) {
            Post::Complete => self.sent(key),
            Post::Awaiting => {}
            Post::Blocked => {
                self.engine.counters.send_waited += 1;
                self.wait_until_writable(index, Pending::Send(key));
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

    /// The short path: sends a message that goes in one call of the transport, if nothing waits before it.
    /// Whether it was sent; else nothing has happened.
    #[inline(always)]
    pub(crate) fn send_at_once(&mut self, ep: Ep, kind: SendKind, buffer: &SendBuf) -> bool {
        if let Some(peer) = self.engine.peers.get_mut(ep.index() as usize)
            && let Some(bytes) = buffer.short(peer.short_limit())
            && peer.name == ep
        {
            let lane = &mut *self.lanes[peer.lane as usize].iface;
            return post::eager(lane, peer, kind, bytes, false, &mut self.engine.counters);
        }
        false
    }

    /// The same for a message that is longer than what counts as part of its envelope: its credit must be
    /// there.
    fn long_at_once(&mut self, index: PeerIndex, kind: SendKind, buffer: &SendBuf) -> bool {
        let Some(peer) = self.engine.peers.get_mut(index as usize) else { return false };
        let Lane { iface, at_once, .. } = &mut self.lanes[peer.lane as usize];
        let open = peer.short_limit() >= 0;
        let Some(bytes) = buffer.short(*at_once).filter(|_| open) else { return false };
        post::eager(&mut **iface, peer, kind, bytes, true, &mut self.engine.counters)
    }

    /// Moves a send request as far as the lane takes it.
    fn post(&mut self, key: Key) -> Post {
        self.post_as(key, true)
    }

    /// The same. `checked`: whether protocols are shown the message first, where they check what goes to the peer.
    pub(crate) fn post_as(&mut self, key: Key, checked: bool) -> Post {
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
        let untouched = matches!(send.phase, SendPhase::Queued { offset: 0 });
        let is_am = matches!(send.kind, SendKind::Am { .. });
        let is_tagged = matches!(send.kind, SendKind::Tagged(_));
        let knows = |bit| peer.address.features & bit != 0;
        let unasked = send.unasked();
        if untouched
            && unasked > INLINE
            && peer.credit < unasked as i64
            && (knows(PIECES) || send.buffer.shape() == MemoryLayout::Whole)
            && (is_tagged || is_am && knows(AM_RENDEZVOUS) && !send.buffer.is_empty())
        {
            // There was credit when it was sent, and others that waited in front of it have used that.
            send.rendezvous = true;
        }
        if untouched && is_am {
            let starved = |send: &Send| send.unasked() > INLINE && peer.credit <= 0;
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
        if untouched && checked && peer.watches.check() {
            return self.post_checked(key);
        }
        let first = peer.tx_sequence;
        let result = match send.phase {
            SendPhase::Queued { .. } if is_stream && !send.rendezvous => {
                match stream::pieces(lane, peer, send) {
                    Ok(Pieces::All) => Ok(SendStep::Complete),
                    Ok(Pieces::Starved) => return park(peer),
                    Err(error) => Err(error),
                }
            }
            SendPhase::Queued { .. } if send.rendezvous => {
                let offered = offer(lane, peer, send, key, self.engine.options.rndv_scheme);
                counters.sent_rndv += u64::from(offered.is_ok());
                offered
            }
            SendPhase::Queued { .. } => {
                let kept = &mut self.engine.protocols.kept;
                EagerSend { lane, peer, send, key }.post(kept, counters)
            }
            SendPhase::Moving(ref mut sender) => {
                sender.post(lane, peer, &send.header, &mut send.buffer)
            }
            SendPhase::Offered => Ok(SendStep::Offered),
        };
        if result == Ok(SendStep::Offered)
            && let SendPhase::Moving(sender) = send.end_phase()
        {
            self.engine.protocols.retire(sender);
        }
        if send.cancel_wanted && matches!(send.phase, SendPhase::Offered) {
            self.engine.actions.push(Action::PostSendCancel(key));
        }
        peer.note_posted(first, envelope.as_ref());
        match result {
            Ok(SendStep::Complete) => Post::Complete,
            Ok(SendStep::Moving | SendStep::Offered) => Post::Awaiting,
            Err(error) => self.refused(index, error),
        }
    }

    /// Shows a message to protocols, and posts it if none of them takes it.
    #[cold]
    fn post_checked(&mut self, key: Key) -> Post {
        for at in 0..self.engine.protocols.lives.len() {
            if let Some(post) = self.engine.protocols.lives[at].before_post(self, key) {
                return post;
            }
        }
        self.post_as(key, false)
    }

    /// A message of `length` bytes is about to be sent to a peer at which protocols note what is posted.
    #[cold]
    fn before_send(&mut self, index: PeerIndex, kind: &SendKind, length: usize) {
        for at in 0..self.engine.protocols.lives.len() {
            self.engine.protocols.lives[at].before_send(self, index, kind, length);
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
}

impl Send {
    /// Bytes that the peer has to take without having asked for them.
    fn unasked(&self) -> usize {
        self.header.len() + if self.rendezvous { 0 } else { self.buffer.len() }
    }
}
