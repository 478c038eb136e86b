//! Proofs of algorithms in layers.

use super::*;
use crate::coll::layers::{self, AmongNodes, Layered};
use crate::coll::nodes::Nodes;
use crate::coll::reduce_scatter::allows;

/// Barriers of `size` ranks: each of up to 64 is tried as the one that never comes, and three of more.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn barrier(nodes: &Nodes, size: u32, how: Barrier) -> Result<PlanProof, PlanFlaw> {
    let all = record(size, |plan, place| layers::barrier(plan, place, nodes, how))?;
    if size > 64 { any_barrier(all) } else { barrier_without(all, 0..size) }
}

/// Broadcasts of `len` bytes to `size` ranks.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn bcast(
    nodes: &Nodes,
    size: u32,
    how: Layered<Bcast>,
    root: u32,
    len: usize,
) -> Result<PlanProof, PlanFlaw> {
    any_bcast(size, root, len, |plan, place| {
        layers::bcast(plan, place, nodes, how, root, Span::output(len))
    })
}

/// Reductions of vectors of `len` bytes, in the order of ranks where nodes allow it.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn reduce(
    nodes: &Nodes,
    size: u32,
    how: Layered<Reduce>,
    root: u32,
    vector: (usize, usize),
) -> Result<PlanProof, PlanFlaw> {
    let scratch = layers::reduce_scratch(nodes, how, vector);
    let ordered = nodes.are_consecutive() && how.among.keeps_order();
    any_reduce(size, root, vector, (scratch, ordered), |plan, place, vectors| {
        layers::reduce(plan, place, nodes, how, root, vectors)
    })
}

/// Allreduces of vectors of `len` bytes, in the order of ranks where nodes allow it.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn allreduce(
    nodes: &Nodes,
    size: u32,
    how: Layered<Allreduce>,
    vector: (usize, usize),
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let how = Layered { within: how.within, among: AmongNodes::Form(how.among) };
    let scratch = |_| layers::allreduce_scratch(nodes, how, vector);
    let ordered = nodes.are_consecutive();
    any_allreduce(size, vector, in_place, ordered, scratch, |plan, place, vectors| {
        layers::allreduce(plan, place, nodes, how, vectors)
    })
}

/// The same with recursive multiplying among the nodes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn multiplying(
    nodes: &Nodes,
    size: u32,
    (within, schedule): (Tree, &Schedule),
    len: usize,
) -> Result<PlanProof, PlanFlaw> {
    let stages: Vec<_> = (0..nodes.count()).map(|node| schedule.stages(node)).collect();
    let how = |rank| {
        let among = AmongNodes::Multiplying(&stages[nodes.node(rank) as usize]);
        Layered { within, among }
    };
    let ordered = nodes.are_consecutive() && schedule.keeps_order();
    let scratch = |rank| layers::allreduce_scratch(nodes, how(rank), (len, 1));
    any_allreduce(size, (len, 1), false, ordered, scratch, |plan, place, vectors| {
        layers::allreduce(plan, place, nodes, how(place.rank), vectors)
    })
}

/// Allgathers of blocks of `len` bytes each.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn allgather(
    nodes: &Nodes,
    size: u32,
    how: Layered<Allgather>,
    len: usize,
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let blocks = Even { space: Space::Output, len };
    let total = len * size as usize;
    let scratch = layers::allgather_scratch(how, total);
    any_allgather(size, in_place, total, &blocks, scratch, |plan, place, own| {
        layers::allgather(plan, place, nodes, how, own, blocks)
    })
}

/// Allgathers of blocks that each rank has placed in `total` bytes, as `blocks` says of it.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn allgatherv<'a>(
    nodes: &Nodes,
    how: Layered<Allgather>,
    blocks: impl Fn(u32) -> Placed<'a>,
    total: usize,
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let counts = blocks(0).counts;
    let (size, len) = (counts.len() as u32, counts.iter().sum::<usize>() * blocks(0).width);
    let scratch = |rank| layers::allgatherv_scratch(how, size, &blocks(rank), len);
    any_allgatherv(size, in_place, total, &blocks, scratch, |plan, place, own| {
        layers::allgatherv(plan, place, nodes, how, own, &blocks(place.rank))
    })
}

/// Reductions whose result is scattered, with blocks that `offsets` has, in the order of ranks where the algorithm among
/// nodes keeps it.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn reduce_scatter(
    nodes: &Nodes,
    how: Layered<ReduceScatter>,
    offsets: &[usize],
) -> Result<PlanProof, PlanFlaw> {
    let size = offsets.len() as u32 - 1;
    let blocks = Packed { space: Space::Input, offsets };
    let algorithm = |plan: &mut PlanRecorder<_>, place: Place| {
        let own = Span::output(blocks.len(place.rank));
        layers::reduce_scatter(plan, place, nodes, how, &blocks, own)
    };
    let scratch = |rank| layers::reduce_scatter_scratch(nodes, how, Place { rank, size }, &blocks);
    let ordered = allows(how.among, nodes.count(), false);
    any_reduce_scatter(record(size, algorithm)?, &blocks, ordered, scratch)
}

/// Gathers of blocks of `len` bytes each. In place, the root's block is where it belongs already.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn gather(
    nodes: &Nodes,
    size: u32,
    how: Layered<Tree>,
    root: u32,
    len: usize,
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let blocks = Even { space: Space::Output, len };
    let scratch = |rank| layers::trees_scratch(nodes, how, Place { rank, size }, root, len);
    let total = len * size as usize;
    any_gather(size, (root, in_place), total, &blocks, scratch, |plan, place, own| {
        layers::gather(plan, place, nodes, how, root, own, blocks)
    })
}

/// Scatters of blocks of `len` bytes each. In place, the root's block stays in its input, which no step may write: that
/// is for [`Tree::Linear`] within nodes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn scatter(
    nodes: &Nodes,
    size: u32,
    how: Layered<Tree>,
    root: u32,
    len: usize,
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let blocks = Even { space: Space::Input, len };
    let scratch = |rank| layers::trees_scratch(nodes, how, Place { rank, size }, root, len);
    let total = len * size as usize;
    any_scatter(size, (root, in_place), total, &blocks, scratch, |plan, place, own| {
        layers::scatter(plan, place, nodes, how, root, blocks, own)
    })
}

/// All-to-alls of blocks of `len` bytes each, with so many partners among nodes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn alltoall(
    nodes: &Nodes,
    size: u32,
    partners: u32,
    len: usize,
) -> Result<PlanProof, PlanFlaw> {
    let (from, into) = (Even { space: Space::Input, len }, Even { space: Space::Output, len });
    let plan = |plan: &mut PlanRecorder<_>, place| {
        layers::alltoall(plan, place, nodes, partners, from, into)
    };
    let scratch = |rank| layers::alltoall_scratch(nodes, Place { rank, size }, len);
    let total = len * size as usize;
    any_alltoall(record(size, plan)?, total, total, scratch, |_| (from, into))
}

/// Prefix reductions of vectors of `len` bytes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn scan(
    nodes: &Nodes,
    size: u32,
    how: Layered<Scan>,
    exclusive: bool,
    len: usize,
) -> Result<PlanProof, PlanFlaw> {
    let vectors = (Span::input(len), Span::output(len));
    let plan = |plan: &mut PlanRecorder<_>, place| {
        layers::scan(plan, place, nodes, how, exclusive, vectors)
    };
    any_scan(record(size, plan)?, exclusive, len, layers::scan_scratch(how, len))
}
