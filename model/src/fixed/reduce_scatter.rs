//! Reductions of which each rank gets a block.

use super::allreduce::step_of_ring;
use super::bcast::{Serve, serve};
use super::fold::{Fold, Pair, Work, swap};
use super::forms::FixedReduceScatter;
use super::reduce;
use crate::coll::accumulate::{Accumulator, OperandSide};
use crate::coll::blocks::Blocks;
use crate::coll::plan::{Place, Plan, Span, Vectors};
use crate::coll::{self, forms};

/// Bytes of scratch that `run` needs for vectors of `total` bytes, `own` of which are this rank's.
pub fn scratch(how: FixedReduceScatter, size: u32, total: usize, own: usize) -> usize {
    match how {
        FixedReduceScatter::ViaRoot(how) => total + reduce::scratch(how, size, total),
        FixedReduceScatter::Pairwise => own,
        FixedReduceScatter::Halving
        | FixedReduceScatter::Ring
        | FixedReduceScatter::Butterfly
        | FixedReduceScatter::Ordered => 2 * total,
        FixedReduceScatter::Doubling => 3 * total,
    }
}

/// Reduces the inputs, which `blocks` cuts without gaps, and brings each rank's block of the result to its output.
///
/// # Errors
/// Those of the plan.
pub fn run<P: Plan>(
    plan: &mut P,
    place: Place,
    how: FixedReduceScatter,
    blocks: &impl Blocks,
    output: Span,
) -> Result<(), P::Error> {
    let (first, last) = (blocks.span(0), blocks.span(place.size - 1));
    let input = Span::new(first.space, first.at, last.at + last.len - first.at);
    let cut = Cut { blocks, start: first.at, len: input.len };
    match how {
        FixedReduceScatter::ViaRoot(how) => {
            let result = Span::scratch(0, input.len);
            // Nothing is cut, so the width does not count.
            let vectors = Vectors { input, output: result, width: 1, scratch: input.len };
            reduce::run(plan, place, how, 0, vectors)?;
            plan.phase(2);
            coll::scatter::linear(plan, place, 0, &InScratch(&cut), output)
        }
        FixedReduceScatter::Pairwise => {
            let how = forms::ReduceScatter::Pairwise;
            coll::reduce_scatter::run(plan, place, how, blocks, output)
        }
        FixedReduceScatter::Halving => halving(plan, place, &cut, input, output),
        FixedReduceScatter::Ring => ring(plan, place, &cut, input, output),
        FixedReduceScatter::Butterfly => butterfly(plan, place, &cut, input, output),
        FixedReduceScatter::Doubling => doubling(plan, place, &cut, input, output),
        FixedReduceScatter::Ordered => ordered(plan, place, &cut, input, output),
    }
}

/// How a vector is cut.
struct Cut<'a, B> {
    blocks: &'a B,
    start: usize,
    len: usize,
}

impl<B: Blocks> Cut<'_, B> {
    /// Offset and length of the blocks of ranks `from .. to`.
    fn window(&self, from: u32, to: u32) -> (usize, usize) {
        if from >= to {
            return (0, 0);
        }
        let (first, last) = (self.blocks.span(from), self.blocks.span(to - 1));
        (first.at - self.start, last.at + last.len - first.at)
    }

    /// The same of participants `from .. to` of folded ranks: those of pairs have two.
    fn of_parts(&self, fold: Fold, from: u32, to: u32) -> (usize, usize) {
        let rank = |part: u32| part + part.min(fold.rest);
        self.window(rank(from), rank(to))
    }
}

struct InScratch<'a, B>(&'a Cut<'a, B>);

impl<B: Blocks> Blocks for InScratch<'_, B> {
    fn span(&self, rank: u32) -> Span {
        let (at, len) = self.0.window(rank, rank + 1);
        Span::scratch(at, len)
    }
}

