//! Schedules of all collectives, as data.
//!
//! An algorithm is a function that states to a [`Plan`](plan::Plan), for one rank, what to send, receive, copy and
//! reduce, stage by stage. It knows ranks, block sizes and nothing else. So the same function drives an engine that
//! communicates, a [recorder](record) whose steps are carried out bit by bit, and a [proof](prove), which
//! shows for a number of ranks that each contribution arrives exactly once, in rank order, without deadlock.
//! Which algorithm it is, is decided in [`choice`] alone.
//!
//! Reductions combine contributions in rank order wherever an operation is not declared commutative. Results are the
//! same on all ranks, and in every run.

#![allow(
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "parts of one library: a new algorithm concerns all who match on them"
)]

pub mod accumulate;
pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
pub mod blocks;
pub mod chain;
pub mod choice;
pub mod forms;
pub mod gather;
pub mod layers;
pub mod levels;
pub mod multiply;
pub mod nodes;
pub mod plan;
pub mod price;
pub mod prove;
pub mod record;
pub mod reduce;
pub mod reduce_scatter;
pub mod scan;
pub mod scatter;
pub mod tuned;
pub mod two_trees;
pub mod verify;
pub mod wanted;

#[cfg(test)]
mod tests;
