//! Active messages on their way out.
//!
//! A short message is copied into the device's queue by the call; a packed one leaves from a send
//! buffer, or is copied, too, when it is as short; a lent one leaves from where it lies, with its
//! header from a send buffer. While there is no connection yet, messages wait in send buffers, up
//! to a bound.

use bowline_base::view::View;
use bowline_uct::runtime::{bytes_of, check_len};
use bowline_uct::{AmHeader, AmId, EpId, LocalSlice, PostError, Posted, Token};

use super::peer::{Holds, Op, Waiting};
use super::{RcIface, WAITING};
use crate::sys::{Bytes, Request, Work};
use crate::wire::{self, HEADER_BYTES};

impl RcIface {
    /// Whether a peer's connection takes `count` requests now.
    #[inline]
    pub(super) fn has_space(&self, number: u32, count: usize) -> bool {
        self.peers[number as usize].link.as_ref().is_some_and(|link| {
            link.ops.len() + count <= self.state.depth
                && self.state.under_way + count <= self.state.most_under_way
        })
    }

    /// Counts a refusal. What is short may be held by requests that nobody asked a completion of.
    #[cold]
    pub(super) fn refuse(&mut self) -> PostError {
        self.counters.refused += 1;
        if self.state.under_way >= self.state.most_under_way / 2 || !self.send.has_free() {
            for number in 0..self.peers.len() as u32 {
                let link = self.peers[number as usize].link.as_ref();
                if link.is_some_and(|link| link.unsignalled > 0) {
                    // Without space even for this, completions are on their way already.
                    let _ = self.mark(number);
                }
            }
        }
        PostError::NoResource
    }

