//! What a peer's key opens here: a mapping, or a range that the kernel copies.
//!
//! Keys are bytes from a peer and trusted as such: a mapping is made only of a descriptor whose
//! inode is the one that the key names and whose size is sealed, and every access is checked
//! against the range of its key before anything is touched.

use std::os::fd::AsFd;
use std::sync::Arc;

use bowline_base::region::{Region, RegionError};
use bowline_base::sync::atomic::Ordering;
use bowline_base::view::View;
use bowline_uct::{AddrReader, MemError, PeerFailure, WHOLE_PROCESS};

use crate::addr::{NO_FD, Process};
use crate::area::Area;
use crate::foreign;
use crate::md::{CHECK, allocation_here, check_of, kind};

/// How the memory of an opened key is reached.
#[derive(Debug)]
pub(crate) enum Access {
    /// Mapped here.
    Mapped { base: u64, len: usize, region: Arc<Region> },
    /// By the kernel, wherever it lets us.
    Process,
    /// By the kernel, within a registration that still stands.
    Registered { base: u64, len: u64, slot: u32, generation: u64 },
}

impl Access {
    /// The mapped bytes `remote .. remote + len`, if this is a mapping and they are inside.
    #[inline]
    pub(crate) fn mapped(&self, remote: u64, len: usize) -> Option<View<'_>> {
        let Self::Mapped { base, len: size, region } = self else { return None };
        // Below the base it wraps and is beyond the size, since the end of the memory does not wrap (`unpack`).
        let skip = usize::try_from(remote.wrapping_sub(*base)).ok()?;
        if skip > *size || len > *size - skip {
            return None;
        }
        region.view().slice(skip, len)
    }

    /// Whether the kernel may be asked for `remote .. remote + len` of the peer whose area is
    /// `area`.
    pub(crate) fn stands(&self, area: &Area, remote: u64, len: usize) -> bool {
        match self {
            Self::Mapped { .. } => false,
            Self::Process => remote.checked_add(len as u64).is_some(),
            Self::Registered { base, len: size, slot, generation } => {
                let inside = remote
                    .checked_sub(*base)
                    .is_some_and(|skip| skip <= *size && len as u64 <= *size - skip);
                // Acquire pairs with the Release in `Memories::release`: a registration whose end
                // we know of is seen to have ended.
                inside
                    && area
                        .registration(*slot)
                        .is_some_and(|word| word.load(Ordering::Acquire) == *generation)
            }
        }
    }
}

/// Mappings of peers' allocations, kept for the next key of the same allocation.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    entries: Vec<Mapping>,
    clock: u64,
}

#[derive(Debug)]
struct Mapping {
    of: Named,
    /// The key that it was opened by, which a protocol that opens a key per message brings each time.
    packed: Box<[u8]>,
    base: u64,
    len: usize,
    region: Arc<Region>,
    used: u64,
}

/// Mappings without a key that are kept: a protocol that opens a key per message finds them, and
/// memory that a peer has released is not held for long.
const IDLE_MAPPINGS: usize = 16;

/// Reads a packed key that came from `peer`; `me` is the process that calls.
pub(crate) fn unpack(
    packed: &[u8],
    me: &Process,
    peer: &Process,
    mappings: &mut Mappings,
) -> Result<Access, MemError> {
    if packed == WHOLE_PROCESS {
        return Ok(Access::Process);
    }
    if let Some(known) = mappings.known(packed, me, peer) {
        return Ok(known);
    }
    let (content, check) = packed.split_last_chunk::<CHECK>().ok_or(MemError::BadKey)?;
    if u32::from_le_bytes(*check) != check_of(content) {
        return Err(MemError::BadKey);
    }
    let mut r = AddrReader::new(content);
    let mut read = || -> Result<Access, MemError> {
        let bad = |_| MemError::BadKey;
        match r.u8().map_err(bad)? {
            kind::REGISTERED => Ok(Access::Registered {
                slot: r.u32().map_err(bad)?,
                generation: r.u64().map_err(bad)?,
                base: r.u64().map_err(bad)?,
                len: r.u64().map_err(bad)?,
            }),
            kind::MAPPED => {
                let named = Named {
                    pid: r.u32().map_err(bad)?,
                    start_time: r.u64().map_err(bad)?,
                    fd: r.u32().map_err(bad)?,
                    dev: r.u64().map_err(bad)?,
                    ino: r.u64().map_err(bad)?,
                    id: r.u64().map_err(bad)?,
                };
                let base = r.u64().map_err(bad)?;
                let len = usize::try_from(r.u64().map_err(bad)?).map_err(|_| MemError::BadKey)?;
                mappings.open(packed, named, base, len, me, peer)
            }
            _ => Err(MemError::BadKey),
        }
    };
    read()
}

