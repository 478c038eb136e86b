//! What travels outside of the queue: the address of a lane, and the introduction of a sender.
//!
//! ```text
//!   address        "BWLQ" | version u8 | form u8 | slots u32 | peers u32 | rings u32 | base u64
//!                  | nonce u64 | key u16+bytes | inner address u16+bytes | checksum u64
//!   introduction   length u32, never 0 | cookie u32 | status u32 | start u64 | key u16+bytes
//!                  | address u16+bytes | checksum u64
//!   extent         length u32, never 0 | start u64 | key u16+bytes | checksum u64
//! ```
//!
//! Little endian. `form` is 1 for SCMP, 3 for rings, 4 for SCMP with rings for
//! those who send most, whose number is `rings` and 0 in the other forms, and 5 for SCMP with the
//! sequence in the slot. `base` is where the lane's memory starts in its process and `key` opens it; all
//! offsets follow from the sizes. `cookie` stands in every message of the sender, and `status` is
//! the number of its words for this link; `start` and `key` are those of the extent that has them, 0 and none where
//! the lane's own memory has them (see `extents`). An extent of no key is one for which there is no memory. The checksum is over all that stands before it:
//! a record is written by puts that land in any order, and counts from the moment at which it
//! fits. It keeps damage out, not malice: a peer that has the key can write anything.

use bowline_uct::{AddrReader, AddrWriter, Truncated, fnv_64};

use super::layout::{ENTRY_BYTES, RECORD_BYTES, Shape};
use super::options::QueueForm;

const MAGIC: u32 = u32::from_le_bytes(*b"BWLQ");
const VERSION: u8 = 4;

/// Where a lane is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) shape: Shape,
    /// Start of its memory in its own process.
    pub(super) base: u64,
    /// Differs for every lane.
    pub(super) nonce: u64,
    /// Packed key of its memory.
    pub(super) key: Vec<u8>,
    /// Address of the transport below.
    pub(super) inner: Vec<u8>,
}

/// FNV-1a of 64 bits (Fowler, Noll, Vo), spread once more, since its last bytes move few bits.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let hash = fnv_64(bytes);
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The bytes before a checksum that fits.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (body, sum) = bytes.split_last_chunk::<8>()?;
    (checksum(body) == u64::from_le_bytes(*sum)).then_some(body)
}

impl Address {
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut w = AddrWriter::new();
        w.u32(MAGIC)
            .u8(VERSION)
            .u8(self.shape.form as u8)
            .u32(self.shape.slots)
            .u32(self.shape.peers)
            .u32(self.shape.rings);
        w.u64(self.base).u64(self.nonce).bytes(&self.key).bytes(&self.inner);
        with_checksum(w.finish())
    }

    /// Reads bytes from anywhere, or says why they are no such address.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut r = AddrReader::new(bytes);
        if r.u32() != Ok(MAGIC) {
            return Err("it is not the address of a receive queue; the peer sends messages by its transport: set BOWLINE_RECV_QUEUE alike everywhere".into());
        }
        let Ok(VERSION) = r.u8() else {
            return Err(
                "the receive queue is of another version of Bowline, or its address is cut short"
                    .into(),
            );
        };
        let body = checked(bytes).ok_or("its checksum does not fit: bytes were lost or changed")?;
        let unknown = || "it names a queue of a form that is not known".to_owned();
        let form = body.get(5).copied().and_then(QueueForm::from_wire).ok_or_else(unknown)?;
        Self::fields(form, AddrReader::new(&body[6..]))
            .map_err(|Truncated| "it ends early".to_owned())
            .and_then(|address| {
                if !address.shape.is_possible() {
                    return Err("it names a queue of a form or size that cannot be".to_owned());
                }
                if address.base.checked_add(address.shape.bytes() as u64).is_none() {
                    return Err("it names memory that cannot be".to_owned());
                }
                Ok(address)
            })
    }

    fn fields(form: QueueForm, mut r: AddrReader<'_>) -> Result<Self, Truncated> {
        let shape = Shape { form, slots: r.u32()?, peers: r.u32()?, rings: r.u32()? };
        let (base, nonce) = (r.u64()?, r.u64()?);
        let key = r.bytes()?.to_vec();
        let inner = r.bytes()?.to_vec();
        if !r.rest().is_empty() {
            return Err(Truncated);
        }
        Ok(Self { shape, base, nonce, key, inner })
    }
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    bytes
}

