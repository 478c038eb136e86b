//! The engine over an index: entries lie in short lists, and an index says in which.
//!
//! ```text
//!   receive or message ── index (by rank, or by rank and tag) ──► leaf { posted, unexpected }
//!   receive that fits several leaves ──────────────────────────► wild, one list
//! ```
//! Both queues hang on the same leaf, because of the five things that a program does with them
//! (J. A. Zounmevo, thesis, Queen's University 2014, section 4.2.3):
//!
//! | event | searches | and if it finds nothing |
//! |---|---|---|
//! | a message arrives | posted | appends to unexpected |
//! | a receive is posted | unexpected | appends to posted |
//! | a probe that claims, a send taken back | unexpected | nothing |
//! | a receive taken back | posted | nothing |
//! | a probe | unexpected, without taking | nothing |
//!
//! So every insertion follows a search for the same place in the other queue. The engine keeps
//! where the last failed search ended ([`Spot`]) and inserts there without searching again.
//!
//! An index may have leaves for receives that name only the source or only the tag
//! ([`Class`]); all others that fit several leaves are in the wild list.
//!
//! **Order.** Each entry has a sequence number, and every list is ordered by it. An arrival searches
//! its leaf and, as far as there are such receives, the leaves of the other classes and
//! the wild list, and takes the oldest of what it finds. A receive that fits several leaves takes
//! the oldest message that fits: where the index asks for it ([`Index::CHAINS`]), along [`Chains`]
//! that are made when the first such receive searches for one; else by searching every leaf, as
//! published.
//!
//! `indexed/engine.rs` is what an engine does, `indexed/wild.rs` how entries of several leaves are
//! found, `indexed/all.rs` what concerns all entries at once. Nothing here knows of
//! communicators: one engine is one matching space.

mod all;
mod engine;
mod wild;

use std::fmt::Debug;

use super::Want;
use super::chains::Chains;
use super::count::{Count, Off, QueueKind};
use super::pool::{END, EntryPool, InRing, NUMBERS};

/// The two rings of a leaf: the last entry of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    posted: u32,
    unexpected: u32,
}

impl Leaf {
    /// Nothing in it.
    pub const EMPTY: Self = Self { posted: END, unexpected: END };

    /// The ring of a queue.
    #[inline(always)]
    pub const fn ring(&self, queue: QueueKind) -> u32 {
        match queue {
            QueueKind::Posted => self.posted,
            QueueKind::Unexpected => self.unexpected,
        }
    }

    /// The same, to be written.
    #[inline(always)]
    pub const fn set_ring(&mut self, queue: QueueKind, last: u32) {
        match queue {
            QueueKind::Posted => self.posted = last,
            QueueKind::Unexpected => self.unexpected = last,
        }
    }
}

/// Which receives a receive is among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Those of one leaf, which holds every message that it can match.
    Exact,
    /// Those that name the tag alone: in the leaf of [`ANY_SOURCE`] and the tag.
    Tag,
    /// Those that name the source alone: in the leaf of the source and [`ANY_TAG`].
    Source,
    /// All others.
    Wild,
}

/// Stands for the source of receives that name none.
pub const ANY_SOURCE: u32 = u32::MAX;

/// Stands for the tag of receives that name none.
pub const ANY_TAG: u64 = u64::MAX;

/// Which leaf an entry belongs to. A leaf may hold entries of several ranks and tags.
pub trait Index: Debug + Send {
    /// Where a search ended: enough to insert the leaf that it missed, or to remove the one that
    /// it found.
    type Path: Copy + Debug + Default + Send;

    /// Whether receives that fit several leaves find their messages along chains.
    const CHAINS: bool;

    /// Whether leaves that are empty are released.
    const RELEASES: bool;

    /// Entries that a list compares in the time that this index takes for a match.
    const BREAK_EVEN: u32;

    /// Which receives a receive for `want` is among.
    fn class(want: &Want) -> Class;

    /// The leaf for messages from `rank` with `tag`.
    fn find(
        &self,
        rank: u32,
        tag: u64,
        path: &mut Self::Path,
        count: &mut impl Count,
    ) -> Option<u32>;

    /// Makes the leaf that `find` has missed on `path`.
    fn insert(
        &mut self,
        pool: &mut EntryPool,
        rank: u32,
        tag: u64,
        path: &Self::Path,
        count: &mut impl Count,
    ) -> u32;

    /// The leaf `find` has found on `path` is empty. Signal handlers call this: it allocates and frees no memory.
    fn release(&mut self, path: &Self::Path, leaf: u32, count: &mut impl Count);

    /// A leaf's ring of a queue: the number of its last entry.
    fn ring(&self, pool: &EntryPool, leaf: u32, queue: QueueKind) -> u32;

