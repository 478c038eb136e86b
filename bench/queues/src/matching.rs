//! Matching queues: how engines search, what they hold, how long they take.
//!
//! The experiments are those of J. A. Zounmevo's thesis (Queen's University 2014, chapter 4), whose
//! figures stand beside ours. Times are taken with the engines that a communicator gets; counts in
//! a pass of its own, with engines that count.

pub(crate) mod applications;
pub(crate) mod counts;
pub(crate) mod jobs;
mod maps;
pub(crate) mod memory;
mod published;
mod race;
pub(crate) mod single;
pub(crate) mod threshold;
pub(crate) mod trees;
