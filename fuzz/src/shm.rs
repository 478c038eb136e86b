//! What peers of shared memory write: addresses, keys of memory, entries of the guest table. Queues and
//! rings have targets of their own.

/// An address, as it comes from the layer above.
pub(crate) fn address(bytes: &[u8]) {
    bowline_shm::fuzz::address(bytes);
}

/// A packed key of a peer's memory, behind the place where it is used.
pub(crate) fn rkey(bytes: &[u8]) {
    bowline_shm::fuzz::rkey(bytes);
}

/// The words of an entry of the guest table.
pub(crate) fn guest(bytes: &[u8]) {
    bowline_shm::fuzz::guest_entry(bytes);
}
