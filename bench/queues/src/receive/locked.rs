//! The baseline that SCMP was made to replace: one queue of two halves behind a lock, whose word
//! holds lock, active half and offset, so that one operation takes the lock and reads the rest.
//!
//! ```text
//!   line 0   word 0:   63 lock | 62 half | 31 .. 0 next free slot
//!   line 4   L slots of half 0, then L slots of half 1
//!   slot     word 0: length + 1, words 1-3: header, words 4-7: payload; whole lines of payload
//!            follow
//! ```
//! A sender holds the lock while it writes; all others spin. The receiver takes the lock, gives out
//! the other half and drains the old one without it.

use bowline_base::sync::atomic::Ordering;
use bowline_base::sync::{LINE, spin_loop};
use bowline_base::words::{DirectWords, LineWords, Words};

const LOCK: u64 = 1 << 63;
const HALF: u64 = 1 << 62;
const FIRST_SLOT: usize = 4;
/// Payload in the first slot of a message.
const FIRST_BYTES: usize = 32;

/// Bytes of memory that a queue with halves of `slots` needs.
pub(crate) const fn bytes_for(slots: u32) -> usize {
    (FIRST_SLOT + 2 * slots as usize) * LINE
}

/// One side of the queue.
#[derive(Debug)]
pub(crate) struct Queue {
    words: DirectWords,
    slots: u32,
    /// The half that is being drained, its next slot and its end.
    draining: u64,
    next: u32,
    end: u32,
}

impl Queue {
    /// In zeroed memory, or in that of an existing queue.
    pub(crate) fn new(words: DirectWords, slots: u32) -> Self {
        Self { words, slots, draining: 0, next: 0, end: 0 }
    }

    /// Takes the lock and returns half and offset.
    #[inline]
    fn lock(&self) -> u64 {
        let line = self.words.line(0);
        loop {
            // Relaxed: `replace` acquires.
            let word = line.load(0, Ordering::Relaxed);
            // AcqRel in `replace`: pairs with the Release store in `unlock`.
            if word & LOCK == 0 && line.replace(0, word, word | LOCK) {
                return word;
            }
            spin_loop();
        }
    }

    #[inline]
    fn unlock(&self, word: u64) {
        // Release: pairs with `replace` in `lock`; publishes the slots.
        self.words.line(0).store(0, word, Ordering::Release);
    }

    fn line(&self, half: u64, slot: u32) -> usize {
        FIRST_SLOT + if half == 0 { 0 } else { self.slots as usize } + slot as usize
    }

    /// Sends a message; `false` when there is no space.
    #[inline]
    pub(crate) fn push(&self, header: &[u64; 3], payload: &[u8]) -> bool {
        let (head, rest) = payload.split_at(payload.len().min(FIRST_BYTES));
        let slots = 1 + rest.len().div_ceil(LINE) as u32;
        let word = self.lock();
        let offset = word as u32;
        if offset + slots > self.slots {
            self.unlock(word);
            return false;
        }
        let first = self.line(word & HALF, offset);
        let line = self.words.line(first);
        line.write(0, payload.len() as u64 + 1);
        for (at, value) in header.iter().enumerate() {
            line.write(1 + at, *value);
        }
        line.put(4, head);
        for (at, piece) in rest.chunks(LINE).enumerate() {
            self.words.line(first + 1 + at).put(0, piece);
        }
        self.unlock(word + u64::from(slots));
        true
    }

    /// Hands out at most `budget` messages.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        budget: u32,
        out: &mut [u8],
        mut each: impl FnMut(usize, &[u8]),
    ) -> u32 {
        if self.next == self.end {
            // Relaxed: only whether to lock it; `lock` acquires.
            if self.words.line(0).load(0, Ordering::Relaxed) as u32 == 0 {
                return 0;
            }
            let word = self.lock();
            self.unlock(!word & HALF);
            (self.draining, self.next, self.end) = (word & HALF, 0, word as u32);
        }
        let mut taken = 0;
        while taken < budget && self.next < self.end {
            let first = self.line(self.draining, self.next);
            let line = self.words.line(first);
            let len = (line.read(0) - 1) as usize;
            let (head, rest) = out[..len].split_at_mut(len.min(FIRST_BYTES));
            line.get(4, head);
            for (at, piece) in rest.chunks_mut(LINE).enumerate() {
                self.words.line(first + 1 + at).get(0, piece);
            }
            self.next += 1 + rest.len().div_ceil(LINE) as u32;
            each(len, out);
            taken += 1;
        }
        taken
    }
}
