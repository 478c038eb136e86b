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
//! closing the connection, and so would turn a peer's late write into the failure of a whole
//! endpoint. Memory that was allocated here therefore stays registered for a while after its
//! release, where nobody uses it, with its pages given back to the system: a late write goes
//! nowhere. Memory of the user is deregistered at once.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;

use bowline_base::buffer::RecvBuf;
use bowline_base::region::Region;
use bowline_base::slab::Slab;
use bowline_base::view::View;
use bowline_uct::{AddrReader, LocalSlice, MdAttr, MemError, MemHandle, PostError, RemoteSlice};
use libfabric_sys as sys;

use crate::net::{Mr, Net};
use crate::wire::hash;

/// Bytes of a packed key.
pub(crate) const RKEY_BYTES: usize = 41;
const VIRTUAL: u8 = 1;
/// Released allocations that stay registered.
const KEPT_RELEASED: usize = 64;

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
    /// Lent to the reads of peers.
    Exposed {
        start: *mut u8,
        len: usize,
    },
    /// Lent to their writes.
    Lent {
        start: *mut u8,
        len: usize,
    },
}

// SAFETY: `start` points into `buffer`, which is `Send`, or into memory that a caller promised to
// keep whatever the thread; it is only used through views and by libfabric.
unsafe impl Send for Home {}

impl Home {
    /// Where it is.
    fn place(&self) -> (*mut u8, usize) {
        match self {
            Self::Allocated { .. } | Self::Registered { .. } => {
                let view = self.view().expect("not lent");
                (view.as_ptr(), view.len())
            }
            Self::Exposed { start, len } | Self::Lent { start, len } => (*start, *len),
        }
    }

    /// The bytes, unless they are lent to reads: nobody may write those.
    fn view(&self) -> Option<View<'_>> {
        Some(match self {
            Self::Exposed { .. } => return None,
            Self::Allocated { region, len } => {
                region.view().slice(0, *len).expect("the region has at least the length asked for")
            }
            // SAFETY: `start` came from the buffer's own view; the buffer is kept in the same
            // value and not used otherwise while it is registered.
            Self::Registered { buffer, start } => unsafe { View::from_raw(*start, buffer.len()) },
            // SAFETY: the caller of `mem_lend` keeps the bytes writable until they are released.
            Self::Lent { start, len } => unsafe { View::from_raw(*start, *len) },
        })
    }
}

#[derive(Debug)]
struct Memory {
    // Dropped before the memory that it registers.
    mr: Mr,
    home: Home,
}

