//! The memory of the ranks of one job on one node, and what they know of each other through it.
//!
//! ```text
//!   0        header: magic, version, geometry, ids          written by the creator, then constant
//!            death generation                               own cache line
//!   bitmap   one bit per local rank: dead                   only ever set
//!   bitmap   one bit per local rank: has left               only ever set
//!   bitmap   one bit per rank of the whole job: dead on another node; only ever set; empty where
//!            the memory was made for a job of one node
//!   control  one ControlBlock per local rank                see `control`
//!   areas    one area per local rank, page-aligned, zero    the provider's; never touched here
//! ```
//!
//! The launcher makes it (`bowline run`), or the lowest rank of a node, or a thread job; the
//! others receive its descriptor. The geometry is read once when the memory is opened, checked
//! against the sealed size, and kept outside of the memory: what a peer writes later into the
//! header cannot move anything.
//!
//! It holds no queue and no protocol. Who marks a rank dead is the launcher's business (or a
//! watch of pidfds); readers only ever ask.
#![cfg(not(bowline_loom))]

mod control;
mod error;
mod long_run;
mod process;

pub use control::{ControlBlock, Identity, Processor, RankIdentity, RankState, Waiting};
pub use error::JobError;
pub use long_run::LongRun;
pub use process::{pid_namespace, start_time_of};

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::doorbell_word;
use crate::region::{PAGE, Region};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{CacheLine, LINE};
use crate::view::View;

/// "BOWLJOB" and a byte that no text has.
const MAGIC: u64 = u64::from_le_bytes(*b"BOWLJOB\x9d");

/// Changes with every change of the layout.
const VERSION: u32 = 6;

/// Words of the set of processors: 1024 of them, as many as the C library's own sets have.
const PROCESSOR_WORDS: usize = 16;

/// Most ranks of one job on one node: far beyond any machine, small enough that a damaged header
/// cannot overflow the arithmetic.
pub const MAX_LOCAL_RANKS: u32 = 1 << 16;

/// Most ranks of one job on all its nodes, for the same reason.
pub const MAX_JOB_RANKS: u32 = 1 << 24;

#[repr(C, align(64))]
struct Header {
    /// Stored last by the creator, so that a reader who sees it sees the rest.
    magic: AtomicU64,
    version: AtomicU32,
    ranks: AtomicU32,
    job_id: AtomicU64,
    node_id: AtomicU64,
    area_bytes: AtomicU64,
    control_bytes: AtomicU32,
    first_rank: AtomicU32,
    /// Ranks of the whole job whose deaths elsewhere can be noted; 0 for none.
    job_ranks: AtomicU32,
    /// Random, and known only to those that have the memory: what datagrams to doorbells carry.
    wake_token: AtomicU64,
    /// Alone on its line: every waiting rank polls it, and it changes only when a rank dies or
    /// leaves.
    death_generation: CacheLine<AtomicU32>,
    /// One bit per processor that any rank of the node may run on.
    processors: CacheLine<[AtomicU64; PROCESSOR_WORDS]>,
}

/// What the memory of a job is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// The job; the same on all its nodes.
    pub job_id: u64,
    /// Ranks on this node.
    pub ranks: u32,
    /// World rank of local rank 0; local rank `i` starts out as world rank `first_rank + i`.
    /// Where the ranks of a node are not consecutive, each stores its own in `world_rank`.
    pub first_rank: u32,
    /// Bytes of each rank's area; rounded up to whole pages.
    pub area_bytes: usize,
}

/// Where things lie; constant, and never read from the memory again.
#[derive(Clone, Copy, Debug)]
struct Layout {
    ranks: u32,
    job_ranks: u32,
    area_bytes: usize,
    left: usize,
    elsewhere: usize,
    control: usize,
    areas: usize,
    total: usize,
}

