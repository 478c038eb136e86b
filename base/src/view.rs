//! Views of memory that somebody else may write: another process, or a peer's one-sided write.
//!
//! Such memory must never be a `&[u8]`: the compiler may assume that a shared slice does not
//! change. [`View`] is a pointer and a length whose only operations copy bytes in or out, each
//! byte being touched once. It is not a lock and orders nothing; who publishes what to whom is
//! the business of the words beside the bytes.
//!
//! # What a copy may meet
//! Among sides that keep the rules no copy meets a write: an atomic word beside the bytes, stored with
//! Release and loaded with Acquire, stands between the two. A broken peer does not keep them. What is
//! copied then is any mixture of old and new bytes, and nothing else happens, by these rules:
//!
//! 1. Bytes are copied to memory of our own and checked there. What was checked is what is used.
//! 2. The memory is reached through an address that others have too (a mapping that is shared, memory
//!    that was lent), so the compiler cannot know that nobody writes it, nor prove a race.
//! 3. Words through which sides meet are atomics. Lines, and with them all bulk, are copied in assembly
//!    ([`copy`](crate::copy)), which the compiler takes as it is.
//!
//! Another process, the kernel and a device are outside of what Rust's memory model speaks of. Two
//! threads of one process are inside: where one of them breaks the rules, a copy of few bytes is a data
//! race to the letter; today it is an ordinary access of at most 64 bytes, or a call of the C library.
//! FIXME(Rust has no stable copy that may race)

use std::marker::PhantomData;

use crate::copy::{copy_from_shared, copy_from_shared_past, copy_to_shared};

/// A bounded piece of memory that may change under us. Copyable; lives as long as its mapping.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    start: *mut u8,
    len: usize,
    mapping: PhantomData<&'a ()>,
}

// SAFETY: a view only copies bytes through raw pointers; using it from another thread is the same
// as from another process, which is what it is made for. Validity is promised to `from_raw` for
// the whole of `'a`, whatever the thread.
unsafe impl Send for View<'_> {}
// SAFETY: as for `Send`: all operations take the view by value and copy bytes.
unsafe impl Sync for View<'_> {}

impl<'a> View<'a> {
    /// Makes a view of `len` bytes at `start`.
    ///
    /// # Safety
    /// - `start .. start + len` must be mapped and readable during the whole of `'a`. They must be writable where
    ///   the view is handed to what may write it, as safe code can.
    /// - No `&mut [u8]` to these bytes may be used during `'a`, and no `&[u8]` where anybody may write them, through the
    ///   view or otherwise; except an empty one.
    #[inline]
    pub const unsafe fn from_raw(start: *mut u8, len: usize) -> Self {
        Self { start, len, mapping: PhantomData }
    }

    /// A view of nothing.
    #[inline]
    pub const fn empty() -> Self {
        Self { start: std::ptr::NonNull::<u8>::dangling().as_ptr(), len: 0, mapping: PhantomData }
    }

    /// Bytes in view.
    #[inline]
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Where the view starts; for system calls and atomics, which take addresses.
    #[inline]
    pub const fn as_ptr(self) -> *mut u8 {
        self.start
    }

    /// `len` bytes from `offset`, or `None` when they are not all inside.
    #[inline]
    pub fn slice(self, offset: usize, len: usize) -> Option<Self> {
        if offset > self.len || len > self.len - offset {
            return None;
        }
        // SAFETY: `offset <= self.len`, so the result is inside or one past the mapping that
        // `from_raw` was promised.
        let start = unsafe { self.start.add(offset) };
        Some(Self { start, len, mapping: PhantomData })
    }

    /// Copies the first `out.len()` bytes out; copies what there is when the view is shorter.
    /// Returns the bytes copied.
    #[inline]
    pub fn copy_out(self, out: &mut [u8]) -> usize {
        let n = self.len.min(out.len());
        // SAFETY: `n` bytes are inside the view and inside `out`; `out` is exclusive and, by the
        // promise to `from_raw`, does not overlap the view.
        unsafe { copy_from_shared(self.start, out.as_mut_ptr(), n) };
        n
    }

