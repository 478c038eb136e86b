//! Buffers of elements at the edges of collectives: memory as it lies where it is in one piece, packed
//! copies of it elsewhere.
//!
//! Algorithms work on bytes side by side. What lies otherwise is packed before they start and unpacked
//! when they have ended well; the bytes between the elements are neither read nor written.

use bowline_base::layout::{Layout, pack, unpack};

use crate::coll::blocks::Blocks;
use crate::coll::plan::{Space, Span};
use crate::error::MpiError;

/// Elements in memory: an address, how many there are, and how each lies.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the three arguments of the standard, always")]
pub struct Data<'a> {
    /// Where the first element is placed, which need not be where its first byte lies.
    pub start: *mut u8,
    /// Elements.
    pub count: usize,
    /// How each of them lies.
    pub layout: &'a Layout,
}

impl<'a> Data<'a> {
    /// The elements from number `first` on, as far as that can be counted.
    #[inline]
    pub(super) fn from(self, first: usize, count: usize) -> Self {
        let at = (first as i64).wrapping_mul(self.layout.extent());
        Self { start: self.start.wrapping_offset(at as isize), count, ..self }
    }

    /// The same with `times` as many elements.
    pub(super) fn times(self, times: u32) -> Result<Self, MpiError> {
        let count = self.count.checked_mul(times as usize).ok_or(MpiError::Uncountable)?;
        Ok(Self { count, ..self })
    }

    /// Bytes of the elements.
    #[inline]
    pub(super) fn bytes(&self) -> Result<usize, MpiError> {
        let (bytes, ..) = self.layout.message(self.count).map_err(|_| MpiError::Uncountable)?;
        Ok(bytes)
    }

    /// The one piece that the elements are, if they are; of a number that can be counted and is not 0.
    #[inline]
    fn piece(&self) -> Option<*mut u8> {
        let (at, _) = self.layout.one_block(self.count)?;
        Some(self.start.wrapping_offset(at as isize))
    }
}

/// Elements that are read.
#[derive(Debug)]
pub(super) struct Source {
    start: *const u8,
    len: usize,
    /// Where they are, if not in the program's memory.
    _packed: Vec<u8>,
}

impl Source {
    /// Nothing.
    pub(super) const NOTHING: Self = Self { start: std::ptr::null(), len: 0, _packed: Vec::new() };

    /// # Safety
    /// The bytes of the elements can be read as long as the source is there, and nobody writes them.
    #[inline]
    pub(super) unsafe fn of(data: Data<'_>) -> Result<Self, MpiError> {
        let len = data.bytes()?;
        if len == 0 {
            return Ok(Self::NOTHING);
        }
        if let Some(start) = data.piece() {
            return Ok(Self { start, len, _packed: Vec::new() });
        }
        // SAFETY: promised by the caller.
        Ok(unsafe { Self::packed(data, len) })
    }

    /// A copy.
    ///
    /// # Safety
    /// As for [`of`](Self::of), for the call.
    pub(super) unsafe fn copy(data: Data<'_>) -> Result<Self, MpiError> {
        let len = data.bytes()?;
        // SAFETY: promised by the caller.
        Ok(unsafe { Self::packed(data, len) })
    }

    /// # Safety
    /// As for [`copy`](Self::copy); the elements have `len` bytes.
    #[inline(never)]
    unsafe fn packed(data: Data<'_>, len: usize) -> Self {
        let mut packed = vec![0; len];
        // SAFETY: the elements can be read, by the promise of the caller, and the copy is new memory.
        unsafe { pack(data.layout, data.start, data.count, 0, packed.as_mut_ptr(), len) };
        Self { start: packed.as_ptr(), len, _packed: packed }
    }

    /// Address and length, for an input.
    #[inline]
    pub(super) fn input(&self) -> (*const u8, usize) {
        (self.start, self.len)
    }

    /// Bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// Elements that are written.
#[derive(Debug)]
pub(super) struct Target<'a> {
    start: *mut u8,
    len: usize,
    /// Where they come to be, if not in the program's memory, and where that is.
    packed: Option<(Vec<u8>, Data<'a>)>,
}

impl<'a> Target<'a> {
    /// Nothing.
    pub(super) const NOTHING: Self = Self { start: std::ptr::null_mut(), len: 0, packed: None };

