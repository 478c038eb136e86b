//! What the messages carry, and how it is checked.
//!
//! Before and after the timed part every byte of a message is compared with a pattern. In the
//! timed part each message carries its sequence number in its first and, from 16 bytes on, in its
//! last eight bytes, which costs two stores and two loads.

use anyhow::bail;
use bowline_base::view::View;

/// Bytes of a page, to which buffers are aligned.
const PAGE: usize = 4096;

/// A page-aligned buffer whose pages have been touched, so that no page fault is timed. Its bytes
/// stay where they are when it is moved.
#[derive(Debug, Default)]
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

    /// Where `len` bytes at `offset` are, without a reference to any of them: operations on other
    /// parts of the buffer may be under way.
    ///
    /// # Panics
    /// When they are not all inside.
    #[inline]
    pub(crate) fn slot(&mut self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "a slot is inside its buffer");
        self.memory.as_mut_ptr().wrapping_add(self.start + offset)
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

/// Bytes from which a message carries its number twice.
const BOTH_ENDS: usize = 16;

/// Writes `sequence` over both ends; once where there are less than 16 bytes, and its low bytes
/// where there are less than eight.
#[inline]
pub(crate) fn stamp(data: &mut [u8], sequence: u64) {
    let bytes = sequence.to_le_bytes();
    if data.len() >= BOTH_ENDS
        && let Some(tail) = data.last_chunk_mut::<8>()
    {
        *tail = bytes;
    }
    match data.first_chunk_mut::<8>() {
        Some(head) => *head = bytes,
        None => data.copy_from_slice(&bytes[..data.len()]),
    }
}

/// The number that a message carries, `None` when its ends differ. Of messages below eight bytes
/// the low bytes, 0 of empty ones.
#[inline]
pub(crate) fn stamp_of(data: &[u8]) -> Option<u64> {
    let Some(head) = data.first_chunk::<8>() else {
        let mut bytes = [0; 8];
        bytes[..data.len()].copy_from_slice(data);
        return Some(u64::from_le_bytes(bytes));
    };
    let same = data.len() < BOTH_ENDS || data.last_chunk() == Some(head);
    same.then_some(u64::from_le_bytes(*head))
}

/// The same of a message in memory that may change: its ends are read, once, and no other byte.
#[inline]
pub(crate) fn stamp_in(data: View<'_>) -> Option<u64> {
    let mut ends = [0; BOTH_ENDS];
    let len = data.len();
    if len < BOTH_ENDS {
        data.copy_out(&mut ends[..len]);
        return stamp_of(&ends[..len]);
    }
    let (head, tail) = ends.split_at_mut(8);
    data.copy_out(head);
    data.slice(len - 8, 8)?.copy_out(tail);
    stamp_of(&ends)
}

/// What [`stamp_of`] finds in a message of `len` bytes that carries `sequence`.
#[inline]
pub(crate) const fn carried(sequence: u64, len: usize) -> u64 {
    if len < 8 { sequence & ((1 << (8 * len)) - 1) } else { sequence }
}

/// Whether a message carries `sequence`.
#[inline]
pub(crate) fn is_stamped(data: &[u8], sequence: u64) -> bool {
    stamp_of(data) == Some(carried(sequence, data.len()))
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
    fn stamps_are_found_and_damage_is_too() {
        let sequence = 0x0102_0304_0506_0708;
        for len in 0..40 {
            let mut data = vec![0; len];
            stamp(&mut data, sequence);
            assert_eq!(stamp_of(&data), Some(carried(sequence, len)));
            assert!(is_stamped(&data, sequence));
            // SAFETY: the bytes are used through the view alone until the end of the statement.
            let view = unsafe { View::from_raw(data.as_mut_ptr(), len) };
            assert_eq!(stamp_in(view), Some(carried(sequence, len)));
            if len == 0 {
                continue;
            }
            assert!(!is_stamped(&data, sequence + 1), "{len}");
            let last = if len < BOTH_ENDS { len.min(8) } else { len };
            for place in [0, last - 1] {
                data[place] ^= 1;
                assert!(!is_stamped(&data, sequence), "{len}");
                data[place] ^= 1;
            }
        }
    }

    #[test]
    fn buffers_are_aligned() {
        let mut buffer = Buffer::new(10);
        assert_eq!(buffer.bytes().as_ptr().addr() % PAGE, 0);
        assert_eq!(buffer.bytes_mut().len(), 10);
        *buffer.bytes_mut().last_mut().unwrap() = 9;
        assert_eq!(buffer.slot(9, 1).cast_const(), &raw const buffer.bytes()[9]);
        assert_eq!(buffer.slot(10, 0).addr(), buffer.bytes().as_ptr().addr() + 10);
    }
}
