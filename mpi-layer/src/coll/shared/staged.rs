//! The staging memory of a communicator, and how a rank goes through the steps of one collective in it.
//!
//! The words and slots are the business of [`bowline_base::staging`]; what is brought in each step that of
//! [`transfers`](super::transfers). Rules. (1) A rank writes as many steps ahead as slots are free, then it reads: so
//! ranks that share processors need few changes between them. (2) Before its first step each rank that writes states what it
//! takes the collective to be. Who reads compares that with its own call before it reads anything, so that
//! different lengths are an error and no byte is misplaced. After that error all that can learn of it
//! go on behind the longest of the calls; where some cannot, the memory is used never again. (3) Sleepers, damage and deaths
//! are as [`shared`](super) has them, but a sleeper's message has one tag in all collectives, since it may be
//! sent by a rank that is further.

pub(super) mod chain;
pub(super) mod halves;
mod passage;
pub(super) mod reads;

use bowline_base::staging::{Geometry, StagingMember, StagingProgress};
use bowline_base::words::ViewWords;
use bowline_model::coll::price::{SLOT_BYTES, cell_bytes};

use super::{Broken, StrayWrite, cells, unequal, wait, wake};
use crate::comm::{CommInner, Communicator};
use crate::error::MpiError;
use crate::shared_memory::Staging;
use crate::tags;

/// Slots: how many steps a writer may be ahead.
const SLOTS: u32 = 16;

/// The same of ranks with a processor each. All slots together are four times what a second-level cache holds, so that
/// the lines of a slot have left the caches of both processors when it is used again. To overwrite a line that the
/// reader's cache still holds takes twice as long (64 KB between two processors that share a third-level cache: 2.6 us
/// with 4 MB of slots, 4.4 with 2 MB, 7.4 with 1 MB). Ranks that share a processor find them in its cache.
const SLOTS_APART: u32 = 32;

/// How often a rank with a processor of its own polls for what another one states, before it waits otherwise. It takes
/// some microseconds.
const POLLS_APART: u32 = 256;

/// How often finished steps are published: each one would cost as much as a short copy.
const PUBLISH_EVERY: usize = 4;

/// The kinds of collectives, as ranks state them.
pub(super) const BCAST: u8 = 1;
pub(super) const ALLGATHER: u8 = 2;
pub(super) const GATHER: u8 = 3;
pub(super) const ALLTOALL: u8 = 4;
pub(super) const ALLREDUCE: u8 = 5;
pub(super) const REDUCE: u8 = 6;
pub(super) const REDUCE_SCATTER: u8 = 7;
pub(super) const BARRIER: u8 = 8;

/// What a rank takes a collective to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) kind: u8,
    pub(super) root: u32,
    /// Bytes that all ranks have to agree on.
    pub(super) len: usize,
}

impl Terms {
    fn descriptor(self) -> u64 {
        u64::from(self.kind) << 60
            | u64::from(self.root & 0xffff) << 44
            | self.len as u64 & LEN_MASK
    }

    /// Whether a descriptor is of the same collective, of whatever length.
    fn agrees_with(self, descriptor: u64) -> bool {
        let len = (descriptor & LEN_MASK) as usize;
        (Self { len, ..self }).descriptor() == descriptor
    }
}

const LEN_MASK: u64 = (1 << 44) - 1;

/// Whose data a rank reads in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sources {
    /// Nobody's: it only writes.
    Nobody,
    /// That of one rank, which reads nothing.
    One(u32),
    /// That of all, and all others read too.
    AllAlike,
    /// That of all, who read nothing.
    All,
}

/// How what others state compares.
enum Fits {
    /// All have stated the same.
    All,
    /// So far, but this has not happened yet.
    Missing(StagingProgress),
    /// One states something else.
    Not,
}

/// A part of a collective, in steps that are numbered from 0 on.
pub(super) trait Transfer {
    /// Steps.
    fn steps(&self) -> usize;

    /// Whether this rank writes in each of them.
    fn writes(&self) -> bool {
        true
    }

    /// Most bytes of a slot that a step uses.
    fn extent(&self) -> usize;

    /// Whose data this rank reads.
    fn sources(&self) -> Sources;

