//! Several threads of a consumer on one queue, which the thesis leaves for later work (section 7.2.3): what a message
//! takes of the time in which a full half is drained, by how many threads share it and what they do with a message.
//!
//! The half is filled before the clock starts, so that the consumer's side alone is measured.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bowline_base::scmp::counted::shared::{SharedConsumer, SharedMember, Sharing};
use bowline_base::scmp::{Message, counted};
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_base::words::Words;

use super::forms::SLOTS;
use super::latency::{Memory, pin};
use crate::clock::median;
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// Producers whose messages are in the half, one after the other.
const SOURCES: u16 = 8;

/// Who drains.
#[derive(Clone, Copy, Debug)]
enum Drain {
    /// A consumer of one thread.
    One,
    Shared(u32, Sharing),
}

const DRAINS: [(&str, Drain); 6] = [
    ("one", Drain::One),
    ("shared by 1", Drain::Shared(1, Sharing::Batches(16))),
    ("2 by batches", Drain::Shared(2, Sharing::Batches(16))),
    ("2 by sources", Drain::Shared(2, Sharing::Sources)),
    ("4 by batches", Drain::Shared(4, Sharing::Batches(16))),
    ("4 by sources", Drain::Shared(4, Sharing::Sources)),
];

/// The curve to which a consumer belongs, and how many threads it has.
fn curve(how: Drain) -> (&'static str, u32) {
    match how {
        Drain::One => (ONE, 1),
        Drain::Shared(threads, Sharing::Batches(_)) => ("by batches", threads),
        Drain::Shared(threads, Sharing::Sources) => ("by sources", threads),
    }
}

/// The curve of a consumer that shares with nobody: as high at all numbers of threads.
const ONE: &str = "one, not shared";

/// What is done with a message, in steps of a nanosecond or so.
const WORK: [u32; 4] = [0, 100, 1000, 10_000];

