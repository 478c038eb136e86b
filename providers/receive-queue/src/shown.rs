//! Memory that a lane shows to its peers: the queue, and extents. What stands in it is in `layout`.

use bowline_base::buffer::RecvBuf;
use bowline_uct::{Iface, MemError, MemHandle};

/// Memory that peers reach.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) memory: MemHandle,
    pub(super) base: u64,
    pub(super) key: Vec<u8>,
}

impl Shown {
    /// Zeroed memory of `inner`.
    pub(super) fn new(inner: &mut dyn Iface, bytes: usize) -> Result<Self, MemError> {
        let memory = if inner.md_attr().can_alloc {
            inner.mem_alloc(bytes)
        } else {
            inner.mem_register(RecvBuf::owned(vec![0; bytes]))
        }?;
        let key = inner.rkey_pack(memory)?;
        let base = inner.mem_view(memory).map_or(0, |view| view.as_ptr().addr() as u64);
        Ok(Self { memory, base, key })
    }
}
