//! Why the memory of a job could not be had.

use std::io;

use super::{MAX_LOCAL_RANKS, VERSION};
use crate::region::RegionError;

/// Why the memory of a job could not be made, opened or joined.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The memory itself.
    #[error("cannot provide the job's memory: {0}")]
    Region(#[from] RegionError),
    /// No ranks, or more than a node can have.
    #[error("cannot lay out a job of {0} ranks on a node: between 1 and {MAX_LOCAL_RANKS} fit")]
    Ranks(u32),
    /// Areas so large that the sum overflows.
    #[error(
        "cannot lay out {ranks} areas of {area_bytes} bytes: the sum is beyond the address space"
    )]
    AreaBytes {
        /// Ranks on the node.
        ranks: u32,
        /// Bytes of each area.
        area_bytes: usize,
    },
    /// The descriptor holds something else.
    #[error("cannot open the job's memory: the descriptor holds something else")]
    NotAJob,
    /// Another version wrote it.
    #[error(
        "cannot open the job's memory: it has layout {found}, this program knows layout \
         {VERSION}; use one version of Bowline for the launcher and all ranks"
    )]
    Version {
        /// Layout in the memory.
        found: u32,
    },
    /// Numbers in the header contradict the size.
    #[error("cannot open the job's memory: its header is damaged ({0})")]
    Damaged(&'static str),
    /// There is no such local rank.
    #[error("cannot attach as local rank {local}: the job has {ranks} ranks on this node")]
    NoSuchRank {
        /// Local rank asked for.
        local: u32,
        /// Ranks on the node.
        ranks: u32,
    },
    /// Another process or thread is that rank.
    #[error(
        "cannot attach as local rank {local}: process {pid} already has; a rank can be started \
         only once"
    )]
    Occupied {
        /// Local rank asked for.
        local: u32,
        /// Who holds it.
        pid: u32,
    },
    /// A system call failed.
    #[error("cannot {act}: {source}")]
    System {
        /// What was tried.
        act: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

crate::debug_by_display!(JobError);
