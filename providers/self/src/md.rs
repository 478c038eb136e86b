//! Memory that the worker may reach through keys: allocated here or registered.
//!
//! Keys are checked against the table at every use: a key of released memory reaches nothing.

use bowline_base::slab::{Key, Slab};
use bowline_base::view::View;
use bowline_uct::runtime::MemoryTable;
use bowline_uct::{MdAttr, MemError, MemHandle, PostError, RemoteSlice, RkeyId};

use crate::wire::{PackedRkey, RKEY_BYTES};

/// The memory domain of an interface.
#[derive(Debug)]
pub(crate) struct Domain {
    instance: u64,
    pub(crate) memory: MemoryTable,
    rkeys: Slab<MemHandle>,
}

impl Domain {
    pub(crate) fn new(instance: u64) -> Self {
        Self { instance, memory: MemoryTable::default(), rkeys: Slab::default() }
    }

    pub(crate) const fn attr() -> MdAttr {
        MdAttr {
            can_alloc: true,
            can_register: true,
            rkey_bytes: RKEY_BYTES,
            register_cost_ns: (0.0, 0.0),
        }
    }

    pub(crate) fn pack(&self, handle: MemHandle) -> Option<[u8; RKEY_BYTES]> {
        let (address, len) = self.memory.place(handle)?;
        let (instance, handle) = (self.instance, handle.0.to_wire());
        Some(PackedRkey { instance, handle, address, len }.pack())
    }

    pub(crate) fn unpack(&mut self, packed: &[u8]) -> Result<RkeyId, MemError> {
        let rkey = PackedRkey::unpack(packed).ok_or(MemError::BadKey)?;
        let handle = MemHandle(Key::from_wire(rkey.handle));
        // What the key says is only compared: the table alone decides what can be reached.
        let known = self.pack(handle).ok_or(MemError::BadKey)?;
        if known != rkey.pack() {
            return Err(MemError::BadKey);
        }
        Ok(RkeyId(self.rkeys.insert(handle)))
    }

    pub(crate) fn rkey_release(&mut self, rkey: RkeyId) {
        self.rkeys.remove(rkey.0);
    }

    /// The `len` bytes at `at`.
    #[inline]
    pub(crate) fn reach(&self, at: RemoteSlice, len: usize) -> Result<View<'_>, PostError> {
        let handle = self.rkeys.get(at.rkey.0).ok_or(PostError::BadArgument)?;
        self.memory.reach(*handle, at.address, len).ok_or(PostError::BadRemote)
    }

    pub(crate) fn key_of(&self, start: u64, len: usize) -> Option<[u8; RKEY_BYTES]> {
        self.pack(self.memory.allocation_of(start, len)?)
    }
}
