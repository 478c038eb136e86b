//! Collective communication. (MPI: Collective Communication.)
//!
//! An algorithm is a function that tells a [`Plan`](plan::Plan), for one rank, what to send,
//! receive, copy and reduce, stage by stage. It knows ranks, block sizes and nothing else, so the
//! same function drives the [`engine`], which does it, a [`run`] in the background, which does it bit
//! by bit, and the simulator of the tests, which proves for every size that each contribution arrives
//! exactly once, in rank order, without deadlock. Which algorithm it is, is decided in [`choice`] alone. The calls that users make are
//! in [`calls`] and [`reductions`].
//!
//! Reductions always combine contributions in rank order. So results are the same for operations
//! that are merely associative, the same on all ranks, and the same in every run.

pub(crate) mod accumulate;
pub(crate) mod allgather;
pub(crate) mod allreduce;
pub(crate) mod alltoall;
pub(crate) mod arena;
pub(crate) mod barrier;
pub(crate) mod bcast;
pub(crate) mod blocks;
pub(crate) mod calls;
pub(crate) mod choice;
pub(crate) mod engine;
pub(crate) mod gather;
pub(crate) mod plan;
pub(crate) mod raw;
pub(crate) mod record;
pub(crate) mod reduce;
pub(crate) mod reduce_scatter;
pub(crate) mod reductions;
pub(crate) mod run;
pub(crate) mod scan;
pub(crate) mod scatter;
pub(crate) mod shared;
pub(crate) mod spans;

#[cfg(test)]
mod simulator;
#[cfg(test)]
mod tests;
