//! Memory that peers may reach: allocated here or registered, and its packed keys.
//!
//! Every access by a peer is carried out here, by the owner's own progress, after its key, its
//! address and its length were checked: a key of released memory reaches nothing.
//!
//! ```text
//!   key   "BLTK" | uid u64 | handle u64 | address u64 | length u64 | check u32        40 bytes
//! ```
//!
//! The check is FNV-1a over what is before it: a key that was damaged on its way is refused. Keys
//! are no secrets among the ranks of a job.

use bowline_base::slab::Key;
use bowline_uct::{AddrReader, MdAttr, MemHandle, fnv_32};

const MAGIC: u32 = u32::from_le_bytes(*b"BLTK");
pub(crate) const KEY_BYTES: usize = 40;

/// What a packed key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) uid: u64,
    pub(crate) handle: u64,
    pub(crate) address: u64,
    pub(crate) len: u64,
}

impl Packed {
    pub(crate) fn pack(self) -> [u8; KEY_BYTES] {
        let mut out = [0; KEY_BYTES];
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        let words = [self.uid, self.handle, self.address, self.len];
        for (place, word) in out[4..36].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = fnv_32(&out[..36]);
        out[36..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        if bytes.len() != KEY_BYTES || u32::from_le_bytes(*sum) != fnv_32(body) {
            return None;
        }
        let mut r = AddrReader::new(body);
        let magic = r.u32().ok()?;
        let key = Self {
            uid: r.u64().ok()?,
            handle: r.u64().ok()?,
            address: r.u64().ok()?,
            len: r.u64().ok()?,
        };
        (magic == MAGIC).then_some(key)
    }
}

/// The memory that a peer names.
pub(crate) const fn named(handle: u64) -> MemHandle {
    MemHandle(Key::from_wire(handle))
}

/// What the domain of an interface can do.
pub(crate) const ATTR: MdAttr = MdAttr {
    can_alloc: true,
    can_register: true,
    rkey_bytes: KEY_BYTES,
    register_cost_ns: (0.0, 0.0),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_a_key() {
        let key = Packed { uid: 1, handle: 2, address: 0x300, len: 4 };
        let mut golden = b"BLTK".to_vec();
        golden.extend([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        golden.extend([0, 3, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        golden.extend(fnv_32(&golden).to_le_bytes());
        assert_eq!(key.pack()[..], golden);
        assert_eq!(golden.len(), KEY_BYTES);
        assert_eq!(Packed::parse(&golden), Some(key));
    }
}
