//! Everything that can stop a comparison, named for the failed act, with the way out.

use std::io;
use std::path::PathBuf;

/// Why a comparison, or one peer of it, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A file or directory of the harness could not be used.
    #[error("cannot {act} {}: {source}; choose another place with --cache", path.display())]
    File {
        /// What was tried, as a verb.
        act: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}; {remedy}")]
    Start {
        /// The program's name.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
        /// How to get the program.
        remedy: String,
    },
    /// A program did not end within its time limit and was ended.
    #[error("{program} gave no result within {seconds:.0} s")]
    Timeout {
        /// The program's name.
        program: String,
        /// The time limit, seconds.
        seconds: f64,
    },
    /// A program ended with a failure.
    #[error("{program} failed ({status}): {output}")]
    Failed {
        /// The program's name.
        program: String,
        /// The exit status.
        status: String,
        /// The part of what it wrote that says why.
        output: String,
    },
    /// A program ended well, but the wanted figure is not in its output.
    #[error("{program} printed no figure for {metric}; its output was: {output}")]
    NoFigure {
        /// The program's name.
        program: String,
        /// The wanted metric.
        metric: String,
        /// The beginning of what it wrote.
        output: String,
    },
    /// A program or package that a peer needs is not there.
    #[error("{what} is missing; {remedy}")]
    Missing {
        /// What is missing.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// A run over a network moved less through its device than its messages need.
    #[error(
        "{program} did not use the network: {packets} packets, {bytes} bytes crossed the device \
         where its messages need {needed_packets} packets, {needed_bytes} bytes; its settings \
         have no effect"
    )]
    NotOnTheWire {
        /// The program's name.
        program: String,
        /// Packets that crossed the device.
        packets: u64,
        /// Bytes that crossed the device.
        bytes: u64,
        /// Packets of the messages at least.
        needed_packets: u64,
        /// Bytes of the messages.
        needed_bytes: u64,
    },
    /// One start gave several figures, and failed for this reason.
    #[error("{0}")]
    SharedStart(String),
    /// The quick run leaves this out.
    #[error("not part of the quick run; run without --quick")]
    LeftOut,
    /// The quick run's time was over before this figure was measured.
    #[error("the quick run's time was over; run without --quick, or on an idle machine")]
    OutOfTime,
    /// A filter matches nothing, so that the run would prove nothing.
    #[error("--{option} {pattern} matches nothing; known: {known}")]
    NoMatch {
        /// The option's name.
        option: &'static str,
        /// The pattern as given.
        pattern: String,
        /// What could have been meant.
        known: String,
    },
    /// An option's value cannot be used.
    #[error("--{option}: {reason}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A yardstick's processes could not be run.
    #[error("cannot {act} for a yardstick: {source}")]
    Yardstick {
        /// What was tried, as a verb.
        act: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The plot could not be drawn.
    #[error("cannot draw {}: {reason}", path.display())]
    Plot {
        /// The picture's file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
}

/// A `map_err` argument for a failed act on a file.
pub(crate) fn file(
    act: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> BenchError {
    let path = path.into();
    move |source| BenchError::File { act, path, source }
}
