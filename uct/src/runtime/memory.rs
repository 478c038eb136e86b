//! Memory that peers may reach, by handle: allocated here, registered, or lent. With each piece stands what its
//! transport keeps for it, a registration for instance.
//!
//! **Rules.** (1) A handle of released memory names nothing, also when its place is used again. (2) What lies
//! outside of a handle's bytes is not reached, whatever address and length a peer gives. (3) Memory that is
//! lent to reads is written by nobody: no safe function returns a view of it. (4) What a transport keeps for
//! some memory is dropped before that memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

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
        _region: Arc<Region>,
    },
    Registered(RecvBuf),
    /// Lent to gets.
    Exposed,
    /// Lent to puts and gets.
    Lent,
}

/// Memory that peers may reach, and what keeps it.
#[derive(Debug)]
pub struct RegisteredMemory {
    home: Home,
    start: *mut u8,
    len: usize,
}

// SAFETY: `start` points into `home`, whose parts are `Send`, or is that of a slice, which is `Send` too; it
// is only used through views, whose operations work from any thread.
unsafe impl Send for RegisteredMemory {}

impl RegisteredMemory {
    /// `len` bytes of this process alone, zeroed.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn allocate(len: usize) -> Result<Self, MemError> {
        let act = "allocate memory that peers may reach";
        // There is no mapping of no bytes.
        let region = Region::create_private(len.max(1))
            .map_err(|error| MemError::System { act, source: io::Error::other(error) })?;
        Ok(Self { len, ..Self::of_region(Arc::new(region)) })
    }

    /// All bytes of a region.
    pub fn of_region(region: Arc<Region>) -> Self {
        let (start, len) = (region.view().as_ptr(), region.len());
        Self { home: Home::Allocated { _region: region }, start, len }
    }

    /// A buffer of the user, which is kept here.
    pub fn of_buffer(mut buffer: RecvBuf) -> Self {
        let (start, len) = (buffer.view().as_ptr(), buffer.len());
        Self { home: Home::Registered(buffer), start, len }
    }

    /// Bytes lent to reads: see [`MemoryDomain::mem_expose`](crate::MemoryDomain::mem_expose).
    pub const fn exposed(bytes: LocalSlice) -> Self {
        Self { home: Home::Exposed, start: bytes.as_ptr(), len: bytes.len() }
    }

    /// Bytes lent to writes, too: see [`MemoryDomain::mem_lend`](crate::MemoryDomain::mem_lend).
    pub const fn lent(bytes: LocalSlice) -> Self {
        Self { home: Home::Lent, start: bytes.as_ptr(), len: bytes.len() }
    }

    /// Where the bytes start.
    pub const fn start(&self) -> *mut u8 {
        self.start
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it was allocated here.
    pub const fn is_allocated(&self) -> bool {
        matches!(self.home, Home::Allocated { .. })
    }

    /// Whether peers may read it only.
    pub const fn is_read_only(&self) -> bool {
        matches!(self.home, Home::Exposed)
    }

    /// The buffer of the user that was kept.
    pub fn into_buffer(self) -> Option<RecvBuf> {
        match self.home {
            Home::Registered(buffer) => Some(buffer),
            Home::Allocated { .. } | Home::Exposed | Home::Lent => None,
        }
    }

    /// Its bytes.
    ///
    /// # Safety
    /// Nothing is written through the view if the memory is exposed.
    unsafe fn view(&self) -> View<'_> {
        // SAFETY: the bytes are those of `home`, which lives as long as this value; a registered buffer stays
        // valid and is not used otherwise while it is here. Lent bytes are kept readable and unwritten by the caller of
        // `mem_expose`, and writable and unused by that of `mem_lend`, until they are released, for which the table
        // is borrowed exclusively. That exposed ones are not written through the view, the caller of this promises.
        unsafe { View::from_raw(self.start, self.len) }
    }
}

/// Memory, and what the transport keeps for it. The fields are dropped in this order.
#[derive(Debug)]
pub struct Held<W> {
    /// What the transport keeps.
    pub with: W,
    /// The memory.
    pub memory: RegisteredMemory,
}

