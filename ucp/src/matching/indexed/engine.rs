//! What an engine over an index does: the trait's operations, in terms of one leaf each.

use super::super::count::{Count, QueueKind};
use super::super::pool::END;
use super::super::{ItemId, MatchEngine, Want};
use super::{Class, Hit, Index, Indexed, Spot};

const fn exactly(source: u32, tag: u64) -> Want {
    Want { source, source_mask: u32::MAX, tag, tag_mask: u64::MAX }
}

impl<I: Index, C: Count> MatchEngine for Indexed<I, C> {
    #[inline]
    fn post(&mut self, want: Want, value: u64) -> ItemId {
        let index = self.place(Self::stored(want), value, false);
        self.enter_posted(index, &want);
        self.index.grow(&mut self.pool);
        ItemId(index)
    }

    #[inline]
    fn arrive(&mut self, source: u32, tag: u64) -> Option<u64> {
        // One for the engine itself, which is found by its space.
        self.count.visit(1);
        let mut path = I::Path::default();
        let leaf = self.index.find(source, tag, &mut path, &mut self.count);
        let mut hit = None;
        if let Some(leaf) = leaf {
            let last = self.index.ring(&self.pool, leaf, QueueKind::Posted);
            let (found, compared) = self.pool.search_ring(last, |e| e.fits_indexed(source, tag));
            self.count.visit(compared);
            hit = found.map(|found| {
                let sequence = self.pool.get(found.index).sequence();
                Hit { sequence, leaf: Some(leaf), found }
            });
        }
        if self.by_tag | self.by_source != 0 || self.wild != END {
            hit = self.older_elsewhere(source, tag, hit);
        }
        self.count.searched(QueueKind::Posted, self.posted);
        let Some(Hit { leaf: of, found, .. }) = hit else {
            self.spot = Spot { key: Some((source, tag)), leaf, path };
            return None;
        };
        Some(self.take_receive(of, &path, found))
    }

    fn arrive_quietly(&mut self, source: u32, tag: u64) -> Option<u64> {
        // A search allocates nothing, and `Index::release` nothing either.
        self.arrive(source, tag)
    }

    #[inline]
    fn add_unexpected(&mut self, source: u32, tag: u64, value: u64) {
        let index = self.place(exactly(source, tag), value, true);
        self.enter_unexpected(index, source, tag);
        self.index.grow(&mut self.pool);
    }

    #[inline]
    fn take_unexpected(&mut self, want: &Want) -> Option<u64> {
        self.count.visit(1);
        if I::class(want) != Class::Exact {
            let found = if self.unexpected == 0 { None } else { self.oldest_anywhere(want) };
            self.count.searched(QueueKind::Unexpected, self.unexpected);
            return found.map(|index| self.take_arrived(index));
        }
        let mut path = I::Path::default();
        let leaf = self.index.find(want.source, want.tag, &mut path, &mut self.count);
        let mut hit = None;
        if let Some(leaf) = leaf {
            let last = self.index.ring(&self.pool, leaf, QueueKind::Unexpected);
            let (found, compared) = self.pool.search_ring(last, |e| want.fits(e.source, e.tag));
            self.count.visit(compared);
            hit = found.map(|found| (leaf, found));
        }
        self.count.searched(QueueKind::Unexpected, self.unexpected);
        if let Some((leaf, found)) = hit {
            return Some(self.take_message(leaf, &path, found));
        }
        self.spot = Spot { key: Some((want.source, want.tag)), leaf, path };
        None
    }

    fn find_unexpected(&mut self, want: &Want) -> Option<u64> {
        self.count.visit(1);
        let mut found = None;
        if self.unexpected == 0 {
        } else if I::class(want) != Class::Exact {
            found = self.oldest_anywhere(want).map(|index| self.pool.get(index).value);
        } else {
            let mut path = I::Path::default();
            if let Some(leaf) = self.index.find(want.source, want.tag, &mut path, &mut self.count) {
                let last = self.index.ring(&self.pool, leaf, QueueKind::Unexpected);
                let (hit, compared) = self.pool.search_ring(last, |e| want.fits(e.source, e.tag));
                self.count.visit(compared);
                found = hit.map(|hit| self.pool.get(hit.index).value);
            }
        }
        self.count.searched(QueueKind::Unexpected, self.unexpected);
        found
    }

    fn remove_unexpected(
        &mut self,
        source: u32,
        tag: u64,
        which: &mut dyn FnMut(u64) -> bool,
    ) -> Option<u64> {
        self.count.visit(1);
        let mut path = I::Path::default();
        let leaf = self.index.find(source, tag, &mut path, &mut self.count);
        let mut hit = None;
        if let Some(leaf) = leaf {
            let last = self.index.ring(&self.pool, leaf, QueueKind::Unexpected);
            let (found, compared) = self
                .pool
                .search_ring(last, |e| e.source == source && e.tag == tag && which(e.value));
            self.count.visit(compared);
            hit = found.map(|found| (leaf, found));
        }
        self.count.searched(QueueKind::Unexpected, self.unexpected);
        hit.map(|(leaf, found)| self.take_message(leaf, &path, found))
    }

    fn remove_posted(&mut self, item: ItemId, value: u64) -> bool {
        self.count.visit(1);
        let removed = self.pool.entry(item.0).is_some_and(|entry| entry.value == value)
            && self.withdraw(item.0);
        self.count.searched(QueueKind::Posted, self.posted);
        removed
    }

    fn remove_posted_where(&mut self, which: &mut dyn FnMut(&Want) -> bool, out: &mut Vec<u64>) {
        let mut gone = self.receives();
        gone.retain(|&(_, index)| which(&self.pool.get(index).want()));
        for (_, index) in gone {
            out.push(self.pool.get(index).value);
            let removed = self.withdraw(index);
            debug_assert!(removed, "a receive that was found is there");
        }
    }

    #[inline]
    fn unexpected_len(&self) -> usize {
        self.unexpected
    }

    #[inline]
    fn posted_len(&self) -> usize {
        self.posted
    }

    fn unexpected_values(&self, out: &mut Vec<u64>) {
        let all = self.entries(QueueKind::Unexpected);
        out.extend(all.into_iter().map(|(_, index)| self.pool.get(index).value));
    }
}
