//! How long something that is dropped goes on with work that it has accepted: the rounds in which an
//! interface brings out its last messages. First rounds follow each other at once, then each gives the
//! processor away, then each sleeps. A device that has lost a packet takes a while to send it again, and a
//! peer may wait for a processor.
//!
//! What a round does is the caller's. The time is bounded by rounds in which nothing leaves, not by a
//! clock, so that simulated runs repeat.
#![cfg(not(bowline_loom))]

use std::time::Duration;

use crate::doorbell::{Doorbell, Sleep};

/// Rounds in which nothing leaves: those at once, those with a yield, those with a sleep. On a machine with
/// other work a yield takes a time slice of everybody else, some milliseconds: it is for the few rounds in which
/// somebody beside finishes what it does.
const SPINS: u32 = 200;
const YIELDS: u32 = 200;
const SLEEPS: u32 = 2000;

const SLEEP: Duration = Duration::from_millis(1);

/// The rounds of one drop.
#[derive(Debug, Default)]
pub struct Drain {
    /// Rounds in a row in which nothing has left.
    idle: u32,
    /// What the thread sleeps on; nobody rings it.
    sleeper: Option<Doorbell>,
}

impl Drain {
    /// Waits after a round, in which something `has_left` or not, and says whether there is to be
    /// another. If not, messages are lost, and a warning has said so.
    pub fn goes_on(&mut self, has_left: bool) -> bool {
        self.idle = if has_left { 0 } else { self.idle + 1 };
        if self.idle > SPINS + YIELDS + SLEEPS {
            tracing::warn!(
                "messages for a peer that takes none are given up; flush what was sent (in ucp by \
                 `Worker::drain`) before the drop"
            );
            return false;
        }
        if self.idle > SPINS + YIELDS {
            let sleeper = self.sleeper.get_or_insert_with(Doorbell::private);
            sleeper.arm(Sleep::Futex);
            let _ = sleeper.wait(Some(SLEEP));
            sleeper.disarm();
        } else if self.idle > SPINS {
            crate::sync::yield_now();
        }
        true
    }
}
