//! A list that grows an index when its searches have become long.
//!
//! ```text
//!            long searches have cost a good part of entering everything
//!   list ──────────────────────────────────────────────────────────────► index
//!     ▲                                                                    │
//!     └──────── both queues are empty, and the index was of no use ◄───────┘
//! ```
//! While queues are short, or their first entries are the ones that fit, a list cannot be beaten.
//! How long a queue becomes is not known beforehand, and its length does not say how deep searches
//! go. So the list counts what its long searches cost. When that is more than the index would have
//! taken for everything in the meantime, and some part of the price of entering all entries into
//! it, they are entered (the ski-rental problem, for somebody who expects to ski again).
//!
//! A *period* is the time between two moments at which both queues are empty. At its end the
//! engine becomes a list again, unless the period was a long-queued one: a program that has filled
//! its queues in this way mostly does it again, and would pay for growing each time. Since a list
//! might do for all of that nevertheless, it is tried again after 1, 2, 4, ... 1024 such periods,
//! twice as many each time that it has failed.
//!
//! [`Growth`] says how much has to be paid first: an engine that somebody has asked for by its name
//! grows at the first long search. Every engine of a space is of this kind, so that what happens
//! while queues are short is the same for all of them.

use super::count::{Count, Off};
use super::list::ListEngine;
use super::pool::{Fifo, Pool};
use super::{ItemId, MatchEngine, Want};

/// Entries looked at in long searches for which an entry may be entered into the index. Entering it
/// costs more, but a program that needs it once needs it again.
const ENTER: u64 = 4;

/// Entries at once that make a period one of long queues.
const MANY: usize = 16;

/// Most periods before a list is tried again.
const LONGEST_TRUST: u32 = 1024;

/// What a list can grow into.
pub trait Grows: MatchEngine {
    /// Entries that a list looks at in the time that this engine takes for a match.
    fn looks(&self) -> u32;
    /// Whether it has a place of its own for a receive for `want`, or has to search for that as
    /// long as a list does.
    fn helps(&self) -> fn(&Want) -> bool;
    /// Takes all entries of two lists over, which keep their numbers. It is empty.
    fn take_over(&mut self, entries: Entries);
    /// Gives the entries' memory away. It is empty.
    fn give_up(&mut self) -> Entries;
}

/// The entries of a list engine on their way to an index, or of an empty index on their way back.
#[derive(Debug)]
pub struct Entries {
    pub(super) pool: Pool,
    pub(super) posted: Fifo,
    pub(super) unexpected: Fifo,
}

/// When a list gives way to its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// When long searches have cost a good part of entering everything.
    Weighed,
    /// At the first long search.
    Early,
    /// There is no list, from the first entry on: the published designs by themselves.
    Always,
}

/// See the module's text. What short queues need is in its first 64 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Grown<B: Grows, C: Count = Off> {
    /// The index, while it is one.
    index: Option<Box<B>>,
    list: ListEngine<C>,
    /// Entries that came since costs were weighed.
    placed: u32,
    /// A search that looks at more entries than this is a long one.
    patience: u32,
    growth: Growth,
    /// Whether this period had long queues.
    many: bool,
    /// Entries looked at in long searches since costs were weighed.
    long: u64,
    /// Long-queued periods until a list is tried, and how many that were the last time.
    trust: u32,
    trusted: u32,
    growths: u64,
    /// The index, while it is a list.
    spare: Spare<B>,
}

/// An index that is not in use.
#[derive(Debug)]
enum Spare<B> {
    /// It is in use, or there is none.
    None,
    /// It is made for so many ranks when it is first needed, which for most lists is never.
    Unmade(fn(u32) -> B, u32),
    Kept(Box<B>),
}

impl<B> Spare<B> {
    /// Takes it, made by now.
    fn take(&mut self) -> Option<Box<B>> {
        match std::mem::replace(self, Self::None) {
            Self::None => None,
            Self::Unmade(make, ranks) => Some(Box::new(make(ranks))),
            Self::Kept(index) => Some(index),
        }
    }
}

impl<B: Grows, C: Count> Grown<B, C> {
    /// An empty engine with the empty index `index`.
    pub fn new(index: B, growth: Growth) -> Self {
        let (patience, index) = (index.looks(), Box::new(index));
        match growth {
            Growth::Always => Self::with(Some(index), Spare::None, patience, growth),
            _ => Self::with(None, Spare::Kept(index), patience, growth),
        }
    }

