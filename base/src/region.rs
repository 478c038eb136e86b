//! One mapping of memory that processes (memfd) or threads (anonymous) share.
//!
//! ```text
//!   create_memfd ─► file-size limit? ─► available? ─► memfd ─► fallocate ─► seal ─► map
//!   open(fd)     ─► seals? ─► size? ─► map
//! ```
//!
//! **Space is reserved before it is used**: exhaustion is an error of `create_memfd`, never a
//! SIGBUS in the middle of a message. **The size is sealed**: no peer can shrink what another one
//! has mapped, and a process that receives a descriptor checks the seals before it maps. There is no
//! name in any file system, so nothing is left when the last process has gone.
//!
//! A region belongs to the process that mapped it: it is not inherited by a fork
//! (`MADV_DONTFORK`), and dropping the handle in a forked child does not touch the mapping.
//!
//! It is not an allocator and does not know what lies in it; see [`job`](crate::job).
#![cfg(not(bowline_loom))]

mod available;

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::process::Resource;

use crate::view::View;

use self::available::Available;

/// Bytes of a page as regions count them. The system's pages may be larger, which `mmap` rounds
/// for itself; the layouts that processes share need one number on both sides.
pub const PAGE: usize = 4096;

/// The seals that make a size final.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Why a region could not be made or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// A length of zero, or one that no mapping can have.
    #[error(
        "cannot map {0} bytes of shared memory: the length is zero or beyond the address space"
    )]
    Length(usize),
    /// The process may not make files of this size.
    #[error(
        "cannot reserve {wanted} bytes of shared memory: the file size limit (ulimit -f, \
         RLIMIT_FSIZE) is {limit} bytes; raise it or ask for less"
    )]
    FileSizeLimit {
        /// Bytes asked for.
        wanted: u64,
        /// The limit, bytes.
        limit: u64,
    },
    /// The memory limit of the control group leaves less.
    #[error(
        "cannot reserve {wanted} bytes of shared memory: the memory limit of control group \
         {group} leaves {available} bytes; raise the limit or ask for less"
    )]
    CgroupLimit {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes that the group may still take.
        available: u64,
        /// Directory of the group.
        group: String,
    },
    /// The machine has less memory left.
    #[error(
        "cannot reserve {wanted} bytes of shared memory: the machine has {available} bytes left; free \
         memory or ask for less"
    )]
    MachineFull {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes that the machine can still give.
        available: u64,
    },
    /// The system has no available.
    #[error(
        "cannot reserve {wanted} bytes of shared memory: {source}; free memory or ask for less"
    )]
    Exhausted {
        /// Bytes asked for.
        wanted: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The descriptor's size may still change under its users.
    #[error(
        "cannot trust a memory descriptor: it is not a memfd with sealed size; it was not made by \
         Bowline, or by a version that cannot work with this one"
    )]
    NotSealed,
    /// Another system call failed.
    #[error("cannot {act}: {source}")]
    System {
        /// What was tried.
        act: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// A mapping of shared memory, unmapped when dropped. Zero when created.
#[derive(Debug)]
pub struct Region {
    /// Dropped in the process that mapped it only.
    map: ManuallyDrop<MmapRaw>,
    fd: Option<OwnedFd>,
    /// The process that mapped it; no other one has the mapping.
    pid: u32,
}

impl Region {
    /// Makes sealed shared memory of `len` bytes, all of it reserved. `name` is shown by
    /// `/proc/PID/maps` and is not a file.
    ///
    /// # Errors
    /// When a limit (file size, control group) or the machine leaves no available, or a system call is
    /// refused. Nothing is left behind.
    pub fn create_memfd(name: &str, len: usize) -> Result<Self, RegionError> {
        Self::create_within(&Available::now(), name, len)
    }

    fn create_within(available: &Available, name: &str, len: usize) -> Result<Self, RegionError> {
        let wanted = mappable(len)?;
        // A file that would grow beyond this limit raises SIGXFSZ, so it is read first.
        if let Some(limit) = rustix::process::getrlimit(Resource::Fsize).current
            && limit < wanted
        {
            return Err(RegionError::FileSizeLimit { wanted, limit });
        }
        // The reservation below does not fail when memory runs out: the kernel kills processes
        // to satisfy it.
        available.admit(wanted)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags).map_err(system("make a memfd"))?;
        rustix::fs::ftruncate(&fd, wanted)
            .map_err(|e| RegionError::Exhausted { wanted: len, source: e.into() })?;
        reserve(fd.as_fd(), wanted)
            .map_err(|e| RegionError::Exhausted { wanted: len, source: e.into() })?;
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(system("seal a memfd"))?;
        Self::map(len, Some(fd))
    }

    /// Makes memory of `len` bytes for the threads of this process.
    ///
    /// # Errors
    /// When a limit or the system leaves no available.
    pub fn create_private(len: usize) -> Result<Self, RegionError> {
        Available::now().admit(mappable(len)?)?;
        Self::map(len, None)
    }

    /// Maps memory that another process made with [`create_memfd`](Self::create_memfd) and that
    /// arrived as a descriptor.
    ///
    /// # Errors
    /// When the descriptor is not a memfd, its size is not sealed, is zero or cannot be mapped.
    pub fn open(fd: OwnedFd) -> Result<Self, RegionError> {
        // Anything but a memfd answers EINVAL here.
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|_| RegionError::NotSealed)?;
        if !seals.contains(SEALS) {
            return Err(RegionError::NotSealed);
        }
        // Read after the seals: from then on it cannot change.
        let size = rustix::fs::fstat(&fd).map_err(system("ask for the size of a memfd"))?.st_size;
        let len = usize::try_from(size).map_err(|_| RegionError::Length(usize::MAX))?;
        mappable(len)?;
        Self::map(len, Some(fd))
    }

    fn map(len: usize, fd: Option<OwnedFd>) -> Result<Self, RegionError> {
        let mut options = MmapOptions::new();
        options.len(len);
        let mapped = match &fd {
            Some(fd) => options.map_raw(fd),
            None => options.map_anon().map(MmapRaw::from),
        };
        let map = mapped.map_err(|source| match source.kind() {
            io::ErrorKind::OutOfMemory => RegionError::Exhausted { wanted: len, source },
            _ => RegionError::System { act: "map shared memory", source },
        })?;
        map.advise(Advice::DontFork).map_err(|source| RegionError::System {
            act: "keep shared memory out of forked children",
            source,
        })?;
        Ok(Self { map: ManuallyDrop::new(map), fd, pid: std::process::id() })
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are no bytes; never so.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    #[inline]
    pub fn view(&self) -> View<'_> {
        // SAFETY: the mapping is readable and writable and lives until `self` is dropped, which
        // the lifetime of the view does not outlive. This type never makes a slice of it.
        unsafe { View::from_raw(self.map.as_mut_ptr(), self.map.len()) }
    }

    /// The descriptor to hand to other processes; memory of threads has none.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // A forked child has this handle but not the mapping, and may have something else there.
        if std::process::id() != self.pid {
            return;
        }
        // SAFETY: the value is being dropped, so nobody uses the field again.
        unsafe { ManuallyDrop::drop(&mut self.map) };
    }
}

/// `len` as the kernel takes it, if a mapping can have it.
fn mappable(len: usize) -> Result<u64, RegionError> {
    if len == 0 || len > isize::MAX as usize - PAGE {
        return Err(RegionError::Length(len));
    }
    Ok(len as u64)
}

/// Reserves the whole of the file; a signal in between starts it again.
fn reserve(fd: BorrowedFd<'_>, len: u64) -> rustix::io::Result<()> {
    loop {
        match rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, len) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

fn system(act: &'static str) -> impl FnOnce(rustix::io::Errno) -> RegionError {
    move |e| RegionError::System { act, source: e.into() }
}

#[cfg(test)]
mod tests;
