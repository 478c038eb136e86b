//! What peers of the libfabric transport send: messages, addresses, keys.

/// A message, header first: what was read is written again.
pub(crate) fn message(bytes: &[u8]) {
    bowline_ofi::fuzz::message(bytes);
}

/// An address, as it stands in a greeting or comes from the layer above.
pub(crate) fn address(bytes: &[u8]) {
    bowline_ofi::fuzz::address(bytes);
}

/// A packed key of remote memory: it opens nothing outside of what it says.
pub(crate) fn rkey(bytes: &[u8]) {
    bowline_ofi::fuzz::rkey(bytes);
}
