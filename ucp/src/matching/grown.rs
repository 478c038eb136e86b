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
//! Where a period ends, memory that short queues do not need is given back, whichever of the two it is:
//! an engine in which nothing waits holds less than a megabyte, whatever waited in it.
//!
//! [`Growth`] says how much has to be paid first: an engine that somebody has asked for by its name
//! grows at the first long search. An index is of no use where most receives would be in one list of it as well; whether
//! they would is asked again when long searches have cost many times as much as the question. Every engine of a space is of this kind, so that what happens
//! while queues are short is the same for all of them.

use super::count::{Count, Off};
use super::list::ListEngine;
use super::pool::{EntryPool, Fifo};
use super::{ItemId, MatchEngine, Want};

/// Entries compared in long searches for which an entry may be entered into the index. Entering it
/// costs more, but a program that needs it once needs it again.
const ENTER: u64 = 4;

/// Entries compared in long searches, for each that is posted, before an engine that would not be helped by its
/// index asks again whether it would be: the question tests every receive.
const AGAIN: u64 = 32;

/// Entries at once that make a period one of long queues.
const MANY: usize = 16;

/// Most periods before a list is tried again.
const LONGEST_TRUST: u32 = 1024;

/// What a list can grow into.
pub trait Grows: MatchEngine {
    /// Entries that a list compares in the time that this engine takes for a match.
    fn break_even(&self) -> u32;
    /// Whether it has a place of its own for a receive for `want`, or has to search for that as
    /// long as a list does.
    fn helps(&self) -> fn(&Want) -> bool;
    /// Takes all entries of two lists over, which keep their numbers. It is empty.
    fn take_over(&mut self, entries: Entries);
    /// Gives the entries' memory away. It is empty.
    fn give_up(&mut self) -> Entries;
    /// Gives memory back that short queues do not need. It is empty.
    fn emptied(&mut self);
    /// Entries for which there is memory.
    #[cfg(test)]
    fn held(&self) -> usize;
}

