//! An index of as many dimensions as pay: what the thesis behind [`super::CubeIndex`] leaves as
//! future work (section 7, "dynamic dimensionality and span").
//!
//! ```text
//!   rank = sum of c_i d^i over n dimensions      n and d by `Shape::for_ranks`
//!
//!   node of dimension n-1: an array by c ──► node of dimension n-2 ──► ... ──► leaf of one rank
//! ```
//! Every dimension is an array, so a search follows n pointers and ends early where a node is
//! missing. Nodes and leaves exist while something is in them; freed ones are used again. A leaf
//! belongs to one rank, so what is left to scan are the tags of that rank.
//!
//! Ranks that the communicator does not have share one leaf.

use super::Leaves;
use crate::matching::Want;
use crate::matching::count::Count;
use crate::matching::indexed::{Class, Index, Leaf};
use crate::matching::pool::END;

/// Most dimensions.
const MAX_DIMENSIONS: u32 = 8;

/// Dimensions and their span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of dimensions.
    pub dimensions: u32,
    /// log2 of the span of each.
    pub bits: u32,
}

impl Shape {
    /// Words in a line of the processor's cache.
    const LINE: u64 = 16;

    /// The shape with the least cost for a communicator of `ranks` ranks.
    ///
    /// The cost of a shape is what an entry pays that is alone on its path: a visit for each
    /// dimension, and the lines of memory that its nodes take, which must be made, wiped and
    /// fetched. With one dimension that is a whole table, with many it is the walk.
    pub fn for_ranks(ranks: u32) -> Self {
        let size_bits = u32::BITS - ranks.saturating_sub(1).leading_zeros();
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
    shape: Shape,
    /// The nodes, each `1 << bits` words of children; node 0 is the root.
    nodes: Vec<u32>,
    /// Children of each node.
    used: Vec<u32>,
    free: Vec<u32>,
    leaves: Leaves,
    /// The leaf for ranks outside of the shape.
    others: u32,
}

/// The words that a search has looked into, one for each dimension that it entered.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreePath {
    words: [u32; MAX_DIMENSIONS as usize],
    entered: u32,
}

impl TreeIndex {
    /// For a communicator of `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self::with_shape(Shape::for_ranks(ranks))
    }

    /// With a given shape.
    pub fn with_shape(shape: Shape) -> Self {
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
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Bytes of a node and of a leaf.
    pub const fn bytes(&self) -> (usize, usize) {
        ((4 << self.shape.bits) + 4, size_of::<Leaf>())
    }

    #[inline(always)]
    const fn outside(&self, rank: u32) -> bool {
        let bits = self.shape.dimensions * self.shape.bits;
        bits < u32::BITS && rank >> bits != 0
    }

    fn make_node(&mut self, count: &mut impl Count) -> u32 {
        count.allocated(self.bytes().0);
        if let Some(node) = self.free.pop() {
            return node;
        }
        let node = self.used.len();
        self.used.push(0);
        self.nodes.resize((node + 1) << self.shape.bits, END);
        u32::try_from(node).expect("fewer nodes than entries")
    }
}

impl Index for TreeIndex {
    type Path = TreePath;

    const CHAINS: bool = true;
    const LOOKS: u32 = 24;

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
        let Shape { dimensions, bits } = self.shape;
        let mask = (1 << bits) - 1;
        let mut shift = dimensions * bits;
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

    fn insert(&mut self, rank: u32, _: u64, path: &TreePath, count: &mut impl Count) -> u32 {
        count.allocated(size_of::<Leaf>());
        let leaf = self.leaves.make();
        if self.outside(rank) {
            self.others = leaf;
            return leaf;
        }
        let Shape { dimensions, bits } = self.shape;
        let mask = (1 << bits) - 1;
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
    fn leaf(&self, leaf: u32) -> &Leaf {
        &self.leaves.all[leaf as usize]
    }

    #[inline(always)]
    fn leaf_mut(&mut self, leaf: u32) -> &mut Leaf {
        &mut self.leaves.all[leaf as usize]
    }

    fn each(&self, visit: &mut dyn FnMut(u32)) {
        for (leaf, lists) in self.leaves.all.iter().enumerate() {
            if !lists.is_empty() {
                visit(leaf as u32);
            }
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
            let shape = Shape::for_ranks(ranks);
            let covered = 1u128 << (shape.dimensions * shape.bits);
            assert!(covered >= u128::from(ranks), "{shape:?} has no room for {ranks} ranks");
            assert!(shape.dimensions >= last, "{ranks} ranks: {shape:?}");
            last = shape.dimensions;
        }
        assert_eq!(Shape::for_ranks(1).dimensions, 1);
    }
}
