//! Event descriptors of several interfaces, to sleep on all of them at once. It does not wait: who
//! sleeps knows how long, and on what else.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Descriptors that become readable when something arrives.
#[derive(Debug, Default)]
pub struct WakeSet(Vec<OwnedFd>);

impl WakeSet {
    /// Adds a descriptor. The set has one of its own, which names the same event.
    ///
    /// # Errors
    /// When the process has too many descriptors.
    pub fn add(&mut self, event: BorrowedFd<'_>) -> io::Result<()> {
        self.0.push(event.try_clone_to_owned()?);
        Ok(())
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether there is nothing to sleep on.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The descriptors.
    pub fn descriptors(&self) -> &[OwnedFd] {
        &self.0
    }
}
