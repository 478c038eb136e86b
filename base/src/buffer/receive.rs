//! What a receive writes: how its handle is made, and how the engine writes to it.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::{
    MemoryLayout, OWNED, RecvBuf, SCATTERED, Unpack, checked, described, give_away, no_address,
    take_back, take_scattered,
};
use crate::copy::copy_bytes;
use crate::copy::copy_from_shared;
use crate::layout::{Layout, Overflow};
use crate::scatter::{Incoming, Laid, Pieces, Unpacking};
use crate::view::View;

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

    /// A handle that owns space in pieces, which are filled one after the other.
    pub fn pieces(pieces: Vec<Vec<u8>>) -> Self {
        Self::describe(Incoming::Pieces(Pieces::owned(pieces)))
    }

    /// A handle of space in pieces that somebody else keeps. The list itself is copied.
    ///
    /// # Safety
    /// For each piece as for [`borrowed`](Self::borrowed); and no two may overlap.
    pub unsafe fn borrowed_pieces(pieces: &[(*mut u8, usize)]) -> Self {
        // SAFETY: promised by the caller.
        let pieces = unsafe { Pieces::new(pieces.iter().copied(), false) };
        Self::describe(Incoming::Pieces(pieces))
    }

    /// A handle of space for `count` elements at `base` that lie as `layout` says. What lies between is not
    /// written.
    ///
    /// # Errors
    /// When the message's bytes or places cannot be counted.
    ///
    /// # Safety
    /// For each piece as for [`borrowed`](Self::borrowed); and no two may overlap.
    pub unsafe fn laid_out(
        base: *mut u8,
        layout: Arc<Layout>,
        count: usize,
    ) -> Result<Self, Overflow> {
        // SAFETY: promised by the caller.
        let laid = unsafe { Laid::new(base, layout, count) }?;
        Ok(if laid.len() == 0 { Self::empty() } else { Self::describe(Incoming::Laid(laid)) })
    }

    /// A handle of a message that `unpacker` takes as it arrives.
    pub fn unpacked_by(unpacker: Box<dyn Unpack>) -> Self {
        Self::describe(Incoming::Unpacked(Unpacking::new(unpacker)))
    }

    fn describe(message: Incoming) -> Self {
        let len = match &message {
            Incoming::Pieces(pieces) => described(pieces.len()),
            Incoming::Laid(laid) => described(laid.len()),
            Incoming::Unpacked(unpacking) => described(unpacking.by.space()),
        };
        Self { start: Box::into_raw(Box::new(message)).cast(), len }
    }

    /// Bytes of space.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len & !(OWNED | SCATTERED)
    }

    /// Bytes of space where it lies in one piece; else more than any memory has.
    #[inline(always)]
    pub const fn len_or_mark(&self) -> usize {
        self.len & !OWNED
    }

    /// Whether there is no space.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How the buffer lies in memory.
    pub fn shape(&self) -> MemoryLayout {
        self.incoming().map_or(MemoryLayout::Whole, Incoming::shape)
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
            // space is ours alone.
            return unsafe {
                take_scattered(self.start, self.len, offset, from.as_ptr(), from.len())
            };
        }
        let n = (self.len & !OWNED).saturating_sub(offset).min(from.len());
        if n > 0 {
            // SAFETY: `offset + n <= len`; the memory is ours alone by the promise to
            // `borrowed`, so it does not overlap `from`.
            unsafe { copy_bytes(from.as_ptr(), self.start.add(offset), n) };
        }
        n
    }

    /// Copies `from`, memory that may change meanwhile, to `offset`; what does not fit is left
    /// out. Returns the bytes copied, as [`write_at`](Self::write_at) does.
    #[inline]
    pub fn copy_at(&mut self, offset: usize, from: View<'_>) -> usize {
        if self.len & SCATTERED != 0 {
            // SAFETY: `SCATTERED` is set and the handle borrowed exclusively; a view is readable, and the
            // space is ours alone.
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

    /// Copies all of `from`, memory that may change meanwhile, to the start, where there is space for it in
    /// one piece. Whether there was; else nothing is copied, and [`copy_at`](Self::copy_at) copies what fits.
    #[inline(always)]
    #[must_use]
    pub fn copy_whole(&mut self, from: View<'_>) -> bool {
        // Negative where `SCATTERED` is set, so that one comparison answers both.
        let space = ((self.len << 1) as isize) >> 1;
        if from.len() as isize > space {
            return false;
        }
        // SAFETY: `from.len() <= len`, as of a view, whose length is no negative one; the destination is ours alone, so the two do not overlap.
        unsafe { copy_from_shared(from.as_ptr(), self.start, from.len()) };
        true
    }

    /// The space from `offset` on that lies in one piece, at most `max` bytes; `None` behind the end, and
    /// where only callbacks know.
    #[inline]
    pub fn run(&mut self, offset: usize, max: usize) -> Option<(*mut u8, usize)> {
        let (start, len) = if self.len & SCATTERED == 0 {
            let len = self.len().checked_sub(offset).filter(|&len| len > 0)?;
            (self.start.wrapping_add(offset), len)
        } else {
            self.run_of_pieces(offset)?
        };
        Some((start, len.min(max)))
    }

    #[inline(never)]
    fn run_of_pieces(&mut self, offset: usize) -> Option<(*mut u8, usize)> {
        match self.incoming()? {
            Incoming::Pieces(pieces) => pieces.run(offset),
            Incoming::Laid(laid) => laid.run(offset),
            Incoming::Unpacked(_) => None,
        }
    }

    /// The space as a view, for a transport that writes into it.
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

    /// Where the buffer is, for the kernel, a network card or a peer's remote write.
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
            Incoming::Pieces(_) | Incoming::Laid(_) => None,
        }
    }
}
