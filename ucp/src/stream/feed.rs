//! What arrives for a stream, and the receives that it fills.

use bowline_base::buffer::RecvBuf;
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::Verdict;

use crate::engine::{Engine, LONG};
use crate::error::OpError;
use crate::matching::{Envelope, ItemId};
use crate::peer::PeerIndex;
use crate::request::{self, Body, Receive, StreamReceive};
use crate::select::{EAGER, Marks, Measure, MessageKind};
use crate::state::stream::{Chunk, MAX_REMOTE, Stream};
use crate::unasked::{ENVELOPE, REMOTE};
use crate::wire::{self, Rts};

impl Engine {
    /// Why nothing more will come from a peer, once all that is here was taken.
    pub(super) fn stream_end(&mut self, index: PeerIndex) -> Option<OpError> {
        let failed = self.peers[index as usize].failure();
        let stream = self.streams.get_mut(index)?;
        if let Some(error) = stream.error {
            return Some(error);
        }
        (stream.fetching.is_none()).then_some(failed.map(OpError::from)).flatten()
    }

    /// Bytes of a stream have arrived.
    pub(crate) fn stream_data(&mut self, peer: PeerIndex, data: View<'_>) -> Option<Verdict> {
        let Some(stream) = self.streams.get_mut(peer) else {
            self.rest_of_data(peer, data, 0)?;
            return Some(Verdict::Consumed);
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
            let mut verdict = Verdict::Consumed;
            if receive.is_complete() {
                stream.receives.pop_front();
                if receive.filled >= LONG && stream.receives.is_empty() {
                    // As for messages: the next receive is about to be posted.
                    verdict = Verdict::Enough;
                }
                if request.detached || self.streams.fetches > 0 || !self.closings.is_empty() {
                    let status = request.status;
                    self.finish(key, status);
                } else {
                    request.done = true;
                }
            }
            if n == data.len() && !wants_nothing {
                self.give_back(peer, n);
                return Some(verdict);
            }
            self.rest_of_data(peer, data, n)?;
            return Some(verdict);
        }
        self.rest_of_data(peer, data, 0)?;
        Some(Verdict::Consumed)
    }

    /// The first piece of a long send, which is measured whole if all of it goes straight into receives; or the last one.
    pub(crate) fn stream_end_piece(
        &mut self,
        peer: PeerIndex,
        words: [u64; 2],
        data: View<'_>,
    ) -> Option<Verdict> {
        let waited_for = |engine: &mut Self| {
            engine.streams.get_mut(peer).is_some_and(|stream| stream.is_waited_for())
        };
        let verdict;
        match words[1] {
            0 => {
                let (total, marks) = Marks::of(words[0]);
                let partly = !waited_for(self);
                let measure = self.begin_measure(peer, MessageKind::Stream, marks, total);
                let measure = Measure { partly, ..measure };
                let first = data.len() as u64;
                verdict = self.stream_data(peer, data)?;
                self.streams.make(peer).measured = Some((measure, total, first));
            }
            1 => {
                let measured = self.streams.get_mut(peer).and_then(|stream| stream.measured.take());
                let waited = waited_for(self);
                verdict = self.stream_data(peer, data)?;
                let here = |stream: &mut Stream| stream.chunks.is_empty() && waited;
                if let Some((measure, total, first)) = measured {
                    let here = self.streams.get_mut(peer).is_some_and(here);
                    let partly = measure.partly || !here;
                    self.end_measure(peer, Measure { partly, ..measure }, EAGER, total, first);
                }
            }
            _ => return None,
        }
        Some(verdict)
    }