/// The entries of a list engine on their way to an index, or of an empty index on their way back.
#[derive(Debug)]
pub struct Entries {
    pub(super) pool: EntryPool,
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
    /// A search that compares more entries than this is a long one.
    break_even: u32,
    growth: Growth,
    /// Whether this period had long queues.
    many: bool,
    /// A signal handler has ended the period by taking the last entry.
    ended: bool,
    /// Entries to be compared in long searches before receives are asked again whether an index helps them.
    again: u32,
    /// Entries compared in them since costs were weighed.
    long: u64,
    /// Long-queued periods until a list is tried, and how many that were the last time.
    trust: u32,
    trusted: u32,
    growths: u32,
    /// How many times an index would not have helped.
    refusals: u32,
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
        let (break_even, index) = (index.break_even(), Box::new(index));
        match growth {
            Growth::Always => Self::with(Some(index), Spare::None, break_even, growth),
            _ => Self::with(None, Spare::Kept(index), break_even, growth),
        }
    }

    /// The same with an index that `make` makes for `ranks` ranks when it is needed, and whose matches take as
    /// long as those of a list of `break_even` entries. Not for [`Growth::Always`], which needs it at once.
    pub fn growing(make: fn(u32) -> B, ranks: u32, break_even: u32, growth: Growth) -> Self {
        Self::with(None, Spare::Unmade(make, ranks), break_even, growth)
    }

    /// A list that stays one.
    pub fn list() -> Self {
        Self::with(None, Spare::None, u32::MAX, Growth::Weighed)
    }

    fn with(index: Option<Box<B>>, spare: Spare<B>, break_even: u32, growth: Growth) -> Self {
        let list = if index.is_some() { ListEngine::away() } else { ListEngine::new() };
        Self {
            index,
            list,
            placed: 0,
            break_even,
            growth,
            many: false,
            ended: false,
            again: 0,
            long: 0,
            trust: 0,
            trusted: 0,
            growths: 0,
            refusals: 0,
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

    /// Entries for which there is memory.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.list.held() + self.index.as_ref().map_or(0, |index| index.held())
    }

    /// The same, which has grown so many times before.
    pub(super) fn grown_before(self, growths: u32) -> Self {
        Self { growths, ..self }
    }

    /// How many times it has grown.
    pub const fn growths(&self) -> u64 {
        self.growths as u64
    }

    /// How many times it has tested all receives and stayed a list.
    pub const fn refusals(&self) -> u64 {
        self.refusals as u64
    }

    /// The list was searched along `compared` entries; what was found is out of it already.
    #[cold]
    #[inline(never)]
    fn searched_long(&mut self, compared: u32) {
        let entries = (self.list.posted_len() + self.list.unexpected_len()) as u64;
        if !self.long_enough(compared, entries) || entries == 0 {
            return;
        }
        (self.long, self.placed) = (0, 0);
        let Some(mut index) = self.spare.take() else { return };
        // Searches for what an index has to keep in one list as well stay as long as they are.
        let (helped, posted) = (self.list.posted_that(index.helps()), self.list.posted_len());
        if 3 * helped + self.list.unexpected_len() <= posted {
            self.spare = Spare::Kept(index);
            self.again = u32::try_from(AGAIN * posted as u64).unwrap_or(u32::MAX);
            self.refusals = self.refusals.saturating_add(1);
            return;
        }
        self.again = 0;
        index.take_over(self.list.hand_over());
        self.index = Some(index);
        self.growths = self.growths.saturating_add(1);
        self.many = true;
        self.trusted = (2 * self.trusted).clamp(1, LONGEST_TRUST);
        self.trust = self.trusted;
    }

    /// Whether long searches, the last one along `compared` entries, have cost enough.
    fn long_enough(&mut self, compared: u32, entries: u64) -> bool {
        self.long += u64::from(compared);
        if self.growth != Growth::Weighed || self.long < u64::from(self.again) {
            return self.long >= u64::from(self.again);
        }
        let meanwhile = u64::from(self.break_even) * u64::from(self.placed);
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
        self.ended = false;
        if let Some(index) = &mut self.index {
            index.emptied();
        }
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
        if self.many {
            return;
        }
        if let Some(index) = &self.index {
            self.many = index.posted_len() + index.unexpected_len() >= MANY;
        }
    }

    /// Whether a receive can be posted without a search: no message waits, and the entries are in a small list.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.list.is_small() && self.list.unexpected_len() == 0
    }

    /// [`MatchEngine::post`] while there is no index.
    #[inline(always)]
    pub(super) fn post_plain(&mut self, want: Want, value: u64) -> ItemId {
        self.placed = self.placed.wrapping_add(1);
        self.list.post(want, value)
    }

    /// [`MatchEngine::arrive`] where the list is small and the oldest receive fits.
    #[inline(always)]
    pub(super) fn arrive_first(&mut self, source: u32, tag: u64) -> Option<u64> {
        if self.list.is_small() { self.list.arrive_first(source, tag) } else { None }
    }

    /// [`MatchEngine::post`] where the list is not small.
    #[inline(never)]
    fn post_many(&mut self, want: Want, value: u64) -> ItemId {
        if self.ended {
            return self.post_next(want, value);
        }
        let Some(index) = &mut self.index else { return self.post_large(want, value) };
        let item = index.post(want, value);
        self.gained_one();
        item
    }

    /// [`MatchEngine::post`] where a signal handler has ended the period.
    #[cold]
    #[inline(never)]
    fn post_next(&mut self, want: Want, value: u64) -> ItemId {
        self.ended = false;
        if self.index.as_ref().is_some_and(|index| index.is_empty()) {
            self.period_ends();
        }
        self.post(want, value)
    }

    /// [`MatchEngine::post`] where the list is large.
    #[cold]
    #[inline(never)]
    fn post_large(&mut self, want: Want, value: u64) -> ItemId {
        // The last entry may have been taken by a signal handler, which frees nothing.
        self.list.lost_one();
        self.post_plain(want, value)
    }

    /// [`MatchEngine::add_unexpected`] then.
    #[cold]
    #[inline(never)]
    fn add_large(&mut self, source: u32, tag: u64, value: u64) {
        self.placed = self.placed.wrapping_add(1);
        self.list.add_unexpected(source, tag, value);
    }

    /// [`MatchEngine::add_unexpected`] where the list is not small.
    #[inline(never)]
    fn add_many(&mut self, source: u32, tag: u64, value: u64) {
        let Some(index) = &mut self.index else { return self.add_large(source, tag, value) };
        index.add_unexpected(source, tag, value);
        self.gained_one();
    }

    /// [`MatchEngine::arrive`] where the list is not small.
    #[inline(never)]
    fn arrive_many(&mut self, source: u32, tag: u64) -> Option<u64> {
        let Some(index) = &mut self.index else { return self.arrive_further(source, tag) };
        let found = index.arrive(source, tag);
        self.took(found)
    }

    /// [`MatchEngine::arrive`] where the list is searched.
    #[inline(never)]
    fn arrive_further(&mut self, source: u32, tag: u64) -> Option<u64> {
        let (found, compared) = self.list.arrive_counting(source, tag);
        self.searched(compared);
        found
    }

    /// [`MatchEngine::take_unexpected`] where the list is not small.
    #[inline(never)]
    fn take_many(&mut self, want: &Want) -> Option<u64> {
        let Some(index) = &mut self.index else { return self.take_further(want) };
        let found = index.take_unexpected(want);
        self.took(found)
    }

    /// [`MatchEngine::take_unexpected`] where the list is searched.
    #[inline(never)]
    fn take_further(&mut self, want: &Want) -> Option<u64> {
        let (found, compared) = self.list.take_counting(want);
        self.searched(compared);
        found
    }

    /// The list was searched along `compared` entries; what was found is out of it already.
    #[inline(always)]
    fn searched(&mut self, compared: u32) {
        if compared > self.break_even {
            self.searched_long(compared);
        }
        self.list.lost_one();
    }
}

