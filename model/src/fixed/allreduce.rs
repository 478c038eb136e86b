//! Reductions whose result all ranks get.

use super::fold::{Fold, Pair, Work};
use super::forms::{FixedAllreduce, FixedBcast, FixedReduce};
use super::{bcast, reduce};
use crate::coll::nodes::Among;
use crate::coll::plan::{Place, Plan, Span, Vectors};
use crate::coll::{self, forms};

/// Bytes of scratch that `run` needs for vectors of `len` bytes.
pub fn scratch(how: FixedAllreduce, size: u32, len: usize) -> usize {
    match how {
        FixedAllreduce::Doubling
        | FixedAllreduce::Halving
        | FixedAllreduce::SharedHalving
        | FixedAllreduce::Ring => len,
        FixedAllreduce::Linear => reduce::scratch(FixedReduce::Linear, size, len),
        FixedAllreduce::ReduceBcast(how, _) => reduce::scratch(how, size, len),
    }
}

/// Brings the reduction of all inputs to everybody's output.
///
/// # Errors
/// Those of the plan.
pub fn run<P: Plan>(
    plan: &mut P,
    place: Place,
    how: FixedAllreduce,
    vectors: Vectors,
) -> Result<(), P::Error> {
    use forms::Allreduce as Ours;
    match how {
        FixedAllreduce::Doubling => coll::allreduce::run(plan, place, Ours::Doubling, vectors),
        FixedAllreduce::Halving => coll::allreduce::run(plan, place, Ours::Halving, vectors),
        FixedAllreduce::SharedHalving => shared_halving(plan, place, vectors),
        FixedAllreduce::Linear => {
            via_root(plan, place, FixedReduce::Linear, FixedBcast::Linear, vectors)
        }
        FixedAllreduce::ReduceBcast(up, down) => via_root(plan, place, up, down, vectors),
        FixedAllreduce::Ring => ring(plan, place, vectors),
    }
}

fn via_root<P: Plan>(
    plan: &mut P,
    place: Place,
    up: FixedReduce,
    down: FixedBcast,
    vectors: Vectors,
) -> Result<(), P::Error> {
    reduce::run(plan, place, up, 0, vectors)?;
    bcast::run(&mut Among::new(plan, 2, |rank| rank), place, down, 0, vectors.output)
}

fn shared_halving<P: Plan>(plan: &mut P, place: Place, vectors: Vectors) -> Result<(), P::Error> {
    let fold = Fold::new(place.size, Pair::Shared);
    let work = Work { value: vectors.output, coming: vectors.place(0), width: vectors.width };
    plan.copy(vectors.input, vectors.output);
    let part = fold.fold(plan, place, work)?;
    if let Some(part) = part {
        fold.halve(plan, part, work)?;
        plan.phase(1);
        fold.collect(plan, part, work)?;
    }
    plan.phase(2);
    fold.unfold(plan, place, vectors.output)
}

/// The block with this number of a vector of `count` elements that is cut evenly: the first ones may have one more.
const fn block(index: u32, size: u32, count: usize) -> (usize, usize) {
    let (index, size) = (index as usize, size as usize);
    let (each, more) = (count / size, count % size);
    let at = index * each + if index < more { index } else { more };
    (at, if index < more { each + 1 } else { each })
}

/// Each block goes around once and is reduced on its way, then around again for all to have it.
fn ring<P: Plan>(plan: &mut P, place: Place, vectors: Vectors) -> Result<(), P::Error> {
    let count = vectors.len() / vectors.width;
    let of = |span: Span, index: u32| {
        let (at, len) = block(index, place.size, count);
        span.part(at * vectors.width, len * vectors.width)
    };
    plan.copy(vectors.input, vectors.output);
    for step in 0..place.size - 1 {
        let (out, into) = (place.left(step), place.left(step + 1));
        let coming = Span::scratch(vectors.scratch, of(vectors.output, into).len);
        step_of_ring(plan, place, of(vectors.output, out), coming)?;
        plan.reduce(coming, of(vectors.output, into));
    }
    for step in 0..place.size - 1 {
        // The own right neighbour's block is complete here first.
        let (out, into) = (place.right(1 + place.size - step), place.left(step));
        step_of_ring(plan, place, of(vectors.output, out), of(vectors.output, into))?;
    }
    Ok(())
}

/// Sends to the right and receives from the left. Nothing is sent of no bytes.
pub(super) fn step_of_ring<P: Plan>(
    plan: &mut P,
    place: Place,
    out: Span,
    into: Span,
) -> Result<(), P::Error> {
    if into.len > 0 {
        plan.recv(place.left(1), into)?;
    }
    if out.len > 0 {
        plan.send(place.right(1), out)?;
    }
    plan.wait()
}
