//! Buffers of elements at the edges of collectives: memory as it lies where it is in one piece, packed
//! copies of it elsewhere.
//!
//! Algorithms work on bytes side by side. What lies otherwise is packed before they start and unpacked
//! when they have ended well; the bytes between the elements are neither read nor written. Both can be
//! done again and again, for operations that are started so.

use std::rc::Rc;
use std::sync::Arc;

use bowline_base::layout::{Layout, pack, unpack};

use crate::error::MpiError;
use bowline_model::coll::blocks::Blocks;
use bowline_model::coll::plan::{Space, Span};
use bowline_model::coll::record::REACH;

/// Elements in memory: an address, how many there are, and how each lies.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the three arguments of the standard, always")]
pub struct Data {
    /// Where the first element is placed, which need not be where its first byte lies.
    pub start: *mut u8,
    /// Elements.
    pub count: usize,
    /// How each of them lies.
    pub layout: Arc<Layout>,
}

impl Data {
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

/// One side of a collective: memory that an algorithm works on, and what of the program's it stands for.
pub trait Side {
    /// Takes in what stands in the program's memory. Called before the algorithm starts, each time.
    fn load(&mut self);

    /// Brings what the algorithm has made to the program's memory. Called after it has ended well.
    fn store(&mut self);

    /// Address and length of the memory, which stay the same.
    fn memory(&self) -> (*mut u8, usize);
}

/// Elements that are read.
#[derive(Debug)]
pub(super) struct Source {
    start: *mut u8,
    len: usize,
    /// Where they are, if not in the program's memory, and where that is.
    packed: Option<(Vec<u8>, Data)>,
}

impl Source {
    /// Nothing.
    pub(super) const NOTHING: Self = Self { start: std::ptr::null_mut(), len: 0, packed: None };

    /// # Safety
    /// The bytes of the elements can be read as long as the source is there, and nobody writes them.
    #[inline]
    pub(super) unsafe fn of(data: Data) -> Result<Self, MpiError> {
        let len = data.bytes()?;
        if len == 0 {
            return Ok(Self::NOTHING);
        }
        if let Some(start) = data.piece() {
            return Ok(Self { start, len, packed: None });
        }
        Ok(Self::packed(data, len))
    }

    /// A copy.
    ///
    /// # Safety
    /// As for [`of`](Self::of), whenever the source is loaded.
    pub(super) unsafe fn copy(data: Data) -> Result<Self, MpiError> {
        let len = data.bytes()?;
        Ok(Self::packed(data, len))
    }

    #[inline(never)]
    fn packed(data: Data, len: usize) -> Self {
        let mut packed = vec![0; len];
        Self { start: packed.as_mut_ptr(), len, packed: Some((packed, data)) }
    }

    /// Bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Side for Source {
    #[inline]
    fn load(&mut self) {
        if let Some((_, data)) = &self.packed {
            // SAFETY: the maker has promised that the elements can be read; the copy has their length.
            unsafe { pack(&data.layout, data.start, data.count, 0, self.start, self.len) };
        }
    }

    #[inline]
    fn store(&mut self) {}

    #[inline]
    fn memory(&self) -> (*mut u8, usize) {
        (self.start, self.len)
    }
}

/// Elements that are written.
#[derive(Debug)]
pub(super) struct Target {
    start: *mut u8,
    len: usize,
    /// Where they come to be, if not in the program's memory, and where that is.
    packed: Option<(Vec<u8>, Data)>,
    /// What is read first, being used or staying.
    loaded: Span,
    /// Whether anything is written.
    written: bool,
}

impl Target {
    /// Nothing.
    pub(super) const NOTHING: Self = Self {
        start: std::ptr::null_mut(),
        len: 0,
        packed: None,
        loaded: Span::EMPTY,
        written: false,
    };

    /// # Safety
    /// The bytes of the elements are nobody else's as long as the target is there.
    #[inline]
    pub(super) unsafe fn of(data: Data) -> Result<Self, MpiError> {
        let len = data.bytes()?;
        if len == 0 {
            return Ok(Self::NOTHING);
        }
        let empty = Self { len, written: true, ..Self::NOTHING };
        if let Some(start) = data.piece() {
            return Ok(Self { start, ..empty });
        }
        let mut packed = vec![0; len];
        Ok(Self { start: packed.as_mut_ptr(), packed: Some((packed, data)), ..empty })
    }

    /// Has a part of the elements read first.
    pub(super) fn reads(&mut self, part: Span) {
        assert!(part.at + part.len <= self.len, "{part:?} leaves its buffer");
        self.loaded = part;
    }

