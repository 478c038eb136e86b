//! Long reductions through staging memory: one vector goes through the slots, to which one rank after the other
//! combines its own.
//!
//! The first rank of the chain puts its vector into the slots. Each other one takes what the rank before it has left there, combines
//! its own with it, and puts that back; the last one has the result. So a byte is combined once for each rank, in caches,
//! and copied once more by who wants the result: half of what an exchange of slices copies. The chain goes from the
//! highest rank to the lowest, as the order of operands asks for; where the order is of no importance, it ends at
//! the root.
//!
//! Rules. (1) All ranks state their terms, and compare them before any of them combines. (2) Only
//! the first rank waits until a slot is free, of all others; what the others overwrite only the rank before them has
//! written. (3) A rank waits for the one before it only while it has a slot left that it has not read. Else it waits for a
//! result, of a step which the first rank has written: so every wait ends.

use bowline_base::staging::{StagingMember, StagingProgress};
use bowline_base::words::ViewWords;
use bowline_model::coll::plan::{Space, Span};
use bowline_model::coll::price::CombiningCut;

use super::{PUBLISH_EVERY, Passage, Sources};
use crate::coll::arena::Buffers;
use crate::coll::shared::Broken;
use crate::coll::spans::Reduction;
use crate::op::operands::Operands;

/// One rank's part.
struct Chain<'a, 'b, 'c> {
    buffers: &'a mut Buffers<'b>,
    own: Span,
    op: Reduction<'c>,
    cut: CombiningCut,
    /// The rank before this one; none for the first.
    before: Option<u32>,
    last: u32,
    /// The last rank's result is read by others.
    is_read: bool,
    /// This rank reads it.
    reads: bool,
    /// It is the last, and wants the result.
    keeps: bool,
}

/// Combines the vectors of all ranks; the result goes to the start of the output, of all or of a root.
pub(in super::super) fn reduce(
    passage: &mut Passage<'_>,
    buffers: &mut Buffers<'_>,
    own: Span,
    op: Reduction<'_>,
    to: Option<u32>,
    cut: CombiningCut,
) -> Result<(), Broken> {
    let (rank, ranks) = (passage.comm.rank, passage.comm.size);
    let last = to.filter(|_| op.commutative).unwrap_or(0);
    let first = (last + ranks - 1) % ranks;
    let wants = to.is_none_or(|root| root == rank);
    let mut chain = Chain {
        buffers,
        own,
        op,
        cut,
        before: (rank != first).then_some((rank + 1) % ranks),
        last,
        is_read: to != Some(last),
        reads: wants && rank != last,
        keeps: wants && rank == last,
    };
    passage.state(|_| {})?;
    passage.compare(if to.is_none() { Sources::AllAlike } else { Sources::All })?;
    let staging = passage.staging;
    staging.with_scratch(cut.block(), |scratch| chain.run(passage, scratch))
}

impl Passage<'_> {
    fn is_there(&self, what: StagingProgress) -> Result<bool, Broken> {
        let check =
            |member: &mut StagingMember, memory: &ViewWords<'_>| member.is_there(memory, what);
        Ok(self.staging.act(check)?)
    }
}

impl Chain<'_, '_, '_> {
    fn run(&mut self, passage: &mut Passage<'_>, scratch: &mut [u8]) -> Result<(), Broken> {
        let pieces = self.cut.pieces();
        let slots = passage.staging.geometry.slots as usize;
        passage.uses(self.cut.longest_piece());
        let (mut written, mut read, mut published) = (0, 0, 0);
        while written < pieces || (self.reads && read < pieces) {
            let mut missing = None;
            if written < pieces && !(self.reads && written - read >= slots) {
                missing = self.missing(passage, passage.first + written as u64)?;
                if missing.is_none() {
                    self.combine(passage, written, scratch)?;
                    passage.written(passage.first + written as u64, self.reads)?;
                    written += 1;
                    continue;
                }
            }
            if self.reads && read < written {
                let result = StagingProgress::Written(self.last, passage.first + read as u64);
                if passage.is_there(result)? {
                    let (from, len) = self.cut.piece(read);
                    let out = self.buffers.bytes_mut(Span::output(self.own.len).part(from, len));
                    passage.take(read, self.last, 0, out)?;
                    read += 1;
                    if read - published >= PUBLISH_EVERY {
                        passage.finish(read, &mut published);
                    }
                    continue;
                }
                // Rule 3.
                missing = missing.or(Some(result));
            }
            if self.reads {
                passage.finish(read, &mut published);
            }
            passage.wait(missing.expect("what is neither written nor read is waited for"))?;
        }
        if self.reads {
            passage.finish(read, &mut published);
        }
        passage.first += pieces as u64;
        Ok(())
    }

    /// What has to happen before this rank combines a step.
    fn missing(&self, passage: &Passage<'_>, step: u64) -> Result<Option<StagingProgress>, Broken> {
        // Rule 2.
        let Some(before) = self.before else {
            let holds_up =
                |member: &mut StagingMember, memory: &ViewWords<'_>| member.holds_up(memory, step);
            return Ok(passage.staging.act(holds_up)?);
        };
        let what = StagingProgress::Written(before, step);
        Ok((!passage.is_there(what)?).then_some(what))
    }

    /// This rank's part of a step.
    fn combine(
        &mut self,
        passage: &Passage<'_>,
        index: usize,
        scratch: &mut [u8],
    ) -> Result<(), Broken> {
        let (from, len) = self.cut.piece(index);
        let Some(before) = self.before else {
            return passage.put(index, 0, self.buffers.bytes(self.own.part(from, len)));
        };
        if self.keeps && !self.is_read && self.own.space == Space::Input {
            // Nobody else wants the result: it is made where it goes.
            let result = Span::output(self.own.len).part(from, len);
            for at in (0..len).step_by(self.cut.block()) {
                let part = result.part(at, self.cut.block().min(len - at));
                passage.take(index, before, at, self.buffers.bytes_mut(part))?;
                let own = Span { at: self.own.at + from + at, ..part };
                self.buffers.combine(Span { space: Space::Input, ..own }, part, self.op.combine);
            }
            return Ok(());
        }
        for at in (0..len).step_by(self.cut.block()) {
            let taken = &mut scratch[..self.cut.block().min(len - at)];
            let part = self.own.part(from + at, taken.len());
            passage.take(index, before, at, taken)?;
            (self.op.combine)(Operands::of(self.buffers.bytes(part), taken));
            if self.is_read || !self.is_last(passage) {
                passage.put(index, at, taken)?;
            }
            if self.keeps {
                let result = Span::output(self.own.len).part(from + at, taken.len());
                self.buffers.write(result, taken);
            }
        }
        Ok(())
    }

    const fn is_last(&self, passage: &Passage<'_>) -> bool {
        passage.comm.rank == self.last
    }
}
