//! Streams: the bytes that one worker sends to another, in order and without boundaries.
//!
//! ```text
//!   stream_send ─┬─ short, or in pieces while credit lasts ─► STREAM ──────┐
//!                └─ long ─────────────────────────────────► STREAM_RTS ──┤
//!                                                                        ▼
//!   stream_recv ─► receives, oldest first ◄── filled from ── chunks: here, or with the sender
//!   stream_recv_data ◄────────────────────────────────────── the first chunk
//! ```
//! Rules. (1) A byte takes its place in the stream when the message that brings it, or its
//! envelope, arrives: a peer's messages come in order. (2) A receive is filled from the first chunk
//! on, and nothing else while it is the oldest; it completes with a multiple of its unit, as soon as
//! it has one, or full if it waits for all. (3) A chunk that lies with its sender is read straight
//! into the receive if it is the whole of what the receive gets, else into memory of the engine
//! first; meanwhile the stream waits. (4) Every byte of a STREAM message uses the sender's credit,
//! however few they are, and the receiver gives it back when its user has taken it: a receiver that
//! does not read holds a bounded amount. A send without credit leaves the queue of what waits for
//! its peer's lane, so that it keeps nothing else back, and later sends of the stream stand behind
//! it. (5) What came before a peer's end can be received after it; then receives fail.

use std::collections::VecDeque;

use bowline_base::buffer::{RecvBuf, SendBuf, Shape};
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{Iface, PostError};

use crate::engine::Engine;
use crate::error::OpError;
use crate::matching::{Envelope, ItemId};
use crate::pack;
use crate::peer::{Ep, Peer, PeerIndex, Pending, header};
use crate::request::{self, Body, Receive, RequestId, Requests, Send, SendKind, SendPhase, Status};
use crate::rooms::Rooms;
use crate::tagged::Sent;
use crate::wire::{self, Rts};
use crate::worker::{Inner, Worker};

/// Data that waits is joined to what waits before it up to this many bytes.
const JOINED: usize = 64 << 10;

/// Longest send that goes as an envelope: its receiver may need as much memory. Longer ones go in
/// pieces.
pub(crate) const MAX_REMOTE: usize = 1 << 30;

/// What an envelope that waits costs.
const ENVELOPE: u64 = 160;

/// How much a receive of a stream wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamWant {
    /// Bytes of an element: a receive gets whole ones, and its room is a multiple of it.
    pub unit: usize,
    /// Whether it waits until its room is full.
    pub all: bool,
}

impl StreamWant {
    /// Any number of bytes but none.
    pub const SOME: Self = Self { unit: 1, all: false };
    /// As many bytes as there is room.
    pub const ALL: Self = Self { unit: 1, all: true };

    /// Bytes of the whole units in `n`. A division takes as long as the copy of a short message.
    const fn whole(self, n: usize) -> usize {
        if self.unit == 1 { n } else { n - n % self.unit }
    }
}

/// How far a receive of a stream came in its call.
#[derive(Debug)]
#[must_use]
pub enum StreamReceived {
    /// Complete, with so many bytes.
    Done(u64, RecvBuf),
    /// Under way; `length` of its status will be the number of bytes.
    Pending(RequestId),
}

/// A receive that waits for its bytes.
#[derive(Debug)]
pub(crate) struct StreamReceive {
    pub(crate) buffer: RecvBuf,
    pub(crate) peer: PeerIndex,
    want: StreamWant,
    filled: usize,
}

impl StreamReceive {
    const fn room(&self) -> usize {
        self.buffer.len() - self.filled
    }

    /// How many of `available` bytes it takes now.
    const fn takes(&self, available: usize) -> usize {
        let n = if available < self.room() { available } else { self.room() };
        if self.want.all { n } else { self.want.whole(n) }
    }

    const fn is_complete(&self) -> bool {
        self.room() == 0 || self.filled > 0 && !self.want.all
    }
}

/// A part of a stream that nobody has taken.
#[derive(Debug)]
enum Chunk {
    /// Bytes from the given place on.
    Here(Vec<u8>, usize),
    /// With the sender.
    There(Box<Rts>),
}

