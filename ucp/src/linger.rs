//! The last moments of a lane that is dropped while accepted messages have not left: it makes
//! progress for them, first at once, then letting others have the processor, then with naps. A
//! device that has lost a packet takes a while to send it again, and a peer may wait for a processor.
//!
//! The time is bounded, by rounds rather than by a clock, so that simulated runs repeat. Who cannot
//! have it bounded waits for [`Worker::drain`](crate::Worker::drain) first.

use std::time::Duration;

use bowline_base::doorbell::{Doorbell, Sleep};

/// Rounds in which nothing leaves: those at once, those with a yield, those with a nap.
const SPINS: u32 = 200;
const YIELDS: u32 = 20_000;
const NAPS: u32 = 2000;

const NAP: Duration = Duration::from_millis(1);

/// How long nothing has left.
#[derive(Debug, Default)]
pub(crate) struct Linger {
    idle: u32,
    bed: Option<Doorbell>,
}

impl Linger {
    /// Passes the time after a round, in which something has left or not. `false` when it is time to
    /// give up.
    pub(crate) fn goes_on(&mut self, left: bool) -> bool {
        self.idle = if left { 0 } else { self.idle + 1 };
        if self.idle > SPINS + YIELDS + NAPS {
            tracing::warn!(
                "messages for a peer that takes none are given up; call `Worker::drain` before a \
                 worker is dropped"
            );
            return false;
        }
        if self.idle > SPINS + YIELDS {
            let bed = self.bed.get_or_insert_with(Doorbell::private);
            bed.arm(Sleep::Futex);
            let _ = bed.wait(Some(NAP));
            bed.disarm();
        } else if self.idle > SPINS {
            bowline_base::sync::yield_now();
        }
        true
    }
}
