//! Tagged messages: send, receive, probe.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::slab::Key;

use crate::engine::Inner;
use crate::error::OpError;
use crate::matching::MatchEngine as _;
use crate::matching::{Envelope, MatchSpec};
use crate::peer::Ep;
use crate::request::{self, RequestId, SendKind, Sent};
use crate::status::{MessageInfo, OpStatus, ReceiveError};
use crate::worker::Worker;

/// When a send is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// When the buffer may be used again.
    Standard,
    /// When moreover the receive has been matched.
    Synchronous,
}

/// A message claimed by a matched probe: no other receive will find it. It must be received.
#[derive(Debug)]
#[must_use]
pub struct MatchedMessage(Key);

impl Inner {
    #[inline(always)]
    pub(crate) fn send(
        &mut self,
        ep: Ep,
        envelope: Envelope,
        buffer: SendBuf,
        mode: SendMode,
    ) -> Result<Sent, OpError> {
        let standard = mode == SendMode::Standard;
        if standard && self.send_at_once(ep, SendKind::Tagged(envelope), &buffer) {
            return Ok(Sent::Done);
        }
        self.send_slow(ep, SendKind::Tagged(envelope), &[], buffer, !standard)
    }

    /// Posts a receive. Also whether its message was there.
    #[inline(always)]
    pub(crate) fn recv(
        &mut self,
        spec: MatchSpec,
        buffer: RecvBuf,
    ) -> Result<(Key, bool), OpError> {
        let engine = &mut self.engine;
        if let Some((space, single)) = engine.spaces.space_and_single(spec.space)
            && space.posts_at_once()
        {
            // Asked before the request is made, while it is in registers what `posts_at_once` has loaded.
            let alone = space.is_alone(single);
            let (key, item) = request::begin_receive(&mut engine.requests, buffer, spec.space);
            *item = space.post_at_once(single, alone, &spec, key.to_wire());
            return Ok((key, false));
        }
        self.recv_slow(spec, buffer)
    }

    /// The same where a search comes first, or more has to be asked. Apart, so that what is asked for does
    /// not go through memory where it is only posted.
    #[inline(never)]
    fn recv_slow(&mut self, spec: MatchSpec, buffer: RecvBuf) -> Result<(Key, bool), OpError> {
        let engine = &mut self.engine;
        let want = spec.want();
        let Some(space) = engine.spaces.get_mut(spec.space).filter(|space| space.open) else {
            return Err(OpError::BadSpace(spec.space));
        };
        let waiting = space.engine.take_unexpected(&want);
        if waiting.is_none() && space.checks_receives {
            return Ok((self.recv_checked(spec, buffer)?, false));
        }
        let (key, item) = request::begin_receive(&mut engine.requests, buffer, spec.space);
        match waiting {
            None => {
                *item = space.engine.post(want, key.to_wire());
                Ok((key, false))
            }
            Some(message) => {
                engine.hand_over(key, Key::from_wire(message));
                self.act();
                Ok((key, true))
            }
        }
    }

    /// Posts a receive in a space that checks its receives: members have died, or protocols watch them. No waiting message
    /// fits it.
    #[cold]
    fn recv_checked(&mut self, spec: MatchSpec, buffer: RecvBuf) -> Result<Key, OpError> {
        let engine = &mut self.engine;
        let want = spec.want();
        let Some(space) = engine.spaces.get_mut(spec.space) else {
            return Err(OpError::BadSpace(spec.space));
        };
        if let Some(lost) = space.failed_member_for(spec.source) {
            return Err(lost.error());
        }
        let collective = space.options.collective;
        let (key, item) = request::begin_receive(&mut engine.requests, buffer, spec.space);
        *item = space.engine.post(want, key.to_wire());
        // In a space that nobody watches, receives are checked for members that have died.
        if engine.protocols.watch_receives(&engine.options, collective) {
            for at in 0..self.engine.protocols.lives.len() {
                self.engine.protocols.lives[at].on_receive(self, key, spec.space, &want);
            }
        }
        Ok(key)
    }

    /// A probe has found no message.
    #[cold]
    fn found_none(&mut self, spec: &MatchSpec) {
        let engine = &mut self.engine;
        let space = engine.spaces.get_mut(spec.space).filter(|_| engine.watches_receives);
        let Some(collective) = space.map(|space| space.options.collective) else { return };
        for at in 0..self.engine.protocols.lives.len() {
            let life = self.engine.protocols.lives[at];
            if life.watches_receives(&self.engine.options, collective) {
                life.on_probe(self, spec);
            }
        }
    }
}