/// What a worker knows of its stream with a peer.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    chunks: VecDeque<Chunk>,
    receives: VecDeque<Key>,
    /// The receive into which a chunk is being read, and whether it is one of the engine's own.
    fetching: Option<(Key, bool)>,
    /// Sends without credit.
    pub(crate) parked: VecDeque<Key>,
    /// Active messages without credit, and those behind them: the bytes of a stream may hold all of it,
    /// and what lets their reader go on must not stand behind a message that waits for that.
    pub(crate) parked_ams: VecDeque<Key>,
    /// Why nothing can be received behind the chunks.
    error: Option<OpError>,
    /// It stands in the list of those that have data.
    listed: bool,
    /// Among its receives is one of nothing, or was since there was none.
    wants_nothing: bool,
}

impl Stream {
    /// Bytes that are here in front of the first chunk that is not.
    fn available(&self) -> usize {
        let here = self.chunks.iter().map_while(|chunk| match chunk {
            Chunk::Here(bytes, from) => Some(bytes.len() - from),
            Chunk::There(_) => None,
        });
        here.sum()
    }

    /// Moves `count` bytes that are here to `buffer` from `at` on.
    fn drain(&mut self, mut count: usize, buffer: &mut RecvBuf, mut at: usize, rooms: &mut Rooms) {
        while count > 0 {
            let Some(Chunk::Here(bytes, from)) = self.chunks.front_mut() else { return };
            let n = count.min(bytes.len() - *from);
            buffer.write_at(at, &bytes[*from..*from + n]);
            (at, count) = (at + n, count - n);
            *from += n;
            if *from == bytes.len()
                && let Some(Chunk::Here(bytes, _)) = self.chunks.pop_front()
            {
                rooms.keep(bytes);
            }
        }
    }

    fn add(&mut self, data: View<'_>, rooms: &mut Rooms) {
        if data.is_empty() {
            return;
        }
        if let Some(Chunk::Here(bytes, _)) = self.chunks.back_mut()
            // An empty one keeps the place of what is being read.
            && !bytes.is_empty()
            && bytes.len() + data.len() <= JOINED
        {
            data.append_to(bytes);
            return;
        }
        self.chunks.push_back(Chunk::Here(rooms.filled(data), 0));
    }

    /// Whether anything waits to be received.
    fn has_data(&self) -> bool {
        !self.chunks.is_empty() && self.fetching.is_none()
    }
}

/// All streams of a worker.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    by_peer: Vec<Option<Box<Stream>>>,
    /// Chunks that are being read.
    pub(crate) fetches: usize,
    /// Peers whose streams have, or had, data.
    ready: VecDeque<PeerIndex>,
}

impl Streams {
    #[inline]
    pub(crate) fn get_mut(&mut self, peer: PeerIndex) -> Option<&mut Stream> {
        self.by_peer.get_mut(peer as usize)?.as_deref_mut()
    }

    #[inline]
    pub(crate) fn make(&mut self, peer: PeerIndex) -> &mut Stream {
        let index = peer as usize;
        if index >= self.by_peer.len() {
            self.by_peer.resize_with(index + 1, || None);
        }
        self.by_peer[index].get_or_insert_default()
    }

    fn list(&mut self, peer: PeerIndex) {
        let stream = self.make(peer);
        if stream.has_data() && !std::mem::replace(&mut stream.listed, true) {
            self.ready.push_back(peer);
        }
    }
}