    #[inline(never)]
    fn rest_of_data(&mut self, peer: PeerIndex, data: View<'_>, at: usize) -> Option<()> {
        if at > 0 {
            self.give_back(peer, at);
        }
        if at < data.len() {
            let stream = self.streams.make(peer);
            stream.add(data.slice(at, data.len() - at)?, &mut self.stream_buffers);
            let nobody_waits = stream.receives.is_empty();
            self.hold(peer, data.len() - at);
            if nobody_waits {
                self.streams.list(peer);
            } else {
                self.feed_stream(peer);
            }
        } else if at > 0 && self.streams.make(peer).wants_nothing {
            // The next receive may be one of nothing, which waited only for those before it.
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
        self.envelope_bytes += ENVELOPE + REMOTE;
        self.note_entry();
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
            let unasked =
                stream.drain(n, &mut receive.buffer, receive.filled, &mut self.stream_buffers);
            if let Some(peer) = self.peers.get_mut(peer as usize) {
                peer.held = peer.held.saturating_sub(unasked as u64);
            }
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
    pub(super) fn fetch_chunk(&mut self, peer: PeerIndex, receive: Option<Key>) {
        let Some(stream) = self.streams.get_mut(peer) else { return };
        let Some(at) = stream.chunks.iter().position(|c| matches!(c, Chunk::There(_))) else {
            return;
        };
        if let Some(how) = self.peers[peer as usize].failure() {
            stream.error = Some(how.into());
            return self.cut_stream(peer, at);
        }
        let Some(Chunk::There(rts)) = stream.chunks.remove(at) else { return };
        self.envelope_bytes = self.envelope_bytes.saturating_sub(ENVELOPE + REMOTE);
        let length = rts.length as usize;
        let direct = receive.filter(|&key| {
            let request = self.requests.get(key).map(|request| &request.body);
            let Some(Body::Stream(receive)) = request else { return false };
            let fits = if receive.want.all {
                receive.remaining() == length
            } else {
                receive.remaining() >= length
            };
            at == 0 && receive.filled == 0 && fits && length.is_multiple_of(receive.want.unit)
        });
        let (key, own) = match direct {
            Some(key) => {
                stream.receives.pop_front();
                (key, false)
            }
            None => {
                let mut bytes = Vec::new();
                if bytes.try_reserve_exact(length).is_err() {
                    stream.error = Some(OpError::TooLong);
                    let refused = wire::refusal(None);
                    let (request, outcome) = (rts.request, refused);
                    self.actions.push(crate::action::Action::Refuse { peer, request, outcome });
                    return self.cut_stream(peer, at);
                }
                bytes.resize(length, 0);
                let buffer = RecvBuf::owned(bytes);
                let receive = Receive { buffer, space: 0, item: ItemId::NONE, fetch: None };
                (request::begin(&mut self.requests, Body::Receive(receive)), true)
            }
        };
        stream.fetching = Some((key, own));
        if own && at > 0 {
            // It comes back in its place: what is in front of it stays in front.
            stream.chunks.insert(at, Chunk::Here { bytes: Vec::new(), from: 0, eager: false });
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
        self.begin_fetch(key, peer, &none, *rts, Some(MessageKind::Stream));
        if own
            && let Some(request) = self.requests.get_mut(key)
            && let Body::Receive(receive) = &mut request.body
            && let Some(fetch) = &mut receive.fetch
        {
            fetch.measure.partly = true;
        }
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
            let empty =
                |chunk: &Chunk| matches!(chunk, Chunk::Here { bytes, .. } if bytes.is_empty());
            let at = stream.chunks.iter().position(empty);
            if let Some(at) = at {
                stream.chunks.remove(at);
            }
            let at = at.unwrap_or(0);
            match (request.status.outcome, std::mem::take(&mut request.body)) {
                (Ok(()), Body::Receive(receive)) => {
                    let bytes = receive.buffer.into_owned().unwrap_or_default();
                    stream.chunks.insert(at, Chunk::Here { bytes, from: 0, eager: false });
                }
                _ => self.cut_stream(peer, at),
            }
            request::end(&mut self.requests, key);
        } else if request.status.outcome.is_err() {
            self.cut_stream(peer, 0);
        }
        self.streams.fetches -= 1;
        self.actions.push(crate::action::Action::FeedStream(peer));
    }

    /// Drops the chunks of a stream from `at` on.
    #[cold]
    fn cut_stream(&mut self, peer: PeerIndex, at: usize) {
        let Some(stream) = self.streams.get_mut(peer) else { return };
        let (unasked, envelopes) = stream.cut(at);
        self.let_go(peer, unasked);
        let entries = envelopes * (ENVELOPE + REMOTE);
        self.envelope_bytes = self.envelope_bytes.saturating_sub(entries);
    }

    /// Drops what waits in the stream of a peer that was rejected for its amount.
    #[cold]
    pub(crate) fn drop_stream(&mut self, peer: PeerIndex) {
        let failed = self.peers[peer as usize].failure();
        let Some(stream) = self.streams.get_mut(peer) else { return };
        stream.error = stream.error.or(failed.map(OpError::from));
        self.cut_stream(peer, 0);
    }

    /// The place of a peer that is over becomes another's, who has a stream of its own.
    #[cold]
    pub(crate) fn forget_stream(&mut self, peer: PeerIndex) {
        self.cut_stream(peer, 0);
        self.streams.forget(peer);
    }

    /// What lies with a peer, of its stream, that has not been asked for.
    pub(crate) fn stream_entries(&self) -> impl Iterator<Item = (PeerIndex, u64)> {
        let streams = self.streams.by_peer.iter().enumerate();
        let there = |chunk: &&Chunk| matches!(chunk, Chunk::There(_));
        streams.filter_map(move |(peer, stream)| {
            let count = stream.as_ref()?.chunks.iter().filter(there).count() as u64;
            Some((peer as PeerIndex, count * (ENVELOPE + REMOTE)))
        })
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
    pub(crate) const fn stream_capacity(receive: &StreamReceive) -> (usize, usize) {
        (receive.filled, receive.buffer.len())
    }
}
