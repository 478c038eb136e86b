//! Many to one over shared memory: how long a sender takes to insert, by the number of senders.
//!
//! Each of up to 64 threads sends 8 messages at once; the receiver drains when all are done, so
//! that up to as many senders as there are processors really run at the same time.

use std::thread::yield_now;
use std::time::{Duration, Instant};

use anyhow::Result;
use bowline_base::sync::atomic::{AtomicU64, Ordering};

use super::forms::{Form, Receiver, Sender};
use super::latency::{Memory, pin};
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// Messages of each sender in a burst, as published.
const MESSAGES: u64 = 8;

/// Senders.
const PRODUCERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The value at `part` of sorted samples.
pub(super) fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

/// The slope of the line through points that is nearest to them.
pub(super) fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (mx, my) =
        (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let above: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    let below: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    above / below
}

/// Nanoseconds for each message, one sample for each sender and burst, sorted.
fn insertions(
    form: Form,
    producers: usize,
    cpus: usize,
    bursts: u64,
    patience: Duration,
) -> Result<Vec<f64>> {
    let queues = if form == Form::Ring { producers } else { 1 };
    let memory = Memory::make(form.bytes() * queues)?;
    let words = |at: usize| memory.words(at * form.bytes(), form.bytes());
    let mut receivers: Vec<Receiver> = (0..queues).map(|at| form.receiver(words(at))).collect();
    let senders: Vec<Sender> =
        (0..producers).map(|at| form.sender(words(at % queues), at as u16)).collect();
    // The burst that is under way; 0 before the first one, MAX after the last one.
    let burst = AtomicU64::new(0);
    // Senders that are done with it.
    let done = AtomicU64::new(0);
    let (burst, done) = (&burst, &done);
    let mut samples = std::thread::scope(|scope| -> Result<Vec<f64>> {
        let threads: Vec<_> = senders
            .into_iter()
            .enumerate()
            .map(|(at, mut sender)| {
                scope.spawn(move || {
                    pin(at % cpus);
                    let (mut samples, mut last) = (Vec::new(), 0);
                    loop {
                        // Acquire: pairs with the Release store below: the queues are drained.
                        let now = burst.load(Ordering::Acquire);
                        if now == u64::MAX {
                            return samples;
                        }
                        if now == last {
                            yield_now();
                            continue;
                        }
                        last = now;
                        let start = Instant::now();
                        for number in 0..MESSAGES {
                            while !sender.send(&number.to_ne_bytes()) {
                                yield_now();
                            }
                        }
                        samples.push(start.elapsed().as_nanos() as f64 / MESSAGES as f64);
                        // Release: pairs with the Acquire load below.
                        done.fetch_add(1, Ordering::Release);
                    }
                })
            })
            .collect();
        let (start, mut out) = (Instant::now(), [0; 64]);
        for number in 1..=bursts {
            // Release: pairs with the Acquire load above.
            burst.store(number, Ordering::Release);
            // Acquire: pairs with the Release add above.
            while done.load(Ordering::Acquire) < number * producers as u64 {
                yield_now();
            }
            let (mut left, mut sum) = (MESSAGES * producers as u64, 0);
            while left > 0 {
                for receiver in &mut receivers {
                    left -= u64::from(receiver.receive(&mut out, |_, bytes| {
                        sum += u64::from(bytes[0]);
                    }));
                }
            }
            assert_eq!(sum, producers as u64 * MESSAGES * (MESSAGES - 1) / 2, "{}", form.name());
            if start.elapsed() > patience {
                break;
            }
        }
        // Release: pairs with the Acquire load of `burst` in the senders.
        burst.store(u64::MAX, Ordering::Release);
        let samples = threads.into_iter().flat_map(|thread| thread.join().expect("it returns"));
        Ok(samples.collect())
    })?;
    samples.sort_by(f64::total_cmp);
    Ok(samples)
}

fn many(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "queue-many",
        "many to one in shared memory: ns to insert a message, median and 99th percentile",
        &[
            "senders",
            "cpus",
            "ring",
            "p99",
            "scmp-seq",
            "p99",
            "scmp-counted",
            "p99",
            "locked",
            "p99",
        ],
    );
    let cpus = context.cpus;
    let (bursts, patience) = if context.quick {
        (300, Duration::from_millis(150))
    } else {
        (3000, Duration::from_secs(2))
    };
    let mut chart =
        Chart::new("senders", Unit::None, "time to insert a message", Unit::Nanoseconds);
    let mut curves = vec![Vec::new(); Form::ALL.len()];
    for producers in context.progress("queue-many", PRODUCERS.to_vec()) {
        let enough = if producers <= cpus { "enough" } else { "too few" };
        let mut cells = vec![Cell::count(producers as u64), enough.into()];
        for (form, curve) in Form::ALL.into_iter().zip(&mut curves) {
            let samples = insertions(form, producers, cpus, bursts, patience)?;
            let high = quantile(&samples, 0.99);
            let half = quantile(&samples, 0.5);
            chart.point(&format!("{}, median", form.name()), producers as f64, half);
            chart.point(&format!("{}, p99", form.name()), producers as f64, high);
            curve.push((producers as f64, high));
            cells.push(Cell::time(half));
            cells.push(Cell::time(high));
        }
        table.row(cells);
    }
    table.chart = Some(chart);
    let slopes: Vec<String> = Form::ALL
        .iter()
        .zip(&curves)
        .map(|(form, curve)| format!("{} {:.1}", form.name(), slope(curve)))
        .collect();
    table.note(format!(
        "Slope of the 99th percentile, ns for each further sender: {}.",
        slopes.join(", ")
    ));
    table.note(format!(
        "There are {cpus} processors. Where there are more senders, the rows mostly show the \
         scheduler: a sender that loses its processor while it holds the lock stops all others. \
         queue-network is the experiment without that."
    ));
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] = &[("queue-many", "many to one in shared memory", many)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_and_quantiles() {
        assert_eq!(slope(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]), 2.0);
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 1.0), 3.0);
    }

    #[test]
    fn every_sender_is_measured_in_every_burst() {
        for form in Form::ALL {
            let samples = insertions(form, 5, 2, 20, Duration::from_secs(60)).unwrap();
            assert_eq!(samples.len(), 100, "{}", form.name());
        }
    }
}
