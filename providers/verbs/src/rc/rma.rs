//! Puts, gets, flush and fence.
//!
//! **When a put is visible.** A reliable connection acknowledges a write when the target's device
//! has taken it in, in order. `flush` completes with that acknowledgement. The target's processor
//! sees the bytes no later than whatever it receives from this connection afterwards, since the
//! device writes both over the same path in order; this is what the InfiniBand architecture
//! promises (volume 1, chapter 9.5) and what soft-RoCE does, which copies before it acknowledges.
//! A processor that learns of the flush by another way, and a device that writes through a bus
//! that delays, are outside of that promise; no device that is in use delays beyond its own next
//! access.
//!
//! **Order.** Requests of a connection are carried out in order, writes after writes and atomics
//! after writes. What may lag behind is the answer to a read or an atomic, so a fence only matters
//! after those, and is the device's own.

use bowline_base::view::View;
use bowline_uct::runtime::{CompletionOf, bytes_of, check_len};
use bowline_uct::{
    AtomicOp, AtomicWidth, EpId, LocalSlice, OneSided, PostError, Posted, RemoteSlice, Token, lacks,
};

use super::peer::{Holds, Op, Waiting};
use super::post::cannot_lend;
use super::{RcIface, WAITING};
use crate::sys::{Bytes, Work};

impl RcIface {
    /// The peer and the device's key for an operation on `len` bytes of its memory, `limit` at most.
    #[inline]
    fn target(
        &self,
        ep: EpId,
        at: RemoteSlice,
        len: usize,
        limit: usize,
    ) -> Result<(u32, u32), PostError> {
        let number = self.open_peer(ep)?;
        check_len(len, limit)?;
        Ok((number, self.state.domain.opened.open(number, at, len)?.key))
    }

    /// Space for one request, or the error; asks for the connection if there is none.
    #[inline]
    pub(super) fn space_or_refuse(&mut self, number: u32) -> Result<(), PostError> {
        if self.has_space(number, 1) {
            return Ok(());
        }
        self.ask(number);
        Err(self.refuse())
    }

    /// A put or a get of memory that stays where it is.
    pub(super) fn lent_transfer(
        &mut self,
        ep: EpId,
        local: &[LocalSlice],
        remote: RemoteSlice,
        token: Token,
        get: bool,
    ) -> Result<Posted, PostError> {
        let number = self.open_peer(ep)?;
        let limits = if get { &self.attr.limits.get } else { &self.attr.limits.put };
        let len = bytes_of(local, limits)?;
        let key = self.state.domain.opened.open(number, remote, len)?.key;
        if len == 0 {
            return Ok(Posted::Done);
        }
        let waits = self.peers[number as usize].link.is_none();
        if waits && self.peers[number as usize].waiting.len() < WAITING {
            self.ask(number);
        } else {
            self.space_or_refuse(number)?;
        }
        let pieces = self.state.domain.borrow(local, get).map_err(|error| cannot_lend(&error))?;
        let address = remote.address;
        if waits {
            let transfer = Waiting::Transfer { get, address, key, pieces, token };
            self.peers[number as usize].waiting.push_back(transfer);
            return Ok(Posted::InFlight);
        }
        let work = if get { Work::Read { address, key } } else { Work::Write { address, key } };
        let op = Op { token, holds: Holds::Lent(pieces.lent, None), reads: get };
        self.push_lent(number, work, &pieces.sges, op)?;
        Ok(Posted::InFlight)
    }

    /// Answers `waiter` when everything posted to the peer is complete. `Ok(false)`: it is
    /// already, and nothing was noted.
    pub(super) fn flush_link(
        &mut self,
        number: u32,
        waiter: CompletionOf,
    ) -> Result<bool, PostError> {
        self.mark_for_flush(number)?;
        Ok(self.note_flush(number, waiter))
    }