impl<W> Held<W> {
    /// Ends what the transport keeps, and then gives the memory up; returns what was registered.
    pub fn into_buffer(self) -> Option<RecvBuf> {
        drop(self.with);
        self.memory.into_buffer()
    }
}

/// Memory of an interface that peers may reach.
#[derive(Debug)]
pub struct MemoryTable<W = ()> {
    held: Slab<Held<W>>,
    /// Allocations by start address.
    allocated: BTreeMap<u64, MemHandle>,
}

impl<W> Default for MemoryTable<W> {
    fn default() -> Self {
        Self { held: Slab::default(), allocated: BTreeMap::new() }
    }
}

impl<W> MemoryTable<W> {
    /// Keeps memory, and what the transport has for it.
    pub fn insert(&mut self, memory: RegisteredMemory, with: W) -> MemHandle {
        let allocated = memory.is_allocated().then_some(memory.start as u64);
        let handle = MemHandle(self.held.insert(Held { with, memory }));
        if let Some(start) = allocated {
            self.allocated.insert(start, handle);
        }
        handle
    }

    /// Makes space, so that `more` pieces that are not allocated here can be kept without allocating.
    pub fn reserve(&mut self, more: usize) {
        self.held.reserve(more);
    }

    /// How many more of these need no allocation.
    pub fn spare(&self) -> usize {
        self.held.spare()
    }

    /// Gives memory up.
    ///
    /// # Errors
    /// When the handle names nothing.
    pub fn remove(&mut self, handle: MemHandle) -> Result<Held<W>, MemError> {
        let held = self.held.remove(handle.0).ok_or(MemError::NoSuch)?;
        if held.memory.is_allocated() {
            self.allocated.remove(&(held.memory.start as u64));
        }
        Ok(held)
    }

    /// What a handle names.
    #[inline]
    pub fn get(&self, handle: MemHandle) -> Option<&Held<W>> {
        self.held.get(handle.0)
    }

    /// All that is held.
    pub fn iter(&self) -> impl Iterator<Item = &Held<W>> {
        self.held.iter().map(|(_, held)| held)
    }

    /// Where the bytes of a handle start, and how many they are.
    pub fn place(&self, handle: MemHandle) -> Option<(u64, u64)> {
        self.get(handle).map(|held| (held.memory.start as u64, held.memory.len as u64))
    }

    /// The bytes of a handle, unless they are lent to reads.
    #[inline]
    pub fn mem_view(&self, handle: MemHandle) -> Option<View<'_>> {
        let memory = &self.get(handle)?.memory;
        if memory.is_read_only() {
            return None;
        }
        // SAFETY: the memory is not exposed.
        Some(unsafe { memory.view() })
    }

    /// The `len` bytes at `address` of a handle, unless they are lent to reads.
    #[inline]
    pub fn reach(&self, handle: MemHandle, address: u64, len: usize) -> Option<View<'_>> {
        within(self.mem_view(handle)?, address, len)
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
        within(unsafe { self.get(handle)?.memory.view() }, address, len)
    }

    /// The allocation around `start .. start + len`.
    #[inline]
    pub fn allocation_of(&self, start: u64, len: usize) -> Option<MemHandle> {
        let (_, handle) = self.allocated.range(..=start).next_back()?;
        self.reach(*handle, start, len)?;
        Some(*handle)
    }
}

/// Of a transport that keeps nothing beside its memory: methods of [`MemoryDomain`](crate::MemoryDomain).
impl MemoryTable {
    /// Keeps memory.
    pub fn keep(&mut self, memory: RegisteredMemory) -> MemHandle {
        self.insert(memory, ())
    }