impl Worker {
    /// Appends `buffer` to the stream to `ep`. Complete means that the buffer is free.
    ///
    /// # Errors
    /// When the peer has failed, cannot be reached or is of a version without streams.
    #[inline]
    pub fn stream_send(&self, ep: Ep, buffer: SendBuf) -> Result<Sent, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(peer) = inner.engine.peers.get_mut(ep.0 as usize)
            && let Some(bytes) = buffer.short(peer.short_limit)
            && peer.streams
            && peer.credit > 0
        {
            let words = wire::control(0, 0, peer.tx_sequence);
            let lane = &mut inner.lanes[peer.lane as usize].iface;
            if lane.am_short(peer.ep, wire::STREAM, &words, bytes).is_ok() {
                peer.number();
                peer.credit -= bytes.len() as i64;
                inner.engine.counters.stream_short += 1;
                return Ok(Sent::Done);
            }
        }
        inner.send_slow(ep.0, SendKind::Stream, &[], buffer, false)
    }

    /// Receives bytes of the stream from `ep` into `buffer`, in the order of the calls.
    ///
    /// # Errors
    /// When the room is no multiple of the unit, the stream has come to the end that its peer's
    /// failure made, or there is no such endpoint; and for a buffer of callbacks, which have no use
    /// for bytes without a begin.
    pub fn stream_recv(
        &self,
        ep: Ep,
        mut buffer: RecvBuf,
        want: StreamWant,
    ) -> Result<StreamReceived, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let engine = &mut inner.engine;
        let room = buffer.len();
        if buffer.shape() == Shape::Callbacks {
            return Err(OpError::Unsupported);
        }
        if want.unit == 0 || want.whole(room) != room {
            return Err(OpError::BadUnit { unit: want.unit as u64, room: room as u64 });
        }
        if engine.peers.get(ep.0 as usize).is_none() {
            return Err(OpError::BadEndpoint);
        }
        let stream = engine.streams.make(ep.0);
        if stream.receives.is_empty() && stream.fetching.is_none() {
            let available = stream.available();
            let n = available.min(room);
            let n = if want.all { n } else { want.whole(n) };
            if n == room || n > 0 && !want.all {
                stream.drain(n, &mut buffer, 0, &mut engine.stream_rooms);
                engine.give_back(ep.0, n);
                if !engine.actions.is_empty() {
                    inner.act();
                }
                return Ok(StreamReceived::Done(n as u64, buffer));
            }
        }
        // A peer that nothing connects to could end unnoticed. A failure is its state, seen below.
        let _ = inner.ready(ep.0);
        let engine = &mut inner.engine;
        let key = begin(&mut engine.requests, buffer, ep.0, want);
        let failed = engine.peers[ep.0 as usize].failure().is_some();
        let stream = engine.streams.make(ep.0);
        stream.wants_nothing = room == 0 || stream.wants_nothing && !stream.receives.is_empty();
        stream.receives.push_back(key);
        let dry = stream.chunks.is_empty() && stream.fetching.is_none();
        if dry && stream.error.is_none() && !failed && !stream.wants_nothing {
            // What most receives find that come before their bytes.
            if !engine.actions.is_empty() {
                inner.act();
            }
            return Ok(StreamReceived::Pending(RequestId(key)));
        }
        engine.feed_stream(ep.0);
        let failed = match engine.requests.get(key) {
            Some(request) if request.done && request.status.length == 0 => request.status.outcome,
            _ => Ok(()),
        };
        if failed.is_err() {
            request::end(&mut engine.requests, key);
        }
        inner.act();
        failed.map(|()| StreamReceived::Pending(RequestId(key)))
    }

    /// The next bytes of the stream from `ep` in the engine's own memory, which becomes the
    /// caller's; `None` when there are none yet, or receives that come first.
    ///
    /// # Errors
    /// When the stream has come to the end that its peer's failure made.
    pub fn stream_recv_data(&self, ep: Ep) -> Result<Option<Vec<u8>>, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let engine = &mut inner.engine;
        if engine.peers.get(ep.0 as usize).is_none() {
            return Err(OpError::BadEndpoint);
        }
        let stream = engine.streams.make(ep.0);
        if !stream.receives.is_empty() || stream.fetching.is_some() {
            return Ok(None);
        }
        if matches!(stream.chunks.front(), Some(Chunk::There(_))) {
            engine.fetch_chunk(ep.0, None);
            inner.act();
            return inner.engine.stream_end(ep.0).map_or(Ok(None), Err);
        }
        let Some(Chunk::Here(mut bytes, from)) = stream.chunks.pop_front() else {
            return engine.stream_end(ep.0).map_or(Ok(None), Err);
        };
        bytes.drain(..from);
        engine.give_back(ep.0, bytes.len());
        inner.act();
        Ok(Some(bytes))
    }

    /// Appends the endpoints whose streams have data that no receive waits for.
    pub fn stream_poll(&self, out: &mut Vec<Ep>) {
        let streams = &mut self.inner.borrow_mut().engine.streams;
        for _ in 0..streams.ready.len() {
            let Some(peer) = streams.ready.pop_front() else { return };
            let stream = streams.make(peer);
            if stream.chunks.is_empty() {
                stream.listed = false;
                continue;
            }
            if stream.has_data() {
                out.push(Ep(peer));
            }
            streams.ready.push_back(peer);
        }
    }
}