    /// The same with an index that `make` makes for `ranks` ranks when it is needed, and that looks at
    /// `looks` entries in the time of a match. Not for [`Growth::Always`], which needs it at once.
    pub fn growing(make: fn(u32) -> B, ranks: u32, looks: u32, growth: Growth) -> Self {
        Self::with(None, Spare::Unmade(make, ranks), looks, growth)
    }

    /// A list that stays one.
    pub fn list() -> Self {
        Self::with(None, Spare::None, u32::MAX, Growth::Weighed)
    }

    fn with(index: Option<Box<B>>, spare: Spare<B>, patience: u32, growth: Growth) -> Self {
        Self {
            index,
            list: ListEngine::new(),
            placed: 0,
            patience,
            growth,
            many: false,
            long: 0,
            trust: 0,
            trusted: 0,
            growths: 0,
            spare,
        }
    }

    /// The index, whether it is in use or not, if it was made.
    pub fn indexed(&self) -> Option<&B> {
        match &self.spare {
            Spare::Kept(index) => Some(index),
            _ => self.index.as_deref(),
        }
    }

    /// How many times it has grown.
    pub const fn growths(&self) -> u64 {
        self.growths
    }

    /// The list was searched along `looks` entries; what was found is out of it already.
    #[cold]
    #[inline(never)]
    fn searched_long(&mut self, looks: u32) {
        let entries = (self.list.posted_len() + self.list.unexpected_len()) as u64;
        if self.growth == Growth::Weighed && !self.long_enough(looks, entries) || entries == 0 {
            return;
        }
        (self.long, self.placed) = (0, 0);
        let Some(mut index) = self.spare.take() else { return };
        // Searches for what an index has to keep in one list as well stay as long as they are.
        let helped = self.list.posted_that(index.helps());
        if 2 * helped + self.list.unexpected_len() <= self.list.posted_len() {
            self.spare = Spare::Kept(index);
            return;
        }
        index.take_over(self.list.surrender());
        self.index = Some(index);
        self.growths += 1;
        self.many = true;
        self.trusted = (2 * self.trusted).clamp(1, LONGEST_TRUST);
        self.trust = self.trusted;
    }

    /// Whether long searches, the last one along `looks` entries, have cost enough.
    fn long_enough(&mut self, looks: u32, entries: u64) -> bool {
        self.long += u64::from(looks);
        let meanwhile = u64::from(self.patience) * u64::from(self.placed);
        let enough = self.long > ENTER * entries + meanwhile;
        if !enough && self.long < meanwhile / 2 {
            (self.long, self.placed) = (0, 0);
        }
        enough
    }

    /// The index has lost an entry: at the end of a period it may go.
    #[inline]
    fn took(&mut self, found: Option<u64>) -> Option<u64> {
        if found.is_some() && self.index.as_ref().is_some_and(|index| index.is_empty()) {
            self.period_ends();
        }
        found
    }

    #[inline(never)]
    fn period_ends(&mut self) {
        if self.growth == Growth::Always {
            return;
        }
        if self.many {
            self.many = false;
            self.trust -= 1;
            if self.trust != 0 {
                return;
            }
        } else {
            self.trusted = 0;
        }
        if let Some(mut index) = self.index.take() {
            self.list.adopt(index.give_up());
            self.spare = Spare::Kept(index);
        }
        (self.long, self.placed) = (0, 0);
    }

    #[inline]
    fn gained_one(&mut self) {
        if let Some(index) = &self.index {
            self.many |= index.posted_len() + index.unexpected_len() >= MANY;
        }
    }

