//! Reductions to one rank.

use super::accumulate::{Accumulator, OperandSide};
use super::allreduce::Halving;
use super::bcast::{CHAIN_PIECE, children, reach};
use super::forms::Reduce;
use super::levels::split;
use super::plan::{Place, Plan, Vectors};
use super::{chain, two_trees};

/// Bytes of scratch that `run` needs for vectors of `len` bytes in elements of `width`.
#[inline]
pub fn scratch(how: Reduce, size: u32, (len, width): (usize, usize)) -> usize {
    match how {
        Reduce::Flat => size as usize * len,
        Reduce::Binomial | Reduce::Ordered | Reduce::Halving | Reduce::Chain => 2 * len,
        Reduce::TwoTrees(kilobytes) => two_trees::scratch((len, width), (kilobytes as usize) << 10),
        Reduce::Multiplying(stages) => split::scratch(size, (stages, 0), (len, width)),
        Reduce::Split(stages, split) => split::scratch(size, (stages, split), (len, width)),
    }
}

/// Brings the reduction of all inputs to the output at `root`, which elsewhere is not touched.
pub fn run<P: Plan>(
    plan: &mut P,
    place: Place,
    how: Reduce,
    root: u32,
    vectors: Vectors,
) -> Result<(), P::Error> {
    match how {
        Reduce::Flat => flat(plan, place, root, vectors),
        Reduce::Binomial => binomial(plan, place, root, vectors),
        Reduce::Ordered => ordered(plan, place, root, vectors),
        Reduce::Halving => halving(plan, place, root, vectors),
        Reduce::Chain => chain::reduce(plan, place, root, vectors, CHAIN_PIECE),
        Reduce::TwoTrees(kilobytes) => {
            two_trees::reduce(plan, place, root, vectors, (kilobytes as usize) << 10)
        }
        Reduce::Multiplying(stages) => split::reduce(plan, place, (stages, 0), root, vectors),
        Reduce::Split(stages, split) => split::reduce(plan, place, (stages, split), root, vectors),
    }
}

/// Everybody sends to the root, which merges in rank order.
fn flat<P: Plan>(plan: &mut P, place: Place, root: u32, vectors: Vectors) -> Result<(), P::Error> {
    if place.rank != root {
        plan.send(root, vectors.input)?;
        return plan.wait();
    }
    let slot = |rank: u32| vectors.place(rank as usize);
    for rank in (0..place.size).filter(|&rank| rank != root) {
        plan.recv(rank, slot(rank))?;
    }
    plan.copy(vectors.input, slot(root));
    plan.wait()?;
    for rank in 1..place.size {
        plan.reduce(slot(rank - 1), slot(rank));
    }
    plan.copy(slot(place.size - 1), vectors.output);
    Ok(())
}

/// A binomial tree whose root is the root: contributions stand in the order of ranks counted from
/// the root, so the operation must be commutative unless that is rank 0.
fn binomial<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    vectors: Vectors,
) -> Result<(), P::Error> {
    let relative = place.relative(root);
    let reach = reach(relative, place.size);
    let count = children(relative, reach, place.size).count();
    let last = if relative == 0 { vectors.output } else { vectors.place(1) };
    // Each merge moves the value to the other place; it starts so that it ends in `last`.
    let (first, second) =
        if count % 2 == 1 { (last, vectors.place(0)) } else { (vectors.place(0), last) };
    let mut sum = Accumulator::new(vectors.input, first, second);
    // The nearest child first, so that the value covers neighbouring ranks always.
    for step in 0..count {
        sum.absorb(plan, place.absolute(relative + (1 << step), root), OperandSide::Right)?;
    }
    if relative != 0 {
        plan.send(place.absolute(relative - reach, root), sum.value())?;
        return plan.wait();
    }
    sum.settle(plan, vectors.output, 0, vectors.len());
    Ok(())
}

/// The same over true ranks, so that any associative operation will do; rank 0 passes the result
/// to the root.
fn ordered<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    vectors: Vectors,
) -> Result<(), P::Error> {
    if root == 0 {
        return binomial(plan, place, 0, vectors);
    }
    // Rank 0 has no use for its output and works in scratch, like everybody.
    let result = vectors.place(1);
    binomial(plan, place, 0, Vectors { output: result, ..vectors })?;
    plan.phase(1);
    if place.rank == 0 {
        plan.send(root, result)?;
    } else if place.rank == root {
        plan.recv(0, vectors.output)?;
    }
    plan.wait()
}

/// Recursive halving, after which each rank has a part of the result, and a gather of the parts.
/// (Rabenseifner: "Optimization of Collective Reduction Operations", 2004.)
fn halving<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    vectors: Vectors,
) -> Result<(), P::Error> {
    let halving = Halving::new(place, vectors.len(), vectors.width);
    let mut sum = Accumulator::new(vectors.input, vectors.place(0), vectors.place(1));
    let window = halving.reduce(plan, &mut sum)?;
    plan.phase(2);
    if place.rank == root {
        for part in 0..halving.parts() {
            let (at, len) = halving.window(part);
            let owner = halving.owner(part);
            if owner != root && len > 0 {
                plan.recv(owner, vectors.output.part(at, len))?;
            }
        }
    }
    if let Some((at, len)) = window.filter(|window| window.1 > 0) {
        if place.rank == root {
            sum.settle(plan, vectors.output, at, len);
        } else {
            plan.send(root, sum.value().part(at, len))?;
        }
    }
    plan.wait()
}
