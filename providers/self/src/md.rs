//! Memory that the worker may reach through keys: allocated here or registered.
//!
//! Keys are checked against the table at every use: a key of released memory reaches nothing.

use std::collections::BTreeMap;
use std::io;

use bowline_base::buffer::RecvBuf;
use bowline_base::region::Region;
use bowline_base::slab::{Key, Slab};
use bowline_base::view::View;
use bowline_uct::{LocalSlice, MdAttr, MemError, MemHandle, PostError, RemoteSlice, RkeyId};

use crate::wire::{PackedRkey, RKEY_BYTES};

#[derive(Debug)]
enum Home {
    Allocated { region: Region, len: usize },
    Registered { buffer: RecvBuf, start: *mut u8 },
    Lent(LocalSlice),
}

// SAFETY: `start` points into `buffer`, which is `Send`, and a slice into the buffer of an
// operation, which is so too; both are only used through views, whose operations work from any
// thread.
unsafe impl Send for Home {}

impl Home {
    fn view(&self) -> View<'_> {
        match self {
            Self::Allocated { region, len } => {
                region.view().slice(0, *len).expect("the region has at least the length asked for")
            }
            // SAFETY: `start` came from the buffer's own view and the buffer, which is kept in
            // the same value, stays valid for its whole life and is not otherwise used while it
            // is registered.
            Self::Registered { buffer, start } => unsafe { View::from_raw(*start, buffer.len()) },
            // SAFETY: the caller of `mem_lend` keeps the bytes writable until they are released.
            Self::Lent(slice) => unsafe { View::from_raw(slice.as_ptr(), slice.len()) },
        }
    }
}

/// The memory domain of an interface.
#[derive(Debug)]
pub(crate) struct Domain {
    instance: u64,
    memory: Slab<Home>,
    rkeys: Slab<MemHandle>,
    /// Allocations by start address, for `rkey_of`.
    allocated: BTreeMap<u64, MemHandle>,
}

impl Domain {
    pub(crate) fn new(instance: u64) -> Self {
        Self {
            instance,
            memory: Slab::default(),
            rkeys: Slab::default(),
            allocated: BTreeMap::new(),
        }
    }

    pub(crate) const fn attr() -> MdAttr {
        MdAttr {
            can_alloc: true,
            can_register: true,
            rkey_bytes: RKEY_BYTES,
            register_cost_ns: (0.0, 0.0),
        }
    }

    pub(crate) fn alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        let region = Region::create_private(len).map_err(|error| MemError::System {
            act: "allocate memory of the self transport",
            source: io::Error::other(error),
        })?;
        let start = region.view().as_ptr() as u64;
        let handle = MemHandle(self.memory.insert(Home::Allocated { region, len }));
        self.allocated.insert(start, handle);
        Ok(handle)
    }

    pub(crate) fn register(&mut self, mut buffer: RecvBuf) -> MemHandle {
        let start = buffer.view().as_ptr();
        MemHandle(self.memory.insert(Home::Registered { buffer, start }))
    }

    pub(crate) fn lend(&mut self, slice: LocalSlice) -> MemHandle {
        MemHandle(self.memory.insert(Home::Lent(slice)))
    }

    pub(crate) fn view(&self, handle: MemHandle) -> Option<View<'_>> {
        self.memory.get(handle.0).map(Home::view)
    }

    pub(crate) fn release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        match self.memory.remove(handle.0).ok_or(MemError::NoSuch)? {
            Home::Allocated { region, .. } => {
                self.allocated.remove(&(region.view().as_ptr() as u64));
                Ok(None)
            }
            Home::Registered { buffer, .. } => Ok(Some(buffer)),
            Home::Lent(_) => Ok(None),
        }
    }

    pub(crate) fn pack(&self, handle: MemHandle) -> Option<[u8; RKEY_BYTES]> {
        let view = self.view(handle)?;
        let packed = PackedRkey {
            instance: self.instance,
            handle: handle.0.to_wire(),
            address: view.as_ptr() as u64,
            len: view.len() as u64,
        };
        Some(packed.pack())
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

    pub(crate) fn close_key(&mut self, rkey: RkeyId) {
        self.rkeys.remove(rkey.0);
    }

    /// The `len` bytes at `at`.
    #[inline]
    pub(crate) fn reach(&self, at: RemoteSlice, len: usize) -> Result<View<'_>, PostError> {
        let handle = self.rkeys.get(at.rkey.0).ok_or(PostError::BadArgument)?;
        let view = self.view(*handle).ok_or(PostError::BadRemote)?;
        let offset = at.address.checked_sub(view.as_ptr() as u64).ok_or(PostError::BadRemote)?;
        let offset = usize::try_from(offset).map_err(|_| PostError::BadRemote)?;
        view.slice(offset, len).ok_or(PostError::BadRemote)
    }

    /// The key of the allocation around `start .. start + len`.
    pub(crate) fn key_of(&self, start: u64, len: usize) -> Option<[u8; RKEY_BYTES]> {
        let (first, handle) = self.allocated.range(..=start).next_back()?;
        let offset = usize::try_from(start - first).ok()?;
        self.view(*handle)?.slice(offset, len)?;
        self.pack(*handle)
    }
}
