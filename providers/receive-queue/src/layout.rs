//! What stands where in the memory that a lane shows to its peers.
//!
//! ```text
//!   0          the queue            see `bowline_base::scmp::counted` and
//!                                   `bowline_base::scmp::checksummed`; or one ring for each sender,
//!                                   see `bowline_base::scmp::counted::remote_ring`
//!   then       rings                for those who send most, in that form
//!   then       numbers taken        one word, alone in its line; peers fetch-and-add it
//!              words of links       two for each of the first links of ours: the status, read by its peer (see
//!                                   `settle`), and the route, written by it (see `route`)
//!              directory            where the extents of introductions are (see `extents`)
//!              introductions        one record for each of the first senders, written by it
//! ```
//!
//! Its size depends on slots and rings alone, not on the number of peers. What further links and senders need
//! is in extents, which are made when they come.

use bowline_base::scmp::{MAX_SLOTS, MIN_SLOTS, counted};
use bowline_base::sync::LINE;

use super::options::QueueForm;

/// Bytes of an introduction.
pub(super) const RECORD_BYTES: usize = 384;

/// Most senders: the source of a slot has 16 bits.
pub(super) const MAX_PEERS: u32 = 1 << 16;

/// Bytes of an entry of the directory.
pub(super) const ENTRY_BYTES: usize = 256;

/// Two words for each link of ours.
pub(super) const WORDS: Places = Places { first: 64, bytes: 16 };

/// The introductions of senders.
pub(super) const RECORDS: Places = Places { first: 16, bytes: RECORD_BYTES };

/// Things of one size that are numbered: the first ones in the lane's own memory, the others in extents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    first: u32,
    bytes: usize,
}

/// Where one of them is, in bytes from the start of all that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Own(usize),
    Extent { number: usize, at: usize },
}

impl Places {
    /// Where `number` is.
    pub(super) const fn place(self, number: u32) -> Place {
        if number < self.first {
            return Place::Own(number as usize * self.bytes);
        }
        let extent = (number / self.first).ilog2();
        let at = (number - (self.first << extent)) as usize * self.bytes;
        Place::Extent { number: extent as usize, at }
    }

    /// Bytes of an extent.
    pub(super) const fn extent_bytes(self, extent: usize) -> usize {
        (self.first as usize * self.bytes) << extent
    }

    /// Bytes of those in the lane's own memory.
    const fn own_bytes(self) -> usize {
        self.first as usize * self.bytes
    }

    /// Extents of as many as there can be.
    const fn extents(self) -> usize {
        (MAX_PEERS / self.first).ilog2() as usize
    }
}

/// Sizes of a lane's memory; they travel in its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// How senders share it.
    pub(super) form: QueueForm,
    /// Slots of each half of the queue, or of each ring.
    pub(super) slots: u32,
    /// Most senders.
    pub(super) peers: u32,
    /// Rings for those who send most; 0 in other forms.
    pub(super) rings: u32,
}

/// Most such rings.
pub(super) const MAX_RINGS: u32 = 1024;

impl Shape {
    /// Whether such a lane can be.
    pub(super) fn is_possible(self) -> bool {
        let slots = self.slots.is_power_of_two() && (MIN_SLOTS..=MAX_SLOTS).contains(&self.slots);
        let most = if self.promotes() { 1..=MAX_RINGS } else { 0..=0 };
        slots && (1..=MAX_PEERS).contains(&self.peers) && most.contains(&self.rings)
    }

    /// Whether those who send most get rings.
    pub(super) const fn promotes(self) -> bool {
        matches!(self.form, QueueForm::ScmpRings)
    }

    /// Bytes of the queue itself, which is in front of all rings.
    pub(super) const fn queue_bytes(self) -> usize {
        match self.form {
            QueueForm::Scmp | QueueForm::ScmpRings | QueueForm::ScmpSeq => {
                counted::bytes_for(self.slots)
            }
            QueueForm::Ring => 0,
        }
    }

    /// Where a ring is; where each sender has one, its number is that of the sender.
    pub(super) const fn ring_at(self, number: u32) -> usize {
        self.queue_bytes() + number as usize * counted::remote_ring::bytes_for(self.slots)
    }

    /// Where the word is from which peers take their numbers.
    pub(super) const fn numbers_at(self) -> usize {
        match self.form {
            QueueForm::Ring => self.ring_at(self.peers),
            _ => self.ring_at(self.rings),
        }
    }

    /// Where the words of the first links are.
    pub(super) const fn words_at(self) -> usize {
        self.numbers_at() + LINE
    }

    /// Where the directory has `extent`.
    pub(super) const fn directory_at(self, extent: usize) -> usize {
        self.words_at() + WORDS.own_bytes() + extent * ENTRY_BYTES
    }

    /// Where the introductions of the first senders are.
    pub(super) const fn records_at(self) -> usize {
        self.directory_at(RECORDS.extents())
    }

    /// All memory that peers reach, when so many have sent messages and been connected to.
    pub(super) fn bytes_with(self, peers: u32) -> usize {
        let extents = |places: Places| -> usize {
            let made = match places.place(peers.min(self.peers).max(1) - 1) {
                Place::Own(_) => 0,
                Place::Extent { number, .. } => number + 1,
            };
            (0..made).map(|extent| places.extent_bytes(extent)).sum()
        };
        self.bytes() + extents(WORDS) + extents(RECORDS)
    }

    /// The lane's own memory.
    pub(super) const fn bytes(self) -> usize {
        self.records_at() + RECORDS.own_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number has a place of its own, within the extents that there can be.
    #[test]
    fn places_do_not_overlap() {
        for places in [WORDS, RECORDS] {
            let mut last = None;
            for number in 0..MAX_PEERS {
                let place = places.place(number);
                let (extent, at) = match place {
                    Place::Own(at) => {
                        assert!(at + places.bytes <= places.own_bytes());
                        (0, at)
                    }
                    Place::Extent { number, at } => {
                        assert!(at + places.bytes <= places.extent_bytes(number));
                        assert!(number < places.extents());
                        (number + 1, at)
                    }
                };
                let behind = last.is_none_or(|(before, end)| {
                    before == extent && at == end || before + 1 == extent && at == 0
                });
                assert!(behind, "{number}: {place:?} behind {last:?}");
                last = Some((extent, at + places.bytes));
            }
        }
    }

    /// The lane's own memory is the same for any number of peers, and is small beside the queue.
    #[test]
    fn memory_does_not_grow_with_peers_that_might_come() {
        let of = |peers| Shape { form: QueueForm::Scmp, slots: 512, peers, rings: 0 }.bytes();
        assert_eq!(of(1), of(MAX_PEERS));
        let beside = of(1) - counted::bytes_for(512);
        assert!(beside < 11_000, "{beside} bytes beside the queue");
    }
}
