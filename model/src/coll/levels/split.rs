//! Broadcasts and reductions by multiplying of which the first levels split the vector.
//!
//! A chunk of ranks has a part of the vector, in proportion to its ranks, and cuts it among its own chunks as it is cut
//! itself, down to the last level that splits. Below that level all ranks of a chunk have to do with the whole part. A
//! broadcast brings each part to the first rank of its chunk and from there to all ranks of it; then ranks of different
//! chunks swap what they have. A reduction does the same the other way around. With factors of 2 and all levels split,
//! these are the scatter and the recursive doubling of van de Geijn, and the recursive halving and the binomial gather of
//! Rabenseifner, for any number of ranks. With none split, they are trees.
//!
//! Ranks are counted from the root, which is the first rank of every chunk that it is in.

use super::{Chunk, Factors, Sum, collect, levels, recv, send, window};
use crate::coll::blocks::Blocks;
use crate::coll::nodes::Among;
use crate::coll::plan::{Place, Plan, Span, Vectors};

/// A vector that is cut between elements, into parts that differ by one element at most.
#[derive(Clone, Copy)]
struct Parts {
    vector: Span,
    width: usize,
    size: u32,
}

impl Parts {
    fn new(vector: Span, width: usize, size: u32) -> Self {
        Self { vector, width: width.max(1), size }
    }

    /// Where the part of a rank begins.
    fn at(&self, rank: u32) -> usize {
        let count = (self.vector.len / self.width) as u64;
        (count * u64::from(rank) / u64::from(self.size)) as usize * self.width
    }
}

impl Blocks for Parts {
    fn span(&self, rank: u32) -> Span {
        let at = self.at(rank);
        self.vector.part(at, self.at(rank + 1) - at)
    }
}

/// Brings `data` from `root` to all, in so many stages each way, of which the first `split` ones split it.
pub(in crate::coll) fn bcast<P: Plan>(
    plan: &mut P,
    place: Place,
    (stages, split): (u32, u32),
    root: u32,
    data: Span,
) -> Result<(), P::Error> {
    let factors = Factors::of(place.size, stages);
    let split = factors.stages.min(split as usize);
    let parts = Parts::new(data, 1, place.size);
    let plan = &mut Among::new(plan, 0, |relative| place.absolute(relative, root));
    let place = Place { rank: place.relative(root), size: place.size };

    let mut has = place.rank == 0;
    let mut shared = parts.vector;
    for (number, level) in levels(place, factors).enumerate() {
        // What the ranks of a chunk need.
        let needed = |chunk: Chunk| if number < split { window(&parts, chunk) } else { shared };
        if place.rank == level.whole.first {
            for (_, chunk) in level.others() {
                send(plan, chunk.first, needed(chunk))?;
            }
        } else if !has && level.place == 0 {
            recv(plan, level.whole.first, needed(level.chunk(level.own)))?;
            plan.wait()?;
            has = true;
        }
        shared = needed(level.chunk(level.own));
    }
    plan.wait()?;
    plan.phase(1);
    collect(plan, place, (factors, split), &parts, true)
}

/// The most that may arrive at a rank in a stage, of vectors of `len` bytes in elements of `width`.
fn arriving(size: u32, (stages, split): (u32, u32), (len, width): (usize, usize)) -> usize {
    let (mut ranks, mut most) = (size, 0);
    for (number, factor) in (0..).zip(Factors::of(size, stages).iter()) {
        let others = factor.min(ranks) as usize - 1;
        // A rank may serve as many of longer chunks as it has partners.
        let (others, own) = if number < split {
            (2 * others, ranks.div_ceil(factor))
        } else {
            (factor as usize - 1, ranks)
        };
        let part = (len as u64 * u64::from(own)).div_ceil(u64::from(size)) as usize + width;
        most = most.max(others * part.min(len));
        ranks = own;
    }
    // Elements behind it stand as they do in front of it.
    most.next_multiple_of(width.max(1))
}

/// Bytes of scratch that [`reduce`] needs for vectors of `len` bytes in elements of `width`.
pub(in crate::coll) fn scratch(
    size: u32,
    stages: (u32, u32),
    (len, width): (usize, usize),
) -> usize {
    // Two areas in turn, and one where parts are gathered.
    2 * arriving(size, stages, (len, width)) + len
}

/// Reduces to the output of `root`, in so many stages each way, of which the first `split` ones split the vector. For
/// commutative operations, or root 0 and none that split.
pub(in crate::coll) fn reduce<P: Plan>(
    plan: &mut P,
    place: Place,
    (stages, split): (u32, u32),
    root: u32,
    vectors: Vectors,
) -> Result<(), P::Error> {
    let Vectors { input, output, width, scratch } = vectors;
    let area = arriving(place.size, (stages, split), (vectors.len(), width));
    let factors = Factors::of(place.size, stages);
    let split = factors.stages.min(split as usize);
    let plan = &mut Among::new(plan, 0, |relative| place.absolute(relative, root));
    let place = Place { rank: place.relative(root), size: place.size };

    let mut sum = Sum { value: input, areas: [scratch, scratch + area], next: 0 };
    let parts = Parts::new(input, width, place.size);
    sum.distribute(plan, place, (factors, split), &parts)?;

    // Within the chunks of the last level that splits.
    plan.phase(1);
    for level in levels(place, factors).rev().take(factors.stages - split) {
        let kept = sum.value;
        if place.rank == level.whole.first {
            let mut arrivals = 0;
            for (_, chunk) in level.others().filter(|_| kept.len > 0) {
                plan.recv(chunk.first, sum.arrival(arrivals, kept))?;
                arrivals += 1;
            }
            plan.wait()?;
            sum.merge(plan, kept, arrivals);
        } else if level.place == 0 {
            send(plan, level.whole.first, kept)?;
            return plan.wait();
        }
    }

    plan.phase(2);
    let gathered = match place.rank {
        0 => output,
        _ => Span::scratch(scratch + 2 * area, input.len),
    };
    let parts = Parts::new(gathered, width, place.size);
    let mut held = sum.value;
    for level in levels(place, factors).rev().skip(factors.stages - split) {
        if place.rank == level.whole.first {
            // What the rank has so far stands where it is gathered, or is its own part.
            let own = window(&parts, level.chunk(level.own));
            plan.copy(held, own);
            for (_, chunk) in level.others() {
                recv(plan, chunk.first, window(&parts, chunk))?;
            }
            plan.wait()?;
            held = window(&parts, level.whole);
        } else {
            send(plan, level.whole.first, held)?;
            return plan.wait();
        }
    }
    if place.rank == 0 {
        plan.copy(held, output);
    }
    Ok(())
}
