//! Why a rank could not join its job. Text for the person who started it; nothing branches on it.

use bowline_base::job::JobError;

use crate::pmi::{MappingError, PmiError};

/// Why a rank could not join its job.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BootError {
    /// A process can be one rank, once.
    #[error("cannot join the job a second time: this process has done so already")]
    Twice,
    /// A variable has a value that it cannot have.
    #[error(
        "cannot understand the start environment: {name} is {value:?}, {expected}; start the \
         program with bowline run or another PMI-1 launcher, or unset the variable"
    )]
    Environment {
        /// The variable.
        name: &'static str,
        /// Its value; empty when it is missing.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A way of starting that is not spoken.
    #[error("cannot join the job: {0}")]
    Unsupported(&'static str),
    /// The descriptor that a variable names is not open.
    #[error(
        "cannot join the job: {name} names descriptor {fd}, which is not open; a program that a \
         rank starts is not part of the job, so unset the variable for it"
    )]
    Descriptor {
        /// The variable.
        name: &'static str,
        /// The descriptor.
        fd: i32,
    },
    /// The process manager.
    #[error("cannot join the job: {0}")]
    Pmi(#[from] PmiError),
    /// The mapping of ranks to nodes.
    #[error("cannot find the ranks of this node: {0}")]
    Mapping(#[from] MappingError),
    /// The memory.
    #[error("cannot join the job: {0}")]
    Job(#[from] JobError),
    /// The inherited memory is not the one meant.
    #[error("cannot join the job: {0}")]
    WrongMemory(String),
    /// What lies under the secret's key is no secret.
    #[error(
        "cannot join the job: its secret has another length than 32 bytes; use one version of \
         Bowline for all ranks"
    )]
    Secret,
    /// No route to the memory of this node.
    #[error("cannot take the node's memory from rank {leader}: {reasons}")]
    NoRoute {
        /// The rank that made it.
        leader: u32,
        /// What each route said.
        reasons: String,
    },
    /// Another system call.
    #[error("cannot {act}: {source}")]
    System {
        /// What was tried.
        act: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

bowline_base::debug_by_display!(BootError);
