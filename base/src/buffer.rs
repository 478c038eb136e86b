//! Handles of user buffers that an operation holds while it is under way.
//!
//! The protocol engine is free of `unsafe`, so the promise that a buffer outlives its operation
//! is made where a handle is built. Two kinds of owner can make it: one that gives its memory
//! away ([`SendBuf::owned`], [`RecvBuf::owned`]), and one that stands in a scope whose exit waits
//! for every operation (the MPI layer's `scope`), which uses the `unsafe` constructors. Handles
//! are not reference counted and do not know what operation holds them.

use crate::view::{View, copy_small};

/// Bytes that an operation reads. Moved into the operation, dropped when it has completed.
#[derive(Debug)]
pub struct SendBuf {
    start: *const u8,
    len: usize,
    owner: Option<Box<[u8]>>,
}

/// Bytes that an operation writes. Moved into the operation, dropped when it has completed.
#[derive(Debug)]
pub struct RecvBuf {
    start: *mut u8,
    len: usize,
    owner: Option<Box<[u8]>>,
}

// SAFETY: the bytes are either owned by the handle, or promised to `borrowed` to stay valid and
// unwritten until the handle is dropped, on whatever thread that is.
unsafe impl Send for SendBuf {}
// SAFETY: the bytes are either owned by the handle, or promised to `borrowed` to belong to the
// handle alone until it is dropped, on whatever thread that is.
unsafe impl Send for RecvBuf {}

impl SendBuf {
    /// A handle of memory that somebody else keeps.
    ///
    /// # Safety
    /// `start .. start + len` must stay readable, and nobody may write it, until the operation
    /// that the handle is given to has reported its completion (not merely until it was
    /// cancelled or its request dropped), or the handle was given back or dropped unused.
    #[inline]
    pub const unsafe fn borrowed(start: *const u8, len: usize) -> Self {
        Self { start, len, owner: None }
    }

    /// A handle that owns its bytes.
    pub fn owned(bytes: Vec<u8>) -> Self {
        let owner = bytes.into_boxed_slice();
        Self { start: owner.as_ptr(), len: owner.len(), owner: Some(owner) }
    }

    /// A handle of no bytes.
    #[inline]
    pub const fn empty() -> Self {
        Self { start: std::ptr::NonNull::<u8>::dangling().as_ptr(), len: 0, owner: None }
    }

    /// Bytes to send.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to send.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: owned bytes live in `owner`; borrowed ones are promised to `borrowed` to be
        // readable and unwritten while the handle exists. `start` is never null.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// Where the bytes are, for the kernel, a network card or a peer's remote read.
    #[inline]
    pub fn address(&self) -> u64 {
        self.start as u64
    }

    /// Gives the bytes of an owned handle back.
    pub fn into_owned(self) -> Option<Vec<u8>> {
        self.owner.map(Vec::from)
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
        Self { start, len, owner: None }
    }

    /// A handle that owns its bytes.
    pub fn owned(bytes: Vec<u8>) -> Self {
        let mut owner = bytes.into_boxed_slice();
        Self { start: owner.as_mut_ptr(), len: owner.len(), owner: Some(owner) }
    }

    /// A handle of no bytes.
    #[inline]
    pub const fn empty() -> Self {
        Self { start: std::ptr::NonNull::<u8>::dangling().as_ptr(), len: 0, owner: None }
    }

    /// Bytes of room.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no room.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `from` to `offset`; what does not fit is left out. Returns the bytes copied.
    #[inline]
    pub fn write_at(&mut self, offset: usize, from: &[u8]) -> usize {
        let n = self.len.saturating_sub(offset).min(from.len());
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
        let n = self.len.saturating_sub(offset).min(from.len());
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
        unsafe { View::from_raw(self.start, self.len) }
    }

    /// Where the room is, for the kernel, a network card or a peer's remote write.
    #[inline]
    pub fn address(&self) -> u64 {
        self.start as u64
    }

    /// Gives the bytes of an owned handle back.
    pub fn into_owned(self) -> Option<Vec<u8>> {
        self.owner.map(Vec::from)
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