    /// Makes everything posted to the peer end with a completion, and space to note a flush.
    fn mark_for_flush(&mut self, number: u32) -> Result<(), PostError> {
        let peer = &self.peers[number as usize];
        match &peer.link {
            None if peer.waiting.len() >= 4 * WAITING => Err(PostError::NoResource),
            Some(link) if link.unsignalled > 0 => self.mark(number),
            _ => Ok(()),
        }
    }

    /// Notes a flush after [`Self::mark_for_flush`]. `false`: everything is complete, and nothing was noted.
    fn note_flush(&mut self, number: u32, waiter: CompletionOf) -> bool {
        let peer = &mut self.peers[number as usize];
        match &mut peer.link {
            None if peer.waiting.is_empty() => return false,
            None => peer.waiting.push_back(Waiting::Flush(waiter)),
            Some(link) if link.ops.is_empty() => return false,
            Some(link) => link.flushes.push_back((link.next.wrapping_sub(1), waiter)),
        }
        true
    }

    pub(super) fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        let number = self.open_peer(ep)?;
        match self.flush_link(number, CompletionOf::Token(token))? {
            true => Ok(Posted::InFlight),
            false => Ok(Posted::Done),
        }
    }

    pub(super) fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        // First: without space for all of them nothing is noted.
        for number in 0..self.peers.len() as u32 {
            self.mark_for_flush(number)?;
        }
        let key = self.events.open_group(token);
        for number in 0..self.peers.len() as u32 {
            let part = self.events.add_part(key);
            if !self.note_flush(number, part) {
                self.events.answer(part, Ok(0));
            }
        }
        Ok(self.events.close_group(key))
    }

    pub(super) fn fence_all(&mut self) {
        for peer in &mut self.peers {
            peer.beside.fence = peer.link.as_ref().is_some_and(|link| link.reads > 0);
        }
    }
}

impl OneSided for RcIface {
    lacks! { get_bcopy }

    fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError> {
        let (number, key) = self.target(ep, to, bytes.len(), self.attr.limits.put.max_short)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.space_or_refuse(number)?;
        let work = Work::Write { address: to.address, key };
        self.push_here(number, work, Bytes::Inline(bytes, &[]), Op::NOTHING, false)
    }

    fn put_bcopy(
        &mut self,
        ep: EpId,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
        to: RemoteSlice,
    ) -> Result<usize, PostError> {
        let (number, key) = self.target(ep, to, max_len, self.attr.limits.put.max_bcopy)?;
        self.space_or_refuse(number)?;
        let Some(buffer) = self.send.take() else {
            return Err(self.refuse());
        };
        let space = self.send.view(buffer).slice(0, max_len).expect("limits were checked");
        let len = pack(space).min(max_len);
        if len == 0 {
            self.send.give(buffer);
            return Ok(0);
        }
        let piece = [self.send.piece(buffer, len)];
        let op = Op { holds: Holds::Buffer(buffer), ..Op::NOTHING };
        let work = Work::Write { address: to.address, key };
        if let Err(error) = self.push(number, work, Bytes::Registered(&piece), op, false) {
            self.send.give(buffer);
            return Err(error);
        }
        Ok(len)
    }

    fn put_zcopy(
        &mut self,
        ep: EpId,
        from: &[LocalSlice],
        to: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.lent_transfer(ep, from, to, token, false)
    }

    fn put_notify(
        &mut self,
        ep: EpId,
        bytes: &[u8],
        to: RemoteSlice,
        id: bowline_uct::AmId,
        header: &bowline_uct::AmHeader,
    ) -> Result<(), PostError> {
        let (number, key) = self.target(ep, to, bytes.len(), self.attr.limits.put.max_short)?;
        self.post_put_notify(number, bytes, Work::Write { address: to.address, key }, id, header)
    }

    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.lent_transfer(ep, to, from, token, true)
    }

    fn atomic(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        token: Token,
    ) -> Result<Option<u64>, PostError> {
        self.post_atomic(ep, op, width, at, token).map(|()| None)
    }
}
