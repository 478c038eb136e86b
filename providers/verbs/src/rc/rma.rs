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
use bowline_uct::runtime::CompletionOf;
use bowline_uct::{
    AtomicOp, AtomicWidth, EpId, LocalSlice, OneSided, PostError, Posted, RemoteSlice, Token, lacks,
};

use super::peer::{Holds, Op, Waiting};
use super::post::cannot_lend;
use super::{RcIface, WAITING};
use crate::sys::{Bytes, Work};

impl RcIface {
    /// The peer and the device's key for an operation on `len` bytes of its memory.
    #[inline]
    fn target(&self, ep: EpId, at: RemoteSlice, len: usize) -> Result<(u32, u32), PostError> {
        let number = self.open_peer(ep)?;
        let key = self.domain.remote(number, at.rkey, at.address, len)?;
        Ok((number, key.rkey))
    }

    /// Room for one request, or the error; asks for the connection if there is none.
    #[inline]
    pub(super) fn room_or_refuse(&mut self, number: u32) -> Result<(), PostError> {
        if self.has_room(number, 1) {
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
        let limits = if get { self.attr.limits.get } else { self.attr.limits.put };
        let len: usize = local.iter().map(LocalSlice::len).sum();
        if local.len() > limits.max_iov {
            self.open_peer(ep)?;
            return Err(PostError::BadArgument);
        }
        if len > limits.max_zcopy {
            self.open_peer(ep)?;
            return Err(PostError::TooLong);
        }
        let (number, key) = self.target(ep, remote, len)?;
        if len == 0 {
            return Ok(Posted::Done);
        }
        let waits = self.peers[number as usize].link.is_none();
        if waits && self.peers[number as usize].waiting.len() < WAITING {
            self.ask(number);
        } else {
            self.room_or_refuse(number)?;
        }
        let pieces = self.domain.borrow(local, get).map_err(|error| cannot_lend(&error))?;
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
        let peer = &mut self.peers[number as usize];
        let Some(link) = &peer.link else {
            if peer.waiting.is_empty() {
                return Ok(false);
            }
            if peer.waiting.len() >= 4 * WAITING {
                return Err(PostError::NoResource);
            }
            peer.waiting.push_back(Waiting::Flush(waiter));
            return Ok(true);
        };
        if link.ops.is_empty() {
            return Ok(false);
        }
        if link.unsignalled > 0 {
            self.mark(number)?;
        }
        let peer = &mut self.peers[number as usize];
        let Some(link) = &mut peer.link else { return Ok(false) };
        link.flushes.push_back((link.next.wrapping_sub(1), waiter));
        Ok(true)
    }

    pub(super) fn flush_endpoint(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        let number = self.open_peer(ep)?;
        match self.flush_link(number, CompletionOf::Token(token))? {
            true => Ok(Posted::InFlight),
            false => Ok(Posted::Done),
        }
    }

    pub(super) fn flush_everything(&mut self, token: Token) -> Result<Posted, PostError> {
        // Markers first: without room for all of them nothing is noted.
        for number in 0..self.peers.len() as u32 {
            let link = self.peers[number as usize].link.as_ref();
            if link.is_some_and(|link| link.unsignalled > 0) {
                self.mark(number)?;
            }
        }
        let key = self.events.open_group(token);
        for number in 0..self.peers.len() as u32 {
            if self.flush_link(number, CompletionOf::Part(key)) == Ok(true) {
                self.events.add_part(key);
            }
        }
        Ok(self.events.close_group(key))
    }

    pub(super) fn fence_all(&mut self) {
        for peer in &mut self.peers {
            peer.fence = peer.link.as_ref().is_some_and(|link| link.reads > 0);
        }
    }
}

impl OneSided for RcIface {
    lacks! { get_bcopy }

    fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError> {
        if bytes.len() > self.attr.limits.put.max_short {
            self.open_peer(ep)?;
            return Err(PostError::TooLong);
        }
        let (number, key) = self.target(ep, to, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.room_or_refuse(number)?;
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
        if max_len > self.attr.limits.put.max_bcopy {
            self.open_peer(ep)?;
            return Err(PostError::TooLong);
        }
        let (number, key) = self.target(ep, to, max_len)?;
        self.room_or_refuse(number)?;
        let Some(buffer) = self.send.take() else {
            return Err(self.refuse());
        };
        let room = self.send.view(buffer).slice(0, max_len).expect("limits were checked");
        let len = pack(room).min(max_len);
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
        if bytes.len() > self.attr.limits.put.max_short {
            self.open_peer(ep)?;
            return Err(PostError::TooLong);
        }
        let (number, key) = self.target(ep, to, bytes.len())?;
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

    fn atomic_post(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
    ) -> Result<(), PostError> {
        self.atomic(ep, op, width, at, None)
    }

    fn atomic_fetch(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        token: Token,
    ) -> Result<Option<u64>, PostError> {
        self.atomic(ep, op, width, at, Some(token)).map(|()| None)
    }
}
