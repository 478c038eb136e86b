//! Yardsticks: what the machine allows without any library. Processes of our own, in the same run.
//!
//! - `raw-two-lines`: one cache line per direction, written by one side and polled by the other.
//! - `raw-one-line`: one cache line handed back and forth, written by both sides.
//! - `bare-yield`, `bare-futex`: a central counter and a generation word; the ranks wait with
//!   `sched_yield` or `futex`.
//!
//! The ranks are forked, share one mapping, and are pinned like those of the peers: rank r to CPU
//! r modulo 2. They loop without pause instructions, which some processors stretch to 140 cycles.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use rustix::thread::futex;

use super::{Measured, Role, Source};
use crate::BenchError;
use crate::context::Context;
use crate::metric::{Metric, Sample, Test};
use crate::plan::Stage;

mod arena;

use arena::{Arena, Rank};

/// Round trips per in-run sample.
const PING_PONG_BATCH: u32 = 64;
/// Barriers per in-run sample.
const BARRIER_BATCH: u32 = 8;

/// Makes the answering side of a ping-pong leave.
const LEAVE: u32 = u32::MAX;

// Places in the shared mapping; every line lies alone in 128 bytes.
const LINE_THERE: usize = 0;
const LINE_BACK: usize = 1;
const LINE_COUNT: usize = 2;
const LINE_GENERATION: usize = 3;
const LINE_STOP: usize = 4;

/// One yardstick.
#[derive(Debug, Clone, Copy)]
struct Yardstick {
    id: &'static str,
    test: Test,
    rank: fn(&Rank<'_>),
    /// Operations per in-run sample; a round trip counts as two.
    operations: u32,
}

/// All yardsticks.
pub(super) fn all() -> impl Iterator<Item = Box<dyn Source>> {
    [TWO_LINES, ONE_LINE, BARE_YIELD, BARE_FUTEX]
        .into_iter()
        .map(|yardstick| Box::new(yardstick) as Box<dyn Source>)
}

const TWO_LINES: Yardstick = Yardstick {
    id: "raw-two-lines",
    test: Test::RawLat,
    rank: two_lines,
    operations: 2 * PING_PONG_BATCH,
};

const ONE_LINE: Yardstick = Yardstick {
    id: "raw-one-line",
    test: Test::RawLat,
    rank: one_line,
    operations: 2 * PING_PONG_BATCH,
};

const BARE_YIELD: Yardstick = Yardstick {
    id: "bare-yield",
    test: Test::Barrier,
    rank: |rank| barriers(rank, wait_by_yield, |_| {}),
    operations: BARRIER_BATCH,
};

const BARE_FUTEX: Yardstick = Yardstick {
    id: "bare-futex",
    test: Test::Barrier,
    rank: |rank| barriers(rank, wait_by_futex, wake_by_futex),
    operations: BARRIER_BATCH,
};

/// The one-way time between two lines just now, ns: how far apart the two CPUs are at the moment.
/// On a virtual machine that changes when the host moves them.
pub(crate) fn two_lines_ns(cpus: [usize; 2]) -> Option<f64> {
    let budget = Duration::from_millis(5);
    TWO_LINES.sample(cpus, 2, budget, Duration::from_secs(5)).ok().map(|sample| sample.median_ns)
}

impl Yardstick {
    fn sample(
        self,
        cpus: [usize; 2],
        ranks: u32,
        budget: Duration,
        time_limit: Duration,
    ) -> Result<Sample, BenchError> {
        let arena = Arena::new()?;
        arena.run(cpus, ranks, budget, time_limit, self.rank)?;
        let operations = f64::from(self.operations);
        let samples = arena.samples_ns().map(|ns| f64::from(ns) / operations).collect();
        Sample::from_samples(samples).ok_or_else(|| BenchError::NoFigure {
            program: self.id.to_owned(),
            metric: self.test.name().to_owned(),
            output: "no samples".to_owned(),
        })
    }
}

impl Source for Yardstick {
    fn id(&self) -> &'static str {
        self.id
    }

    fn role(&self) -> Role {
        Role::Yardstick
    }

    fn prepare(&mut self, _: &Context) -> Result<String, BenchError> {
        Ok("processes of the harness itself".to_owned())
    }

    fn offers(&self, metric: Metric) -> bool {
        metric.test == self.test
    }

    fn measure(&self, context: &Context, _: Stage, metrics: &[Metric]) -> Measured {
        let sample = |metric: Metric| {
            self.sample(context.cpus, metric.ranks, context.budget, context.time_limit)
        };
        metrics.iter().map(|&metric| (metric, sample(metric))).collect()
    }
}

/// Ping-pong: `there` carries the sequence number to rank 1, `back` brings it home.
fn two_lines(rank: &Rank<'_>) {
    ping_pong(rank, rank.line(LINE_THERE), rank.line(LINE_BACK), 0);
}

/// Ping-pong over one line: rank 1 answers with the next number in the same word.
fn one_line(rank: &Rank<'_>) {
    ping_pong(rank, rank.line(LINE_THERE), rank.line(LINE_THERE), 1);
}

