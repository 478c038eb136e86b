//! The list engine: two linked lists searched from the oldest entry. It is the reference that
//! other engines are compared with, and the fastest one while searches are short.

use super::count::{Count, Off, QueueKind};
use super::grown::Entries;
use super::pool::{EntryPool, Fifo, Found, Item};
use super::{ItemId, MatchEngine, Want};

#[derive(Clone, Copy, Debug)]
struct Queue {
    list: Fifo,
    len: u32,
}

impl Queue {
    const EMPTY: Self = Self { list: Fifo::EMPTY, len: 0 };
}

/// Two lists over one pool of entries.
#[derive(Debug)]
pub struct ListEngine<C: Count = Off> {
    pool: EntryPool,
    posted: Queue,
    unexpected: Queue,
    count: C,
}

impl<C: Count> Default for ListEngine<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Count> ListEngine<C> {
    /// An empty engine.
    pub fn new() -> Self {
        Self {
            pool: EntryPool::default(),
            posted: Queue::EMPTY,
            unexpected: Queue::EMPTY,
            count: C::default(),
        }
    }

    /// What was counted.
    pub fn counted(&self) -> &C {
        &self.count
    }

    /// How many posted receives are as `which` says.
    pub(super) fn posted_that(&self, which: fn(&Want) -> bool) -> usize {
        self.pool.walk(self.posted.list).filter(|(_, item)| which(&item.want())).count()
    }

    /// Gives all entries away.
    pub(super) fn hand_over(&mut self) -> Entries {
        let posted = std::mem::replace(&mut self.posted, Queue::EMPTY).list;
        let unexpected = std::mem::replace(&mut self.unexpected, Queue::EMPTY).list;
        Entries { pool: std::mem::replace(&mut self.pool, EntryPool::away()), posted, unexpected }
    }

    /// Takes a pool without entries in use; the engine is empty.
    pub(super) fn adopt(&mut self, entries: Entries) {
        debug_assert!(entries.posted.is_empty() && entries.unexpected.is_empty(), "none in use");
        self.pool = entries.pool;
    }

    #[inline(always)]
    fn search(
        pool: &EntryPool,
        queue: &Queue,
        count: &mut C,
        kind: QueueKind,
        fits: impl FnMut(&Item) -> bool,
    ) -> (Option<Found>, u32) {
        let (found, compared) = pool.search(queue.list, fits);
        // The first entry hangs on the queue itself, whose pointer is not counted, as published.
        count.visit(compared.saturating_sub(1));
        count.searched(kind, queue.len as usize);
        (found, compared)
    }

    /// [`MatchEngine::arrive`] where the oldest receive fits; `None` says nothing of the others.
    #[inline(always)]
    pub(super) fn arrive_first(&mut self, source: u32, tag: u64) -> Option<u64> {
        let Self { pool, posted, count, .. } = self;
        let value = pool.take_first(&mut posted.list, |e| e.fits(source, tag))?;
        count.searched(QueueKind::Posted, posted.len as usize);
        posted.len -= 1;
        Some(value)
    }

    /// [`MatchEngine::arrive`], and how many receives were compared.
    #[inline(always)]
    pub(super) fn arrive_counting(&mut self, source: u32, tag: u64) -> (Option<u64>, u32) {
        let Self { pool, posted, count, .. } = self;
        let fits = |e: &Item| e.fits(source, tag);
        let (found, compared) = Self::search(pool, posted, count, QueueKind::Posted, fits);
        (found.map(|found| Self::take(pool, posted, found)), compared)
    }

    /// [`MatchEngine::take_unexpected`], and how many messages were compared.
    #[inline(always)]
    pub(super) fn take_counting(&mut self, want: &Want) -> (Option<u64>, u32) {
        let Self { pool, unexpected, count, .. } = self;
        let fits = |e: &Item| want.fits(e.source, e.tag);
        let (found, compared) = Self::search(pool, unexpected, count, QueueKind::Unexpected, fits);
        (found.map(|found| Self::take(pool, unexpected, found)), compared)
    }

    /// [`MatchEngine::find_unexpected`], and how many messages were compared.
    pub(super) fn find_counting(&mut self, want: &Want) -> (Option<u64>, u32) {
        let Self { pool, unexpected, count, .. } = self;
        let fits = |e: &Item| want.fits(e.source, e.tag);
        let (found, compared) = Self::search(pool, unexpected, count, QueueKind::Unexpected, fits);
        (found.map(|found| pool.get(found.index).value), compared)
    }

