//! Receive queues: what a message costs on its way into one, and what the queues hold.
//!
//! The experiments are those of M. Rüfenacht's thesis (Edinburgh 2020, chapter 6): latency, memory
//! by the number of peers, and many to one.

pub(crate) mod all_to_all;
mod forms;
pub(crate) mod lanes;
pub(crate) mod latency;
mod leaders;
mod locked;
mod locked_lane;
pub(crate) mod many;
pub(crate) mod memory;
mod metered;
pub(crate) mod network;
pub(crate) mod processes;
pub(crate) mod threads;