impl Inner {
    /// Rule 4: credit has come back to sends that were without.
    pub(crate) fn unpark(&mut self, index: PeerIndex) {
        let Some(stream) = self.engine.streams.get_mut(index) else { return };
        let (parked, ams) =
            (std::mem::take(&mut stream.parked), std::mem::take(&mut stream.parked_ams));
        let (requests, peer) = (&self.engine.requests, &mut self.engine.peers[index as usize]);
        peer.streams = true;
        // Sends of a kind that wait for room are newer than any that was parked.
        for (keys, stream) in [(parked, true), (ams, false)] {
            let is_one = |key: &Key| match requests.get(*key).map(|request| &request.body) {
                Some(Body::Send(send)) => match send.kind {
                    SendKind::Stream => stream,
                    SendKind::Am { .. } => !stream,
                    SendKind::Tagged(_) => false,
                },
                _ => false,
            };
            let newer = |waits: &Pending| matches!(waits, Pending::Send(key) if is_one(key));
            let at = peer.pending.iter().position(newer).unwrap_or(peer.pending.len());
            let newer = peer.pending.split_off(at);
            peer.pending.extend(keys.into_iter().map(Pending::Send).chain(newer));
        }
        self.resume(index);
    }
}

/// Makes a request to receive bytes of a stream, in the place of one that was such a receive before, if
/// there is one: nothing is moved then but the fields.
#[inline(always)]
fn begin(requests: &mut Requests, buffer: RecvBuf, peer: PeerIndex, want: StreamWant) -> Key {
    let (key, request) = requests.acquire();
    request.status = Status::NONE;
    request.done = false;
    request.detached = false;
    match &mut request.body {
        Body::Stream(receive) => {
            receive.buffer = buffer;
            receive.peer = peer;
            receive.want = want;
            receive.filled = 0;
        }
        body => *body = Body::Stream(StreamReceive { buffer, peer, want, filled: 0 }),
    }
    key
}

/// How far a send of a stream came that goes in pieces.
pub(crate) enum Pieces {
    All,
    /// Credit is used up.
    Starved,
}

/// Posts what is left of a send while credit lasts.
pub(crate) fn post_pieces(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    send: &mut Send,
) -> Result<Pieces, PostError> {
    let max = lane.attr().limits.am.max_bcopy;
    let total = send.buffer.len();
    while let SendPhase::Queued { offset, .. } = send.phase
        && (offset as usize) < total
    {
        if peer.credit <= 0 {
            return Ok(Pieces::Starved);
        }
        let left = (total - offset as usize).min(max);
        let header = header([0, 0], peer.tx_sequence);
        let buffer = &mut send.buffer;
        let mut pack = |out: View<'_>| pack::message(&[], buffer, offset as usize, left, out);
        let n = lane.am_bcopy(peer.ep, wire::STREAM, &header, left, &mut pack)?;
        peer.number();
        peer.credit -= n as i64;
        send.phase = SendPhase::Queued { offset: offset + n as u64, message: 1 };
    }
    Ok(Pieces::All)
}

impl Engine {
    /// Why nothing more will come from a peer, once all that is here was taken.
    fn stream_end(&mut self, index: PeerIndex) -> Option<OpError> {
        let failed = self.peers[index as usize].failure();
        let stream = self.streams.get_mut(index)?;
        if let Some(error) = stream.error {
            return Some(error);
        }
        (stream.fetching.is_none()).then_some(failed.map(OpError::from)).flatten()
    }

    /// Bytes of a stream have arrived.
    pub(crate) fn stream_data(&mut self, peer: PeerIndex, data: View<'_>) -> Option<()> {
        let Some(stream) = self.streams.get_mut(peer) else {
            return self.rest_of_data(peer, data, 0);
        };
        // Straight into the oldest receive, where nothing lies in front of it.
        if stream.chunks.is_empty()
            && stream.fetching.is_none()
            && let Some(&key) = stream.receives.front()
            && let Some(request) = self.requests.get_mut(key)
            && let Body::Stream(receive) = &mut request.body
            && !request.done
        {
            let n = receive.takes(data.len());
            let part = if n == data.len() { data } else { data.slice(0, n)? };
            receive.buffer.copy_at(receive.filled, part);
            receive.filled += n;
            request.status.length = receive.filled as u64;
            let wants_nothing = stream.wants_nothing;
            if receive.is_complete() {
                stream.receives.pop_front();
                if request.detached || self.streams.fetches > 0 || !self.closings.is_empty() {
                    let status = request.status;
                    self.finish(key, status);
                } else {
                    request.done = true;
                }
            }
            if n == data.len() && !wants_nothing {
                self.give_back(peer, n);
                return Some(());
            }
            return self.rest_of_data(peer, data, n);
        }
        self.rest_of_data(peer, data, 0)
    }

