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
use bowline_uct::{LocalSlice, MemError, MemHandle, PostError, RkeyId};

use crate::addr::{KEY_BYTES, PackedKey};
use crate::sys::{Access, Memory, Mr, Pd, Sge};

#[derive(Debug)]
enum Held {
    Allocated(Memory),
    /// The registration stands first, so that it ends before the buffer goes.
    Registered(Option<Mr>, RecvBuf),
    /// Somebody else's, until it is released.
    Lent(Option<Mr>),
}

#[derive(Debug)]
struct Owned {
    held: Held,
    start: u64,
    len: usize,
}

impl Owned {
    fn mr(&self) -> Option<&Mr> {
        match &self.held {
            Held::Allocated(memory) => Some(memory.mr()),
            Held::Registered(mr, _) | Held::Lent(mr) => mr.as_ref(),
        }
    }

    const fn covers(&self, start: u64, len: usize) -> bool {
        start >= self.start && len <= self.len && start - self.start <= (self.len - len) as u64
    }
}

/// Bytes and purpose of a registration for operations.
type Lent = (u64, usize, bool);

#[derive(Debug)]
struct Transient {
    mr: Mr,
    lent: Lent,
    users: u32,
}

/// An unpacked key, and the endpoint for which it was.
#[derive(Clone, Copy, Debug)]
struct Opened {
    ep: u32,
    key: PackedKey,
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
    owned: Slab<Owned>,
    /// Handles by the first address.
    by_start: BTreeMap<u64, Key>,
    transient: Slab<Transient>,
    by_lent: BTreeMap<Lent, Key>,
    opened: Slab<Opened>,
}

impl Domain {
    pub(crate) fn new(pd: &Arc<Pd>, uid: u64) -> Self {
        Self {
            pd: Arc::clone(pd),
            uid,
            owned: Slab::default(),
            by_start: BTreeMap::new(),
            transient: Slab::default(),
            by_lent: BTreeMap::new(),
            opened: Slab::default(),
        }
    }

    fn keep(&mut self, held: Held, start: u64, len: usize) -> MemHandle {
        let key = self.owned.insert(Owned { held, start, len });
        if len > 0 {
            self.by_start.insert(start, key);
        }
        MemHandle(key)
    }