impl Layout {
    fn new(ranks: u32, job_ranks: u32, area_bytes: usize) -> Result<Self, JobError> {
        if ranks == 0 || ranks > MAX_LOCAL_RANKS {
            return Err(JobError::Ranks(ranks));
        }
        if job_ranks > MAX_JOB_RANKS {
            return Err(JobError::Ranks(job_ranks));
        }
        let too_large = JobError::AreaBytes { ranks, area_bytes };
        let sum = || {
            let area_bytes = area_bytes.checked_next_multiple_of(PAGE)?;
            let bitmap = |ranks: u32| (ranks as usize).div_ceil(64) * size_of::<AtomicU64>();
            let left = size_of::<Header>() + bitmap(ranks);
            let elsewhere = left + bitmap(ranks);
            let control = (elsewhere + bitmap(job_ranks)).next_multiple_of(LINE);
            let blocks = ranks as usize * size_of::<ControlBlock>();
            let areas = (control + blocks).next_multiple_of(PAGE);
            let total = area_bytes.checked_mul(ranks as usize)?.checked_add(areas)?;
            Some(Self { ranks, job_ranks, area_bytes, left, elsewhere, control, areas, total })
        };
        sum().filter(|layout| layout.total <= isize::MAX as usize - PAGE).ok_or(too_large)
    }
}

#[derive(Debug)]
struct Inner {
    region: Region,
    layout: Layout,
    id: u64,
    node_id: u64,
    wake_token: u64,
}

/// The memory of a job on this node. Clones are handles of the same mapping.
#[derive(Clone, Debug)]
pub struct JobMemory(Arc<Inner>);

impl JobMemory {
    /// Makes the memory of a job of processes.
    ///
    /// # Errors
    /// When the specification is impossible or the memory cannot be reserved.
    pub fn create_memfd(spec: &JobSpec) -> Result<Self, JobError> {
        Self::create_memfd_of_node(spec, 0)
    }

    /// Makes the memory of one node of a job of `job_ranks` processes on several nodes. Deaths on
    /// other nodes can be noted in it.
    ///
    /// # Errors
    /// As [`create_memfd`](Self::create_memfd).
    pub fn create_memfd_of_node(spec: &JobSpec, job_ranks: u32) -> Result<Self, JobError> {
        let layout = Layout::new(spec.ranks, job_ranks, spec.area_bytes)?;
        Self::create(spec, layout, Region::create_memfd("bowline-job", layout.total)?)
    }

    /// Makes the memory of a job whose ranks are threads of this process.
    ///
    /// # Errors
    /// As [`create_memfd`](Self::create_memfd).
    pub fn create_private(spec: &JobSpec) -> Result<Self, JobError> {
        let layout = Layout::new(spec.ranks, 0, spec.area_bytes)?;
        Self::create(spec, layout, Region::create_private(layout.total)?)
    }

    fn create(spec: &JobSpec, layout: Layout, region: Region) -> Result<Self, JobError> {
        let draw = || {
            random_nonzero()
                .map_err(|e| JobError::System { act: "draw a random node id", source: e })
        };
        let (node_id, wake_token) = (draw()?, draw()?);
        let job = Self(Arc::new(Inner { region, layout, id: spec.job_id, node_id, wake_token }));
        let header = job.header();
        // Relaxed: nobody else has the memory before it is handed on, and the magic is last.
        header.version.store(VERSION, Ordering::Relaxed);
        header.ranks.store(layout.ranks, Ordering::Relaxed);
        header.job_id.store(spec.job_id, Ordering::Relaxed);
        header.node_id.store(node_id, Ordering::Relaxed);
        header.wake_token.store(wake_token, Ordering::Relaxed);
        header.area_bytes.store(layout.area_bytes as u64, Ordering::Relaxed);
        header.control_bytes.store(size_of::<ControlBlock>() as u32, Ordering::Relaxed);
        header.first_rank.store(spec.first_rank, Ordering::Relaxed);
        header.job_ranks.store(layout.job_ranks, Ordering::Relaxed);
        for local in 0..layout.ranks {
            let control = job.control(local).expect("a rank of the layout");
            let world = spec.first_rank.wrapping_add(local);
            control.identity.world_rank.store(world, Ordering::Relaxed);
        }
        // Release pairs with the Acquire of `open`: publishes the header.
        header.magic.store(MAGIC, Ordering::Release);
        Ok(job)
    }

