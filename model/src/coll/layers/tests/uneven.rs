//! Allgathers in layers of blocks of different lengths, which each rank has placed as it likes.

use super::{WITHIN, holds, shapes};
use crate::coll::blocks::Placed;
use crate::coll::forms::{Allgather, Tree};
use crate::coll::layers::{self, Layered};
use crate::coll::nodes::Nodes;
use crate::coll::plan::Space;
use crate::coll::prove::{PlanProof, layers as prove};
use crate::coll::verify::PlanFlaw;

/// Lengths of blocks, and places of each: one after the other, and in reverse order with gaps.
pub(super) struct Uneven {
    counts: Vec<usize>,
    straight: Vec<usize>,
    scattered: Vec<usize>,
    /// Bytes of the output.
    total: usize,
}

/// The ranks whose blocks are one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Straight {
    All,
    None,
    /// Every third one, so that first ranks of nodes are among either.
    Some,
}

impl Uneven {
    pub(super) fn new(size: u32, len: impl Fn(u32) -> usize) -> Self {
        let counts: Vec<_> = (0..size).map(len).collect();
        let (mut straight, mut scattered) = (Vec::new(), vec![0; counts.len()]);
        let mut at = 2;
        for &len in &counts {
            // An empty block stands anywhere, beyond the output too.
            straight.push(if len == 0 { 1 << 40 } else { at });
            at += len;
        }
        at = 1;
        for (place, len) in scattered.iter_mut().zip(&counts).rev() {
            *place = at;
            at += len + 1;
        }
        Self { counts, straight, scattered, total: at + 2 }
    }

    fn blocks(&self, rank: u32, of: Straight) -> Placed<'_> {
        let is = match of {
            Straight::All => true,
            Straight::None => false,
            Straight::Some => rank % 3 == 1,
        };
        let displacements = if is { &self.straight } else { &self.scattered };
        Placed { space: Space::Output, width: 1, counts: &self.counts, displacements }
    }

    pub(super) fn prove(
        &self,
        nodes: &Nodes,
        how: Layered<Allgather>,
        straight: Straight,
        in_place: bool,
    ) -> Result<PlanProof, PlanFlaw> {
        prove::allgatherv(nodes, how, |rank| self.blocks(rank, straight), self.total, in_place)
    }
}

/// Some blocks are empty.
pub(super) fn some_empty(rank: u32) -> usize {
    (rank as usize * 5 + 2) % 4
}

#[test]
fn uneven_blocks_of_consecutive_nodes() {
    for shape in shapes() {
        let (nodes, size) = (Nodes::new(shape.iter().copied()), shape.len() as u32);
        if !nodes.are_consecutive() {
            continue;
        }
        // Some are empty; those of a whole node are; one rank has all; nobody has anything.
        let lengths: [&dyn Fn(u32) -> usize; 4] = [
            &some_empty,
            &|rank| if nodes.node(rank) == nodes.count() / 2 { 0 } else { rank as usize % 5 },
            &|rank| if rank == size - 1 { 9 } else { 0 },
            &|_| 0,
        ];
        for (among, within) in [Allgather::Bruck, Allgather::Ring, Allgather::Direct]
            .into_iter()
            .flat_map(|among| WITHIN.map(|within| (among, within)))
        {
            let how = Layered { within, among };
            for blocks in lengths.map(|len| Uneven::new(size, len)) {
                for straight in [Straight::All, Straight::None, Straight::Some] {
                    for in_place in [false, true] {
                        let proof = blocks.prove(&nodes, how, straight, in_place);
                        holds(proof, &shape, &(how, &blocks.counts, straight, in_place));
                    }
                }
            }
        }
    }
}

/// Blocks in one piece are received where they belong.
#[test]
fn only_blocks_that_are_not_one_piece_need_scratch() {
    let blocks = Uneven::new(12, some_empty);
    let sum = blocks.counts.iter().sum();
    let how = |among| Layered { within: Tree::Linear, among };
    let scratch = |among, straight| {
        let blocks = blocks.blocks(0, straight);
        layers::allgatherv_scratch(how(among), 12, &blocks, sum)
    };
    assert_eq!(scratch(Allgather::Ring, Straight::All), 0);
    assert_eq!(scratch(Allgather::Ring, Straight::None), sum);
    assert_eq!(scratch(Allgather::Bruck, Straight::None), 2 * sum);
}