    /// Whether a receive can be posted without a search: no message waits, and there is no index.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.index.is_none() && self.list.unexpected_len() == 0
    }

    /// [`MatchEngine::post`] while there is no index.
    #[inline(always)]
    pub(super) fn post_plain(&mut self, want: Want, value: u64) -> ItemId {
        self.placed = self.placed.wrapping_add(1);
        self.list.post(want, value)
    }

    /// [`MatchEngine::post`] while there is an index.
    #[inline(never)]
    fn post_indexed(&mut self, want: Want, value: u64) -> ItemId {
        let Some(index) = &mut self.index else { return ItemId::NONE };
        let item = index.post(want, value);
        self.gained_one();
        item
    }

    /// [`MatchEngine::add_unexpected`] while there is an index.
    #[inline(never)]
    fn add_indexed(&mut self, source: u32, tag: u64, value: u64) {
        if let Some(index) = &mut self.index {
            index.add_unexpected(source, tag, value);
            self.gained_one();
        }
    }

    /// [`MatchEngine::arrive`] while there is an index.
    #[inline(never)]
    fn arrive_indexed(&mut self, source: u32, tag: u64) -> Option<u64> {
        let found = self.index.as_mut().and_then(|index| index.arrive(source, tag));
        self.took(found)
    }

    /// [`MatchEngine::take_unexpected`] while there is an index.
    #[inline(never)]
    fn take_indexed(&mut self, want: &Want) -> Option<u64> {
        let found = self.index.as_mut().and_then(|index| index.take_unexpected(want));
        self.took(found)
    }
}

impl<B: Grows, C: Count> MatchEngine for Grown<B, C> {
    #[inline(always)]
    fn post(&mut self, want: Want, value: u64) -> ItemId {
        if self.index.is_some() {
            return self.post_indexed(want, value);
        }
        self.post_plain(want, value)
    }

    #[inline(always)]
    fn arrive(&mut self, source: u32, tag: u64) -> Option<u64> {
        if self.index.is_some() {
            return self.arrive_indexed(source, tag);
        }
        let (found, looks) = self.list.arrive_looking(source, tag);
        if looks > self.patience {
            self.searched_long(looks);
        }
        found
    }

    fn arrive_quietly(&mut self, source: u32, tag: u64) -> Option<u64> {
        if self.index.is_some() { None } else { self.list.arrive_looking(source, tag).0 }
    }

    #[inline(always)]
    fn add_unexpected(&mut self, source: u32, tag: u64, value: u64) {
        if self.index.is_some() {
            return self.add_indexed(source, tag, value);
        }
        self.placed = self.placed.wrapping_add(1);
        self.list.add_unexpected(source, tag, value);
    }

    #[inline(always)]
    fn take_unexpected(&mut self, want: &Want) -> Option<u64> {
        if self.index.is_some() {
            return self.take_indexed(want);
        }
        let (found, looks) = self.list.take_looking(want);
        if looks > self.patience {
            self.searched_long(looks);
        }
        found
    }

    fn find_unexpected(&mut self, want: &Want) -> Option<u64> {
        if let Some(index) = &mut self.index {
            return index.find_unexpected(want);
        }
        let (found, looks) = self.list.find_looking(want);
        if looks > self.patience {
            self.searched_long(looks);
        }
        found
    }

    fn remove_unexpected(
        &mut self,
        source: u32,
        tag: u64,
        which: &mut dyn FnMut(u64) -> bool,
    ) -> Option<u64> {
        let Some(index) = &mut self.index else {
            return self.list.remove_unexpected(source, tag, which);
        };
        let found = index.remove_unexpected(source, tag, which);
        self.took(found)
    }

    fn remove_posted(&mut self, item: ItemId, value: u64) -> bool {
        let Some(index) = &mut self.index else {
            return self.list.remove_posted(item, value);
        };
        let removed = index.remove_posted(item, value);
        self.took(removed.then_some(value)).is_some()
    }

    fn remove_posted_where(&mut self, which: &mut dyn FnMut(&Want) -> bool, out: &mut Vec<u64>) {
        let Some(index) = &mut self.index else {
            return self.list.remove_posted_where(which, out);
        };
        let before = out.len();
        index.remove_posted_where(which, out);
        self.took(out.get(before).copied());
    }

    #[inline]
    fn unexpected_len(&self) -> usize {
        match &self.index {
            Some(index) => index.unexpected_len(),
            None => self.list.unexpected_len(),
        }
    }

    #[inline]
    fn posted_len(&self) -> usize {
        match &self.index {
            Some(index) => index.posted_len(),
            None => self.list.posted_len(),
        }
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        // An index that is kept while it is empty goes with the next message: not worth asking.
        self.index.is_none() && self.list.is_empty()
    }

    fn unexpected_values(&self, out: &mut Vec<u64>) {
        match &self.index {
            Some(index) => index.unexpected_values(out),
            None => self.list.unexpected_values(out),
        }
    }
}
