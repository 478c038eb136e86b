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

use std::mem::ManuallyDrop;

use crate::copy::copy_from_shared;
use crate::scatter::{Incoming, Outgoing, Pieces, Unpacking};
pub use crate::scatter::{Pack, Refused, Shape, Unpack};
use crate::view::{View, copy_small};

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

/// Takes bytes into a room that does not lie in one piece.
///
/// # Safety
/// `start` and `len` are those of a receive's handle with [`SCATTERED`], which is borrowed exclusively;
/// `from` must be readable for `n` bytes, apart from the room.
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

    /// A handle that owns a message in pieces, which are sent one after the other.
    pub fn pieces(pieces: Vec<Vec<u8>>) -> Self {
        Self::describe(Outgoing::Pieces(Pieces::owned(pieces)))
    }

    /// A handle of a message in pieces that somebody else keeps. They may overlap. The list itself is
    /// copied.
    ///
    /// # Safety
    /// For each piece as for [`borrowed`](Self::borrowed).
    pub unsafe fn borrowed_pieces(pieces: &[(*const u8, usize)]) -> Self {
        let list = pieces.iter().map(|&(start, len)| (start.cast_mut(), len));
        // SAFETY: promised by the caller; nothing writes through the pieces of an `Outgoing`.
        Self::describe(Outgoing::Pieces(unsafe { Pieces::new(list, false) }))
    }

    /// A handle of a message that `packer` packs when it is wanted.
    pub fn packed_by(packer: Box<dyn Pack>) -> Self {
        let len = described(packer.packed_size());
        Self { start: Box::into_raw(Box::new(Outgoing::Packed(packer))).cast(), len }
    }

    fn describe(message: Outgoing) -> Self {
        let len = match &message {
            Outgoing::Pieces(pieces) => described(pieces.len()),
            Outgoing::Packed(packer) => described(packer.packed_size()),
        };
        Self { start: Box::into_raw(Box::new(message)).cast(), len }
    }

    /// Bytes to send.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len & !(OWNED | SCATTERED)
    }

    /// Whether there is nothing to send.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How the message lies in memory.
    pub fn shape(&self) -> Shape {
        self.outgoing().map_or(Shape::Whole, Outgoing::shape)
    }

    fn outgoing(&self) -> Option<&Outgoing> {
        if self.len & SCATTERED == 0 {
            return None;
        }
        // SAFETY: `SCATTERED` says that `start` is a box of this type, which lives as long as the handle
        // and is changed through `outgoing_mut` only.
        Some(unsafe { &*self.start.cast::<Outgoing>() })
    }

    fn outgoing_mut(&mut self) -> Option<&mut Outgoing> {
        if self.len & SCATTERED == 0 {
            return None;
        }
        // SAFETY: as in `outgoing`, and the handle is borrowed exclusively.
        Some(unsafe { &mut *self.start.cast_mut().cast::<Outgoing>() })
    }

    /// The bytes, if they lie in one piece.
    #[inline]
    pub fn contiguous(&self) -> Option<&[u8]> {
        if self.len & SCATTERED != 0 {
            return None;
        }
        // SAFETY: owned bytes live until the handle is dropped; borrowed ones are promised to `borrowed` to be
        // readable and unwritten while the handle exists. `start` is never null.
        Some(unsafe { std::slice::from_raw_parts(self.start, self.len & !OWNED) })
    }

    /// The bytes, if they lie in one piece and are no more than `limit`; none with a negative one. One
    /// comparison says both.
    #[inline(always)]
    pub fn short(&self, limit: i32) -> Option<&[u8]> {
        let len = self.len & !OWNED;
        if len as i64 > i64::from(limit) {
            return None;
        }
        // SAFETY: `SCATTERED` would have made the length larger than any limit; for the rest as in
        // `contiguous`.
        Some(unsafe { std::slice::from_raw_parts(self.start, len) })
    }

    /// The memory from `offset` on that lies in one piece, at most `max` bytes; `None` behind the end,
    /// and where only callbacks know.
    pub fn run(&self, offset: usize, max: usize) -> Option<(*const u8, usize)> {
        let (start, len) = match self.outgoing() {
            None => {
                let rest = self.contiguous()?.get(offset..).filter(|rest| !rest.is_empty())?;
                (rest.as_ptr(), rest.len())
            }
            Some(Outgoing::Pieces(pieces)) => {
                let (start, len) = pieces.run(offset)?;
                (start.cast_const(), len)
            }
            Some(Outgoing::Packed(_)) => return None,
        };
        Some((start, len.min(max)))
    }

    /// Copies the message from `offset` on to `out`, as much as fits. Returns the bytes copied. Of a
    /// message of callbacks each byte must be copied once, in order.
    pub fn pack(&mut self, offset: usize, out: View<'_>) -> usize {
        let n = self.len().saturating_sub(offset).min(out.len());
        match self.outgoing_mut() {
            Some(message) => {
                message.copy_to(offset, n, out);
                n
            }
            None => out.copy_in(self.contiguous().and_then(|all| all.get(offset..)).unwrap_or(&[])),
        }
    }

    /// The same into a slice.
    pub fn pack_into(&mut self, offset: usize, out: &mut [u8]) -> usize {
        let n = self.len().saturating_sub(offset).min(out.len());
        match self.outgoing_mut() {
            Some(message) => message.copy_into(offset, &mut out[..n]),
            None => {
                let from = self.contiguous().and_then(|all| all.get(offset..)).unwrap_or(&[]);
                out[..n].copy_from_slice(&from[..n]);
            }
        }
        n
    }

    /// Where the bytes are, for the kernel, a network card or a peer's remote read.
    ///
    /// # Panics
    /// When they do not lie in one piece.
    #[inline]
    pub fn address(&self) -> u64 {
        if self.len & SCATTERED != 0 {
            no_address();
        }
        self.start as u64
    }

    /// Gives the bytes of an owned handle back.
    pub fn into_owned(self) -> Option<Vec<u8>> {
        if self.len & SCATTERED != 0 {
            return None;
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: the handle is not dropped, so its bytes are taken back once.
        unsafe { take_back(this.start.cast_mut(), this.len) }
    }

    /// Gives the pieces back that the handle owns.
    pub fn into_pieces(self) -> Option<Vec<Vec<u8>>> {
        if self.len & SCATTERED == 0 {
            return None;
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: `SCATTERED` says what is in the box, and the handle is not dropped.
        unsafe { Box::from_raw(this.start.cast_mut().cast::<Outgoing>()) }.into_pieces()
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

    /// A handle that owns room in pieces, which are filled one after the other.
    pub fn pieces(pieces: Vec<Vec<u8>>) -> Self {
        let pieces = Pieces::owned(pieces);
        let len = described(pieces.len());
        Self { start: Box::into_raw(Box::new(Incoming::Pieces(pieces))).cast(), len }
    }

    /// A handle of room in pieces that somebody else keeps. The list itself is copied.
    ///
    /// # Safety
    /// For each piece as for [`borrowed`](Self::borrowed); and no two may overlap.
    pub unsafe fn borrowed_pieces(pieces: &[(*mut u8, usize)]) -> Self {
        // SAFETY: promised by the caller.
        let pieces = unsafe { Pieces::new(pieces.iter().copied(), false) };
        let len = described(pieces.len());
        Self { start: Box::into_raw(Box::new(Incoming::Pieces(pieces))).cast(), len }
    }

    /// A handle of a message that `unpacker` takes as it arrives.
    pub fn unpacked_by(unpacker: Box<dyn Unpack>) -> Self {
        let len = described(unpacker.room());
        let message = Incoming::Unpacked(Unpacking::new(unpacker));
        Self { start: Box::into_raw(Box::new(message)).cast(), len }
    }

    /// Bytes of room.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len & !(OWNED | SCATTERED)
    }

    /// Bytes of room where it lies in one piece; else more than any memory has.
    #[inline(always)]
    pub const fn len_or_mark(&self) -> usize {
        self.len & !OWNED
    }

    /// Whether there is no room.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How the room lies in memory.
    pub fn shape(&self) -> Shape {
        self.incoming().map_or(Shape::Whole, Incoming::shape)
    }

    /// Whether a callback could not take what it was given; it gets nothing more.
    pub fn failed(&self) -> bool {
        self.incoming().is_some_and(Incoming::failed)
    }

    fn incoming(&self) -> Option<&Incoming> {
        if self.len & SCATTERED == 0 {
            return None;
        }
        // SAFETY: `SCATTERED` says that `start` is a box of this type, which lives as long as the handle
        // and is changed by `take_scattered` only.
        Some(unsafe { &*self.start.cast::<Incoming>() })
    }

    /// Copies `from` to `offset`; what does not fit is left out. Returns the bytes copied: none that a
    /// callback refused. A callback gets each byte once, in order.
    #[inline]
    pub fn write_at(&mut self, offset: usize, from: &[u8]) -> usize {
        if self.len & SCATTERED != 0 {
            // SAFETY: `SCATTERED` is set and the handle borrowed exclusively; a slice is readable, and the
            // room is ours alone.
            return unsafe {
                take_scattered(self.start, self.len, offset, from.as_ptr(), from.len())
            };
        }
        let n = (self.len & !OWNED).saturating_sub(offset).min(from.len());
        if n > 0 {
            // SAFETY: `offset + n <= len`; the memory is ours alone by the promise to
            // `borrowed`, so it does not overlap `from`.
            unsafe { copy_small(from.as_ptr(), self.start.add(offset), n) };
        }
        n
    }

    /// Copies `from`, memory that may change meanwhile, to `offset`; what does not fit is left
    /// out. Returns the bytes copied, as [`write_at`](Self::write_at) does.
    #[inline]
    pub fn copy_at(&mut self, offset: usize, from: View<'_>) -> usize {
        if self.len & SCATTERED != 0 {
            // SAFETY: `SCATTERED` is set and the handle borrowed exclusively; a view is readable, and the
            // room is ours alone.
            return unsafe {
                take_scattered(self.start, self.len, offset, from.as_ptr(), from.len())
            };
        }
        let n = (self.len & !OWNED).saturating_sub(offset).min(from.len());
        if n > 0 {
            // SAFETY: `offset + n <= len`, `n <= from.len()`; the destination is ours alone, so
            // the two do not overlap.
            unsafe { copy_from_shared(from.as_ptr(), self.start.add(offset), n) };
        }
        n
    }

    /// The room from `offset` on that lies in one piece, at most `max` bytes; `None` behind the end, and
    /// where only callbacks know.
    pub fn run(&mut self, offset: usize, max: usize) -> Option<(*mut u8, usize)> {
        let (start, len) = match self.incoming() {
            None => {
                let len = self.len().checked_sub(offset).filter(|&len| len > 0)?;
                (self.start.wrapping_add(offset), len)
            }
            Some(Incoming::Pieces(pieces)) => pieces.run(offset)?,
            Some(Incoming::Unpacked(_)) => return None,
        };
        Some((start, len.min(max)))
    }

    /// The room as a view, for a transport that writes into it.
    ///
    /// # Panics
    /// When it does not lie in one piece.
    #[inline]
    pub fn view(&mut self) -> View<'_> {
        if self.len & SCATTERED != 0 {
            no_address();
        }
        // SAFETY: the bytes are valid for the handle's life, which outlives the borrow, and the
        // exclusive borrow keeps `contiguous` from being called meanwhile.
        unsafe { View::from_raw(self.start, self.len & !OWNED) }
    }

    /// Where the room is, for the kernel, a network card or a peer's remote write.
    ///
    /// # Panics
    /// When it does not lie in one piece.
    #[inline]
    pub fn address(&self) -> u64 {
        if self.len & SCATTERED != 0 {
            no_address();
        }
        self.start as u64
    }

    /// Whether what the handle points to is its own.
    #[inline]
    pub const fn is_owned(&self) -> bool {
        self.len & OWNED != 0
    }

    /// Gives the bytes of an owned handle back.
    pub fn into_owned(self) -> Option<Vec<u8>> {
        if self.len & SCATTERED != 0 {
            return None;
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: the handle is not dropped, so its bytes are taken back once.
        unsafe { take_back(this.start, this.len) }
    }

    fn into_incoming(self) -> Option<Incoming> {
        if self.len & SCATTERED == 0 {
            return None;
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: `SCATTERED` says what is in the box, and the handle is not dropped.
        Some(*unsafe { Box::from_raw(this.start.cast::<Incoming>()) })
    }

    /// Gives the pieces back that the handle owns.
    pub fn into_pieces(self) -> Option<Vec<Vec<u8>>> {
        self.into_incoming()?.into_pieces()
    }

    /// Gives the callback back.
    pub fn into_unpacker(self) -> Option<Box<dyn Unpack>> {
        match self.into_incoming()? {
            Incoming::Unpacked(unpacking) => Some(unpacking.by),
            Incoming::Pieces(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_buffers_come_back() {
        let sent = SendBuf::owned(vec![1, 2, 3]);
        assert_eq!(sent.contiguous(), Some(&[1, 2, 3][..]));
        assert_eq!(sent.into_owned(), Some(vec![1, 2, 3]));
        let mut received = RecvBuf::owned(vec![0; 4]);
        assert_eq!(received.write_at(2, &[9, 9, 9]), 2);
        assert_eq!(received.write_at(9, &[1]), 0);
        assert_eq!(received.into_owned(), Some(vec![0, 0, 9, 9]));
    }

    /// Packs and takes a message as a plain one would, and counts its calls.
    struct Copying(Vec<u8>, usize);

    impl Pack for Copying {
        fn packed_size(&self) -> usize {
            self.0.len()
        }
        fn pack(&mut self, offset: usize, out: &mut [u8]) {
            assert_eq!(offset, self.1, "in order, each byte once");
            self.1 += out.len();
            out.copy_from_slice(&self.0[offset..offset + out.len()]);
        }
    }

    impl Unpack for Copying {
        fn room(&self) -> usize {
            self.0.len()
        }
        fn unpack(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Refused> {
            assert_eq!(offset, self.1, "in order, each byte once");
            self.1 += bytes.len();
            assert!(!bytes.contains(&0xee), "a byte that makes it panic");
            self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
            if bytes.contains(&0xdd) { Err(Refused) } else { Ok(()) }
        }
    }

    fn message(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i % 200) as u8).collect()
    }

    fn cut(bytes: &[u8], lengths: &[usize]) -> Vec<Vec<u8>> {
        let mut rest = bytes;
        let mut pieces = Vec::new();
        for &len in lengths {
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            pieces.push(piece.to_vec());
            rest = behind;
        }
        pieces.push(rest.to_vec());
        pieces
    }

    #[test]
    fn a_message_in_pieces_is_the_pieces_one_after_the_other() {
        let all = message(5000);
        let lengths = [0, 1, 7, 0, 0, 2000, 3];
        let mut whole = SendBuf::owned(all.clone());
        let mut pieces = SendBuf::pieces(cut(&all, &lengths));
        let mut packed = SendBuf::packed_by(Box::new(Copying(all.clone(), 0)));
        assert_eq!((whole.len(), pieces.len(), packed.len()), (5000, 5000, 5000));
        assert_eq!((whole.shape(), pieces.shape()), (Shape::Whole, Shape::Pieces(8)));
        assert_eq!(packed.shape(), Shape::Callbacks);
        assert!(pieces.short(i32::MAX).is_none() && packed.short(i32::MAX).is_none());
        assert!(whole.short(4999).is_none() && whole.short(5000).is_some());
        for step in [1, 100, 2500] {
            for (offset, buffer) in [(0, &mut whole), (0, &mut pieces)] {
                let mut offset = offset;
                while offset < 5000 {
                    let mut out = vec![0xaa; step + 2];
                    let n = buffer.pack_into(offset, &mut out[..step]);
                    assert_eq!(n, step.min(5000 - offset));
                    assert_eq!(out[..n], all[offset..offset + n]);
                    assert!(out[step..] == [0xaa, 0xaa]);
                    offset += n;
                }
            }
        }
        let mut out = vec![0; 5000];
        // SAFETY: `out` is used through the view alone while that is there.
        let view = unsafe { View::from_raw(out.as_mut_ptr(), out.len()) };
        assert_eq!(packed.pack(0, view.slice(0, 3000).unwrap()), 3000);
        assert_eq!(packed.pack(3000, view.slice(3000, 2000).unwrap()), 2000);
        assert_eq!(out, all);
        assert_eq!(pieces.into_pieces(), Some(cut(&all, &lengths)));
        assert!(packed.into_owned().is_none());
    }

    #[test]
    fn runs_are_the_parts_of_pieces() {
        let all = message(100);
        let mut room = RecvBuf::pieces(cut(&all, &[0, 40, 0, 20]));
        let sent = SendBuf::pieces(cut(&all, &[0, 40, 0, 20]));
        for (offset, max, len) in [(0, 1000, 40), (39, 9, 1), (40, 7, 7), (59, 9, 1), (60, 99, 40)]
        {
            assert_eq!(room.run(offset, max).map(|(_, len)| len), Some(len));
            assert_eq!(sent.run(offset, max).map(|(_, len)| len), Some(len));
        }
        assert!(room.run(100, 1).is_none() && sent.run(100, 1).is_none());
        assert!(SendBuf::owned(vec![1; 3]).run(3, 1).is_none());
        assert!(RecvBuf::owned(vec![1; 3]).run(4, 1).is_none());
        assert!(SendBuf::pieces(Vec::new()).is_empty());
    }

    #[test]
    fn nothing_beyond_the_pieces_is_touched() {
        let mut ground = vec![9_u8; 64];
        let start = ground.as_mut_ptr();
        // SAFETY: three places inside of `ground`, apart from each other, which is not looked at before
        // the handle is gone.
        let mut room = unsafe {
            RecvBuf::borrowed_pieces(&[(start.add(2), 3), (start.add(50), 10), (start.add(20), 4)])
        };
        assert_eq!(room.len(), 17);
        assert_eq!(room.write_at(0, &[1; 5]), 5);
        assert_eq!(room.write_at(5, &[2; 40]), 12);
        assert_eq!(room.write_at(17, &[3; 40]), 0);
        drop(room);
        let mut expected = vec![9_u8; 64];
        expected[2..5].fill(1);
        expected[50..52].fill(1);
        expected[52..60].fill(2);
        expected[20..24].fill(2);
        assert_eq!(ground, expected);
    }

    #[test]
    fn a_callback_may_refuse_or_panic() {
        for (byte, fails) in [(1, false), (0xdd, true), (0xee, true)] {
            let mut room = RecvBuf::unpacked_by(Box::new(Copying(vec![0; 5000], 0)));
            let mut all = message(4500);
            all[2500] = byte;
            assert_eq!(room.write_at(0, &all[..2000]), 2000);
            assert_eq!(room.write_at(2000, &all[2000..]), if fails { 0 } else { 2500 });
            assert_eq!(room.failed(), fails);
            assert!(room.run(0, 1).is_none());
            let back: Box<dyn std::any::Any> = room.into_unpacker().expect("there is one");
            let back = back.downcast::<Copying>().expect("of this type");
            assert!(back.0[..2000] == all[..2000]);
        }
        let mut room = RecvBuf::unpacked_by(Box::new(Copying(vec![0; 10], 0)));
        assert_eq!(room.write_at(0, &[1; 20]), 10);
        assert_eq!((room.write_at(3, &[1; 2]), room.failed()), (0, true));
    }
}
