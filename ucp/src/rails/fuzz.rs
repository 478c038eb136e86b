//! Feeds the decoders of what travels between rails arbitrary bytes.

/// Addresses, keys and fronts of messages.
pub fn decoders(bytes: &[u8]) {
    super::wire::feed(bytes);
}
