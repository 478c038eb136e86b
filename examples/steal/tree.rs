//! The work: an unbalanced tree, of which the nodes are to be counted.
//!
//! In the manner of the Unbalanced Tree Search benchmark (S. Olivier and others, LCPC 2006): the root
//! has many children, every other node has `CHILDREN` with a fixed probability and else none. Who a
//! node's children are follows from the node alone, so any rank can go on from any node, and how large
//! a subtree is nobody knows before it was walked.

/// Bytes of a node in memory.
pub(crate) const NODE_BYTES: usize = 8;

/// Children of a node that has some.
const CHILDREN: u64 = 8;

/// A tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    /// Children of the root.
    pub(crate) roots: u64,
    /// How probable children are, in millionths. At 125000 trees are endless.
    pub(crate) branching: u64,
    /// Rounds of hashing for each node: the work that it stands for.
    pub(crate) work: u32,
    pub(crate) seed: u64,
}

/// What was counted. Sums do not depend on the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Count {
    pub(crate) nodes: u64,
    /// The sum of what the work on each node gave.
    pub(crate) sum: u64,
}

impl Count {
    pub(crate) fn add(&mut self, other: Self) {
        self.nodes += other.nodes;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// Spreads the bits of a number (the finalizer of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Tree {
    /// The children of the root from `first` on, `many` of them.
    pub(crate) fn roots(&self, first: u64, many: u64) -> impl Iterator<Item = u64> + use<> {
        let seed = self.seed;
        (first..first + many).map(move |k| mix(seed ^ mix(k + 1)))
    }

    /// Works on a node, counts it and appends its children.
    pub(crate) fn visit(&self, node: u64, count: &mut Count, children: &mut Vec<u64>) {
        let mut result = node;
        for _ in 0..self.work {
            result = mix(result);
        }
        count.add(Count { nodes: 1, sum: result });
        if mix(!node) % 1_000_000 < self.branching {
            children.extend(
                (1..=CHILDREN)
                    .map(|k| mix(node.wrapping_add(k.wrapping_mul(0x9e37_79b9_7f4a_7c15)))),
            );
        }
    }

    /// Walks everything below some nodes.
    pub(crate) fn walk(&self, nodes: impl Iterator<Item = u64>) -> Count {
        let (mut stack, mut count) = (nodes.collect::<Vec<_>>(), Count::default());
        while let Some(node) = stack.pop() {
            self.visit(node, &mut count, &mut stack);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_tree_are_the_whole() {
        let tree = Tree { roots: 300, branching: 115_000, work: 3, seed: 7 };
        let whole = tree.walk(tree.roots(0, 300));
        assert!(whole.nodes > 300, "some roots have children");
        let mut parts = tree.walk(tree.roots(200, 100));
        parts.add(tree.walk(tree.roots(0, 200)));
        assert_eq!(parts, whole);
    }
}
