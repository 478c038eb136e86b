//! PMI-1, the text protocol between a process manager and the processes it started.
//!
//! Each rank has a stream socket to its manager, inherited as the descriptor `PMI_FD`, and sends
//! one line per request: `cmd=NAME key=value ...`, answered by one line. There is no published
//! standard; what is implemented here is what MPICH's `simple` client and its launcher Hydra
//! exchange, version 1.1. It is not PMI-2 and not PMIx.
//!
//! [`parse`] reads a request and is total: any bytes give a command or an error. [`Server`] is
//! the manager's side without input or output, [`Client`] the rank's side on a descriptor.

mod client;
mod mapping;
mod server;
mod wire;

pub use client::{Client, PmiError};
pub use mapping::{MappingError, NodeMapping};
pub use server::{Server, ServerEvent};
pub(crate) use wire::take_line;
pub use wire::{
    Command, KEY_MAX, LINE_MAX, NAME_MAX, ParseError, SpawnLine, VALUE_MAX, parse, parse_spawn_line,
};