fn work(steps: u32, seed: u64) -> u64 {
    (0..steps).fold(seed, |value, _| black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// A thread's part of a half of which `taken` were handled before, and when it was at work.
fn take_share<W: Words>(
    shared: &SharedConsumer<W>,
    member: &mut SharedMember,
    steps: u32,
    taken: &AtomicU64,
    sum: &AtomicU64,
) -> Result<(Instant, Instant)> {
    let start = Instant::now();
    let mut own = 0;
    // Relaxed: the count ends the loop, and says nothing of other memory.
    while taken.load(Ordering::Relaxed) < u64::from(SLOTS) {
        let share = shared.poll(member, 64, |message| {
            let mut bytes = [0; 8];
            message.copy_to(&mut bytes);
            black_box(work(steps, message.header[0]));
            own += u64::from_ne_bytes(bytes);
        });
        if let Some(fault) = share.fault {
            return Err(fault.into());
        }
        // Relaxed: as above.
        taken.fetch_add(u64::from(share.taken), Ordering::Relaxed);
        if share.taken == 0 {
            std::thread::yield_now();
        }
    }
    let end = Instant::now();
    // Relaxed: read when the threads have been joined.
    sum.fetch_add(own, Ordering::Relaxed);
    Ok((start, end))
}

/// Nanoseconds for each message of a full half.
fn drain(how: Drain, steps: u32, cpus: usize) -> Result<f64> {
    let bytes = counted::bytes_for(SLOTS);
    let memory = Memory::make(bytes)?;
    let words = memory.words(0, bytes);
    let mut consumer = counted::init(words, SLOTS, 0)?;
    let mut producers = (0..SOURCES)
        .map(|source| counted::attach(words, 0, source))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let intent = AtomicU64::new(0);
    for number in 0..u64::from(SLOTS) {
        let payload = number.to_ne_bytes();
        let message = Message { id: 0, flags: 0, header: &[1, 2, 3], payload: &payload };
        producers[number as usize % usize::from(SOURCES)].push(&intent, &message)?;
    }
    let all = u64::from(SLOTS);
    let sum = AtomicU64::new(0);
    let took = match how {
        Drain::One => {
            let start = Instant::now();
            let mut taken = 0;
            while taken < all {
                taken += u64::from(consumer.poll(64, |message| {
                    let mut bytes = [0; 8];
                    message.copy_to(&mut bytes);
                    black_box(work(steps, message.header[0]));
                    // Relaxed: one thread.
                    sum.fetch_add(u64::from_ne_bytes(bytes), Ordering::Relaxed);
                })?);
            }
            start.elapsed()
        }
        Drain::Shared(threads, sharing) => {
            let (shared, members) = SharedConsumer::new(consumer, threads, sharing)?;
            let (taken, ready) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| -> Result<Duration> {
                let (shared, taken, ready, sum) = (&shared, &taken, &ready, &sum);
                let joined: Vec<_> = members
                    .into_iter()
                    .enumerate()
                    .map(|(at, mut member)| {
                        scope.spawn(move || {
                            pin(at % cpus);
                            // AcqRel: pairs with itself; all start when all are there.
                            ready.fetch_add(1, Ordering::AcqRel);
                            while ready.load(Ordering::Acquire) < u64::from(threads) {
                                std::thread::yield_now();
                            }
                            take_share(shared, &mut member, steps, taken, sum)
                        })
                    })
                    .collect();
                let times = joined
                    .into_iter()
                    .map(|thread| thread.join().expect("it returns"))
                    .collect::<Result<Vec<_>>>()?;
                let start = times.iter().map(|time| time.0).min().context("there is a thread")?;
                let end = times.iter().map(|time| time.1).max().context("there is a thread")?;
                Ok(end - start)
            })?
        }
    };
    // Relaxed: the threads have been joined.
    let sum = sum.load(Ordering::Relaxed);
    ensure!(sum == all * (all - 1) / 2, "messages were lost or came twice");
    Ok(took.as_nanos() as f64 / all as f64)
}

/// Adds a panel for so much work: times by the number of threads.
fn picture(chart: &mut Chart, steps: u32, medians: &[f64]) {
    let panel = match steps {
        0 => "nothing is done".to_owned(),
        steps => format!("{steps} steps of work"),
    };
    let curves = || DRAINS.iter().map(|drain| curve(drain.1));
    let most = curves().map(|(_, threads)| threads).max().unwrap_or(1);
    for ((name, threads), &time) in curves().zip(medians) {
        chart.point_in(&panel, name, f64::from(threads), time);
        if name == ONE {
            chart.point_in(&panel, name, f64::from(most), time);
        }
    }
}

fn threads(context: &Context) -> Result<Table> {
    let mut columns = vec!["steps of work"];
    columns.extend(DRAINS.iter().map(|drain| drain.0));
    let mut table = Table::new(
        "queue-threads",
        "several threads of a consumer: time for each message of a full half, by what is done with it",
        &columns,
    );
    let mut chart = Chart::new(
        "threads of the consumer",
        Unit::None,
        "time for each message",
        Unit::Nanoseconds,
    );
    let rounds = context.effort.rounds;
    let mut gain = 0.0;
    for steps in context.progress("queue-threads", WORK.to_vec()) {
        let mut samples = vec![Vec::new(); DRAINS.len()];
        for round in 0..rounds {
            for nth in 0..DRAINS.len() {
                let at = (round + nth) % DRAINS.len();
                samples[at].push(drain(DRAINS[at].1, steps, context.cpus)?);
            }
        }
        let medians: Vec<f64> = samples.iter().map(|samples| median(samples)).collect();
        gain = medians[0] / medians[2];
        picture(&mut chart, steps, &medians);
        let mut cells = vec![Cell::count(steps.into())];
        cells.extend(medians.into_iter().map(Cell::time));
        table.row(cells);
    }
    pin(0);
    table.chart = Some(chart);
    table.note(format!(
        "There are {} processors; a half has {SLOTS} slots, of {SOURCES} sources. by batches: 16 slots at a time, in no \
         order between threads; by sources: every thread walks all slots, so that the messages of a source come in \
         their order. Not published: the thesis names it as future work. With most work two threads by \
         batches are {gain:.2} times as fast as one.",
        context.cpus
    ));
    table.note(
        "Starting and ending the threads' work is within the time: with more threads than processors that is what a row \
         shows where there is little work.",
    );
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] =
    &[("queue-threads", "several threads of a consumer on one queue", threads)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_has_all_that_was_measured() {
        let mut chart = Chart::new("", Unit::None, "", Unit::Nanoseconds);
        let medians: Vec<f64> = (1..=DRAINS.len()).map(|at| at as f64).collect();
        picture(&mut chart, 100, &medians);
        let value = serde_json::to_value(&chart).unwrap();
        let curves: Vec<_> = value["curves"]
            .as_array()
            .unwrap()
            .iter()
            .map(|curve| {
                assert_eq!(curve["panel"], "100 steps of work");
                (curve["name"].as_str().unwrap(), curve["points"].to_string())
            })
            .collect();
        assert_eq!(
            curves,
            [
                (ONE, "[[1.0,1.0],[4.0,1.0]]".to_owned()),
                ("by batches", "[[1.0,2.0],[2.0,3.0],[4.0,5.0]]".to_owned()),
                ("by sources", "[[2.0,4.0],[4.0,6.0]]".to_owned()),
            ]
        );
    }

    #[test]
    fn all_drains_take_all() {
        for (name, how) in DRAINS {
            assert!(drain(how, 10, 2).unwrap() > 0.0, "{name}");
        }
    }
}
