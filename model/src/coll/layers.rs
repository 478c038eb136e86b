//! Collectives of ranks on several nodes: within each node, among one rank of each, and within each node again.
//!
//! Each layer is an algorithm of its own, on the ranks that take part in it. Where an operation is not commutative,
//! nodes must be [consecutive](Nodes::are_consecutive), so that what a node has combined is of neighbouring ranks.
//! Chains among nodes carry pieces, which do not wait for layers to end (`layers/pieces.rs`). Collectives of blocks, and
//! prefix reductions, have files of their own.

use super::blocks::Blocks;
use super::forms::{Allreduce, Barrier, Bcast, Reduce, ReduceScatter, Tree};
use super::nodes::{Among, Nodes};
use super::plan::{Place, Plan, Space, Span, Vectors};
use super::{allreduce, barrier, bcast, multiply, reduce, reduce_scatter as scattered, scatter};
use crate::stages::Stage;

mod allgather;
mod exchange;
mod pieces;
mod prefix;
#[cfg(test)]
mod tests;
mod trees;

pub use allgather::{allgather, allgather_scratch, allgatherv, allgatherv_scratch};
pub use exchange::{alltoall, alltoall_scratch};
pub use prefix::{scan, scan_scratch, scan_within};
pub use trees::{gather, scatter, scratch as trees_scratch};

/// An algorithm in layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layered<F> {
    /// Within nodes: from one rank to all others of it and back, by itself or down a tree.
    pub within: Tree,
    /// Among the nodes, with one rank of each.
    pub among: F,
}

/// The layers follow each other by phases; an algorithm has fewer than this many.
pub(super) const PHASES: u8 = 8;

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
    if how.among == Bcast::Chain {
        return pieces::bcast(plan, place, nodes, how.within, (root, data));
    }
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
    if how.among == Reduce::Chain {
        return pieces::reduce_scratch(nodes, how.within, (len, width));
    }
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
    if how.among == Reduce::Chain {
        return pieces::reduce(plan, place, nodes, how.within, (root, vectors));
    }
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
struct OfMembers<'a, B>(B, &'a [u32]);

impl<B: Blocks> Blocks for OfMembers<'_, B> {
    fn span(&self, index: u32) -> Span {
        self.0.span(self.1[index as usize])
    }
}

/// Blocks of ranks, or of nodes whose ranks follow each other, as they lie in other memory.
struct Moved<'a, B> {
    blocks: &'a B,
    /// Where they lie: this byte is where the byte `from` was.
    space: Space,
    at: usize,
    from: usize,
    nodes: &'a Nodes,
    /// The ranks of one node, or the nodes.
    members: Option<&'a [u32]>,
}

impl<B: Blocks> Blocks for Moved<'_, B> {
    fn span(&self, index: u32) -> Span {
        let (first, last) = match self.members {
            Some(members) => (members[index as usize], members[index as usize]),
            None => {
                let members = self.nodes.members(index);
                (members[0], members[members.len() - 1])
            }
        };
        let (first, last) = (self.blocks.span(first), self.blocks.span(last));
        let at = self.at + first.at - self.from;
        Span::new(self.space, at, last.at + last.len - first.at)
    }
}

/// A plan whose input lies in scratch, from a byte on.
struct Within<'a, P> {
    plan: &'a mut P,
    input: usize,
}

impl<P> Within<'_, P> {
    fn span(&self, span: Span) -> Span {
        match span.space {
            Space::Input => Span::scratch(self.input + span.at, span.len),
            Space::Output | Space::Scratch => span,
        }
    }
}

