//! Datagrams on their way out: messages, acknowledgements, repetitions.
//!
//! A send buffer is free again when its message is acknowledged and the device's queue holds it no
//! more; a repetition may stand there when the acknowledgement of the first comes.

use bowline_base::view::View;
use bowline_uct::runtime::{CompletionOf, check_len};
use bowline_uct::{AmHeader, AmId, EpId, PostError, Posted, Token};

use super::peer::{Sent, Waiting};
use super::wire::{DatagramHead, DatagramKind, HEAD_BYTES};
use super::{UdIface, WAITING};
use crate::sys::{Bytes, Request, Work};
use crate::wire::{self, HEADER_BYTES};

/// Requests of which one asks for its completion.
const SIGNAL_EVERY: u32 = 4;

/// Datagrams sent again at a time.
const REPEATED: usize = 32;

/// What an id has in front when it is a sent datagram's.
pub(super) const SENT: u64 = 1 << 63;

impl UdIface {
    /// Gives a send buffer back, now or when the device's queue holds it no more.
    pub(super) fn free(&mut self, buffer: u32) {
        let place = &mut self.state.in_queue[buffer as usize];
        if place.0 == 0 {
            place.1 = false;
            self.send.give(buffer);
        } else {
            place.1 = true;
        }
    }

    /// Sent datagrams up to number `last` have left the device's queue.
    pub(super) fn left_queue(&mut self, last: u64) {
        while self.state.next_queued - self.state.queued.len() as u64 <= last {
            let Some(buffer) = self.state.queued.pop_front() else { return };
            let Some(buffer) = buffer else { continue };
            let place = &mut self.state.in_queue[buffer as usize];
            place.0 -= 1;
            if place.0 == 0 && std::mem::take(&mut place.1) {
                self.send.give(buffer);
            }
        }
    }

    /// Whether a message to the peer may leave now.
    pub(super) fn has_space(&self, number: u32) -> bool {
        self.peers[number as usize].waiting.is_empty() && self.window_has_space(number)
    }

    /// The same for those that stand in front, having waited for the connection.
    fn window_has_space(&self, number: u32) -> bool {
        self.peers[number as usize].link.as_ref().is_some_and(|link| {
            link.outgoing.has_space() && self.state.queued.len() < self.state.depth
        })
    }

    #[cold]
    fn refuse(&mut self) -> PostError {
        self.counters.refused += 1;
        PostError::NoResource
    }

    /// Posts a datagram with a message's send buffer, or an acknowledgement without one.
    fn post(
        &mut self,
        number: u32,
        head: &DatagramHead,
        sent: Option<Sent>,
    ) -> Result<(), PostError> {
        let peer = &self.peers[number as usize];
        let (Some(link), true) = (&peer.link, self.state.queued.len() < self.state.depth) else {
            return Err(PostError::NoResource);
        };
        let head = head.encode();
        let piece;
        let bytes = match sent {
            None => Bytes::Inline(&head, &[]),
            Some(sent) => {
                if self.state.in_queue[sent.buffer as usize].0 == 0 {
                    // Otherwise the device may be reading it; what it says is merely older.
                    self.send.view(sent.buffer).copy_in(&head);
                }
                piece = [self.send.piece(sent.buffer, sent.len as usize)];
                Bytes::Registered(&piece)
            }
        };
        let signalled = self.state.unsignalled + 1 >= SIGNAL_EVERY;
        let (pair, key) = (peer.address.data, peer.address.qkey);
        let request = Request {
            id: SENT | self.state.next_queued,
            work: Work::Datagram { to: &link.handle, pair, key },
            bytes,
            signalled,
            fenced: false,
        };
        if let Err(error) = self.state.pair.post(&request) {
            tracing::debug!(%error, "a datagram was not taken by the device");
            return Err(PostError::NoResource);
        }
        self.state.unsignalled = if signalled { 0 } else { self.state.unsignalled + 1 };
        self.counters.requests += 1;
        self.counters.signalled += u64::from(signalled);
        self.state.next_queued += 1;
        self.state.queued.push_back(sent.map(|sent| sent.buffer));
        if let Some(sent) = sent {
            self.state.in_queue[sent.buffer as usize].0 += 1;
        }
        Ok(())
    }

    fn send_next(&mut self, number: u32, sent: Sent) -> Result<(), PostError> {
        let Some(link) = &mut self.peers[number as usize].link else {
            return Err(PostError::NoResource);
        };
        let head = DatagramHead {
            kind: DatagramKind::Data,
            to: link.theirs.pair,
            session: link.theirs.psn,
            sequence: link.outgoing.next(),
            expected: link.incoming.expected(),
            share: self.state.shares.each(),
        };
        self.post(number, &head, Some(sent))?;
        if let Some(link) = &mut self.peers[number as usize].link {
            link.outgoing.sent(sent);
            link.incoming.acknowledged();
        }
        Ok(())
    }

