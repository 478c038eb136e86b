//! The contract, put together from the parts.

use std::os::fd::BorrowedFd;

use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::{Doorbell, Sleep};
use bowline_base::view::View;
use bowline_uct::runtime::{RegisteredMemory, bytes_of, check_len};
use bowline_uct::{
    AmHeader, AmId, Armed, Caps, EpId, Iface, IfaceAttr, LocalSlice, MdAttr, MemError, MemHandle,
    MemoryDomain, OpenError, PostError, Posted, RkeyId, SignalSafe, Sink, Source, Token,
    Unreachable, Wakeup, forward, lacks,
};

use super::SimIface;
use crate::net::{Kind, Range};
use crate::options::Drive;
use crate::payload::{Bytes, Lent, Payload};
use crate::wire::{self, PackedRkey, RKEY_BYTES};

impl SimIface {
    fn offers_memory(&self) -> Result<(), MemError> {
        if self.attr.limits.put.max_short == 0 {
            return Err(MemError::Unsupported("reach memory of peers"));
        }
        Ok(())
    }

    /// Lets the network know where the memory of a new handle is, and whether peers may write there.
    fn publish(&self, handle: MemHandle, writable: bool) -> MemHandle {
        let place = self.domain.place(handle).expect("the handle is new");
        let mut net = self.network.lock();
        if net.is_alive(self.node) {
            net.nodes[self.node as usize].memory.insert(handle.0, Range::of(place, writable));
        }
        handle
    }

    fn packed_key(&self, handle: MemHandle) -> Option<Vec<u8>> {
        let (address, len) = self.domain.place(handle)?;
        let (network, node, handle) = (self.network_id, self.node, handle.0.to_wire());
        Some(PackedRkey { network, node, handle, address, len }.pack())
    }

    fn send(
        &mut self,
        ep: EpId,
        (id, header): (AmId, &AmHeader),
        token: Token,
        len: usize,
        payload: impl FnOnce() -> Payload,
    ) -> Result<usize, PostError> {
        let peer = self.check_open(ep)?;
        let admitted = self.network.lock().admit(self.node, peer, true);
        admitted.map_err(|error| self.refused(ep, true, error))?;
        // Packed without the lock, since it is the caller's code.
        let payload = payload();
        let len = match &payload {
            Payload::Owned(bytes) => bytes.len(),
            Payload::Lent(_) => len,
        };
        let kind = Kind::Am { id, header: *header, payload };
        self.network.lock().post(self.node, peer, token, kind, len, None);
        Ok(len)
    }
}

impl MemoryDomain for SimIface {
    // A network maps nothing.
    lacks! { rkey_ptr puts_end_last }

    forward! { [this => this] rkey_unpack }

    forward! { [this => this.domain] mem_view }

    fn md_attr(&self) -> MdAttr {
        if self.offers_memory().is_err() {
            return MdAttr::default();
        }
        MdAttr {
            can_alloc: true,
            can_register: true,
            rkey_bytes: RKEY_BYTES,
            register_cost_ns: (0.0, 0.0),
        }
    }

    fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        self.offers_memory()?;
        let handle = self.domain.keep(RegisteredMemory::allocate(len)?);
        Ok(self.publish(handle, true))
    }

    fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError> {
        self.offers_memory()?;
        let handle = self.domain.keep(RegisteredMemory::of_buffer(memory));
        Ok(self.publish(handle, true))
    }

    fn mem_expose(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        if !self.attr.caps.contains(Caps::EXPOSE) {
            return Err(MemError::Unsupported("lend memory to the reads of peers"));
        }
        let handle = self.domain.keep(RegisteredMemory::exposed(bytes));
        Ok(self.publish(handle, false))
    }

    fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        self.offers_memory()?;
        let handle = self.domain.keep(RegisteredMemory::lent(bytes));
        Ok(self.publish(handle, true))
    }

    fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        self.network.lock().nodes[self.node as usize].memory.remove(&handle.0);
        self.domain.mem_release(handle)
    }

    fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        self.packed_key(handle).ok_or(MemError::NoSuch)
    }

    fn rkey_release(&mut self, rkey: RkeyId) {
        self.keys.remove(rkey);
    }

    fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        let packed = self.packed_key(self.domain.allocation_of(start, len)?)?;
        out.get_mut(..packed.len())?.copy_from_slice(&packed);
        Some(packed.len())
    }
}

