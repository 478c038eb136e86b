//! What a send reads: how its handle is made, and how the engine reads from it.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::{
    MemoryLayout, OWNED, Pack, SCATTERED, SendBuf, checked, described, give_away, no_address,
    take_back,
};
use crate::copy::copy_slice;
use crate::layout::{Layout, Overflow};
use crate::scatter::{Laid, Outgoing, Pieces};
use crate::view::View;

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

    /// A handle of `count` elements at `base` that lie as `layout` says. What lies between is not read.
    ///
    /// # Errors
    /// When the message's bytes or places cannot be counted.
    ///
    /// # Safety
    /// For each piece as for [`borrowed`](Self::borrowed).
    pub unsafe fn laid_out(
        base: *const u8,
        layout: Arc<Layout>,
        count: usize,
    ) -> Result<Self, Overflow> {
        // SAFETY: promised by the caller; nothing writes to what is laid out in an `Outgoing`.
        let laid = unsafe { Laid::new(base.cast_mut(), layout, count) }?;
        Ok(if laid.len() == 0 { Self::empty() } else { Self::describe(Outgoing::Laid(laid)) })
    }

    /// A handle of a message that `packer` packs when it is wanted.
    pub fn packed_by(packer: Box<dyn Pack>) -> Self {
        Self::describe(Outgoing::Packed(packer))
    }

    fn describe(message: Outgoing) -> Self {
        let len = match &message {
            Outgoing::Pieces(pieces) => described(pieces.len()),
            Outgoing::Laid(laid) => described(laid.len()),
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
    pub fn shape(&self) -> MemoryLayout {
        self.outgoing().map_or(MemoryLayout::Whole, Outgoing::shape)
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
            Some(Outgoing::Laid(laid)) => {
                let (start, len) = laid.run(offset)?;
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
                copy_slice(&from[..n], &mut out[..n]);
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