impl Worker {
    /// Sends `buffer`. `Sent::Done`: the message is on its way and the buffer free.
    ///
    /// # Errors
    /// When the peer has failed or cannot be reached.
    #[inline(always)]
    pub fn send(
        &self,
        ep: Ep,
        envelope: Envelope,
        buffer: SendBuf,
        mode: SendMode,
    ) -> Result<Sent, OpError> {
        self.inner.borrow_mut().send(ep, envelope, buffer, mode)
    }

    /// The short path of [`send`](Self::send) alone, for who keeps the rest of its work elsewhere. Whether the
    /// message is on its way; else nothing has happened.
    #[inline(always)]
    pub fn send_at_once(&self, ep: Ep, envelope: &Envelope, buffer: &SendBuf) -> bool {
        self.inner.borrow_mut().send_at_once(ep, SendKind::Tagged(*envelope), buffer)
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// When the space is not open, or a dead process keeps the receive from ever completing.
    pub fn recv(&self, spec: MatchSpec, buffer: RecvBuf) -> Result<RequestId, OpError> {
        self.recv_in_place(spec, buffer)
    }

    /// [`recv`](Self::recv) as a part of its caller: what a call hands over in memory, and takes out of it in
    /// other pieces than it was stored in, costs as much as the receive itself.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    #[inline(always)]
    pub fn recv_in_place(&self, spec: MatchSpec, buffer: RecvBuf) -> Result<RequestId, OpError> {
        self.recv_watched(spec, buffer, false)
    }

    /// [`recv`](Self::recv) of a stage of something that goes on in the background, beside which its caller may compute.
    /// Where processors copy its message no signal handler does, since the stages behind it wait for a call nevertheless.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    pub fn recv_stage(&self, spec: MatchSpec, buffer: RecvBuf) -> Result<RequestId, OpError> {
        self.recv_watched(spec, buffer, true)
    }

    #[inline(always)]
    fn recv_watched(
        &self,
        spec: MatchSpec,
        buffer: RecvBuf,
        stage: bool,
    ) -> Result<RequestId, OpError> {
        let mut inner = self.inner.borrow_mut();
        let length = buffer.len_or_mark();
        let (key, known) = inner.recv(spec, buffer)?;
        let engine = &mut inner.engine;
        if length >= engine.async_state.from {
            if !known {
                engine.note_callbacks(key);
            }
            drop(inner);
            self.watch(key, known, stage);
        }
        Ok(RequestId(key))
    }

