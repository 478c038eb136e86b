//! What this transport adds to the messages of rings and shared queues: the longest that is sent in one
//! call, a flag and an id.

use bowline_base::ring;

/// Longest payload of `am_short`: what one slot of a ring holds.
pub(crate) const MAX_SHORT: usize = ring::MAX_INLINE;

/// Flag of a message in the shared queue: it is longer than its content, whose length is in its
/// last four bytes. Its sender reserved slots before it knew the length.
pub(crate) const PADDED: u8 = 1;
/// Bytes of that length.
pub(crate) const TRAILER: usize = 4;
/// Id of a message in the shared queue that says nothing: its sender gave up after it had
/// reserved, for instance because the caller's packing panicked.
pub(crate) const VOID_ID: u8 = 0x82;
