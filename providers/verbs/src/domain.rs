//! Memory that devices reach: what is allocated here, what the user registers, what is registered
//! for one operation, and keys of peers' memory.
//!
//! **No stale registration.** A registration is good as long as its virtual pages are the ones
//! that were pinned; memory that was unmapped and mapped again at the same address would be read
//! from the old pages. So none is kept beyond the handle or the operation that keeps its memory:
//!
//! - allocated memory is ours: unmapped only after its registration has ended;
//! - registered memory belongs to its handle, with the user's buffer inside, until `mem_release`;
//! - memory of an operation (zcopy) is lent until the operation's completion is reported, and its
//!   registration ends just before that. Operations that lend the same bytes share it by count.
//!
//! The operations find handles' registrations by address, so a program that registers its buffers
//! once pays nothing per operation. Nothing is kept on suspicion that it may be used again, hence
//! there is nothing to evict, and `malloc` is not intercepted.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bowline_base::buffer::RecvBuf;
use bowline_base::slab::{Key, Slab};
use bowline_base::view::View;
use bowline_uct::runtime::{Held, KeyTable, MemoryTable, RegisteredMemory};
use bowline_uct::{LocalSlice, MemError, MemHandle, RkeyId};

use crate::addr::{KEY_BYTES, PackedKey};
use crate::sys::{Access, Mr, Pd, Sge};

/// Bytes and purpose of a registration for operations.
type Lent = (u64, usize, bool);

#[derive(Debug)]
struct Transient {
    mr: Mr,
    lent: Lent,
    users: u32,
}

/// What a request may do with the memory it names.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) sges: Vec<Sge>,
    /// To be given back when the request is complete.
    pub(crate) lent: Vec<Key>,
}

#[derive(Debug)]
pub(crate) struct Domain {
    pd: Arc<Pd>,
    uid: u64,
    /// With their registrations; empty memory has none.
    table: MemoryTable<Option<Mr>>,
    /// Handles by the first address.
    by_start: BTreeMap<u64, MemHandle>,
    transient: Slab<Transient>,
    by_lent: BTreeMap<Lent, Key>,
    /// The devices' keys of peers' memory, by the number of the peer.
    pub(crate) opened: KeyTable<u32, u32>,
}

impl Domain {
    pub(crate) fn new(pd: &Arc<Pd>, uid: u64) -> Self {
        Self {
            pd: Arc::clone(pd),
            uid,
            table: MemoryTable::default(),
            by_start: BTreeMap::new(),
            transient: Slab::default(),
            by_lent: BTreeMap::new(),
            opened: KeyTable::default(),
        }
    }

