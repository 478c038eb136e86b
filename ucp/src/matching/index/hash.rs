//! A table of rings by a hash of rank and tag, as UCX has them, in memory that the entries have anyway.
//!
//! ```text
//!   entry 0        entry 1        entry 2        entry 3      ...   each has four bytes for one ring
//!   ring 0         ring 1         ring 2         ring 3       ...   2^n rings, at most one for each entry
//! ```
//! A receive that names rank and whole tag is found by its hash; one that names just one of them
//! by the hash of that and a stand-in for the other, where UCX has a list for all wildcards. An entry's
//! ring has nothing to do with the entry beside which it lies. So the table takes no memory of its own,
//! grows with the entries and goes with them: of a queue of all ranks of a communicator nothing is
//! left to pay but its entries.
//!
//! Rules. (1) There are more rings than half of the entries, free ones among them: so a ring has two
//! entries at most on average. (2) A receive is in the ring of its hash, a message in that of the hash's
//! complement. So a receive and a message whose keys are the same never share a ring, and a search for a
//! key in its own ring never takes an entry of the other kind for its own. Searches for receives by
//! another key than the message's own ask of what kind an entry is. (3) Where the table doubles, the
//! entries of a ring are divided among that one and one new ring.

use crate::matching::Want;
use crate::matching::count::{Count, QueueKind};
use crate::matching::indexed::{Class, Index};
use crate::matching::pool::{END, EntryPool, Item};

/// Entries that are made for the first table.
const FIRST: usize = 16;

/// See the module's text.
#[derive(Debug, Default)]
pub struct HashIndex {
    /// The number of rings less one; 0 where there is no table.
    mask: u32,
}

impl HashIndex {
    /// An empty table.
    pub const fn new() -> Self {
        Self { mask: 0 }
    }

    /// The hash of a rank and a tag. Ranks follow each other, so that the messages of a step, one
    /// from each rank, lie side by side; tags are spread. Multiplication by the golden ratio's
    /// fraction moves tags that differ in low bits far apart.
    #[inline(always)]
    pub(in crate::matching) const fn hash(rank: u32, tag: u64) -> u32 {
        let spread = (tag ^ (tag >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        rank.wrapping_add((spread >> 32) as u32)
    }

    /// The ring of a queue, of all entries with a hash.
    #[inline(always)]
    const fn slot(&self, hash: u32, queue: QueueKind) -> u32 {
        let hash = match queue {
            QueueKind::Posted => hash,
            QueueKind::Unexpected => !hash,
        };
        hash & self.mask
    }

    /// The ring of an entry.
    const fn slot_of(&self, item: &Item) -> u32 {
        let queue = if item.is_message() { QueueKind::Unexpected } else { QueueKind::Posted };
        self.slot(Self::hash(item.source, item.tag), queue)
    }

    /// Divides the entries of each ring among it and the one that is as many rings behind it as there
    /// were.
    #[cold]
    #[inline(never)]
    fn double(&mut self, pool: &mut EntryPool) {
        let rings = self.mask + 1;
        self.mask = 2 * rings - 1;
        for slot in 0..rings {
            debug_assert_eq!(pool.slot(slot + rings), END, "nothing is in a new ring");
            let last = pool.slot(slot);
            if last == END {
                continue;
            }
            pool.set_slot(slot, END);
            let mut next = pool.next(last);
            loop {
                let index = next;
                next = pool.next(index);
                let to = self.slot_of(pool.get(index));
                debug_assert!(to == slot || to == slot + rings, "one of the two");
                let before = pool.slot(to);
                pool.append_ring(before, index);
                pool.set_slot(to, index);
                if index == last {
                    break;
                }
            }
        }
    }
}

impl Index for HashIndex {
    type Path = ();

    const CHAINS: bool = true;
    const RELEASES: bool = false;
    const BREAK_EVEN: u32 = 16;

    #[inline(always)]
    fn class(want: &Want) -> Class {
        match (want.source_mask != 0, want.tag_mask) {
            (true, u64::MAX) => Class::Exact,
            (false, u64::MAX) => Class::Tag,
            (true, 0) => Class::Source,
            _ => Class::Wild,
        }
    }

    /// A leaf's number is the hash, whatever the size of the table.
    #[inline(always)]
    fn find(&self, rank: u32, tag: u64, (): &mut (), count: &mut impl Count) -> Option<u32> {
        count.visit(1);
        if self.mask == 0 { None } else { Some(Self::hash(rank, tag)) }
    }

    fn insert(
        &mut self,
        pool: &mut EntryPool,
        rank: u32,
        tag: u64,
        (): &(),
        _: &mut impl Count,
    ) -> u32 {
        self.begin(pool);
        Self::hash(rank, tag)
    }

    fn release(&mut self, (): &(), _: u32, _: &mut impl Count) {}

    #[inline(always)]
    fn ring(&self, pool: &EntryPool, leaf: u32, queue: QueueKind) -> u32 {
        pool.slot(self.slot(leaf, queue))
    }

    #[inline(always)]
    fn set_ring(&mut self, pool: &mut EntryPool, leaf: u32, queue: QueueKind, last: u32) {
        pool.set_slot(self.slot(leaf, queue), last);
    }

    fn each(&self, pool: &EntryPool, _: QueueKind, visit: &mut dyn FnMut(u32)) {
        if self.mask != 0 {
            (0..=self.mask).for_each(|slot| visit(pool.slot(slot)));
        }
    }

    fn begin(&mut self, pool: &mut EntryPool) {
        pool.make_up_to(FIRST);
        self.mask = (1 << pool.len().ilog2()) - 1;
    }

    #[inline(always)]
    fn grow(&mut self, pool: &mut EntryPool) {
        // Rule 1.
        if pool.len() > 2 * self.mask as usize + 1 && self.mask != 0 {
            self.double(pool);
        }
    }

    fn emptied(&mut self, _: &mut impl Count) {
        self.mask = 0;
    }
}
