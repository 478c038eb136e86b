//! The algorithms that the tables name.
//!
//! Several numbers of a table can be one algorithm: without segments a pipeline is a chain, and a linear exchange with
//! any number of requests is one with all.

/// See [`allreduce`](super::allreduce).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FixedAllreduce {
    /// Recursive doubling on folded ranks.
    Doubling,
    /// Recursive halving and the same way back, on folded ranks. (Rabenseifner.)
    Halving,
    /// The same, but ranks that are folded share the reduction of their two vectors.
    SharedHalving,
    /// To rank 0 and from it, which deals with each rank itself.
    Linear,
    /// A reduction to rank 0 and a broadcast from it.
    ReduceBcast(FixedReduce, FixedBcast),
    /// Blocks go around a ring twice. There is at least an element for each rank.
    Ring,
}

/// See [`bcast`](super::bcast).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FixedBcast {
    /// The root sends to each.
    Linear,
    /// A binomial tree whose subtrees are ranks in a row, the greatest first.
    Binomial,
    /// Down a tree.
    Tree(FixedTree),
    /// Each half goes down one half of a binary tree, then neighbours swap.
    SplitBinary,
    /// Parts are scattered, then gathered by recursive doubling.
    ScatterDoubling,
    /// Parts are scattered, then gathered around a ring.
    ScatterRing,
}

/// See [`reduce`](super::reduce).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FixedReduce {
    /// The root receives from each, the last rank first.
    Linear,
    /// A binomial tree whose subtrees are ranks in a row, the smallest first.
    Binomial,
    /// The same to rank 0, which passes the result on: for operations that are not commutative.
    OrderedBinomial,
    /// Up a tree.
    Tree(FixedTree),
    /// Up a binary tree whose root is the last rank, in the order of ranks.
    InOrder,
    /// Recursive halving on folded ranks and a binomial gather. (Rabenseifner.)
    Halving,
    /// The same, but ranks that are folded share the reduction of their two vectors.
    SharedHalving,
}

/// The shape of a tree over ranks counted from the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FixedTree {
    /// Each rank has one child.
    Chain,
    /// Each rank has two, which are its number plus one and two widths of its level.
    Binary,
    /// A binomial tree in which a rank's parent lacks its highest bit.
    Highest,
    /// In base k, a rank's parent lacks its lowest digit.
    Nomial(u32),
    /// Each rank has k children in a row, in the order of a heap.
    Heap(u32),
}

/// See [`allgather`](super::allgather).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FixedAllgather {
    /// Recursive doubling. For powers of two.
    Doubling,
    /// As doubling, for any number of ranks.
    Bruck,
    /// Blocks go from rank to rank.
    Ring,
    /// Two blocks are swapped with the left and the right neighbour in turn. For even numbers of ranks.
    Neighbours,
}

/// See [`alltoall`](crate::coll::alltoall).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FixedAlltoall {
    /// In round k, all blocks whose distance has bit k set.
    Bruck,
    /// With so many partners at a time.
    Staged(u32),
}

/// See [`reduce_scatter`](super::reduce_scatter).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FixedReduceScatter {
    /// A reduction to rank 0, which sends each its block.
    ViaRoot(FixedReduce),
    /// Recursive halving on folded ranks, the farthest first.
    Halving,
    /// One partner after the other.
    Pairwise,
    /// Around a ring.
    Ring,
    /// Recursive halving on folded ranks, the nearest first, and an exchange of blocks.
    Butterfly,
    /// Recursive doubling, without the blocks that the sender's side keeps.
    Doubling,
    /// Recursive halving of blocks that were put in another order, the nearest first. For powers of two and blocks of
    /// one length; keeps the order of ranks.
    Ordered,
}

/// See [`barrier`](super::barrier).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FixedBarrier {
    /// All report to rank 0, which releases each.
    Linear,
    /// Recursive doubling on folded ranks.
    Doubling,
    /// In round k, each rank sends to the one 2^k to its right.
    Dissemination,
    /// Up a binomial tree and down again.
    Tree,
}

/// See [`gather`](super::gather).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gather {
    /// Each rank sends to the root.
    Linear,
    /// Each rank sends to the root when that asks it to.
    Asked,
    /// Up a binomial tree.
    Binomial,
}

/// See [`scatter`](crate::coll::scatter).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scatter {
    /// The root sends to each.
    Linear,
    /// Down a binomial tree.
    Binomial,
}