/// An allocation as its key names it, with all that distinguishes it from another one: processes have the
/// pids of earlier ones, and count their allocations from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    pid: u32,
    start_time: u64,
    fd: u32,
    dev: u64,
    ino: u64,
    id: u64,
}

impl Mappings {
    /// What a key opens that was opened before, from the same process.
    fn known(&mut self, packed: &[u8], me: &Process, peer: &Process) -> Option<Access> {
        let mapping = self.entries.iter_mut().find(|m| *m.packed == *packed)?;
        let from = (mapping.of.pid, mapping.of.start_time) == (peer.pid, peer.start_time);
        if !from || peer.pid_ns != me.pid_ns {
            // `open` says what is wrong.
            return None;
        }
        self.clock += 1;
        mapping.used = self.clock;
        let (base, len, region) = (mapping.base, mapping.len, Arc::clone(&mapping.region));
        Some(Access::Mapped { base, len, region })
    }

    fn open(
        &mut self,
        packed: &[u8],
        named: Named,
        base: u64,
        len: usize,
        me: &Process,
        peer: &Process,
    ) -> Result<Access, MemError> {
        // A key opens memory of the peer that it came from, not of a third process.
        if (named.pid, named.start_time) != (peer.pid, peer.start_time) {
            return Err(MemError::BadKey);
        }
        if peer.pid_ns != me.pid_ns {
            // A rank of the same node memory may be there; its numbers mean nothing here, and one of
            // them may be our own.
            let what = "open memory that was allocated in another pid namespace";
            return Err(MemError::Unsupported(what));
        }
        self.clock += 1;
        let used = self.clock;
        let known = self.entries.iter_mut().find(|m| m.of == named);
        let known = known.map(|mapping| {
            mapping.used = used;
            Arc::clone(&mapping.region)
        });
        let (region, is_new) = match known {
            Some(region) => (region, false),
            None => (open(&named, me, peer)?, true),
        };
        if len > region.len() || base.checked_add(len as u64).is_none() {
            return Err(MemError::BadKey);
        }
        if is_new {
            self.evict();
            let (packed, region) = (packed.into(), Arc::clone(&region));
            self.entries.push(Mapping { of: named, packed, base, len, region, used });
        }
        Ok(Access::Mapped { base, len, region })
    }

    /// Drops the mappings of a process that is gone, but for those with a key.
    pub(crate) fn forget(&mut self, process: &Process) {
        let of_it = |m: &Mapping| (m.of.pid, m.of.start_time) == (process.pid, process.start_time);
        self.entries.retain(|m| !of_it(m) || Arc::strong_count(&m.region) > 1);
    }

    /// Drops the mappings without a key that were unused for longest.
    pub(crate) fn evict(&mut self) {
        let idle = |m: &Mapping| Arc::strong_count(&m.region) == 1;
        while self.entries.iter().filter(|m| idle(m)).count() >= IDLE_MAPPINGS {
            let oldest = self.entries.iter().enumerate().filter(|(_, m)| idle(m));
            let Some((at, _)) = oldest.min_by_key(|(_, m)| m.used) else { return };
            self.entries.swap_remove(at);
        }
    }
}

fn open(named: &Named, me: &Process, peer: &Process) -> Result<Arc<Region>, MemError> {
    if peer.is(me) {
        return allocation_here(named.id).ok_or(MemError::BadKey);
    }
    if named.fd == NO_FD {
        return Err(MemError::BadKey);
    }
    let refused = |source| MemError::System { act: "open the peer's allocated memory", source };
    let fd = foreign::take(me, peer, named.fd).map_err(|error| {
        let ended = peer.has_ended().is_ok_and(|ended| ended);
        if ended { MemError::Peer(PeerFailure::Died) } else { refused(error) }
    })?;
    let stat = rustix::fs::fstat(fd.as_fd()).map_err(|e| refused(e.into()))?;
    // The owner may have released the memory, and the number may name another file by now.
    if (stat.st_dev, stat.st_ino) != (named.dev, named.ino) {
        return Err(MemError::BadKey);
    }
    match Region::open(fd) {
        Ok(region) => Ok(Arc::new(region)),
        Err(RegionError::System { act, source }) => Err(MemError::System { act, source }),
        // Not sealed, or of a size that cannot be.
        Err(_) => Err(MemError::BadKey),
    }
}

#[cfg(test)]
mod tests;
