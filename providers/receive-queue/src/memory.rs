//! Memory of a lane of queues: that of the transport below, but for the queue's own, which is nobody's.

use bowline_base::buffer::RecvBuf;
use bowline_base::view::View;
use bowline_uct::{
    EpId, LocalSlice, MdAttr, MemError, MemHandle, MemoryDomain, PeerFailure, PostError, RkeyId,
};

use super::lane::QueueLane;

impl MemoryDomain for QueueLane {
    fn md_attr(&self) -> MdAttr {
        self.core.inner.md_attr()
    }

    fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        self.core.inner.mem_alloc(len)
    }

    fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError> {
        self.core.inner.mem_register(memory)
    }

    fn mem_expose(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        self.core.inner.mem_expose(bytes)
    }

    fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        self.core.inner.mem_lend(bytes)
    }

    fn mem_view(&self, handle: MemHandle) -> Option<View<'_>> {
        self.core.inner.mem_view(handle)
    }

    fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        if handle == self.core.memory {
            return Err(MemError::NoSuch);
        }
        self.core.inner.mem_release(handle)
    }

    fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        self.core.inner.rkey_pack(handle)
    }

    fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        match self.core.below_of(ep) {
            Ok(below) => self.core.inner.rkey_unpack(below, packed),
            Err(PostError::PeerFailed) => Err(PeerFailure::Died.into()),
            Err(_) => Err(MemError::NoSuch),
        }
    }

    fn rkey_ptr(&self, rkey: RkeyId, remote: u64, len: usize) -> Option<View<'_>> {
        self.core.inner.rkey_ptr(rkey, remote, len)
    }
    fn puts_end_last(&self, rkey: RkeyId) -> bool {
        self.core.inner.puts_end_last(rkey)
    }

    fn rkey_release(&mut self, rkey: RkeyId) {
        self.core.inner.rkey_release(rkey);
    }

    fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        // The queue's own memory, which may lie beside the user's, is nobody's to lend.
        let queue = self.core.base..self.core.base + self.core.shape.bytes() as u64;
        if queue.contains(&start) {
            return None;
        }
        self.core.inner.rkey_of(start, len, out)
    }
}
