//! What travels between two workers that use several transports together: addresses, keys of memory,
//! and the fronts of messages. Everything here came from a peer and is checked.

use bowline_base::view::View;
use bowline_uct::{AddrReader, AddrWriter, AmHeader, AmId, Truncated, fnv_32};

use super::split::MAX_PATHS;

/// The first message on each path. Words: the sender's uid. Payload: its address.
pub(super) const HELLO: AmId = AmId::new(0);
/// A message of the user. Words: its first two; number, id and paths given up in the third. Payload:
/// [`Front`], data.
pub(super) const DATA: AmId = AmId::new(1);
/// What has arrived. Words: number of the message that is expected next, paths given up.
pub(super) const ACK: AmId = AmId::new(2);

/// `body` behind its checksum.
fn with_checksum(body: Vec<u8>) -> Vec<u8> {
    let mut out = fnv_32(&body).to_le_bytes().to_vec();
    out.extend(body);
    out
}

/// What is behind the checksum, if that is right.
fn opened(bytes: &[u8]) -> Option<&[u8]> {
    let (sum, body) = bytes.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*sum) == fnv_32(body)).then_some(body)
}

/// Where a worker is reached by several transports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Random, different for every worker.
    pub(super) uid: u64,
    /// For each transport its provider's name and its own address.
    pub(super) paths: Vec<(String, Vec<u8>)>,
}

impl Address {
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut out = AddrWriter::new();
        out.u64(self.uid).u8(self.paths.len() as u8);
        for (provider, address) in &self.paths {
            out.bytes(provider.as_bytes()).bytes(address);
        }
        with_checksum(out.finish())
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = AddrReader::new(opened(bytes)?);
        let parsed = Self::read(&mut reader).ok()?;
        (reader.rest().is_empty() && (1..=MAX_PATHS).contains(&parsed.paths.len()))
            .then_some(parsed)
    }

    fn read(reader: &mut AddrReader<'_>) -> Result<Self, Truncated> {
        let uid = reader.u64()?;
        let mut paths = Vec::new();
        for _ in 0..reader.u8()? {
            let provider = String::from_utf8_lossy(reader.bytes()?).into_owned();
            paths.push((provider, reader.bytes()?.to_vec()));
        }
        Ok(Self { uid, paths })
    }
}

/// A key of memory: where it is, and the key of each transport, empty where one has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackedKey {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) keys: Vec<Vec<u8>>,
}

/// Bytes of a [`PackedKey`] beside its keys, and beside each of them.
pub(super) const KEY_FRONT: usize = 21;
pub(super) const KEY_EACH: usize = 1;

impl PackedKey {
    /// `None` when a key is longer than can be said.
    pub(super) fn pack(&self) -> Option<Vec<u8>> {
        let mut out = AddrWriter::new();
        out.u64(self.start).u64(self.len).u8(self.keys.len() as u8);
        for key in &self.keys {
            out.u8(u8::try_from(key.len()).ok()?).raw(key);
        }
        Some(with_checksum(out.finish()))
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = AddrReader::new(opened(bytes)?);
        let (start, len) = (reader.u64().ok()?, reader.u64().ok()?);
        start.checked_add(len)?;
        let count = reader.u8().ok()?;
        if usize::from(count) > MAX_PATHS {
            return None;
        }
        let mut rest = reader.rest();
        let mut keys = Vec::new();
        for _ in 0..count {
            let (&n, behind) = rest.split_first()?;
            let (key, behind) = behind.split_at_checked(usize::from(n))?;
            keys.push(key.to_vec());
            rest = behind;
        }
        rest.is_empty().then_some(Self { start, len, keys })
    }
}

/// Bytes in front of a message's data.
pub(super) const FRONT: usize = 16;

/// What is in front of a user's message, in header and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Front {
    /// Its number.
    pub(super) number: u32,
    /// Whose it is.
    pub(super) id: AmId,
    pub(super) header: AmHeader,
    /// Paths that the sender has given up, a bit for each of its own.
    pub(super) down: u8,
    /// Number of the message that the sender expects next.
    pub(super) ack: u32,
}

impl Front {
    /// The header that travels, and the front of the payload.
    pub(super) fn pack(&self) -> (AmHeader, [u8; FRONT]) {
        let [first, second, third] = self.header;
        let word =
            u64::from(self.number) | u64::from(self.id.get()) << 32 | u64::from(self.down) << 40;
        let mut front = [0; FRONT];
        front[..8].copy_from_slice(&third.to_le_bytes());
        front[8..12].copy_from_slice(&self.ack.to_le_bytes());
        ([first, second, word], front)
    }

