//! What the user of a stream calls.

use bowline_base::buffer::{MemoryLayout, RecvBuf, SendBuf};
use bowline_base::slab::Key;

use super::StreamReceived;
use crate::error::OpError;
use crate::peer::{Ep, PeerIndex};
use crate::request::{self, Body, RequestId, Requests, SendKind, Sent, StreamReceive, StreamWant};
use crate::state::stream::Chunk;
use crate::status::OpStatus;
use crate::worker::Worker;

impl Worker {
    /// Appends `buffer` to the stream to `ep`. Complete means that the buffer is free.
    ///
    /// # Errors
    /// When the peer has failed, cannot be reached or is of a version without streams.
    #[inline]
    pub fn stream_send(&self, ep: Ep, buffer: SendBuf) -> Result<Sent, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.send_at_once(ep, SendKind::Stream, &buffer) {
            return Ok(Sent::Done);
        }
        inner.send_slow(ep, SendKind::Stream, &[], buffer, false)
    }

    /// Receives bytes of the stream from `ep` into `buffer`, in the order of the calls.
    ///
    /// # Errors
    /// When the buffer is no multiple of the unit, the stream has come to the end that its peer's
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
        let capacity = buffer.len();
        if buffer.shape() == MemoryLayout::Callbacks {
            return Err(OpError::Unsupported);
        }
        if want.unit == 0 || want.whole(capacity) != capacity {
            return Err(OpError::BadUnit { unit: want.unit as u64, capacity: capacity as u64 });
        }
        let index = engine.index_of(ep)?;
        let stream = engine.streams.make(index);
        if stream.receives.is_empty() && stream.fetching.is_none() {
            let available = stream.available();
            let n = available.min(capacity);
            let n = if want.all { n } else { want.whole(n) };
            if n == capacity || n > 0 && !want.all {
                let unasked = stream.drain(n, &mut buffer, 0, &mut engine.stream_buffers);
                engine.let_go(index, unasked);
                engine.give_back(index, n);
                if !engine.actions.is_empty() {
                    inner.act();
                }
                return Ok(StreamReceived::Done(n as u64, buffer));
            }
        }
        // A peer that nothing connects to could end unnoticed. A failure is its state, seen below.
        let _ = inner.ready(index);
        let engine = &mut inner.engine;
        let key = begin(&mut engine.requests, buffer, index, want);
        let failed = engine.peers[index as usize].failure().is_some();
        let stream = engine.streams.make(index);
        stream.wants_nothing = capacity == 0 || stream.wants_nothing && !stream.receives.is_empty();
        stream.receives.push_back(key);
        let dry = stream.chunks.is_empty() && stream.fetching.is_none();
        if dry && stream.error.is_none() && !failed && !stream.wants_nothing {
            // What most receives find that come before their bytes.
            if !engine.actions.is_empty() {
                inner.act();
            }
            return Ok(StreamReceived::Pending(RequestId(key)));
        }
        engine.feed_stream(index);
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
        let index = engine.index_of(ep)?;
        let stream = engine.streams.make(index);
        if !stream.receives.is_empty() || stream.fetching.is_some() {
            return Ok(None);
        }
        if matches!(stream.chunks.front(), Some(Chunk::There(_))) {
            engine.fetch_chunk(index, None);
            inner.act();
            return inner.engine.stream_end(index).map_or(Ok(None), Err);
        }
        let Some(Chunk::Here { mut bytes, from, eager }) = stream.chunks.pop_front() else {
            return engine.stream_end(index).map_or(Ok(None), Err);
        };
        bytes.drain(..from);
        if eager {
            engine.let_go(index, bytes.len());
        }
        engine.give_back(index, bytes.len());
        inner.act();
        Ok(Some(bytes))
    }

    /// Appends the endpoints whose streams have data that no receive waits for.
    pub fn stream_poll(&self, out: &mut Vec<Ep>) {
        let engine = &mut self.inner.borrow_mut().engine;
        let streams = &mut engine.streams;
        for _ in 0..streams.ready.len() {
            let Some(peer) = streams.ready.pop_front() else { return };
            let stream = streams.make(peer);
            if stream.chunks.is_empty() {
                stream.listed = false;
                continue;
            }
            if stream.has_data() {
                out.push(engine.peers[peer as usize].name);
            }
            streams.ready.push_back(peer);
        }
    }
}

/// Makes a request to receive bytes of a stream, in the place of one that was such a receive before, if
/// there is one: nothing is moved then but the fields.
#[inline(always)]
fn begin(requests: &mut Requests, buffer: RecvBuf, peer: PeerIndex, want: StreamWant) -> Key {
    let (key, request) = requests.acquire();
    request.status = OpStatus::NONE;
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
