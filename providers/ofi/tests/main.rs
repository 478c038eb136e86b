//! The transport over the libfabric that is installed: one program, a module for each file.

mod common;
mod conformance;
mod itself;
mod openings;
mod processes;
mod starved;
