//! An index of as many dimensions as pay: what the thesis behind [`super::CubeIndex`] leaves as
//! future work (section 7, "dynamic dimensionality and span").
//!
//! ```text
//!   rank / 4 = sum of c_i d^i over n dimensions      n and d by `TreeShape::for_ranks`
//!
//!   node of dimension n-1: an array by c ──► node of dimension n-2 ──► ... ──► leaf of four ranks
//! ```
//! Every dimension is an array, so a search follows n pointers and ends early where a node is
//! missing. Nodes and leaves exist while something is in them; freed ones are used again. A leaf
//! belongs to four ranks, so what is left to scan are their entries: with a leaf for each rank a queue of
//! all ranks would take more memory than a table by rank.
//!
//! Ranks that the communicator does not have share one leaf.

use super::{Leaves, reserve};
use crate::matching::Want;
use crate::matching::count::{Count, QueueKind};
use crate::matching::indexed::{Class, Index, Leaf};
use crate::matching::pool::{END, EntryPool, KEPT};

/// Most dimensions.
const MAX_DIMENSIONS: u32 = 8;

/// log2 of the ranks of a leaf.
const LEAF_BITS: u32 = 2;

/// Dimensions and their span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeShape {
    /// Number of dimensions.
    pub dimensions: u32,
    /// log2 of the span of each.
    pub bits: u32,
}

impl TreeShape {
    /// Ranks that share a leaf.
    pub const LEAF_RANKS: u32 = 1 << LEAF_BITS;

    /// Words in a line of the processor's cache.
    const LINE: u64 = 16;

    /// The shape with the least cost for a communicator of `ranks` ranks.
    ///
    /// The cost of a shape is what an entry pays that is alone on its path: a visit for each
    /// dimension, and the lines of memory that its nodes take, which must be made, wiped and
    /// fetched. With one dimension that is a whole table, with many it is the walk.
    pub fn for_ranks(ranks: u32) -> Self {
        let size_bits =
            (u32::BITS - ranks.saturating_sub(1).leading_zeros()).saturating_sub(LEAF_BITS);
        let shapes = (1..=MAX_DIMENSIONS).map(|dimensions| {
            let bits = size_bits.div_ceil(dimensions).max(1);
            Self { dimensions, bits }
        });
        shapes.min_by_key(Self::cost).expect("there is a shape of one dimension")
    }

    /// The cost in sixteenths of a visit.
    fn cost(&self) -> u64 {
        u64::from(self.dimensions) * (Self::LINE + (1 << self.bits))
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct TreeIndex {
    shape: TreeShape,
    /// The nodes, each `1 << bits` words of children; node 0 is the root.
    nodes: Vec<u32>,
    /// Children of each node.
    used: Vec<u32>,
    free: Vec<u32>,
    leaves: Leaves,
    /// The leaf for ranks outside of the shape.
    others: u32,
}

/// The words that a search has read, one for each dimension that it entered.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreePath {
    words: [u32; MAX_DIMENSIONS as usize],
    entered: u32,
}

impl TreeIndex {
    /// For a communicator of `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self::with_shape(TreeShape::for_ranks(ranks))
    }

    /// With a given shape.
    pub fn with_shape(shape: TreeShape) -> Self {
        Self {
            shape,
            nodes: Vec::new(),
            used: Vec::new(),
            free: Vec::new(),
            leaves: Leaves::default(),
            others: END,
        }
    }

    /// The shape.
    pub const fn shape(&self) -> TreeShape {
        self.shape
    }

    /// Bytes of a node and of a leaf.
    pub const fn bytes(&self) -> (usize, usize) {
        ((4 << self.shape.bits) + 4, size_of::<Leaf>())
    }

    #[inline(always)]
    const fn outside(&self, rank: u32) -> bool {
        let bits = self.shape.dimensions * self.shape.bits + LEAF_BITS;
        bits < u32::BITS && rank >> bits != 0
    }

    fn make_node(&mut self, count: &mut impl Count) -> u32 {
        count.allocated(self.bytes().0);
        if let Some(node) = self.free.pop() {
            return node;
        }
        let node = self.used.len();
        reserve(&mut self.used, 1);
        self.used.push(0);
        reserve(&mut self.nodes, 1 << self.shape.bits);
        self.nodes.resize((node + 1) << self.shape.bits, END);
        // There is space for all when they are freed, which allocates nothing.
        self.free.reserve_exact(self.used.capacity());
        u32::try_from(node).expect("fewer nodes than entries")
    }
}

impl Index for TreeIndex {
    type Path = TreePath;

