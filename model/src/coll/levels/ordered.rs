//! A reduction by multiplying that is scattered and keeps the order of ranks, for numbers of ranks that the factors
//! divide.
//!
//! The stages of [`reduce_scatter`](super::reduce_scatter) combine values of ranks that are far from each other first, and
//! so out of order. Here the ranks have other numbers: with the factors as a mixed radix, the digits of a rank in reverse.
//! Then ranks that follow each other combine first, next groups of them that follow each other, and so on: what a
//! rank holds always is the combination of a run of ranks. Blocks are put in the order of these numbers first, so that what
//! is sent is one piece; that copy of the input is what the order costs.
//!
//! Where the factors do not divide the number of ranks, chunks have different lengths, and a rank combines values of
//! another one out of order, or twice as many messages are needed: nothing is gained beside
//! [`Direct`](crate::coll::forms::ReduceScatter::Direct), so there is no such form.

use super::{Chunk, Factors, levels, most_by_parity, part, recv, send, window};
use crate::coll::blocks::Blocks;
use crate::coll::plan::{Place, Plan, Span};

/// Whether the factors of so many stages divide a number of ranks, and there is more than one.
pub(in crate::coll) fn divides(ranks: u32, stages: u32) -> bool {
    let product = Factors::of(ranks, stages).iter().map(u64::from).product::<u64>();
    stages > 1 && product == u64::from(ranks)
}

/// The number of a rank, or the rank of a number where `factors` come in reverse.
fn reverse(rank: u32, factors: impl Iterator<Item = u32>) -> u32 {
    let mut rest = rank;
    factors.fold(0, |number, factor| {
        let digit = rest % factor;
        rest /= factor;
        number * factor + digit
    })
}

/// The blocks of the ranks in the order of their numbers, in scratch.
struct Reversed {
    at: Vec<usize>,
}

impl Blocks for Reversed {
    fn span(&self, number: u32) -> Span {
        let (at, end) = (self.at[number as usize], self.at[number as usize + 1]);
        Span::scratch(at, end - at)
    }
}

/// A rank under its number, and the blocks.
fn prepare(place: Place, factors: Factors, blocks: &impl Blocks) -> (Place, Reversed) {
    let mut at = vec![0];
    at.extend((0..place.size).scan(0, |end, number| {
        *end += blocks.len(reverse(number, factors.iter().rev()));
        Some(*end)
    }));
    (Place { rank: reverse(place.rank, factors.iter()), ..place }, Reversed { at })
}

/// Bytes that the operands of a stage have in scratch, at most: of the first, the third and so on, and of the others.
fn operands(own: Place, factors: Factors, blocks: &Reversed) -> [usize; 2] {
    most_by_parity(levels(own, factors).map(|level| {
        let kept = window(blocks, level.chunk(level.own)).len;
        level.factor as usize * kept
    }))
}

/// Bytes of scratch.
pub(in crate::coll) fn scratch(place: Place, stages: u32, blocks: &impl Blocks) -> usize {
    let factors = Factors::of(place.size, stages);
    let (own, blocks) = prepare(place, factors, blocks);
    let total: usize = blocks.at.last().copied().unwrap_or_default();
    total + operands(own, factors, &blocks).iter().sum::<usize>()
}

/// Reduces the inputs, which `blocks` cuts without gaps, in the order of ranks, and brings each rank's block of the result
/// to its output. [`divides`] must hold.
pub(in crate::coll) fn reduce_scatter<P: Plan>(
    plan: &mut P,
    place: Place,
    stages: u32,
    blocks: &impl Blocks,
    output: Span,
) -> Result<(), P::Error> {
    debug_assert!(divides(place.size, stages), "{} ranks by {stages} stages", place.size);
    let factors = Factors::of(place.size, stages);
    let rank = |number: u32| reverse(number, factors.iter().rev());
    let (own, reversed) = prepare(place, factors, blocks);
    for number in 0..place.size {
        plan.copy(blocks.span(rank(number)), reversed.span(number));
    }
    let mut value = window(&reversed, Chunk { first: 0, len: place.size });
    // What a stage has combined is sent in the next one, whose operands lie elsewhere.
    let areas = [value.len, value.len + operands(own, factors, &reversed)[0]];
    for (stage, level) in levels(own, factors).enumerate() {
        let part = |chunk| part(value, &reversed, level.whole, chunk);
        let kept = part(level.chunk(level.own));
        let operand =
            |chunk: u32| Span::scratch(areas[stage % 2] + chunk as usize * kept.len, kept.len);
        for other in level.others() {
            recv(plan, rank(level.partner(other)), operand(other.0))?;
        }
        for other in level.others() {
            send(plan, rank(level.partner(other)), part(other.1))?;
        }
        plan.copy(kept, operand(level.own));
        plan.wait()?;
        let last = operand(level.factor - 1);
        for chunk in (0..level.factor - 1).rev().filter(|_| kept.len > 0) {
            plan.reduce(operand(chunk), last);
        }
        value = last;
    }
    plan.copy(value, output);
    Ok(())
}
