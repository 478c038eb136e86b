//! Reductions to one rank.

use super::fold::{Fold, Pair, Work};
use super::forms::FixedReduce;
use super::tree;
use crate::coll::plan::{Place, Plan, Vectors};
use crate::coll::{self, forms};

/// Bytes of scratch that `run` needs for vectors of `len` bytes.
pub fn scratch(how: FixedReduce, size: u32, len: usize) -> usize {
    match how {
        FixedReduce::Binomial => coll::reduce::scratch(forms::Reduce::Binomial, size, (len, 1)),
        FixedReduce::OrderedBinomial => {
            coll::reduce::scratch(forms::Reduce::Ordered, size, (len, 1))
        }
        FixedReduce::Linear
        | FixedReduce::Tree(_)
        | FixedReduce::Halving
        | FixedReduce::SharedHalving => 2 * len,
        FixedReduce::InOrder => 3 * len,
    }
}

/// Brings the reduction of all inputs to the output at `root`, which elsewhere is not touched.
///
/// # Errors
/// Those of the plan.
pub fn run<P: Plan>(
    plan: &mut P,
    place: Place,
    how: FixedReduce,
    root: u32,
    vectors: Vectors,
) -> Result<(), P::Error> {
    use forms::Reduce as Ours;
    match how {
        FixedReduce::Linear => linear(plan, place, root, vectors),
        FixedReduce::Binomial => coll::reduce::run(plan, place, Ours::Binomial, root, vectors),
        FixedReduce::OrderedBinomial => {
            coll::reduce::run(plan, place, Ours::Ordered, root, vectors)
        }
        FixedReduce::Tree(tree) => tree::reduce(plan, place, tree, root, vectors, usize::MAX),
        FixedReduce::InOrder => tree::in_order(plan, place, root, vectors),
        FixedReduce::Halving => halving(plan, place, Pair::ToEven, root, vectors),
        FixedReduce::SharedHalving => halving(plan, place, Pair::Shared, root, vectors),
    }
}

/// The root takes one vector after the other, that of the last rank first.
fn linear<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    vectors: Vectors,
) -> Result<(), P::Error> {
    if place.rank != root {
        plan.send(root, vectors.input)?;
        return plan.wait();
    }
    let (output, coming, last) = (vectors.output, vectors.place(0), place.size - 1);
    let own = if vectors.input == output { vectors.place(1) } else { vectors.input };
    plan.copy(vectors.input, own);
    if root == last {
        plan.copy(own, output);
    } else {
        plan.recv(last, output)?;
        plan.wait()?;
    }
    for rank in (0..last).rev() {
        if rank == root {
            plan.reduce(own, output);
            continue;
        }
        plan.recv(rank, coming)?;
        plan.wait()?;
        plan.reduce(coming, output);
    }
    Ok(())
}

fn halving<P: Plan>(
    plan: &mut P,
    place: Place,
    pair: Pair,
    root: u32,
    vectors: Vectors,
) -> Result<(), P::Error> {
    let fold = Fold::new(place.size, pair);
    let value = if place.rank == root { vectors.output } else { vectors.place(1) };
    let work = Work { value, coming: vectors.place(0), width: vectors.width };
    plan.copy(vectors.input, value);
    if let Some(part) = fold.fold(plan, place, work)? {
        fold.halve(plan, part, work)?;
    }
    plan.phase(1);
    fold.gather(plan, place, root, work)
}