impl<B: Grows, C: Count> MatchEngine for Grown<B, C> {
    #[inline(always)]
    fn post(&mut self, want: Want, value: u64) -> ItemId {
        if !self.list.is_small() {
            return self.post_many(want, value);
        }
        self.post_plain(want, value)
    }

    #[inline(always)]
    fn arrive(&mut self, source: u32, tag: u64) -> Option<u64> {
        if !self.list.is_small() {
            return self.arrive_many(source, tag);
        }
        match self.list.arrive_first(source, tag) {
            None => self.arrive_further(source, tag),
            found => found,
        }
    }

    fn arrive_quietly(&mut self, source: u32, tag: u64) -> Option<u64> {
        let Some(index) = &mut self.index else { return self.list.arrive_quietly(source, tag) };
        let found = index.arrive_quietly(source, tag);
        self.ended |= found.is_some() && index.is_empty();
        found
    }

    #[inline(always)]
    fn add_unexpected(&mut self, source: u32, tag: u64, value: u64) {
        if !self.list.is_small() {
            return self.add_many(source, tag, value);
        }
        self.placed = self.placed.wrapping_add(1);
        self.list.add_unexpected(source, tag, value);
    }

    #[inline(always)]
    fn take_unexpected(&mut self, want: &Want) -> Option<u64> {
        if !self.list.is_small() {
            return self.take_many(want);
        }
        let (found, compared) = self.list.take_counting(want);
        if compared > self.break_even {
            self.searched_long(compared);
        }
        found
    }

    fn find_unexpected(&mut self, want: &Want) -> Option<u64> {
        if let Some(index) = &mut self.index {
            return index.find_unexpected(want);
        }
        let (found, compared) = self.list.find_counting(want);
        if compared > self.break_even {
            self.searched_long(compared);
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
            let found = self.list.remove_unexpected(source, tag, which);
            self.list.lost_one();
            return found;
        };
        let found = index.remove_unexpected(source, tag, which);
        self.took(found)
    }

    fn remove_posted(&mut self, item: ItemId, value: u64) -> bool {
        let Some(index) = &mut self.index else {
            let removed = self.list.remove_posted(item, value);
            self.list.lost_one();
            return removed;
        };
        let removed = index.remove_posted(item, value);
        self.took(removed.then_some(value)).is_some()
    }

    fn remove_posted_where(&mut self, which: &mut dyn FnMut(&Want) -> bool, out: &mut Vec<u64>) {
        let Some(index) = &mut self.index else {
            self.list.remove_posted_where(which, out);
            return self.list.lost_one();
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
        self.list.is_small() && self.list.is_empty()
    }

    fn unexpected_values(&self, out: &mut Vec<u64>) {
        match &self.index {
            Some(index) => index.unexpected_values(out),
            None => self.list.unexpected_values(out),
        }
    }
}
