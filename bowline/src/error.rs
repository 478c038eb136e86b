//! Why layers could not be put together.

use bowline_base::config::ConfigError;
use bowline_receive_queue::QueueError;
use bowline_ucp::WorkerError;
use bowline_uct::OpenError;
use thiserror::Error;

use crate::choice::TRANSPORT_NAMES;

/// Why a worker could not be put together.
#[derive(Error)]
#[non_exhaustive]
pub enum StackError {
    /// A transport did not open.
    #[error("cannot open the transport {transport}: {source}")]
    Transport {
        /// Its name.
        transport: &'static str,
        /// Why.
        source: OpenError,
    },
    /// A setting has a bad value.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// The choice of transports names one that does not exist.
    #[error("BOWLINE_TRANSPORTS names `{0}`; this build has {known}", known = TRANSPORT_NAMES)]
    NoSuchTransport(String),
    /// A transport is named twice.
    #[error("BOWLINE_TRANSPORTS names `{0}` twice; a rank opens each transport once")]
    TransportTwice(String),
    /// What is to carry messages together cannot.
    #[error("BOWLINE_RAILS is `{value}`: {source}")]
    Rails {
        /// The setting.
        value: String,
        /// Why.
        source: OpenError,
    },
    /// The setting names a transport that does not carry messages to peers, or does not exist.
    #[error(
        "BOWLINE_RAILS names `{0}`; it takes tcp, tcp:INTERFACE, and ofi, verbs and verbs:DEVICE in builds with them"
    )]
    NoSuchRail(String),
    /// An algorithm of collectives does not exist.
    #[error(transparent)]
    Collectives(#[from] bowline_mpi::CollOptionsError),
    /// The table of algorithms cannot be read.
    #[error("BOWLINE_COLL_TABLE: {path}: {why}")]
    Table {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// A transport without messages, or one that was to have a receive queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The protocol engine.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// Progress beside the rank.
    #[error(transparent)]
    Progress(#[from] crate::progress::ProgressError),
    /// Where a record is to go.
    #[error(
        "BOWLINE_RECORD: cannot write {path}: {source}; it takes the name of a file in a directory that is there, to which each rank adds its number"
    )]
    Record {
        /// The file.
        path: String,
        /// Why it cannot be written.
        source: std::io::Error,
    },
    /// Where reports are to go.
    #[error(
        "BOWLINE_REPORT names {path}, which cannot be appended to: {source}; it takes stderr or a file"
    )]
    Report {
        /// The setting.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// What the transports cost is in a file that is something else.
    #[error(transparent)]
    Costs(#[from] crate::costs::CostFileError),
    /// What was fitted is in a file that is something else.
    #[error(transparent)]
    Fits(#[from] crate::model_file::FitsError),
    /// No randomness to be had.
    #[error("cannot draw a random number for the worker's identity: {0}")]
    Random(std::io::Error),
}

bowline_base::debug_by_display!(StackError);
