//! Handles of user buffers that an operation holds while it is under way.
//!
//! The protocol engine is free of `unsafe`, so the promise that a buffer outlives its operation
//! is made where a handle is built. Two kinds of owner can make it: one that gives its memory
//! away ([`SendBuf::owned`], [`RecvBuf::owned`]), and one that stands in a scope whose exit waits
//! for every operation (the MPI layer's `scope`), which uses the `unsafe` constructors. Handles
//! are not reference counted and do not know what operation holds them.
//!
//! A message may lie in several pieces, or be packed and unpacked by callbacks ([`scatter`](crate::scatter)).
//! A handle is two words either way: a mark in its length says that it points to such a message's
//! description. The mark makes the length larger than any limit, so that comparing the two, which a
//! short message does anyway, is all that it pays for them.

mod receive;
mod send;

use crate::scatter::{Incoming, Outgoing};
pub use crate::scatter::{MemoryLayout, Pack, Unpack, UnpackRefused};

/// Bytes that an operation reads. Moved into the operation, dropped when it has completed.
#[derive(Debug)]
pub struct SendBuf {
    start: *const u8,
    /// Bytes, [`OWNED`] and [`SCATTERED`].
    len: usize,
}

/// Bytes that an operation writes. Moved into the operation, dropped when it has completed.
#[derive(Debug)]
pub struct RecvBuf {
    start: *mut u8,
    /// Bytes, [`OWNED`] and [`SCATTERED`].
    len: usize,
}

// SAFETY: the bytes are either owned by the handle, or promised to `borrowed` to stay valid and
// unwritten until the handle is dropped, on whatever thread that is. Callbacks are `Send`.
unsafe impl Send for SendBuf {}
// SAFETY: the bytes are either owned by the handle, or promised to `borrowed` to belong to the
// handle alone until it is dropped, on whatever thread that is. Callbacks are `Send`.
unsafe impl Send for RecvBuf {}

/// Set in a handle's length when what it points to is its own: bytes, or the description of a message
/// that does not lie in one piece. No memory has so many bytes, and a handle of two words travels in
/// registers.
const OWNED: usize = 1 << (usize::BITS - 1);

/// Set, beside [`OWNED`], when `start` is an [`Outgoing`] or an [`Incoming`] in a box. No program has
/// memory for a quarter of what a word can count.
const SCATTERED: usize = 1 << (usize::BITS - 2);

/// A length that somebody promised to be one of memory.
const fn checked(len: usize) -> usize {
    debug_assert!(len < SCATTERED, "no memory is that long");
    len & !(OWNED | SCATTERED)
}

/// The length word of a message that is described elsewhere.
#[track_caller]
fn described(len: usize) -> usize {
    assert!(len < SCATTERED, "a message of more bytes than can be sent");
    len | OWNED | SCATTERED
}

#[cold]
#[track_caller]
fn no_address() -> ! {
    panic!("a message in pieces, or one of callbacks, has no one address; ask for its shape first")
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
    if len & (OWNED | SCATTERED) != OWNED {
        return None;
    }
    let bytes = std::ptr::slice_from_raw_parts_mut(start, len & !OWNED);
    // SAFETY: `OWNED` without `SCATTERED` is set by `give_away` alone, which leaked a box of this place
    // and length; the caller promises that nobody takes it a second time.
    Some(unsafe { Box::from_raw(bytes) }.into_vec())
}

/// Drops what a send's handle has of its own. By its words, not by a reference: handles of borrowed
/// memory, which are dropped with every message, stay in registers.
///
/// # Safety
/// As for [`take_back`], of a handle of this kind.
#[cold]
#[inline(never)]
unsafe fn drop_outgoing(start: *mut u8, len: usize) {
    if len & SCATTERED != 0 {
        // SAFETY: `SCATTERED` says what is in the box; the caller's handle ends.
        return drop(unsafe { Box::from_raw(start.cast::<Outgoing>()) });
    }
    // SAFETY: the caller's promise.
    drop(unsafe { take_back(start, len) });
}

/// The same for a receive's.
///
/// # Safety
/// As for [`take_back`], of a handle of this kind.
#[cold]
#[inline(never)]
unsafe fn drop_incoming(start: *mut u8, len: usize) {
    if len & SCATTERED != 0 {
        // SAFETY: `SCATTERED` says what is in the box; the caller's handle ends.
        return drop(unsafe { Box::from_raw(start.cast::<Incoming>()) });
    }
    // SAFETY: the caller's promise.
    drop(unsafe { take_back(start, len) });
}

/// Takes bytes into a buffer that does not lie in one piece.
///
/// # Safety
/// `start` and `len` are those of a receive's handle with [`SCATTERED`], which is borrowed exclusively;
/// `from` must be readable for `n` bytes, apart from the buffer.
#[cold]
#[inline(never)]
unsafe fn take_scattered(
    start: *mut u8,
    len: usize,
    offset: usize,
    from: *const u8,
    n: usize,
) -> usize {
    let n = (len & !(OWNED | SCATTERED)).saturating_sub(offset).min(n);
    // SAFETY: `SCATTERED` says what is in the box, and nobody else uses the handle.
    let message = unsafe { &mut *start.cast::<Incoming>() };
    // SAFETY: promised by the caller.
    unsafe { message.take(offset, from, n) }
}

impl Drop for SendBuf {
    #[inline]
    fn drop(&mut self) {
        if self.len & OWNED != 0 {
            // SAFETY: the handle ends here.
            unsafe { drop_outgoing(self.start.cast_mut(), self.len) };
        }
    }
}

impl Drop for RecvBuf {
    #[inline]
    fn drop(&mut self) {
        if self.len & OWNED != 0 {
            // SAFETY: the handle ends here.
            unsafe { drop_incoming(self.start, self.len) };
        }
    }
}

#[cfg(test)]
mod tests;
