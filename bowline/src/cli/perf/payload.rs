//! What the messages carry, and how it is checked.
//!
//! Before and after the timed part every byte of a message is compared with a pattern. In the
//! timed part each message carries its sequence number in its first and its last eight bytes,
//! which costs two stores and two loads.

use anyhow::bail;

/// Bytes of a page, to which buffers are aligned.
const PAGE: usize = 4096;

/// A page-aligned buffer whose pages have been touched, so that no page fault is timed.
#[derive(Debug)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    pub(crate) fn new(len: usize) -> Self {
        // A byte that is not zero, or the pages would stay untouched.
        let memory = vec![0xa5; len + PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        Self { memory, start, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

fn pattern(seed: u64) -> impl Iterator<Item = u8> {
    (0u64..).map(move |i| (i * 31 + i / 251 + seed * 17 + 7) as u8)
}

/// Fills `data` with the pattern of `seed`.
pub(crate) fn fill(data: &mut [u8], seed: u64) {
    for (byte, expected) in data.iter_mut().zip(pattern(seed)) {
        *byte = expected;
    }
}

/// Compares every byte with the pattern of `seed`.
///
/// # Errors
/// When one differs.
pub(crate) fn check(data: &[u8], seed: u64) -> anyhow::Result<()> {
    match data.iter().zip(pattern(seed)).position(|(byte, expected)| *byte != expected) {
        None => Ok(()),
        Some(place) => bail!("byte {place} of a message of {} bytes is damaged", data.len()),
    }
}

/// Writes `sequence` over both ends; its low bytes where there are less than eight.
#[inline]
pub(crate) fn stamp(data: &mut [u8], sequence: u64) {
    let bytes = sequence.to_le_bytes();
    if let Some(head) = data.first_chunk_mut::<8>() {
        *head = bytes;
        if let Some(tail) = data.last_chunk_mut::<8>() {
            *tail = bytes;
        }
    } else {
        let len = data.len();
        data.copy_from_slice(&bytes[..len]);
    }
}

/// Whether both ends are `sequence`.
#[inline]
pub(crate) fn is_stamped(data: &[u8], sequence: u64) -> bool {
    let bytes = sequence.to_le_bytes();
    match (data.first_chunk::<8>(), data.last_chunk::<8>()) {
        (Some(head), Some(tail)) => *head == bytes && *tail == bytes,
        _ => *data == bytes[..data.len()],
    }
}

/// The error of a message without its stamp.
#[cold]
pub(crate) fn wrong_stamp(size: usize, sequence: u64) -> anyhow::Error {
    anyhow::anyhow!("message {sequence} of {size} bytes is damaged or out of order")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_found_wherever_it_is() {
        for len in [1, 7, 8, 9, 300] {
            let mut data = vec![0; len];
            fill(&mut data, 3);
            check(&data, 3).unwrap();
            assert!(check(&data, 4).is_err());
            for place in 0..len {
                data[place] ^= 1;
                assert!(check(&data, 3).unwrap_err().to_string().contains(&place.to_string()));
                data[place] ^= 1;
            }
        }
    }

    #[test]
    fn stamps_cover_both_ends() {
        for len in 0..40 {
            let mut data = vec![0; len];
            stamp(&mut data, 0x0102_0304_0506_0708);
            assert!(is_stamped(&data, 0x0102_0304_0506_0708));
            if len > 0 {
                assert!(!is_stamped(&data, 0x0102_0304_0506_0709));
                data[len - 1] ^= 1;
                assert!(!is_stamped(&data, 0x0102_0304_0506_0708));
            }
        }
    }

    #[test]
    fn buffers_are_aligned() {
        let mut buffer = Buffer::new(10);
        assert_eq!(buffer.bytes().as_ptr().addr() % PAGE, 0);
        assert_eq!(buffer.bytes_mut().len(), 10);
    }
}