/// Rank 0 writes even steps n to `there` and waits for n + `answer` on `back`. Each Release store
/// pairs with the Acquire load of the other side and publishes the number itself, nothing else.
fn ping_pong(rank: &Rank<'_>, there: &AtomicU32, back: &AtomicU32, answer: u32) {
    if rank.number != 0 {
        return answer_pings(there, back, answer);
    }
    let mut step = 0;
    let start = Instant::now();
    loop {
        let batch = Instant::now();
        for _ in 0..PING_PONG_BATCH {
            step += 2;
            // Release pairs with the Acquire in `answer_pings`, Acquire with its Release.
            there.store(step, Release);
            while back.load(Acquire) != step + answer {}
        }
        let now = Instant::now();
        // The first fifth of the time warms up caches and clocks.
        let warm = now - start > rank.budget / 5;
        let goes_on = !warm || rank.note(now - batch);
        if now - start > rank.budget || !goes_on {
            // Release pairs with the Acquire in `answer_pings`; no data goes with it.
            there.store(LEAVE, Release);
            return;
        }
    }
}

/// Rank 1's side of `ping_pong`, with the same pairing.
fn answer_pings(there: &AtomicU32, back: &AtomicU32, answer: u32) {
    let mut seen = 0;
    loop {
        // Acquire pairs with the Release stores of `ping_pong`.
        let now = there.load(Acquire);
        if now == LEAVE {
            return;
        }
        if now != seen {
            seen = now + answer;
            // Release pairs with the Acquire in `ping_pong`.
            back.store(seen, Release);
        }
        // In two lines `there` keeps `now`; in one line it now holds `seen`. Both are "seen".
    }
}

/// Batches of barriers until rank 0's time is over. It says so before the last barrier of a batch,
/// which orders the word for all: they leave after the same batch.
fn barriers(rank: &Rank<'_>, wait: fn(&AtomicU32, u32), wake: fn(&AtomicU32)) {
    let stop = rank.line(LINE_STOP);
    let start = Instant::now();
    loop {
        let batch = Instant::now();
        for nth in 1..=BARRIER_BATCH {
            let over = rank.number == 0 && (start.elapsed() > rank.budget || rank.is_full());
            if over && nth == BARRIER_BATCH {
                stop.store(1, Relaxed);
            }
            barrier(rank, wait, wake);
        }
        if rank.number == 0 {
            rank.note(batch.elapsed());
        }
        if stop.load(Relaxed) != 0 {
            return;
        }
    }
}

/// A central barrier. The last rank resets the count and moves the generation on: its Release
/// store pairs with the Acquire load in `wait` and publishes the reset count and, through the
/// AcqRel additions to the count, the stop word.
fn barrier(rank: &Rank<'_>, wait: fn(&AtomicU32, u32), wake: fn(&AtomicU32)) {
    let count = rank.line(LINE_COUNT);
    let generation = rank.line(LINE_GENERATION);
    let current = generation.load(Acquire);
    if count.fetch_add(1, AcqRel) + 1 == rank.ranks {
        count.store(0, Relaxed);
        generation.store(current.wrapping_add(1), Release);
        wake(generation);
    } else {
        wait(generation, current);
    }
}

fn wait_by_yield(generation: &AtomicU32, current: u32) {
    // Acquire pairs with the Release of the last rank in `barrier`.
    while generation.load(Acquire) == current {
        std::thread::yield_now();
    }
}

fn wait_by_futex(generation: &AtomicU32, current: u32) {
    // Acquire pairs with the Release of the last rank in `barrier`.
    while generation.load(Acquire) == current {
        // Interrupted, woken, or too late: the loop checks again in every case.
        let _ = futex::wait(generation, futex::Flags::empty(), current, None);
    }
}

fn wake_by_futex(generation: &AtomicU32) {
    let _ = futex::wake(generation, futex::Flags::empty(), u32::MAX >> 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);
    const BUDGET: Duration = Duration::from_millis(20);

    fn cpus() -> [usize; 2] {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let mut free = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        let first = free.next().unwrap();
        [first, free.next().unwrap_or(first)]
    }

    #[test]
    fn barriers_of_every_kind_give_samples() {
        for yardstick in [BARE_YIELD, BARE_FUTEX] {
            let sample = yardstick.sample(cpus(), 5, BUDGET, LIMIT).unwrap();
            assert!(sample.median_ns > 0.0 && sample.p99_ns >= Some(sample.median_ns));
        }
    }

    #[test]
    fn ping_pongs_give_samples_on_two_cpus() {
        if cpus()[0] == cpus()[1] {
            return;
        }
        for yardstick in [TWO_LINES, ONE_LINE] {
            let sample = yardstick.sample(cpus(), 2, BUDGET, LIMIT).unwrap();
            assert!(sample.median_ns > 0.0);
        }
    }

    #[test]
    fn ranks_that_never_end_are_ended() {
        let hang = Yardstick { rank: |_| std::thread::sleep(LIMIT), ..BARE_YIELD };
        let error = hang.sample(cpus(), 2, BUDGET, BUDGET).unwrap_err();
        assert!(matches!(error, BenchError::Timeout { .. }));
    }
}
