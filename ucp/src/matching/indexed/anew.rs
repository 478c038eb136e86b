//! What concerns all entries at once: to take them over from a list, to enter them into a larger
//! index, to number them anew.

use super::super::count::Count;
use super::super::grown::{Entries, Grows};
use super::super::pool::Fifo;
use super::super::{MatchEngine as _, Want};
use super::{Class, Index, Indexed, Leaf};

impl<I: Index, C: Count> Grows for Indexed<I, C> {
    fn looks(&self) -> u32 {
        I::LOOKS
    }

    fn helps(&self) -> fn(&Want) -> bool {
        |want| I::class(want) != Class::Wild
    }

    fn take_over(&mut self, entries: Entries) {
        debug_assert!(self.is_empty(), "only an empty engine takes over");
        let Entries { pool, mut posted, mut unexpected } = entries;
        self.pool = pool;
        let (receives, messages) = (self.pool.walk(posted), self.pool.walk(unexpected));
        let entries = receives.count() + messages.count();
        self.index.grow(entries, &mut self.count);
        for index in self.pool.take_all(&mut posted) {
            let want = self.pool.get(index).want;
            self.enter_posted(index, &want);
        }
        for index in self.pool.take_all(&mut unexpected) {
            let Want { source, tag, .. } = self.pool.get(index).want;
            self.enter_unexpected(index, source, tag);
        }
    }

    fn give_up(&mut self) -> Entries {
        debug_assert!(self.is_empty(), "only an empty engine gives up");
        self.drop_chains();
        let pool = std::mem::take(&mut self.pool);
        Entries { pool, posted: Fifo::EMPTY, unexpected: Fifo::EMPTY }
    }
}

impl<I: Index, C: Count> Indexed<I, C> {
    /// The entries of one list of each leaf with their sequence numbers, oldest first.
    pub(super) fn entries(&self, which: impl Fn(&Leaf) -> Fifo) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        self.index.each(&mut |leaf| {
            let list = self.pool.walk(which(self.index.leaf(leaf)));
            all.extend(list.map(|(index, item)| (item.sequence, index)));
        });
        all.sort_unstable();
        all
    }

    /// All posted receives with their sequence numbers, oldest first.
    pub(super) fn receives(&self) -> Vec<(u32, u32)> {
        let mut all = self.entries(|leaf| leaf.posted);
        all.extend(self.pool.walk(self.wild).map(|(index, item)| (item.sequence, index)));
        all.sort_unstable();
        all
    }

    /// Numbers all entries anew, from 0 on, in the order that they have. The pool holds no
    /// more than a quarter of the numbers, so that there is room for long afterwards.
    #[cold]
    #[inline(never)]
    pub(super) fn renumber(&mut self) {
        let mut all = self.receives();
        all.extend(self.entries(|leaf| leaf.unexpected));
        all.sort_unstable();
        self.next = 0;
        for (_, index) in all {
            self.pool.number(index, self.next);
            self.next += 1;
        }
    }

    /// Lets the index make room, and enters everything anew.
    #[cold]
    #[inline(never)]
    pub(super) fn enter_all_anew(&mut self) {
        let mut lists = Vec::new();
        self.index.each(&mut |leaf| {
            let lists_of_leaf = *self.index.leaf(leaf);
            if !lists_of_leaf.is_empty() {
                lists.push(lists_of_leaf);
            }
        });
        self.index.grow(2 * (self.posted + self.unexpected), &mut self.count);
        self.spot.key = None;
        for Leaf { mut posted, mut unexpected } in lists {
            for index in self.pool.take_all(&mut posted) {
                let key = Self::key(&self.pool.get(index).want);
                let (source, tag) = key.expect("a receive that was in a leaf has a key");
                let leaf = self.leaf_for(source, tag);
                self.pool.append(&mut self.index.leaf_mut(leaf).posted, index);
            }
            for index in self.pool.take_all(&mut unexpected) {
                let want = self.pool.get(index).want;
                let leaf = self.leaf_for(want.source, want.tag);
                self.pool.append(&mut self.index.leaf_mut(leaf).unexpected, index);
            }
        }
    }
}