    /// What an arrival says, and its data.
    pub(super) fn parse<'a>(header: &AmHeader, payload: View<'a>) -> Option<(Self, View<'a>)> {
        let data = payload.slice(FRONT, payload.len().checked_sub(FRONT)?)?;
        let mut front = [0; FRONT];
        payload.copy_out(&mut front);
        let [first, second, word] = *header;
        let third = u64::from_le_bytes(*front.first_chunk()?);
        let ack = u32::from_le_bytes(*front[8..].first_chunk()?);
        if word >> 48 != 0 || front[12..] != [0; 4] {
            return None;
        }
        let id = AmId::from_wire((word >> 32) as u8)?;
        let down = (word >> 40) as u8;
        let header = [first, second, third];
        Some((Self { number: word as u32, id, header, down, ack }, data))
    }
}

/// Feeds the decoders arbitrary bytes, for the fuzzer: what was read is written again as it was.
#[cfg(any(test, fuzzing))]
pub(super) fn feed(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), with_checksum(bytes.to_vec())] {
        if let Some(address) = Address::parse(&bytes)
            && address.paths.iter().all(|(name, _)| !name.contains(char::REPLACEMENT_CHARACTER))
        {
            assert_eq!(address.pack(), bytes);
        }
        if let Some(key) = PackedKey::parse(&bytes) {
            assert_eq!(key.pack().as_ref(), Some(&bytes));
        }
    }
    let Some((words, mut payload)) = bytes.split_first_chunk::<24>().map(|(w, p)| (w, p.to_vec()))
    else {
        return;
    };
    let word =
        |at: usize| u64::from_le_bytes(words[at * 8..][..8].try_into().expect("eight bytes"));
    let header = [word(0), word(1), word(2)];
    let mut buffer = bowline_base::buffer::RecvBuf::owned(std::mem::take(&mut payload));
    if let Some((front, _)) = Front::parse(&header, buffer.view()) {
        let (again, bytes) = front.pack();
        assert_eq!(again, header);
        assert_eq!(bytes[..], buffer.view().to_vec()[..FRONT]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address() -> Address {
        let paths = vec![("tcp".to_owned(), vec![1, 2]), ("ofi".to_owned(), vec![3])];
        Address { uid: 0x0102, paths }
    }

    #[test]
    fn golden_bytes_of_an_address() {
        let mut golden = vec![0x18, 0x08, 0x80, 0xe2, 2, 1, 0, 0, 0, 0, 0, 0, 2];
        golden.extend([3, 0, b't', b'c', b'p', 2, 0, 1, 2, 3, 0, b'o', b'f', b'i', 1, 0, 3]);
        assert_eq!(address().pack(), golden);
        assert_eq!(Address::parse(&golden), Some(address()));
    }

    #[test]
    fn golden_bytes_of_a_key() {
        let key = PackedKey { start: 0x10, len: 2, keys: vec![vec![0xaa, 0xbb], vec![]] };
        let packed = key.pack().unwrap();
        let mut golden = vec![0x7c, 0x34, 0x57, 0xfb, 0x10, 0, 0, 0, 0, 0, 0, 0];
        golden.extend([2, 0, 0, 0, 0, 0, 0, 0, 2, 2, 0xaa, 0xbb, 0]);
        assert_eq!(packed, golden);
        assert_eq!(packed.len(), KEY_FRONT + 2 * KEY_EACH + 2);
        assert_eq!(PackedKey::parse(&golden), Some(key));
    }

    #[test]
    fn golden_words_of_a_front() {
        let front =
            Front { number: 7, id: AmId::new(5), header: [1, 2, 3], down: 0x80, ack: 0x0102 };
        let (header, bytes) = front.pack();
        assert_eq!(header, [1, 2, 0x8005_0000_0007]);
        assert_eq!(bytes, [3, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        let mut payload = bytes.to_vec();
        payload.push(9);
        let mut payload = bowline_base::buffer::RecvBuf::owned(payload);
        let (parsed, data) = Front::parse(&header, payload.view()).unwrap();
        assert_eq!((parsed, data.to_vec()), (front, vec![9]));
    }

    #[test]
    fn every_cut_and_every_changed_bit_is_noticed() {
        let key = PackedKey { start: 1 << 40, len: 99, keys: vec![vec![7; 40], vec![8; 40]] };
        for bytes in [address().pack(), key.pack().unwrap()] {
            let read =
                |bytes: &[u8]| Address::parse(bytes).is_some() || PackedKey::parse(bytes).is_some();
            assert!(read(&bytes));
            assert!((0..bytes.len()).all(|cut| !read(&bytes[..cut])));
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(!read(&changed), "bit {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            feed(&bytes);
        }
    }
}
