//! The receive-from-any table (RFA) of a worker: which entries are enabled at whom, whose flags are raised, and the
//! receives that are posted where there are entries. Plain data.

use std::collections::{HashMap, VecDeque};

use bowline_base::slab::Key;

use super::FlagMessage;
use super::held::ENTRIES;
use crate::engine::life::Keeps;
use crate::matching::{Envelope, Want};
use crate::peer::PeerIndex;

/// Posted receives of a space, in their order. Those that have left stay until somebody goes through.
pub(super) type Posted = Vec<(Want, Key)>;

/// A flag that is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raised {
    pub(super) peer: PeerIndex,
    /// Of the message that has raised it.
    pub(super) source: u32,
    pub(super) tag: u64,
}

/// An entry: receives from any source in a space, of a tag.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) space: u32,
    pub(super) tag: u64,
    pub(super) mask: u64,
    /// Where it is enabled.
    pub(super) enabled: Vec<PeerIndex>,
    /// In the order in which they were raised.
    pub(super) raised: VecDeque<Raised>,
}

/// The table, and what is kept beside it.
#[derive(Debug, Default)]
pub(crate) struct FlagTable {
    /// Oldest first.
    pub(super) entries: VecDeque<Entry>,
    next: u64,
    pub(super) posted: HashMap<u32, Posted>,
    /// What receivers have said to this worker as a sender, in its order.
    pub(super) asked: VecDeque<(PeerIndex, Envelope, FlagMessage)>,
}

impl Keeps for FlagTable {
    fn peers(&self, _: &dyn Fn(PeerIndex) -> bool) -> Vec<PeerIndex> {
        self.asked.iter().map(|&(peer, ..)| peer).collect()
    }

    fn forget(&mut self, peer: PeerIndex) {
        for entry in &mut self.entries {
            entry.drop_peer(peer);
        }
    }
}

impl Entry {
    pub(super) fn drop_peer(&mut self, peer: PeerIndex) {
        self.enabled.retain(|&other| other != peer);
        self.raised.retain(|raised| raised.peer != peer);
    }

    /// Notes a flag. Whether it was not raised before, for this message.
    fn raise(&mut self, raised: Raised) -> bool {
        if !self.enabled.contains(&raised.peer) {
            return false;
        }
        match self.raised.iter_mut().find(|other| other.peer == raised.peer) {
            Some(other) => std::mem::replace(other, raised) != raised,
            None => {
                self.raised.push_back(raised);
                true
            }
        }
    }
}

impl FlagTable {
    /// The entry for receives of a tag in a space, and the one that was given up for it.
    pub(super) fn entry(&mut self, space: u32, tag: u64, mask: u64) -> (&mut Entry, Option<Entry>) {
        let same = |one: &Entry| (one.space, one.tag, one.mask) == (space, tag, mask);
        let mut evicted = None;
        let at = match self.entries.iter().position(same) {
            Some(at) => at,
            None => {
                if self.entries.len() >= ENTRIES {
                    evicted = self.entries.pop_front();
                }
                let (enabled, raised) = (Vec::new(), VecDeque::new());
                let id = self.next;
                self.next += 1;
                self.entries.push_back(Entry { id, space, tag, mask, enabled, raised });
                self.entries.len() - 1
            }
        };
        (&mut self.entries[at], evicted)
    }

    /// A flag of an entry is raised. Whether it was not before; one of an entry that was given up means nothing.
    pub(super) fn raise(&mut self, id: u64, raised: Raised) -> bool {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id);
        entry.is_some_and(|entry| entry.raise(raised))
    }

    /// The raised flag with this number among all, the entry that it is of, and that one's space.
    pub(super) fn nth_raised(&self, at: usize) -> Option<(u64, u32, Raised)> {
        let of = |entry: &Entry| entry.raised.len();
        let mut before = 0;
        let entry = self.entries.iter().find(|entry| {
            before += of(entry);
            at < before
        })?;
        let raised = entry.raised.get(at - (before - of(entry)))?;
        Some((entry.id, entry.space, *raised))
    }

    /// The first raised flag of a space whose message fits, and its entry.
    pub(super) fn first_raised(&self, space: u32, want: &Want) -> Option<(u64, Raised)> {
        let of_space = self.entries.iter().filter(|entry| entry.space == space);
        let mut raised = of_space.flat_map(|entry| entry.raised.iter().map(|one| (entry.id, *one)));
        raised.find(|(_, raised)| want.fits(raised.source, raised.tag))
    }

    /// Takes the entries of a space out.
    pub(super) fn remove_space(&mut self, space: u32) -> Vec<Entry> {
        self.posted.remove(&space);
        let (gone, left) = std::mem::take(&mut self.entries)
            .into_iter()
            .partition::<VecDeque<_>, _>(|entry| entry.space == space);
        self.entries = left;
        gone.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn raised(peer: PeerIndex) -> Raised {
        Raised { peer, source: peer, tag: 5 }
    }

    #[test]
    fn a_full_table_gives_its_oldest_entry_up() {
        let mut table = FlagTable::default();
        for tag in 0..ENTRIES as u64 {
            let (entry, evicted) = table.entry(1, tag, u64::MAX);
            assert_eq!((entry.id, evicted.is_some()), (tag, false));
        }
        assert_eq!(table.entry(1, 3, u64::MAX).0.id, 3, "an entry outlives its receive");
        let (entry, evicted) = table.entry(2, 3, u64::MAX);
        assert_eq!((entry.id, evicted.map(|one| one.id)), (ENTRIES as u64, Some(0)));
        assert_eq!(table.entries.len(), ENTRIES);
        assert_eq!(table.remove_space(1).len(), ENTRIES - 1);
        assert_eq!(table.entries.len(), 1);
    }

    #[test]
    fn flags_are_raised_once_by_those_who_were_asked() {
        let mut table = FlagTable::default();
        let (entry, _) = table.entry(1, 5, u64::MAX);
        entry.enabled = vec![0, 1];
        assert!(table.raise(0, raised(1)) && table.raise(0, raised(0)));
        assert!(!table.raise(0, raised(1)), "twice");
        assert!(table.raise(0, Raised { tag: 6, ..raised(1) }), "for another message");
        assert!(!table.raise(0, raised(2)), "it was not asked");
        assert!(!table.raise(9, raised(1)), "the entry is gone");
        let order: Vec<_> = table.entries[0].raised.iter().map(|raised| raised.peer).collect();
        assert_eq!(order, [1, 0]);
        table.forget(1);
        assert_eq!(table.entries[0].enabled, [0]);
        assert_eq!(table.entries[0].raised.len(), 1);
    }
}
