//! The engine over an index: entries lie in short lists, and an index says in which.
//!
//! ```text
//!   receive or message ── index (by rank, or by rank and tag) ──► leaf { posted, unexpected }
//!   receive that fits several leaves ──────────────────────────► wild, one list
//! ```
//! Both queues hang on the same leaf, because of the five things that a program does with them
//! (J. A. Zounmevo, thesis, Queen's University 2014, section 4.3.1):
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
//! **Order.** Each entry has a sequence number, and every list is ordered by it. An arrival looks
//! into its leaf and, as far as there are such receives, into the leaves of the other classes and
//! the wild list, and takes the oldest of what it finds. A receive that fits several leaves takes
//! the oldest message that fits: where the index asks for it ([`Index::CHAINS`]), along [`Chains`]
//! that are made when the first such receive looks for one; else by looking into every leaf, as
//! published.
//!
//! `indexed/engine.rs` is what an engine does, `indexed/wild.rs` how entries of several leaves are
//! found, `indexed/anew.rs` what moves or renumbers all entries at once. Nothing here knows of
//! communicators: one engine is one matching space.

mod anew;
mod engine;
mod wild;

use std::fmt::Debug;

use super::Want;
use super::chains::Chains;
use super::count::{Count, Off};
use super::pool::{END, Fifo, Found, Pool};

/// The two lists of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub(super) posted: Fifo,
    pub(super) unexpected: Fifo,
}

impl Leaf {
    /// Nothing in it.
    pub const EMPTY: Self = Self { posted: Fifo::EMPTY, unexpected: Fifo::EMPTY };

    /// Whether nothing is in it.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.posted.is_empty() && self.unexpected.is_empty()
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

    /// Entries that a list looks at in the time that this index takes for a match.
    const LOOKS: u32;

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
    fn insert(&mut self, rank: u32, tag: u64, path: &Self::Path, count: &mut impl Count) -> u32;

    /// The leaf `find` has found on `path` is empty.
    fn release(&mut self, path: &Self::Path, leaf: u32, count: &mut impl Count);

    /// A leaf.
    fn leaf(&self, leaf: u32) -> &Leaf;

    /// A leaf.
    fn leaf_mut(&mut self, leaf: u32) -> &mut Leaf;

    /// Every leaf that may hold something.
    fn each(&self, visit: &mut dyn FnMut(u32));

    /// Whether `entries` entries are more than the index should hold as it is.
    #[inline(always)]
    fn crowded(&self, entries: usize) -> bool {
        let _ = entries;
        false
    }

