//! The simulated network: one program, a module for each file.

mod conformance;
mod network;
