//! What ends a link or the whole queue: damage of a slot, for its source; damage of the queue's own words,
//! or a queue that cannot be flipped any more, for everybody.
//!
//! A queue that is *closed* is so for good. Its owner hands out nothing more and tells its user of the end
//! of every peer. Senders find the mark in R when they next reserve or look, those with a ring in its head:
//!
//! ```text
//!   R of a closed queue   63 .. 32 any | 31 = 1 closed | 30: 0 it was damaged, 1 nobody empties it | rest any
//! ```
//!
//! The processor writes the mark. Where atomics are the device's, one that is under way may put its own
//! result over it, so the owner looks in every round whether it is still there.

use bowline_base::scmp;
use bowline_base::scmp::published::{R_BYTE, solo};
use bowline_base::scmp::seq::POISON;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::PeerFailure;

use super::lane::LaneCore;
use super::link::Seat;

/// In R, beside [`POISON`]: the queue is sound, and nobody empties it any more.
const ABANDONED: u32 = 1 << 30;

/// Why the owner of a queue does not hand anything out any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// Its words were damaged.
    Damaged,
    /// Its connection to itself, by which it is flipped, has failed in this way.
    Unflippable(PeerFailure),
}

impl Closed {
    /// What the user is told of each peer.
    pub(super) const fn told(self) -> PeerFailure {
        match self {
            Self::Damaged => PeerFailure::Damaged,
            Self::Unflippable(_) => PeerFailure::Unreachable,
        }
    }

    const fn mark(self) -> u64 {
        match self {
            Self::Damaged => POISON as u64,
            Self::Unflippable(_) => (POISON | ABANDONED) as u64,
        }
    }
}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged => f.write_str("its words were damaged"),
            Self::Unflippable(how) => {
                write!(f, "the connection to its own device, which empties it, has failed: {how}")
            }
        }
    }
}

/// What R says to a sender, if the queue is closed.
pub(super) const fn closed_by(word: u64) -> Option<PeerFailure> {
    let low = word as u32;
    match (low & POISON != 0, low & ABANDONED != 0) {
        (false, _) => None,
        (true, false) => Some(PeerFailure::Damaged),
        (true, true) => Some(PeerFailure::Unreachable),
    }
}

impl LaneCore {
    /// Messages of nobody known were dropped.
    pub(super) fn count_strangers(&mut self, strangers: u64) {
        if strangers > 0 {
            self.stats.strangers += strangers;
            tracing::warn!(strangers, "messages of nobody known in the receive queue; dropped");
        }
    }

    /// A slot was damaged: the one whose source it names is not believed any more.
    #[cold]
    pub(super) fn distrust(&mut self, source: u16) {
        let Some(seat) = self.seats.get_mut(usize::from(source)) else { return };
        let link = std::mem::replace(seat, Seat::EMPTY).link;
        if link != Seat::NOBODY {
            self.break_link(link, PeerFailure::Damaged);
        }
    }

    /// The queue's own words were damaged, which anybody may have done.
    #[cold]
    pub(super) fn poison(&mut self, damage: scmp::Damage) {
        if self.closed.is_none() {
            tracing::warn!(%damage, "the receive queue is damaged and closed");
            self.close(Closed::Damaged);
        }
    }

    /// The queue cannot be flipped any more, or it is not known whether the last flip has happened: what
    /// its senders reserve is never read.
    #[cold]
    pub(super) fn lose_flips(&mut self, how: PeerFailure) {
        if self.closed.is_none() {
            tracing::error!(
                %how,
                "the connection of a receive queue to its own device has failed; the queue is closed"
            );
            self.close(Closed::Unflippable(how));
        }
    }

    fn close(&mut self, why: Closed) {
        self.closed = Some(why);
        self.mark_closed();
        for ring in 0..self.shape.rings as usize {
            solo::close(&self.ring_words(ring));
        }
        for index in 0..self.links.len() as u32 {
            let link = &self.links[index as usize];
            if link.introduced || link.open && self.own_link != Some(index) {
                self.break_link(index, why.told());
            }
        }
    }

    /// Writes the mark into R, unless it is there.
    pub(super) fn mark_closed(&self) {
        let Some(why) = self.closed else { return };
        let word = self.inner.mem_view(self.memory).and_then(|view| view.word(R_BYTE));
        // Relaxed, both: the mark publishes nothing but itself, and who finds it puts no slot.
        if let Some(word) = word.filter(|word| closed_by(word.load(Ordering::Relaxed)).is_none()) {
            word.store(why.mark(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_read_what_the_owner_wrote_whatever_they_have_added() {
        for why in [Closed::Damaged, Closed::Unflippable(PeerFailure::Died)] {
            for added in [0, 1, 1 << 26] {
                let word = 7 << 32 | (why.mark() + added);
                assert_eq!(closed_by(word), Some(why.told()), "{why} + {added}");
            }
        }
        for open in [0, 3 << 32, 3 << 32 | 0xffff, u64::MAX << 32 | 1 << 20] {
            assert_eq!(closed_by(open), None, "{open:x}");
        }
    }
}
