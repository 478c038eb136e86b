//! Why records are no job, in words for who gave the files.

use super::{FORMAT, VERSION};

/// Why records are no job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobRecordError {
    /// It is no record.
    Foreign,
    /// It has nothing in it.
    Empty,
    /// It is a record of another version.
    Version {
        /// Which.
        found: u32,
    },
    /// A line cannot be.
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The records do not belong together.
    Ranks {
        /// What is wrong.
        why: String,
    },
    /// A collective cannot be simulated.
    Collective {
        /// Which, and why.
        why: String,
    },
}

impl std::fmt::Display for JobRecordError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign => write!(out, "this is no record: its `format` is not `{FORMAT}`"),
            Self::Empty => write!(
                out,
                "this record is empty: its rank ended before it wrote a line, or the disk is full; record the job again"
            ),
            Self::Version { found } => {
                write!(
                    out,
                    "this record has version {found}, and versions 1 to {VERSION} are known: record the job again, \
                     or use the program that wrote it"
                )
            }
            Self::Line { line, why } => write!(out, "line {line} of the record: {why}"),
            Self::Ranks { why } => write!(out, "these records are not those of one job: {why}"),
            Self::Collective { why } => out.write_str(why),
        }
    }
}

impl std::error::Error for JobRecordError {}
