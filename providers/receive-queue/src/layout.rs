//! What stands where in the memory that a lane shows to its peers.
//!
//! ```text
//!   0          the queue            see `bowline_base::scmp::counted` and
//!                                   `bowline_base::scmp::checksummed`; or one ring for each sender,
//!                                   see `bowline_base::scmp::counted::remote_ring`
//!   then       rings                for those who send most, in that form
//!   then       numbers taken        one word, alone in its line; peers fetch-and-add it
//!              status words         one for each link of ours, read by its peer (see `settle`)
//!              route words          one for each link of ours, written by its peer (see `route`)
//!              introductions        one record for each sender, written by it
//! ```
//!
//! Its size depends on the settings alone, not on the number of peers that come.

use bowline_base::scmp::{MAX_SLOTS, MIN_SLOTS, counted};
use bowline_base::sync::LINE;

use super::options::QueueForm;

/// Bytes of an introduction.
pub(super) const RECORD_BYTES: usize = 320;

/// Most senders: the source of a slot has 16 bits.
pub(super) const MAX_PEERS: u32 = 1 << 15;

/// Sizes of a lane's memory; they travel in its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// How senders share it.
    pub(super) form: QueueForm,
    /// Slots of each half of the queue, or of each ring.
    pub(super) slots: u32,
    /// Senders, and status words.
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

    pub(super) const fn status_at(self, link: u32) -> usize {
        self.numbers_at() + LINE + link as usize * 8
    }

    pub(super) const fn route_at(self, link: u32) -> usize {
        self.status_at(0) + (self.peers as usize * 8).next_multiple_of(LINE) + link as usize * 8
    }

    /// Where the introduction of `sender` is.
    pub(super) const fn record_at(self, sender: u32) -> usize {
        let routes = if self.promotes() { self.peers as usize * 8 } else { 0 };
        self.route_at(0) + routes.next_multiple_of(LINE) + sender as usize * RECORD_BYTES
    }

    pub(super) const fn bytes(self) -> usize {
        self.record_at(self.peers)
    }
}
