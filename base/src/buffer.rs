//! Handles of user buffers that an operation holds while it is under way.
//!
//! The protocol engine is free of `unsafe`, so the promise that a buffer outlives its operation
//! is made where a handle is built. Two kinds of owner can make it: one that gives its memory
//! away ([`SendBuf::owned`], [`RecvBuf::owned`]), and one that stands in a scope whose exit waits
//! for every operation (the MPI layer's `scope`), which uses the `unsafe` constructors. Handles
//! are not reference counted and do not know what operation holds them.

use std::mem::ManuallyDrop;

use crate::view::{View, copy_small};

/// Bytes that an operation reads. Moved into the operation, dropped when it has completed.
#[derive(Debug)]
pub struct SendBuf {
    start: *const u8,
    /// Bytes, and [`OWNED`].
    len: usize,
}

/// Bytes that an operation writes. Moved into the operation, dropped when it has completed.
#[derive(Debug)]
pub struct RecvBuf {
    start: *mut u8,
    /// Bytes, and [`OWNED`].
    len: usize,
}

// SAFETY: the bytes are either owned by the handle, or promised to `borrowed` to stay valid and
// unwritten until the handle is dropped, on whatever thread that is.
unsafe impl Send for SendBuf {}
// SAFETY: the bytes are either owned by the handle, or promised to `borrowed` to belong to the
// handle alone until it is dropped, on whatever thread that is.
unsafe impl Send for RecvBuf {}

/// Set in a handle's length when its bytes are its own. No memory has so many bytes, and a handle
/// of two words travels in registers.
const OWNED: usize = 1 << (usize::BITS - 1);

/// A length that somebody promised to be one of memory, which has fewer than `isize::MAX` bytes.
const fn checked(len: usize) -> usize {
    debug_assert!(len < OWNED, "no memory is that long");
    len & !OWNED
}

fn give_away(bytes: Vec<u8>) -> (*mut u8, usize) {
    let bytes = Box::leak(bytes.into_boxed_slice());
    (bytes.as_mut_ptr(), bytes.len() | OWNED)
}

/// The bytes of a handle that owns them.
///
/// # Safety
/// `start` and `len` are those of a handle, which is not used any more.
unsafe fn take_back(start: *mut u8, len: usize) -> Option<Vec<u8>> {
    if len & OWNED == 0 {
        return None;
    }
    let bytes = std::ptr::slice_from_raw_parts_mut(start, len & !OWNED);
    // SAFETY: `OWNED` is set by `give_away` alone, which leaked a box of this place and length;
    // the caller promises that nobody takes it a second time.
    Some(unsafe { Box::from_raw(bytes) }.into_vec())
}

impl Drop for SendBuf {
    #[inline]
    fn drop(&mut self) {
        if self.len & OWNED != 0 {
            // SAFETY: the handle ends here.
            drop(unsafe { take_back(self.start.cast_mut(), self.len) });
        }
    }
}

impl Drop for RecvBuf {
    #[inline]
    fn drop(&mut self) {
        if self.len & OWNED != 0 {
            // SAFETY: the handle ends here.
            drop(unsafe { take_back(self.start, self.len) });
        }
    }
}

impl SendBuf {
    /// A handle of memory that somebody else keeps.
    ///
    /// # Safety
    /// `start .. start + len` must stay readable, and nobody may write it, until the operation
    /// that the handle is given to has reported its completion (not merely until it was
    /// cancelled or its request dropped), or the handle was given back or dropped unused.
    #[inline]
    pub const unsafe fn borrowed(start: *const u8, len: usize) -> Self {
        Self { start, len: checked(len) }
    }

    /// A handle that owns its bytes.
    pub fn owned(bytes: Vec<u8>) -> Self {
        let (start, len) = give_away(bytes);
        Self { start, len }
    }

    /// A handle of no bytes.
    #[inline]
    pub const fn empty() -> Self {
        Self { start: std::ptr::NonNull::<u8>::dangling().as_ptr(), len: 0 }
    }

