//! Feeds the decoders of what travels outside of the queue arbitrary bytes, as they come from an
//! address book or from a peer that has the key of the lane's memory.

use super::address::{Address, Introduction, checksummed};

/// A lane's address: as it is, and with a checksum that fits. What was read is written again, and all
/// of its memory can be named.
pub fn address(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), checksummed(bytes)] {
        if let Ok(address) = Address::parse(&bytes) {
            assert_eq!(address.pack(), bytes);
            let shape = address.shape;
            let end = address.base.checked_add(shape.bytes() as u64);
            assert!(end.is_some() && shape.record_at(shape.peers) <= shape.bytes());
        }
    }
}

/// The record of a sender.
pub fn introduction(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), checksummed(bytes)] {
        if let Some(introduction) = Introduction::parse(&bytes) {
            let packed = introduction.pack();
            assert_eq!(packed, bytes[..packed.len()]);
            address(&introduction.address);
        }
    }
}
