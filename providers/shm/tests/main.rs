//! The transport over shared memory: one program, a module for each file.

mod common;
mod conformance;
mod messages;
mod one_sided;
