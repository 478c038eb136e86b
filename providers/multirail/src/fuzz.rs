//! Feeds the decoders of what travels between workers that use several transports together arbitrary bytes.

/// Addresses, keys and fronts of messages.
pub fn decoders(bytes: &[u8]) {
    super::wire::feed(bytes);
}
