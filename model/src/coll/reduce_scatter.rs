//! Reductions of which each rank gets a block.

use super::accumulate::{Accumulator, OperandSide};
use super::blocks::Blocks;
use super::forms::{Reduce, ReduceScatter};
use super::plan::{Place, Plan, Span, Vectors};
use super::{levels, reduce, scatter};

/// Whether so many ranks may do it so, for operations that are commutative or not.
pub fn allows(how: ReduceScatter, ranks: u32, commutative: bool) -> bool {
    match how {
        ReduceScatter::Halving => commutative && ranks.is_power_of_two(),
        ReduceScatter::Pairwise | ReduceScatter::Multiplying(_) => commutative,
        ReduceScatter::ViaRoot | ReduceScatter::Direct => true,
        ReduceScatter::Ordered(stages) => levels::ordered::divides(ranks, stages),
    }
}

/// Bytes of scratch that `run` needs for an input that `blocks` cuts without gaps.
#[inline]
pub fn scratch(how: ReduceScatter, place: Place, blocks: &impl Blocks) -> usize {
    let (total, own) = (whole(place, blocks).len, blocks.len(place.rank));
    match how {
        ReduceScatter::ViaRoot => total + reduce::scratch(Reduce::Ordered, place.size, (total, 1)),
        ReduceScatter::Halving => 2 * total,
        ReduceScatter::Pairwise => own,
        ReduceScatter::Direct => place.size as usize * own,
        ReduceScatter::Multiplying(stages) => levels::scratch(place, stages, blocks),
        ReduceScatter::Ordered(stages) => levels::ordered::scratch(place, stages, blocks),
    }
}

/// Reduces the inputs, which `blocks` cuts without gaps, and brings each rank's block of the
/// result to its output.
pub fn run<P: Plan>(
    plan: &mut P,
    place: Place,
    how: ReduceScatter,
    blocks: &impl Blocks,
    output: Span,
) -> Result<(), P::Error> {
    match how {
        ReduceScatter::ViaRoot => via_root(plan, place, blocks, output),
        ReduceScatter::Halving => halving(plan, place, blocks, output),
        ReduceScatter::Pairwise => pairwise(plan, place, blocks, output),
        ReduceScatter::Direct => direct(plan, place, blocks, output),
        ReduceScatter::Multiplying(stages) => {
            levels::reduce_scatter(plan, place, stages, blocks, output)
        }
        ReduceScatter::Ordered(stages) => {
            levels::ordered::reduce_scatter(plan, place, stages, blocks, output)
        }
    }
}

/// The whole input.
pub(super) fn whole(place: Place, blocks: &impl Blocks) -> Span {
    let (first, last) = (blocks.span(0), blocks.span(place.size - 1));
    Span::new(first.space, first.at, last.at + last.len - first.at)
}

/// Blocks of scratch that lie as those of the input do.
struct Shifted<'a, B> {
    blocks: &'a B,
    at: usize,
}

impl<B: Blocks> Blocks for Shifted<'_, B> {
    fn span(&self, rank: u32) -> Span {
        let block = self.blocks.span(rank);
        Span::scratch(self.at + block.at, block.len)
    }
}

/// A reduction to rank 0, which scatters the result.
fn via_root<P: Plan>(
    plan: &mut P,
    place: Place,
    blocks: &impl Blocks,
    output: Span,
) -> Result<(), P::Error> {
    let input = whole(place, blocks);
    let result = Span::scratch(0, input.len);
    // Nothing is cut, so the width does not count.
    let vectors = Vectors { input, output: result, width: 1, scratch: input.len };
    reduce::run(plan, place, Reduce::Ordered, 0, vectors)?;
    plan.phase(2);
    scatter::linear(plan, place, 0, &Shifted { blocks, at: 0 }, output)
}

/// Recursive halving: partners split the blocks that both have, the far halves of the ranks first.
/// For powers of two and commutative operations, since contributions do not come in order.
fn halving<P: Plan>(
    plan: &mut P,
    place: Place,
    blocks: &impl Blocks,
    output: Span,
) -> Result<(), P::Error> {
    let input = whole(place, blocks);
    let vectors = Vectors { input, output: input, width: 1, scratch: 0 };
    let mut sum = Accumulator::new(input, vectors.place(0), vectors.place(1));
    // The part of the vector that belongs to ranks `from .. from + count`.
    let window = |from: u32, count: u32| {
        let (first, last) = (blocks.span(from), blocks.span(from + count - 1));
        (first.at, last.at + last.len - first.at)
    };
    let (mut first, mut count) = (0, place.size);
    while count > 1 {
        count /= 2;
        let upper = place.rank & count != 0;
        let (keep, give) = if upper { (first + count, first) } else { (first, first + count) };
        let side = if upper { OperandSide::Left } else { OperandSide::Right };
        let peer = place.rank ^ count;
        sum.exchange(plan, peer, side, window(give, count), window(keep, count))?;
        first = keep;
    }
    let own = blocks.span(place.rank);
    plan.copy(sum.value().part(own.at, own.len), output);
    Ok(())
}

/// One partner after the other, merged as they come: the least memory. For commutative
/// operations; the order is the same in every run.
fn pairwise<P: Plan>(
    plan: &mut P,
    place: Place,
    blocks: &impl Blocks,
    output: Span,
) -> Result<(), P::Error> {
    plan.copy(blocks.span(place.rank), output);
    let coming = Span::scratch(0, output.len);
    for distance in 1..place.size {
        let (to, from) = (place.right(distance), place.left(distance));
        plan.recv(from, coming)?;
        plan.send(to, blocks.span(to))?;
        plan.wait()?;
        plan.reduce(coming, output);
    }
    Ok(())
}

/// All contributions are collected, then merged in rank order.
fn direct<P: Plan>(
    plan: &mut P,
    place: Place,
    blocks: &impl Blocks,
    output: Span,
) -> Result<(), P::Error> {
    let slot = |rank: u32| Span::scratch(rank as usize * output.len, output.len);
    for rank in (0..place.size).filter(|&rank| rank != place.rank) {
        plan.recv(rank, slot(rank))?;
    }
    plan.copy(blocks.span(place.rank), slot(place.rank));
    for distance in 1..place.size {
        let to = place.right(distance);
        plan.send(to, blocks.span(to))?;
    }
    plan.wait()?;
    for rank in 1..place.size {
        plan.reduce(slot(rank - 1), slot(rank));
    }
    plan.copy(slot(place.size - 1), output);
    Ok(())
}
