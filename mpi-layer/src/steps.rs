//! The steps of a collective's plan, as one rank carries them out: the memory that they work on, and the part of a
//! collective in the background that any thread may move on.
//!
//! It names ranks by endpoints and knows no communicator.

pub(crate) mod core;
pub(crate) mod helped;
pub(crate) mod memory;
