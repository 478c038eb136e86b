//! What a rank's world is made of, by the code that started the rank.

use std::fmt;

use bowline_ucp::Worker;

use crate::coll_options::CollOptions;

/// Why an address could not be found.
pub type DirectoryError = Box<dyn std::error::Error + Send + Sync>;

/// Finds where ranks are. Asked once for each rank, at the first message to it.
pub trait Directory: fmt::Debug {
    /// The address of a rank's worker, as its [`Worker::address`] gave it.
    ///
    /// # Errors
    /// When the rank has published none; the reason is logged and the operation fails with
    /// [`MpiError::Unreachable`](crate::MpiError::Unreachable).
    fn address(&self, world_rank: u32) -> Result<Vec<u8>, DirectoryError>;
}

/// What a rank's world is made of.
pub struct WorldParts {
    /// The rank's worker, with its transports open.
    pub worker: Worker,
    /// This rank's number in the world.
    pub rank: u32,
    /// Ranks in the world.
    pub size: u32,
    /// Addresses of the ranks.
    pub directory: Box<dyn Directory>,
    /// The same for all ranks that share memory, different for all others.
    pub node_id: u64,
    /// Whether ranks share processors. Must be the same at all ranks of the world, since they
    /// choose their collective algorithms by it.
    pub oversubscribed: bool,
    /// What is asked of collectives. Must be alike at all ranks of the world.
    pub collectives: CollOptions,
    /// Run after everything of this rank is gone, the worker included.
    pub finalizer: Option<Box<dyn FnOnce()>>,
}

impl fmt::Debug for WorldParts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("WorldParts")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .field("directory", &self.directory)
            .field("node_id", &self.node_id)
            .field("oversubscribed", &self.oversubscribed)
            .finish_non_exhaustive()
    }
}
