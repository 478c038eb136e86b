//! The contract's methods, each a line or two in front of the part that does the work.

use bowline_base::buffer::RecvBuf;
use bowline_base::view::View;
use bowline_uct::{
    AmHeader, AmId, EpId, Iface, IfaceAttr, LocalSlice, MdAttr, MemError, MemHandle, MemoryDomain,
    OpenError, PeerFailure, PostError, Posted, RkeyId, SignalSafe, Sink, Source, Token,
    Unreachable, lacks,
};

use crate::addr::Address;
use crate::iface::OfiIface;
use crate::md::{Memories, Rkey};

impl MemoryDomain for OfiIface {
    lacks! { puts_end_last }

    fn md_attr(&self) -> MdAttr {
        Memories::attr()
    }

    fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        self.memories.alloc(&mut self.net, len)
    }

    fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError> {
        self.memories.register(&mut self.net, memory)
    }

    fn mem_expose(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        self.memories.expose(&mut self.net, bytes)
    }

    fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        self.memories.lend(&mut self.net, bytes)
    }

    fn mem_view(&self, handle: MemHandle) -> Option<View<'_>> {
        self.memories.view(handle)
    }

    fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        self.memories.release(handle)
    }

    fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        self.memories.pack(handle)
    }

    fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        let index = match self.open_peer(ep) {
            Ok(index) => index,
            Err(PostError::PeerFailed) => return Err(MemError::Peer(PeerFailure::Died)),
            Err(_) => return Err(MemError::NoSuch),
        };
        let rkey = Rkey::unpack(index, packed).ok_or(MemError::BadKey)?;
        if rkey.instance != self.peers[index as usize].instance {
            return Err(MemError::BadKey);
        }
        Ok(RkeyId(self.rkeys.insert(rkey)))
    }

    fn rkey_ptr(&self, _rkey: RkeyId, _remote: u64, _len: usize) -> Option<View<'_>> {
        None
    }

    fn rkey_release(&mut self, rkey: RkeyId) {
        self.rkeys.remove(rkey.0);
    }

    fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        self.memories.key_of(start, len, out)
    }
}

// SAFETY: completions are those of libfabric, or come behind the end of the endpoint that could still write
// (`failure/release.rs`); endpoints are closed before the memory is given back.
unsafe impl Iface for OfiIface {
    lacks! { explain }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn address(&self) -> Vec<u8> {
        self.packed.clone()
    }

    fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        let address =
            Address::unpack(address).map_err(|error| Unreachable::because(error.to_string()))?;
        self.accepts(&address)
    }

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        self.open_endpoint(address)
    }

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        let address = Address::unpack(address).ok()?;
        self.by_instance.get(&address.instance).copied().map(Source)
    }

    fn disconnect(&mut self, ep: EpId) {
        self.close_endpoint(ep);
    }

    fn all_sent(&mut self) -> bool {
        !self.has_unfinished()
    }

    #[inline]
    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        self.send_short(ep, id, header, payload)
    }

    fn am_bcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        let index = self.open_peer(ep)?;
        if max_len > self.attr.limits.am.max_bcopy {
            return Err(PostError::TooLong);
        }
        let len = self.send_packed(index, id, header, max_len, pack)?;
        self.counters.am_bcopy += 1;
        Ok(len)
    }

    fn am_zcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        self.send_lent(ep, id, header, payload, token)
    }

    fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        self.flush_endpoint(ep, token)
    }

    fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        Ok(self.flush_everything(token))
    }

    fn fence(&mut self) -> Result<(), PostError> {
        self.fences = self.fences.wrapping_add(1);
        Ok(())
    }

    fn want_writable(&mut self, ep: EpId) {
        if self.endpoints.open(ep).is_ok() {
            self.waiters.ask(ep);
        }
    }

    #[inline]
    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if budget == 0 {
            return 0;
        }
        self.advance(sink, budget)
    }

    fn check(&mut self, ep: EpId) -> Result<(), PostError> {
        self.ask_life(ep)
    }

    fn invalidate(&mut self, ep: EpId) {
        self.invalidate_endpoint(ep);
    }
}

impl SignalSafe for OfiIface {
    lacks! { progress_signal_safe }
}
