//! Collectives of ranks on several nodes: within each node, among one rank of each, and within each node again.
//!
//! Each layer is an algorithm of its own, on the ranks that take part in it. Where an operation is not commutative,
//! nodes must be [consecutive](Nodes::are_consecutive), so that what a node has combined is of neighbouring ranks.

use super::blocks::{Blocks, Even};
use super::forms::{Allgather, Allreduce, Barrier, Bcast, Reduce, Tree};
use super::nodes::{Among, Nodes};
use super::plan::{Place, Plan, Span, Vectors};
use super::{allgather, allreduce, barrier, bcast, gather, multiply, reduce};
use crate::stages::Stage;

#[cfg(test)]
mod tests;

/// An algorithm in layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layered<F> {
    /// Within nodes: from one rank to all others of it and back, by itself or down a tree.
    pub within: Tree,
    /// Among the nodes, with one rank of each.
    pub among: F,
}

/// The layers follow each other by phases; an algorithm has fewer than this many.
const PHASES: u8 = 8;

/// A reduction within a node. Contributions stay in order.
pub const fn reduce_within(how: Tree) -> Reduce {
    match how {
        Tree::Linear => Reduce::Flat,
        Tree::Binomial => Reduce::Ordered,
    }
}

/// A broadcast within a node.
pub const fn bcast_within(how: Tree) -> Bcast {
    match how {
        Tree::Linear => Bcast::Flat,
        Tree::Binomial => Bcast::Binomial,
    }
}

/// A rank among those of its node.
fn inside(nodes: &Nodes, rank: u32) -> (&[u32], Place) {
    let members = nodes.members(nodes.node(rank));
    (members, Place { rank: nodes.index(rank), size: members.len() as u32 })
}

/// The rank of a node that deals with other nodes: its first one, or the root.
fn leader(nodes: &Nodes, node: u32, root: u32) -> u32 {
    if nodes.node(root) == node { root } else { nodes.members(node)[0] }
}

/// No rank leaves before all have entered.
///
/// # Errors
/// Those of the plan.
pub fn barrier<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    how: Barrier,
) -> Result<(), P::Error> {
    let (members, own) = inside(nodes, place.rank);
    if own.rank != 0 {
        plan.send(members[0], Span::EMPTY)?;
        plan.wait()?;
        plan.phase(2 * PHASES);
        plan.recv(members[0], Span::EMPTY)?;
        return plan.wait();
    }
    for &member in &members[1..] {
        plan.recv(member, Span::EMPTY)?;
    }
    plan.wait()?;
    let node = Place { rank: nodes.node(place.rank), size: nodes.count() };
    barrier::run(&mut Among::new(plan, PHASES, |node| nodes.members(node)[0]), node, how)?;
    plan.phase(2 * PHASES);
    for &member in &members[1..] {
        plan.send(member, Span::EMPTY)?;
    }
    plan.wait()
}

/// Brings `data` from `root` to all.
///
/// # Errors
/// Those of the plan.
pub fn bcast<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    how: Layered<Bcast>,
    root: u32,
    data: Span,
) -> Result<(), P::Error> {
    let node = Place { rank: nodes.node(place.rank), size: nodes.count() };
    let first = leader(nodes, node.rank, root);
    if first == place.rank {
        let mut among = Among::new(plan, 0, |node| leader(nodes, node, root));
        bcast::run(&mut among, node, how.among, nodes.node(root), data)?;
    }
    let (members, own) = inside(nodes, place.rank);
    let mut within = Among::new(plan, PHASES, |index| members[index as usize]);
    bcast::run(&mut within, own, bcast_within(how.within), nodes.index(first), data)
}

/// Bytes of scratch that [`reduce()`] needs for vectors of `len` bytes in elements of `width`.
pub fn reduce_scratch(nodes: &Nodes, how: Layered<Reduce>, (len, width): (usize, usize)) -> usize {
    let within = reduce::scratch(reduce_within(how.within), nodes.most(), (len, width));
    len + within.max(reduce::scratch(how.among, nodes.count(), (len, width)))
}

