//! Staging memory: slots in one piece of shared memory through which the ranks of a node bring each other
//! the data of collectives, with a few words for each rank and no message.
//!
//! ```text
//!   line 0       word 0: members asleep, or about to be
//!   then         for each member: a word with the last step that it has written
//!   then         for each member: a word with the last step that it has finished
//!   then         for each member: a word that says what it sleeps for, or zero
//!   then         slots. Each: a line whose word 0 says how far the step is combined, and data
//!   then         cells, one for each call and member. Each: a word that says which call is stated, a word
//!                       that says what it is, and data
//! ```
//! Rules. (1) Steps are numbered from 1 on and are the same at all members; step s has slot s modulo their
//! number. In every step a member writes or reads data, or both; who writes which bytes is agreed outside.
//! (2) A member writes its data of step s when every member has finished the step that had the slot before
//! (acquire), and then stores s as written (release). (3) A member reads what another one wrote in step s
//! once that one has written s or more (acquire), and stores s as finished after its last read of it
//! (release). So no byte is overwritten while somebody reads it, and a writer may be as many steps ahead
//! of the slowest reader as there are slots. (4) In a step that is combined, a member that has written
//! it and then finds that all have may claim it. One claim succeeds. The claimant reads what all have written, writes
//! the result beside it, and stores that the step is combined (release); the others read the result
//! after that (acquire). A member fences between storing what it has written and reading the others' words,
//! so that the last one, at least, finds all. (5) A member that wants to sleep stores what it waits for, counts
//! itself as a sleeper, makes the [heavy fence](crate::doorbell::heavy_fence), and polls again before it sleeps. Who stores
//! progress makes the light one and then reads whether sleepers are counted. The member that takes a sleeper's word back
//! wakes it, or is the sleeper. A sleeper whose system has no heavy fence may be overlooked, and finds at its next poll
//! what has happened.
//!
//! A call is a sequence of steps, or of none whose data is in the members' cells.
//!
//! A stray write must not make a member wait for ever, or be taken for progress:
//!
//! (6) Every word of progress has a check of its number, of what it says and of whose it is. (7) A member
//! that waits for long checks everything ([`StagingMember::poll`]): its own words must be what it stored, and no word
//! may be damaged. (8) Who finds damage says so in its own words, which it never changes again, so that
//! every other member finds it. (9) Data is not checked, as that of messages is not; lengths are, by what
//! members [state](StagingMember::state).
//!
//! It does not wait, wake or know of deaths: that is the caller's part, as it is for [`barrier`](crate::barrier).

use crate::barrier::StrayWrite;
use crate::doorbell::{heavy_fence, light_fence};
use crate::sync::LINE;
use crate::sync::atomic::{Ordering, fence};
use crate::words::{LINE_WORDS, LineWords, Words};

/// Shared words in a line; fewer in models, whose lines have fewer.
const IN_LINE: usize = if cfg!(bowline_loom) { 2 } else { LINE_WORDS };

const SLEEPERS: usize = 0;
const COMBINED: usize = 0;
/// Lines before the tables of words.
const TABLES: usize = 1;

/// Cells of a member, at least two: how many calls it may be ahead.
pub const CELLS: u64 = if cfg!(bowline_loom) { 2 } else { 8 };

/// What the words of progress are after a failure; no check fits it.
const POISON: u64 = u64::MAX;

const CHECK_BITS: u32 = 16;
const ASLEEP: u64 = 1 << 63;
const KIND_SHIFT: u32 = 60;
const RANK_SHIFT: u32 = 47;
const STEP_MASK: u64 = (1 << RANK_SHIFT) - 1;

/// Most members: their numbers stand in a sleeper's word.
pub const MAX_RANKS: u32 = 1 << (KIND_SHIFT - RANK_SHIFT);

/// How the memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "numbers that all members agree on")]
pub struct Geometry {
    /// Members, at most [`MAX_RANKS`].
    pub ranks: u32,
    /// Slots, at least one.
    pub slots: u32,
    /// Bytes of data in a slot, whole lines.
    pub slot_bytes: usize,
    /// Whether each word of a member has a line of its own: for members with a processor each, which would take a common
    /// one from each other. Else a member that has found one word has those of all.
    pub apart: bool,
    /// Bytes of data in a cell.
    pub cell_bytes: usize,
}