    /// Puts this rank's data of a step.
    fn write(&mut self, at: &Passage<'_>, step: usize) -> Result<(), Broken>;

    /// Takes the others' data of a step.
    fn read(&mut self, at: &Passage<'_>, step: usize) -> Result<(), Broken>;
}

/// One rank in a collective.
pub(super) struct Passage<'a> {
    staging: &'a Staging,
    pub(super) comm: &'a CommInner,
    terms: Terms,
    /// The steps that a call has with some length.
    steps_of: &'a dyn Fn(usize) -> usize,
    /// The first step of the part that is under way.
    first: u64,
    /// Bytes of a slot that each of its steps uses, whole lines.
    extent: usize,
}

/// The cells of a call.
pub(super) struct CallCells<'a, 'v> {
    member: &'a StagingMember,
    memory: &'a ViewWords<'v>,
}

impl CallCells<'_, '_> {
    /// Puts bytes into this rank's cell.
    #[inline]
    pub(super) fn put(&self, at: usize, bytes: &[u8]) {
        self.member.put_cell(self.memory, at, bytes);
    }

    /// Takes bytes out of the cell of a rank that has stated the call.
    #[inline]
    pub(super) fn get(&self, from: u32, at: usize, out: &mut [u8]) {
        self.member.get_cell(self.memory, from, at, out);
    }
}

/// The slot of a step.
pub(super) struct Slot<'a, 'v> {
    member: &'a StagingMember,
    memory: &'a ViewWords<'v>,
    step: u64,
    /// Where the data of the step begins in it.
    base: usize,
}

impl Slot<'_, '_> {
    /// Puts bytes.
    pub(super) fn put(&self, at: usize, bytes: &[u8]) {
        self.member.put(self.memory, self.step, self.base + at, bytes);
    }

    /// Takes bytes that `from` writes, past the caches if nobody will read them soon; whether they are there.
    pub(super) fn take(
        &self,
        from: u32,
        at: usize,
        out: &mut [u8],
        past: bool,
    ) -> Result<bool, StrayWrite> {
        let is_there =
            self.member.is_there(self.memory, StagingProgress::Written(from, self.step))?;
        match is_there {
            true if past => self.member.get_past(self.memory, self.step, self.base + at, out),
            true => self.member.get(self.memory, self.step, self.base + at, out),
            false => {}
        }
        Ok(is_there)
    }
}

/// Something that is waited for.
struct Until<'a> {
    staging: &'a Staging,
    what: StagingProgress,
    /// The call, if all state it before this rank goes on.
    begins: Option<Terms>,
}

impl Until<'_> {
    /// A member that has stated another collective makes the call an error, even if other members have not stated theirs yet.
    fn contradicted(
        &self,
        member: &StagingMember,
        memory: &ViewWords<'_>,
    ) -> Result<(), StrayWrite> {
        let Some(terms) = self.begins else { return Ok(()) };
        for rank in 0..self.staging.geometry.ranks {
            if member.is_there(memory, StagingProgress::Stated(rank, member.call()))?
                && !terms.agrees_with(member.stated(memory, rank))
            {
                return Err(StrayWrite::call());
            }
        }
        Ok(())
    }
}

impl wait::Awaited for Until<'_> {
    fn of(&self) -> Option<u32> {
        match self.what {
            StagingProgress::Written(rank, _)
            | StagingProgress::Finished(rank, _)
            | StagingProgress::Stated(rank, _) => Some(rank),
            StagingProgress::Combined(_) => None,
        }
    }

    fn is_over(&self) -> bool {
        let is_there = self.staging.act(|member, memory| member.is_there(memory, self.what));
        // Damage is found by the next one that checks.
        matches!(is_there, Ok(true) | Err(_))
    }

    fn poll(&self) -> Result<bool, Broken> {
        let act = |member: &mut StagingMember, memory: &ViewWords<'_>| {
            member.poll(memory)?;
            self.contradicted(member, memory)?;
            let is_there = member.is_there(memory, self.what)?;
            match self.what {
                // The claim was overwritten.
                StagingProgress::Combined(step) if !is_there => member.can_claim(memory, step),
                _ => Ok(is_there),
            }
        };
        Ok(self.staging.act(act)?)
    }

    fn announce(&self) -> Result<(), MpiError> {
        self.staging.act(|member, memory| member.announce_sleep(memory, self.what));
        Ok(())
    }

    fn withdraw(&self) -> Result<bool, MpiError> {
        Ok(self.staging.act(|member, memory| member.withdraw_sleep(memory)))
    }
}

impl Staging {
    /// Whether ranks have a processor each.
    pub(super) const fn is_apart(&self) -> bool {
        self.geometry.apart
    }

    /// Whether the data of a collective is in cells.
    pub(super) fn in_cells(&self, kind: u8, len: usize) -> bool {
        let Geometry { ranks, apart, cell_bytes, .. } = self.geometry;
        match kind {
            BARRIER => true,
            BCAST | ALLGATHER | GATHER | REDUCE => len <= cell_bytes,
            // Of ranks that share processors one combines for all.
            ALLREDUCE => apart && len <= cell_bytes,
            ALLTOALL => cells::space(ranks, len) <= cell_bytes,
            _ => false,
        }
    }