    pub(crate) fn alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        let act = "allocate memory for remote access";
        let memory = Memory::new(&self.pd, len.max(1), Access::Remote)
            .map_err(|source| MemError::System { act, source })?;
        let start = memory.view().as_ptr() as u64;
        Ok(self.keep(Held::Allocated(memory), start, len))
    }

    pub(crate) fn register(&mut self, mut buffer: RecvBuf) -> Result<MemHandle, MemError> {
        let (start, len) = (buffer.address(), buffer.len());
        // SAFETY: the buffer is kept beside the registration and given back after it has ended; it
        // is only reached through views meanwhile.
        let mr = unsafe { self.reachable(buffer.view().as_ptr(), len)? };
        Ok(self.keep(Held::Registered(mr, buffer), start, len))
    }

    /// Lends memory of an operation to the writes of peers.
    pub(crate) fn lend_out(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        // SAFETY: the caller of `mem_lend` keeps the bytes until the handle is released, which ends
        // the registration.
        let mr = unsafe { self.reachable(bytes.as_ptr(), bytes.len())? };
        Ok(self.keep(Held::Lent(mr), bytes.as_ptr() as u64, bytes.len()))
    }

    /// Registers memory for the operations of peers; none where there are no bytes.
    ///
    /// # Safety
    /// The bytes stay, and are reached by nothing but views, until the registration has ended.
    unsafe fn reachable(&self, start: *mut u8, len: usize) -> Result<Option<Mr>, MemError> {
        if len == 0 {
            return Ok(None);
        }
        // SAFETY: as the caller promises.
        let mr = unsafe { Mr::new(&self.pd, start, len, Access::Remote) };
        let act = "register memory for remote access (is the limit of locked memory, \
                   `ulimit -l`, high enough?)";
        mr.map(Some).map_err(|source| MemError::System { act, source })
    }

    pub(crate) fn view(&self, handle: MemHandle) -> Option<View<'_>> {
        let owned = self.owned.get(handle.0)?;
        match &owned.held {
            Held::Allocated(memory) => memory.view().slice(0, owned.len),
            Held::Registered(..) | Held::Lent(_) => {
                // SAFETY: the buffer belongs to the handle, which the borrow keeps, or to somebody
                // who lends it that long; nobody makes a slice of it before it is given back.
                Some(unsafe { View::from_raw(owned.start as *mut u8, owned.len) })
            }
        }
    }

    pub(crate) fn release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        let owned = self.owned.remove(handle.0).ok_or(MemError::NoSuch)?;
        if self.by_start.get(&owned.start) == Some(&handle.0) {
            self.by_start.remove(&owned.start);
        }
        Ok(match owned.held {
            Held::Allocated(_) => None,
            Held::Registered(mr, buffer) => {
                drop(mr);
                Some(buffer)
            }
            Held::Lent(mr) => {
                drop(mr);
                None
            }
        })
    }

    pub(crate) fn pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        let owned = self.owned.get(handle.0).ok_or(MemError::NoSuch)?;
        Ok(self.packed(owned).to_vec())
    }

    fn packed(&self, owned: &Owned) -> [u8; KEY_BYTES] {
        let rkey = owned.mr().map_or(0, Mr::rkey);
        let key = PackedKey { uid: self.uid, start: owned.start, len: owned.len as u64, rkey };
        key.encode()
    }

    fn find(&self, start: u64, len: usize) -> Option<&Owned> {
        let (_, key) = self.by_start.range(..=start).next_back()?;
        self.owned.get(*key).filter(|owned| owned.covers(start, len))
    }

    /// The key of the allocation that holds these bytes.
    pub(crate) fn key_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        let owned = self.find(start, len)?;
        if !matches!(owned.held, Held::Allocated(_)) {
            return None;
        }
        out.get_mut(..KEY_BYTES)?.copy_from_slice(&self.packed(owned));
        Some(KEY_BYTES)
    }

    /// Opens a key of the peer `uid` behind endpoint `ep`.
    pub(crate) fn open(&mut self, ep: u32, uid: u64, packed: &[u8]) -> Result<RkeyId, MemError> {
        let key = PackedKey::decode(packed).map_err(|_| MemError::BadKey)?;
        if key.uid != uid {
            return Err(MemError::BadKey);
        }
        Ok(RkeyId(self.opened.insert(Opened { ep, key })))
    }

    pub(crate) fn close(&mut self, rkey: RkeyId) {
        self.opened.remove(rkey.0);
    }

    /// The device's key for `len` bytes at `address` of the peer behind `ep`, and the bounds of
    /// the memory.
    #[inline]
    pub(crate) fn remote(
        &self,
        ep: u32,
        rkey: RkeyId,
        address: u64,
        len: usize,
    ) -> Result<PackedKey, PostError> {
        let opened = self.opened.get(rkey.0).ok_or(PostError::BadArgument)?;
        if opened.ep != ep {
            return Err(PostError::BadArgument);
        }
        if !opened.key.opens(address, len as u64) {
            return Err(PostError::BadRemote);
        }
        Ok(opened.key)
    }

    /// What requests say of `slices`, which stay lent until [`Domain::give_back`]; `write`: the
    /// device writes them. Empty slices are left out.
    pub(crate) fn borrow(&mut self, slices: &[LocalSlice], write: bool) -> io::Result<Pieces> {
        let mut pieces = Pieces { sges: Vec::with_capacity(slices.len()), lent: Vec::new() };
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            let lkey = match self.find(slice.as_ptr() as u64, slice.len()).and_then(Owned::mr) {
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
        // SAFETY: whoever posted the operation keeps the buffer until its completion is reported,
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
