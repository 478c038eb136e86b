//! Allgathers in layers: the blocks of a node come to its first rank, and those of all go from there to all ranks of it.
//!
//! Between ranks the blocks of a node are one message, and so are those of all. Blocks of one length lie like that in the
//! output. Blocks that the user placed may lie anywhere, at each rank elsewhere: a rank whose blocks are not one piece in
//! the order of ranks has them in scratch until the end. Lengths of messages do not depend on that.

use super::super::blocks::{Blocks, Even, Packed};
use super::super::forms::Allgather;
use super::super::nodes::{Among, Nodes};
use super::super::plan::{Copies, Place, Plan, Span};
use super::super::{allgather as among_nodes, bcast, gather};
use super::{Layered, OfMembers, PHASES, bcast_within, inside};

/// The blocks of each node, whose ranks follow each other, of blocks in the order of ranks without gaps.
struct OfNodes<'a, B>(B, &'a Nodes);

impl<B: Blocks> Blocks for OfNodes<'_, B> {
    fn span(&self, node: u32) -> Span {
        let members = self.1.members(node);
        let (first, last) = (self.0.span(members[0]), self.0.span(members[members.len() - 1]));
        Span::new(first.space, first.at, last.at + last.len - first.at)
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
    let all = Span::new(output.space, 0, place.size as usize * output.len);
    in_order(plan, place, nodes, how, own, (output, all))
}

/// Of blocks in the order of ranks without gaps, all of which are one span.
fn in_order<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    how: Layered<Allgather>,
    own: Span,
    (blocks, all): (impl Blocks + Copy, Span),
) -> Result<(), P::Error> {
    let (members, inner) = inside(nodes, place.rank);
    let rank = |index: u32| members[index as usize];
    let mut within = Among::new(plan, 0, rank);
    gather::linear(&mut within, inner, 0, own, &OfMembers(blocks, members))?;
    if inner.rank == 0 {
        let node = Place { rank: nodes.node(place.rank), size: nodes.count() };
        let blocks = OfNodes(blocks, nodes);
        let mut among = Among::new(plan, PHASES, |node| nodes.members(node)[0]);
        among_nodes::any(&mut among, node, how.among, blocks.span(node.rank), &blocks)?;
    }
    let mut within = Among::new(plan, 2 * PHASES, rank);
    bcast::run(&mut within, inner, bcast_within(how.within), 0, all)
}

/// Where all blocks lie, if that is one piece of memory in the order of ranks. An empty block lies anywhere.
fn one_piece(size: u32, blocks: &impl Blocks) -> Option<Span> {
    let mut all: Option<Span> = None;
    for span in (0..size).map(|rank| blocks.span(rank)).filter(|span| span.len > 0) {
        let piece = all.get_or_insert(Span { len: 0, ..span });
        if (piece.space, piece.at + piece.len) != (span.space, span.at) {
            return None;
        }
        piece.len += span.len;
    }
    Some(all.unwrap_or(Span::EMPTY))
}

/// Bytes of scratch that [`allgatherv()`] needs on a rank for its blocks, of `total` bytes together.
pub fn allgatherv_scratch(
    how: Layered<Allgather>,
    size: u32,
    blocks: &impl Blocks,
    total: usize,
) -> usize {
    let collected = if one_piece(size, blocks).is_some() { 0 } else { total };
    allgather_scratch(how, total) + collected
}

/// The same of blocks of any lengths at any places.
///
/// # Errors
/// Those of the plan.
pub fn allgatherv<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    how: Layered<Allgather>,
    own: Span,
    blocks: &impl Blocks,
) -> Result<(), P::Error> {
    let mut offsets = Vec::with_capacity(place.size as usize + 1);
    let mut total = 0;
    offsets.push(total);
    for rank in 0..place.size {
        total += blocks.len(rank);
        offsets.push(total);
    }
    let straight = one_piece(place.size, blocks);
    let all = straight.unwrap_or_else(|| Span::scratch(allgather_scratch(how, total), total));
    let ordered = Ordered { all, packed: Packed { space: all.space, offsets: &offsets } };
    in_order(plan, place, nodes, how, own, (ordered, all))?;
    if straight.is_none() {
        let mut copies = Copies::default();
        for rank in 0..place.size {
            copies.add(plan, ordered.span(rank), blocks.span(rank));
        }
        copies.finish(plan);
    }
    Ok(())
}

/// Blocks of different lengths without gaps in a span.
#[derive(Clone, Copy)]
struct Ordered<'a> {
    all: Span,
    packed: Packed<'a>,
}

impl Blocks for Ordered<'_> {
    fn span(&self, rank: u32) -> Span {
        let Span { at, len, .. } = self.packed.span(rank);
        self.all.part(at, len)
    }
}
