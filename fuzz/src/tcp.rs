//! What reaches an interface of the tcp provider over its sockets.

/// Frames of a peer that has proved itself.
pub(crate) fn frames(bytes: &[u8]) {
    bowline_tcp::fuzz::frames(bytes);
}

/// What unauthenticated clients send, and addresses and keys of peers.
pub(crate) fn handshake(bytes: &[u8]) {
    bowline_tcp::fuzz::handshake(bytes);
}