    /// # Safety
    /// The bytes of the elements are nobody else's as long as the target is there.
    #[inline]
    pub(super) unsafe fn of(data: Data<'a>) -> Result<Self, MpiError> {
        let len = data.bytes()?;
        if len == 0 {
            return Ok(Self::NOTHING);
        }
        if let Some(start) = data.piece() {
            return Ok(Self { start, len, packed: None });
        }
        let mut packed = vec![0; len];
        Ok(Self { start: packed.as_mut_ptr(), len, packed: Some((packed, data)) })
    }

    /// Takes what stands at a part of the elements, which is to be used or to stay.
    pub(super) fn load(&mut self, part: Span) {
        let start = self.start.wrapping_add(part.at);
        if let Some((packed, data)) = &self.packed {
            assert!(part.at + part.len <= packed.len(), "{part:?} leaves its buffer");
            // SAFETY: the maker has promised that the elements are ours; the copy holds the part, as
            // asserted.
            unsafe { pack(data.layout, data.start, data.count, part.at, start, part.len) };
        }
    }

    /// Address and length, for an output.
    #[inline]
    pub(super) fn output(&self) -> (*mut u8, usize) {
        (self.start, self.len)
    }

    /// Bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Brings a part of the elements to the program's memory, if it is not there.
    pub(super) fn store_part(self, part: Span) {
        if let Some((packed, data)) = self.packed {
            let from = &packed[part.at..part.at + part.len];
            // SAFETY: the maker has promised that the elements are ours.
            unsafe {
                unpack(data.layout, data.start, data.count, part.at, from.as_ptr(), part.len);
            }
        }
    }

    /// Brings all elements to the program's memory, if they are not there.
    #[inline]
    pub(super) fn store(self) {
        if self.packed.is_some() {
            let all = Span::output(self.len);
            self.store_part(all);
        }
    }
}

/// Blocks of a buffer, one for each rank.
#[derive(Debug)]
pub(super) struct Cut<'a> {
    space: Space,
    start: *mut u8,
    len: usize,
    /// Where each block lies, and its bytes.
    places: Vec<(usize, usize)>,
    /// The blocks side by side, if they do not lie in one piece each, and what they are.
    packed: Option<(Vec<u8>, &'a [Data<'a>])>,
}

impl Blocks for Cut<'_> {
    #[inline]
    fn span(&self, rank: u32) -> Span {
        let (at, len) = self.places[rank as usize];
        Span::new(self.space, at, len)
    }
}

impl<'a> Cut<'a> {
    /// No blocks, where nobody asks for them.
    pub(super) const fn nothing(space: Space) -> Self {
        Self { space, start: std::ptr::null_mut(), len: 0, places: Vec::new(), packed: None }
    }