    #[inline(never)]
    fn rest_of_data(&mut self, peer: PeerIndex, data: View<'_>, at: usize) -> Option<()> {
        if at > 0 {
            self.give_back(peer, at);
        }
        if at < data.len() {
            let stream = self.streams.make(peer);
            stream.add(data.slice(at, data.len() - at)?, &mut self.stream_rooms);
            if stream.receives.is_empty() {
                self.streams.list(peer);
            } else {
                self.feed_stream(peer);
            }
        } else if at > 0 && self.streams.make(peer).wants_nothing {
            // The next receive may be one of nothing, which waited only for its turn.
            self.feed_stream(peer);
        }
        Some(())
    }

    /// A part of a stream that lies with its sender.
    pub(crate) fn stream_rts(&mut self, peer: PeerIndex, payload: View<'_>) -> Option<()> {
        let mut bytes = [0; Rts::FIXED + wire::MAX_RKEY];
        if payload.len() > bytes.len() {
            return None;
        }
        let n = payload.copy_out(&mut bytes);
        let rts = Rts::parse(&bytes[..n])?;
        if rts.length == 0 || rts.length > MAX_REMOTE as u64 {
            return None;
        }
        self.envelope_bytes += ENVELOPE;
        if self.envelope_bytes > self.options.envelopes {
            return None;
        }
        self.streams.make(peer).chunks.push_back(Chunk::There(Box::new(rts)));
        self.feed_stream(peer);
        Some(())
    }

    /// Rule 2: fills receives from the chunks.
    pub(crate) fn feed_stream(&mut self, peer: PeerIndex) {
        loop {
            let Some(stream) = self.streams.get_mut(peer) else { return };
            if stream.fetching.is_some() {
                return;
            }
            let Some(&key) = stream.receives.front() else { break };
            let Some(request) = self.requests.get_mut(key).filter(|request| !request.done) else {
                // Cancelled or failed.
                stream.receives.pop_front();
                continue;
            };
            let Body::Stream(receive) = &mut request.body else {
                stream.receives.pop_front();
                continue;
            };
            let n = receive.takes(stream.available());
            stream.drain(n, &mut receive.buffer, receive.filled, &mut self.stream_rooms);
            receive.filled += n;
            request.status.length = receive.filled as u64;
            if receive.is_complete() {
                stream.receives.pop_front();
                let status = request.status;
                self.finish(key, status);
            } else if stream.chunks.iter().any(|chunk| matches!(chunk, Chunk::There(_))) {
                self.fetch_chunk(peer, Some(key));
            } else {
                let Some(error) = self.stream_end(peer) else {
                    if n > 0 {
                        self.give_back(peer, n);
                    }
                    return;
                };
                self.fail(key, error);
            }
            if n > 0 {
                self.give_back(peer, n);
            }
        }
        self.streams.list(peer);
    }

