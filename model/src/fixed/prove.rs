//! The proof that each algorithm does what its collective has to, for a number of ranks: that of
//! [`coll`](crate::coll::prove), of these algorithms.

use super::forms::{
    FixedAllgather, FixedAllreduce, FixedBarrier, FixedBcast, FixedReduce, FixedReduceScatter,
    Gather,
};
use super::{allgather, allreduce, barrier, bcast, gather, reduce, reduce_scatter};
use crate::coll::blocks::{Blocks, Even, Packed};
use crate::coll::plan::{Space, Span};
use crate::coll::prove::{
    PlanProof, any_allgather, any_allreduce, any_barrier, any_bcast, any_gather, any_reduce,
    any_reduce_scatter,
};
use crate::coll::verify::{PlanFlaw, record};

/// Barriers.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn barrier(size: u32, how: FixedBarrier) -> Result<PlanProof, PlanFlaw> {
    any_barrier(record(size, |plan, place| barrier::run(plan, place, how))?)
}

/// Broadcasts of `len` bytes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn bcast(size: u32, how: FixedBcast, root: u32, len: usize) -> Result<PlanProof, PlanFlaw> {
    any_bcast(size, root, len, |plan, place| bcast::run(plan, place, how, root, Span::output(len)))
}

/// Reductions of vectors of `len` bytes in elements of `width`, in the order of ranks if `ordered`.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn reduce(
    size: u32,
    how: FixedReduce,
    root: u32,
    vector: (usize, usize),
    ordered: bool,
) -> Result<PlanProof, PlanFlaw> {
    let scratch = reduce::scratch(how, size, vector.0);
    any_reduce(size, root, vector, (scratch, ordered), |plan, place, vectors| {
        reduce::run(plan, place, how, root, vectors)
    })
}

/// Allreduces of vectors of `len` bytes in elements of `width`, in the order of ranks if `ordered`.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn allreduce(
    size: u32,
    how: FixedAllreduce,
    (len, width): (usize, usize),
    in_place: bool,
    ordered: bool,
) -> Result<PlanProof, PlanFlaw> {
    let scratch = |_| allreduce::scratch(how, size, len);
    any_allreduce(size, (len, width), in_place, ordered, scratch, |plan, place, vectors| {
        allreduce::run(plan, place, how, vectors)
    })
}

/// Allgathers of blocks of `len` bytes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn allgather(
    size: u32,
    how: FixedAllgather,
    len: usize,
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let blocks = Even { space: Space::Output, len };
    let total = len * size as usize;
    let scratch = allgather::scratch(how, total);
    any_allgather(size, in_place, total, &blocks, scratch, |plan, place, own| {
        allgather::run(plan, place, how, own, blocks)
    })
}

/// Gathers of blocks of `len` bytes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn gather(size: u32, how: Gather, root: u32, len: usize) -> Result<PlanProof, PlanFlaw> {
    let blocks = Even { space: Space::Output, len };
    let (total, scratch) = (len * size as usize, |_| gather::scratch(how, size, len));
    any_gather(size, (root, false), total, &blocks, scratch, |plan, place, own| {
        gather::run(plan, place, how, root, own, blocks)
    })
}

/// Reductions of vectors that are cut at these offsets, of which there is one more than ranks. In the order of ranks
/// if `ordered`.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn reduce_scatter(
    offsets: &[usize],
    how: FixedReduceScatter,
    ordered: bool,
) -> Result<PlanProof, PlanFlaw> {
    let size = offsets.len() as u32 - 1;
    let blocks = Packed { space: Space::Input, offsets };
    let steps = record(size, |plan, place| {
        reduce_scatter::run(plan, place, how, &blocks, Span::output(blocks.len(place.rank)))
    })?;
    let total = offsets[size as usize];
    let scratch = |rank| reduce_scatter::scratch(how, size, total, blocks.len(rank));
    any_reduce_scatter(steps, &blocks, ordered, scratch)
}
