//! Memory that devices reach: what is allocated here, what the user registers, what is registered
//! for one operation, and keys of peers' memory.
//!
//! **No stale registration.** A registration is good as long as its virtual pages are the ones
//! that were pinned; memory that was unmapped and mapped again at the same address would be read
//! from the old pages. So none is kept beyond the handle or the operation that keeps its memory:
//!
//! - allocated memory is ours: unmapped only after its registration has ended;
//! - registered memory belongs to its handle, with the user's buffer inside, until `mem_release`;
//! - memory that is lent to the writes of peers is kept by its owner until `mem_release`;
//! - memory that is only read, by peers (`mem_expose`) or by an operation, or that one operation writes, is lent until
//!   `mem_release` or until the operation's completion is reported, and its registration ends just before that. Who
//!   lends the same bytes meanwhile shares it ([`loans`]);
//! - memory that is prepared for gets of signal handlers is named by those alone who prepared it, and by nothing once it
//!   may be unmapped: nobody finds its registration by address, and peers have no key of it.
//!
//! The operations find the registrations of allocated and registered memory by address, so a program that registers its
//! buffers once pays nothing per operation. Nothing is kept on suspicion that it may be used again, hence
//! there is nothing to evict, and `malloc` is not intercepted.

mod loans;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bowline_base::buffer::RecvBuf;
use bowline_base::slab::{Key, Slab};
use bowline_base::view::View;
use bowline_uct::runtime::{Held, KeyTable, MemoryTable, RegisteredMemory};
use bowline_uct::{LocalSlice, MemError, MemHandle, PreparedId, RkeyId};

use crate::addr::{KEY_BYTES, PackedKey};
use crate::sys::{Access, Mr, Pd, Sge};
use loans::{Bytes, Loans};

/// The registration of a handle's memory.
#[derive(Debug)]
enum Registration {
    /// Empty memory has none.
    Empty,
    Own(Mr),
    /// Of memory that is lent to reads: a loan.
    Shared(Key),
}

/// What a request may do with the memory it names.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) sges: Vec<Sge>,
    /// To be given back when the request is complete.
    pub(crate) lent: Vec<Key>,
}

/// Memory that is prepared for gets of signal handlers.
#[derive(Debug)]
struct Prepared {
    start: u64,
    len: usize,
    /// Of empty memory there is none.
    mr: Option<Mr>,
}

