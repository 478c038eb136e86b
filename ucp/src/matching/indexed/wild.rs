//! Entries of several leaves: messages for a receive that fits many, and receives that are not in
//! an arrival's own leaf.

use super::super::Want;
use super::super::chains::{Chains, Part};
use super::super::count::Count;
use super::super::pool::Fifo;
use super::{ANY_SOURCE, ANY_TAG, Hit, Index, Indexed};

/// What entering a message into chains costs, in messages looked at.
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
            let (found, looks) = self.chains[at].search(&self.pool, want);
            self.count.visit(looks);
            if self.chains[at].crowded() {
                self.chain_up(part);
            }
            return found;
        }
        let all = match self.chains_by(Part::Nothing) {
            Some(at) => at,
            None => self.chain_up(Part::Nothing),
        };
        let (found, looks) = self.chains[all].search(&self.pool, want);
        self.count.visit(looks);
        if part != Part::Nothing {
            self.long += u64::from(looks);
            if self.long > LONG * self.unexpected as u64 + LONG {
                self.long = 0;
                self.chain_up(part);
            }
        }
        found
    }

    /// Builds the chains of a part, with room for twice as many messages as there are, and says
    /// which they are.
    #[cold]
    #[inline(never)]
    fn chain_up(&mut self, part: Part) -> usize {
        if let Some(at) = self.chains_by(part) {
            self.count.freed(self.chains.swap_remove(at).bytes());
        }
        let mut chains = Chains::new(part, 2 * self.unexpected);
        for (_, index) in self.entries(|leaf| leaf.unexpected) {
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
        index.each(&mut |leaf| {
            let (found, looks) =
                pool.search(index.leaf(leaf).unexpected, |e| want.fits(e.want.source, e.want.tag));
            count.visit(1 + looks);
            if let Some(found) = found {
                let sequence = pool.get(found.index).sequence;
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
        let mut look = |leaf: Option<u32>, list: Fifo, count: &mut C| {
            let (found, looks) = pool.search(list, |e| e.want.fits(source, tag));
            count.visit(looks);
            if let Some(found) = found {
                let sequence = pool.get(found.index).sequence;
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
                look(Some(leaf), index.leaf(leaf).posted, count);
            }
        }
        look(None, self.wild, count);
        best
    }
}
