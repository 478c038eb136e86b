//! What a rank did with its processor before it last gave it away, in one word of its control block.
//!
//! A rank whose yield took long has to know to whom the processor went: to a rank of its job that copied a long
//! message, or to a program of somebody else. Each rank notes its own long runs, so that the others of its processor
//! can read them. It is a hint: any process of the node can write the word, and nothing depends on it but when to sleep.
//!
//! Beside that word one says whether the rank has a processor now. Who waits for a rank that has one polls on for a
//! moment; who waits for another one yields at once.
//!
//! ```text
//!   bits from 0    38                                             16                 10
//!                  end, microseconds of CLOCK_MONOTONIC           length / 4 us      processor
//! ```
//! Zero is no run. The end wraps around after three days, and a length of more than a quarter of a second is taken for
//! that.

use std::time::Duration;

use super::JobMemory;
use crate::sync::atomic::Ordering;

const END_BITS: u32 = 38;
const LENGTH_BITS: u32 = 16;
const PROCESSOR_BITS: u32 = 10;
/// Microseconds in a unit of the length.
const UNIT: u64 = 4;

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// A time in which a rank computed on one processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the three fields of a word")]
pub struct LongRun {
    /// The number of the processor.
    pub processor: u32,
    /// When it ended, since the start of `CLOCK_MONOTONIC`.
    pub end: Duration,
    /// How long it was.
    pub length: Duration,
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl LongRun {
    fn pack(self) -> u64 {
        let length = (micros(self.length) / UNIT).min(mask(LENGTH_BITS));
        let processor = u64::from(self.processor) & mask(PROCESSOR_BITS);
        micros(self.end) & mask(END_BITS)
            | length << END_BITS
            | processor << (END_BITS + LENGTH_BITS)
    }

    /// How much of the time from `begin` to `end` a run took, which was on `processor`.
    fn share(word: u64, processor: u32, begin: u64, end: u64) -> u64 {
        let on = word >> (END_BITS + LENGTH_BITS);
        if word == 0 || on != u64::from(processor) & mask(PROCESSOR_BITS) {
            return 0;
        }
        let length = (word >> END_BITS & mask(LENGTH_BITS)) * UNIT;
        // Both ends in microseconds before `end`, modulo the wrap.
        let ago = end.wrapping_sub(word) & mask(END_BITS);
        let window = end.saturating_sub(begin);
        window.min(ago.saturating_add(length)).saturating_sub(ago)
    }
}

impl JobMemory {
    /// Notes that the rank with this local index has a processor again, or gives it away.
    #[inline]
    pub fn note_runs(&self, local: u32, runs: bool) {
        if let Some(control) = self.control(local) {
            // Relaxed: a hint, which publishes nothing.
            control.processor.runs.store(u32::from(runs), Ordering::Relaxed);
        }
    }

    /// Whether the rank with this local index has not given its processor away since it last got it. A rank that was
    /// preempted still says so.
    #[inline]
    pub fn runs(&self, local: u32) -> bool {
        // Relaxed: as the store.
        self.control(local)
            .is_some_and(|control| control.processor.runs.load(Ordering::Relaxed) == 1)
    }

    /// Notes a run of the rank with this local index.
    pub fn note_long_run(&self, local: u32, run: LongRun) {
        if let Some(control) = self.control(local) {
            // Relaxed: one word, which publishes nothing else.
            control.processor.long_run.store(run.pack(), Ordering::Relaxed);
        }
    }

    /// How much of the time from `begin` to `end`, since the start of `CLOCK_MONOTONIC`, other ranks than `local` took
    /// on a processor in their last long runs. At most that time for each of them.
    pub fn long_runs(
        &self,
        local: u32,
        processor: u32,
        begin: Duration,
        end: Duration,
    ) -> Duration {
        let (begin, end) = (micros(begin), micros(end));
        let others = (0..self.ranks()).filter(|&rank| rank != local);
        let taken = others.filter_map(|rank| self.control(rank)).map(|control| {
            // Relaxed: as the store.
            LongRun::share(
                control.processor.long_run.load(Ordering::Relaxed),
                processor,
                begin,
                end,
            )
        });
        Duration::from_micros(taken.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobSpec;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn job(ranks: u32) -> JobMemory {
        let spec = JobSpec { job_id: 1, ranks, first_rank: 0, area_bytes: 4096 };
        JobMemory::create_private(&spec).unwrap()
    }

    #[test]
    fn runs_of_others_on_the_same_processor_count_as_far_as_they_lie_in_the_time() {
        let job = job(4);
        let run = |processor, end, length| LongRun { processor, end: us(end), length: us(length) };
        let taken = |processor| job.long_runs(0, processor, us(10_000), us(12_000));
        assert_eq!(taken(3), us(0), "nobody has noted a run");
        job.note_long_run(0, run(3, 11_000, 1000));
        assert_eq!(taken(3), us(0), "the own run does not count");
        job.note_long_run(1, run(3, 10_400, 1000));
        assert_eq!(taken(3), us(400), "only what lies in the time");
        job.note_long_run(2, run(3, 11_600, 1200));
        assert_eq!(taken(3), us(1600));
        job.note_long_run(3, run(4, 11_600, 1200));
        assert_eq!((taken(3), taken(4), taken(5)), (us(1600), us(1200), us(0)));
        job.note_long_run(2, run(3, 9_999, 1200));
        assert_eq!(taken(3), us(400), "one that ended before");
        job.note_long_run(2, run(3, 12_500, 1200));
        assert_eq!(taken(3), us(400), "one that ended after, which has wrapped around");
        job.note_long_run(9, run(3, 11_600, 1200));
        assert_eq!(taken(3), us(400), "a rank that does not exist");
    }

    #[test]
    fn a_rank_runs_until_it_gives_its_processor_away() {
        let job = job(2);
        assert!(!job.runs(1), "it has said nothing yet");
        job.note_runs(1, true);
        assert!(job.runs(1) && !job.runs(0));
        job.note_runs(1, false);
        assert!(!job.runs(1) && !job.runs(2), "nor does a rank that does not exist");
    }

    #[test]
    fn any_word_is_a_run_within_the_time() {
        for word in [u64::MAX, 1, 1 << 63, 0x5555_5555_5555_5555] {
            for (begin, end) in [(0, 0), (5, 3), (0, 1 << 37), (u64::MAX - 5, u64::MAX)] {
                for processor in [0, 1023, u32::MAX] {
                    let share = LongRun::share(word, processor, begin, end);
                    assert!(share <= end.saturating_sub(begin));
                }
            }
        }
    }

    #[test]
    fn the_end_may_wrap_around() {
        let begin = 1_u64 << END_BITS;
        let run = LongRun { processor: 0, end: us(begin - 100), length: us(400) };
        assert_eq!(LongRun::share(run.pack(), 0, begin - 300, begin + 100), 200);
    }
}
