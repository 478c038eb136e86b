//! Memory that peers may reach, by handle: allocated here, registered, or lent.
//!
//! **Rules.** (1) A handle of released memory names nothing, also when its place is used again. (2) What lies
//! outside of a handle's bytes is not reached, whatever address and length a peer gives. (3) Memory that is
//! lent to reads is written by nobody: no safe function returns a view of it.

use std::collections::BTreeMap;
use std::io;

use bowline_base::buffer::RecvBuf;
use bowline_base::region::Region;
use bowline_base::slab::Slab;
use bowline_base::view::View;

use crate::ids::MemHandle;
use crate::md::MemError;
use crate::slice::LocalSlice;

#[derive(Debug)]
enum Home {
    Allocated {
        _region: Region,
    },
    Registered(RecvBuf),
    /// Lent to gets.
    Exposed,
    /// Lent to puts and gets.
    Lent,
}

#[derive(Debug)]
struct Memory {
    home: Home,
    start: *mut u8,
    len: usize,
}

// SAFETY: `start` points into `home`, whose parts are `Send`, or is that of a slice, which is `Send` too; it
// is only used through views, whose operations work from any thread.
unsafe impl Send for Memory {}

impl Memory {
    /// Its bytes.
    ///
    /// # Safety
    /// Nothing is written through the view if the memory is exposed.
    unsafe fn view(&self) -> View<'_> {
        // SAFETY: the bytes are those of `home`, which lives as long as this value; a registered buffer stays
        // valid and is not used otherwise while it is here. Lent bytes are kept readable by the caller of
        // `mem_expose`, and writable by that of `mem_lend`, until they are released, for which the table
        // is borrowed exclusively. That exposed ones are not written, the caller promises.
        unsafe { View::from_raw(self.start, self.len) }
    }
}

/// Memory of an interface that peers may reach.
#[derive(Debug, Default)]
pub struct MemoryTable {
    held: Slab<Memory>,
    /// Allocations by start address.
    allocated: BTreeMap<u64, MemHandle>,
}

impl MemoryTable {
    /// Allocates `len` bytes, zeroed.
    ///
    /// # Errors
    /// When there is no memory; `act` says for what.
    pub fn alloc(&mut self, act: &'static str, len: usize) -> Result<MemHandle, MemError> {
        let region = Region::create_private(len)
            .map_err(|error| MemError::System { act, source: io::Error::other(error) })?;
        let start = region.view().as_ptr();
        let memory = Memory { home: Home::Allocated { _region: region }, start, len };
        let handle = MemHandle(self.held.insert(memory));
        self.allocated.insert(start as u64, handle);
        Ok(handle)
    }

    /// Keeps a buffer of the user.
    pub fn register(&mut self, mut buffer: RecvBuf) -> MemHandle {
        let (start, len) = (buffer.view().as_ptr(), buffer.len());
        MemHandle(self.held.insert(Memory { home: Home::Registered(buffer), start, len }))
    }

    /// Bytes lent to reads: see [`MemoryDomain::mem_expose`](crate::MemoryDomain::mem_expose).
    pub fn expose(&mut self, bytes: LocalSlice) -> MemHandle {
        let (start, len) = (bytes.as_ptr(), bytes.len());
        MemHandle(self.held.insert(Memory { home: Home::Exposed, start, len }))
    }

    /// Bytes lent to writes, too: see [`MemoryDomain::mem_lend`](crate::MemoryDomain::mem_lend).
    pub fn lend(&mut self, bytes: LocalSlice) -> MemHandle {
        let (start, len) = (bytes.as_ptr(), bytes.len());
        MemHandle(self.held.insert(Memory { home: Home::Lent, start, len }))
    }