    /// See [`MemoryDomain::mem_alloc`](crate::MemoryDomain::mem_alloc).
    ///
    /// # Errors
    /// When there is no memory.
    pub fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        RegisteredMemory::allocate(len).map(|memory| self.keep(memory))
    }

    /// See [`MemoryDomain::mem_register`](crate::MemoryDomain::mem_register).
    ///
    /// # Errors
    /// None.
    pub fn mem_register(&mut self, buffer: RecvBuf) -> Result<MemHandle, MemError> {
        Ok(self.keep(RegisteredMemory::of_buffer(buffer)))
    }

    /// See [`MemoryDomain::mem_expose`](crate::MemoryDomain::mem_expose).
    ///
    /// # Errors
    /// None.
    pub fn mem_expose(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        Ok(self.keep(RegisteredMemory::exposed(bytes)))
    }

    /// See [`MemoryDomain::mem_lend`](crate::MemoryDomain::mem_lend).
    ///
    /// # Errors
    /// None.
    pub fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        Ok(self.keep(RegisteredMemory::lent(bytes)))
    }

    /// See [`MemoryDomain::mem_release`](crate::MemoryDomain::mem_release).
    ///
    /// # Errors
    /// When the handle names nothing.
    pub fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        self.remove(handle).map(Held::into_buffer)
    }
}

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
        let handle = table.mem_alloc(100).expect("there is memory");
        let (start, len) = table.place(handle).expect("it is held");
        assert_eq!((len, table.mem_view(handle).map(|view| view.len())), (100, Some(100)));
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
        assert!(matches!(table.mem_release(handle), Ok(None)));
        assert!(table.mem_view(handle).is_none() && table.allocation_of(start, 1).is_none());
        assert!(matches!(table.mem_release(handle), Err(MemError::NoSuch)));
    }

    #[test]
    fn registered_memory_comes_back_with_what_was_written() {
        let mut table = MemoryTable::default();
        let handle = table.mem_register(RecvBuf::owned(vec![0; 8])).expect("it cannot fail");
        let (start, _) = table.place(handle).expect("it is held");
        table.reach(handle, start + 2, 3).expect("inside").copy_in(b"abc");
        assert!(table.allocation_of(start, 1).is_none(), "it was not allocated here");
        let back = table.mem_release(handle).expect("it was held").expect("it was registered");
        assert_eq!(back.into_owned(), Some(b"\0\0abc\0\0\0".to_vec()));
    }

    #[test]
    fn exposed_memory_is_reached_to_read_only() {
        let mut table = MemoryTable::default();
        let (sent, mut received) = (SendBuf::owned(vec![7; 8]), RecvBuf::owned(vec![1; 8]));
        // SAFETY: the buffers are kept, and left alone, until the table has gone.
        let (out, into) =
            unsafe { (LocalSlice::of_send(&sent, 0, 8), LocalSlice::of_recv(&mut received, 0, 8)) };
        let exposed = table.mem_expose(out.expect("all of it")).expect("it cannot fail");
        let lent = table.mem_lend(into.expect("all of it")).expect("it cannot fail");
        for (handle, writable) in [(exposed, false), (lent, true)] {
            let (start, _) = table.place(handle).expect("it is held");
            assert_eq!(table.mem_view(handle).is_some(), writable);
            assert_eq!(table.reach(handle, start, 8).is_some(), writable);
            // SAFETY: nothing is written through the view.
            let read = unsafe { table.reach_to_read(handle, start, 8) };
            assert_eq!(read.map(|view| view.to_vec()), Some(vec![if writable { 1 } else { 7 }; 8]));
            assert!(matches!(table.mem_release(handle), Ok(None)));
        }
    }

    #[test]
    fn what_is_kept_beside_memory_ends_before_it() {
        /// Notes whether the region was there when it was dropped.
        struct Beside(std::sync::Weak<Region>, std::rc::Rc<std::cell::RefCell<Vec<bool>>>);
        impl Drop for Beside {
            fn drop(&mut self) {
                self.1.borrow_mut().push(self.0.upgrade().is_some());
            }
        }
        let ends = std::rc::Rc::default();
        let mut table = MemoryTable::default();
        let handles = [(); 3].map(|()| {
            let region = Arc::new(Region::create_private(8).expect("there is memory"));
            let beside = Beside(Arc::downgrade(&region), std::rc::Rc::clone(&ends));
            table.insert(RegisteredMemory::of_region(region), beside)
        });
        assert!(table.remove(handles[0]).expect("it is held").into_buffer().is_none());
        drop(table.remove(handles[1]));
        assert!(table.get(handles[1]).is_none() && table.iter().count() == 1);
        drop(table);
        assert_eq!(*ends.borrow(), [true; 3]);
    }
}
