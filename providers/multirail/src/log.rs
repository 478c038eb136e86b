//! What was sent and not acknowledged: the messages that may have to be sent again by another path.
//!
//! ```text
//!   first                     first + posted                 first + len
//!     │ posted on the path in use │ waiting for space there       │
//!     └── ack(n): gone up to n    └── advance: one further       └── push
//!                     rewind: the path is gone, all of it waits again
//! ```
//! Bounded by messages and bytes, so that it is the queue of what waits for space as well: a message that
//! is in it will be sent, and one that finds no space was not begun.

use std::collections::VecDeque;

use bowline_uct::{AmHeader, AmId};

/// Messages in a log.
pub(super) const MESSAGES: usize = 512;

/// Bytes of payload in a log.
pub(super) const BYTES: usize = 1 << 20;

/// A message as it is to be posted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) id: AmId,
    pub(super) header: AmHeader,
    pub(super) len: usize,
}

/// The log of one direction between two workers.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Number of the oldest message.
    first: u32,
    entries: VecDeque<Entry>,
    bytes: VecDeque<u8>,
    /// Messages of it that are posted on the path in use, and their bytes.
    posted: usize,
    posted_bytes: usize,
    /// Number behind the last that was ever posted.
    reached: u32,
}

impl Log {
    /// Whether a message of `len` bytes has space.
    pub(super) fn has_space(&self, len: usize) -> bool {
        self.entries.is_empty() || self.entries.len() < MESSAGES && self.bytes.len() + len <= BYTES
    }

    /// Adds a message; the caller has asked for space.
    pub(super) fn push(&mut self, id: AmId, header: &AmHeader, payload: &[u8]) {
        self.entries.push_back(Entry { id, header: *header, len: payload.len() });
        self.bytes.extend(payload);
    }

    /// The next message to post, with its number.
    pub(super) fn next(&self) -> Option<(u32, Entry)> {
        let entry = *self.entries.get(self.posted)?;
        Some((self.first.wrapping_add(self.posted as u32), entry))
    }

    /// Writes the payload of [`Log::next`] to `out`, which has exactly its length.
    pub(super) fn copy_next(&self, out: &mut [u8]) {
        let (front, back) = self.bytes.as_slices();
        let from = self.posted_bytes;
        if from >= front.len() {
            let from = from - front.len();
            return out.copy_from_slice(&back[from..from + out.len()]);
        }
        let first = out.len().min(front.len() - from);
        out[..first].copy_from_slice(&front[from..from + first]);
        let rest = out.len() - first;
        out[first..].copy_from_slice(&back[..rest]);
    }

    /// The next message was posted. Whether it had been before, on another path.
    pub(super) fn advance(&mut self) -> bool {
        let Some((number, entry)) = self.next() else { return false };
        self.posted += 1;
        self.posted_bytes += entry.len;
        let fresh = number == self.reached;
        if fresh {
            self.reached = number.wrapping_add(1);
        }
        !fresh
    }

    /// The peer expects `next`: everything before it is there. `None` when it cannot expect that.
    pub(super) fn ack(&mut self, next: u32) -> Option<()> {
        let count = next.wrapping_sub(self.first);
        if count > u32::MAX / 2 {
            // An older one, overtaken on another path.
            return Some(());
        }
        if count > self.reached.wrapping_sub(self.first) {
            return None;
        }
        for _ in 0..count {
            let entry = self.entries.pop_front()?;
            self.bytes.drain(..entry.len);
            if self.posted > 0 {
                self.posted -= 1;
                self.posted_bytes -= entry.len;
            }
        }
        self.first = next;
        Some(())
    }

    /// Everything has to be posted again.
    pub(super) fn rewind(&mut self) {
        (self.posted, self.posted_bytes) = (0, 0);
    }

    /// Nothing will be posted any more.
    pub(super) fn clear(&mut self) {
        self.entries = VecDeque::new();
        self.bytes = VecDeque::new();
        self.rewind();
    }

    /// Number behind the last message.
    pub(super) fn end(&self) -> u32 {
        self.first.wrapping_add(self.entries.len() as u32)
    }

    /// Whether everything in front of message `end` is posted on the path in use.
    pub(super) fn is_posted(&self, end: u32) -> bool {
        let missing = end.wrapping_sub(self.first.wrapping_add(self.posted as u32));
        missing == 0 || missing > u32::MAX / 2
    }

    /// Whether the peer has everything in front of message `end`.
    pub(super) fn is_acknowledged(&self, end: u32) -> bool {
        self.first.wrapping_sub(end) <= u32::MAX / 2
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether something waits to be posted.
    pub(super) fn waits(&self) -> bool {
        self.unposted() > 0
    }

    /// How many messages that is.
    pub(super) fn unposted(&self) -> usize {
        self.entries.len() - self.posted
    }

    #[cfg(test)]
    pub(super) fn starting_at(number: u32) -> Self {
        Self { first: number, reached: number, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: AmId = AmId::new(3);

    fn text(log: &Log) -> Option<(u32, Vec<u8>)> {
        let (number, entry) = log.next()?;
        let mut out = vec![0; entry.len];
        log.copy_next(&mut out);
        Some((number, out))
    }

    /// Across the wrap of the numbers, whatever was acknowledged meanwhile: what is posted after a
    /// rewind is everything that was not, in order.
    #[test]
    fn a_rewind_brings_back_what_was_not_acknowledged() {
        let start = u32::MAX - 20;
        for acked in 0..40_u32 {
            let mut log = Log::starting_at(start);
            for n in 0..40_u8 {
                log.push(ID, &[u64::from(n), 0, 0], &vec![n; usize::from(n) * 7]);
                assert!(!log.advance(), "posted for the first time");
            }
            assert_eq!(log.next().map(|(n, _)| n), None);
            assert_eq!(log.ack(start.wrapping_add(acked)), Some(()));
            assert_eq!(log.ack(start.wrapping_add(acked / 2)), Some(()), "an old one does no harm");
            log.rewind();
            for n in acked..40 {
                let expected = (start.wrapping_add(n), vec![n as u8; n as usize * 7]);
                assert_eq!(text(&log), Some(expected));
                assert!(log.advance(), "it is a repetition");
            }
            assert!(!log.waits());
            assert_eq!(log.ack(start.wrapping_add(41)), None, "never sent");
            assert_eq!(log.ack(start.wrapping_add(40)), Some(()));
            assert!(log.bytes.is_empty() && log.entries.is_empty());
        }
    }

    /// An acknowledgement by a path that is gone may be for what waits to be posted again.
    #[test]
    fn acknowledged_while_it_waits_to_be_repeated() {
        let mut log = Log::default();
        for n in 0..10_u8 {
            log.push(ID, &[0; 3], &[n; 10]);
            log.advance();
        }
        log.rewind();
        log.advance();
        assert_eq!(log.ack(6), Some(()));
        assert_eq!(text(&log), Some((6, vec![6; 10])));
    }

    #[test]
    fn it_is_bounded() {
        let mut log = Log::default();
        assert!(log.has_space(usize::MAX / 2), "an empty one takes everything");
        while log.has_space(3000) {
            log.push(ID, &[0; 3], &[0; 3000]);
        }
        assert!(log.bytes.len() <= BYTES && log.bytes.len() + 3000 > BYTES);
        let mut log = Log::default();
        while log.has_space(0) {
            log.push(ID, &[0; 3], &[]);
        }
        assert_eq!(log.entries.len(), MESSAGES);
    }
}