    pub(crate) fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        self.keep(RegisteredMemory::allocate(len)?)
    }

    /// Registers memory for the operations of peers, and keeps it.
    pub(crate) fn keep(&mut self, memory: RegisteredMemory) -> Result<MemHandle, MemError> {
        let (start, len) = (memory.start(), memory.len());
        let mr = if len == 0 {
            None
        } else {
            // SAFETY: the memory is kept beside the registration, and given back after that has ended; it is
            // only reached through views meanwhile. The caller of `mem_lend` keeps lent bytes until the
            // handle is released, which ends the registration.
            let mr = unsafe { Mr::new(&self.pd, start, len, Access::Remote) };
            let act = "register memory for remote access (is the limit of locked memory, \
                       `ulimit -l`, high enough?)";
            Some(mr.map_err(|source| MemError::System { act, source })?)
        };
        let handle = self.table.insert(memory, mr);
        if len > 0 {
            self.by_start.insert(start as u64, handle);
        }
        Ok(handle)
    }

    pub(crate) fn mem_view(&self, handle: MemHandle) -> Option<View<'_>> {
        self.table.mem_view(handle)
    }

    pub(crate) fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        let held = self.table.remove(handle)?;
        let start = held.memory.start() as u64;
        if self.by_start.get(&start) == Some(&handle) {
            self.by_start.remove(&start);
        }
        Ok(held.into_buffer())
    }

    pub(crate) fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        self.table.get(handle).map(|held| self.packed(held).to_vec()).ok_or(MemError::NoSuch)
    }

    fn packed(&self, Held { with: mr, memory }: &Held<Option<Mr>>) -> [u8; KEY_BYTES] {
        let (start, len) = (memory.start() as u64, memory.len() as u64);
        PackedKey { uid: self.uid, start, len, rkey: mr.as_ref().map_or(0, Mr::rkey) }.encode()
    }

    /// The registration around `len` bytes at `start`.
    fn find(&self, start: u64, len: usize) -> Option<&Mr> {
        let (_, handle) = self.by_start.range(..=start).next_back()?;
        self.table.reach(*handle, start, len)?;
        self.table.get(*handle)?.with.as_ref()
    }

    /// The key of the allocation that holds these bytes.
    pub(crate) fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        let held = self.table.get(self.table.allocation_of(start, len)?)?;
        out.get_mut(..KEY_BYTES)?.copy_from_slice(&self.packed(held));
        Some(KEY_BYTES)
    }

    /// Opens a key of the peer `uid` behind endpoint `ep`.
    pub(crate) fn open(&mut self, ep: u32, uid: u64, packed: &[u8]) -> Result<RkeyId, MemError> {
        let key = PackedKey::decode(packed).map_err(|_| MemError::BadKey)?;
        if key.uid != uid {
            return Err(MemError::BadKey);
        }
        Ok(self.opened.insert(ep, key.start, key.len, key.rkey))
    }

    /// What requests say of `slices`, which stay lent until [`Domain::give_back`]; `write`: the
    /// device writes them. Empty slices are left out.
    pub(crate) fn borrow(&mut self, slices: &[LocalSlice], write: bool) -> io::Result<Pieces> {
        let mut pieces = Pieces { sges: Vec::with_capacity(slices.len()), lent: Vec::new() };
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            let lkey = match self.find(slice.as_ptr() as u64, slice.len()) {
                Some(mr) => mr.lkey(),
                None => match self.lend(slice, write) {
                    Ok((key, lkey)) => {
                        pieces.lent.push(key);
                        lkey
                    }
                    Err(error) => {
                        self.give_back(&pieces.lent);
                        return Err(error);
                    }
                },
            };
            let (addr, length) = (slice.as_ptr() as u64, slice.len() as u32);
            pieces.sges.push(Sge { addr, length, lkey });
        }
        Ok(pieces)
    }

    fn lend(&mut self, slice: &LocalSlice, write: bool) -> io::Result<(Key, u32)> {
        let lent = (slice.as_ptr() as u64, slice.len(), write);
        if let Some(key) = self.by_lent.get(&lent)
            && let Some(transient) = self.transient.get_mut(*key)
        {
            transient.users += 1;
            return Ok((*key, transient.mr.lkey()));
        }
        let access = if write { Access::Local } else { Access::Read };
        // SAFETY: the caller that posted the operation keeps the buffer until its completion is reported,
        // and does not touch it meanwhile if it is written; the registration ends before that.
        let mr = unsafe { Mr::new(&self.pd, slice.as_ptr(), slice.len(), access)? };
        let lkey = mr.lkey();
        let key = self.transient.insert(Transient { mr, lent, users: 1 });
        self.by_lent.insert(lent, key);
        Ok((key, lkey))
    }

    /// Ends what an operation has borrowed.
    pub(crate) fn give_back(&mut self, lent: &[Key]) {
        for key in lent {
            let Some(transient) = self.transient.get_mut(*key) else { continue };
            transient.users -= 1;
            if transient.users == 0
                && let Some(transient) = self.transient.remove(*key)
            {
                self.by_lent.remove(&transient.lent);
            }
        }
    }

    /// Registrations for operations under way.
    pub(crate) fn transient(&self) -> usize {
        self.transient.len()
    }
}
