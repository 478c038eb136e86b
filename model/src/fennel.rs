//! Fennel: a discrete-event simulator of communication. (Thesis, chapter 3.)
//!
//! A [`Program`](program::Program) is a graph of tasks of processes. A [`Machine`](machine::Machine) runs it with a
//! model of the network and a model of computing, and reports every task to [instruments](instrument). It is made to
//! compare algorithms under models, skew and overlap included, and not to foretell what a machine does: there is no
//! congestion unless a model brings it.
//!
//! A collective needs no graph: [`direct`] runs the very steps that the engine carries out, from a [`source`] of them.
//!
//! Programs are also read from JSON (feature `json`, module `file`).
//!
//! Times are in nanoseconds, lengths in bytes.

pub mod direct;
pub mod draw;
pub mod eliminate;
#[cfg(feature = "json")]
pub mod file;
pub mod fitted;
pub mod generate;
pub mod instrument;
#[cfg(feature = "json")]
pub mod job;
pub mod latency;
pub mod machine;
pub mod network;
pub mod nodes;
pub mod priced;
pub mod program;
pub mod random;
pub mod source;
pub mod topology;