    /// Sends what is not acknowledged again, from the first on.
    pub(super) fn repeat(&mut self, number: u32) {
        if let Some(link) = &mut self.peers[number as usize].link {
            link.outgoing.repeat();
            self.repeat_due(number);
        }
    }

    /// Goes on with that, as far as it is allowed.
    #[inline]
    pub(super) fn repeat_due(&mut self, number: u32) {
        for _ in 0..REPEATED {
            let Some(link) = &self.peers[number as usize].link else { return };
            let Some((sequence, &sent)) = link.outgoing.due_again() else { return };
            let head = DatagramHead {
                kind: DatagramKind::Data,
                to: link.theirs.pair,
                session: link.theirs.psn,
                sequence,
                expected: link.incoming.expected(),
                share: self.state.shares.each(),
            };
            if self.post(number, &head, Some(sent)).is_err() {
                return;
            }
            self.counters.repeated += 1;
            if let Some(link) = &mut self.peers[number as usize].link {
                link.outgoing.sent_again();
            }
        }
    }

    /// Sends an acknowledgement.
    pub(super) fn acknowledge(&mut self, number: u32, gap: bool) {
        let Some(link) = &self.peers[number as usize].link else { return };
        let head = DatagramHead {
            kind: DatagramKind::Ack { gap },
            to: link.theirs.pair,
            session: link.theirs.psn,
            sequence: link.outgoing.next(),
            expected: link.incoming.expected(),
            share: self.state.shares.each(),
        };
        // Without space it stays owed.
        if self.post(number, &head, None).is_ok() {
            self.counters.acknowledgements += 1;
            if let Some(link) = &mut self.peers[number as usize].link {
                link.incoming.acknowledged();
            }
        }
    }

    pub(super) fn am_bcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        let number = self.open_peer(ep)?;
        check_len(max_len, self.attr.limits.am.max_bcopy)?;
        let peer = &self.peers[number as usize];
        let waits = peer.link.is_none();
        let space = if waits { peer.waiting.len() < WAITING } else { self.has_space(number) };
        if waits {
            self.ask(number);
        }
        if !space {
            return Err(self.refuse());
        }
        let Some(buffer) = self.send.take() else { return Err(self.refuse()) };
        let message = self.send.view(buffer).slice(HEAD_BYTES, HEADER_BYTES + max_len);
        let message = message.expect("limits were checked before");
        let payload = message.slice(HEADER_BYTES, max_len).expect("limits were checked before");
        let len = pack(payload).min(max_len);
        message.copy_in(&wire::encode(id, header, len));
        let sent = Sent { buffer, len: (HEAD_BYTES + HEADER_BYTES + len) as u32 };
        if waits {
            self.peers[number as usize].waiting.push_back(Waiting::Message(sent));
        } else if let Err(error) = self.send_next(number, sent) {
            self.free(buffer);
            return Err(error);
        }
        self.counters.sent += 1;
        Ok(len)
    }

    /// Sends what waited for the connection, in order, as far as there is space.
    pub(super) fn post_waiting(&mut self, number: u32) {
        while let Some(waiting) = self.peers[number as usize].waiting.pop_front() {
            match waiting {
                Waiting::Message(sent) => {
                    if !self.window_has_space(number) || self.send_next(number, sent).is_err() {
                        let peer = &mut self.peers[number as usize];
                        return peer.waiting.push_front(Waiting::Message(sent));
                    }
                }
                Waiting::Flush(waiter) => {
                    if !self.flush_sent(number, waiter) {
                        self.events.answer(waiter, Ok(0));
                    }
                }
            }
        }
    }

    /// Answers `waiter` when all that was sent is acknowledged; `false`: it is already.
    pub(super) fn flush_link(&mut self, number: u32, waiter: CompletionOf) -> bool {
        let peer = &mut self.peers[number as usize];
        if !peer.waiting.is_empty() {
            peer.waiting.push_back(Waiting::Flush(waiter));
            return true;
        }
        self.flush_sent(number, waiter)
    }

    fn flush_sent(&mut self, number: u32, waiter: CompletionOf) -> bool {
        match &mut self.peers[number as usize].link {
            Some(link) if !link.outgoing.is_empty() => {
                let last = link.outgoing.next().wrapping_sub(1);
                link.flushes.push_back((last, waiter));
                true
            }
            _ => false,
        }
    }

    pub(super) fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        let number = self.open_peer(ep)?;
        Ok(match self.flush_link(number, CompletionOf::Token(token)) {
            true => Posted::InFlight,
            false => Posted::Done,
        })
    }

    pub(super) fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        let key = self.events.open_group(token);
        for number in 0..self.peers.len() as u32 {
            let part = self.events.add_part(key);
            if !self.flush_link(number, part) {
                self.events.answer(part, Ok(0));
            }
        }
        Ok(self.events.close_group(key))
    }
}
