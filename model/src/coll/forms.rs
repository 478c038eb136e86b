//! The forms of each collective: one for each algorithm that carries it out.

/// See [`barrier`](super::barrier).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// In round k, each rank sends to the one 2^k to its right.
    Dissemination,
    /// All report to rank 0, which releases all.
    Flat,
}

/// See [`bcast`](super::bcast).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bcast {
    /// The root sends to everybody.
    Flat,
    /// Down a binomial tree.
    Binomial,
    /// The root's data is scattered, and its parts gathered by all.
    ScatterAllgather,
    /// From rank to rank, in pieces.
    Chain,
}

/// See [`reduce`](super::reduce).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// Everybody sends to the root.
    Flat,
    /// Up a binomial tree. For commutative operations, or root 0.
    Binomial,
    /// Up a binomial tree to rank 0, which passes the result to the root.
    Ordered,
    /// Recursive halving, and a gather.
    Halving,
}

/// See [`allreduce`](super::allreduce).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allreduce {
    /// Recursive doubling.
    Doubling,
    /// Recursive halving, and the same way back.
    Halving,
    /// A reduction and a broadcast, in both of which rank 0 deals with all others itself.
    Flat,
    /// A reduction and a broadcast.
    ReduceBcast,
}

/// See [`gather`](super::gather) and [`scatter`](super::scatter).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tree {
    /// The root deals with all others itself.
    Linear,
    /// A binomial tree.
    Binomial,
}

/// See [`allgather`](super::allgather).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allgather {
    /// Recursive doubling. For powers of two and even blocks.
    Doubling,
    /// As doubling, counted from the own rank, for any number of ranks.
    Bruck,
    /// Blocks go from rank to rank.
    Ring,
    /// Everybody sends to everybody.
    Direct,
    /// A gather and a broadcast. For even blocks.
    GatherBcast,
}

/// See [`alltoall`](super::alltoall).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alltoall {
    /// In round k, all blocks whose distance has bit k set. For even blocks.
    Bruck,
    /// With so many partners at a time.
    Staged(u32),
}

/// See [`reduce_scatter`](super::reduce_scatter).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceScatter {
    /// A reduction to rank 0, which scatters the result.
    ViaRoot,
    /// Recursive halving. For powers of two and commutative operations.
    Halving,
    /// One partner after the other. For commutative operations.
    Pairwise,
    /// Everybody sends to everybody.
    Direct,
}

/// See [`scan`](super::scan).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scan {
    /// In round k, ranks that differ in bit k swap.
    Doubling,
    /// From rank to rank.
    Chain,
}
