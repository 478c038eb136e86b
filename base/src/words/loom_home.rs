//! Queue memory under the model checker. Shared words are loom atomics; body words are loom
//! cells, so that a body read before it is published is reported as a race instead of as a
//! surprising value, and so that bodies do not multiply the interleavings.

use loom::cell::UnsafeCell;
use std::sync::Arc;

use super::{LINE_WORDS, LineWords, Words, space};
use crate::sync::atomic::{AtomicU64, Ordering};

/// Shared words per line: no layout of ours has more.
const SHARED: usize = 3;

#[derive(Debug)]
struct ModelLine {
    shared: [AtomicU64; SHARED],
    body: [UnsafeCell<u64>; LINE_WORDS],
}

/// Zeroed modelled words; clones share them. To be made inside a model.
#[derive(Clone, Debug)]
pub struct LoomWords(Arc<[ModelLine]>);

// SAFETY: body cells are accessed in the order of the queue's shared words; loom reports the
// executions in which they are not.
unsafe impl Send for LoomWords {}
// SAFETY: as for `Send`.
unsafe impl Sync for LoomWords {}

/// A line of [`LoomWords`].
#[derive(Clone, Copy, Debug)]
pub struct LoomLine<'a>(&'a ModelLine);

impl LoomWords {
    /// As many zeroed lines as hold `bytes`.
    pub fn new(bytes: usize) -> Self {
        Self(
            (0..bytes.div_ceil(crate::sync::LINE))
                .map(|_| ModelLine {
                    shared: std::array::from_fn(|_| AtomicU64::new(0)),
                    body: std::array::from_fn(|_| UnsafeCell::new(0)),
                })
                .collect(),
        )
    }
}

impl Words for LoomWords {
    type Line<'a> = LoomLine<'a>;

    fn lines(&self) -> usize {
        self.0.len()
    }

    fn line(&self, index: usize) -> LoomLine<'_> {
        LoomLine(&self.0[index])
    }

    unsafe fn line_unchecked(&self, index: usize) -> LoomLine<'_> {
        self.line(index)
    }

    fn order(&self) {}
}

impl<'a> LoomLine<'a> {
    fn shared(self, word: usize) -> &'a AtomicU64 {
        &self.0.shared[word]
    }
}

impl LineWords for LoomLine<'_> {
    shared_words!();

    fn write(self, word: usize, value: u64) {
        // SAFETY: loom checks that no access of another thread is concurrent, then runs us.
        self.0.body[word].with_mut(|place| unsafe { *place = value });
    }

    fn read(self, word: usize) -> u64 {
        // SAFETY: loom checks that no write of another thread is concurrent, then runs us.
        self.0.body[word].with(|place| unsafe { *place })
    }

    fn put(self, word: usize, bytes: &[u8]) {
        let n = bytes.len().min(space(word));
        for (i, chunk) in bytes[..n].chunks(8).enumerate() {
            let mut value = [0; 8];
            value[..chunk.len()].copy_from_slice(chunk);
            self.write(word + i, u64::from_ne_bytes(value));
        }
    }

    fn get(self, word: usize, out: &mut [u8]) {
        let n = out.len().min(space(word));
        for (i, chunk) in out[..n].chunks_mut(8).enumerate() {
            let value = self.read(word + i).to_ne_bytes();
            chunk.copy_from_slice(&value[..chunk.len()]);
        }
    }

    fn prefetch_write(self) {}

    fn prefetch_read(self) {}
}