    /// Opens the memory of a job that another process made.
    ///
    /// # Errors
    /// When the descriptor is not the sealed memory of a job of this version.
    pub fn open(fd: OwnedFd) -> Result<Self, JobError> {
        let region = Region::open(fd)?;
        if region.len() < size_of::<Header>() {
            return Err(JobError::NotAJob);
        }
        let header = header_of(&region);
        // Acquire pairs with the Release of `create`.
        if header.magic.load(Ordering::Acquire) != MAGIC {
            return Err(JobError::NotAJob);
        }
        // Relaxed, here and below: published by the magic. Each is read once, then checked.
        let found = header.version.load(Ordering::Relaxed);
        if found != VERSION {
            return Err(JobError::Version { found });
        }
        if header.control_bytes.load(Ordering::Relaxed) as usize != size_of::<ControlBlock>() {
            return Err(JobError::Damaged("the size of a control block"));
        }
        let area_bytes = usize::try_from(header.area_bytes.load(Ordering::Relaxed))
            .map_err(|_| JobError::Damaged("the size of an area"))?;
        let ranks = header.ranks.load(Ordering::Relaxed);
        let job_ranks = header.job_ranks.load(Ordering::Relaxed);
        let layout = Layout::new(ranks, job_ranks, area_bytes)
            .map_err(|_| JobError::Damaged("the number of ranks or the size of an area"))?;
        if layout.area_bytes != area_bytes || layout.total != region.len() {
            return Err(JobError::Damaged("the size of the whole"));
        }
        let id = header.job_id.load(Ordering::Relaxed);
        let node_id = header.node_id.load(Ordering::Relaxed);
        let wake_token = header.wake_token.load(Ordering::Relaxed);
        Ok(Self(Arc::new(Inner { region, layout, id, node_id, wake_token })))
    }

    /// The job's id.
    #[inline]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Random for each memory: two ranks with the same node id share it.
    #[inline]
    pub fn node_id(&self) -> u64 {
        self.0.node_id
    }

