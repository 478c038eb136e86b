//! A table of lists by a hash of rank and tag, the way of UCX.
//!
//! A receive that names rank and whole tag is found by its hash; one that names just one of them
//! by the hash of that and a stand-in for the other, where UCX has a list for all wildcards. The
//! table starts with 64 lists when the first entry comes and grows before it holds more than three
//! entries for each two lists, so that lists stay short whatever ranks and tags there are.

use crate::matching::Want;
use crate::matching::count::Count;
use crate::matching::indexed::{Class, Index, Leaf};

/// Lists of the first table.
const FIRST: usize = 64;

/// Entries for each two lists before the table grows: tables of many communicators are to stay in the
/// caches, which is worth a second look now and then.
const MOST_TO_TWO_LISTS: usize = 3;

/// See the module's text.
#[derive(Debug, Default)]
pub struct HashIndex {
    table: Vec<Leaf>,
}

impl HashIndex {
    /// An empty table.
    pub const fn new() -> Self {
        Self { table: Vec::new() }
    }

    /// Bytes for one list.
    pub const LIST_BYTES: usize = size_of::<Leaf>();

    /// The hash of a rank and a tag. Ranks follow each other, so that the messages of a step, one
    /// from each rank, lie side by side; tags are spread. Multiplication by the golden ratio's
    /// fraction moves tags that differ in low bits far apart.
    #[inline(always)]
    pub(in crate::matching) const fn hash(rank: u32, tag: u64) -> u32 {
        let spread = (tag ^ (tag >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        rank.wrapping_add((spread >> 32) as u32)
    }

    #[inline(always)]
    fn place(&self, rank: u32, tag: u64) -> u32 {
        Self::hash(rank, tag) & (self.table.len() as u32 - 1)
    }

    #[cold]
    #[inline(never)]
    fn make(&mut self, lists: usize, count: &mut impl Count) {
        count.freed(self.table.len() * Self::LIST_BYTES);
        self.table.clear();
        self.table.resize(lists, Leaf::EMPTY);
        count.allocated(lists * Self::LIST_BYTES);
    }
}

impl Index for HashIndex {
    type Path = ();

    const CHAINS: bool = true;
    const LOOKS: u32 = 16;

    #[inline(always)]
    fn class(want: &Want) -> Class {
        match (want.source_mask != 0, want.tag_mask) {
            (true, u64::MAX) => Class::Exact,
            (false, u64::MAX) => Class::Tag,
            (true, 0) => Class::Source,
            _ => Class::Wild,
        }
    }

    #[inline(always)]
    fn find(&self, rank: u32, tag: u64, (): &mut (), count: &mut impl Count) -> Option<u32> {
        count.visit(1);
        if self.table.is_empty() { None } else { Some(self.place(rank, tag)) }
    }

    fn insert(&mut self, rank: u32, tag: u64, (): &(), count: &mut impl Count) -> u32 {
        self.make(FIRST, count);
        self.place(rank, tag)
    }

    #[inline(always)]
    fn release(&mut self, (): &(), _: u32, _: &mut impl Count) {}

    #[inline(always)]
    fn leaf(&self, leaf: u32) -> &Leaf {
        &self.table[leaf as usize]
    }

    #[inline(always)]
    fn leaf_mut(&mut self, leaf: u32) -> &mut Leaf {
        &mut self.table[leaf as usize]
    }

    fn each(&self, visit: &mut dyn FnMut(u32)) {
        (0..self.table.len() as u32).for_each(visit);
    }

    #[inline(always)]
    fn crowded(&self, entries: usize) -> bool {
        2 * entries > MOST_TO_TWO_LISTS * self.table.len()
    }

    fn grow(&mut self, entries: usize, count: &mut impl Count) {
        if self.crowded(entries) {
            let lists = (2 * entries).div_ceil(MOST_TO_TWO_LISTS);
            self.make(lists.max(FIRST).next_power_of_two(), count);
        }
    }
}
