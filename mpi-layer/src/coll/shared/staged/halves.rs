//! Long reductions of two ranks with a processor each: either combines one half of the vectors.
//!
//! A chain of two leaves most of the work to its last rank, which takes, combines, puts and keeps every byte, while the
//! first one only puts and takes. Here both do the same, so the slower one is done earlier.
//!
//! A half goes in pieces. Of each piece a rank puts its contribution to the other's half (step `c`), combines the other's
//! contribution to its own half and puts the result (step `r`), and takes the other's result. The steps of a call are
//! `c0 c1 r0 c2 r1 c3 r2 ...`. A result overwrites the contribution that it was made of, whose lines are in the cache
//! of the rank that writes it. Rules. (1) A rank puts the contribution to the next piece before it waits for one: so
//! the other has something to combine meanwhile. (2) A contribution's slot is finished when
//! the result in it is taken. Both ranks go through the steps in this order and report what they have finished a few steps
//! late. There are many more slots than that, so the two never wait for each other.
//! (3) In a reduction to a root, only the other rank puts results, and only the root takes them.

use bowline_base::staging::StagingProgress;
use bowline_model::coll::blocks::Blocks;
use bowline_model::coll::plan::{Space, Span};
use bowline_model::coll::price::CombiningCut;

use super::{PUBLISH_EVERY, Passage, Sources};
use crate::coll::arena::Buffers;
use crate::coll::shared::Broken;
use crate::coll::shared::transfers::Slices;
use crate::coll::spans::Reduction;
use crate::op::operands::Operands;

/// One rank's part.
struct Half<'a, 'b, 'c> {
    buffers: &'a mut Buffers<'b>,
    /// The contributions of this rank.
    from: Slices,
    /// Where the results go.
    results: Slices,
    op: Reduction<'c>,
    cut: CombiningCut,
    rank: u32,
    /// Both ranks want the result, or only this one does, or only the other one.
    wanted: Wanted,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Both,
    Here,
    There,
}

/// The step of a piece's contributions, and that of its results, of `pieces`.
const fn steps_of(piece: usize, pieces: usize) -> (usize, usize) {
    let (contributions, results) = ((2 * piece).saturating_sub(1), 2 * piece + 2);
    (contributions, if results < 2 * pieces { results } else { 2 * pieces - 1 })
}

/// Steps of a call.
pub(in super::super) const fn steps(cut: CombiningCut) -> usize {
    2 * cut.pieces()
}

/// Combines the vectors of two ranks; the result goes to the start of the output, of both or of a root. `cut` is that of
/// the longer half.
pub(in super::super) fn reduce(
    passage: &mut Passage<'_>,
    buffers: &mut Buffers<'_>,
    from: Slices,
    op: Reduction<'_>,
    to: Option<u32>,
    cut: CombiningCut,
) -> Result<(), Broken> {
    let rank = passage.comm.rank;
    let wanted = match to {
        None => Wanted::Both,
        Some(root) if root == rank => Wanted::Here,
        Some(_) => Wanted::There,
    };
    passage.state(|_| {})?;
    passage.compare(if to.is_none() { Sources::AllAlike } else { Sources::All })?;
    let results = Slices { vector: Span::output(from.vector.len), ..from };
    let mut half = Half { buffers, from, results, op, cut, rank, wanted };
    let staging = passage.staging;
    staging.with_scratch(2 * cut.block(), |scratch| half.run(passage, scratch))
}