    /// Has nothing written.
    pub(super) fn only_read(&mut self) {
        self.written = false;
    }

    /// Bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Side for Target {
    #[inline]
    fn load(&mut self) {
        if let Some((_, data)) = &self.packed
            && self.loaded.len > 0
        {
            let Span { at, len, .. } = self.loaded;
            let out = self.start.wrapping_add(at);
            // SAFETY: the maker has promised that the elements are ours; the copy holds the part, as `reads`
            // has asserted.
            unsafe { pack(&data.layout, data.start, data.count, at, out, len) };
        }
    }

    #[inline]
    fn store(&mut self) {
        if let Some((_, data)) = &self.packed
            && self.written
        {
            // SAFETY: the maker has promised that the elements are ours; the copy has their length.
            unsafe { unpack(&data.layout, data.start, data.count, 0, self.start, self.len) };
        }
    }

    #[inline]
    fn memory(&self) -> (*mut u8, usize) {
        (self.start, self.len)
    }
}

/// Blocks of a buffer, one for each rank.
#[derive(Debug)]
pub(super) struct Cut {
    space: Space,
    start: *mut u8,
    len: usize,
    /// Where each block lies, and its bytes.
    places: Rc<[(usize, usize)]>,
    /// The blocks side by side, if they do not lie in one piece each, and what they are.
    packed: Option<(Vec<u8>, Vec<Data>)>,
    /// The blocks that are read first: all, or one.
    loaded: Loaded,
}

/// Where blocks lie in their memory.
#[derive(Clone, Debug)]
pub(super) struct Places {
    space: Space,
    /// Where each block lies, and its bytes.
    of: Rc<[(usize, usize)]>,
}

impl Blocks for Places {
    #[inline]
    fn span(&self, rank: u32) -> Span {
        let (at, len) = self.of[rank as usize];
        Span::new(self.space, at, len)
    }
}

impl Blocks for Cut {
    #[inline]
    fn span(&self, rank: u32) -> Span {
        let (at, len) = self.places[rank as usize];
        Span::new(self.space, at, len)
    }
}

/// Memory that nobody reads.
#[derive(Debug)]
pub(super) struct Unused(Vec<u8>);

impl Unused {
    pub(super) fn new(len: usize) -> Self {
        Self(vec![0; len])
    }
}

impl Side for Unused {
    fn load(&mut self) {}

    fn store(&mut self) {}

    fn memory(&self) -> (*mut u8, usize) {
        (self.0.as_ptr().cast_mut(), self.0.len())
    }
}

impl Cut {
    /// No blocks, where nobody asks for them.
    pub(super) fn nothing(space: Space) -> Self {
        Self {
            space,
            start: std::ptr::null_mut(),
            len: 0,
            places: Rc::new([]),
            packed: None,
            loaded: Loaded::None,
        }
    }

    /// Blocks that are read.
    ///
    /// # Safety
    /// The bytes of the elements can be read as long as the blocks are there, and nobody writes them.
    pub(super) unsafe fn source(blocks: Vec<Data>) -> Result<Self, MpiError> {
        Ok(Self { loaded: Loaded::All, ..Self::new(Space::Input, blocks)? })
    }

    /// Copies of blocks.
    ///
    /// # Safety
    /// The bytes of the elements can be read whenever the blocks are loaded, and nobody writes them.
    pub(super) unsafe fn copy(blocks: Vec<Data>) -> Result<Self, MpiError> {
        let places = Self::side_by_side(&blocks)?;
        let cut = Self::with_copies(Space::Input, places, blocks);
        Ok(Self { loaded: Loaded::All, ..cut })
    }

    /// Blocks that are written. Where some share bytes, all are received apart and written one after
    /// the other, in the order of ranks: the standard forbids it, and programs do it.
    ///
    /// # Safety
    /// The bytes of the elements are nobody else's as long as the blocks are there.
    pub(super) unsafe fn target(blocks: Vec<Data>) -> Result<Self, MpiError> {
        let places = Self::side_by_side(&blocks)?;
        match Self::in_place(Space::Output, &blocks, &places)? {
            Some(cut) if cut.is_disjoint() => Ok(cut),
            _ => Ok(Self::with_copies(Space::Output, places, blocks)),
        }
    }

    fn new(space: Space, blocks: Vec<Data>) -> Result<Self, MpiError> {
        let places = Self::side_by_side(&blocks)?;
        let found = Self::in_place(space, &blocks, &places)?;
        Ok(found.unwrap_or_else(|| Self::with_copies(space, places, blocks)))
    }