impl Geometry {
    /// Bytes of memory; to be zero, and to start on a line.
    pub const fn bytes(self) -> usize {
        (self.cells_line() + CELLS as usize * self.ranks as usize * self.cell_lines()) * LINE
    }

    const fn cells_line(self) -> usize {
        self.slots_line() + self.slots as usize * self.slot_lines()
    }

    const fn slots_line(self) -> usize {
        TABLES + 3 * self.table_lines()
    }

    const fn cell_lines(self) -> usize {
        (cells::HEAD + self.cell_bytes).div_ceil(LINE)
    }

    /// Lines of a table. No division by what is not known here: every load of a word asks for it.
    const fn table_lines(self) -> usize {
        if self.apart { self.ranks as usize } else { (self.ranks as usize).div_ceil(IN_LINE) }
    }

    const fn slot_lines(self) -> usize {
        1 + self.slot_bytes / LINE
    }

    const fn slot_line(self, step: u64) -> usize {
        let slot = (step % self.slots as u64) as usize;
        self.slots_line() + slot * self.slot_lines()
    }

    /// The byte of the memory that is byte `at` of the data of a step.
    fn data(self, step: u64, at: usize, len: usize) -> usize {
        assert!(
            at <= self.slot_bytes && len <= self.slot_bytes - at,
            "{len} bytes at {at} leave their slot"
        );
        (self.slot_line(step) + 1) * LINE + at
    }
}

/// What a member can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the kinds of progress")]
pub enum StagingProgress {
    /// A member has written this step.
    Written(u32, u64),
    /// A member has finished this step.
    Finished(u32, u64),
    /// This step is combined.
    Combined(u64),
    /// A member has stated this call.
    Stated(u32, u64),
}

use StagingProgress::{Combined, Finished, Stated, Written};

/// What one member knows, outside of the memory.
#[derive(Clone, Copy, Debug)]
pub struct StagingMember {
    geometry: Geometry,
    rank: u32,
    /// Steps of collectives that have ended.
    ended: u64,
    /// The last step that it has stored as written.
    written: u64,
    /// The last step that it has stored as finished.
    finished: u64,
    /// All others have finished this step, and perhaps more.
    free: u64,
    /// Calls that have ended.
    called: u64,
    /// The last call that it has stated.
    stated: u64,
    /// All others have stated this call, and perhaps more.
    seen: u64,
    /// It has found damage, and wakes all that sleep.
    failed: bool,
}

impl StagingMember {
    /// The member `rank`, before the first step.
    pub const fn new(rank: u32, geometry: Geometry) -> Self {
        let (ended, written, finished, free) = (0, 0, 0, 0);
        let (called, stated, seen) = (0, 0, 0);
        Self { geometry, rank, ended, written, finished, free, called, stated, seen, failed: false }
    }

    /// The first step of the next collective.
    pub const fn next(&self) -> u64 {
        self.ended + 1
    }

    /// What holds up that this member writes a step, if another one does. That it has itself read what the slot
    /// holds is the caller's business.
    ///
    /// # Errors
    /// When a word is damaged; to be followed by [`fail`](Self::fail), as every error here.
    pub fn holds_up<W: Words>(
        &mut self,
        memory: &W,
        step: u64,
    ) -> Result<Option<StagingProgress>, StrayWrite> {
        let before = step.saturating_sub(self.geometry.slots.into());
        if self.free >= before {
            return Ok(None);
        }
        let mut least = u64::MAX;
        for rank in (0..self.geometry.ranks).filter(|&rank| rank != self.rank) {
            // Rule 2: pairs with the Release of `finish`.
            let finished = self.load(memory, Finished(rank, before), Ordering::Acquire)?;
            if finished < before {
                return Ok(Some(Finished(rank, before)));
            }
            least = least.min(finished);
        }
        self.free = least;
        Ok(None)
    }

    /// Puts data into the slot of a step that nothing [holds up](Self::holds_up); `at` starts a word.
    ///
    /// # Panics
    /// When the data leaves the slot.
    pub fn put<W: Words>(&self, memory: &W, step: u64, at: usize, bytes: &[u8]) {
        memory.put_across(self.geometry.data(step, at, bytes.len()), bytes);
    }

