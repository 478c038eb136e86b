//! Local memory that peers may reach, and the keys of theirs.
//!
//! A packed key is
//!
//! ```text
//! instance u64 | key u64 | base u64 | len u64 | flags u8 | check u64
//! ```
//!
//! `base` is where the memory starts in its owner's address space, which is how addresses are
//! counted in the contract; libfabric counts them so too where the flag VIRTUAL is set, else from
//! the start of the memory. The check is over everything in front of it.
//!
//! **After a release.** Some providers answer an access by a key that is not known any more by
//! closing the connection, and so would make of a peer's late write the failure of a whole
//! endpoint. Memory that was allocated here therefore stays registered for a while after its
//! release, where nobody uses it, with its pages given back to the system: a late write goes
//! nowhere. Memory of the user is deregistered at once.

use std::collections::{HashMap, VecDeque};
use std::io;

use bowline_base::buffer::RecvBuf;
use bowline_base::view::View;
use bowline_uct::runtime::{Held, KeyTable, MemoryTable, RegisteredMemory};
use bowline_uct::{AddrReader, MdAttr, MemError, MemHandle, RkeyId, fnv_64};
use libfabric_sys as sys;

use crate::net::{Mr, Net};

/// Bytes of a packed key.
pub(crate) const RKEY_BYTES: usize = 41;
const VIRTUAL: u8 = 1;
/// Released allocations that stay registered.
const KEPT_RELEASED: usize = 64;

/// All memory that one interface makes reachable.
#[derive(Debug)]
pub(crate) struct Memories {
    instance: u64,
    flags: u8,
    table: MemoryTable<Mr>,
    by_key: HashMap<u64, MemHandle>,
    /// Their registrations end before them.
    released: VecDeque<Held<Mr>>,
}

fn system(act: &'static str, error: i32) -> MemError {
    let source = if error < 256 {
        io::Error::from_raw_os_error(error)
    } else {
        io::Error::other(sys::error_text(error))
    };
    MemError::System { act, source }
}

impl Memories {
    pub(crate) fn new(instance: u64, virtual_addresses: bool) -> Self {
        Self {
            instance,
            flags: if virtual_addresses { VIRTUAL } else { 0 },
            table: MemoryTable::default(),
            by_key: HashMap::new(),
            released: VecDeque::new(),
        }
    }

    pub(crate) const fn md_attr(&self) -> MdAttr {
        MdAttr {
            can_alloc: true,
            can_register: true,
            rkey_bytes: RKEY_BYTES,
            register_cost_ns: (1000.0, 0.0),
        }
    }

    pub(crate) fn keep(
        &mut self,
        net: &mut Net,
        memory: RegisteredMemory,
    ) -> Result<MemHandle, MemError> {
        let access = if memory.is_read_only() {
            sys::FI_REMOTE_READ
        } else {
            sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE | sys::FI_READ | sys::FI_WRITE
        };
        // SAFETY: the memory is kept with the registration, which is dropped before it; lent memory
        // is kept by its owner until the handle is released.
        let mr = unsafe { net.register(memory.start(), memory.len(), access) }
            .map_err(|error| system("register memory with libfabric", error))?;
        let key = mr.key();
        let handle = self.table.insert(memory, mr);
        self.by_key.insert(key, handle);
        Ok(handle)
    }

