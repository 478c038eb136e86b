//! Keys of other interfaces' memory, as they were opened.

use bowline_base::slab::Key;

/// A key that was opened: whose memory, and which.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Opened {
    /// A handle of a node, with where it starts and its length.
    Memory {
        /// The node.
        node: u32,
        /// The handle.
        handle: Key,
        /// Its first address.
        start: u64,
        /// Its bytes.
        len: u64,
    },
    /// All memory of a node, for reads.
    Whole {
        /// The node.
        node: u32,
    },
}