// SAFETY: the network touches slices in its events only, which name the operation; an operation that has been
// reported, or whose interface is gone, is found no more by them.
unsafe impl Iface for SimIface {
    lacks! { explain }

    // Its own methods of these names.
    forward! { [this => this] connect disconnect invalidate }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn address(&self) -> Vec<u8> {
        wire::pack_address(self.network_id, self.node)
    }

    fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        self.peer_at(address).map(drop)
    }

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        wire::parse_address(self.network_id, address).ok().map(Source)
    }

    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        self.check_open(ep)?;
        check_len(payload.len(), self.attr.limits.am.max_short)?;
        let copy = || Payload::Owned(Bytes::new(payload.to_vec()));
        self.send(ep, (id, header), Token::NONE, payload.len(), copy).map(drop)
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
        let packed = || Payload::Owned(Bytes::packed(max_len, pack));
        self.send(ep, (id, header), Token::NONE, max_len, packed)
    }

    fn am_zcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        self.check_open(ep)?;
        let len = bytes_of(payload, &self.attr.limits.am)?;
        let lent = || Payload::Lent(Lent::new(payload));
        self.send(ep, (id, header), token, len, lent)?;
        Ok(Posted::InFlight)
    }

    fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        let peer = self.check_open(ep)?;
        self.begin_flush(Some(peer), token)
    }

    fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        self.begin_flush(None, token)
    }

    fn fence(&mut self) -> Result<(), PostError> {
        self.network.lock().fence(self.node);
        Ok(())
    }

    fn want_writable(&mut self, ep: EpId) {
        if let Ok(peer) = self.check_open(ep) {
            self.waiters.ask(ep);
            self.network.lock().want_space(self.node, peer);
        }
    }

    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if budget == 0 {
            return 0;
        }
        let mut events = self.report(sink, budget);
        if events == 0 && self.drive == Drive::OnIdle {
            self.network.run_until_quiet();
            events = self.report(sink, budget);
        }
        if events == 0
            && let Some(hook) = self.idle.clone()
        {
            hook();
        }
        events
    }

    fn check(&mut self, ep: EpId) -> Result<(), PostError> {
        let peer = self.check_open(ep)?;
        if !self.attr.caps.contains(Caps::EP_CHECK) {
            return Err(PostError::Unsupported);
        }
        let mut net = self.network.lock();
        net.ask_after(self.node, peer);
        // What is known, not what has happened: the answer takes its time.
        let failed = net.has_failed(self.node, peer) || net.unreachable(self.node, peer).is_some();
        if failed { Err(PostError::PeerFailed) } else { Ok(()) }
    }

    fn all_sent(&mut self) -> bool {
        true
    }
}

impl Wakeup for SimIface {
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
        // Space may have come and gone since the last progress.
        self.ask_for_space();
        // What comes after this poll, under the lock, rings.
        if self.has_events() {
            self.doorbell.disarm();
            return Armed::Busy;
        }
        Armed::Ready
    }

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        self.doorbell.event_fd().map_err(|source| OpenError::System {
            act: "make the event descriptor of a simulated interface",
            source,
        })
    }
}

impl SignalSafe for SimIface {
    lacks! { SignalSafe }
}

impl SimIface {
    fn begin_flush(&mut self, only: Option<u32>, token: Token) -> Result<Posted, PostError> {
        let mut net = self.network.lock();
        if !net.is_alive(self.node) {
            return Err(PostError::PeerFailed);
        }
        Ok(if net.flush(self.node, only, token) { Posted::InFlight } else { Posted::Done })
    }
}
