//! A worker as its driver sees it, and the work of others that a progress thread moves on.

use bowline_base::worker_lock::RemoteHandle;

use super::Inner;

/// A worker as its driver sees it, from beside its thread.
#[derive(Clone, Debug)]
pub struct RemoteWorker(pub(crate) RemoteHandle<Inner>);

/// Work of a layer above, which a progress thread moves on while the rank computes.
pub trait BackgroundWork: Send + Sync {
    /// Does what can be done, by the progress thread; must not wait. Whether anything was.
    fn advance(&self, door: &RemoteWorker) -> bool;
}
