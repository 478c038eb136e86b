//! How a buffer of a collective is cut into one block for each rank.

use super::plan::{Space, Span};

/// The block of each rank in a buffer.
pub trait Blocks {
    /// Where the block of `rank` is.
    fn span(&self, rank: u32) -> Span;

    /// Bytes of the block of `rank`.
    #[inline]
    fn len(&self, rank: u32) -> usize {
        self.span(rank).len
    }
}

impl<B: Blocks> Blocks for &B {
    #[inline]
    fn span(&self, rank: u32) -> Span {
        (**self).span(rank)
    }
}

/// Blocks of one length, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Even {
    /// Where they are.
    pub space: Space,
    /// Bytes of a block.
    pub len: usize,
}

impl Blocks for Even {
    #[inline]
    fn span(&self, rank: u32) -> Span {
        Span::new(self.space, rank as usize * self.len, self.len)
    }
}

/// Blocks that the user placed, in elements of `width` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// Where they are.
    pub space: Space,
    /// Bytes of an element.
    pub width: usize,
    /// Elements in the block of each rank.
    pub counts: &'a [usize],
    /// Where the block of each rank starts.
    pub displacements: &'a [usize],
}

impl Blocks for Placed<'_> {
    #[inline]
    fn span(&self, rank: u32) -> Span {
        let rank = rank as usize;
        let len = self.counts[rank] * self.width;
        // An empty block may stand anywhere, beyond the buffer too.
        let at = if len == 0 { 0 } else { self.displacements[rank] * self.width };
        Span::new(self.space, at, len)
    }
}

/// Blocks of different lengths without gaps; `offsets` has one entry more than there are blocks.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    /// Where they are.
    pub space: Space,
    /// Bytes in front of each block, and of all.
    pub offsets: &'a [usize],
}

impl Blocks for Packed<'_> {
    #[inline]
    fn span(&self, rank: u32) -> Span {
        let (at, end) = (self.offsets[rank as usize], self.offsets[rank as usize + 1]);
        Span::new(self.space, at, end - at)
    }
}
