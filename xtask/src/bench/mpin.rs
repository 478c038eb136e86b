//! Receiver-initiated messages beside what was published about them (P. Gu, two-sided MPI over pure remote
//! writes, University of British Columbia, 2000): latency and rate as quotients of the bare put's in the same
//! run, receives from any source with 1 to 4 senders, and a master that hands out messages of 10 to 16 KB.
//!
//! What is compared is measured once in each round, every round begins with another one, and a figure is the median
//! over the rounds of the medians within; a quotient is the median of the quotients within a round. Times depend
//! on the machine and never fail a run. Whether messages were announced does not, and is counted.

mod latency;
mod programs;
mod report;

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use super::output;
use crate::workspace::Workspace;

/// What to measure and where to put it.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Fewer rounds and sizes, and no guest
    #[arg(long)]
    quick: bool,
    /// Only these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<Part>,
    /// Over these, of latency and rate [default: all, with --quick all but the guest]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAMES")]
    networks: Vec<latency::Network>,
    /// Where to write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A part of the measurements.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// One way and in windows, 4 bytes to 8 KB, divided by a put
    Latency,
    /// Receives from any source
    Any,
    /// A master and its workers
    Master,
}

/// What was found.
#[derive(Debug, Default, Serialize)]
struct Findings {
    transfers: Vec<latency::Row>,
    programs: Vec<programs::Row>,
    /// What was left out, and why.
    missing: Vec<String>,
}

/// How messages of Bowline's travel, by settings: nothing is offered, so that what is not written to an
/// announced receive is eager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Eager,
    ReceiverInitiated,
    /// So are receives from any source, for which senders raise flags.
    Flags,
}

impl Manner {
    const fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Eager => &[("BOWLINE_RNDV_THRESHOLD", "1m")],
            Self::ReceiverInitiated => &[
                ("BOWLINE_RNDV_THRESHOLD", "1m"),
                ("BOWLINE_RNDV_SCHEME", "rtr"),
                ("BOWLINE_RTR_MIN", "1"),
            ],
            Self::Flags => &[
                ("BOWLINE_RNDV_THRESHOLD", "1m"),
                ("BOWLINE_RNDV_SCHEME", "rtr"),
                ("BOWLINE_RTR_MIN", "1"),
                ("BOWLINE_ANY_SOURCE", "flags"),
            ],
        }
    }
}

/// Measures and shows.
///
/// # Errors
/// When something cannot be built, or Bowline's own programs fail.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if let Some(path) = &options.json {
        output::check_place(path)?;
    }
    let wanted = |part| options.only.is_empty() || options.only.contains(&part);
    let mut findings = Findings::default();
    if wanted(Part::Latency) {
        latency::measure(workspace, options, &mut findings)?;
    }
    if wanted(Part::Any) || wanted(Part::Master) {
        let programs = programs::Programs::build(workspace, &mut findings.missing)?;
        let rounds = if options.quick { 3 } else { 7 };
        if wanted(Part::Any) {
            programs.any(options.quick, rounds, &mut findings);
        }
        if wanted(Part::Master) {
            programs.master(options.quick, rounds, &mut findings);
        }
    }
    for missing in &findings.missing {
        println!("left out: {missing}");
    }
    if let Some(path) = &options.json {
        output::write_json(path, &findings)?;
    }
    Ok(())
}

/// The median.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_a_value_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }
}
