//! Queue memory on the heap: for threads of one process, property tests and Miri. Body words are
//! relaxed atomics, so there is no `unsafe` and nothing to map. It is slower than mapped memory.

use std::sync::Arc;

use super::{LINE_WORDS, LineWords, Words, space};
use crate::sync::CacheLine;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Zeroed words on the heap; clones share them.
#[derive(Clone, Debug)]
pub struct HeapWords(Arc<[CacheLine<[AtomicU64; LINE_WORDS]>]>);

/// A line of [`HeapWords`].
#[derive(Clone, Copy, Debug)]
pub struct HeapLine<'a>(&'a [AtomicU64; LINE_WORDS]);

impl HeapWords {
    /// As many zeroed lines as hold `bytes`.
    pub fn new(bytes: usize) -> Self {
        Self((0..bytes.div_ceil(crate::sync::LINE)).map(|_| CacheLine::default()).collect())
    }

    /// Fills the memory from its start with `words`, in order, as far as both go.
    pub fn fill(&self, words: impl IntoIterator<Item = u64>) {
        let all = self.0.iter().flat_map(|line| line.iter());
        for (word, value) in all.zip(words) {
            // Relaxed: a test's set-up, before or beside any protocol.
            word.store(value, Ordering::Relaxed);
        }
    }
}

impl Words for HeapWords {
    type Line<'a> = HeapLine<'a>;

    #[inline]
    fn lines(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn line(&self, index: usize) -> HeapLine<'_> {
        HeapLine(&self.0[index].0)
    }

    #[inline]
    unsafe fn line_unchecked(&self, index: usize) -> HeapLine<'_> {
        // Checked nevertheless: this home is for tests, where an index out of range must show.
        self.line(index)
    }

    #[inline]
    fn order(&self) {}
}

impl<'a> HeapLine<'a> {
    #[inline]
    fn shared(self, word: usize) -> &'a AtomicU64 {
        &self.0[word]
    }
}

impl LineWords for HeapLine<'_> {
    shared_words!();

    #[inline]
    fn write(self, word: usize, value: u64) {
        // Relaxed: body words are published by a shared word of the queue.
        self.0[word].store(value, Ordering::Relaxed);
    }

    #[inline]
    fn read(self, word: usize) -> u64 {
        // Relaxed: read after the shared word that published it.
        self.0[word].load(Ordering::Relaxed)
    }

    #[inline]
    fn put(self, word: usize, bytes: &[u8]) {
        let n = bytes.len().min(space(word));
        for (place, chunk) in self.0[word..].iter().zip(bytes[..n].chunks(8)) {
            let mut value = [0; 8];
            value[..chunk.len()].copy_from_slice(chunk);
            // Relaxed: as for `write`.
            place.store(u64::from_ne_bytes(value), Ordering::Relaxed);
        }
    }

    #[inline]
    fn get(self, word: usize, out: &mut [u8]) {
        let n = out.len().min(space(word));
        for (place, chunk) in self.0[word..].iter().zip(out[..n].chunks_mut(8)) {
            // Relaxed: as for `read`.
            let value = place.load(Ordering::Relaxed).to_ne_bytes();
            chunk.copy_from_slice(&value[..chunk.len()]);
        }
    }

    #[inline]
    fn prefetch_write(self) {}

    #[inline]
    fn prefetch_read(self) {}
}
