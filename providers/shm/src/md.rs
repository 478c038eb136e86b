//! Local memory that peers may reach: allocated here, or the user's and registered.
//!
//! *Allocated* memory is a sealed memfd of its own (memory of thread ranks: a plain mapping),
//! which a peer maps when it unpacks the key. *Registered* memory stays where it is and is
//! reached by cross memory attach; a word in the owner's area shows peers whether a registration
//! still stands, since the kernel would let them write into whatever came there later.
//! *Exposed* memory stays with its user, who lends it to the reads of other threads.
//!
//! Between threads of one process no kernel checks anything. There every piece of the user's memory,
//! registered, exposed or lent, stands in a table as long as peers may copy it ([`crate::lent`]), and
//! `PROCESS` opens what is in it, not the process.
//!
//! A packed key is one of
//!
//! ```text
//!   PROCESS     kind u8                                   all memory that the kernel lets us reach,
//!                                                         of thread ranks: all that is lent
//!   MAPPED      kind u8 | pid u32 | start_time u64 | fd u32 | dev u64 | ino u64 | id u64
//!               | base u64 | len u64
//!   REGISTERED  kind u8 | slot u32 | generation u64 | base u64 | len u64
//! ```
//!
//! The last two end with a check (u32, FNV-1a over what is before it): a key that was damaged on
//! its way is refused instead of opening something else.
//!
//! What a key opens on the other side is in [`crate::rkey`].

use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bowline_base::buffer::RecvBuf;
use bowline_base::region::{Region, RegionError};
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_base::view::View;
use bowline_uct::runtime::{Held, MemoryTable, RegisteredMemory};
use bowline_uct::{AddrWriter, LocalSlice, MemError, MemHandle, WHOLE_PROCESS, fnv_64};

use crate::addr::Process;
use crate::area::Area;
use crate::lent::{Entered, Lent, OF_HANDLERS};

/// Kinds of packed keys; 1 begins the key of a whole process.
pub(crate) mod kind {
    pub(crate) const MAPPED: u8 = 2;
    pub(crate) const REGISTERED: u8 = 3;
}

/// Longest packed key, in bytes.
pub(crate) const MAX_PACKED: usize = 1 + 4 + 8 + 4 + 8 * 5 + CHECK;
/// Bytes of the check behind a key.
pub(crate) const CHECK: usize = 4;

/// Keys of memory in this process, for peers in the same process: they share the mapping.
static ALLOCATIONS: Mutex<Vec<(u64, Weak<Region>)>> = Mutex::new(Vec::new());
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The mapping of an allocation of this process.
pub(crate) fn allocation_here(id: u64) -> Option<Arc<Region>> {
    let all = ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().find(|(known, _)| *known == id).and_then(|(_, region)| region.upgrade())
}

/// What is kept beside memory.
#[derive(Debug)]
enum Beside {
    Allocated { id: u64, packed: Vec<u8> },
    Registered { word: Word, entered: Option<Entered> },
    Lent { entered: Option<Entered> },
}

/// A registration word: its number and what it holds while the registration stands.
#[derive(Clone, Copy, Debug)]
struct Word {
    slot: u32,
    generation: u64,
}

/// All memory that one interface makes reachable.
#[derive(Debug)]
pub(crate) struct Memories {
    memory: MemoryTable<Beside>,
    /// Registration words that were used and are free again.
    free_slots: Vec<u32>,
    /// Registration words from here on were never used.
    fresh_slot: u32,
    /// Of a thread rank: what the others may copy.
    table: Option<Arc<Lent>>,
}

impl Memories {
    /// Those of the interface with this instance; `private` if it is a thread rank's.
    pub(crate) fn new(instance: u64, private: bool) -> Self {
        let mut memory = MemoryTable::default();
        if private {
            memory.reserve(OF_HANDLERS);
        }
        Self {
            memory,
            free_slots: Vec::new(),
            fresh_slot: 0,
            table: private.then(|| Lent::new(instance)),
        }
    }

