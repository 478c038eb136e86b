//! The entries of a matching engine and the lists that they form.
//!
//! Receives that wait and messages that wait are entries of the same kind in one pool. Entries name the
//! next one. A list names its first and its last entry. The lists of an index are rings: the last entry
//! names the first one as its next, so that an index keeps one number for each of them
//! (`pool/rings.rs`). Numbers of entries stay the same while an engine is rebuilt, so that who posted
//! a receive can name it when it is taken back.
//!
//! An entry is 40 bytes, so that a search of a list reads no more memory than it must. An engine in
//! which nothing waits keeps [`KEPT`] of them at most; the memory of more is given back.

mod rings;

use super::Want;
pub(super) use rings::InRing;

/// No entry.
pub(super) const END: u32 = u32::MAX;

/// Most entries: 10 GB of them. Sequence numbers must not run out.
const MOST: u32 = 1 << 28;

/// Most entries that are kept when none waits: 320 KB of them. Few in tests, so that short programs give
/// memory back.
pub(super) const KEPT: usize = if cfg!(test) { 64 } else { 1 << 13 };

/// In [`Item::mark`]: the entry names a source. In a list all other bits are the same.
const NAMED: u32 = 1 << 31;

/// In [`Item::mark`], of an entry of an index: it is a message.
const MESSAGE: u32 = 1 << 30;

/// The first sequence number that [`Item::mark`] has no space for.
pub(super) const NUMBERS: u32 = MESSAGE;

/// One entry. What a search compares is where [`Want`] has it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Item {
    pub(super) tag: u64,
    pub(super) source: u32,
    /// In a list: the mask of the source. In an index: [`NAMED`], [`MESSAGE`], and the entry's place in
    /// time.
    mark: u32,
    pub(super) tag_mask: u64,
    pub(super) value: u64,
    pub(super) next: u32,
    /// The head of a ring of a hash, which has nothing to do with this entry; see
    /// [`HashIndex`](super::HashIndex).
    slot: u32,
}

impl Item {
    /// Whether a message from `source` with `tag` fits this receive of a list.
    #[inline(always)]
    pub(super) const fn fits(&self, source: u32, tag: u64) -> bool {
        ((self.source ^ source) & self.mark) as u64 | ((self.tag ^ tag) & self.tag_mask) == 0
    }

    /// The same of a receive of an index.
    #[inline(always)]
    pub(super) const fn fits_indexed(&self, source: u32, tag: u64) -> bool {
        let mask = (self.mark.cast_signed() >> 31).cast_unsigned();
        ((self.source ^ source) & mask) as u64 | ((self.tag ^ tag) & self.tag_mask) == 0
    }

    /// What it asks for, or what it is, in a list and in an index.
    pub(super) const fn want(&self) -> Want {
        let source_mask = if self.mark & NAMED != 0 { u32::MAX } else { 0 };
        Want { source: self.source, source_mask, tag: self.tag, tag_mask: self.tag_mask }
    }

    /// The place in time of an entry of an index.
    #[inline(always)]
    pub(super) const fn sequence(&self) -> u32 {
        self.mark & (NUMBERS - 1)
    }

    /// Whether this entry of an index is a message.
    pub(super) const fn is_message(&self) -> bool {
        self.mark & MESSAGE != 0
    }
}

/// First and last entry of a list; in an empty one both are [`END`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fifo {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Fifo {
    pub(super) const EMPTY: Self = Self { head: END, tail: END };

    #[inline(always)]
    pub(super) const fn is_empty(self) -> bool {
        self.head == END
    }
}

/// An entry that a search found, and the one before it in its list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) before: u32,
    pub(super) index: u32,
}

/// Where the entries of a list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Here, and no more than are kept when none waits.
    Small,
    /// Here, and more than that.
    Large,
    /// In an index.
    Away,
}

/// The entries.
#[derive(Debug)]
pub struct EntryPool {
    items: Vec<Item>,
    free: u32,
    extent: Extent,
}

impl Default for EntryPool {
    fn default() -> Self {
        Self { items: Vec::new(), free: END, extent: Extent::Small }
    }
}

impl EntryPool {
    #[inline(always)]
    pub(super) fn get(&self, index: u32) -> &Item {
        &self.items[index as usize]
    }

    /// How many entries there are, free ones among them.
    #[inline(always)]
    pub(super) const fn len(&self) -> usize {
        self.items.len()
    }

    /// What a list has whose entries are in an index.
    pub(super) fn away() -> Self {
        Self { extent: Extent::Away, ..Self::default() }
    }

    /// Whether the entries are here, and no more than an engine keeps in which nothing waits.
    #[inline(always)]
    pub(super) const fn is_small(&self) -> bool {
        matches!(self.extent, Extent::Small)
    }

    /// Whether there are more entries than that.
    pub(super) const fn is_large(&self) -> bool {
        matches!(self.extent, Extent::Large)
    }

    /// The entry, if there is one of this number.
    pub(super) fn entry(&self, index: u32) -> Option<&Item> {
        self.items.get(index as usize)
    }

