//! What concerns all entries at once: to take them over from a list, to number them anew, to give
//! memory back when none waits.

use super::super::count::{Count, QueueKind};
use super::super::grown::{Entries, Grows};
use super::super::pool::{END, Fifo};
use super::super::{MatchEngine as _, Want};
use super::{Class, Index, Indexed};

impl<I: Index, C: Count> Grows for Indexed<I, C> {
    fn break_even(&self) -> u32 {
        I::BREAK_EVEN
    }

    fn helps(&self) -> fn(&Want) -> bool {
        |want| I::class(want) != Class::Wild
    }

    fn take_over(&mut self, entries: Entries) {
        debug_assert!(self.is_empty(), "only an empty engine takes over");
        self.pool = entries.pool;
        self.index.begin(&mut self.pool);
        let mut next = entries.posted.head;
        while next != END {
            let index = next;
            next = self.pool.next(index);
            let want = Self::stored(self.pool.get(index).want());
            self.pool.name(index, want.source, want.tag);
            let sequence = self.next_number();
            self.pool.number(index, sequence, false);
            self.enter_posted(index, &want);
        }
        let mut next = entries.unexpected.head;
        while next != END {
            let index = next;
            next = self.pool.next(index);
            let Want { source, tag, .. } = self.pool.get(index).want();
            let sequence = self.next_number();
            self.pool.number(index, sequence, true);
            self.enter_unexpected(index, source, tag);
        }
    }

    fn give_up(&mut self) -> Entries {
        debug_assert!(self.is_empty(), "only an empty engine gives up");
        self.drop_chains();
        let pool = std::mem::take(&mut self.pool);
        Entries { pool, posted: Fifo::EMPTY, unexpected: Fifo::EMPTY }
    }

    fn emptied(&mut self) {
        debug_assert!(self.is_empty(), "nothing waits");
        if self.pool.is_large() {
            self.drop_chains();
            self.pool.shrink();
        }
        self.spot.key = None;
        self.index.emptied(&mut self.count);
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        self.pool.len()
    }
}

impl<I: Index, C: Count> Indexed<I, C> {
    /// The entries of a queue that are in leaves, with their sequence numbers, oldest first.
    pub(super) fn entries(&self, queue: QueueKind) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        self.index.each(&self.pool, queue, &mut |last| {
            let ring = self.pool.ring(last);
            let of_queue =
                ring.filter(|(_, item)| item.is_message() == (queue == QueueKind::Unexpected));
            all.extend(of_queue.map(|(index, item)| (item.sequence(), index)));
        });
        all.sort_unstable();
        all
    }

    /// All posted receives with their sequence numbers, oldest first.
    pub(super) fn receives(&self) -> Vec<(u32, u32)> {
        let mut all = self.entries(QueueKind::Posted);
        all.extend(self.pool.ring(self.wild).map(|(index, item)| (item.sequence(), index)));
        all.sort_unstable();
        all
    }

    /// Numbers all entries anew, from 0 on, in the order that they have. The pool holds no
    /// more than a quarter of the numbers, so that there is space for long afterwards.
    #[cold]
    #[inline(never)]
    pub(super) fn renumber(&mut self) {
        let mut all = self.receives();
        all.extend(self.entries(QueueKind::Unexpected));
        all.sort_unstable();
        self.next = 0;
        for (_, index) in all {
            let message = self.pool.get(index).is_message();
            self.pool.number(index, self.next, message);
            self.next += 1;
        }
    }
}