    /// Allocates: memory that only threads of this process share, if this is a thread rank.
    pub(crate) fn alloc(&mut self, me: &Process, len: usize) -> Result<MemHandle, MemError> {
        let region = if self.table.is_some() {
            Region::create_private(len)
        } else {
            Region::create_memfd("bowline-window", len)
        }
        .map_err(system)?;
        let base = region.view().as_ptr() as u64;
        // Relaxed: only uniqueness counts.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let (fd, dev, ino) = match region.fd() {
            None => (crate::addr::NO_FD, 0, 0),
            Some(fd) => {
                let stat = rustix::fs::fstat(fd).map_err(|e| MemError::System {
                    act: "identify allocated memory",
                    source: e.into(),
                })?;
                (fd.as_raw_fd() as u32, stat.st_dev, stat.st_ino)
            }
        };
        let mut w = AddrWriter::new();
        w.u8(kind::MAPPED).u32(me.pid).u64(me.start_time).u32(fd).u64(dev).u64(ino).u64(id);
        w.u64(base).u64(len as u64);
        let region = Arc::new(region);
        let mut all = ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((id, Arc::downgrade(&region)));
        drop(all);
        let packed = checked(w.finish());
        Ok(self.keep(RegisteredMemory::of_region(region), Beside::Allocated { id, packed }))
    }

    pub(crate) fn register(&mut self, area: &Area, memory: RecvBuf) -> Result<MemHandle, MemError> {
        let word = self.open_word(area)?;
        // SAFETY: the buffer is kept beside what is entered, and given back after that is removed.
        let entered = unsafe { self.enter(memory.address(), memory.len(), true) };
        Ok(self.keep(RegisteredMemory::of_buffer(memory), Beside::Registered { word, entered }))
    }

    /// Lends memory of the user to reads of thread ranks.
    pub(crate) fn expose(&mut self, bytes: LocalSlice) -> MemHandle {
        // SAFETY: who made the slice has the bytes stay until the handle is released, which removes it.
        let entered = unsafe { self.enter(bytes.as_ptr().addr() as u64, bytes.len(), false) };
        self.keep(RegisteredMemory::exposed(bytes), Beside::Lent { entered })
    }

    /// Lends memory of the user to reads and writes of thread ranks.
    pub(crate) fn lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        // SAFETY: as in `expose`; and they may be written by the promise to the slice.
        let entered = unsafe { self.enter(bytes.as_ptr().addr() as u64, bytes.len(), true) };
        if entered.is_none() {
            return Err(MemError::Unsupported("lend memory to the writes of peers"));
        }
        Ok(self.keep(RegisteredMemory::lent(bytes), Beside::Lent { entered }))
    }

    /// The same in a signal handler.
    pub(crate) fn lend_signal_safe(&mut self, bytes: LocalSlice) -> Option<MemHandle> {
        let table = self.table.as_ref().filter(|_| self.memory.spare() > 0)?;
        // SAFETY: as in `lend`.
        let entered = unsafe { table.enter_signal_safe(bytes.as_ptr().addr() as u64, bytes.len()) };
        let entered = Some(entered?);
        Some(self.memory.insert(RegisteredMemory::lent(bytes), Beside::Lent { entered }))
    }

    fn keep(&mut self, memory: RegisteredMemory, with: Beside) -> MemHandle {
        let handle = self.memory.insert(memory, with);
        if self.table.is_some() {
            self.memory.reserve(OF_HANDLERS);
        }
        handle
    }

    /// Lets thread ranks copy memory of the user, until it is taken back.
    ///
    /// # Safety
    /// As for [`Lent::enter`].
    unsafe fn enter(&self, start: u64, len: usize, writable: bool) -> Option<Entered> {
        // SAFETY: as the caller promises.
        self.table.as_ref().map(|table| unsafe { table.enter(start, len, writable) })
    }

    /// Ends that, and waits for the copies under way.
    fn take_back(&self, entered: Option<Entered>) {
        if let (Some(table), Some(entered)) = (&self.table, entered) {
            table.remove(entered);
        }
    }

    /// Takes a registration word and says in it that memory is reachable.
    fn open_word(&mut self, area: &Area) -> Result<Word, MemError> {
        let slot = self.free_slots.pop().unwrap_or(self.fresh_slot);
        let Some(word) = area.registration(slot) else {
            return Err(MemError::System {
                act: "register memory: all registrations are in use (BOWLINE_SHM_REGISTRATIONS)",
                source: std::io::ErrorKind::OutOfMemory.into(),
            });
        };
        self.fresh_slot = self.fresh_slot.max(slot + 1);
        // Relaxed: this interface alone writes the word.
        let generation = word.load(Ordering::Relaxed).wrapping_add(1) | 1;
        // Release pairs with the Acquire in `rkey::Access::stands`.
        word.store(generation, Ordering::Release);
        Ok(Word { slot, generation })
    }

    /// Says in a registration word that nothing is reachable any more.
    fn close_word(&mut self, area: &Area, Word { slot, generation }: Word) {
        if let Some(word) = area.registration(slot) {
            // Even: nothing stands here. Release pairs with the Acquire in
            // `rkey::Access::stands`; SeqCst would not help, since a peer that checked
            // before is already in the kernel: protocols end their operations first.
            word.store(generation.wrapping_add(1), Ordering::Release);
        }
        self.free_slots.push(slot);
    }

    pub(crate) fn view(&self, handle: MemHandle) -> Option<View<'_>> {
        self.memory.mem_view(handle)
    }

    pub(crate) fn pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        let Held { with, memory } = self.memory.get(handle).ok_or(MemError::NoSuch)?;
        match with {
            Beside::Allocated { packed, .. } => Ok(packed.clone()),
            Beside::Registered { word, .. } => {
                Ok(registered(*word, memory.start() as u64, memory.len()))
            }
            // It is found by its address.
            Beside::Lent { .. } => Ok(WHOLE_PROCESS.to_vec()),
        }
    }

    pub(crate) fn release(
        &mut self,
        area: &Area,
        handle: MemHandle,
    ) -> Result<Option<RecvBuf>, MemError> {
        let held = self.memory.remove(handle)?;
        match held.with {
            Beside::Allocated { id, .. } => forget(id),
            Beside::Registered { word, entered } => {
                self.close_word(area, word);
                self.take_back(entered);
            }
            Beside::Lent { entered } => self.take_back(entered),
        }
        Ok(held.memory.into_buffer())
    }

    /// The packed key of the allocation that holds `start .. start + len`.
    #[inline]
    pub(crate) fn key_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        let held = self.memory.get(self.memory.allocation_of(start, len)?)?;
        let Beside::Allocated { packed, .. } = &held.with else { return None };
        out.get_mut(..packed.len())?.copy_from_slice(packed);
        Some(packed.len())
    }
}

