//! Why messages cannot go by receive queues.

use bowline_uct::OpenError;
use thiserror::Error;

/// Why there is no receive queue over a transport that needs one, or was to have one.
#[derive(Error)]
#[non_exhaustive]
pub enum QueueError {
    /// It has no active messages, and lacks what queues need.
    #[error(
        "the transport {transport} has no active messages and lacks what receive queues need: {lacks}"
    )]
    Lacks {
        /// Its name.
        transport: &'static str,
        /// What would have to be there.
        lacks: &'static str,
    },
    /// The queue could not be made.
    #[error("cannot put a receive queue over the transport {transport}: {source}")]
    Open {
        /// Its name.
        transport: &'static str,
        /// Why.
        source: OpenError,
    },
}

bowline_base::debug_by_display!(QueueError);
