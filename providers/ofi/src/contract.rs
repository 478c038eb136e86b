//! The contract's methods, each a line or two in front of the part that does the work.

use bowline_base::buffer::RecvBuf;
use bowline_base::view::View;
use bowline_uct::runtime::{RegisteredMemory, check_len};
use bowline_uct::{
    AmHeader, AmId, EpId, Iface, IfaceAttr, LocalSlice, MemError, MemHandle, MemoryDomain,
    PeerFailure, PostError, RkeyId, SignalSafe, Source, Unreachable, forward, lacks,
};

use crate::addr::Address;
use crate::iface::OfiIface;
use crate::md::Packed;

impl MemoryDomain for OfiIface {
    lacks! { rkey_ptr puts_end_last }

    forward! { [this => this.memories] md_attr mem_view mem_release rkey_pack rkey_of }

    fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        let memory = RegisteredMemory::allocate(len)?;
        self.memories.keep(&mut self.net, memory)
    }

    fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError> {
        self.memories.keep(&mut self.net, RegisteredMemory::of_buffer(memory))
    }

    fn mem_expose(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        self.memories.keep(&mut self.net, RegisteredMemory::exposed(bytes))
    }

    fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        self.memories.keep(&mut self.net, RegisteredMemory::lent(bytes))
    }

    fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        let index = match self.open_peer(ep) {
            Ok(index) => index,
            Err(PostError::PeerFailed) => return Err(MemError::Peer(PeerFailure::Died)),
            Err(_) => return Err(MemError::NoSuch),
        };
        let key = Packed::parse(packed).ok_or(MemError::BadKey)?;
        if key.instance != self.peers[index as usize].instance {
            return Err(MemError::BadKey);
        }
        Ok(key.open(index, &mut self.rkeys))
    }

    fn rkey_release(&mut self, rkey: RkeyId) {
        self.rkeys.remove(rkey);
    }
}

// SAFETY: completions are those of libfabric, or come behind the end of the endpoint that could still write
// (`failure/release.rs`); endpoints are closed before the memory is given back.
unsafe impl Iface for OfiIface {
    lacks! { explain }

    // Its own methods of these names.
    forward! {
        [this => this] connect disconnect am_short am_zcopy flush flush_all progress check invalidate
    }

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

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        let address = Address::unpack(address).ok()?;
        self.by_instance.get(&address.instance).copied().map(Source)
    }

    fn all_sent(&mut self) -> bool {
        !self.has_unfinished()
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
        check_len(max_len, self.attr.limits.am.max_bcopy)?;
        let len = self.send_packed(index, id, header, max_len, pack)?;
        self.counters.am_bcopy += 1;
        Ok(len)
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
}

impl SignalSafe for OfiIface {
    lacks! { SignalSafe }
}