    /// The blocks in the program's memory, if each lies in one piece, and all no further from each other than steps
    /// reach: those on a stack and on a heap are tens of terabytes apart.
    fn in_place(
        space: Space,
        blocks: &[Data],
        places: &[(usize, usize)],
    ) -> Result<Option<Self>, MpiError> {
        // From the lowest address to the end of the highest block.
        let (mut low, mut high) = (usize::MAX, 0);
        let mut pieces = Vec::with_capacity(blocks.len());
        for (data, &(_, len)) in blocks.iter().zip(places) {
            if len == 0 {
                pieces.push((0, 0));
                continue;
            }
            let Some(start) = data.piece() else {
                return Ok(None);
            };
            let start = start.expose_provenance();
            low = low.min(start);
            high = high.max(start.checked_add(len).ok_or(MpiError::Uncountable)?);
            pieces.push((start, len));
        }
        if high == 0 {
            return Ok(Some(Self { places: pieces.into(), ..Self::nothing(space) }));
        }
        if (high - low) as u64 >= REACH {
            return Ok(None);
        }
        for (start, len) in &mut pieces {
            *start = if *len == 0 { 0 } else { *start - low };
        }
        // Blocks may lie in several objects of the program, whose addresses it has given away.
        let start = std::ptr::with_exposed_provenance_mut(low);
        Ok(Some(Self { start, len: high - low, places: pieces.into(), ..Self::nothing(space) }))
    }

    /// Where the blocks lie in one piece of memory.
    fn side_by_side(blocks: &[Data]) -> Result<Vec<(usize, usize)>, MpiError> {
        let mut at = 0_usize;
        let place = |data: &Data| {
            let len = data.bytes()?;
            let place = (at, len);
            at = at.checked_add(len).ok_or(MpiError::Uncountable)?;
            Ok(place)
        };
        blocks.iter().map(place).collect()
    }

    fn with_copies(space: Space, places: Vec<(usize, usize)>, blocks: Vec<Data>) -> Self {
        let len = places.last().map_or(0, |(at, len)| at + len);
        let mut packed = vec![0; len];
        let start = packed.as_mut_ptr();
        let packed = Some((packed, blocks));
        Self { start, len, places: places.into(), packed, ..Self::nothing(space) }
    }

    fn is_disjoint(&self) -> bool {
        let filled = |&index: &usize| self.places[index].1 > 0;
        let mut order: Vec<_> = (0..self.places.len()).filter(filled).collect();
        // Mostly the blocks come in order, and nothing has to be moved.
        order.sort_by_key(|&index| self.places[index].0);
        let end = |index: usize| self.places[index].0 + self.places[index].1;
        order.windows(2).all(|pair| end(pair[0]) <= self.places[pair[1]].0)
    }

    /// Where the blocks lie.
    pub(super) fn places(&self) -> Places {
        Places { space: self.space, of: Rc::clone(&self.places) }
    }

    /// Has a block read first, which is used.
    pub(super) fn reads(&mut self, rank: u32) {
        self.loaded = Loaded::One(rank);
    }

    /// Bytes of all blocks.
    pub(super) fn total(&self) -> usize {
        self.places.iter().map(|&(_, len)| len).sum()
    }

    fn load_block(&self, rank: usize) {
        if let Some((_, blocks)) = &self.packed {
            let ((at, len), data) = (self.places[rank], &blocks[rank]);
            let out = self.start.wrapping_add(at);
            // SAFETY: the maker has promised that the elements can be read; the copy has a place of
            // their length for them, and nobody uses it while it is loaded.
            unsafe { pack(&data.layout, data.start, data.count, 0, out, len) };
        }
    }
}

/// What is read of blocks before an algorithm starts.
#[derive(Clone, Copy, Debug)]
enum Loaded {
    None,
    One(u32),
    All,
}

impl Side for Cut {
    fn load(&mut self) {
        match self.loaded {
            Loaded::None => {}
            Loaded::One(rank) => self.load_block(rank as usize),
            Loaded::All => (0..self.places.len()).for_each(|rank| self.load_block(rank)),
        }
    }

    fn store(&mut self) {
        let (Space::Output, Some((_, blocks))) = (self.space, &self.packed) else { return };
        for (data, &(at, len)) in blocks.iter().zip(&*self.places) {
            let from = self.start.wrapping_add(at);
            // SAFETY: the maker has promised that the elements are ours; the copy has a place of their length.
            unsafe { unpack(&data.layout, data.start, data.count, 0, from, len) };
        }
    }

    fn memory(&self) -> (*mut u8, usize) {
        (self.start, self.len)
    }
}