#[derive(Debug)]
pub(crate) struct Domain {
    pd: Arc<Pd>,
    uid: u64,
    table: MemoryTable<Registration>,
    /// Handles of allocated and registered memory by the first address.
    by_start: BTreeMap<u64, MemHandle>,
    loans: Loans<Mr>,
    /// Memory that is prepared for gets of signal handlers.
    prepared: Slab<Prepared>,
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
            loans: Loans::default(),
            prepared: Slab::default(),
            opened: KeyTable::default(),
        }
    }

    pub(crate) fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        self.keep(RegisteredMemory::allocate(len)?)
    }

    /// Registers memory of the user, and keeps it.
    pub(crate) fn mem_register(&mut self, buffer: RecvBuf) -> Result<MemHandle, MemError> {
        self.keep(RegisteredMemory::of_buffer(buffer))
    }

    /// Keeps memory that operations are to find by its address.
    fn keep(&mut self, memory: RegisteredMemory) -> Result<MemHandle, MemError> {
        let (start, len) = (memory.start() as u64, memory.len());
        let handle = self.open_to_peers(memory)?;
        if len > 0 {
            self.by_start.insert(start, handle);
        }
        Ok(handle)
    }

    /// Registers memory that is lent to puts and gets of peers.
    pub(crate) fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        self.open_to_peers(RegisteredMemory::lent(bytes))
    }

    /// Registers memory for all operations of peers.
    fn open_to_peers(&mut self, memory: RegisteredMemory) -> Result<MemHandle, MemError> {
        let registration = if memory.is_empty() {
            Registration::Empty
        } else {
            // SAFETY: the memory is kept beside the registration, and given back after that has ended; it is
            // only reached through views meanwhile. The caller of `mem_lend` keeps lent bytes until the
            // handle is released, which ends the registration.
            let mr = unsafe { Mr::new(&self.pd, memory.start(), memory.len(), Access::Remote) };
            Registration::Own(mr.map_err(cannot_register)?)
        };
        Ok(self.table.insert(memory, registration))
    }

    /// Registers memory that is lent to gets of peers, together with others who lend the same bytes.
    pub(crate) fn mem_expose(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        let registration = if bytes.is_empty() {
            Registration::Empty
        } else {
            let (key, _) = self.lend(&bytes, Access::Exposed).map_err(cannot_register)?;
            Registration::Shared(key)
        };
        Ok(self.table.insert(RegisteredMemory::exposed(bytes), registration))
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
        if let Registration::Shared(key) = held.with {
            self.loans.give_back(key);
        }
        Ok(held.into_buffer())
    }

    pub(crate) fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        self.table.get(handle).map(|held| self.packed(held).to_vec()).ok_or(MemError::NoSuch)
    }

    fn packed(&self, Held { with: registration, memory }: &Held<Registration>) -> [u8; KEY_BYTES] {
        let mr = match registration {
            Registration::Empty => None,
            Registration::Own(mr) => Some(mr),
            Registration::Shared(key) => self.loans.of(*key),
        };
        let (start, len) = (memory.start() as u64, memory.len() as u64);
        PackedKey { uid: self.uid, start, len, rkey: mr.map_or(0, Mr::rkey) }.encode()
    }

    /// The registration around `len` bytes at `start`.
    fn find(&self, start: u64, len: usize) -> Option<&Mr> {
        let (_, handle) = self.by_start.range(..=start).next_back()?;
        self.table.reach(*handle, start, len)?;
        match &self.table.get(*handle)?.with {
            Registration::Own(mr) => Some(mr),
            Registration::Empty | Registration::Shared(_) => None,
        }
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

    /// The same by an ordinary call: the space for keys of signal handlers stays.
    pub(crate) fn open_and_reserve(
        &mut self,
        ep: u32,
        uid: u64,
        packed: &[u8],
    ) -> Result<RkeyId, MemError> {
        let opened = self.open(ep, uid, packed);
        self.opened.reserve(self.prepared.len());
        opened
    }

    /// Registers memory for the gets of signal handlers, and makes space for the key of one.
    pub(crate) fn prepare(&mut self, bytes: LocalSlice) -> Result<PreparedId, MemError> {
        let (start, len) = (bytes.as_ptr() as u64, bytes.len());
        let mr = if len == 0 {
            None
        } else {
            // SAFETY: the bytes are mapped now. Only requests of `prepared_piece` name the registration, for memory
            // that the caller of `get_prepared` keeps, and leaves alone, until the completion of its get; the
            // registration ends after that, by the rule of `unprepare`.
            let mr = unsafe { Mr::new(&self.pd, bytes.as_ptr(), len, Access::Local) };
            Some(mr.map_err(cannot_register)?)
        };
        let prepared = PreparedId(self.prepared.insert(Prepared { start, len, mr }));
        self.opened.reserve(self.prepared.len());
        Ok(prepared)
    }

    pub(crate) fn unprepare(&mut self, prepared: PreparedId) {
        drop(self.prepared.remove(prepared.0));
    }

    /// Opens a key where that takes no memory.
    pub(crate) fn open_signal_safe(&mut self, ep: u32, uid: u64, packed: &[u8]) -> Option<RkeyId> {
        if self.opened.spare() == 0 {
            return None;
        }
        self.open(ep, uid, packed).ok()
    }

    /// What a request says of memory that was prepared; `None` where not all of it was.
    pub(crate) fn prepared_piece(&self, prepared: PreparedId, to: &LocalSlice) -> Option<Sge> {
        let Prepared { start, len, mr } = self.prepared.get(prepared.0)?;
        let addr = to.as_ptr() as u64;
        let offset = usize::try_from(addr.checked_sub(*start)?).ok()?;
        if offset > *len || to.len() > *len - offset {
            return None;
        }
        Some(Sge { addr, length: u32::try_from(to.len()).ok()?, lkey: mr.as_ref()?.lkey() })
    }

    /// What requests say of `slices`, which stay lent until [`Domain::give_back`]; `write`: the
    /// device writes them. Empty slices are left out.
    pub(crate) fn borrow(&mut self, slices: &[LocalSlice], write: bool) -> io::Result<Pieces> {
        let access = if write { Access::Local } else { Access::Read };
        let mut pieces = Pieces { sges: Vec::with_capacity(slices.len()), lent: Vec::new() };
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            let lkey = match self.find(slice.as_ptr() as u64, slice.len()) {
                Some(mr) => mr.lkey(),
                None => match self.lend(slice, access) {
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

    /// A registration of bytes that the caller lends until [`Loans::give_back`], and the key by which requests name them.
    fn lend(&mut self, slice: &LocalSlice, access: Access) -> io::Result<(Key, u32)> {
        let bytes = Bytes { start: slice.as_ptr() as u64, len: slice.len(), access };
        let key = self.loans.lend(bytes, || {
            // SAFETY: who posted the operation keeps the buffer until its completion is reported, and does not
            // touch it meanwhile if it is written; the caller of `mem_expose` keeps it readable until the release of
            // its handle. The registration ends before the last of these.
            unsafe { Mr::new(&self.pd, slice.as_ptr(), slice.len(), access) }
        })?;
        let mr = self.loans.of(key).expect("it has just been lent");
        Ok((key, mr.lkey()))
    }

    /// Ends what an operation has borrowed.
    pub(crate) fn give_back(&mut self, lent: &[Key]) {
        for key in lent {
            self.loans.give_back(*key);
        }
    }

    /// Registrations of memory that is lent to operations and to reads of peers.
    pub(crate) fn transient(&self) -> usize {
        self.loans.len()
    }
}

fn cannot_register(source: io::Error) -> MemError {
    let act = "register memory for remote access (is the limit of locked memory, `ulimit -l`, \
               high enough?)";
    MemError::System { act, source }
}