    /// Gives memory up; returns what was registered.
    ///
    /// # Errors
    /// When the handle names nothing.
    pub fn release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        let memory = self.held.remove(handle.0).ok_or(MemError::NoSuch)?;
        match memory.home {
            Home::Registered(buffer) => return Ok(Some(buffer)),
            Home::Allocated { .. } => {
                self.allocated.remove(&(memory.start as u64));
            }
            Home::Exposed | Home::Lent => {}
        }
        Ok(None)
    }

    /// Where the bytes of a handle start, and how many they are.
    pub fn place(&self, handle: MemHandle) -> Option<(u64, u64)> {
        self.held.get(handle.0).map(|memory| (memory.start as u64, memory.len as u64))
    }

    /// The bytes of a handle, unless they are lent to reads.
    #[inline]
    pub fn view(&self, handle: MemHandle) -> Option<View<'_>> {
        let memory = self.held.get(handle.0)?;
        if matches!(memory.home, Home::Exposed) {
            return None;
        }
        // SAFETY: the memory is not exposed.
        Some(unsafe { memory.view() })
    }

    /// The `len` bytes at `address` of a handle, unless they are lent to reads.
    #[inline]
    pub fn reach(&self, handle: MemHandle, address: u64, len: usize) -> Option<View<'_>> {
        within(self.view(handle)?, address, len)
    }

    /// The `len` bytes at `address` of a handle, to be read.
    ///
    /// # Safety
    /// Nothing is written through the view.
    #[inline]
    pub unsafe fn reach_to_read(
        &self,
        handle: MemHandle,
        address: u64,
        len: usize,
    ) -> Option<View<'_>> {
        // SAFETY: the caller writes nothing through it.
        within(unsafe { self.held.get(handle.0)?.view() }, address, len)
    }

    /// The allocation around `start .. start + len`.
    pub fn allocation_of(&self, start: u64, len: usize) -> Option<MemHandle> {
        let (_, handle) = self.allocated.range(..=start).next_back()?;
        self.reach(*handle, start, len)?;
        Some(*handle)
    }
}

/// The `len` bytes at `address` of a view.
#[inline]
fn within(view: View<'_>, address: u64, len: usize) -> Option<View<'_>> {
    let offset = address.checked_sub(view.as_ptr() as u64)?;
    view.slice(usize::try_from(offset).ok()?, len)
}

#[cfg(test)]
mod tests {
    use bowline_base::buffer::SendBuf;

    use super::*;

    #[test]
    fn allocations_are_found_from_within_and_nowhere_else() {
        let mut table = MemoryTable::default();
        let handle = table.alloc("allocate", 100).expect("there is memory");
        let (start, len) = table.place(handle).expect("it is held");
        assert_eq!((len, table.view(handle).map(|view| view.len())), (100, Some(100)));
        for (at, len, found) in [
            (start, 100, true),
            (start + 99, 1, true),
            (start + 100, 0, true),
            (start - 1, 2, false),
            (start, 101, false),
            (start + 1, usize::MAX, false),
            (u64::MAX, 1, false),
        ] {
            assert_eq!(table.allocation_of(at, len).is_some(), found, "{at:#x} {len}");
            assert_eq!(table.reach(handle, at, len).is_some(), found, "{at:#x} {len}");
        }
        assert!(matches!(table.release(handle), Ok(None)));
        assert!(table.view(handle).is_none() && table.allocation_of(start, 1).is_none());
        assert!(matches!(table.release(handle), Err(MemError::NoSuch)));
    }

    #[test]
    fn registered_memory_comes_back_with_what_was_written() {
        let mut table = MemoryTable::default();
        let handle = table.register(RecvBuf::owned(vec![0; 8]));
        let (start, _) = table.place(handle).expect("it is held");
        table.reach(handle, start + 2, 3).expect("inside").copy_in(b"abc");
        assert!(table.allocation_of(start, 1).is_none(), "it was not allocated here");
        let back = table.release(handle).expect("it was held").expect("it was registered");
        assert_eq!(back.into_owned(), Some(b"\0\0abc\0\0\0".to_vec()));
    }

    #[test]
    fn exposed_memory_is_reached_to_read_only() {
        let mut table = MemoryTable::default();
        let (sent, mut received) = (SendBuf::owned(vec![7; 8]), RecvBuf::owned(vec![1; 8]));
        // SAFETY: the buffers are kept, and left alone, until the table has gone.
        let (out, into) =
            unsafe { (LocalSlice::of_send(&sent, 0, 8), LocalSlice::of_recv(&mut received, 0, 8)) };
        let exposed = table.expose(out.expect("all of it"));
        let lent = table.lend(into.expect("all of it"));
        for (handle, writable) in [(exposed, false), (lent, true)] {
            let (start, _) = table.place(handle).expect("it is held");
            assert_eq!(table.view(handle).is_some(), writable);
            assert_eq!(table.reach(handle, start, 8).is_some(), writable);
            // SAFETY: nothing is written through the view.
            let read = unsafe { table.reach_to_read(handle, start, 8) };
            assert_eq!(read.map(|view| view.to_vec()), Some(vec![if writable { 1 } else { 7 }; 8]));
            assert!(matches!(table.release(handle), Ok(None)));
        }
    }
}