    /// Entries for which there is memory.
    #[cfg(test)]
    pub(super) const fn held(&self) -> usize {
        self.pool.len()
    }

    /// What a [`Grown`](super::Grown) has whose entries are in its index.
    pub(super) fn away() -> Self {
        Self { pool: EntryPool::away(), ..Self::new() }
    }

    /// Whether the entries are here, and no more than an engine keeps in which nothing waits.
    #[inline(always)]
    pub(super) const fn is_small(&self) -> bool {
        self.pool.is_small()
    }

    /// An entry may have been taken out: gives the memory of many entries back, if none waits.
    pub(super) fn lost_one(&mut self) {
        if self.posted.len | self.unexpected.len == 0 && self.pool.is_large() {
            self.pool.shrink();
        }
    }

    #[inline(always)]
    fn take(pool: &mut EntryPool, queue: &mut Queue, found: Found) -> u64 {
        pool.unlink(&mut queue.list, found);
        queue.len -= 1;
        pool.free(found.index)
    }
}

const fn exactly(source: u32, tag: u64) -> Want {
    Want { source, source_mask: u32::MAX, tag, tag_mask: u64::MAX }
}

impl<C: Count> MatchEngine for ListEngine<C> {
    #[inline(always)]
    fn post(&mut self, want: Want, value: u64) -> ItemId {
        let index = self.pool.place(want, value);
        self.pool.append(&mut self.posted.list, index);
        self.posted.len += 1;
        ItemId(index)
    }

    #[inline(always)]
    fn arrive(&mut self, source: u32, tag: u64) -> Option<u64> {
        self.arrive_counting(source, tag).0
    }

    fn arrive_quietly(&mut self, source: u32, tag: u64) -> Option<u64> {
        self.arrive_counting(source, tag).0
    }

    #[inline(always)]
    fn add_unexpected(&mut self, source: u32, tag: u64, value: u64) {
        let index = self.pool.place(exactly(source, tag), value);
        self.pool.append(&mut self.unexpected.list, index);
        self.unexpected.len += 1;
    }

    #[inline(always)]
    fn take_unexpected(&mut self, want: &Want) -> Option<u64> {
        self.take_counting(want).0
    }

    fn find_unexpected(&mut self, want: &Want) -> Option<u64> {
        self.find_counting(want).0
    }

    fn remove_unexpected(
        &mut self,
        source: u32,
        tag: u64,
        which: &mut dyn FnMut(u64) -> bool,
    ) -> Option<u64> {
        let Self { pool, unexpected, count, .. } = self;
        let is_it = |e: &Item| e.source == source && e.tag == tag && which(e.value);
        let (found, _) = Self::search(pool, unexpected, count, QueueKind::Unexpected, is_it);
        found.map(|found| Self::take(pool, unexpected, found))
    }

    fn remove_posted(&mut self, item: ItemId, value: u64) -> bool {
        let Self { pool, posted, count, .. } = self;
        // An entry of this number and value waits here, unless the number means another one now.
        if pool.entry(item.0).is_none_or(|entry| entry.value != value) {
            return false;
        }
        let is_it = |e: &Item| e.value == value;
        let (found, _) = Self::search(pool, posted, count, QueueKind::Posted, is_it);
        found.map(|found| Self::take(pool, posted, found)).is_some()
    }

    fn remove_posted_where(&mut self, which: &mut dyn FnMut(&Want) -> bool, out: &mut Vec<u64>) {
        let Self { pool, posted, .. } = self;
        let gone: Vec<u32> = pool
            .walk(posted.list)
            .filter(|(_, item)| which(&item.want()))
            .map(|(index, _)| index)
            .collect();
        for index in gone {
            let removed = pool.unlink_index(&mut posted.list, index);
            debug_assert!(removed, "a receive that was found is there");
            posted.len -= 1;
            out.push(pool.free(index));
        }
    }

    #[inline(always)]
    fn unexpected_len(&self) -> usize {
        self.unexpected.len as usize
    }

    #[inline(always)]
    fn posted_len(&self) -> usize {
        self.posted.len as usize
    }

    fn unexpected_values(&self, out: &mut Vec<u64>) {
        out.extend(self.pool.walk(self.unexpected.list).map(|(_, item)| item.value));
    }
}
