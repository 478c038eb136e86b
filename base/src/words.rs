//! A queue's memory as 64-bit words in cache lines, whatever the memory is.
//!
//! The queue algorithms ([`crate::scmp`], [`crate::ring`]) are written once over [`Words`]; a
//! *home* says where the words are:
//!
//! - [`DirectWords`]: memory mapped into this process; loads, stores and locked instructions.
//! - `ViewWords`: a transport's memory, borrowed for a call.
//! - [`HeapWords`]: atomics on the heap, for threads, property tests and Miri.
//! - `LoomWords`, with `--cfg bowline_loom`: the model checker's.
//!
//! A line has two kinds of words. *Shared words* are loaded, stored and added to atomically, by
//! several sides at once. *Body words* are written by one side and read by the other after a
//! shared word has published them: plain memory accesses, and under loom an access out of order
//! is reported as a race. Every word is of one of the two kinds only.
//!
//! **Remote homes.** The words of a peer behind a network are reached by posted operations that
//! complete later or fail, which no method here can say. There are two ways to have them:
//!
//! 1. *Posted*: the producer's steps are pure functions of what the operations returned (see
//!    [`crate::scmp::counted`]): which word to fetch-and-add, what its old value means, the
//!    image of each slot and where to put it, which word to add to afterwards. A protocol engine
//!    posts them and feeds the results back. Nothing there needs a `Words`.
//! 2. *Synchronous*: a home whose methods wait. After its link has failed, every load and
//!    fetch-and-add must answer [`FAULT`], which both queue forms take as a poisoned queue, and
//!    stores must do nothing. So a broken link is an error of the queue, never a made-up message.
//!
//! It is not an allocator and knows no layout.

use std::fmt::Debug;
use std::marker::PhantomData;

use crate::copy::copy_bytes;
use crate::sync::LINE;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::view::{View, prefetch_to_write};

/// Words in a line.
pub const LINE_WORDS: usize = LINE / 8;

/// What loads answer after a remote home has lost its link; no valid control word has this value.
pub const FAULT: u64 = u64::MAX;

/// A queue's memory. Clones name the same memory.
pub trait Words: Clone + Debug {
    /// One line of it.
    type Line<'a>: LineWords
    where
        Self: 'a;

    /// Lines of memory.
    fn lines(&self) -> usize;

    /// The line `index`.
    ///
    /// # Panics
    /// When `index` is not below [`Words::lines`].
    fn line(&self, index: usize) -> Self::Line<'_>;

    /// The line `index`, without a check that it exists.
    ///
    /// # Safety
    /// - `index` must be below [`Words::lines`].
    unsafe fn line_unchecked(&self, index: usize) -> Self::Line<'_>;

    /// Makes what was put or written visible before any later atomic operation of this side.
    /// Nothing to do where memory is coherent and the atomics carry the order; a remote home
    /// waits for its puts or posts a fence.
    fn order(&self);

    /// Copies bytes into body words across lines, from byte `offset` of the memory on, which starts a word.
    /// Bytes of a last, partly covered word may become zero.
    ///
    /// # Panics
    /// When they are not all inside.
    fn put_across(&self, offset: usize, bytes: &[u8]) {
        for (at, piece) in pieces(offset, bytes.len()) {
            self.line(at / LINE).put(at % LINE / 8, &bytes[piece]);
        }
    }

    /// Copies bytes out of body words across lines, from byte `offset` of the memory on, which starts a word.
    ///
    /// # Panics
    /// When they are not all inside.
    fn get_across(&self, offset: usize, out: &mut [u8]) {
        for (at, piece) in pieces(offset, out.len()) {
            self.line(at / LINE).get(at % LINE / 8, &mut out[piece]);
        }
    }

    /// The same past the caches, where that can be, for what nobody will read soon.
    ///
    /// # Panics
    /// When they are not all inside.
    fn get_across_past(&self, offset: usize, out: &mut [u8]) {
        self.get_across(offset, out);
    }
}

/// `len` bytes that begin at `offset` of some lines, cut where lines end: where each piece begins, and
/// which bytes it is.
fn pieces(offset: usize, len: usize) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = offset + from;
        let end = len.min(from + LINE - at % LINE);
        let piece = from..end;
        from = end;
        (!piece.is_empty()).then_some((at, piece))
    })
}