    /// Takes data out of the slot of a step that its writer [has written](Self::is_there).
    ///
    /// # Panics
    /// When the data leaves the slot.
    pub fn get<W: Words>(&self, memory: &W, step: u64, at: usize, out: &mut [u8]) {
        memory.get_across(self.geometry.data(step, at, out.len()), out);
    }

    /// The same past the caches, for what nobody will read soon.
    ///
    /// # Panics
    /// When the data leaves the slot.
    pub fn get_past<W: Words>(&self, memory: &W, step: u64, at: usize, out: &mut [u8]) {
        memory.get_across_past(self.geometry.data(step, at, out.len()), out);
    }

    /// This member has written its data of a step, and of all before. Whether to check who sleeps
    /// ([`wakes`](Self::wakes)).
    #[must_use]
    pub fn write<W: Words>(&mut self, memory: &W, step: u64) -> bool {
        self.written = step;
        // Rule 3: Release publishes the data to the Acquire of `is_there`.
        self.publish(memory, Written(self.rank, step))
    }

    /// This member needs nothing more of a step, and of all before. Whether to check who sleeps.
    #[must_use]
    pub fn finish<W: Words>(&mut self, memory: &W, step: u64) -> bool {
        if step <= self.finished {
            return false;
        }
        self.finished = step;
        // Rule 2: Release keeps the reads before it; pairs with the Acquire of `holds_up`.
        self.publish(memory, Finished(self.rank, step))
    }

    /// A collective of so many steps has ended for this member. Whether to check who sleeps.
    #[must_use]
    pub fn end<W: Words>(&mut self, memory: &W, steps: u64) -> bool {
        self.ended += steps;
        let sleepers = self.end_call(memory);
        self.finish(memory, self.ended) | sleepers
    }

    /// Whether something has happened; what was written by then can be read.
    ///
    /// # Errors
    /// When a word is damaged.
    #[inline]
    pub fn is_there<W: Words>(
        &self,
        memory: &W,
        what: StagingProgress,
    ) -> Result<bool, StrayWrite> {
        let (Written(_, step) | Finished(_, step) | Combined(step) | Stated(_, step)) = what;
        // Rules 2 to 4: pairs with the Release of `publish`.
        Ok(self.load(memory, what, Ordering::Acquire)? >= step)
    }

    /// Claims a step that this member has written, if all have written it and nobody else has claimed it: then it
    /// combines the step and [says so](Self::combined).
    ///
    /// # Errors
    /// When a word is damaged.
    pub fn claims<W: Words>(&self, memory: &W, step: u64) -> Result<bool, StrayWrite> {
        // Rule 4: between the store of `write` and the loads below; pairs with the same fence of other members.
        fence(Ordering::SeqCst);
        let Some(before) = self.unclaimed(memory, step)? else { return Ok(false) };
        // Rule 4: of several members that have found all the others one succeeds.
        let slot = memory.line(self.geometry.slot_line(step));
        Ok(slot.replace(COMBINED, before, encode(CLAIMED, self.slot(step), step)))
    }

    /// Whether a step can be claimed that this member has written. The last one claims it; later it can
    /// be claimed only if that claim was overwritten.
    ///
    /// # Errors
    /// When a word is damaged.
    pub fn can_claim<W: Words>(&self, memory: &W, step: u64) -> Result<bool, StrayWrite> {
        Ok(self.unclaimed(memory, step)?.is_some())
    }

    /// What a step's slot has instead of a claim, when all have written it.
    fn unclaimed<W: Words>(&self, memory: &W, step: u64) -> Result<Option<u64>, StrayWrite> {
        for rank in (0..self.geometry.ranks).filter(|&rank| rank != self.rank) {
            if !self.is_there(memory, Written(rank, step))? {
                return Ok(None);
            }
        }
        // Relaxed: a replacement decides.
        let word = memory.line(self.geometry.slot_line(step)).load(COMBINED, Ordering::Relaxed);
        let taken = [CLAIMED, DONE].map(|kind| encode(kind, self.slot(step), step)).contains(&word);
        Ok((!taken).then_some(word))
    }