    pub(crate) fn mem_view(&self, handle: MemHandle) -> Option<View<'_>> {
        self.table.mem_view(handle)
    }

    pub(crate) fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        let held = self.table.remove(handle)?;
        self.by_key.remove(&held.with.key());
        if !held.memory.is_allocated() {
            return Ok(held.into_buffer());
        }
        let (start, len) = (held.memory.start(), held.memory.len());
        // SAFETY: the range is a region's own mapping, anonymous and private; its bytes become zeros,
        // and no slice of them exists.
        let advised =
            unsafe { rustix::mm::madvise(start.cast(), len, rustix::mm::Advice::LinuxDontNeed) };
        if let Err(error) = advised {
            tracing::debug!("giving the pages of released memory back: {error}");
        }
        if self.released.len() == KEPT_RELEASED {
            self.released.pop_front();
        }
        self.released.push_back(held);
        Ok(None)
    }

    fn packed(&self, Held { with: mr, memory }: &Held<Mr>) -> [u8; RKEY_BYTES] {
        let words = [self.instance, mr.key(), memory.start() as u64, memory.len() as u64];
        let mut out = [0; RKEY_BYTES];
        for (space, word) in out.chunks_exact_mut(8).zip(words) {
            space.copy_from_slice(&word.to_le_bytes());
        }
        out[32] = self.flags;
        let check = fnv_64(&out[..33]);
        out[33..].copy_from_slice(&check.to_le_bytes());
        out
    }

    pub(crate) fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        self.table.get(handle).map(|held| self.packed(held).to_vec()).ok_or(MemError::NoSuch)
    }

    pub(crate) fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        let packed = self.packed(self.table.get(self.table.allocation_of(start, len)?)?);
        out.get_mut(..packed.len())?.copy_from_slice(&packed);
        Some(packed.len())
    }

    /// The `len` bytes at `address` of the memory that `key` opens, as a peer asked for them.
    pub(crate) fn reach(&self, key: u64, address: u64, len: usize) -> Option<View<'_>> {
        self.table.reach(*self.by_key.get(&key)?, address, len)
    }

    /// The descriptor of the registration around local memory.
    pub(crate) fn local(&self, start: *mut u8, len: usize) -> Option<*mut std::ffi::c_void> {
        let held = self.table.get(self.table.allocation_of(start as u64, len)?)?;
        Some(held.with.desc())
    }

    /// Ends all registrations, and everything held with them.
    pub(crate) fn clear(&mut self) {
        self.table = MemoryTable::default();
        self.released.clear();
        self.by_key.clear();
    }
}

/// What a packed key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) instance: u64,
    key: u64,
    base: u64,
    len: u64,
    virtual_addresses: bool,
}

/// A peer's memory, as libfabric names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) key: u64,
    /// The address that libfabric counts as 0.
    pub(crate) origin: u64,
}

impl Packed {
    pub(crate) fn parse(packed: &[u8]) -> Option<Self> {
        if packed.len() != RKEY_BYTES {
            return None;
        }
        let (body, check) = packed.split_last_chunk::<8>()?;
        // Fuzzing reads what is behind the check.
        if !cfg!(fuzzing) && fnv_64(body) != u64::from_le_bytes(*check) {
            return None;
        }
        let mut r = AddrReader::new(body);
        let (instance, key) = (r.u64().ok()?, r.u64().ok()?);
        let (base, len, flags) = (r.u64().ok()?, r.u64().ok()?, r.u8().ok()?);
        if flags & !VIRTUAL != 0 || base.checked_add(len).is_none() {
            return None;
        }
        Some(Self { instance, key, base, len, virtual_addresses: flags & VIRTUAL != 0 })
    }

    pub(crate) fn open(self, peer: u32, keys: &mut KeyTable<u32, Opened>) -> RkeyId {
        let origin = if self.virtual_addresses { 0 } else { self.base };
        keys.insert(peer, self.base, self.len, Opened { key: self.key, origin })
    }
}

/// Reads a packed key, for the fuzz target.
///
/// # Panics
/// When a key opens something outside of what it says.
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub fn fuzz_rkey(bytes: &[u8]) {
    let Some(packed) = Packed::parse(bytes) else { return };
    let mut keys = KeyTable::default();
    let rkey = packed.open(0, &mut keys);
    let opens =
        |address, len| keys.open(0, bowline_uct::RemoteSlice { address, rkey }, len).is_ok();
    assert!(opens(packed.base, 0));
    assert!(!opens(packed.base.wrapping_add(packed.len), 1));
    assert!(!opens(packed.base.wrapping_sub(1), 1));
}
