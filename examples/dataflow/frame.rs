//! Records in a message: what dataflow channels send between two ranks, gathered.
//!
//! ```text
//!   channel (8)  length (8)  data, and padding up to a multiple of 8        again and again
//! ```
//! Numbers are little-endian. Each record's data begins at a multiple of 8, as timely's serialization
//! wants it.

/// Bytes in front of a record's data.
const HEAD: usize = 16;

/// Appends a record whose data of `length` bytes is written by `write`.
pub(crate) fn append(
    out: &mut Vec<u8>,
    channel: usize,
    length: usize,
    write: impl FnOnce(&mut Vec<u8>),
) {
    out.extend((channel as u64).to_le_bytes());
    out.extend((length as u64).to_le_bytes());
    let start = out.len();
    write(out);
    assert_eq!(out.len() - start, length, "an element is as long as it says");
    out.resize(out.len().next_multiple_of(8), 0);
}

/// A record at the front of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) channel: usize,
    /// Where its data is.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Where the next record begins.
    pub(crate) next: usize,
}

/// The record at the front, if there is a whole one.
pub(crate) fn first(bytes: &[u8]) -> Option<Record> {
    let (channel, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let channel = usize::try_from(u64::from_le_bytes(*channel)).ok()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let padded = length.checked_next_multiple_of(8)?;
    (padded <= rest.len()).then(|| Record {
        channel,
        start: HEAD,
        end: HEAD + length,
        next: HEAD + padded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_appended_is_found(
            records in prop::collection::vec((any::<usize>(), prop::collection::vec(any::<u8>(), 0..50)), 0..10),
        ) {
            let mut bytes = Vec::new();
            for (channel, data) in &records {
                append(&mut bytes, *channel, data.len(), |out| out.extend(data));
            }
            let (mut rest, mut found) = (&bytes[..], Vec::new());
            while !rest.is_empty() {
                let Record { channel, start, end, next } = first(rest).unwrap();
                found.push((channel, rest[start..end].to_vec()));
                rest = &rest[next..];
            }
            prop_assert_eq!(found, records);
        }

        #[test]
        fn damaged_bytes_have_no_record_beyond_them(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(record) = first(&bytes) {
                prop_assert!(record.end <= record.next && record.next <= bytes.len());
            }
        }
    }
}
