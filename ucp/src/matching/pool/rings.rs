//! Rings: the lists of an index. A ring is known by its last entry, whose next is the first one; [`END`]
//! is an empty ring.

use super::{END, EntryPool, Item};

/// An entry that a search of a ring found, the one before it, and the ring's last one.
#[derive(Clone, Copy, Debug)]
pub(in crate::matching) struct InRing {
    pub(in crate::matching) before: u32,
    pub(in crate::matching) index: u32,
    pub(in crate::matching) last: u32,
}

impl EntryPool {
    /// The first entry of a ring for which `fits` says so, and how many were compared.
    #[inline(always)]
    pub(in crate::matching) fn search_ring(
        &self,
        last: u32,
        mut fits: impl FnMut(&Item) -> bool,
    ) -> (Option<InRing>, u32) {
        // Of an empty ring this is no entry: there are fewer than `END`.
        let Some(item) = self.items.get(last as usize) else { return (None, 0) };
        let (mut before, mut compared, mut index) = (last, 0, item.next);
        if index == last {
            // The processor need not know the first entry to read this one.
            let found =
                if fits(item) { Some(InRing { before: last, index: last, last }) } else { None };
            return (found, 1);
        }
        loop {
            compared += 1;
            let item = &self.items[index as usize];
            if fits(item) {
                return (Some(InRing { before, index, last }), compared);
            }
            if index == last {
                return (None, compared);
            }
            before = index;
            index = item.next;
        }
    }

    /// Appends an entry, which is the last one from now on.
    #[inline(always)]
    pub(in crate::matching) fn append_ring(&mut self, last: u32, index: u32) {
        // Of an empty ring this is no entry: there are fewer than `END`.
        let first = match self.items.get_mut(last as usize) {
            Some(item) => std::mem::replace(&mut item.next, index),
            None => index,
        };
        self.items[index as usize].next = first;
    }

    /// Takes an entry out of the ring in which it was found, and returns the ring's last entry.
    #[inline(always)]
    pub(in crate::matching) fn unlink_ring(&mut self, found: InRing) -> u32 {
        let InRing { before, index, last } = found;
        if before == index {
            return END;
        }
        self.items[before as usize].next = self.items[index as usize].next;
        if last == index { before } else { last }
    }

    /// The entry `index` in a ring, if it is in it.
    pub(in crate::matching) fn find_in_ring(&self, last: u32, index: u32) -> Option<InRing> {
        let mut before = last;
        loop {
            let next = self.items.get(before as usize)?.next;
            if next == index {
                return Some(InRing { before, index, last });
            }
            if next == last {
                return None;
            }
            before = next;
        }
    }

    /// The entries of a ring, in order.
    pub(in crate::matching) fn ring(&self, last: u32) -> impl Iterator<Item = (u32, &Item)> {
        let mut before = Some(last);
        std::iter::from_fn(move || {
            let index = self.items.get(before? as usize)?.next;
            before = if index == last { None } else { Some(index) };
            Some((index, self.get(index)))
        })
    }

    /// What follows an entry.
    pub(in crate::matching) fn next(&self, index: u32) -> u32 {
        self.items[index as usize].next
    }

    /// Writes the source and the tag by which an entry is found.
    pub(in crate::matching) fn name(&mut self, index: u32, source: u32, tag: u64) {
        let item = &mut self.items[index as usize];
        (item.source, item.tag) = (source, tag);
    }

    /// A ring of a hash.
    #[inline(always)]
    pub(in crate::matching) fn slot(&self, slot: u32) -> u32 {
        self.items[slot as usize].slot
    }

    /// The same, to be written.
    #[inline(always)]
    pub(in crate::matching) fn set_slot(&mut self, slot: u32, last: u32) {
        self.items[slot as usize].slot = last;
    }
}
