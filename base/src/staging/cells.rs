//! Cells: what a member states of each call, in one line of memory with short data of it.
//!
//! A reader finds in one line that a member has come to a call, what it takes the call to be, and its data: of ranks
//! with a processor each nothing else has to come from another cache. Rules. (1) Calls are numbered from 1 on and are
//! the same at all members; call c has cell c modulo their number, of each member. (2) Every member states every call:
//! before it reads what others state if it brings something, else when it has read all. So who has stated a call has
//! finished the one before. (3) A member writes its cell of call c when all others have stated the call that follows the one
//! which had the cell before (acquire): by rule 2 they have finished that one. It then stores c (release). (4) A member
//! reads a cell of call c once c is stored there (acquire), and before it states c + 1.
//!
//! What is stated is not checked, as data is not: a stray write to it counts as another call.

use super::{CELLS, StagingMember, StagingProgress, Stated};
use crate::barrier::StrayWrite;
use crate::sync::LINE;
use crate::sync::atomic::Ordering;
use crate::words::{LineWords, Words};

/// The word that says which call is stated.
pub(super) const STATED: usize = 0;
/// The word that says what it is.
const WHAT: usize = 1;
/// Bytes before the data.
pub(super) const HEAD: usize = 16;

impl StagingMember {
    /// The number of the call that this member is in, or that is next.
    pub const fn call(&self) -> u64 {
        self.called + 1
    }

    /// What holds up that this member states the call that it is in, if another member does.
    ///
    /// # Errors
    /// When a word is damaged.
    #[inline]
    pub fn holds_up_call<W: Words>(
        &mut self,
        memory: &W,
    ) -> Result<Option<StagingProgress>, StrayWrite> {
        let needed = (self.call() + 1).saturating_sub(CELLS);
        if self.seen >= needed {
            return Ok(None);
        }
        // As far as half of the calls that the cells hold, so that a member which is ahead need not read each time.
        for call in [self.call().saturating_sub(CELLS / 2).max(needed), needed] {
            match self.missing(memory, call)? {
                None => {
                    self.seen = call;
                    return Ok(None);
                }
                missing if call == needed => return Ok(missing),
                Some(_) => {}
            }
        }
        Ok(None)
    }

    /// Who of the others has not stated a call.
    fn missing<W: Words>(
        &self,
        memory: &W,
        call: u64,
    ) -> Result<Option<StagingProgress>, StrayWrite> {
        for rank in (0..self.geometry.ranks).filter(|&rank| rank != self.rank) {
            // Rule 3.
            if !self.is_there(memory, Stated(rank, call))? {
                return Ok(Some(Stated(rank, call)));
            }
        }
        Ok(None)
    }

    /// Puts data into this member's cell of the call, which nothing [holds up](Self::holds_up_call); `at` starts a word.
    ///
    /// # Panics
    /// When the data leaves the cell.
    #[inline]
    pub fn put_cell<W: Words>(&self, memory: &W, at: usize, bytes: &[u8]) {
        memory.put_across(self.cell_data(self.rank, at, bytes.len()), bytes);
    }

    /// States what this member takes the call to be, any number, and publishes the data. Whether to check who sleeps
    /// ([`wakes`](Self::wakes)).
    #[must_use]
    #[inline]
    pub fn state<W: Words>(&mut self, memory: &W, what: u64) -> bool {
        let call = self.call();
        self.stated = call;
        let line = memory.line(self.cell_line(self.rank, call));
        // Relaxed: published by the store below.
        line.store(WHAT, what, Ordering::Relaxed);
        // Rule 3: Release publishes it and the data to the Acquire of `is_there`.
        self.publish(memory, Stated(self.rank, call))
    }

    /// Whether this member has stated the call that it is in.
    pub const fn has_stated(&self) -> bool {
        self.stated > self.called
    }

    /// What another one has stated of this call, which [is there](Self::is_there).
    #[inline]
    pub fn stated<W: Words>(&self, memory: &W, rank: u32) -> u64 {
        // Relaxed: `is_there` has acquired it.
        memory.line(self.cell_line(rank, self.call())).load(WHAT, Ordering::Relaxed)
    }

    /// All others have stated this call, as this member has found.
    #[inline]
    pub const fn all_have_stated(&mut self) {
        self.seen = self.call();
    }

    /// Takes data out of a member's cell of this call, which it has stated.
    ///
    /// # Panics
    /// When the data leaves the cell.
    #[inline]
    pub fn get_cell<W: Words>(&self, memory: &W, rank: u32, at: usize, out: &mut [u8]) {
        memory.get_across(self.cell_data(rank, at, out.len()), out);
    }

    /// The call has ended for this member. Whether to check who sleeps.
    #[must_use]
    #[inline]
    pub fn end_call<W: Words>(&mut self, memory: &W) -> bool {
        // Rule 2. Release in `publish` keeps the reads of the call before it; pairs with the Acquire of `holds_up_call`.
        let sleepers = !self.has_stated() && self.state(memory, 0);
        self.called += 1;
        sleepers
    }

    /// The byte of the memory that is byte `at` of the data of a cell of this call.
    fn cell_data(&self, rank: u32, at: usize, len: usize) -> usize {
        let space = self.geometry.cell_bytes;
        assert!(at <= space && len <= space - at, "{len} bytes at {at} leave their cell");
        self.cell_line(rank, self.call()) * LINE + HEAD + at
    }

    pub(super) const fn cell_line(&self, rank: u32, call: u64) -> usize {
        let geometry = self.geometry;
        let cell = (call % CELLS) as usize * geometry.ranks as usize;
        geometry.cells_line() + (cell + rank as usize) * geometry.cell_lines()
    }
}
