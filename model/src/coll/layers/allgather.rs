//! Allgathers in layers: the blocks of a node come to its first rank, and those of all go from there to all ranks of it.

use super::super::blocks::{Blocks, Even};
use super::super::forms::Allgather;
use super::super::nodes::{Among, Nodes};
use super::super::plan::{Place, Plan, Span};
use super::super::{allgather as among_nodes, bcast, gather};
use super::{Layered, OfMembers, PHASES, bcast_within, inside};

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
    among_nodes::scratch(how.among, total)
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
        among_nodes::any(&mut among, node, how.among, blocks.span(node.rank), &blocks)?;
    }
    let all = Span::new(output.space, 0, place.size as usize * output.len);
    let mut within = Among::new(plan, 2 * PHASES, rank);
    bcast::run(&mut within, inner, bcast_within(how.within), 0, all)
}