    pub(super) fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        let number = self.open_peer(ep)?;
        check_len(payload.len(), self.attr.limits.am.max_short)?;
        if !self.has_space(number, 1) {
            return self
                .wait_with(number, id, header, payload.len(), &mut |space| space.copy_in(payload))
                .map(|_| ());
        }
        let header = wire::encode(id, header, payload.len());
        let bytes = Bytes::Inline(&header, payload);
        self.push_here(number, Work::Send, bytes, Op::NOTHING, false)?;
        self.counters.sent += 1;
        self.counters.inline += 1;
        Ok(())
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
        if !self.has_space(number, 1) {
            return self.wait_with(number, id, header, max_len, pack);
        }
        let Some((buffer, len)) = self.pack_message(id, header, max_len, pack) else {
            return Err(self.refuse());
        };
        let piece = [self.send.piece(buffer, HEADER_BYTES + len)];
        let op = Op { holds: Holds::Buffer(buffer), ..Op::NOTHING };
        let pushed = self.push(number, Work::Send, Bytes::Registered(&piece), op, false);
        if let Err(error) = pushed {
            self.send.give(buffer);
            return Err(error);
        }
        self.counters.sent += 1;
        Ok(len)
    }

    /// Packs a message into a send buffer; nothing is packed when there is none.
    fn pack_message(
        &mut self,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Option<(u32, usize)> {
        let buffer = self.send.take()?;
        let view = self.send.view(buffer);
        let space = view.slice(HEADER_BYTES, max_len).expect("limits were checked before");
        let len = pack(space).min(max_len);
        view.copy_in(&wire::encode(id, header, len));
        Some((buffer, len))
    }

    /// Without a connection yet, a message waits for it; otherwise there is no space.
    #[cold]
    fn wait_with(
        &mut self,
        number: u32,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        let peer = &self.peers[number as usize];
        if peer.link.is_some() {
            return Err(self.refuse());
        }
        self.ask(number);
        if self.peers[number as usize].waiting.len() >= WAITING {
            self.counters.refused += 1;
            return Err(PostError::NoResource);
        }
        let Some((buffer, len)) = self.pack_message(id, header, max_len, pack) else {
            return Err(self.refuse());
        };
        let message = Waiting::Message { buffer, len: HEADER_BYTES + len };
        self.peers[number as usize].waiting.push_back(message);
        self.counters.sent += 1;
        Ok(len)
    }

    pub(super) fn am_zcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        let number = self.open_peer(ep)?;
        let len = bytes_of(payload, &self.attr.limits.am)?;
        if self.peers[number as usize].link.is_none() {
            // Copied, since it is not known when it will leave.
            let mut pack = |space: View<'_>| gather(payload, space);
            self.wait_with(number, id, header, len, &mut pack)?;
            return Ok(Posted::Done);
        }
        if !self.has_space(number, 1) || !self.send.has_free() {
            return Err(self.refuse());
        }
        let pieces =
            self.state.domain.borrow(payload, false).map_err(|error| cannot_lend(&error))?;
        let Some(buffer) = self.send.take() else {
            self.state.domain.give_back(&pieces.lent);
            return Err(self.refuse());
        };
        self.send.view(buffer).copy_in(&wire::encode(id, header, len));
        let mut sges = Vec::with_capacity(pieces.sges.len() + 1);
        sges.push(self.send.piece(buffer, HEADER_BYTES));
        sges.extend_from_slice(&pieces.sges);
        let op = Op { token, holds: Holds::Lent(pieces.lent, Some(buffer)), reads: false };
        self.push_lent(number, Work::Send, &sges, op)?;
        self.counters.sent += 1;
        Ok(Posted::InFlight)
    }

    /// Posts a request whose memory is lent; its completion is always asked for.
    pub(super) fn push_lent(
        &mut self,
        number: u32,
        work: Work<'_>,
        sges: &[crate::sys::Sge],
        op: Op,
    ) -> Result<(), PostError> {
        // Kept aside, since a refused request must leave no trace.
        let (lent, buffer) = match &op.holds {
            Holds::Lent(lent, buffer) => (lent.clone(), *buffer),
            _ => (Vec::new(), None),
        };
        let pushed = self.push(number, work, Bytes::Registered(sges), op, true);
        if pushed.is_err() {
            self.state.domain.give_back(&lent);
            if let Some(buffer) = buffer {
                self.send.give(buffer);
            }
        }
        pushed
    }

    /// Writes `bytes` and sends a message after them, with one ringing of the device.
    pub(super) fn post_put_notify(
        &mut self,
        number: u32,
        bytes: &[u8],
        write: Work<'_>,
        id: AmId,
        header: &AmHeader,
    ) -> Result<(), PostError> {
        if !self.has_space(number, 2) {
            self.ask(number);
            return Err(self.refuse());
        }
        let message = wire::encode(id, header, 0);
        let peer = &mut self.peers[number as usize];
        let Some(link) = &mut peer.link else { return Err(PostError::NoResource) };
        let signalled = link.unsignalled + 2 >= self.state.signal_every;
        let of = |next| super::peer::request_id(number, link.generation, next);
        let first = Request {
            id: of(link.next),
            work: write,
            bytes: Bytes::Inline(bytes, &[]),
            signalled: false,
            fenced: peer.beside.fence && link.reads > 0,
        };
        let next = Request {
            id: of(link.next.wrapping_add(1)),
            work: Work::Send,
            bytes: Bytes::Inline(&message, &[]),
            signalled,
            fenced: false,
        };
        if let Err(error) = link.pair.post_two(&first, &next) {
            return Err(self.post_failed(number, &error));
        }
        peer.beside.fence = false;
        link.next = link.next.wrapping_add(2);
        link.unsignalled = if signalled { 0 } else { link.unsignalled + 2 };
        link.ops.push_back(Op::NOTHING);
        link.ops.push_back(Op::NOTHING);
        self.state.under_way += 2;
        self.counters.requests += 2;
        self.counters.doorbells += 1;
        self.counters.signalled += u64::from(signalled);
        self.counters.sent += 1;
        Ok(())
    }
}

/// Memory of an operation that the device cannot take, as an error of the operation.
#[cold]
pub(super) fn cannot_lend(error: &std::io::Error) -> PostError {
    match error.raw_os_error() {
        // The limit of locked memory: other operations may end.
        Some(libc::ENOMEM | libc::EAGAIN) => PostError::NoResource,
        _ => {
            tracing::warn!(%error, "memory of an operation cannot be registered");
            PostError::BadArgument
        }
    }
}

/// Copies the pieces into `space`, one behind the other.
fn gather(pieces: &[LocalSlice], space: View<'_>) -> usize {
    let mut at = 0;
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        // SAFETY: the piece points into a buffer that the caller keeps and does not change during
        // the call.
        let bytes = unsafe { std::slice::from_raw_parts(piece.as_ptr(), piece.len()) };
        at += space.slice(at, bytes.len()).map_or(0, |rest| rest.copy_in(bytes));
    }
    at
}
