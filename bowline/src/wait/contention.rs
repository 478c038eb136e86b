//! Whether yields of the processor pay. Between ranks that wait for each other a yield takes a
//! microsecond or some; where another program computes on the processor it takes the time slice that
//! the scheduler gives to that program, several milliseconds. A rank that sleeps is run soon after it
//! is woken, in front of such a program.
//!
//! ```text
//!              two yields of LONG or more, close together
//!   yielding ──────────────────────────────────────────────► sleeping until `resume`
//!      ▲                                                           │
//!      └─────────────────────── the time is over ──────────────────┘
//! ```
//! Rules. (1) Two long yields are close when they took a [`SHARE`] of the time from the begin of the first
//! to the end of the second, or more. One that comes alone costs less than sleeping would: it was given
//! to a program that computes now and then, or to another rank. A yield that went to ranks of the own job does not
//! count at all: they run because of what this rank waits for. (2) The first sleeping period is
//! [`TIMES`] as long as the second yield, so that what is lost to yields stays a small part. (3) A period
//! that begins soon after another one (in less time than that one had) is twice as long: where the other
//! program stays, two slices are lost per period. (4) A period later than that begins anew. (5) No period
//! is longer than [`LAST`]. (6) The clock is read around yields and while a period lasts, never by a wait
//! that finds its message while it spins.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A yield that takes as long was given to a program that computes. Above what a queue of a hundred
/// waiting ranks takes (some 0.6 us each), and below the slices of Linux, which end at ticks of 1 to 4 ms.
const LONG: Duration = Duration::from_micros(500);

/// The part of the time that two long yields must have taken, as its inverse.
const SHARE: u32 = 4;

/// How many times as long as a yield the period without yields is at first. Several ranks lose their
/// slices one after the other: of four, each of which waits for the one before, a quarter at first.
const TIMES: u32 = 16;

/// The longest. A rank comes back to yields within a second after the other program has ended.
const LAST: Duration = Duration::from_secs(1);

/// What a waiter knows about its yields.
#[derive(Debug, Default)]
pub(super) struct Contention {
    /// Begin and end of the last long yield, unless a period has begun since.
    long: Option<(Instant, Instant)>,
    /// The end of the period without yields, if there is one.
    resume: Cell<Option<Instant>>,
    /// The last period and its end; kept when it is over, for rule 3.
    last: Option<(Duration, Instant)>,
}

impl Contention {
    /// Whether a wait may yield now.
    #[inline]
    pub(super) fn may_yield(&self, now: impl FnOnce() -> Instant) -> bool {
        match self.resume.get() {
            None => true,
            Some(resume) => self.is_over(resume, now()),
        }
    }

    #[cold]
    fn is_over(&self, resume: Instant, now: Instant) -> bool {
        let over = now >= resume;
        if over {
            self.resume.set(None);
        }
        over
    }

    /// A yield lasted from `begin` to `end`. Whether it went to ranks of the own job is asked where it was long.
    #[inline]
    pub(super) fn yielded(
        &mut self,
        begin: Instant,
        end: Instant,
        to_own_job: impl FnOnce() -> bool,
    ) {
        if end.saturating_duration_since(begin) >= LONG && !to_own_job() {
            self.long(begin, end);
        }
    }

    #[cold]
    fn long(&mut self, begin: Instant, end: Instant) {
        // Rule 1.
        let close = |(first, until): (Instant, Instant)| {
            end - first <= ((until - first) + (end - begin)).saturating_mul(SHARE)
        };
        if !self.long.is_some_and(close) {
            self.long = Some((begin, end));
            return;
        }
        self.long = None;
        let first = (end - begin).saturating_mul(TIMES);
        let period = match self.last {
            // Rule 3.
            Some((period, over)) if begin.saturating_duration_since(over) < period => {
                first.max(period * 2)
            }
            // Rules 2 and 4.
            _ => first,
        };
        // Rule 5.
        let period = period.min(LAST);
        let resume = end + period;
        self.last = Some((period, resume));
        self.resume.set(Some(resume));
    }
}

#[cfg(test)]
mod tests;
