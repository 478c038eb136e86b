//! Entries of several leaves: messages for a receive that fits many, and receives that are not in
//! an arrival's own leaf.

use super::super::Want;
use super::super::chains::{Chains, Part};
use super::super::count::{Count, QueueKind};
use super::super::pool::Item;
use super::{ANY_SOURCE, ANY_TAG, Hit, Index, Indexed};

/// What entering a message into chains costs, in messages compared.
const LONG: u64 = 8;

impl<I: Index, C: Count> Indexed<I, C> {
    /// The part of the key that a receive names.
    fn part(want: &Want) -> Part {
        match (want.source_mask != 0, want.tag_mask == u64::MAX) {
            (false, true) => Part::Tag,
            (true, false) => Part::Source,
            _ => Part::Nothing,
        }
    }

    /// The place among the chains of those for a part.
    fn chains_by(&self, part: Part) -> Option<usize> {
        self.chains.iter().position(|chains| chains.part() == part)
    }

    /// The oldest message that fits, along a chain.
    fn oldest_in_chain(&mut self, want: &Want) -> Option<u32> {
        let part = Self::part(want);
        if let Some(at) = self.chains_by(part) {
            let (found, compared) = self.chains[at].search(&self.pool, want);
            self.count.visit(compared);
            if self.chains[at].crowded() {
                self.chain_up(part);
            }
            return found;
        }
        let all = match self.chains_by(Part::Nothing) {
            Some(at) => at,
            None => self.chain_up(Part::Nothing),
        };
        let (found, compared) = self.chains[all].search(&self.pool, want);
        self.count.visit(compared);
        if part != Part::Nothing {
            self.long += u64::from(compared);
            if self.long > LONG * self.unexpected as u64 + LONG {
                self.long = 0;
                self.chain_up(part);
            }
        }
        found
    }

    /// Builds the chains of a part for the messages that there are, and says which they are. They are built
    /// anew when they have become crowded.
    #[cold]
    #[inline(never)]
    fn chain_up(&mut self, part: Part) -> usize {
        if let Some(at) = self.chains_by(part) {
            self.count.freed(self.chains.swap_remove(at).bytes());
        }
        let mut chains = Chains::new(part, self.unexpected, self.pool.len());
        for (_, index) in self.entries(QueueKind::Unexpected) {
            chains.append(index, self.pool.get(index));
        }
        self.count.allocated(chains.bytes());
        self.chains.push(chains);
        self.chains.len() - 1
    }

    /// Forgets the chains.
    pub(super) fn drop_chains(&mut self) {
        for chains in self.chains.drain(..) {
            self.count.freed(chains.bytes());
        }
        self.long = 0;
    }

    /// The oldest message that fits a receive which several leaves may serve.
    pub(super) fn oldest_anywhere(&mut self, want: &Want) -> Option<u32> {
        if I::CHAINS {
            return self.oldest_in_chain(want);
        }
        let Self { pool, index, count, .. } = self;
        let mut oldest: Option<(u32, u32)> = None;
        index.each(pool, QueueKind::Unexpected, &mut |last| {
            let (found, compared) = pool.search_ring(last, |e| want.fits(e.source, e.tag));
            count.visit(1 + compared);
            if let Some(found) = found {
                let sequence = pool.get(found.index).sequence();
                if oldest.is_none_or(|(least, _)| sequence < least) {
                    oldest = Some((sequence, found.index));
                }
            }
        });
        oldest.map(|(_, index)| index)
    }

    /// An older receive than `best` among those that are not in an arrival's own leaf.
    #[inline(never)]
    pub(super) fn older_elsewhere(
        &mut self,
        source: u32,
        tag: u64,
        best: Option<Hit>,
    ) -> Option<Hit> {
        let Self { pool, index, count, .. } = self;
        let mut best = best;
        let mut search = |leaf: Option<u32>, last: u32, count: &mut C| {
            let is_it = |e: &Item| !e.is_message() && e.fits_indexed(source, tag);
            let (found, compared) = pool.search_ring(last, is_it);
            count.visit(compared);
            if let Some(found) = found {
                let sequence = pool.get(found.index).sequence();
                if best.is_none_or(|best| sequence < best.sequence) {
                    best = Some(Hit { sequence, leaf, found });
                }
            }
        };
        let mut path = I::Path::default();
        let keys = [(self.by_tag, ANY_SOURCE, tag), (self.by_source, source, ANY_TAG)];
        for (receives, source, tag) in keys {
            if receives != 0
                && let Some(leaf) = index.find(source, tag, &mut path, count)
            {
                search(Some(leaf), index.ring(pool, leaf, QueueKind::Posted), count);
            }
        }
        search(None, self.wild, count);
        best
    }
}
