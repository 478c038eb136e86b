//! A queue that is *closed* stays closed. Its owner hands out nothing more and reports to its user the end
//! of every peer. Senders find the mark in R when they next reserve or poll, those with a ring in its head:
//!
//! ```text
//!   R of a closed queue   63 .. 32 any | 31 = 1 closed | 30: 0 it was damaged, 1 nobody empties it | rest any
//! ```
//!
//! The processor writes the mark. Where atomics are the device's, one that is under way may put its own
//! result over it, so the owner checks in every round whether it is still there.

use bowline_base::scmp::seq::POISON;
use bowline_uct::PeerFailure;

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
    /// What is reported of each peer.
    pub(super) const fn failure(self) -> PeerFailure {
        match self {
            Self::Damaged => PeerFailure::Damaged,
            Self::Unflippable(_) => PeerFailure::Unreachable,
        }
    }

    pub(super) const fn mark(self) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_read_what_the_owner_wrote_whatever_they_have_added() {
        for why in [Closed::Damaged, Closed::Unflippable(PeerFailure::Died)] {
            for added in [0, 1, 1 << 26] {
                let word = 7 << 32 | (why.mark() + added);
                assert_eq!(closed_by(word), Some(why.failure()), "{why} + {added}");
            }
        }
        for open in [0, 3 << 32, 3 << 32 | 0xffff, u64::MAX << 32 | 1 << 20] {
            assert_eq!(closed_by(open), None, "{open:x}");
        }
    }
}
