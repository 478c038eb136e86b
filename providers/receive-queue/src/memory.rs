//! Memory of a lane of queues: that of the transport below, but for the queue's own, which is nobody's.

use bowline_base::buffer::RecvBuf;
use bowline_uct::{
    EpId, MemError, MemHandle, MemoryDomain, PeerFailure, PostError, RkeyId, forward,
};

use super::lane::QueueLane;

impl MemoryDomain for QueueLane {
    forward! {
        [this => this.core.inner] md_attr mem_alloc mem_register mem_expose mem_lend mem_view
        rkey_pack rkey_ptr puts_end_last rkey_release
    }

    fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        if self.core.shown().any(|(memory, ..)| memory == handle) {
            return Err(MemError::NoSuch);
        }
        self.core.inner.mem_release(handle)
    }

    fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        match self.core.below_of(ep) {
            Ok(below) => self.core.inner.rkey_unpack(below, packed),
            Err(PostError::PeerFailed) => Err(PeerFailure::Died.into()),
            Err(_) => Err(MemError::NoSuch),
        }
    }

    fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        // The queue's own memory, which may lie beside the user's, is nobody's to lend.
        let within = |base: u64, bytes: usize| (base..base + bytes as u64).contains(&start);
        if self.core.shown().any(|(_, base, bytes)| within(base, bytes)) {
            return None;
        }
        self.core.inner.rkey_of(start, len, out)
    }
}
