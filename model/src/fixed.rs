//! What the two most used open implementations of MPI choose by default, and the algorithms that they choose among.
//!
//! Both choose by tables of numbers: a number of ranks and a length name an algorithm, whatever the network costs. The
//! tables of [`mpich`] (MPICH 5.0.1) and [`open_mpi`] (Open MPI 5.0.10) are facts, stated here in this project's own
//! words; the algorithms are written against [`Plan`](crate::coll::plan::Plan), so that the simulator runs them beside
//! those of [`coll`](crate::coll) under one model. An algorithm that `coll` has is that one here too.
//!
//! This is for comparison only: nothing that communicates uses it. What an implementation does beside messages (its
//! protocols, its copies, its buffers) is not here.

#![allow(
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "a closed set: two libraries at one version each"
)]

pub mod allgather;
pub mod allreduce;
pub mod barrier;
pub mod bcast;
pub mod composed;
mod fold;
pub mod forms;
pub mod gather;
pub mod mpich;
pub mod open_mpi;
pub mod prove;
pub mod reduce;
pub mod reduce_scatter;
pub mod simulate;
pub mod tree;

/// What both libraries choose by: a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedCall {
    /// Ranks of the communicator, at least 1.
    pub ranks: u32,
    /// Bytes of a rank's vector for allreduce, bcast, reduce and reduce_scatter; of a rank's block for the others.
    pub bytes: usize,
    /// Bytes of an element, at least 1.
    pub width: usize,
    /// Whether the operation is commutative.
    pub commutative: bool,
}

impl FixedCall {
    /// A commutative operation on elements of 8 bytes.
    pub const fn doubles(ranks: u32, bytes: usize) -> Self {
        Self { ranks, bytes, width: 8, commutative: true }
    }

    /// The same on another number of ranks.
    pub const fn on(self, ranks: u32) -> Self {
        Self { ranks, ..self }
    }

    /// The same with other bytes.
    pub const fn of(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// Elements.
    pub const fn count(self) -> usize {
        self.bytes / self.width
    }

    /// The greatest power of two that is not more than the number of ranks.
    pub const fn power(self) -> u32 {
        1 << self.ranks.ilog2()
    }

    /// Whether there is an element for each rank of that power of two.
    const fn cuttable(self) -> bool {
        self.count() >= self.power() as usize
    }

    /// Bytes of the blocks of all ranks.
    const fn total(self) -> usize {
        self.bytes.saturating_mul(self.ranks as usize)
    }
}

#[cfg(test)]
mod tests;
