//! All-to-alls in layers: the first rank of each node has the blocks of all ranks of it, and exchanges them with those of
//! other nodes: one message for two nodes in place of one for two ranks.
//!
//! ```text
//!   a first rank:  inputs of its ranks ─ sorted by nodes ─ exchanged ─ sorted by ranks ─ outputs of its ranks
//! ```
//! Nodes may be of different sizes, so the algorithm among them must take blocks of different lengths.

use super::super::alltoall as flat;
use super::super::blocks::{Blocks, Even};
use super::super::nodes::{Among, Nodes};
use super::super::plan::{Copies, Place, Plan, Span};
use super::{PHASES, inside};

/// What a first rank has for the other nodes or of them, in their order, `each` bytes for each of their ranks.
struct ByNodes<'a> {
    nodes: &'a Nodes,
    /// Ranks of the nodes in front of each.
    before: &'a [usize],
    at: usize,
    each: usize,
}

impl Blocks for ByNodes<'_> {
    fn span(&self, node: u32) -> Span {
        let ranks = self.nodes.members(node).len();
        Span::scratch(self.at + self.before[node as usize] * self.each, ranks * self.each)
    }
}

/// Bytes of scratch that [`alltoall()`] needs on a rank, for blocks of `block` bytes: a first rank has all blocks of its
/// node twice.
pub fn alltoall_scratch(nodes: &Nodes, place: Place, block: usize) -> usize {
    let (members, own) = inside(nodes, place.rank);
    let all = members.len() * place.size as usize * block;
    if own.rank == 0 { 2 * all } else { 0 }
}

/// Blocks of one length, with so many partners among the nodes at a time.
///
/// # Errors
/// Those of the plan.
pub fn alltoall<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    partners: u32,
    input: Even,
    output: Even,
) -> Result<(), P::Error> {
    let (members, own) = inside(nodes, place.rank);
    let (block, ranks) = (input.len, place.size);
    let of_rank = ranks as usize * block;
    let (all_in, all_out) =
        (Span::new(input.space, 0, of_rank), Span::new(output.space, 0, of_rank));
    if own.rank != 0 {
        plan.send(members[0], all_in)?;
        plan.phase(2 * PHASES);
        plan.recv(members[0], all_out)?;
        return plan.wait();
    }
    // Both have a rank's blocks at its number. The own ones are in the buffers.
    let gathered = |index: usize, rank: u32| match index {
        0 => input.span(rank),
        _ => Span::scratch(index * of_rank + rank as usize * block, block),
    };
    let sorted_at = members.len() * of_rank;
    let for_member = |index: usize| Span::scratch(sorted_at + index * of_rank, of_rank);
    let mut within = Among::new(plan, 0, |index| members[index as usize]);
    for index in 1..own.size {
        within.recv(index, Span::scratch(index as usize * of_rank, of_rank))?;
    }
    within.wait()?;
    let before: Vec<usize> = (0..nodes.count())
        .scan(0, |sum, node| {
            let before = *sum;
            *sum += nodes.members(node).len();
            Some(before)
        })
        .collect();
    let each = members.len() * block;
    let mut copies = Copies::default();
    let mut at = sorted_at;
    for node in 0..nodes.count() {
        for index in 0..members.len() {
            for &rank in nodes.members(node) {
                copies.add(plan, gathered(index, rank), Span::scratch(at, block));
                at += block;
            }
        }
    }
    copies.finish(plan);
    let node = Place { rank: nodes.node(place.rank), size: nodes.count() };
    let blocks = |at| ByNodes { nodes, before: &before, at, each };
    let mut among = Among::new(plan, PHASES, |node| nodes.members(node)[0]);
    flat::staged(&mut among, node, partners, &blocks(sorted_at), &blocks(0))?;
    for index in 0..members.len() {
        let mut copies = Copies::default();
        for node in 0..nodes.count() {
            let came = before[node as usize] * each;
            for (number, &rank) in nodes.members(node).iter().enumerate() {
                let from = Span::scratch(came + number * each + index * block, block);
                let into = match index {
                    0 => output.span(rank),
                    _ => for_member(index).part(rank as usize * block, block),
                };
                copies.add(plan, from, into);
            }
        }
        copies.finish(plan);
    }
    let mut within = Among::new(plan, 2 * PHASES, |index| members[index as usize]);
    for index in 1..own.size {
        within.send(index, for_member(index as usize))?;
    }
    within.wait()
}