/// All memory that one interface makes reachable.
#[derive(Debug)]
pub(crate) struct Memories {
    instance: u64,
    flags: u8,
    held: Slab<Memory>,
    by_key: HashMap<u64, MemHandle>,
    /// Allocations by start address.
    allocated: BTreeMap<u64, MemHandle>,
    released: VecDeque<(Mr, Region)>,
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
            held: Slab::default(),
            by_key: HashMap::new(),
            allocated: BTreeMap::new(),
            released: VecDeque::new(),
        }
    }

    pub(crate) const fn attr() -> MdAttr {
        MdAttr {
            can_alloc: true,
            can_register: true,
            rkey_bytes: RKEY_BYTES,
            register_cost_ns: (1000.0, 0.0),
        }
    }

    fn hold(&mut self, net: &mut Net, home: Home) -> Result<MemHandle, (MemError, Home)> {
        let (start, len) = home.place();
        let access = match home {
            Home::Exposed { .. } => sys::FI_REMOTE_READ,
            _ => sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE | sys::FI_READ | sys::FI_WRITE,
        };
        // SAFETY: the memory is kept with the registration, which is dropped before it; lent memory
        // is kept by its owner until the handle is released.
        match unsafe { net.register(start, len, access) } {
            Ok(mr) => {
                let key = mr.key();
                let handle = MemHandle(self.held.insert(Memory { mr, home }));
                self.by_key.insert(key, handle);
                Ok(handle)
            }
            Err(error) => Err((system("register memory with libfabric", error), home)),
        }
    }

    pub(crate) fn alloc(&mut self, net: &mut Net, len: usize) -> Result<MemHandle, MemError> {
        let region = Region::create_private(len).map_err(|error| MemError::System {
            act: "allocate memory of the libfabric transport",
            source: io::Error::other(error),
        })?;
        let start = region.view().as_ptr() as u64;
        let home = Home::Allocated { region, len };
        let handle = self.hold(net, home).map_err(|(error, _)| error)?;
        self.allocated.insert(start, handle);
        Ok(handle)
    }

    pub(crate) fn register(
        &mut self,
        net: &mut Net,
        mut buffer: RecvBuf,
    ) -> Result<MemHandle, MemError> {
        let start = buffer.view().as_ptr();
        self.hold(net, Home::Registered { buffer, start }).map_err(|(error, _)| error)
    }

    /// Lends memory to the reads of peers.
    pub(crate) fn expose(
        &mut self,
        net: &mut Net,
        bytes: LocalSlice,
    ) -> Result<MemHandle, MemError> {
        let home = Home::Exposed { start: bytes.as_ptr(), len: bytes.len() };
        self.hold(net, home).map_err(|(error, _)| error)
    }

    /// Lends memory to the writes of peers.
    pub(crate) fn lend(&mut self, net: &mut Net, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        let home = Home::Lent { start: bytes.as_ptr(), len: bytes.len() };
        self.hold(net, home).map_err(|(error, _)| error)
    }

    pub(crate) fn view(&self, handle: MemHandle) -> Option<View<'_>> {
        self.held.get(handle.0).and_then(|memory| memory.home.view())
    }

    pub(crate) fn release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        let Memory { mr, home } = self.held.remove(handle.0).ok_or(MemError::NoSuch)?;
        self.by_key.remove(&mr.key());
        match home {
            Home::Allocated { region, .. } => {
                let view = region.view();
                self.allocated.remove(&(view.as_ptr() as u64));
                // SAFETY: the range is the region's own mapping, anonymous and private; its bytes
                // become zeros, and no slice of them exists.
                let advised = unsafe {
                    rustix::mm::madvise(
                        view.as_ptr().cast(),
                        view.len(),
                        rustix::mm::Advice::LinuxDontNeed,
                    )
                };
                if let Err(error) = advised {
                    tracing::debug!("giving the pages of released memory back: {error}");
                }
                if self.released.len() == KEPT_RELEASED {
                    self.released.pop_front();
                }
                self.released.push_back((mr, region));
                Ok(None)
            }
            Home::Registered { buffer, .. } => {
                drop(mr);
                Ok(Some(buffer))
            }
            Home::Exposed { .. } | Home::Lent { .. } => Ok(None),
        }
    }

    fn packed(&self, memory: &Memory) -> [u8; RKEY_BYTES] {
        let (start, len) = memory.home.place();
        let words = [self.instance, memory.mr.key(), start as u64, len as u64];
        let mut out = [0; RKEY_BYTES];
        for (room, word) in out.chunks_exact_mut(8).zip(words) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        out[32] = self.flags;
        let check = hash(&out[..33]);
        out[33..].copy_from_slice(&check.to_le_bytes());
        out
    }

    pub(crate) fn pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        self.held.get(handle.0).map(|memory| self.packed(memory).to_vec()).ok_or(MemError::NoSuch)
    }

    pub(crate) fn key_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        let (first, handle) = self.allocated.range(..=start).next_back()?;
        let offset = usize::try_from(start - first).ok()?;
        let memory = self.held.get(handle.0)?;
        memory.home.view()?.slice(offset, len)?;
        let packed = self.packed(memory);
        out.get_mut(..packed.len())?.copy_from_slice(&packed);
        Some(packed.len())
    }

    /// The `len` bytes at `address` of the memory that `key` opens, as a peer asked for them.
    pub(crate) fn reach(&self, key: u64, address: u64, len: usize) -> Option<View<'_>> {
        let view = self.view(*self.by_key.get(&key)?)?;
        let offset = address.checked_sub(view.as_ptr() as u64)?;
        view.slice(usize::try_from(offset).ok()?, len)
    }

    /// The descriptor of the registration around local memory.
    pub(crate) fn local(&self, start: *mut u8, len: usize) -> Option<*mut std::ffi::c_void> {
        let (first, handle) = self.allocated.range(..=start as u64).next_back()?;
        let memory = self.held.get(handle.0)?;
        memory.home.view()?.slice(usize::try_from(start as u64 - first).ok()?, len)?;
        Some(memory.mr.desc())
    }

    /// Ends all registrations, and everything held with them.
    pub(crate) fn clear(&mut self) {
        self.held = Slab::default();
        self.released.clear();
        self.by_key.clear();
        self.allocated.clear();
    }
}

/// A peer's memory, as a key opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rkey {
    pub(crate) peer: u32,
    pub(crate) instance: u64,
    pub(crate) key: u64,
    base: u64,
    len: u64,
    virtual_addresses: bool,
}

impl Rkey {
    pub(crate) fn unpack(peer: u32, packed: &[u8]) -> Option<Self> {
        if packed.len() != RKEY_BYTES {
            return None;
        }
        let (body, check) = packed.split_last_chunk::<8>()?;
        // Fuzzing looks behind the check.
        if !cfg!(fuzzing) && hash(body) != u64::from_le_bytes(*check) {
            return None;
        }
        let mut r = AddrReader::new(body);
        let (instance, key) = (r.u64().ok()?, r.u64().ok()?);
        let (base, len, flags) = (r.u64().ok()?, r.u64().ok()?, r.u8().ok()?);
        if flags & !VIRTUAL != 0 || base.checked_add(len).is_none() {
            return None;
        }
        Some(Self { peer, instance, key, base, len, virtual_addresses: flags & VIRTUAL != 0 })
    }

    /// The address of `len` bytes at `at`, as libfabric counts it.
    #[inline]
    pub(crate) fn reach(&self, at: RemoteSlice, len: usize) -> Result<u64, PostError> {
        let offset = at.address.checked_sub(self.base).ok_or(PostError::BadRemote)?;
        if offset > self.len || len as u64 > self.len - offset {
            return Err(PostError::BadRemote);
        }
        Ok(if self.virtual_addresses { at.address } else { offset })
    }
}

/// Reads a packed key, for the fuzz target.
///
/// # Panics
/// When a key opens something outside of what it says.
#[doc(hidden)]
pub fn fuzz_rkey(bytes: &[u8]) {
    let Some(rkey) = Rkey::unpack(0, bytes) else { return };
    let at =
        |address| RemoteSlice { address, rkey: bowline_uct::RkeyId(bowline_base::slab::Key::NONE) };
    assert!(rkey.reach(at(rkey.base), 0).is_ok());
    assert!(rkey.reach(at(rkey.base.wrapping_add(rkey.len)), 1).is_err());
    assert!(rkey.reach(at(rkey.base.wrapping_sub(1)), 1).is_err());
}
