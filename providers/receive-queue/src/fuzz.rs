//! Feeds the decoders of what travels outside of the queue arbitrary bytes, as they come from an
//! address book or from a peer that has the key of the lane's memory.

use super::address::{Address, ExtentEntry, Introduction, checksummed};

/// A lane's address: as it is, and with a checksum that fits. What was read is written again, and all
/// of its memory can be named.
pub fn address(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), checksummed(bytes)] {
        if let Ok(address) = Address::parse(&bytes) {
            assert_eq!(address.pack(), bytes);
            let shape = address.shape;
            let end = address.base.checked_add(shape.bytes() as u64);
            assert!(end.is_some() && shape.records_at() <= shape.bytes());
        }
    }
}

/// The record of a sender, or an entry of the directory.
pub fn introduction(bytes: &[u8]) {
    extent(bytes);
    for bytes in [bytes.to_vec(), checksummed(bytes)] {
        if let Some(introduction) = Introduction::parse(&bytes) {
            let packed = introduction.pack();
            assert_eq!(packed, bytes[..packed.len()]);
            address(&introduction.address);
        }
    }
}

/// An entry of the directory.
fn extent(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), checksummed(bytes)] {
        if let Some(extent) = ExtentEntry::parse(&bytes)
            && extent.key.len() <= ExtentEntry::MAX_KEY
        {
            let packed = extent.pack();
            assert_eq!(ExtentEntry::parse(&packed), Some(extent));
        }
    }
}
