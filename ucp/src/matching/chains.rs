//! Messages by a part of their key, in order of arrival: what a receive that fits several leaves
//! searches in place of them.
//!
//! Most programs never have such receives among many messages. The first one of them lets all
//! messages be chained up, from the oldest to the newest; chains by tag or by source are built
//! when searches along that one have cost as much. Chains that exist are kept up. Those whose keys
//! fall on the same place of the table share it.
//!
//! A chain is known by its oldest message, whose link names the newest one. So chains take eight bytes
//! for each entry, and those by tag or source four to eight more for each message when they are built.

use super::Want;
use super::index::HashIndex;
use super::pool::{END, EntryPool, Item};

/// The part of a message's key that chains go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// No part of it: one chain of all messages.
    Nothing,
    Tag,
    Source,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    /// The next older message; for the oldest of a chain, the newest one.
    older: u32,
    /// The next newer message, or [`END`].
    newer: u32,
}

/// The chains of one part.
#[derive(Debug)]
pub(super) struct Chains {
    part: Part,
    /// The oldest message of each chain.
    table: Vec<u32>,
    /// By the entry's number.
    links: Vec<Link>,
    messages: usize,
}

impl Chains {
    /// No chain, for `messages` messages among `entries` entries.
    pub(super) fn new(part: Part, messages: usize, entries: usize) -> Self {
        let chains = match part {
            Part::Nothing => 1,
            Part::Tag | Part::Source => messages.max(64).next_power_of_two(),
        };
        let links = vec![Link { older: END, newer: END }; entries];
        Self { part, table: vec![END; chains], links, messages: 0 }
    }

    #[inline(always)]
    fn place(&self, source: u32, tag: u64) -> usize {
        let hash = match self.part {
            Part::Nothing => 0,
            Part::Tag => HashIndex::hash(0, tag),
            Part::Source => HashIndex::hash(source, 0),
        };
        hash as usize & (self.table.len() - 1)
    }

    /// Appends a message.
    #[inline]
    pub(super) fn append(&mut self, index: u32, item: &Item) {
        let place = self.place(item.source, item.tag);
        let at = index as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, Link { older: END, newer: END });
        }
        let oldest = self.table[place];
        if oldest == END {
            self.table[place] = index;
            self.links[at] = Link { older: index, newer: END };
        } else {
            let newest = std::mem::replace(&mut self.links[oldest as usize].older, index);
            self.links[newest as usize].newer = index;
            self.links[at] = Link { older: newest, newer: END };
        }
        self.messages += 1;
    }

    /// Takes a message out.
    #[inline]
    pub(super) fn remove(&mut self, index: u32, item: &Item) {
        let place = self.place(item.source, item.tag);
        let Link { older, newer } = self.links[index as usize];
        if self.table[place] == index {
            self.table[place] = newer;
        } else {
            self.links[older as usize].newer = newer;
        }
        // Of the newest one, it is the oldest that names the one before it.
        let names_older = if newer == END { self.table[place] } else { newer };
        if names_older != END {
            self.links[names_older as usize].older = older;
        }
        self.messages -= 1;
    }

    /// The oldest message that fits, and how many were compared.
    #[inline]
    pub(super) fn search(&self, pool: &EntryPool, want: &Want) -> (Option<u32>, u32) {
        let (mut index, mut compared) = (self.table[self.place(want.source, want.tag)], 0);
        while index != END {
            compared += 1;
            let item = pool.get(index);
            if want.fits(item.source, item.tag) {
                return (Some(index), compared);
            }
            index = self.links[index as usize].newer;
        }
        (None, compared)
    }

    /// Whether there are more messages than chains are meant for.
    #[inline(always)]
    pub(super) fn crowded(&self) -> bool {
        self.part != Part::Nothing && self.messages > 2 * self.table.len()
    }

    /// The part that it goes by.
    pub(super) const fn part(&self) -> Part {
        self.part
    }

    /// Bytes of the table and of the links.
    pub(super) const fn bytes(&self) -> usize {
        self.table.capacity() * size_of::<u32>() + self.links.capacity() * size_of::<Link>()
    }
}
