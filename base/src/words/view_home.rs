//! Queue memory behind a [`View`]: for memory that somebody else keeps, borrowed for one call.
//!
//! A transport's memory is reached through a view that lives as long as a borrow of the
//! transport, so that a queue side cannot keep it. It keeps its state under the home `()` and is
//! put into this one for the length of a call (`rehome` of the queue forms). There is no `unsafe`
//! here: each access is checked against the view.

use super::{LINE_WORDS, LineWords, Words, space};
use crate::sync::LINE;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::view::View;

/// The whole lines of a view. Copyable, like the view.
#[derive(Clone, Copy, Debug)]
pub struct ViewWords<'v>(View<'v>);

/// A line of [`ViewWords`].
#[derive(Clone, Copy, Debug)]
pub struct ViewLine<'v>(View<'v>);

impl<'v> ViewWords<'v> {
    /// The whole lines of `view`, or `None` when it does not start on a line.
    #[inline]
    pub fn new(view: View<'v>) -> Option<Self> {
        view.as_ptr().addr().is_multiple_of(LINE).then_some(Self(view))
    }

    /// The line `index`, for as long as the view lives.
    #[inline]
    pub(crate) fn long_line(&self, index: usize) -> ViewLine<'v> {
        let start = index.checked_mul(LINE);
        let line = start.and_then(|start| self.0.slice(start, LINE));
        ViewLine(line.expect("a line of a queue lies within its memory"))
    }
}

impl Words for ViewWords<'_> {
    type Line<'a>
        = ViewLine<'a>
    where
        Self: 'a;

    #[inline]
    fn lines(&self) -> usize {
        self.0.len() / LINE
    }

    #[inline]
    fn line(&self, index: usize) -> ViewLine<'_> {
        self.long_line(index)
    }

    #[inline]
    unsafe fn line_unchecked(&self, index: usize) -> ViewLine<'_> {
        // Checked nevertheless: the view's length is that of a transport's memory.
        self.long_line(index)
    }

    #[inline]
    fn order(&self) {}

    #[inline]
    fn put_across(&self, offset: usize, bytes: &[u8]) {
        self.0.slice(offset, bytes.len()).expect("within the memory").copy_in(bytes);
    }

    #[inline]
    fn get_across(&self, offset: usize, out: &mut [u8]) {
        self.0.slice(offset, out.len()).expect("within the memory").copy_out(out);
    }

    #[inline]
    fn get_across_past(&self, offset: usize, out: &mut [u8]) {
        self.0.slice(offset, out.len()).expect("within the memory").copy_out_past(out);
    }
}

impl<'v> ViewLine<'v> {
    #[inline]
    fn shared(self, word: usize) -> &'v AtomicU64 {
        self.0.word(word * 8).expect("a word of a line that starts on one")
    }

    /// `len` bytes from `word` on, fewer at the end of the line.
    #[inline]
    pub fn bytes(self, word: usize, len: usize) -> View<'v> {
        self.0.slice(word * 8, len.min(space(word))).expect("within a line")
    }
}

impl LineWords for ViewLine<'_> {
    shared_words!();

    #[inline]
    fn write(self, word: usize, value: u64) {
        self.bytes(word, 8).copy_in(&value.to_ne_bytes());
    }

    #[inline]
    fn read(self, word: usize) -> u64 {
        let mut bytes = [0; 8];
        self.bytes(word, 8).copy_out(&mut bytes);
        u64::from_ne_bytes(bytes)
    }

    #[inline]
    fn put(self, word: usize, bytes: &[u8]) {
        self.bytes(word, LINE_WORDS * 8).copy_in(bytes);
    }

    #[inline]
    fn get(self, word: usize, out: &mut [u8]) {
        self.bytes(word, LINE_WORDS * 8).copy_out(out);
    }

    #[inline]
    fn prefetch_write(self) {}

    #[inline]
    fn prefetch_read(self) {}
}