impl<P: Plan> Plan for Within<'_, P> {
    type Error = P::Error;

    fn send(&mut self, to: u32, from: Span) -> Result<(), P::Error> {
        self.plan.send(to, self.span(from))
    }

    fn recv(&mut self, from: u32, into: Span) -> Result<(), P::Error> {
        self.plan.recv(from, self.span(into))
    }

    fn wait(&mut self) -> Result<(), P::Error> {
        self.plan.wait()
    }

    fn copy(&mut self, from: Span, into: Span) {
        self.plan.copy(self.span(from), self.span(into));
    }

    fn reduce(&mut self, left: Span, right: Span) {
        self.plan.reduce(self.span(left), self.span(right));
    }

    fn phase(&mut self, phase: u8) {
        self.plan.phase(phase);
    }

    fn track(&mut self, track: u8) -> Result<(), P::Error> {
        self.plan.track(track)
    }

    fn join(&mut self) -> Result<(), P::Error> {
        self.plan.join()
    }
}

/// Where the parts of a scattered reduction are in scratch.
struct Parts {
    /// The sum of the node's vectors, behind the scratch of the algorithm among nodes.
    sum: usize,
    /// The node's part of the result.
    node: usize,
    /// The scratch of the algorithm within nodes.
    within: usize,
    /// All of it.
    len: usize,
}

/// The blocks of nodes in an input that has all of them.
fn blocks_of_nodes<'a, B: Blocks>(place: Place, nodes: &'a Nodes, blocks: &'a B) -> Moved<'a, B> {
    let from = scattered::whole(place, blocks).at;
    Moved { blocks, space: Space::Input, at: 0, from, nodes, members: None }
}

fn parts(nodes: &Nodes, how: Layered<ReduceScatter>, place: Place, blocks: &impl Blocks) -> Parts {
    let whole = scattered::whole(place, blocks);
    let node = Place { rank: nodes.node(place.rank), size: nodes.count() };
    let of_nodes = blocks_of_nodes(place, nodes, blocks);
    let sum = scattered::scratch(how.among, node, &of_nodes);
    let behind = sum + whole.len;
    let within = behind + of_nodes.len(node.rank);
    let len = within + reduce::scratch(reduce_within(how.within), nodes.most(), (whole.len, 1));
    Parts { sum, node: behind, within, len }
}

/// Bytes of scratch that [`reduce_scatter()`] needs for an input that `blocks` cuts without gaps.
pub fn reduce_scatter_scratch(
    nodes: &Nodes,
    how: Layered<ReduceScatter>,
    place: Place,
    blocks: &impl Blocks,
) -> usize {
    parts(nodes, how, place, blocks).len
}

/// Reduces the inputs, which `blocks` cuts without gaps, and brings each rank's block of the result to its output,
/// where nodes are consecutive.
///
/// # Errors
/// Those of the plan.
pub fn reduce_scatter<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    how: Layered<ReduceScatter>,
    blocks: &impl Blocks,
    output: Span,
) -> Result<(), P::Error> {
    let input = scattered::whole(place, blocks);
    let parts = parts(nodes, how, place, blocks);
    let (members, own) = inside(nodes, place.rank);
    let rank = |index: u32| members[index as usize];
    let sum = Span::scratch(parts.sum, input.len);
    // Nothing is cut within nodes, so the width does not count.
    let vectors = Vectors { input, output: sum, width: 1, scratch: parts.within };
    reduce::run(&mut Among::new(plan, 0, rank), own, reduce_within(how.within), 0, vectors)?;
    let node = Place { rank: nodes.node(place.rank), size: nodes.count() };
    let of_nodes = blocks_of_nodes(place, nodes, blocks);
    let result = Span::scratch(parts.node, of_nodes.len(node.rank));
    if own.rank == 0 {
        let mut sums = Within { plan: &mut *plan, input: parts.sum };
        let mut among = Among::new(&mut sums, PHASES, |node| nodes.members(node)[0]);
        scattered::run(&mut among, node, how.among, &of_nodes, result)?;
    }
    let from = blocks.span(members[0]).at;
    let (space, at) = (Space::Scratch, parts.node);
    let of_members = Moved { blocks, space, at, from, nodes, members: Some(members) };
    scatter::linear(&mut Among::new(plan, 2 * PHASES, rank), own, 0, &of_members, output)
}