impl Half<'_, '_, '_> {
    fn run(&mut self, passage: &mut Passage<'_>, scratch: &mut [u8]) -> Result<(), Broken> {
        let pieces = self.cut.pieces();
        passage.uses(2 * self.stride());
        let mut finished = 0;
        for next in 0..pieces + 2 {
            if next < pieces {
                self.contribute(passage, next)?;
            }
            if let Some(piece) = next.checked_sub(1).filter(|&piece| piece < pieces) {
                self.combine(passage, piece, scratch)?;
            }
            if let Some(piece) = next.checked_sub(2) {
                self.take_result(passage, piece)?;
            }
            // The results of the piece before this one, which lie in its contributions' slot, are not taken yet.
            let read = match next {
                0 => 0,
                _ if next <= pieces => steps_of(next - 1, pieces).0,
                _ => 2 * pieces,
            };
            if read >= finished + PUBLISH_EVERY || next > pieces {
                passage.finish(read, &mut finished);
            }
        }
        passage.first += 2 * pieces as u64;
        Ok(())
    }

    /// Where the second rank's bytes begin in a slot.
    const fn stride(&self) -> usize {
        self.cut.longest_piece().next_multiple_of(64)
    }

    fn place(&self, rank: u32) -> usize {
        rank as usize * self.stride()
    }

    /// What a piece is of the half of a rank.
    fn part(&self, of: Slices, rank: u32, piece: usize) -> Span {
        let half = of.span(rank);
        let (from, len) = self.cut.piece(piece);
        let from = from.min(half.len);
        half.part(from, len.min(half.len - from))
    }

    /// Puts the contribution to a piece of the other's half.
    fn contribute(&mut self, passage: &Passage<'_>, piece: usize) -> Result<(), Broken> {
        let (step, _) = steps_of(piece, self.cut.pieces());
        passage.wait_for_slot(passage.first + step as u64)?;
        let bytes = self.buffers.bytes(self.part(self.from, 1 - self.rank, piece));
        passage.put(step, self.place(self.rank), bytes)?;
        passage.written(passage.first + step as u64, true)
    }

    /// Combines a piece of this rank's half, block after block, so that it stays in the first-level cache.
    fn combine(
        &mut self,
        passage: &Passage<'_>,
        piece: usize,
        scratch: &mut [u8],
    ) -> Result<(), Broken> {
        let (contributions, step) = steps_of(piece, self.cut.pieces());
        let other = 1 - self.rank;
        let (keeps, puts) = (self.wanted != Wanted::There, self.wanted != Wanted::Here);
        let own = self.part(self.from, self.rank, piece);
        let result = self.part(self.results, self.rank, piece);
        for at in (0..own.len).step_by(self.cut.block()) {
            let len = self.cut.block().min(own.len - at);
            let (own, result) = (own.part(at, len), result.part(at, len));
            let theirs = self.place(other) + at;
            let (taken, copy) = scratch.split_at_mut(self.cut.block());
            let (taken, copy) = (&mut taken[..len], &mut copy[..len]);
            // The operand on the right becomes the result. It is that of the higher rank, where the order counts.
            let combined = if !self.op.commutative && self.rank == 1 {
                passage.take(contributions, other, theirs, taken)?;
                self.buffers.read(own, copy);
                (self.op.combine)(Operands::of(taken, copy));
                copy
            } else if keeps && own.space == Space::Input {
                // It is made where it goes.
                passage.take(contributions, other, theirs, self.buffers.bytes_mut(result))?;
                self.buffers.combine(own, result, self.op.combine);
                if puts {
                    passage.put(contributions, theirs, self.buffers.bytes(result))?;
                }
                continue;
            } else {
                passage.take(contributions, other, theirs, taken)?;
                (self.op.combine)(Operands::of(self.buffers.bytes(own), taken));
                taken
            };
            if keeps {
                self.buffers.write(result, combined);
            }
            if puts {
                passage.put(contributions, theirs, combined)?;
            }
        }
        passage.written(passage.first + step as u64, true)
    }

    /// Takes a piece of the other's half.
    fn take_result(&mut self, passage: &Passage<'_>, piece: usize) -> Result<(), Broken> {
        if self.wanted == Wanted::There {
            return Ok(());
        }
        let (contributions, step) = steps_of(piece, self.cut.pieces());
        let other = 1 - self.rank;
        passage.wait(StagingProgress::Written(other, passage.first + step as u64))?;
        let (place, part) = (self.place(self.rank), self.part(self.results, other, piece));
        passage.take(contributions, other, place, self.buffers.bytes_mut(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_all_used_once_and_results_come_behind_the_next_contributions() {
        for pieces in 1..20 {
            let mut used: Vec<_> = (0..pieces).map(|piece| steps_of(piece, pieces)).collect();
            for (piece, &(contributions, results)) in used.iter().enumerate() {
                assert!(contributions < results);
                if piece + 1 < pieces {
                    assert!(steps_of(piece + 1, pieces).0 < results, "rule 1");
                }
            }
            let mut all: Vec<_> = used.drain(..).flat_map(|(a, b)| [a, b]).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..2 * pieces));
        }
    }
}