    /// The step is combined, which all may read now. Whether to check who sleeps.
    #[must_use]
    pub fn combined<W: Words>(&mut self, memory: &W, step: u64) -> bool {
        // Rule 4: Release publishes the result to the Acquire of `is_there`.
        self.publish(memory, Combined(step))
    }

    /// States that this member is about to sleep until something happens; it has to ask
    /// [`is_there`](Self::is_there) once more before it does (rule 5).
    pub fn announce_sleep<W: Words>(&self, memory: &W, what: StagingProgress) {
        let (kind, rank, step) = match what {
            Written(rank, step) => (0, rank, step),
            Finished(rank, step) => (1, rank, step),
            Combined(step) => (2, 0, step),
            Stated(rank, call) => (3, rank, call),
        };
        let word = ASLEEP | kind << KIND_SHIFT | u64::from(rank) << RANK_SHIFT | step & STEP_MASK;
        let (line, at) = self.sleep_at(self.rank);
        // It is counted before the word is there to be taken: the taker subtracts, and must not take another sleeper's
        // part of the count. Relaxed: a count that publishes nothing.
        memory.line(0).add(SLEEPERS, 1, Ordering::Relaxed);
        // Release orders the count before it, for the replacement in `take_sleep`.
        memory.line(line).store(at, word, Ordering::Release);
        // Rule 5: pairs with the light fences of `publish` and `fail`.
        heavy_fence();
    }

    /// Takes the announcement back. `false` when another member has, which then wakes this one.
    pub fn withdraw_sleep<W: Words>(&self, memory: &W) -> bool {
        self.take_sleep(memory, self.rank, |_| true)
    }

    /// Whether `rank` sleeps for something that has happened and the caller is the one to wake it.
    #[must_use]
    pub fn wakes<W: Words>(&self, memory: &W, rank: u32) -> bool {
        // A damaged word is something that a sleeper has to see.
        let happened = |what| self.failed || self.is_there(memory, what).unwrap_or(true);
        rank != self.rank && self.take_sleep(memory, rank, happened)
    }

    /// What a member that waits for long does now and then.
    ///
    /// # Errors
    /// When a word is damaged (rule 7), or another member has found damage.
    pub fn poll<W: Words>(&self, memory: &W) -> Result<(), StrayWrite> {
        for rank in 0..self.geometry.ranks {
            // Relaxed, both: nothing is read because of them.
            let written = self.load(memory, Written(rank, 0), Ordering::Relaxed)?;
            let finished = self.load(memory, Finished(rank, 0), Ordering::Relaxed)?;
            if rank == self.rank && (written, finished) != (self.written, self.finished) {
                return Err(StrayWrite("the own progress"));
            }
        }
        // Relaxed: as above.
        match self.load(memory, Stated(self.rank, self.stated), Ordering::Relaxed)? == self.stated {
            true => Ok(()),
            false => Err(StrayWrite("what this member has stated")),
        }
    }

    /// Lets every member know that the memory is damaged (rule 8). Those that sleep are to be woken
    /// ([`wakes`](Self::wakes)).
    pub fn fail<W: Words>(&mut self, memory: &W) {
        self.failed = true;
        let cells = (0..CELLS).map(|call| Stated(self.rank, call));
        for what in [Written(self.rank, 0), Finished(self.rank, 0)].into_iter().chain(cells) {
            let (line, at) = self.place(what);
            // Release: as every word of progress.
            memory.line(line).store(at, POISON, Ordering::Release);
        }
        // Rule 5, as in `publish`.
        light_fence();
    }

    fn publish<W: Words>(&self, memory: &W, what: StagingProgress) -> bool {
        let (line, at) = self.place(what);
        let word = match what {
            Written(rank, step) => encode(WRITTEN, rank, step),
            Finished(rank, step) => encode(FINISHED, rank, step),
            Combined(step) => encode(DONE, self.slot(step), step),
            Stated(rank, call) => encode(STATED, rank, call),
        };
        // Release: the callers say what it pairs with.
        memory.line(line).store(at, word, Ordering::Release);
        // Rule 5: pairs with the heavy fence of `announce_sleep`.
        light_fence();
        // Relaxed: the fence orders it.
        memory.line(0).load(SLEEPERS, Ordering::Relaxed) != 0
    }