/// `bytes` with a checksum that fits.
#[cfg(any(test, fuzzing))]
pub(super) fn checksummed(bytes: &[u8]) -> Vec<u8> {
    with_checksum(bytes.to_vec())
}

/// What a number of a sender stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Introduction {
    /// Stands in all of its messages.
    pub(super) cookie: u32,
    /// Number of its status word.
    pub(super) status: u32,
    /// The extent that has its words; none where its lane's own memory has them.
    pub(super) extent: Option<ExtentEntry>,
    /// Address of its lane.
    pub(super) address: Vec<u8>,
}

impl Introduction {
    /// Bytes in front of key and address, and behind them.
    const FIXED: usize = 4 + 4 + 4 + 8 + 2 + 2 + 8;

    /// Most bytes of a key and an address that fit a record.
    pub(super) const MAX_BYTES: usize = RECORD_BYTES - Self::FIXED;

    /// The record; key and address have at most [`Self::MAX_BYTES`] bytes.
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut w = AddrWriter::new();
        let (base, key) = self.extent.as_ref().map_or((0, &[][..]), |of| (of.base, &of.key));
        let len = (Self::FIXED + key.len() + self.address.len()) as u32;
        w.u32(len).u32(self.cookie).u32(self.status).u64(base).bytes(key).bytes(&self.address);
        with_checksum(w.finish())
    }

    /// Reads a record. `None`: it is not written yet, or not whole.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut r = AddrReader::new(record_body(bytes)?);
        let (cookie, status) = (r.u32().ok()?, r.u32().ok()?);
        let (base, key) = (r.u64().ok()?, r.bytes().ok()?.to_vec());
        let extent = match (base, key.is_empty()) {
            (0, true) => None,
            (_, false) => Some(ExtentEntry { base, key }),
            (_, true) => return None,
        };
        let address = r.bytes().ok()?.to_vec();
        r.rest().is_empty().then_some(Self { cookie, status, extent, address })
    }
}

/// What stands between the length of a record and its checksum, which fits.
fn record_body(bytes: &[u8]) -> Option<&[u8]> {
    let len = AddrReader::new(bytes).u32().ok()? as usize;
    checked(bytes.get(..len)?)?.get(4..)
}

/// Where an extent is, and what opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExtentEntry {
    pub(super) base: u64,
    pub(super) key: Vec<u8>,
}

impl ExtentEntry {
    const FIXED: usize = 4 + 8 + 2 + 8;

    /// Longest key that fits an entry of the directory.
    pub(super) const MAX_KEY: usize = ENTRY_BYTES - Self::FIXED;

    /// There is no memory for it.
    pub(super) const REFUSED: Self = Self { base: 0, key: Vec::new() };