    /// The same past the caches, for what nobody will read soon.
    #[inline]
    pub fn copy_out_past(self, out: &mut [u8]) -> usize {
        let n = self.len.min(out.len());
        // SAFETY: as in `copy_out`.
        unsafe { copy_from_shared_past(self.start, out.as_mut_ptr(), n) };
        n
    }

    /// Copies `from` to the start of the view; copies what fits. Returns the bytes copied.
    #[inline]
    pub fn copy_in(self, from: &[u8]) -> usize {
        let n = self.len.min(from.len());
        // SAFETY: `n` bytes are inside the view and inside `from`; by the promise to `from_raw` they are writable and
        // do not overlap.
        unsafe { copy_to_shared(from.as_ptr(), self.start, n) };
        n
    }

    /// The 8 aligned bytes at `offset` as an atomic word, through which several writers may meet;
    /// they must not be copied over at the same time. `None` outside of the view or misaligned.
    #[cfg(not(bowline_loom))]
    #[inline]
    pub fn word(self, offset: usize) -> Option<&'a crate::sync::atomic::AtomicU64> {
        let at = self.slice(offset, 8)?.start;
        if !at.cast::<u64>().is_aligned() {
            return None;
        }
        // SAFETY: the 8 bytes are inside the view, so mapped and, where a word of them is asked for, writable for all
        // of `'a` by the promise to `from_raw`, and aligned as was just checked. An atomic may be shared with
        // writers anywhere, and every bit pattern is valid for it.
        Some(unsafe { crate::sync::atomic::AtomicU64::from_ptr(at.cast()) })
    }

    /// The 4 aligned bytes at `offset` as an atomic word; as [`word`](Self::word).
    #[cfg(not(bowline_loom))]
    #[inline]
    pub fn half_word(self, offset: usize) -> Option<&'a crate::sync::atomic::AtomicU32> {
        let at = self.slice(offset, 4)?.start;
        if !at.cast::<u32>().is_aligned() {
            return None;
        }
        // SAFETY: as in `word`, with 4 bytes.
        Some(unsafe { crate::sync::atomic::AtomicU32::from_ptr(at.cast()) })
    }

    /// The bytes as a vector.
    pub fn to_vec(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_to(&mut out);
        out
    }

    /// Copies all bytes to the end of `out`.
    #[inline]
    pub fn append_to(self, out: &mut Vec<u8>) {
        out.reserve(self.len);
        let end = out.len();
        // SAFETY: `reserve` made space for `self.len` bytes behind `end`, which are written before
        // they count; the vector's memory does not overlap the view by the promise to `from_raw`.
        unsafe {
            copy_from_shared(self.start, out.as_mut_ptr().add(end), self.len);
            out.set_len(end + self.len);
        }
    }
}

/// Asks for the line of `at` with the right to write it.
#[inline]
pub fn prefetch_to_write(at: *const u8) {
    // SAFETY: a prefetch of any address has no effect that a program can see. The
    // instruction is PREFETCHW; every x86-64 processor at least ignores it.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) at.addr(),
            options(nostack, preserves_flags, nomem)
        );
    }
    // SAFETY: a prefetch of any address has no effect that a program can see.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        std::arch::asm!(
            "prfm pstl1keep, [{}]",
            in(reg) at.addr(),
            options(nostack, preserves_flags, nomem)
        );
    }
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_appended_to_what_is_there() {
        let mut bytes = *b"more bytes";
        // SAFETY: `bytes` is only used through the view until the end of the test.
        let view = unsafe { View::from_raw(bytes.as_mut_ptr(), 10) };
        let mut out = b"some and ".to_vec();
        view.append_to(&mut out);
        assert_eq!(out, b"some and more bytes");
        View::empty().append_to(&mut out);
        assert_eq!(out.len(), 19);
        assert_eq!(view.to_vec(), b"more bytes");
    }

    #[test]
    fn slices_outside_are_refused() {
        let mut bytes = [7u8; 10];
        // SAFETY: `bytes` is only used through the view until the end of the test.
        let view = unsafe { View::from_raw(bytes.as_mut_ptr(), 10) };
        assert!(view.slice(11, 0).is_none());
        assert!(view.slice(5, 6).is_none());
        assert!(view.slice(usize::MAX, 2).is_none());
        assert_eq!(view.slice(4, 6).map(View::len), Some(6));
    }
}