    /// How far somebody is.
    #[inline]
    fn load<W: Words>(
        &self,
        memory: &W,
        what: StagingProgress,
        order: Ordering,
    ) -> Result<u64, StrayWrite> {
        let (line, at) = self.place(what);
        let word = memory.line(line).load(at, order);
        let step = word >> CHECK_BITS;
        let is_right = match what {
            Written(rank, _) => word == 0 || word == encode(WRITTEN, rank, step),
            Finished(rank, _) => word == 0 || word == encode(FINISHED, rank, step),
            Stated(rank, _) => word == 0 || word == encode(STATED, rank, step),
            Combined(wanted) if word == encode(CLAIMED, self.slot(wanted), step) => {
                return Ok(step.saturating_sub(1).min(wanted.saturating_sub(1)));
            }
            Combined(wanted) => word == 0 || word == encode(DONE, self.slot(wanted), step),
        };
        match is_right {
            true => Ok(step),
            false if word == POISON => Err(StrayWrite("something, as another member has found,")),
            false => Err(StrayWrite("the progress of a member")),
        }
    }

    /// Rule 5: takes back that `rank` sleeps if what it sleeps for is `over`; whether it did, and nobody else was
    /// faster.
    fn take_sleep<W: Words>(
        &self,
        memory: &W,
        rank: u32,
        over: impl FnOnce(StagingProgress) -> bool,
    ) -> bool {
        let (line, at) = self.sleep_at(rank);
        let line = memory.line(line);
        // Relaxed: the fences order what must be; the replacement alone decides.
        let word = line.load(at, Ordering::Relaxed);
        let (other, step) = ((word >> RANK_SHIFT) as u32 % MAX_RANKS, word & STEP_MASK);
        let what = match word >> KIND_SHIFT & 7 {
            0 if other < self.geometry.ranks => Written(other, step),
            1 if other < self.geometry.ranks => Finished(other, step),
            3 if other < self.geometry.ranks => Stated(other, step),
            // What means nothing is a stray write; the sleeper is to poll.
            _ => Combined(step),
        };
        let taken = word & ASLEEP != 0 && over(what) && line.replace(at, word, 0);
        if taken {
            // Relaxed: a count that publishes nothing, and of which nothing but a second check depends.
            memory.line(0).add(SLEEPERS, u64::MAX, Ordering::Relaxed);
        }
        taken
    }

    const fn slot(&self, step: u64) -> u32 {
        (step % self.geometry.slots as u64) as u32
    }

    const fn place(&self, what: StagingProgress) -> (usize, usize) {
        match what {
            Written(rank, _) => self.table_at(0, rank),
            Finished(rank, _) => self.table_at(1, rank),
            Combined(step) => (self.geometry.slot_line(step), COMBINED),
            Stated(rank, call) => (self.cell_line(rank, call), cells::STATED),
        }
    }

    const fn sleep_at(&self, rank: u32) -> (usize, usize) {
        self.table_at(2, rank)
    }

    const fn table_at(&self, table: usize, rank: u32) -> (usize, usize) {
        let (first, rank) = (TABLES + table * self.geometry.table_lines(), rank as usize);
        if self.geometry.apart {
            (first + rank, 0)
        } else {
            (first + rank / IN_LINE, rank % IN_LINE)
        }
    }
}

const WRITTEN: u64 = 1;
const FINISHED: u64 = 2;
const CLAIMED: u64 = 3;
const DONE: u64 = 4;
const STATED: u64 = 5;

/// The word that says how far the member or slot `of` is, with its check.
const fn encode(kind: u64, of: u32, step: u64) -> u64 {
    if step == 0 {
        return 0;
    }
    // The odd factor of the golden ratio: every bit of the word reaches the upper ones.
    let mixed = (step ^ kind << 40 ^ (of as u64) << 44).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    step << CHECK_BITS | mixed >> (u64::BITS - CHECK_BITS)
}

mod cells;

#[cfg(all(test, bowline_loom))]
mod loom_tests;
#[cfg(all(test, not(bowline_loom)))]
mod tests;