    /// Blocks that are read.
    ///
    /// # Safety
    /// The bytes of the elements can be read as long as the blocks are there, and nobody writes them.
    pub(super) unsafe fn source(blocks: &'a [Data<'a>]) -> Result<Self, MpiError> {
        let cut = Self::new(Space::Input, blocks)?;
        for rank in 0..blocks.len() {
            cut.load(rank);
        }
        Ok(cut)
    }

    /// Copies of blocks.
    ///
    /// # Safety
    /// The bytes of the elements can be read during the call, and nobody writes them.
    pub(super) unsafe fn copy(blocks: &'a [Data<'a>]) -> Result<Self, MpiError> {
        let places = Self::side_by_side(blocks)?;
        let cut = Self::with_copies(Space::Input, places, blocks);
        for rank in 0..blocks.len() {
            cut.load(rank);
        }
        Ok(cut)
    }

    /// Blocks that are written. Where some share bytes, all are received apart and written one after
    /// the other, in the order of ranks: the standard forbids it, and programs do it.
    ///
    /// # Safety
    /// The bytes of the elements are nobody else's as long as the blocks are there.
    pub(super) unsafe fn target(blocks: &'a [Data<'a>]) -> Result<Self, MpiError> {
        let cut = Self::new(Space::Output, blocks)?;
        if cut.packed.is_none() && !cut.is_disjoint() {
            return Ok(Self::with_copies(Space::Output, Self::side_by_side(blocks)?, blocks));
        }
        Ok(cut)
    }

    fn new(space: Space, blocks: &'a [Data<'a>]) -> Result<Self, MpiError> {
        let places = Self::side_by_side(blocks)?;
        // From the lowest address to the end of the highest block.
        let (mut low, mut high) = (usize::MAX, 0);
        let mut pieces = Vec::with_capacity(blocks.len());
        for (data, &(_, len)) in blocks.iter().zip(&places) {
            if len == 0 {
                pieces.push((0, 0));
                continue;
            }
            let Some(start) = data.piece() else {
                return Ok(Self::with_copies(space, places, blocks));
            };
            let start = start.expose_provenance();
            low = low.min(start);
            high = high.max(start.checked_add(len).ok_or(MpiError::Uncountable)?);
            pieces.push((start, len));
        }
        if high == 0 {
            return Ok(Self { places: pieces, ..Self::nothing(space) });
        }
        for (start, len) in &mut pieces {
            *start = if *len == 0 { 0 } else { *start - low };
        }
        // Blocks may lie in several objects of the program, whose addresses it has given away.
        let start = std::ptr::with_exposed_provenance_mut(low);
        Ok(Self { space, start, len: high - low, places: pieces, packed: None })
    }

    /// Where the blocks lie in one piece of memory.
    fn side_by_side(blocks: &[Data<'_>]) -> Result<Vec<(usize, usize)>, MpiError> {
        let mut at = 0_usize;
        let place = |data: &Data<'_>| {
            let len = data.bytes()?;
            let place = (at, len);
            at = at.checked_add(len).ok_or(MpiError::Uncountable)?;
            Ok(place)
        };
        blocks.iter().map(place).collect()
    }

    fn with_copies(space: Space, places: Vec<(usize, usize)>, blocks: &'a [Data<'a>]) -> Self {
        let len = places.last().map_or(0, |(at, len)| at + len);
        let mut packed = vec![0; len];
        Self { space, start: packed.as_mut_ptr(), len, places, packed: Some((packed, blocks)) }
    }

    fn is_disjoint(&self) -> bool {
        let filled = |&index: &usize| self.places[index].1 > 0;
        let mut order: Vec<_> = (0..self.places.len()).filter(filled).collect();
        // Mostly the blocks come in order, and nothing has to be moved.
        order.sort_by_key(|&index| self.places[index].0);
        let end = |index: usize| self.places[index].0 + self.places[index].1;
        order.windows(2).all(|pair| end(pair[0]) <= self.places[pair[1]].0)
    }

    /// Takes what stands in a block, which is to be used or to stay.
    pub(super) fn load(&self, rank: usize) {
        if let Some((_, blocks)) = &self.packed {
            let ((at, len), data) = (self.places[rank], blocks[rank]);
            let out = self.start.wrapping_add(at);
            // SAFETY: the maker has promised that the elements can be read; the copy has a place of
            // their length for them, and nobody uses it yet.
            unsafe { pack(data.layout, data.start, data.count, 0, out, len) };
        }
    }

    /// Address and length of the memory.
    pub(super) fn memory(&self) -> (*mut u8, usize) {
        (self.start, self.len)
    }

    /// Bytes of all blocks.
    pub(super) fn total(&self) -> usize {
        self.places.iter().map(|&(_, len)| len).sum()
    }

    /// Brings the blocks to the program's memory, if they are not there.
    pub(super) fn store(self) {
        let Some((packed, blocks)) = self.packed else { return };
        for (data, (at, len)) in blocks.iter().zip(self.places) {
            let from = &packed[at..at + len];
            // SAFETY: the maker has promised that the elements are ours.
            unsafe { unpack(data.layout, data.start, data.count, 0, from.as_ptr(), len) };
        }
    }
}