    /// Posts a receive that its caller waits for before it computes: signal handlers are not asked to poll
    /// for its message (rule 1 of the module `async_progress`).
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    #[inline]
    pub fn recv_awaited(&self, spec: MatchSpec, buffer: RecvBuf) -> Result<RequestId, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let length = buffer.len_or_mark();
        let (key, known) = inner.recv(spec, buffer)?;
        if !known && length >= inner.engine.async_state.from {
            inner.engine.note_callbacks(key);
        }
        Ok(RequestId(key))
    }

    /// Posts a receive and waits for it: the shortest way to receive.
    ///
    /// # Errors
    /// When the space is not open, or a dead process keeps the receive from ever completing; when
    /// the message is longer than the buffer, which then holds what fits; the peer's failure.
    #[inline(always)]
    pub fn recv_blocking(
        &self,
        spec: MatchSpec,
        buffer: RecvBuf,
    ) -> Result<MessageInfo, ReceiveError> {
        let mut inner = self.inner.borrow_mut();
        let length = buffer.len_or_mark();
        let (key, known) = inner.recv(spec, buffer)?;
        if known {
            return self.wait_known(inner, key);
        }
        if length >= inner.engine.async_state.from {
            inner.engine.note_callbacks(key);
        }
        // It is not watched: its caller polls the lanes from here on.
        self.wait_loop(inner, true, |inner| inner.engine.take_message(key), || None)
    }

    /// The first waiting message that fits, which stays where it is. Does not progress.
    pub fn probe(&self, spec: &MatchSpec) -> Option<MessageInfo> {
        let inner = &mut *self.inner.borrow_mut();
        let space = inner.engine.spaces.get_mut(spec.space)?;
        let Some(key) = space.engine.find_unexpected(&spec.want()) else {
            inner.found_none(spec);
            return None;
        };
        let message = inner.engine.unexpected.get(Key::from_wire(key))?;
        Some(MessageInfo { source: message.source, tag: message.tag, length: message.length })
    }

    /// The first waiting message that fits, which from now on only the caller can receive. Does
    /// not progress.
    pub fn claim(&self, spec: &MatchSpec) -> Option<(MessageInfo, MatchedMessage)> {
        let inner = &mut *self.inner.borrow_mut();
        let space = inner.engine.spaces.get_mut(spec.space)?;
        let Some(key) = space.engine.take_unexpected(&spec.want()) else {
            inner.found_none(spec);
            return None;
        };
        let key = Key::from_wire(key);
        let message = inner.engine.unexpected.get(key)?;
        let (source, tag, length) = (message.source, message.tag, message.length);
        Some((MessageInfo { source, tag, length }, MatchedMessage(key)))
    }

    /// What a probe of `spec` will never find, because the process that would send it is dead.
    ///
    /// # Errors
    /// The failure that a receive posted now would report.
    pub fn check(&self, spec: &MatchSpec) -> Result<(), OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let Some(space) = inner.engine.spaces.get_mut(spec.space).filter(|space| space.open) else {
            return Err(OpError::BadSpace(spec.space));
        };
        if space.dead.is_empty() {
            return Ok(());
        }
        space.failed_member_for(spec.source).map_or(Ok(()), |lost| Err(lost.error()))
    }

    /// Receives a claimed message.
    ///
    /// # Errors
    /// None today; the outcome is in the request's status.
    pub fn recv_claimed(
        &self,
        message: MatchedMessage,
        buffer: RecvBuf,
    ) -> Result<RequestId, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let space = inner.engine.unexpected.get(message.0).map_or(0, |m| m.space);
        let (key, _) = request::begin_receive(&mut inner.engine.requests, buffer, space);
        inner.engine.hand_over(key, message.0);
        inner.act();
        Ok(RequestId(key))
    }

    /// Whether a request is complete. A request that was taken counts as complete.
    #[inline]
    pub fn is_complete(&self, id: RequestId) -> bool {
        self.inner.borrow().engine.requests.get(id.0).is_none_or(|request| request.done)
    }

    /// The status of a completed request, which is freed.
    #[inline]
    pub fn take(&self, id: RequestId) -> Option<OpStatus> {
        self.inner.borrow_mut().engine.take(id.0)
    }

    /// The status of a completed request, which stays.
    pub fn peek(&self, id: RequestId) -> Option<OpStatus> {
        let inner = self.inner.borrow();
        let request = inner.engine.requests.get(id.0)?;
        request.done.then_some(request.status)
    }

    /// The status of a completed request with the bytes that its buffer owned.
    pub fn take_with_buffer(&self, id: RequestId) -> Option<(OpStatus, Option<Vec<u8>>)> {
        let inner = &mut *self.inner.borrow_mut();
        let request = inner.engine.requests.get_mut(id.0)?;
        if !request.done {
            return None;
        }
        let status = request.status;
        let bytes = crate::completion::owned_bytes(std::mem::take(&mut request.body));
        inner.engine.requests.release(id.0);
        Some((status, bytes))
    }

    /// Frees a request by itself when it completes; the buffer that it owns goes with it.
    pub fn detach(&self, id: RequestId) {
        self.inner.borrow_mut().engine.detach(id);
    }

    /// Sends an active message: `header` and `buffer` go to the handler of `id` at the peer. Data
    /// beyond the rendezvous threshold stays here until the peer has received or dropped it.
    ///
    /// # Errors
    /// When the peer has failed or cannot be reached, or the header is longer than
    /// [`Worker::am_max_header`].
    #[inline]
    pub fn am_send(
        &self,
        ep: Ep,
        id: u16,
        header: &[u8],
        buffer: SendBuf,
    ) -> Result<Sent, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        if header.is_empty() && inner.send_at_once(ep, SendKind::Am { id }, &buffer) {
            return Ok(Sent::Done);
        }
        inner.send_slow(ep, SendKind::Am { id }, header, buffer, false)
    }
}