    /// The entry, which is filled up with zeros; the key has at most [`Self::MAX_KEY`] bytes.
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut w = AddrWriter::new();
        w.u32((Self::FIXED + self.key.len()) as u32).u64(self.base).bytes(&self.key);
        let mut entry = with_checksum(w.finish());
        entry.resize(ENTRY_BYTES, 0);
        entry
    }

    /// Reads an entry. `None`: it is not written yet, or not whole.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut r = AddrReader::new(record_body(bytes)?);
        let (base, key) = (r.u64().ok()?, r.bytes().ok()?.to_vec());
        r.rest().is_empty().then_some(Self { base, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Address {
        Address {
            shape: Shape { form: QueueForm::Scmp, slots: 64, peers: 10, rings: 0 },
            base: 0x7f00_0000_1000,
            nonce: 5,
            key: vec![1, 2, 3],
            inner: vec![9; 40],
        }
    }

    #[test]
    fn every_cut_and_every_changed_bit_is_noticed() {
        let bytes = sample().pack();
        assert_eq!(Address::parse(&bytes), Ok(sample()));
        let extent = Some(ExtentEntry { base: 0x7f00_0000_2000, key: vec![7; 9] });
        let near = Introduction { cookie: 0, status: 3, extent: None, address: bytes.clone() };
        assert_eq!(Introduction::parse(&near.pack()), Some(near));
        let record = Introduction { cookie: 0, status: 70, extent, address: bytes.clone() };
        let packed = record.pack();
        assert!(packed.len() <= RECORD_BYTES);
        assert_eq!(Introduction::parse(&packed), Some(record));
        for cut in 0..bytes.len() {
            assert!(Address::parse(&bytes[..cut]).is_err(), "cut at {cut}");
            assert_eq!(Introduction::parse(&packed[..cut]), None, "cut at {cut}");
        }
        for (bytes, intro) in [(bytes, false), (packed, true)] {
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                if intro {
                    assert_eq!(Introduction::parse(&changed), None, "bit {bit}");
                } else {
                    assert!(Address::parse(&changed).is_err(), "bit {bit}");
                }
            }
        }
    }

    #[test]
    fn every_cut_and_every_changed_bit_of_an_extent_is_noticed() {
        for extent in [
            ExtentEntry { base: 0x7f00_0000_3000, key: vec![5; 12] },
            ExtentEntry { base: 1, key: vec![0; ExtentEntry::MAX_KEY] },
            ExtentEntry::REFUSED,
        ] {
            let packed = extent.pack();
            assert_eq!(packed.len(), ENTRY_BYTES);
            assert_eq!(ExtentEntry::parse(&packed), Some(extent.clone()));
            let len = ExtentEntry::FIXED + extent.key.len();
            for cut in 0..len {
                assert_eq!(ExtentEntry::parse(&packed[..cut]), None, "cut at {cut}");
            }
            for bit in 0..len * 8 {
                let mut changed = packed.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(ExtentEntry::parse(&changed), None, "bit {bit}");
            }
        }
        assert_eq!(ExtentEntry::parse(&[0; ENTRY_BYTES]), None, "not written yet");
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for (slots, peers) in [(0, 1), (3, 1), (1 << 16, 1), (64, 0), (64, 1 << 20)] {
            let wrong = Address { shape: Shape { slots, peers, ..sample().shape }, ..sample() };
            assert!(Address::parse(&wrong.pack()).is_err(), "{slots} slots, {peers} peers");
        }
        let most = Address { shape: Shape { peers: 1 << 16, ..sample().shape }, ..sample() };
        assert!(Address::parse(&most.pack()).is_ok());
        let shape = Shape { form: QueueForm::ScmpRings, rings: 1024, ..sample().shape };
        assert!(Address::parse(&Address { shape, ..sample() }.pack()).is_ok());
        for shape in [Shape { rings: 1025, ..shape }, Shape { rings: 0, ..shape }] {
            assert!(Address::parse(&Address { shape, ..sample() }.pack()).is_err());
        }
        let wrong = Address { shape: Shape { rings: 1, ..sample().shape }, ..sample() };
        assert!(Address::parse(&wrong.pack()).is_err(), "rings that nobody uses");
        let mut bytes = sample().pack();
        bytes.truncate(bytes.len() - 8);
        bytes[5] = 77;
        assert!(Address::parse(&with_checksum(bytes)).is_err(), "a form that nobody knows");
        let wrong = Address { base: u64::MAX - 5, ..sample() };
        assert!(Address::parse(&wrong.pack()).is_err(), "beyond all memory");
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            crate::fuzz::address(&bytes);
            crate::fuzz::introduction(&bytes);
            // With a checksum that fits, so that what is behind it is met.
            let mut whole = MAGIC.to_le_bytes().to_vec();
            whole.push(VERSION);
            whole.extend_from_slice(&bytes);
            crate::fuzz::address(&with_checksum(whole));
            let mut record = (bytes.len() as u32 + 12).to_le_bytes().to_vec();
            record.extend_from_slice(&bytes);
            crate::fuzz::introduction(&with_checksum(record));
        }
    }
}