    /// Fills a free entry. Inlined, so that what it is filled with comes in registers: read from
    /// memory that was written in other pieces, it would wait for the writes.
    #[inline(always)]
    pub(super) fn place(&mut self, want: Want, value: u64) -> u32 {
        if self.free == END {
            self.grow();
        }
        let index = self.free;
        let place = &mut self.items[index as usize];
        self.free = place.next;
        place.source = want.source;
        place.mark = want.source_mask;
        place.tag = want.tag;
        place.tag_mask = want.tag_mask;
        place.value = value;
        place.next = END;
        index
    }

    /// Makes an entry one of an index, with its place in time. It was placed as one of a list.
    #[inline(always)]
    pub(super) fn number(&mut self, index: u32, sequence: u32, message: bool) {
        let item = &mut self.items[index as usize];
        item.mark = item.mark & NAMED | if message { MESSAGE } else { 0 } | sequence;
    }

    /// Makes a free entry.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let index = u32::try_from(self.items.len()).ok().filter(|&index| index < MOST);
        let index = index.expect("at most 2^28 receives and messages wait at once");
        let next = self.free;
        let (tag, tag_mask, source, mark) = (0, 0, 0, 0);
        self.items.push(Item { tag, source, mark, tag_mask, value: 0, next, slot: END });
        self.free = index;
        if self.items.len() > KEPT {
            self.extent = Extent::Large;
        }
    }

    /// Makes free entries until there are `entries` at least.
    pub(super) fn make_up_to(&mut self, entries: usize) {
        while self.items.len() < entries {
            self.grow();
        }
    }

    /// Gives the memory of all entries but [`KEPT`] back. None is in use.
    pub(super) fn shrink(&mut self) {
        self.extent = Extent::Small;
        self.items.truncate(KEPT);
        self.items.shrink_to(KEPT);
        self.free = END;
        for (item, index) in self.items.iter_mut().zip(0..) {
            item.next = self.free;
            self.free = index;
        }
    }

    /// Gives an entry back that is in no list, and returns its value.
    #[inline(always)]
    pub(super) fn free(&mut self, index: u32) -> u64 {
        let item = &mut self.items[index as usize];
        item.next = self.free;
        self.free = index;
        item.value
    }

    /// Appends an entry whose `next` is [`END`].
    #[inline(always)]
    pub(super) fn append(&mut self, list: &mut Fifo, index: u32) {
        // Of an empty list this is no entry: there are fewer than `END`.
        match self.items.get_mut(list.tail as usize) {
            Some(last) => last.next = index,
            None => list.head = index,
        }
        list.tail = index;
    }

    /// Takes the first entry of a list out and frees it, if `fits` says so. Returns its value.
    #[inline(always)]
    pub(super) fn take_first(
        &mut self,
        list: &mut Fifo,
        fits: impl FnOnce(&Item) -> bool,
    ) -> Option<u64> {
        let index = list.head;
        // Of an empty list this is no entry: there are fewer than `END`.
        let item = self.items.get_mut(index as usize)?;
        if !fits(item) {
            return None;
        }
        list.head = std::mem::replace(&mut item.next, self.free);
        if list.head == END {
            list.tail = END;
        }
        self.free = index;
        Some(item.value)
    }

    /// The first entry for which `fits` says so, and how many were compared.
    #[inline(always)]
    pub(super) fn search(
        &self,
        list: Fifo,
        mut fits: impl FnMut(&Item) -> bool,
    ) -> (Option<Found>, u32) {
        let (mut before, mut index, mut compared) = (END, list.head, 0);
        while index != END {
            compared += 1;
            let item = &self.items[index as usize];
            if fits(item) {
                return (Some(Found { before, index }), compared);
            }
            before = index;
            index = item.next;
        }
        (None, compared)
    }

    /// Takes an entry out of the list in which it was found.
    #[inline(always)]
    pub(super) fn unlink(&mut self, list: &mut Fifo, found: Found) {
        let item = &mut self.items[found.index as usize];
        let next = std::mem::replace(&mut item.next, END);
        if found.before == END {
            list.head = next;
        } else {
            self.items[found.before as usize].next = next;
        }
        if list.tail == found.index {
            list.tail = found.before;
        }
    }

    /// Takes the entry `index` out of `list`, if it is there.
    pub(super) fn unlink_index(&mut self, list: &mut Fifo, index: u32) -> bool {
        let (mut before, mut at) = (END, list.head);
        while at != END && at != index {
            before = at;
            at = self.items[at as usize].next;
        }
        if at == END {
            return false;
        }
        self.unlink(list, Found { before, index });
        true
    }

    /// The entries of a list, in order.
    pub(super) fn walk(&self, list: Fifo) -> impl Iterator<Item = (u32, &Item)> {
        let mut index = list.head;
        std::iter::from_fn(move || {
            let at = index;
            let item = self.items.get(at as usize)?;
            index = item.next;
            Some((at, item))
        })
    }
}