    /// Rule 3: reads the first chunk that lies with its sender, for the receive that waits.
    fn fetch_chunk(&mut self, peer: PeerIndex, receive: Option<Key>) {
        let Some(stream) = self.streams.get_mut(peer) else { return };
        let Some(at) = stream.chunks.iter().position(|c| matches!(c, Chunk::There(_))) else {
            return;
        };
        if let Some(how) = self.peers[peer as usize].failure() {
            stream.chunks.truncate(at);
            stream.error = Some(how.into());
            return;
        }
        let Some(Chunk::There(rts)) = stream.chunks.remove(at) else { return };
        self.envelope_bytes = self.envelope_bytes.saturating_sub(ENVELOPE);
        let length = rts.length as usize;
        let direct = receive.filter(|&key| {
            let request = self.requests.get(key).map(|request| &request.body);
            let Some(Body::Stream(receive)) = request else { return false };
            let fits =
                if receive.want.all { receive.room() == length } else { receive.room() >= length };
            at == 0 && receive.filled == 0 && fits && length.is_multiple_of(receive.want.unit)
        });
        let (key, own) = match direct {
            Some(key) => {
                stream.receives.pop_front();
                (key, false)
            }
            None => {
                let mut room = Vec::new();
                if room.try_reserve_exact(length).is_err() {
                    stream.chunks.truncate(at);
                    stream.error = Some(OpError::TooLong);
                    let refused = wire::refusal(None);
                    let (request, outcome) = (rts.request, refused);
                    self.actions.push(crate::action::Action::Refuse { peer, request, outcome });
                    return;
                }
                room.resize(length, 0);
                let buffer = RecvBuf::owned(room);
                let receive = Receive { buffer, space: 0, item: ItemId::NONE, fetch: None };
                (request::begin(&mut self.requests, Body::Receive(receive)), true)
            }
        };
        stream.fetching = Some((key, own));
        if own && at > 0 {
            // It comes back in its place: what is in front of it stays in front.
            stream.chunks.insert(at, Chunk::Here(Vec::new(), 0));
        }
        self.streams.fetches += 1;
        if let Some(request) = self.requests.get_mut(key)
            && let Body::Stream(receive) = &mut request.body
        {
            let buffer = std::mem::replace(&mut receive.buffer, RecvBuf::empty());
            let (space, item) = (0, ItemId::NONE);
            request.body = Body::Receive(Receive { buffer, space, item, fetch: None });
        }
        let none = Envelope { space: 0, source: 0, tag: 0 };
        self.begin_fetch(key, peer, &none, *rts);
    }

    /// A receive is complete while chunks are being read: it may be one of those.
    #[cold]
    pub(crate) fn stream_fetched(&mut self, key: Key) {
        let mut streams = self.streams.by_peer.iter_mut();
        let found = streams.position(|stream| {
            let fetching = stream.as_ref().and_then(|stream| stream.fetching);
            fetching.is_some_and(|(reads, _)| reads == key)
        });
        let Some(index) = found else { return };
        let peer = index as PeerIndex;
        let stream = self.streams.make(peer);
        let own = stream.fetching.take().is_some_and(|(_, own)| own);
        let Some(request) = self.requests.get_mut(key) else { return };
        if let Err(error) = request.status.outcome {
            stream.error = Some(error);
        }
        if own {
            // Its place is that of the empty chunk, or the front.
            let empty = |chunk: &Chunk| matches!(chunk, Chunk::Here(bytes, _) if bytes.is_empty());
            let at = stream.chunks.iter().position(empty);
            if let Some(at) = at {
                stream.chunks.remove(at);
            }
            let at = at.unwrap_or(0);
            match (request.status.outcome, std::mem::take(&mut request.body)) {
                (Ok(()), Body::Receive(receive)) => {
                    let bytes = receive.buffer.into_owned().unwrap_or_default();
                    stream.chunks.insert(at, Chunk::Here(bytes, 0));
                }
                _ => stream.chunks.truncate(at),
            }
            request::end(&mut self.requests, key);
        } else if request.status.outcome.is_err() {
            stream.chunks.clear();
        }
        self.streams.fetches -= 1;
        self.actions.push(crate::action::Action::FeedStream(peer));
    }

    /// A peer has failed: its sends without credit go with it. Its receives fail as other requests
    /// do; what is here can still be taken.
    #[cold]
    pub(crate) fn fail_stream(&mut self, peer: PeerIndex) {
        if let Some(stream) = self.streams.get_mut(peer) {
            stream.parked.clear();
            stream.parked_ams.clear();
            // Those that have failed with it leave their places.
            self.feed_stream(peer);
        }
    }

    /// A receive of a stream is taken back, unless it has bytes.
    pub(crate) fn cancel_stream_receive(&mut self, key: Key) {
        let Some(Body::Stream(receive)) = self.requests.get(key).map(|request| &request.body)
        else {
            return;
        };
        if receive.filled == 0 {
            let peer = receive.peer;
            self.streams.make(peer).receives.retain(|waits| *waits != key);
            self.fail(key, OpError::Cancelled);
        }
    }

    /// What a receive that waits for a stream has and wants, in bytes.
    pub(crate) const fn stream_room(receive: &StreamReceive) -> (usize, usize) {
        (receive.filled, receive.buffer.len())
    }
}