/// The eight words of a line. Word numbers are below [`LINE_WORDS`].
///
/// Orderings have the meaning they have in `std::sync::atomic`.
pub trait LineWords: Copy + Debug {
    /// Reads a shared word.
    fn load(self, word: usize, order: Ordering) -> u64;
    /// Writes a shared word.
    fn store(self, word: usize, value: u64, order: Ordering);
    /// Adds to a shared word and returns what it was.
    fn fetch_add(self, word: usize, value: u64, order: Ordering) -> u64;
    /// Replaces a shared word and returns what it was.
    fn swap(self, word: usize, value: u64, order: Ordering) -> u64;
    /// Adds to a shared word.
    fn add(self, word: usize, value: u64, order: Ordering);
    /// Replaces a shared word if it is `current`; whether it was. AcqRel, Acquire on failure.
    fn replace(self, word: usize, current: u64, new: u64) -> bool;
    /// Writes a body word.
    fn write(self, word: usize, value: u64);
    /// Reads a body word.
    fn read(self, word: usize) -> u64;
    /// Copies bytes into body words from `word` on; what does not fit in the line is left out.
    /// Bytes of a last, partly covered word may become zero.
    fn put(self, word: usize, bytes: &[u8]);
    /// Copies bytes out of body words from `word` on; stops at the line's end.
    fn get(self, word: usize, out: &mut [u8]);
    /// Asks for the line with the right to write it.
    fn prefetch_write(self);
    /// Asks for the line to read it.
    fn prefetch_read(self);
}

/// Memory mapped into this process. Copyable; the one who made it keeps the mapping alive.
#[derive(Clone, Copy, Debug)]
pub struct DirectWords {
    start: *mut u64,
    lines: usize,
}

// SAFETY: all accesses go through atomics or through raw copies of body words, which the queue
// algorithms order by the atomics beside them; the promise made to `from_view` holds for every
// thread.
unsafe impl Send for DirectWords {}
// SAFETY: as for `Send`; no method needs exclusive access.
unsafe impl Sync for DirectWords {}

impl DirectWords {
    /// The whole lines of `view`, or `None` when it does not start on a line.
    ///
    /// # Safety
    /// - The viewed memory must stay mapped, readable and writable, as long as this value, a copy
    ///   of it or a queue side made of them is used, whatever the lifetime of `view` says.
    /// - Every other process that uses this memory must use it as words of the same queue, or be a damaged
    ///   or hostile process, whose writes are only ever taken for data.
    #[inline]
    pub unsafe fn from_view(view: View<'_>) -> Option<Self> {
        if !view.as_ptr().addr().is_multiple_of(LINE) {
            return None;
        }
        Some(Self { start: view.as_ptr().cast(), lines: view.len() / LINE })
    }

    /// `len` bytes from the start of line `first`, across lines, or `None` when they are not all
    /// inside. For consecutive lines that hold nothing but body words.
    #[inline]
    pub fn bytes(&self, first: usize, len: usize) -> Option<View<'_>> {
        if first > self.lines || len > (self.lines - first) * LINE {
            return None;
        }
        // SAFETY: the bytes lie within `lines` lines from `start`, which `from_view` was promised
        // to be mapped while `self` is used; no slice of them is ever made.
        Some(unsafe { View::from_raw(self.start.add(first * LINE_WORDS).cast(), len) })
    }
}

impl Words for DirectWords {
    type Line<'a> = DirectLine<'a>;

    #[inline]
    fn lines(&self) -> usize {
        self.lines
    }

    #[inline]
    fn line(&self, index: usize) -> DirectLine<'_> {
        assert!(index < self.lines, "a line of a queue lies within its memory");
        // SAFETY: checked in the line above.
        unsafe { self.line_unchecked(index) }
    }

    #[inline]
    unsafe fn line_unchecked(&self, index: usize) -> DirectLine<'_> {
        debug_assert!(index < self.lines);
        // SAFETY: `index < lines` is promised by the caller, so the whole line is inside the
        // memory promised to `from_view`.
        let words = unsafe { self.start.add(index * LINE_WORDS) };
        DirectLine { words, memory: PhantomData }
    }

    #[inline]
    fn order(&self) {}
}

/// A line of [`DirectWords`].
#[derive(Clone, Copy, Debug)]
pub struct DirectLine<'a> {
    /// Start of 64 mapped bytes, aligned to 64.
    words: *mut u64,
    memory: PhantomData<&'a ()>,
}

impl<'a> DirectLine<'a> {
    #[inline]
    fn address(self, word: usize) -> *mut u64 {
        assert!(word < LINE_WORDS, "a word of a line");
        // SAFETY: `words` starts a line of eight words, and `word` is below eight.
        unsafe { self.words.add(word) }
    }

    #[inline]
    fn shared(self, word: usize) -> &'a AtomicU64 {
        // SAFETY: the address is aligned to 8 and mapped for `'a`; shared words are never
        // accessed but atomically.
        unsafe { shared_at(self.address(word)) }
    }

    /// `len` bytes from `word` on, fewer at the end of the line.
    #[inline]
    pub fn bytes(self, word: usize, len: usize) -> View<'a> {
        let len = len.min(space(word));
        // SAFETY: `word` is below eight and `len` ends within the line, which is mapped for `'a`.
        unsafe { View::from_raw(self.address(word).cast(), len) }
    }
}

