//! The rounds in which a worker asks after silent peers. The rules are in [`crate::keepalive`].

use std::time::Duration;

use crate::peer::PeerIndex;
use crate::wait::Clock;

/// A peer that is asked after.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) peer: PeerIndex,
    /// Its sequence number at the last round.
    pub(crate) heard: u32,
}

/// The rounds of a worker.
#[derive(Default)]
pub(crate) struct Rounds {
    pub(crate) clock: Option<Clock>,
    pub(crate) watched: Vec<Watched>,
    /// When the next round begins; none before the first peer.
    pub(crate) due: Option<Duration>,
    /// Where the round under way goes on.
    pub(crate) at: usize,
}

impl std::fmt::Debug for Rounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rounds").field("watched", &self.watched.len()).finish_non_exhaustive()
    }
}

impl Rounds {
    pub(crate) fn new(clock: Option<Clock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Nobody asks any more after those of whom `gone` says so.
    pub(crate) fn forget(&mut self, gone: impl Fn(PeerIndex) -> bool) {
        let (mut place, mut asked) = (0, 0);
        self.watched.retain(|watched| {
            let stays = !gone(watched.peer);
            asked += usize::from(stays && place < self.at);
            place += 1;
            stays
        });
        self.at = asked;
    }

    /// The time until something is to be done; `None` where that is never.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let (due, clock) = (self.due?, self.clock.as_ref()?);
        Some(due.saturating_sub(clock()))
    }
}
