//! The transport contract, method by method, and where each is done: [`crate::post`] (messages
//! out), [`crate::progress`] (messages in), [`crate::rma`] (one-sided operations),
//! [`crate::md`] (memory), [`crate::wait`] (space and sleep), [`crate::connect`] (endpoints). No
//! work is done here.

use bowline_base::buffer::RecvBuf;
use bowline_base::sync::atomic::{Ordering, fence};
use bowline_base::view::View;
use bowline_uct::{
    Caps, EpId, Iface, IfaceAttr, LocalSlice, MdAttr, MemError, MemHandle, MemoryDomain,
    PeerFailure, PostError, RkeyId, SignalSafe, Source, forward, lacks,
};

use crate::addr::Address;
use crate::iface::ShmIface;
use crate::md::MAX_PACKED;
use crate::rkey::Access;

impl MemoryDomain for ShmIface {
    fn md_attr(&self) -> MdAttr {
        MdAttr {
            can_alloc: true,
            can_register: true,
            rkey_bytes: MAX_PACKED,
            register_cost_ns: (20.0, 0.0),
        }
    }

    fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        self.memories.alloc(&self.me.process, len)
    }

    fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError> {
        self.memories.register(&self.area, memory)
    }

    fn mem_expose(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        if !self.attr.caps.contains(Caps::LENT_ONLY) {
            return Err(MemError::Unsupported("lend memory to the reads of peers"));
        }
        Ok(self.memories.expose(bytes))
    }

    fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        self.memories.lend(bytes)
    }

    fn mem_view(&self, handle: MemHandle) -> Option<View<'_>> {
        self.memories.view(handle)
    }

    fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        self.memories.release(&self.area, handle)
    }

    fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        self.memories.pack(handle)
    }

    fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        self.open_key(ep, packed)
    }

    fn rkey_ptr(&self, rkey: RkeyId, remote: u64, len: usize) -> Option<View<'_>> {
        self.rkeys.get(rkey)?.mapped(remote, len)
    }

    fn puts_end_last(&self, rkey: RkeyId) -> bool {
        self.rkeys.get(rkey).is_some_and(|access| matches!(access, Access::Mapped { .. }))
    }

    fn rkey_release(&mut self, rkey: RkeyId) {
        self.close_key(rkey);
    }

    fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        self.memories.key_of(start, len, out)
    }
}

// SAFETY: bytes are copied in the call that posts. A thread rank that copies from or to lent memory holds
// its entry meanwhile, and the end of the lending waits for that (`lent.rs`). A process that copies by
// cross memory attach does so by the kernel's permission, which no interface can revoke: SECURITY.md
// says what peers of one user can do to each other.
unsafe impl Iface for ShmIface {
    lacks! { explain am_zcopy }

    // Its own methods of these names.
    forward! {
        [this => this] reachable connect am_short am_bcopy flush flush_all want_writable progress check
    }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn address(&self) -> Vec<u8> {
        self.me.pack()
    }

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        self.source_at(&Address::unpack(address).ok()?)
    }

    fn disconnect(&mut self, ep: EpId) {
        if let Some(e) = self.eps.get_mut(ep.0 as usize) {
            e.rest();
            self.wants.cancel(ep);
            if !self.eps[ep.0 as usize].lives() {
                self.over = true;
                self.due();
            }
        }
    }

    fn fence(&mut self) -> Result<(), PostError> {
        // SeqCst, as in `flush_one`: stores and loads of the mapped operations before and after.
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn invalidate(&mut self, ep: EpId) {
        self.fail_endpoint(ep, PeerFailure::Unreachable);
    }

    fn all_sent(&mut self) -> bool {
        true
    }
}

impl SignalSafe for ShmIface {
    forward! { [this => this] progress_signal_safe }

    // The processor reads, and asks for nothing before.
    lacks! { prepare unprepare rkey_unpack_signal_safe get_prepared }

    fn lend_signal_safe(&mut self, bytes: LocalSlice) -> Option<MemHandle> {
        self.memories.lend_signal_safe(bytes)
    }

    fn can_post_signal_safe(&self, ep: EpId) -> bool {
        self.eps.get(ep.0 as usize).is_some_and(|ep| ep.lives())
    }
}
