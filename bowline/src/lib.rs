//! Bowline: a layered communication library in the manner of UCX, with an MPI layer on top.
//!
//! # Quick start
//! ```
//! let sums = bowline::threads(4, |world| {
//!     let mine = [f64::from(world.rank())];
//!     let mut sum = [0.0];
//!     world.allreduce(&mine, &mut sum, bowline::mpi::Sum).expect("all ranks take part");
//!     sum[0]
//! })
//! .expect("four ranks fit into memory");
//! assert_eq!(sums, [6.0; 4]);
//! ```
//! The same closure runs with ranks as processes: a program calls [`init`] and is started by
//! `bowline run -n 4 ./program`, or by another launcher that speaks PMI-1.
//!
//! # Layers
//! [`mpi`] (communicators, point-to-point, collectives) stands on [`ucp`] (protocols), which
//! stands on [`uct`] (the transport contract), which providers implement. This crate is the one
//! place that names providers. A program that wants [`ucp`] itself calls [`join`] in place of
//! [`init`]; [`stack`] puts layers together in other ways.
//!
//! # Thread safety
//! A world and everything made from it belong to one thread. Ranks may be threads ([`threads`]).
//!
//! # Resource cleanup
//! Nothing is left behind when a rank ends, however it ends: memory is anonymous, and peers learn
//! of a death from the launcher.

pub mod checks;
mod choice;
pub mod cm;
pub mod coll_table;
pub mod costs;
mod error;
mod init;
pub mod log;
mod member;
pub mod model_file;
pub mod progress;
mod record;
mod report;
#[cfg(feature = "simulate")]
pub mod simulate;
pub mod stack;
mod threads;
pub mod wait;

pub use bowline_base as base;
pub use bowline_mpi as mpi;
pub use bowline_ucp as ucp;
pub use bowline_uct as uct;
pub use init::{InitError, Launched, init, init_in_job, init_with};
pub use member::{Member, MemberError, join, join_with};
pub use stack::config_from_env;
pub use threads::{ThreadsError, threads, threads_with};

/// The programs of the README, which are compiled and run as they stand there.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
