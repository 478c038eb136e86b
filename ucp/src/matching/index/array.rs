//! A leaf for each rank, all made at once: the design of a table indexed by rank.
//!
//! Fastest to search and the dearest in memory: 8 bytes for each rank of the communicator and 8 more, from
//! the first entry on, from any rank. Messages of ranks that the communicator does not have
//! share one leaf behind the others.

use crate::matching::Want;
use crate::matching::count::{Count, QueueKind};
use crate::matching::indexed::{Class, Index, Leaf};
use crate::matching::pool::{EntryPool, KEPT};

/// See the module's text.
#[derive(Debug)]
pub struct ArrayIndex {
    ranks: u32,
    leaves: Vec<Leaf>,
}

impl ArrayIndex {
    /// For a communicator of `ranks` ranks.
    pub const fn new(ranks: u32) -> Self {
        Self { ranks, leaves: Vec::new() }
    }

    /// Leaves for a communicator of `ranks` ranks: its own, and the one for all others.
    const fn leaves_for(ranks: u32) -> usize {
        ranks as usize + 1
    }

    /// Bytes for a communicator of `ranks` ranks.
    pub const fn bytes_for(ranks: u32) -> usize {
        Self::leaves_for(ranks) * size_of::<Leaf>()
    }

    #[inline(always)]
    fn place(&self, rank: u32) -> u32 {
        rank.min(self.ranks)
    }

    #[cold]
    #[inline(never)]
    fn make(&mut self, count: &mut impl Count) {
        self.leaves = vec![Leaf::EMPTY; Self::leaves_for(self.ranks)];
        count.allocated(Self::bytes_for(self.ranks));
    }
}

impl Index for ArrayIndex {
    type Path = ();

    const CHAINS: bool = false;
    const RELEASES: bool = false;
    const BREAK_EVEN: u32 = 16;

    #[inline(always)]
    fn class(want: &Want) -> Class {
        if want.source_mask != 0 { Class::Exact } else { Class::Wild }
    }

    #[inline(always)]
    fn find(&self, rank: u32, _: u64, _: &mut (), count: &mut impl Count) -> Option<u32> {
        count.visit(1);
        if self.leaves.is_empty() { None } else { Some(self.place(rank)) }
    }

    #[inline(always)]
    fn insert(
        &mut self,
        _: &mut EntryPool,
        rank: u32,
        _: u64,
        (): &(),
        count: &mut impl Count,
    ) -> u32 {
        if self.leaves.is_empty() {
            self.make(count);
        }
        self.place(rank)
    }

    #[inline(always)]
    fn release(&mut self, (): &(), _: u32, _: &mut impl Count) {}

    #[inline(always)]
    fn ring(&self, _: &EntryPool, leaf: u32, queue: QueueKind) -> u32 {
        self.leaves[leaf as usize].ring(queue)
    }

    #[inline(always)]
    fn set_ring(&mut self, _: &mut EntryPool, leaf: u32, queue: QueueKind, last: u32) {
        self.leaves[leaf as usize].set_ring(queue, last);
    }

    fn each(&self, _: &EntryPool, queue: QueueKind, visit: &mut dyn FnMut(u32)) {
        self.leaves.iter().for_each(|leaf| visit(leaf.ring(queue)));
    }

    fn emptied(&mut self, count: &mut impl Count) {
        if self.leaves.len() > KEPT {
            self.leaves = Vec::new();
            count.freed(Self::bytes_for(self.ranks));
        }
    }
}
