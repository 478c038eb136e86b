//! Proofs of algorithms in layers.

use super::*;
use crate::coll::layers::{self, AmongNodes, Layered};
use crate::coll::nodes::Nodes;
use crate::coll::reduce_scatter::allows;

/// Barriers of `size` ranks: each of up to 64 is tried as the one that never comes, and three of more.
///
/// # Errors
/// The first [`Flaw`].
pub fn barrier(nodes: &Nodes, size: u32, how: Barrier) -> Result<Proof, Flaw> {
    let all = record(size, |plan, place| layers::barrier(plan, place, nodes, how))?;
    if size > 64 {
        return any_barrier(all);
    }
    for absent in (0..size).filter(|_| size > 1) {
        let mut others = all.clone();
        others[absent as usize] = Steps::default();
        match follow(others, |_, _| Spaces::default()) {
            Err(Flaw::Deadlock { ranks, .. }) if ranks == size - 1 => {}
            _ => return Err(Flaw::Wrong { rank: absent, at: 0 }),
        }
    }
    follow(all, |_, _| Spaces::default()).map(proof)
}

/// Broadcasts of `len` bytes to `size` ranks.
///
/// # Errors
/// The first [`Flaw`].
pub fn bcast(
    nodes: &Nodes,
    size: u32,
    how: Layered<Bcast>,
    root: u32,
    len: usize,
) -> Result<Proof, Flaw> {
    let algorithm = |plan: &mut Recorder<_>, place| {
        layers::bcast(plan, place, nodes, how, root, Span::output(len))
    };
    let outcome = follow(record(size, algorithm)?, |rank, _| Spaces {
        output: if rank == root { Memory::of(&[data(0, len)]) } else { Memory::new(len) },
        ..Spaces::default()
    })?;
    (0..size).try_for_each(|rank| expect(&outcome, rank, (0, len), 0, &Of::Data))?;
    Ok(proof(outcome))
}

/// Reductions of vectors of `len` bytes, in the order of ranks where nodes allow it.
///
/// # Errors
/// The first [`Flaw`].
pub fn reduce(
    nodes: &Nodes,
    size: u32,
    how: Layered<Reduce>,
    root: u32,
    (len, width): (usize, usize),
) -> Result<Proof, Flaw> {
    let vectors = Vectors { input: Span::input(len), output: Span::output(len), width, scratch: 0 };
    let algorithm =
        |plan: &mut Recorder<_>, place| layers::reduce(plan, place, nodes, how, root, vectors);
    let outcome = follow(record(size, algorithm)?, |rank, contributions| Spaces {
        input: contribution(rank, len, contributions),
        output: Memory::new(if rank == root { len } else { 0 }),
        scratch: layers::reduce_scratch(nodes, how, (len, width)),
    })?;
    let ordered = nodes.are_consecutive() && how.among.keeps_order();
    expect(&outcome, root, (0, len), 0, &Of::new(0..size, ordered))?;
    Ok(proof(outcome))
}