    /// Ranks on this node.
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.0.layout.ranks
    }

    /// Bytes of each rank's area.
    #[inline]
    pub fn area_bytes(&self) -> usize {
        self.0.layout.area_bytes
    }

    /// The provider's area of a local rank: page-aligned and zero at creation.
    #[inline]
    pub fn area(&self, local: u32) -> Option<View<'_>> {
        let layout = &self.0.layout;
        if local >= layout.ranks {
            return None;
        }
        let offset = layout.areas + local as usize * layout.area_bytes;
        self.0.region.view().slice(offset, layout.area_bytes)
    }

    /// The control block of a local rank.
    #[inline]
    pub fn control(&self, local: u32) -> Option<&ControlBlock> {
        let layout = &self.0.layout;
        if local >= layout.ranks {
            return None;
        }
        let offset = layout.control + local as usize * size_of::<ControlBlock>();
        let block = self.0.region.view().slice(offset, size_of::<ControlBlock>())?;
        // SAFETY: the view is inside the mapping, which lives as long as `self`. The mapping is
        // page-aligned and `layout.control` and the block's size are multiples of its alignment
        // of 64. A block consists of atomics and padding only, for which every bit pattern is
        // valid and which may be shared with writers in other processes.
        Some(unsafe { &*block.as_ptr().cast::<ControlBlock>() })
    }

    /// Changes whenever a rank is marked dead or as having left; one load, for the progress of
    /// everybody.
    #[inline]
    pub fn death_generation(&self) -> u32 {
        // Acquire pairs with the Release of `mark_dead` and `mark_left`: who sees the new number sees
        // the bit.
        self.header().death_generation.load(Ordering::Acquire)
    }

    /// Whether a local rank was marked dead. A rank that does not exist is not dead.
    pub fn is_dead(&self, local: u32) -> bool {
        // Acquire pairs with the Release of `mark_dead`: the dead rank's last writes, as far as
        // the process that marked it could see them.
        self.dead_word(local).is_some_and(|word| word.load(Ordering::Acquire) & bit(local) != 0)
    }

    /// The local ranks marked dead, in order.
    pub fn dead(&self) -> impl Iterator<Item = u32> + '_ {
        self.local_ranks_in(size_of::<Header>())
    }

    /// Notes that a local rank has closed its transport in order and sends nothing more. Wakes nobody:
    /// the rank rings those who know it, and everybody else has nothing to wait for.
    pub fn mark_left(&self, local: u32) {
        if local >= self.ranks() {
            return;
        }
        let Some(word) = self.bitmap_word(self.0.layout.left, local) else { return };
        // Release pairs with the Acquire of `left`: the rank's last messages come before.
        word.fetch_or(bit(local), Ordering::Release);
        // Release pairs with the Acquire of `death_generation`: publishes the bit.
        self.header().death_generation.fetch_add(1, Ordering::Release);
    }

    /// The local ranks that have left, in order.
    pub fn left(&self) -> impl Iterator<Item = u32> + '_ {
        self.local_ranks_in(self.0.layout.left)
    }

    /// The local ranks whose bits are set in the bitmap at `start`.
    fn local_ranks_in(&self, start: usize) -> impl Iterator<Item = u32> + '_ {
        (0..self.ranks()).step_by(64).flat_map(move |first| {
            // Acquire as in `is_dead`; of those who have left, pairs with `mark_left`.
            let word = self.bitmap_word(start, first).map_or(0, |w| w.load(Ordering::Acquire));
            let last = self.ranks().min(first + 64);
            (first..last).filter(move |local| word & bit(*local) != 0)
        })
    }

    /// Marks a local rank dead and wakes everybody on the node. May be called by the
    /// launcher, by a watch in any rank, and more than once; a rank that does not exist is
    /// ignored. Call it before the dead process is reaped.
    pub fn mark_dead(&self, local: u32) {
        if local >= self.ranks() {
            return;
        }
        let Some(word) = self.dead_word(local) else {
            return;
        };
        // Release pairs with the Acquire of `is_dead` and `dead`; Acquire orders two markers.
        if word.fetch_or(bit(local), Ordering::AcqRel) & bit(local) != 0 {
            return;
        }
        self.notify_of_death();
    }

    /// Marks a rank of another node dead, by its rank in the whole job, and wakes
    /// everybody on this node. May be called more than once; ignored for ranks that the memory
    /// was not made for ([`create_memfd_of_node`](Self::create_memfd_of_node)).
    pub fn mark_dead_elsewhere(&self, rank: u32) {
        let Some(word) = self.elsewhere_word(rank) else {
            return;
        };
        // Release pairs with the Acquire of `dead_elsewhere`; Acquire orders two markers.
        if word.fetch_or(bit(rank), Ordering::AcqRel) & bit(rank) == 0 {
            self.notify_of_death();
        }
    }

    /// The ranks of other nodes marked dead, by their rank in the whole job, in order.
    pub fn dead_elsewhere(&self) -> impl Iterator<Item = u32> + '_ {
        let ranks = self.0.layout.job_ranks;
        (0..ranks).step_by(64).flat_map(move |first| {
            // Acquire pairs with the Release of `mark_dead_elsewhere`.
            let word = self.elsewhere_word(first).map_or(0, |word| word.load(Ordering::Acquire));
            let last = ranks.min(first + 64);
            (first..last).filter(move |rank| word & bit(*rank) != 0)
        })
    }

    /// After a bit was set: changes the generation and wakes the node.
    fn notify_of_death(&self) {
        // Release pairs with the Acquire of `death_generation`: publishes the bit.
        self.header().death_generation.fetch_add(1, Ordering::Release);
        for peer in 0..self.ranks() {
            // Without reading the word: the dead rank may have taken a peer's sleep state
            // away and died before it woke that peer.
            let Some(control) = self.control(peer) else { continue };
            doorbell_word::wake_always(&control.doorbell, || {
                self.wake_socket(peer).is_none_or(|socket| socket.wake())
            });
        }
    }

    /// Makes this process, or this thread, the local rank. Returns the instance number drawn.
    ///
    /// # Errors
    /// When there is no such rank, somebody else is it, or the process cannot be identified.
    pub fn attach(&self, local: u32) -> Result<u64, JobError> {
        let ranks = self.ranks();
        let control = self.control(local).ok_or(JobError::NoSuchRank { local, ranks })?;
        let pid = std::process::id();
        let start_time = start_time_of(pid).map_err(|e| JobError::System {
            act: "read the start time of this process from /proc",
            source: e,
        })?;
        let instance = random_nonzero()
            .map_err(|e| JobError::System { act: "draw a random instance number", source: e })?;
        doorbell_word::prepare(&control.doorbell, ranks == 1);
        control
            .claim(pid, start_time, pid_namespace(), instance)
            .map_err(|pid| JobError::Occupied { local, pid })?;
        Ok(instance)
    }

    /// States that the local rank has ended in order. Only the rank itself calls it, after its
    /// last use of the memory.
    pub fn finalize(&self, local: u32) {
        if let Some(control) = self.control(local) {
            control.finish();
        }
    }

    /// States that this rank may run on these processors, by number.
    pub fn add_processors(&self, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            if let Some(word) = self.header().processors.get(number / 64) {
                // Relaxed: read after a barrier of the ranks, which orders it.
                word.fetch_or(1 << (number % 64), Ordering::Relaxed);
            }
        }
    }

    /// Processors that the ranks which stated theirs may run on, all together. The same for every
    /// reader once all ranks have stated theirs.
    pub fn processors(&self) -> u32 {
        // Relaxed: as in `add_processors`.
        self.header().processors.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum()
    }

    /// The mapping, for its descriptor.
    pub fn region(&self) -> &Region {
        &self.0.region
    }

    #[inline]
    fn header(&self) -> &Header {
        header_of(&self.0.region)
    }

    /// The word of the death bitmap that has the bit of `local`.
    fn dead_word(&self, local: u32) -> Option<&AtomicU64> {
        (local < self.ranks()).then(|| self.bitmap_word(size_of::<Header>(), local)).flatten()
    }

    /// The word of the second bitmap that has the bit of rank `rank` of the whole job.
    fn elsewhere_word(&self, rank: u32) -> Option<&AtomicU64> {
        let layout = &self.0.layout;
        (rank < layout.job_ranks).then(|| self.bitmap_word(layout.elsewhere, rank)).flatten()
    }

    /// The word with bit `index` of the bitmap at `start`, a multiple of 8.
    fn bitmap_word(&self, start: usize, index: u32) -> Option<&AtomicU64> {
        debug_assert!(start.is_multiple_of(align_of::<AtomicU64>()));
        let offset = start + (index / 64) as usize * size_of::<AtomicU64>();
        let word = self.0.region.view().slice(offset, size_of::<AtomicU64>())?;
        // SAFETY: inside the mapping, which lives as long as `self`; aligned, since the mapping
        // is page-aligned, bitmaps start behind the header (a multiple of 64 bytes) or behind
        // whole words, and the step is a word; atomics may be shared with writers in other
        // processes.
        Some(unsafe { &*word.as_ptr().cast::<AtomicU64>() })
    }
}

const fn bit(local: u32) -> u64 {
    1 << (local % 64)
}

#[inline]
fn header_of(region: &Region) -> &Header {
    debug_assert!(region.len() >= size_of::<Header>());
    // SAFETY: callers have checked that the region holds a header (a job's layout begins with
    // one); the mapping is page-aligned and lives as long as the region. A header consists of
    // atomics and padding only, for which every bit pattern is valid.
    unsafe { &*region.view().as_ptr().cast::<Header>() }
}

fn random_nonzero() -> io::Result<u64> {
    loop {
        let mut bytes = [0; 8];
        let n = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let value = u64::from_ne_bytes(bytes);
        if n == bytes.len() && value != 0 {
            return Ok(value);
        }
    }
}

#[cfg(test)]
mod tests;