    /// Bytes to send.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len & !OWNED
    }

    /// Whether there is nothing to send.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: owned bytes live until the handle is dropped; borrowed ones are promised to `borrowed` to be
        // readable and unwritten while the handle exists. `start` is never null.
        unsafe { std::slice::from_raw_parts(self.start, self.len()) }
    }

    /// Where the bytes are, for the kernel, a network card or a peer's remote read.
    #[inline]
    pub fn address(&self) -> u64 {
        self.start as u64
    }

    /// Gives the bytes of an owned handle back.
    pub fn into_owned(self) -> Option<Vec<u8>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the handle is not dropped, so its bytes are taken back once.
        unsafe { take_back(this.start.cast_mut(), this.len) }
    }
}

impl RecvBuf {
    /// A handle of memory that somebody else keeps.
    ///
    /// # Safety
    /// `start .. start + len` must stay writable, and nobody else may read or write it, until the
    /// operation that the handle is given to has reported its completion (not merely until it was
    /// cancelled or its request dropped), or the handle was given back or dropped unused.
    #[inline]
    pub const unsafe fn borrowed(start: *mut u8, len: usize) -> Self {
        Self { start, len: checked(len) }
    }

    /// A handle that owns its bytes.
    pub fn owned(bytes: Vec<u8>) -> Self {
        let (start, len) = give_away(bytes);
        Self { start, len }
    }

    /// A handle of no bytes.
    #[inline]
    pub const fn empty() -> Self {
        Self { start: std::ptr::NonNull::<u8>::dangling().as_ptr(), len: 0 }
    }

    /// Bytes of room.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len & !OWNED
    }

    /// Whether there is no room.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `from` to `offset`; what does not fit is left out. Returns the bytes copied.
    #[inline]
    pub fn write_at(&mut self, offset: usize, from: &[u8]) -> usize {
        let n = self.len().saturating_sub(offset).min(from.len());
        if n > 0 {
            // SAFETY: `offset + n <= len`; the memory is ours alone by the promise to
            // `borrowed`, so it does not overlap `from`.
            unsafe { copy_small(from.as_ptr(), self.start.add(offset), n) };
        }
        n
    }

    /// Copies `from`, memory that may change meanwhile, to `offset`; what does not fit is left
    /// out. Returns the bytes copied.
    #[inline]
    pub fn copy_at(&mut self, offset: usize, from: View<'_>) -> usize {
        let n = self.len().saturating_sub(offset).min(from.len());
        if n > 0 {
            // SAFETY: `offset + n <= len`, `n <= from.len()`; the destination is ours alone, so
            // the two do not overlap.
            unsafe { copy_small(from.as_ptr(), self.start.add(offset), n) };
        }
        n
    }

    /// The room as a view, for a transport that writes into it.
    #[inline]
    pub fn view(&mut self) -> View<'_> {
        // SAFETY: the bytes are valid for the handle's life, which outlives the borrow, and the
        // exclusive borrow keeps `bytes` from being called meanwhile.
        unsafe { View::from_raw(self.start, self.len()) }
    }

    /// Where the room is, for the kernel, a network card or a peer's remote write.
    #[inline]
    pub fn address(&self) -> u64 {
        self.start as u64
    }

    /// Whether the bytes are the handle's own.
    #[inline]
    pub const fn is_owned(&self) -> bool {
        self.len & OWNED != 0
    }

    /// Gives the bytes of an owned handle back.
    pub fn into_owned(self) -> Option<Vec<u8>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the handle is not dropped, so its bytes are taken back once.
        unsafe { take_back(this.start, this.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_buffers_come_back() {
        let sent = SendBuf::owned(vec![1, 2, 3]);
        assert_eq!(sent.bytes(), [1, 2, 3]);
        assert_eq!(sent.into_owned(), Some(vec![1, 2, 3]));
        let mut received = RecvBuf::owned(vec![0; 4]);
        assert_eq!(received.write_at(2, &[9, 9, 9]), 2);
        assert_eq!(received.write_at(9, &[1]), 0);
        assert_eq!(received.into_owned(), Some(vec![0, 0, 9, 9]));
    }
}