impl Drop for Memories {
    fn drop(&mut self) {
        for held in self.memory.iter() {
            match &held.with {
                Beside::Allocated { id, .. } => forget(*id),
                // Before the buffers in the table are dropped.
                Beside::Registered { entered, .. } | Beside::Lent { entered } => {
                    self.take_back(*entered);
                }
            }
        }
    }
}

/// The check of a key's bytes.
pub(crate) fn check_of(bytes: &[u8]) -> u32 {
    let wide = fnv_64(bytes);
    (wide ^ (wide >> 32)) as u32
}

fn registered(Word { slot, generation }: Word, base: u64, len: usize) -> Vec<u8> {
    let mut w = AddrWriter::new();
    w.u8(kind::REGISTERED).u32(slot).u64(generation).u64(base).u64(len as u64);
    checked(w.finish())
}

fn checked(mut bytes: Vec<u8>) -> Vec<u8> {
    let check = check_of(&bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes
}

fn forget(id: u64) {
    let mut all = ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(known, _)| *known != id);
}

fn system(error: RegionError) -> MemError {
    match error {
        RegionError::System { act, source } => MemError::System { act, source },
        other => MemError::System {
            act: "allocate memory that peers can map",
            source: std::io::Error::new(std::io::ErrorKind::OutOfMemory, other),
        },
    }
}
