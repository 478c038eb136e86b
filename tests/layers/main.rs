//! The whole stack with ranks as threads or in one thread: what only several layers together show.
//! One program; a file below is a module of it.

mod alone;
mod common;
mod far_memory;
mod flow_control;
mod leaving;
mod multiplying;
mod simulate;
mod simulate_crowd;