    /// Does one collective, of `steps_of` a length where its data is not in cells.
    pub(super) fn collective(
        &self,
        comm: &CommInner,
        terms: Terms,
        steps_of: &dyn Fn(usize) -> usize,
        act: impl FnOnce(&mut Passage<'_>) -> Result<(), Broken>,
    ) -> Result<(), MpiError> {
        let worker = &comm.process.worker;
        let sequence = comm.next_sequence();
        worker.check(&comm.collective_spec(sequence))?;
        if self.damaged.get() {
            return Err(MpiError::MemoryOverwritten);
        }
        let steps_of = &|len| if self.in_cells(terms.kind, len) { 0 } else { steps_of(len) };
        let first = self.member.borrow().next();
        let extent = SLOT_BYTES;
        let mut passage = Passage { staging: self, comm, terms, steps_of, first, extent };
        let unwinding = Unwinding { staging: self, comm };
        let done = act(&mut passage);
        std::mem::forget(unwinding);
        let (outcome, steps) = match done {
            Ok(()) => (Ok(()), steps_of(terms.len)),
            Err(Broken::Unequal { other, steps: Some(steps) }) => {
                (Err(unequal(terms.len, other)), steps)
            }
            Err(Broken::Unequal { other, steps: None }) => {
                self.abandon(comm);
                return Err(unequal(terms.len, other));
            }
            Err(Broken::Other(error)) => {
                // No death, of which all learn: the steps of this rank are out of line with the others'.
                if error.is_own() {
                    self.abandon(comm);
                }
                return Err(error);
            }
            Err(Broken::Memory(damaged)) => return Err(self.give_up(comm, damaged)),
        };
        passage.publish(|member, memory| member.end(memory, steps as u64));
        outcome
    }

    #[cold]
    fn give_up(&self, comm: &CommInner, damaged: StrayWrite) -> MpiError {
        tracing::error!(%damaged, "the staging memory of a communicator is of no further use");
        self.abandon(comm);
        MpiError::MemoryOverwritten
    }

    /// Lets all know that the memory is used never again.
    #[cold]
    fn abandon(&self, comm: &CommInner) {
        self.damaged.set(true);
        let sleepers = self.act(|member, memory| {
            member.fail(memory);
            sleepers(comm, member, memory)
        });
        wake(comm, wake_tag(comm), sleepers);
    }
}

/// An operation of the program's may unwind in the midst of a collective. The steps of this rank are out of line with those
/// of the others then, so the memory is of no further use.
struct Unwinding<'a> {
    staging: &'a Staging,
    comm: &'a CommInner,
}

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        self.staging.abandon(self.comm);
    }
}

fn wake_tag(comm: &CommInner) -> u64 {
    tags::collective_of(tags::Kind::Wake, comm.generation, 0)
}

/// The sleepers that the caller has to wake.
fn sleepers(comm: &CommInner, member: &StagingMember, memory: &ViewWords<'_>) -> Vec<u32> {
    (0..comm.size).filter(|&rank| member.wakes(memory, rank)).collect()
}

impl Communicator {
    /// The staging memory of this communicator, if its ranks share some. Made at the first call that chooses it, which
    /// is collective; of at most as many ranks as such a choice allows.
    #[inline]
    pub(crate) fn staging(&self) -> Result<Option<&Staging>, MpiError> {
        match self.inner.staging.get() {
            Some(staging) => Ok(staging.as_deref()),
            None => self.make_staging(),
        }
    }

    #[cold]
    fn make_staging(&self) -> Result<Option<&Staging>, MpiError> {
        let (ranks, apart) = (self.inner.size, !self.inner.oversubscribed);
        let cell_bytes = cell_bytes(ranks);
        let slots = if apart { SLOTS_APART } else { SLOTS };
        let geometry = Geometry { ranks, slots, slot_bytes: SLOT_BYTES, apart, cell_bytes };
        let home = self.agree_on_memory(geometry.bytes())?;
        let worker = &self.inner.process.worker;
        let new = |home| Staging::new(worker, home, self.inner.rank, geometry);
        let made = home.map(new).transpose()?.map(Box::new);
        Ok(self.inner.staging.get_or_init(|| made).as_deref())
    }

    /// Changes the word at `offset` of the staging memory, as a stray write of this process would; whether there is one.
    /// For tests.
    #[doc(hidden)]
    pub fn overwrite_staging(&self, offset: usize, change: impl FnOnce(u64) -> u64) -> bool {
        let Some(Some(staging)) = self.inner.staging.get() else { return false };
        staging.home.overwrite(&self.inner.process.worker, offset, change)
    }
}