const fn work(len: usize) -> Work {
    Work { value: Span::scratch(0, len), coming: Span::scratch(len, len), width: 1 }
}

fn part(span: Span, (at, len): (usize, usize)) -> Span {
    span.part(at, len)
}

/// Partners split what both have, the far halves of the ranks first. The odd ranks of pairs pass on a block.
fn halving<P: Plan>(
    plan: &mut P,
    place: Place,
    cut: &Cut<'_, impl Blocks>,
    input: Span,
    output: Span,
) -> Result<(), P::Error> {
    let (fold, work) = (Fold::new(place.size, Pair::ToOdd), work(cut.len));
    plan.copy(input, work.value);
    let Some(me) = fold.fold(plan, place, work)? else {
        plan.phase(1);
        return swap(plan, place.rank + 1, Span::EMPTY, output);
    };
    let (mut first, mut count) = (0, fold.parts);
    while count > 1 {
        count /= 2;
        let upper = me & count != 0;
        let (keep, give) = if upper { (first + count, first) } else { (first, first + count) };
        let window = |from: u32| cut.of_parts(fold, from, from + count);
        work.exchange(plan, fold.rank(me ^ count), window(give), window(keep))?;
        first = keep;
    }
    plan.copy(part(work.value, cut.window(place.rank, place.rank + 1)), output);
    plan.phase(1);
    if place.rank < 2 * fold.rest {
        let theirs = cut.window(place.rank - 1, place.rank);
        swap(plan, place.rank - 1, part(work.value, theirs), Span::EMPTY)?;
    }
    Ok(())
}

/// Blocks go around and are reduced on the way; each rank's own comes last.
fn ring<P: Plan>(
    plan: &mut P,
    place: Place,
    cut: &Cut<'_, impl Blocks>,
    input: Span,
    output: Span,
) -> Result<(), P::Error> {
    let work = work(cut.len);
    plan.copy(input, work.value);
    for step in 1..place.size {
        let (out, into) = (place.left(step), place.left(step + 1));
        let window = |rank: u32| cut.window(rank, rank + 1);
        let coming = part(work.coming, window(into));
        step_of_ring(plan, place, part(work.value, window(out)), coming)?;
        work.merge(plan, window(into));
    }
    plan.copy(part(work.value, cut.window(place.rank, place.rank + 1)), output);
    Ok(())
}

/// The bits of a number below a power of two, backwards.
const fn backwards(number: u32, power: u32) -> u32 {
    if power < 2 { 0 } else { number.reverse_bits() >> (32 - power.trailing_zeros()) }
}

/// Partners split what both have, the near ones first. So what a participant has in the end belongs to the one whose
/// number is its own backwards, and is exchanged.
fn butterfly<P: Plan>(
    plan: &mut P,
    place: Place,
    cut: &Cut<'_, impl Blocks>,
    input: Span,
    output: Span,
) -> Result<(), P::Error> {
    let (fold, work) = (Fold::new(place.size, Pair::ToOdd), work(cut.len));
    plan.copy(input, work.value);
    let Some(me) = fold.fold(plan, place, work)? else {
        plan.phase(1);
        let owner = fold.rank(backwards(place.rank / 2, fold.parts));
        return swap(plan, owner, Span::EMPTY, output);
    };
    let (mut first, mut count, mut bit) = (0, fold.parts, 1);
    while count > 1 {
        count /= 2;
        let upper = me & bit != 0;
        let (keep, give) = if upper { (first + count, first) } else { (first, first + count) };
        let window = |from: u32| cut.of_parts(fold, from, from + count);
        work.exchange(plan, fold.rank(me ^ bit), window(give), window(keep))?;
        (first, bit) = (keep, bit * 2);
    }
    plan.phase(1);
    let other = backwards(me, fold.parts);
    let theirs = |rank: u32| part(work.value, cut.window(rank, rank + 1));
    let peer = fold.rank(other);
    if other == me {
        plan.copy(theirs(place.rank), output);
    } else {
        swap(plan, peer, theirs(peer), output)?;
    }
    if other < fold.rest {
        swap(plan, peer - 1, theirs(peer - 1), Span::EMPTY)?;
    }
    Ok(())
}

