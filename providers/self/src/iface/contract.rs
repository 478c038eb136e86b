//! The contract's two traits, implemented by the parts beside this file.

use std::os::fd::BorrowedFd;

use bowline_base::doorbell::{Doorbell, Sleep};
use bowline_base::view::View;
use bowline_uct::runtime::check_len;
use bowline_uct::{
    AmHeader, AmId, Armed, EpId, Iface, IfaceAttr, MdAttr, MemError, MemHandle, MemoryDomain,
    OpenError, PeerFailure, PostError, Posted, RemoteSlice, RkeyId, SignalSafe, Sink, Source,
    Token, Unreachable, Wakeup, forward, lacks,
};

use super::{Body, INLINE_BYTES, MYSELF, Missing, SelfIface};
use crate::md::Domain;

impl MemoryDomain for SelfIface {
    lacks! { mem_expose puts_end_last }

    forward! { [this => this.domain.memory] mem_alloc mem_register mem_lend mem_view mem_release }

    forward! { [this => this.domain] rkey_release }

    fn md_attr(&self) -> MdAttr {
        Domain::attr()
    }

    fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        self.domain.pack(handle).map(Vec::from).ok_or(MemError::NoSuch)
    }

    fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        match self.check_open(ep) {
            Ok(()) => self.domain.unpack(packed),
            Err(PostError::PeerFailed) => Err(MemError::Peer(PeerFailure::Died)),
            Err(_) => Err(MemError::NoSuch),
        }
    }

    fn rkey_ptr(&self, rkey: RkeyId, remote: u64, len: usize) -> Option<View<'_>> {
        self.domain.reach(RemoteSlice { address: remote, rkey }, len).ok()
    }

    fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        let packed = self.domain.key_of(start, len)?;
        out.get_mut(..packed.len())?.copy_from_slice(&packed);
        Some(packed.len())
    }
}

// SAFETY: both sides of an operation are here, and it is copied in the call that posts it.
unsafe impl Iface for SelfIface {
    lacks! { explain }

    // Its own methods of these names.
    forward! { [this => this] connect disconnect am_zcopy invalidate }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn address(&self) -> Vec<u8> {
        self.identity.pack()
    }

    fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        Ok(self.identity.check(address)?)
    }

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        self.identity.check(address).is_ok().then_some(MYSELF)
    }

    #[inline]
    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        self.check_open(ep)?;
        check_len(payload.len(), INLINE_BYTES)?;
        if self.queue.is_full() {
            return Err(self.refuse(ep, Missing::Slot));
        }
        self.push_inline(id, header, payload);
        self.counters.am_short += 1;
        Ok(())
    }

    fn am_bcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        self.check_open(ep)?;
        check_len(max_len, self.attr.limits.am.max_bcopy)?;
        if self.queue.is_full() {
            return Err(self.refuse(ep, Missing::Slot));
        }
        let Some((buffer, len)) = self.pool.fill(max_len, pack) else {
            return Err(self.refuse(ep, Missing::Buffer));
        };
        self.push(id, header, Body::Held { buffer, len: len as u32 });
        self.counters.am_bcopy += 1;
        Ok(len)
    }

    fn flush(&mut self, ep: EpId, _token: Token) -> Result<Posted, PostError> {
        self.check_open(ep)?;
        Self::order_writes();
        Ok(Posted::Done)
    }

    fn flush_all(&mut self, _token: Token) -> Result<Posted, PostError> {
        Self::order_writes();
        Ok(Posted::Done)
    }

    fn fence(&mut self) -> Result<(), PostError> {
        Self::order_writes();
        Ok(())
    }

    fn want_writable(&mut self, ep: EpId) {
        if self.check_open(ep).is_ok() {
            self.waiters.ask(ep);
        }
    }

    #[inline]
    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = 0;
        if !self.events.is_empty() {
            events += self.events.report(sink, budget);
            if !self.events.is_empty() {
                return events;
            }
        }
        if self.waiters.is_empty() {
            return events + self.deliver(sink, budget - events);
        }
        self.odd_call = !self.odd_call;
        let left = budget - events;
        let mut reported = 0;
        if left > 1 || (left == 1 && self.odd_call) {
            reported = self.report_writable(sink);
        }
        let kept = u32::from(reported == 0 && left > 1);
        events += reported + self.deliver(sink, left - reported - kept);
        if reported == 0 && events < budget {
            events += self.report_writable(sink);
        }
        events
    }

    fn check(&mut self, ep: EpId) -> Result<(), PostError> {
        self.check_open(ep)
    }

    fn all_sent(&mut self) -> bool {
        true
    }
}

impl Wakeup for SelfIface {
    forward! { [this => this.doorbell] disarm }

    fn doorbell(&self) -> Option<&Doorbell> {
        Some(&self.doorbell)
    }

    fn arm(&mut self, descriptor: bool) -> Armed {
        // A ring before the descriptor exists would be lost. Where it cannot be made, `event_fd`
        // says why, and nobody can sleep on it.
        if descriptor && self.doorbell.event_fd().is_err() {
            return Armed::Busy;
        }
        self.doorbell.arm(if descriptor { Sleep::Fd } else { Sleep::Futex });
        // Only the owner posts, so nothing can arrive after this poll; other threads ring for
        // reasons of their own.
        if self.has_events() {
            self.doorbell.disarm();
            return Armed::Busy;
        }
        Armed::Ready
    }

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        self.doorbell.event_fd().map_err(|source| OpenError::System {
            act: "make the event descriptor of the self transport",
            source,
        })
    }
}

impl SignalSafe for SelfIface {
    lacks! { SignalSafe }
}
