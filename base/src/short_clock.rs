//! A clock for times of microseconds, which costs a third of the system's where the processor counts time.
//!
//! It reads the processor's counter (`rdtsc`), if the processor says that this runs at one rate and never stops, and the kernel
//! takes its own time from it, which it does only where all processors agree. How fast it counts is found out by
//! comparison with the system's clock, which serves until then: no time is spent on it. The rate is exact to some millionths, so that this is no
//! clock for hours; nor for other threads, of which each has its own.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Instant;

/// How long the counter is compared with the system's clock.
const COMPARED: u64 = 20_000_000;

/// The clock. It counts from its making on.
#[derive(Debug)]
pub struct ShortClock {
    begin: Instant,
    counter: Option<Counter>,
}

/// The processor's counter, as far as it is known.
#[derive(Debug)]
struct Counter {
    /// What it showed at the clock's making.
    first: u64,
    rate: Cell<Option<Rate>>,
}

/// What the counter's readings mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    /// A reading, and the nanoseconds at it.
    reading: u64,
    nanoseconds: u64,
    /// Nanoseconds in 2^32 steps.
    per_steps: u64,
}

impl Rate {
    /// From what it showed at time 0 and later; `None` if it did not move, or less than once in four seconds.
    fn of(first: u64, reading: u64, nanoseconds: u64) -> Option<Self> {
        let steps = u128::from(reading.checked_sub(first).filter(|&steps| steps > 0)?);
        let per_steps = u64::try_from((u128::from(nanoseconds) << 32) / steps).ok()?;
        Some(Self { reading, nanoseconds, per_steps })
    }

    #[inline]
    fn at(self, reading: u64) -> u64 {
        let steps = u128::from(reading.saturating_sub(self.reading));
        // Steps of 64 bits times a rate of 64 bits, of which the upper 96 are kept: what is cut off would be centuries.
        self.nanoseconds.saturating_add(((steps * u128::from(self.per_steps)) >> 32) as u64)
    }
}

impl Default for ShortClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ShortClock {
    /// A clock at 0.
    pub fn new() -> Self {
        let (first, begin) = together();
        let counter = is_trusted().then(|| Counter { first, rate: Cell::new(None) });
        Self { begin, counter }
    }

    /// Nanoseconds since its making; never less than before.
    #[inline]
    pub fn nanoseconds(&self) -> u64 {
        match self.counter.as_ref().and_then(|counter| counter.rate.get()) {
            Some(rate) => rate.at(read()),
            None => self.compare(),
        }
    }

    /// Asks the system, and compares.
    #[cold]
    fn compare(&self) -> u64 {
        let since = |now: Instant| {
            u64::try_from(now.duration_since(self.begin).as_nanos()).unwrap_or(u64::MAX)
        };
        let Some(counter) = &self.counter else { return since(Instant::now()) };
        let (reading, now) = together();
        let nanoseconds = since(now);
        if nanoseconds >= COMPARED {
            counter.rate.set(Rate::of(counter.first, reading, nanoseconds));
        }
        nanoseconds
    }
}

/// The counter and the system's clock at one moment: of some pairs the one that took least. The counter is read first, so that what it
/// shows later means no earlier time.
fn together() -> (u64, Instant) {
    let mut best = (u64::MAX, 0, None);
    for _ in 0..4 {
        let (before, now) = (read(), Instant::now());
        let took = read().saturating_sub(before);
        if best.2.is_none() || took < best.0 {
            best = (took, before, Some(now));
        }
    }
    (best.1, best.2.unwrap_or_else(Instant::now))
}

/// Whether the counter counts time.
fn is_trusted() -> bool {
    static TRUSTED: OnceLock<bool> = OnceLock::new();
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let kernel = || std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc");
    *TRUSTED.get_or_init(|| is_invariant() && kernel())
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod counter {
    use core::arch::x86_64::{__cpuid, _rdtsc};

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every processor of this architecture has the instruction, and Linux lets programs use it unless
        // they have asked for the opposite by prctl, which then ends them.
        unsafe { _rdtsc() }
    }

    /// Whether it runs at one rate and never stops.
    pub(super) fn is_invariant() -> bool {
        const POWER: u32 = 0x8000_0007;
        const INVARIANT: u32 = 1 << 8;
        __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod counter {
    /// There is none.
    pub(super) const fn read() -> u64 {
        0
    }

    pub(super) const fn is_invariant() -> bool {
        false
    }
}

use counter::{is_invariant, read};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_nanoseconds() {
        // 2.5 steps in a nanosecond, from 1000 on.
        let rate = Rate::of(1000, 1000 + 2_500_000, 1_000_000).expect("it moves");
        let at = |reading| rate.at(reading);
        assert_eq!(at(1000 + 2_500_000), 1_000_000);
        // Two fifths are not a binary fraction: less than a nanosecond is lost.
        assert!((1_999_999..=2_000_000).contains(&at(1000 + 5_000_000)));
        assert_eq!(at(0), 1_000_000, "a reading of before is no earlier time");
        assert!(at(u64::MAX) >= 7_000_000_000_000_000_000);
        assert_eq!(Rate::of(1000, 1000, 7), None, "it stands");
        assert_eq!(Rate::of(1000, 999, 7), None, "it goes back");
        let one = Rate::of(0, 1, u64::MAX);
        assert_eq!(one, None, "it hardly moves");
    }

    #[test]
    fn it_never_goes_back_also_when_it_changes_to_the_counter() {
        let clock = ShortClock::new();
        let mut before = 0;
        while before < 3 * COMPARED {
            let now = clock.nanoseconds();
            assert!(now >= before, "{now} after {before}");
            before = now;
        }
        let compared = clock.counter.as_ref().is_none_or(|counter| counter.rate.get().is_some());
        assert!(compared, "the counter has been compared by now");
    }
}