/// Groups that are next to each other swap all but what belongs to the sender's group. Where the upper group lacks
/// ranks, those of the lower one that have no partner are served by the others. Keeps the order of ranks.
fn doubling<P: Plan>(
    plan: &mut P,
    place: Place,
    cut: &Cut<'_, impl Blocks>,
    input: Span,
    output: Span,
) -> Result<(), P::Error> {
    let (me, size) = (place.rank, place.size);
    let work = work(cut.len);
    let outgoing = Span::scratch(2 * cut.len, cut.len);
    plan.copy(input, work.value);
    let mut width = 1;
    while width < size {
        let low = me / (2 * width) * (2 * width);
        if low + width >= size {
            // There is no upper group.
            width *= 2;
            continue;
        }
        let group = |first: u32| {
            let last = (first + width).min(size);
            // What is outside of a group, and where that stands in a message.
            let (before, (at, len)) = (cut.window(0, first), cut.window(first, last));
            let end = (at + len, cut.len - at - len);
            ([(before, 0), (end, before.1)], before.1 + end.1)
        };
        let there = size.saturating_sub(low + width).min(width);
        let upper = me >= low + width;
        let (own, other) = if upper { (low + width, low) } else { (low, low + width) };
        let peer = if upper { me - width } else { me + width };
        let (inward, coming) = group(other);
        let coming = work.coming.part(0, coming);
        if upper || me - low < there {
            let (outward, len) = group(own);
            for (window, at) in outward {
                plan.copy(part(work.value, window), outgoing.part(at, window.1));
            }
            swap(plan, peer, outgoing.part(0, len), coming)?;
        }
        if !upper {
            for step in serve(me - low, there, width) {
                match step {
                    Serve::To(to) => swap(plan, low + to, coming, Span::EMPTY)?,
                    Serve::From(from) => swap(plan, low + from, Span::EMPTY, coming)?,
                }
            }
        }
        for (window, at) in inward {
            let (value, arrived) = (part(work.value, window), coming.part(at, window.1));
            if upper {
                plan.reduce(arrived, value);
            } else {
                plan.reduce(value, arrived);
                plan.copy(arrived, value);
            }
        }
        width *= 2;
    }
    plan.copy(part(work.value, cut.window(me, me + 1)), output);
    Ok(())
}

/// Blocks are put in the order of their numbers backwards. Then partners split what both have, the near ones first, so
/// that contributions come in the order of ranks and each rank ends with its own block.
fn ordered<P: Plan>(
    plan: &mut P,
    place: Place,
    cut: &Cut<'_, impl Blocks>,
    input: Span,
    output: Span,
) -> Result<(), P::Error> {
    let (me, size, block) = (place.rank, place.size, output.len);
    let value = Span::scratch(0, cut.len);
    for index in 0..size {
        let window = cut.window(index, index + 1);
        let at = backwards(index, size) as usize * block;
        plan.copy(part(input, window), value.part(at, block));
    }
    let free = Span::scratch(cut.len, cut.len);
    let mut sum = Accumulator::new(value, value, free);
    let (mut first, mut count, mut bit) = (0, size, 1);
    while count > 1 {
        count /= 2;
        let upper = me & bit != 0;
        let (keep, give) = if upper { (first + count, first) } else { (first, first + count) };
        let window = |from: u32| (from as usize * block, count as usize * block);
        let side = if upper { OperandSide::Left } else { OperandSide::Right };
        sum.exchange(plan, me ^ bit, side, window(give), window(keep))?;
        (first, bit) = (keep, bit * 2);
    }
    plan.copy(sum.value().part(first as usize * block, block), output);
    Ok(())
}
