//! Sends that wait at their sender for a receive from any source, and the entries by which they do: the sender's
//! image (SRFA) of its peer's receive-from-any table. The rules are in [`crate::proto::any`]; this is plain data.

use std::collections::VecDeque;

use bowline_base::slab::Key;

use crate::matching::Envelope;

/// Most entries of one peer; a receiver's table has no more.
pub(crate) const ENTRIES: usize = 32;

/// An entry of the peer's table: messages that fit it wait here, and raise its flag there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enabled {
    /// The peer's name of it.
    pub(crate) entry: u64,
    pub(crate) space: u32,
    pub(crate) tag: u64,
    /// Bits of the tag that count.
    pub(crate) mask: u64,
    /// Shorter messages do not wait.
    pub(crate) least: u64,
    /// Its flag is raised for this tag: FLAG was posted, and the peer has not answered with RTR_ANY since.
    pub(crate) raised: Option<u64>,
}

impl Enabled {
    const fn fits(&self, envelope: &Envelope, length: u64) -> bool {
        self.space == envelope.space
            && (self.tag ^ envelope.tag) & self.mask == 0
            && length >= self.least
    }
}

/// A send that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) key: Key,
    pub(crate) envelope: Envelope,
    pub(crate) entry: u64,
}

/// The entries that a peer has enabled here, and the sends to it that wait.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    pub(crate) entries: Vec<Enabled>,
    /// In the order of the sends. One that was cancelled stays until somebody comes by.
    pub(crate) held: VecDeque<Held>,
    /// So many of the first ones go as any message does, as soon as the lane takes them.
    pub(crate) going: usize,
}

impl Flags {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), held: VecDeque::new(), going: 0 }
    }

    /// Whether messages to the peer have nothing to be compared with.
    pub(crate) fn is_idle(&self) -> bool {
        self.entries.is_empty() && self.held.is_empty()
    }

    /// The entry that a message fits.
    pub(crate) fn entry_for(&mut self, envelope: &Envelope, length: u64) -> Option<&mut Enabled> {
        self.entries.iter_mut().find(|entry| entry.fits(envelope, length))
    }

    /// Whether a message may pass: nothing waits, and it fits no entry.
    pub(crate) fn lets_pass(&self, envelope: &Envelope, length: u64) -> bool {
        self.held.is_empty() && !self.entries.iter().any(|entry| entry.fits(envelope, length))
    }

    /// Messages that were not posted and fit.
    pub(crate) fn waiting(&self, fits: impl Fn(&Envelope) -> bool) -> usize {
        self.held.iter().filter(|held| fits(&held.envelope)).count()
    }

    /// Whether a message with another envelope waits for an entry, of which only one tag is known to the peer.
    pub(crate) fn has_other(&self, entry: u64, envelope: &Envelope) -> bool {
        self.held.iter().any(|held| held.entry == entry && held.envelope != *envelope)
    }

    /// Where the first send of an entry waits that `lives`.
    pub(crate) fn first_of(&self, entry: u64, lives: impl Fn(Key) -> bool) -> Option<usize> {
        self.held.iter().position(|held| held.entry == entry && lives(held.key))
    }

    /// The peer has disabled an entry. What waits for it goes as any message does, and what is in front of that.
    pub(crate) fn disable(&mut self, entry: u64) {
        self.entries.retain(|enabled| enabled.entry != entry);
        let last = self.held.iter().rposition(|held| held.entry == entry);
        self.going = self.going.max(last.map_or(0, |at| at + 1));
    }

    /// Takes the first one that waits.
    pub(crate) fn pop(&mut self) {
        self.held.pop_front();
        self.going = self.going.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn envelope(tag: u64) -> Envelope {
        Envelope { space: 1, source: 2, tag }
    }

    fn flags() -> Flags {
        let entry =
            |entry, tag| Enabled { entry, space: 1, tag, mask: u64::MAX, least: 4, raised: None };
        Flags { entries: vec![entry(7, 5), entry(8, 6)], ..Flags::new() }
    }

    #[test]
    fn a_message_waits_for_an_entry_that_it_fits() {
        let mut flags = flags();
        assert_eq!(flags.entry_for(&envelope(6), 4).map(|one| one.entry), Some(8));
        assert_eq!(flags.entry_for(&envelope(6), 3), None, "too short");
        assert_eq!(flags.entry_for(&envelope(9), 4), None, "another tag");
        assert_eq!(flags.entry_for(&Envelope { space: 2, ..envelope(6) }, 4), None);
        assert!(flags.lets_pass(&envelope(9), 4) && !flags.lets_pass(&envelope(5), 4));
        flags.held.push_back(Held { key: Key::from_wire(1), envelope: envelope(5), entry: 7 });
        assert!(!flags.lets_pass(&envelope(9), 4), "it would overtake one that waits");
    }

    #[test]
    fn what_a_disabled_entry_holds_goes_with_all_in_front_of_it() {
        let mut flags = flags();
        for (key, tag, entry) in [(1, 6, 8), (2, 5, 7), (3, 6, 8), (4, 6, 8)] {
            let held = Held { key: Key::from_wire(key), envelope: envelope(tag), entry };
            flags.held.push_back(held);
        }
        assert_eq!(flags.first_of(8, |key| key != Key::from_wire(1)), Some(2));
        assert_eq!(flags.waiting(|envelope| envelope.tag == 6), 3);
        assert!(flags.has_other(7, &envelope(6)) && !flags.has_other(7, &envelope(5)));
        flags.disable(7);
        assert_eq!(flags.going, 2);
        flags.pop();
        assert_eq!((flags.going, flags.held.len()), (1, 3));
        flags.disable(8);
        assert_eq!(flags.going, 3);
        assert!(flags.entries.is_empty() && !flags.is_idle());
    }
}