/// Allreduces of vectors of `len` bytes, in the order of ranks where nodes allow it.
///
/// # Errors
/// The first [`Flaw`].
pub fn allreduce(
    nodes: &Nodes,
    size: u32,
    how: Layered<Allreduce>,
    vector: (usize, usize),
    in_place: bool,
) -> Result<Proof, Flaw> {
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
/// The first [`Flaw`].
pub fn multiplying(
    nodes: &Nodes,
    size: u32,
    (within, schedule): (Tree, &Schedule),
    len: usize,
) -> Result<Proof, Flaw> {
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
/// The first [`Flaw`].
pub fn allgather(
    nodes: &Nodes,
    size: u32,
    how: Layered<Allgather>,
    len: usize,
    in_place: bool,
) -> Result<Proof, Flaw> {
    let blocks = Even { space: Space::Output, len };
    let own = |rank| if in_place { blocks.span(rank) } else { Span::input(len) };
    let plan = |plan: &mut Recorder<_>, place: Place| {
        layers::allgather(plan, place, nodes, how, own(place.rank), blocks)
    };
    let total = len * size as usize;
    let scratch = layers::allgather_scratch(how, total);
    any_allgather(record(size, plan)?, total, scratch, &blocks, in_place)
}

/// Reductions whose result is scattered, with blocks that `offsets` has, in the order of ranks where the algorithm among
/// nodes keeps it.
///
/// # Errors
/// The first [`Flaw`].
pub fn reduce_scatter(
    nodes: &Nodes,
    how: Layered<ReduceScatter>,
    offsets: &[usize],
) -> Result<Proof, Flaw> {
    let (size, len) = (offsets.len() as u32 - 1, offsets[offsets.len() - 1]);
    let blocks = Packed { space: Space::Input, offsets };
    let algorithm = |plan: &mut Recorder<_>, place: Place| {
        let own = Span::output(blocks.len(place.rank));
        layers::reduce_scatter(plan, place, nodes, how, &blocks, own)
    };
    let scratch = (0..size)
        .map(|rank| layers::reduce_scatter_scratch(nodes, how, Place { rank, size }, &blocks))
        .collect::<Vec<_>>();
    let outcome = follow(record(size, algorithm)?, |rank, contributions| Spaces {
        input: contribution(rank, len, contributions),
        output: Memory::new(blocks.len(rank)),
        scratch: scratch[rank as usize],
    })?;
    let ordered = allows(how.among, nodes.count(), false);
    for rank in 0..size {
        let block = blocks.span(rank);
        expect(&outcome, rank, (0, block.len), block.at as u64, &Of::new(0..size, ordered))?;
    }
    Ok(proof(outcome))
}

/// Gathers of blocks of `len` bytes each.
///
/// # Errors
/// The first [`Flaw`].
pub fn gather(
    nodes: &Nodes,
    size: u32,
    how: Layered<Tree>,
    root: u32,
    len: usize,
) -> Result<Proof, Flaw> {
    let blocks = Even { space: Space::Output, len };
    let plan = |plan: &mut Recorder<_>, place| {
        layers::gather(plan, place, nodes, how, root, Span::input(len), blocks)
    };
    let scratch = |rank| layers::trees_scratch(nodes, how, Place { rank, size }, root, len);
    any_gather(record(size, plan)?, root, len * size as usize, &blocks, scratch)
}

/// Scatters of blocks of `len` bytes each.
///
/// # Errors
/// The first [`Flaw`].
pub fn scatter(
    nodes: &Nodes,
    size: u32,
    how: Layered<Tree>,
    root: u32,
    len: usize,
) -> Result<Proof, Flaw> {
    let blocks = Even { space: Space::Input, len };
    let plan = |plan: &mut Recorder<_>, place| {
        layers::scatter(plan, place, nodes, how, root, blocks, Span::output(len))
    };
    let scratch = |rank| layers::trees_scratch(nodes, how, Place { rank, size }, root, len);
    any_scatter(record(size, plan)?, root, len * size as usize, &blocks, scratch)
}

/// All-to-alls of blocks of `len` bytes each, with so many partners among nodes.
///
/// # Errors
/// The first [`Flaw`].
pub fn alltoall(nodes: &Nodes, size: u32, partners: u32, len: usize) -> Result<Proof, Flaw> {
    let (from, into) = (Even { space: Space::Input, len }, Even { space: Space::Output, len });
    let plan =
        |plan: &mut Recorder<_>, place| layers::alltoall(plan, place, nodes, partners, from, into);
    let scratch = |rank| layers::alltoall_scratch(nodes, Place { rank, size }, len);
    let total = len * size as usize;
    any_alltoall(record(size, plan)?, total, total, scratch, |_| (from, into))
}

/// Prefix reductions of vectors of `len` bytes.
///
/// # Errors
/// The first [`Flaw`].
pub fn scan(
    nodes: &Nodes,
    size: u32,
    how: Layered<Scan>,
    exclusive: bool,
    len: usize,
) -> Result<Proof, Flaw> {
    let vectors = (Span::input(len), Span::output(len));
    let plan =
        |plan: &mut Recorder<_>, place| layers::scan(plan, place, nodes, how, exclusive, vectors);
    any_scan(record(size, plan)?, exclusive, len, layers::scan_scratch(how, len))
}