    /// The same, to be written.
    fn set_ring(&mut self, pool: &mut EntryPool, leaf: u32, queue: QueueKind, last: u32);

    /// Every ring that may hold entries of a queue.
    fn each(&self, pool: &EntryPool, queue: QueueKind, visit: &mut dyn FnMut(u32));

    /// It is empty, and is to hold the entries of `pool`.
    fn begin(&mut self, pool: &mut EntryPool) {
        let _ = pool;
    }

    /// An entry came: what grows with the entries does.
    #[inline(always)]
    fn grow(&mut self, pool: &mut EntryPool) {
        let _ = pool;
    }

    /// It is empty: memory that short queues do not need is given back.
    fn emptied(&mut self, count: &mut impl Count);
}

/// Where the last failed search ended.
#[derive(Clone, Copy, Debug)]
struct Spot<P> {
    /// What was searched; nothing since then has changed the index if it is there.
    key: Option<(u32, u64)>,
    leaf: Option<u32>,
    path: P,
}

/// The engine. See the module's text.
#[derive(Debug)]
pub struct Indexed<I: Index, C: Count = Off> {
    pub(super) pool: EntryPool,
    index: I,
    /// A ring.
    wild: u32,
    /// Posted receives of the classes `Tag` and `Source`.
    by_tag: u32,
    by_source: u32,
    /// The messages that wait, in each of these all of them.
    chains: Vec<Chains>,
    /// Messages compared by receives for which there is no chain.
    long: u64,
    posted: usize,
    unexpected: usize,
    /// The next sequence number.
    next: u32,
    spot: Spot<I::Path>,
    count: C,
}

impl<I: Index, C: Count> Indexed<I, C> {
    /// An empty engine.
    pub fn new(index: I) -> Self {
        Self {
            pool: EntryPool::default(),
            index,
            wild: END,
            by_tag: 0,
            by_source: 0,
            chains: Vec::new(),
            long: 0,
            posted: 0,
            unexpected: 0,
            next: 0,
            spot: Spot { key: None, leaf: None, path: I::Path::default() },
            count: C::default(),
        }
    }

    /// An empty engine whose sequence numbers are nearly used up.
    #[cfg(test)]
    pub(super) fn nearly_numbered_up(index: I) -> Self {
        Self { next: NUMBERS - 20, ..Self::new(index) }
    }

    /// What was counted.
    pub fn counted(&self) -> &C {
        &self.count
    }

    /// The index.
    pub fn index(&self) -> &I {
        &self.index
    }

    /// The leaf for a key: where the last search ended, or found anew, or made.
    #[inline(always)]
    fn leaf_for(&mut self, source: u32, tag: u64) -> u32 {
        if self.spot.key != Some((source, tag)) {
            self.spot.leaf = self.index.find(source, tag, &mut self.spot.path, &mut Off);
        }
        self.spot.key = None;
        match self.spot.leaf {
            Some(leaf) => leaf,
            None => {
                let Self { index, pool, spot, count, .. } = self;
                index.insert(pool, source, tag, &spot.path, count)
            }
        }
    }

    /// The next sequence number.
    #[inline(always)]
    fn next_number(&mut self) -> u32 {
        if self.next == NUMBERS {
            self.renumber();
        }
        self.next += 1;
        self.next - 1
    }

    /// Appends an entry to a leaf's ring.
    #[inline(always)]
    fn append(&mut self, leaf: u32, queue: QueueKind, index: u32) {
        let last = self.index.ring(&self.pool, leaf, queue);
        self.pool.append_ring(last, index);
        self.index.set_ring(&mut self.pool, leaf, queue, index);
    }

    /// Takes an entry out of a leaf's ring.
    #[inline(always)]
    fn unlink(&mut self, leaf: u32, queue: QueueKind, found: InRing) {
        let left = self.pool.unlink_ring(found);
        if left != found.last {
            self.index.set_ring(&mut self.pool, leaf, queue, left);
        }
    }

    /// Places an entry, which has its number from the beginning.
    #[inline(always)]
    fn place(&mut self, want: Want, value: u64, message: bool) -> u32 {
        let sequence = self.next_number();
        let index = self.pool.place(want, value);
        self.pool.number(index, sequence, message);
        index
    }

    /// Enters a receive that was placed by the key of its class.
    #[inline(always)]
    fn enter_posted(&mut self, index: u32, want: &Want) {
        match self.list_for(want) {
            Some(leaf) => self.append(leaf, QueueKind::Posted, index),
            None => {
                self.pool.append_ring(self.wild, index);
                self.wild = index;
            }
        }
    }

    /// The key of the leaf for a receive, unless it is a wild one.
    #[inline(always)]
    fn key(want: &Want) -> Option<(u32, u64)> {
        match I::class(want) {
            Class::Exact => Some((want.source, want.tag)),
            Class::Tag => Some((ANY_SOURCE, want.tag)),
            Class::Source => Some((want.source, ANY_TAG)),
            Class::Wild => None,
        }
    }

