//! Memory that peers may reach: allocated here or registered, and its packed keys.
//!
//! Every access by a peer is carried out here, by the owner's own progress, after its key, its
//! address and its length were looked up: a key of released memory reaches nothing.
//!
//! ```text
//!   key   "BLTK" | uid u64 | handle u64 | address u64 | length u64 | check u32        40 bytes
//! ```
//!
//! The check is FNV-1a over what is before it: a key that was damaged on its way is refused. Keys
//! are no secrets among the ranks of a job.

use std::collections::BTreeMap;
use std::io;

use bowline_base::buffer::RecvBuf;
use bowline_base::region::Region;
use bowline_base::slab::{Key, Slab};
use bowline_base::view::View;
use bowline_uct::{AddrReader, LocalSlice, MdAttr, MemError, MemHandle};

use crate::addr::check;

const MAGIC: u32 = u32::from_le_bytes(*b"BLTK");
/// Bytes of a packed key.
pub(crate) const KEY_BYTES: usize = 40;

#[derive(Debug)]
enum Home {
    Allocated {
        region: Region,
        len: usize,
    },
    Registered {
        buffer: RecvBuf,
        start: *mut u8,
    },
    /// Lent to gets.
    Exposed(LocalSlice),
    /// Lent to puts and gets.
    Lent(LocalSlice),
}

// SAFETY: `start` points into `buffer`, which is `Send`, and a slice into a buffer of an operation,
// which is so too; both are only used through views, whose operations work from any thread.
unsafe impl Send for Home {}

impl Home {
    fn view(&self) -> View<'_> {
        match self {
            Self::Allocated { region, len } => {
                region.view().slice(0, *len).expect("the region has at least the length asked for")
            }
            // SAFETY: `start` came from the buffer's own view; the buffer, kept in the same value,
            // stays valid for its life and is not otherwise used while it is registered.
            Self::Registered { buffer, start } => unsafe { View::from_raw(*start, buffer.len()) },
            // SAFETY: the caller of `mem_expose` keeps the bytes readable until they are released;
            // nothing is written through this view, since `reach` is asked for writable memory
            // wherever a peer writes.
            Self::Exposed(slice) => unsafe { View::from_raw(slice.as_ptr(), slice.len()) },
            // SAFETY: the caller of `mem_lend` keeps the bytes writable until they are released.
            Self::Lent(slice) => unsafe { View::from_raw(slice.as_ptr(), slice.len()) },
        }
    }
}

/// What a packed key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) uid: u64,
    pub(crate) handle: u64,
    pub(crate) address: u64,
    pub(crate) len: u64,
}

impl Packed {
    pub(crate) fn pack(self) -> [u8; KEY_BYTES] {
        let mut out = [0; KEY_BYTES];
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        let words = [self.uid, self.handle, self.address, self.len];
        for (place, word) in out[4..36].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = check(&out[..36]);
        out[36..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        if bytes.len() != KEY_BYTES || u32::from_le_bytes(*sum) != check(body) {
            return None;
        }
        let mut r = AddrReader::new(body);
        let magic = r.u32().ok()?;
        let key = Self {
            uid: r.u64().ok()?,
            handle: r.u64().ok()?,
            address: r.u64().ok()?,
            len: r.u64().ok()?,
        };
        (magic == MAGIC).then_some(key)
    }
}

/// The memory domain of an interface.
#[derive(Debug, Default)]
pub(crate) struct Domain {
    memory: Slab<Home>,
    /// Allocations by start address, for `rkey_of`.
    allocated: BTreeMap<u64, MemHandle>,
}

impl Domain {
    pub(crate) const fn attr() -> MdAttr {
        MdAttr {
            can_alloc: true,
            can_register: true,
            rkey_bytes: KEY_BYTES,
            register_cost_ns: (0.0, 0.0),
        }
    }

    pub(crate) fn alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        let region = Region::create_private(len).map_err(|error| MemError::System {
            act: "allocate memory of the tcp transport",
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

    pub(crate) fn expose(&mut self, slice: LocalSlice) -> MemHandle {
        MemHandle(self.memory.insert(Home::Exposed(slice)))
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
            Home::Exposed(_) | Home::Lent(_) => Ok(None),
        }
    }

    pub(crate) fn pack(&self, uid: u64, handle: MemHandle) -> Option<[u8; KEY_BYTES]> {
        let view = self.view(handle)?;
        let (address, len) = (view.as_ptr() as u64, view.len() as u64);
        Some(Packed { uid, handle: handle.0.to_wire(), address, len }.pack())
    }

    /// The key of the allocation around `start .. start + len`.
    pub(crate) fn key_of(&self, uid: u64, start: u64, len: usize) -> Option<[u8; KEY_BYTES]> {
        let (first, handle) = self.allocated.range(..=start).next_back()?;
        let offset = usize::try_from(start - first).ok()?;
        self.view(*handle)?.slice(offset, len)?;
        self.pack(uid, *handle)
    }

    /// The `len` bytes at `address` of the memory that a peer names by `handle`, if all of them
    /// may be written.
    #[inline]
    pub(crate) fn reach_to_write(&self, handle: u64, address: u64, len: usize) -> Option<View<'_>> {
        match self.memory.get(Key::from_wire(handle)) {
            Some(Home::Exposed(_)) => None,
            _ => self.reach(handle, address, len),
        }
    }

    /// The `len` bytes at `address` of the memory that a peer names by `handle`, if all of them
    /// may be read.
    #[inline]
    pub(crate) fn reach(&self, handle: u64, address: u64, len: usize) -> Option<View<'_>> {
        let view = self.memory.get(Key::from_wire(handle)).map(Home::view)?;
        let offset = usize::try_from(address.checked_sub(view.as_ptr() as u64)?).ok()?;
        view.slice(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_a_key() {
        let key = Packed { uid: 1, handle: 2, address: 0x300, len: 4 };
        let mut golden = b"BLTK".to_vec();
        golden.extend([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        golden.extend([0, 3, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        golden.extend(check(&golden).to_le_bytes());
        assert_eq!(key.pack()[..], golden);
        assert_eq!(golden.len(), KEY_BYTES);
        assert_eq!(Packed::parse(&golden), Some(key));
    }
}