    const CHAINS: bool = true;
    const RELEASES: bool = true;
    const BREAK_EVEN: u32 = 24;

    #[inline(always)]
    fn class(want: &Want) -> Class {
        if want.source_mask != 0 { Class::Exact } else { Class::Wild }
    }

    #[inline]
    fn find(&self, rank: u32, _: u64, path: &mut TreePath, count: &mut impl Count) -> Option<u32> {
        path.entered = 0;
        if self.outside(rank) {
            count.visit(1);
            return if self.others == END { None } else { Some(self.others) };
        }
        if self.nodes.is_empty() {
            return None;
        }
        let TreeShape { dimensions, bits } = self.shape;
        let mask = (1 << bits) - 1;
        let mut shift = dimensions * bits;
        let rank = rank >> LEAF_BITS;
        let mut node = 0;
        for dimension in 0..dimensions as usize {
            count.visit(1);
            shift -= bits;
            let word = (node << bits) | ((rank >> shift) & mask);
            path.words[dimension & (MAX_DIMENSIONS as usize - 1)] = word;
            path.entered = dimension as u32 + 1;
            node = self.nodes[word as usize];
            if node == END {
                return None;
            }
        }
        Some(node)
    }

    fn insert(
        &mut self,
        _: &mut EntryPool,
        rank: u32,
        _: u64,
        path: &TreePath,
        count: &mut impl Count,
    ) -> u32 {
        count.allocated(size_of::<Leaf>());
        let leaf = self.leaves.make();
        if self.outside(rank) {
            self.others = leaf;
            return leaf;
        }
        let TreeShape { dimensions, bits } = self.shape;
        let mask = (1 << bits) - 1;
        let rank = rank >> LEAF_BITS;
        let mut entered = path.entered;
        let mut word = path.words[(entered.max(1) - 1) as usize];
        if entered == 0 {
            let root = self.make_node(count);
            debug_assert_eq!(root, 0, "the root is made first and never freed");
            word = (rank >> ((dimensions - 1) * bits)) & mask;
            entered = 1;
        }
        while entered < dimensions {
            let node = self.make_node(count);
            self.nodes[word as usize] = node;
            self.used[(word >> bits) as usize] += 1;
            entered += 1;
            word = (node << bits) | ((rank >> ((dimensions - entered) * bits)) & mask);
        }
        self.nodes[word as usize] = leaf;
        self.used[(word >> bits) as usize] += 1;
        leaf
    }

    fn release(&mut self, path: &TreePath, leaf: u32, count: &mut impl Count) {
        self.leaves.drop(leaf);
        count.freed(size_of::<Leaf>());
        if path.entered == 0 {
            self.others = END;
            return;
        }
        for &word in path.words[..path.entered as usize].iter().rev() {
            self.nodes[word as usize] = END;
            let node = word >> self.shape.bits;
            self.used[node as usize] -= 1;
            // The root stays.
            if self.used[node as usize] != 0 || node == 0 {
                break;
            }
            self.free.push(node);
            count.freed(self.bytes().0);
        }
    }

    #[inline(always)]
    fn ring(&self, _: &EntryPool, leaf: u32, queue: QueueKind) -> u32 {
        self.leaves.all[leaf as usize].ring(queue)
    }

    #[inline(always)]
    fn set_ring(&mut self, _: &mut EntryPool, leaf: u32, queue: QueueKind, last: u32) {
        self.leaves.all[leaf as usize].set_ring(queue, last);
    }

    fn each(&self, _: &EntryPool, queue: QueueKind, visit: &mut dyn FnMut(u32)) {
        self.leaves.all.iter().for_each(|leaf| visit(leaf.ring(queue)));
    }

    fn emptied(&mut self, count: &mut impl Count) {
        if self.leaves.all.len() > KEPT || self.nodes.len() > KEPT {
            // Of an empty index the root is left.
            count.freed(self.bytes().0);
            *self = Self::with_shape(self.shape);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_cover_their_ranks_and_grow_with_them() {
        let mut last = 0;
        for ranks in [1, 2, 16, 17, 256, 512, 4096, 65_536, 1 << 20, 1 << 24, u32::MAX] {
            let shape = TreeShape::for_ranks(ranks);
            let covered = 1u128 << (shape.dimensions * shape.bits + LEAF_BITS);
            assert!(covered >= u128::from(ranks), "{shape:?} has no space for {ranks} ranks");
            assert!(shape.dimensions >= last, "{ranks} ranks: {shape:?}");
            last = shape.dimensions;
        }
        assert_eq!(TreeShape::for_ranks(1).dimensions, 1);
    }
}
