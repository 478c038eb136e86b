//! How much a test does on a machine that has other work, where each time that a thread waits for another
//! takes a time slice of everybody. No test asserts a time: these decide how often something is repeated,
//! and when the processor is given away.

use std::time::{Duration, Instant};

/// How many messages are enough: `most`, or after some time `least`, by when a busy machine has stopped the
/// threads in the midst of more messages than an idle one does of all.
pub(super) struct Effort {
    least: u64,
    most: u64,
    start: Instant,
}

impl Effort {
    const LONG: Duration = Duration::from_secs(1);

    pub(super) fn new(least: u64, most: u64) -> Self {
        Self { least, most, start: Instant::now() }
    }

    /// Whether there is to be another one after `done`.
    pub(super) fn goes_on(&self, done: u64) -> bool {
        done < self.least || done < self.most && self.start.elapsed() < Self::LONG
    }
}

/// Rounds in a row in which nothing happened. Somebody may need the processor for something to happen, so
/// that it is given away now and then; not in each of them, since on a machine with other work that takes a
/// time slice of everybody else.
#[derive(Debug, Default)]
pub(super) struct Idle(u32);

impl Idle {
    /// Idle rounds for each that gives the processor away.
    const ROUNDS: u32 = 16;

    /// A round has brought so many events.
    pub(super) fn after(&mut self, events: u32) {
        self.0 = if events == 0 { self.0.wrapping_add(1) } else { 0 };
        if events == 0 && self.0.is_multiple_of(Self::ROUNDS) {
            std::thread::yield_now();
        }
    }
}