    /// A receive as it is stored: with the key by which it is found. What the masks leave out may be anything.
    #[inline(always)]
    fn stored(want: Want) -> Want {
        match Self::key(&want) {
            Some((source, tag)) => Want { source, tag, ..want },
            None => want,
        }
    }

    /// The leaf for a receive that is to be entered, and counts it.
    #[inline(always)]
    fn list_for(&mut self, want: &Want) -> Option<u32> {
        self.posted += 1;
        if I::class(want) == Class::Exact {
            return Some(self.leaf_for(want.source, want.tag));
        }
        match I::class(want) {
            Class::Tag => self.by_tag += 1,
            Class::Source => self.by_source += 1,
            Class::Exact | Class::Wild => {}
        }
        match Self::key(want) {
            Some((source, tag)) => Some(self.leaf_for(source, tag)),
            None => {
                self.spot.key = None;
                None
            }
        }
    }

    /// Takes a posted receive out of the list of `leaf`, or out of the wild one. `path` leads to
    /// the leaf.
    #[inline(always)]
    fn take_receive(&mut self, leaf: Option<u32>, path: &I::Path, found: InRing) -> u64 {
        self.posted -= 1;
        // Mostly there are no others than exact ones, and the entry need not be asked.
        if self.by_tag | self.by_source != 0 {
            match I::class(&self.pool.get(found.index).want()) {
                Class::Tag => self.by_tag -= 1,
                Class::Source => self.by_source -= 1,
                Class::Exact | Class::Wild => {}
            }
        }
        match leaf {
            Some(leaf) => {
                self.unlink(leaf, QueueKind::Posted, found);
                self.left(leaf, path, found.index)
            }
            None => {
                self.spot.key = None;
                self.wild = self.pool.unlink_ring(found);
                self.pool.free(found.index)
            }
        }
    }

    #[inline(always)]
    fn enter_unexpected(&mut self, index: u32, source: u32, tag: u64) {
        self.unexpected += 1;
        let leaf = self.leaf_for(source, tag);
        self.append(leaf, QueueKind::Unexpected, index);
        for chains in &mut self.chains {
            let before = chains.bytes();
            chains.append(index, self.pool.get(index));
            self.count.allocated(chains.bytes() - before);
        }
    }

    /// Frees an entry that has just left `leaf`, found on `path`.
    #[inline(always)]
    fn left(&mut self, leaf: u32, path: &I::Path, index: u32) -> u64 {
        self.spot.key = None;
        if I::RELEASES {
            let ring = |queue| self.index.ring(&self.pool, leaf, queue);
            if ring(QueueKind::Posted) & ring(QueueKind::Unexpected) == END {
                self.index.release(path, leaf, &mut self.count);
            }
        }
        self.pool.free(index)
    }

    #[inline(always)]
    fn take_message(&mut self, leaf: u32, path: &I::Path, found: InRing) -> u64 {
        self.unexpected -= 1;
        for chains in &mut self.chains {
            chains.remove(found.index, self.pool.get(found.index));
        }
        self.unlink(leaf, QueueKind::Unexpected, found);
        self.left(leaf, path, found.index)
    }

    /// Takes a message by its entry's number.
    fn take_arrived(&mut self, index: u32) -> u64 {
        let Want { source, tag, .. } = self.pool.get(index).want();
        let mut path = I::Path::default();
        let leaf = self.index.find(source, tag, &mut path, &mut Off);
        let leaf = leaf.expect("a message that waits is in a leaf");
        let last = self.index.ring(&self.pool, leaf, QueueKind::Unexpected);
        let found = self.pool.find_in_ring(last, index);
        self.take_message(leaf, &path, found.expect("a message that waits is in its leaf's ring"))
    }

    /// Takes back a posted receive, if the entry is one.
    fn withdraw(&mut self, index: u32) -> bool {
        let mut path = I::Path::default();
        let leaf = match Self::key(&self.pool.get(index).want()) {
            None => None,
            Some((source, tag)) => match self.index.find(source, tag, &mut path, &mut self.count) {
                None => return false,
                leaf => leaf,
            },
        };
        let posted = |leaf| self.index.ring(&self.pool, leaf, QueueKind::Posted);
        let found = self.pool.find_in_ring(leaf.map_or(self.wild, posted), index);
        self.count.visit(1);
        let Some(found) = found else { return false };
        self.take_receive(leaf, &path, found);
        true
    }
}

/// A receive that fits an arrival.
#[derive(Clone, Copy, Debug)]
struct Hit {
    sequence: u32,
    /// None: the wild list.
    leaf: Option<u32>,
    found: InRing,
}
