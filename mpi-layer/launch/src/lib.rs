//! Bowline's process manager: it starts the ranks of a job, lets them find each other, and ends
//! them together.
//!
//! Three parts that never run in the same process:
//!
//! - [`run`] is the launcher: it reserves the node's memory, starts the ranks, answers their
//!   PMI-1 requests, marks the dead, ends the job and leaves nothing behind.
//! - [`agent`] does that on each host where a job runs on several, for the launcher.
//! - [`bootstrap`] is what a rank calls first: it finds out who the rank is, under `bowline run`,
//!   under another PMI-1 process manager (Hydra), or alone.
//!
//! [`protocol`] is what launcher and agents say to each other. [`pmi`] is the wire protocol of ranks, usable with programs and launchers of others.
//!
//! ```no_run
//! use bowline_launch::run::{RunOptions, run};
//!
//! let mut options = RunOptions::new(4, "./simulation");
//! options.label = true;
//! let report = run(&options)?;
//! std::process::exit(report.code);
//! # Ok::<(), bowline_launch::run::LaunchError>(())
//! ```
//!
//! It parses no command line and knows no transport: the size of a rank's area is a number that
//! the caller got from its provider.

pub mod agent;
pub mod bootstrap;
pub mod pmi;
pub mod protocol;
pub mod run;
