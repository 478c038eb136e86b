//! The other ranks of the job on this node, as a waiter sees them: whether a long yield went to one of them.
//!
//! A rank that copies a long message keeps its processor for a millisecond. A rank that yields to it has lost nothing, and
//! would lose by sleeping for a time afterwards. So each rank notes the long runs between its own yields and sleeps in
//! the job's memory, and the reason of a long yield is read there. A rank that computes for longer than a time slice is preempted
//! before it could note anything: it counts as a program of somebody else, beside which a rank should sleep.
//!
//! Each rank also notes when it gives its processor away and when it has one again.

use std::time::{Duration, Instant};

use bowline_base::job::{JobMemory, LongRun};
use bowline_base::sync::atomic::Ordering;

/// Shorter runs are not noted. Several ranks whose copies take so long make a long yield together.
const NOTED: Duration = Duration::from_micros(50);

/// A yield went to other ranks of the job when they took this part of it, as its inverse.
const SHARE: u32 = 2;

/// The other ranks on this node, and since when this one has the processor.
#[derive(Debug)]
pub(super) struct Siblings {
    job: JobMemory,
    /// The own index on the node.
    local: u32,
    /// The world rank of the first one.
    first: u32,
    since: Option<Instant>,
}

/// A time of the past since the start of `CLOCK_MONOTONIC`, which all processes of a machine share. By the C library:
/// rustix searches for the kernel's function itself, which ends a program that runs under valgrind.
fn monotonic(at: Instant) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time can be written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let (seconds, nanos) = (time.tv_sec.try_into(), time.tv_nsec.try_into());
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0)).saturating_sub(at.elapsed())
}

/// The processor of the calling thread. By the C library, as the time.
fn processor() -> u32 {
    // SAFETY: there is nothing to be passed.
    unsafe { libc::sched_getcpu() as u32 }
}

impl Siblings {
    pub(super) fn new(job: JobMemory, local: u32) -> Self {
        // Relaxed: it is there since the memory was made.
        let first =
            job.control(0).map_or(0, |control| control.identity.world_rank.load(Ordering::Relaxed));
        Self { job, local, first, since: None }
    }

    /// Whether the rank of the job with this number in its world has a processor now. It is on another one, since this
    /// rank has its own.
    #[inline]
    pub(super) fn runs(&self, world: u32) -> bool {
        self.job.runs(world.wrapping_sub(self.first))
    }

    /// The rank has the processor since `begin`.
    #[inline]
    pub(super) fn runs_since(&mut self, begin: Instant) {
        self.job.note_runs(self.local, true);
        self.since = Some(begin);
    }

    /// The rank is about to give the processor away, at `end`.
    #[inline]
    pub(super) fn ran_until(&self, end: Instant) {
        self.job.note_runs(self.local, false);
        if let Some(since) = self.since {
            let length = end.saturating_duration_since(since);
            if length >= NOTED {
                self.note(length, end);
            }
        }
    }

    #[cold]
    fn note(&self, length: Duration, end: Instant) {
        let run = LongRun { processor: processor(), end: monotonic(end), length };
        self.job.note_long_run(self.local, run);
    }

    /// Whether a yield from `begin` to `end` went to other ranks of the job.
    #[cold]
    pub(super) fn took(&self, begin: Instant, end: Instant) -> bool {
        let yielded = end.saturating_duration_since(begin);
        let until = monotonic(end);
        let taken =
            self.job.long_runs(self.local, processor(), until.saturating_sub(yielded), until);
        taken.saturating_mul(SHARE) >= yielded
    }
}

#[cfg(test)]
mod tests {
    use bowline_base::job::JobSpec;

    use super::*;

    fn pair() -> (Siblings, Siblings) {
        let spec = JobSpec { job_id: 1, ranks: 2, first_rank: 0, area_bytes: 4096 };
        let job = JobMemory::create_private(&spec).unwrap();
        (Siblings::new(job.clone(), 0), Siblings::new(job, 1))
    }

    /// Keeps the processor, as a copy would.
    fn run_for(length: Duration) -> (Instant, Instant) {
        let begin = Instant::now();
        while begin.elapsed() < length {
            std::hint::spin_loop();
        }
        (begin, Instant::now())
    }

    #[test]
    fn a_long_run_of_another_rank_on_the_own_processor_took_the_yield() {
        // Both stand for ranks of one processor, so the test must not move between two.
        let processor = rustix::thread::sched_getcpu();
        let mut only = rustix::thread::CpuSet::new();
        only.set(processor);
        let own = std::thread::spawn(move || {
            rustix::thread::sched_setaffinity(None, &only).unwrap();
            let (one, mut other) = pair();
            let (begin, end) = run_for(Duration::from_millis(2));
            assert!(!one.took(begin, end), "nobody of the job has run");
            other.runs_since(begin);
            other.ran_until(end);
            assert!(one.took(begin, end), "the other rank has run in that time");
            assert!(!other.took(begin, end), "the own run is no other rank's");
            let (begin, end) = run_for(Duration::from_millis(2));
            assert!(!one.took(begin, end), "it has run before, and not in this time");
        });
        own.join().unwrap();
    }
}