/// # Safety
/// - `word` must be aligned to 8, mapped for `'a`, and accessed only atomically.
#[cfg(not(bowline_loom))]
#[inline]
unsafe fn shared_at<'a>(word: *mut u64) -> &'a AtomicU64 {
    // SAFETY: the caller's promises are those of `from_ptr`.
    unsafe { AtomicU64::from_ptr(word) }
}

/// # Safety
/// None: it never returns. Mapped memory cannot be modelled; models run over `LoomWords`.
#[cfg(bowline_loom)]
unsafe fn shared_at<'a>(_word: *mut u64) -> &'a AtomicU64 {
    panic!("mapped memory is not modelled; loom models run over LoomWords")
}

/// Bytes from `word` to the end of its line.
#[inline]
const fn space(word: usize) -> usize {
    LINE - word * 8
}

/// The methods of [`LineWords`] on shared words, for a line that has `shared`.
macro_rules! shared_words {
    () => {
        #[inline]
        fn load(self, word: usize, order: Ordering) -> u64 {
            self.shared(word).load(order)
        }

        #[inline]
        fn store(self, word: usize, value: u64, order: Ordering) {
            self.shared(word).store(value, order);
        }

        #[inline]
        fn fetch_add(self, word: usize, value: u64, order: Ordering) -> u64 {
            self.shared(word).fetch_add(value, order)
        }

        #[inline]
        fn swap(self, word: usize, value: u64, order: Ordering) -> u64 {
            self.shared(word).swap(value, order)
        }

        #[inline]
        fn add(self, word: usize, value: u64, order: Ordering) {
            self.shared(word).fetch_add(value, order);
        }

        #[inline]
        fn replace(self, word: usize, current: u64, new: u64) -> bool {
            // AcqRel, Acquire: the caller of `replace` says what it pairs with.
            self.shared(word)
                .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        }
    };
}

impl LineWords for DirectLine<'_> {
    shared_words!();

    #[inline]
    fn write(self, word: usize, value: u64) {
        // SAFETY: the address is aligned and mapped; body words are ordered by the shared word
        // that publishes them, and a hostile peer's write at the same time only changes data.
        // Volatile, so that each word is stored for itself: joined to a vector, the words would
        // be loaded as one right after they were stored as several, which stalls a sender by a
        // tenth of a message's latency.
        unsafe { self.address(word).write_volatile(value) }
    }

    #[inline]
    fn read(self, word: usize) -> u64 {
        // SAFETY: as for `write`; volatile, so that a value that was checked is the one used.
        unsafe { self.address(word).read_volatile() }
    }

    #[inline]
    fn put(self, word: usize, bytes: &[u8]) {
        let n = bytes.len().min(space(word));
        // SAFETY: `n` bytes from `word` are inside the line and inside `bytes`; a slice of ours
        // never overlaps queue memory, by the promise to `View::from_raw` behind `from_view`.
        unsafe { copy_bytes(bytes.as_ptr(), self.address(word).cast(), n) }
    }

    #[inline]
    fn get(self, word: usize, out: &mut [u8]) {
        let n = out.len().min(space(word));
        // SAFETY: as for `put`, in the other direction.
        unsafe { copy_bytes(self.address(word).cast(), out.as_mut_ptr(), n) }
    }

    #[inline]
    fn prefetch_write(self) {
        prefetch_to_write(self.words.cast());
    }

    #[inline]
    fn prefetch_read(self) {
        // SAFETY: a prefetch of any address has no effect that a program can see; SSE is part
        // of x86-64.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.words.cast());
        }
        // SAFETY: a prefetch of any address has no effect that a program can see.
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        unsafe {
            std::arch::asm!(
                "prfm pldl1keep, [{}]",
                in(reg) self.words.addr(),
                options(nostack, preserves_flags, nomem)
            );
        }
    }
}

#[cfg(not(bowline_loom))]
pub use heap_home::{HeapLine, HeapWords};
#[cfg(bowline_loom)]
pub use loom_home::{LoomLine, LoomWords};
#[cfg(not(bowline_loom))]
pub use view_home::{ViewLine, ViewWords};

pub mod checked_word;

#[cfg(not(bowline_loom))]
mod heap_home;
#[cfg(bowline_loom)]
mod loom_home;
#[cfg(not(bowline_loom))]
mod view_home;

#[cfg(all(test, not(bowline_loom)))]
mod tests;