/// Brings the reduction of all inputs to the output at `root`, which elsewhere is not touched.
///
/// # Errors
/// Those of the plan.
pub fn reduce<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    how: Layered<Reduce>,
    root: u32,
    vectors: Vectors,
) -> Result<(), P::Error> {
    let node = Place { rank: nodes.node(place.rank), size: nodes.count() };
    let first = leader(nodes, node.rank, root);
    let (members, own) = inside(nodes, place.rank);
    let of_node = if place.rank == root { vectors.output } else { vectors.place(0) };
    let scratch = vectors.scratch + vectors.len();
    let mut within = Among::new(plan, 0, |index| members[index as usize]);
    let of_members = Vectors { output: of_node, scratch, ..vectors };
    reduce::run(&mut within, own, reduce_within(how.within), nodes.index(first), of_members)?;
    if first != place.rank {
        return Ok(());
    }
    let mut among = Among::new(plan, PHASES, |node| leader(nodes, node, root));
    let of_nodes = Vectors { input: of_node, scratch, ..vectors };
    reduce::run(&mut among, node, how.among, nodes.node(root), of_nodes)
}

/// What the nodes do in an allreduce.
#[derive(Clone, Copy, Debug)]
pub enum AmongNodes<'a> {
    /// One of the forms.
    Form(Allreduce),
    /// Recursive multiplying, with these stages of this rank's node.
    Multiplying(&'a [Stage]),
}

/// Bytes of scratch that [`allreduce()`] needs for vectors of `len` bytes in elements of `width`.
pub fn allreduce_scratch(
    nodes: &Nodes,
    how: Layered<AmongNodes<'_>>,
    (len, width): (usize, usize),
) -> usize {
    let within = reduce::scratch(reduce_within(how.within), nodes.most(), (len, width));
    within.max(match how.among {
        AmongNodes::Form(form) => allreduce::scratch(form, nodes.count(), len),
        AmongNodes::Multiplying(stages) => multiply::scratch(stages, len, width),
    })
}

/// Brings the reduction of all inputs to everybody's output.
///
/// # Errors
/// Those of the plan.
pub fn allreduce<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    how: Layered<AmongNodes<'_>>,
    vectors: Vectors,
) -> Result<(), P::Error> {
    let (members, own) = inside(nodes, place.rank);
    let rank = |index: u32| members[index as usize];
    let mut within = Among::new(plan, 0, rank);
    reduce::run(&mut within, own, reduce_within(how.within), 0, vectors)?;
    if own.rank == 0 {
        let node = Place { rank: nodes.node(place.rank), size: nodes.count() };
        let of_nodes = Vectors { input: vectors.output, ..vectors };
        let mut among = Among::new(plan, PHASES, |node| nodes.members(node)[0]);
        match how.among {
            AmongNodes::Form(form) => allreduce::run(&mut among, node, form, of_nodes)?,
            AmongNodes::Multiplying(stages) => multiply::run(&mut among, stages, of_nodes)?,
        }
    }
    let mut within = Among::new(plan, 2 * PHASES, rank);
    bcast::run(&mut within, own, bcast_within(how.within), 0, vectors.output)
}

/// The blocks of the ranks of one node.
struct OfMembers<'a>(Even, &'a [u32]);

impl Blocks for OfMembers<'_> {
    fn span(&self, index: u32) -> Span {
        self.0.span(self.1[index as usize])
    }
}

/// The blocks of each node, whose ranks follow each other.
struct OfNodes<'a>(Even, &'a Nodes);

impl Blocks for OfNodes<'_> {
    fn span(&self, node: u32) -> Span {
        let Self(Even { space, len }, nodes) = self;
        let members = nodes.members(node);
        Span::new(*space, members[0] as usize * len, members.len() * len)
    }
}

/// Bytes of scratch that [`allgather()`] needs; `total` is the length of all blocks.
pub const fn allgather_scratch(how: Layered<Allgather>, total: usize) -> usize {
    allgather::scratch(how.among, total)
}

/// Blocks of one length, where nodes are consecutive. `own` may be the own block of the output. Nodes have blocks of
/// different lengths together, which the algorithm among them must allow.
///
/// # Errors
/// Those of the plan.
pub fn allgather<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    how: Layered<Allgather>,
    own: Span,
    output: Even,
) -> Result<(), P::Error> {
    let (members, inner) = inside(nodes, place.rank);
    let rank = |index: u32| members[index as usize];
    let mut within = Among::new(plan, 0, rank);
    gather::linear(&mut within, inner, 0, own, &OfMembers(output, members))?;
    if inner.rank == 0 {
        let node = Place { rank: nodes.node(place.rank), size: nodes.count() };
        let blocks = OfNodes(output, nodes);
        let mut among = Among::new(plan, PHASES, |node| nodes.members(node)[0]);
        allgather::any(&mut among, node, how.among, blocks.span(node.rank), &blocks)?;
    }
    let all = Span::new(output.space, 0, place.size as usize * output.len);
    let mut within = Among::new(plan, 2 * PHASES, rank);
    bcast::run(&mut within, inner, bcast_within(how.within), 0, all)
}