    /// Makes room for `entries` entries. All leaves are empty then, and the engine enters
    /// everything anew.
    fn grow(&mut self, entries: usize, count: &mut impl Count) {
        let _ = (entries, count);
    }
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
    pub(super) pool: Pool,
    index: I,
    wild: Fifo,
    /// Posted receives of the classes `Tag` and `Source`.
    by_tag: u32,
    by_source: u32,
    /// The messages that wait, in each of these all of them.
    chains: Vec<Chains>,
    /// Messages looked at by receives for which there is no chain.
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
            pool: Pool::default(),
            index,
            wild: Fifo::EMPTY,
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
        Self { next: u32::MAX - 20, ..Self::new(index) }
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
            None => self.index.insert(source, tag, &self.spot.path, &mut self.count),
        }
    }

    /// The next sequence number.
    #[inline(always)]
    fn next_number(&mut self) -> u32 {
        if self.next == u32::MAX {
            self.renumber();
        }
        self.next += 1;
        self.next - 1
    }

    #[inline(always)]
    fn enter_posted(&mut self, index: u32, want: &Want) {
        let sequence = self.next_number();
        self.pool.number(index, sequence);
        let leaf = self.list_for(want);
        let Self { pool, index: leaves, wild, .. } = self;
        let list = match leaf {
            Some(leaf) => &mut leaves.leaf_mut(leaf).posted,
            None => wild,
        };
        pool.append(list, index);
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

    /// The list for a receive that is to be entered, and counts it.
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
    fn take_receive(&mut self, leaf: Option<u32>, path: &I::Path, found: Found) -> u64 {
        self.posted -= 1;
        // Mostly there are no others than exact ones, and the entry need not be asked.
        if self.by_tag | self.by_source != 0 {
            match I::class(&self.pool.get(found.index).want) {
                Class::Tag => self.by_tag -= 1,
                Class::Source => self.by_source -= 1,
                Class::Exact | Class::Wild => {}
            }
        }
        match leaf {
            Some(leaf) => {
                self.pool.unlink(&mut self.index.leaf_mut(leaf).posted, found);
                self.left(leaf, path, found.index)
            }
            None => {
                self.spot.key = None;
                self.pool.unlink(&mut self.wild, found);
                self.pool.free(found.index)
            }
        }
    }

    #[inline(always)]
    fn enter_unexpected(&mut self, index: u32, source: u32, tag: u64) {
        let sequence = self.next_number();
        self.pool.number(index, sequence);
        self.unexpected += 1;
        let leaf = self.leaf_for(source, tag);
        self.pool.append(&mut self.index.leaf_mut(leaf).unexpected, index);
        for chains in &mut self.chains {
            chains.append(index, self.pool.get(index));
        }
    }

    /// Frees an entry that has just left `leaf`, found on `path`.
    #[inline(always)]
    fn left(&mut self, leaf: u32, path: &I::Path, index: u32) -> u64 {
        self.spot.key = None;
        if self.index.leaf(leaf).is_empty() {
            self.index.release(path, leaf, &mut self.count);
        }
        self.pool.free(index)
    }

    #[inline(always)]
    fn take_message(&mut self, leaf: u32, path: &I::Path, found: Found) -> u64 {
        self.unexpected -= 1;
        for chains in &mut self.chains {
            chains.remove(found.index, self.pool.get(found.index));
        }
        self.pool.unlink(&mut self.index.leaf_mut(leaf).unexpected, found);
        self.left(leaf, path, found.index)
    }

    /// Takes a message by its entry's number.
    fn take_arrived(&mut self, index: u32) -> u64 {
        let Want { source, tag, .. } = self.pool.get(index).want;
        let mut path = I::Path::default();
        let leaf = self.index.find(source, tag, &mut path, &mut Off);
        let leaf = leaf.expect("a message that waits is in a leaf");
        let list = self.index.leaf(leaf).unexpected;
        let (found, _) = self.pool.search(list, |_| true);
        let mut found = found.expect("the leaf of a message that waits is not empty");
        while found.index != index {
            found = Found { before: found.index, index: self.pool.get(found.index).next };
        }
        self.take_message(leaf, &path, found)
    }

    /// After an insertion: whether the index holds more than it is made for.
    #[inline(always)]
    fn make_room(&mut self) {
        if self.index.crowded(self.posted + self.unexpected) {
            self.enter_all_anew();
        }
    }

    /// Takes back a posted receive, if the entry is one.
    fn withdraw(&mut self, index: u32) -> bool {
        let mut path = I::Path::default();
        let leaf = match Self::key(&self.pool.get(index).want) {
            None => None,
            Some((source, tag)) => match self.index.find(source, tag, &mut path, &mut self.count) {
                None => return false,
                leaf => leaf,
            },
        };
        let list = leaf.map_or(self.wild, |leaf| self.index.leaf(leaf).posted);
        let (mut before, mut at) = (END, list.head);
        while at != END && at != index {
            before = at;
            at = self.pool.get(at).next;
        }
        self.count.visit(1);
        if at == END {
            return false;
        }
        self.take_receive(leaf, &path, Found { before, index });
        true
    }
}

/// A receive that fits an arrival.
#[derive(Clone, Copy, Debug)]
struct Hit {
    sequence: u32,
    /// None: the wild list.
    leaf: Option<u32>,
    found: Found,
}
