//! The `bowline` command as processes: its arguments, its output, its exit codes.

mod collectives;
mod common;
mod demo;
mod fennel;
mod hosts;
mod info;
mod model;
mod mpiexec;
mod output;
mod perf;
mod protocols;
mod receive_queues;
mod replay;
mod run;
mod settings;
