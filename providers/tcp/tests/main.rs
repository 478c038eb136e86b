//! The transport over sockets: one program, a module for each file.

mod conformance;
mod processes;
