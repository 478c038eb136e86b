//! Many to one over shared memory: how long a sender takes to insert, by the number of senders.
//!
//! Each of up to 64 threads sends 8 messages at once. In `queue-many` the receiver drains when all are done, so that up
//! to as many senders as there are processors really run at the same time. In `queue-many-drained` it has a processor
//! to itself and drains meanwhile, and the next burst begins when all are done with the last one, so that insertion meets
//! what the receiver does.
//!
//! Beside the forms stand mailboxes of nodes (`msgq` of the thesis): a ring for each node of 24 senders, which
//! those share behind a lock of their own.

use std::sync::{Arc, Mutex};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use anyhow::Result;
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_base::sync::spin_loop;
use bowline_base::words::DirectWords;

use super::forms::{Form, Receiver, Sender};
use super::latency::{Memory, pin};
use super::memory::PER_NODE;
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// Messages of each sender in a burst, as published (figures 6.9 to 6.12).
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

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Of(Form),
    /// A ring for each node.
    Nodes,
}

impl Queue {
    /// All of them; the ring is compared with.
    pub(super) const ALL: [Self; 5] = [
        Self::Of(Form::Ring),
        Self::Nodes,
        Self::Of(Form::Seq),
        Self::Of(Form::Counted),
        Self::Of(Form::Locked),
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Of(form) => form.name(),
            Self::Nodes => "nodes",
        }
    }

    /// The form of its queues.
    pub(super) const fn form(self) -> Form {
        match self {
            Self::Of(form) => form,
            Self::Nodes => Form::Ring,
        }
    }

    /// How many queues the receiver has for so many senders.
    fn count(self, producers: usize) -> usize {
        match self {
            Self::Of(Form::Ring) => producers,
            Self::Nodes => producers.div_ceil(PER_NODE as usize),
            Self::Of(_) => 1,
        }
    }

    /// The senders, to the queues in `words`.
    pub(super) fn senders(
        self,
        producers: usize,
        words: impl Fn(usize) -> DirectWords,
    ) -> Vec<Sending> {
        let form = self.form();
        if self == Self::Nodes {
            let nodes: Vec<_> = (0..self.count(producers))
                .map(|node| Arc::new(Mutex::new(form.sender(words(node), node as u16))))
                .collect();
            let shared = |at: usize| Sending::Shared(Arc::clone(&nodes[at / PER_NODE as usize]));
            return (0..producers).map(shared).collect();
        }
        let queues = self.count(producers);
        let own = |at: usize| Sending::Own(form.sender(words(at % queues), at as u16));
        (0..producers).map(own).collect()
    }
}

/// A sender, or its share of its node's.
pub(super) enum Sending {
    Own(Sender),
    Shared(Arc<Mutex<Sender>>),
}

impl Sending {
    /// Sends `payload`; `false` when there is no space now.
    pub(super) fn send(&mut self, payload: &[u8]) -> bool {
        match self {
            Self::Own(sender) => sender.send(payload),
            Self::Shared(sender) => sender.lock().expect("nobody panics").send(payload),
        }
    }
}

/// When the receiver drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drains {
    /// When all are done.
    Behind,
    /// Meanwhile, on a processor of its own.
    Beside,
}

impl Drains {
    /// How many processors the senders have.
    const fn left(self, cpus: usize) -> usize {
        match self {
            Self::Behind => cpus,
            Self::Beside => cpus - 1,
        }
    }
}

/// What insertion took.
#[derive(Debug)]
struct Insertions {
    /// Nanoseconds for each message, one sample for each sender and burst, sorted.
    samples: Vec<f64>,
    /// The part of all messages that the receiver took while a burst was being inserted.
    meanwhile: f64,
}

/// A sender: inserts its part of every burst. A sample for each.
fn insert(sender: &mut Sending, burst: &AtomicU64, done: &AtomicU64) -> Vec<f64> {
    let (mut samples, mut last) = (Vec::new(), 0);
    loop {
        // Acquire: pairs with the Release stores in `insertions`; where it drains behind, the queues are empty.
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
        // Release: pairs with the Acquire load in `insertions`.
        done.fetch_add(1, Ordering::Release);
    }
}

/// Measures at most so many bursts, in the time that `patience` allows.
fn insertions(
    queue: Queue,
    producers: usize,
    cpus: usize,
    drains: Drains,
    bursts: u64,
    patience: Duration,
) -> Result<Insertions> {
    let (form, queues) = (queue.form(), queue.count(producers));
    let memory = Memory::make(form.bytes() * queues)?;
    let words = |at: usize| memory.words(at * form.bytes(), form.bytes());
    let mut receivers: Vec<Receiver> = (0..queues).map(|at| form.receiver(words(at))).collect();
    let senders = queue.senders(producers, words);
    // The burst that is under way; 0 before the first one, MAX after the last one.
    let burst = AtomicU64::new(0);
    // Senders that are done with it.
    let done = AtomicU64::new(0);
    let (burst, done) = (&burst, &done);
    let (mut meanwhile, mut taken) = (0, 0);
    let mut samples = std::thread::scope(|scope| -> Result<Vec<f64>> {
        let threads: Vec<_> = senders
            .into_iter()
            .enumerate()
            .map(|(at, mut sender)| {
                scope.spawn(move || {
                    // The receiver has the first one.
                    pin(cpus - 1 - at % drains.left(cpus));
                    insert(&mut sender, burst, done)
                })
            })
            .collect();
        let (start, mut out) = (Instant::now(), [0; 64]);
        let (mut inserted, mut sum) = (0, 0);
        let mut drain = || -> u64 {
            let mut take = |receiver: &mut Receiver| {
                receiver.receive(&mut out, |_, bytes| sum += u64::from(bytes[0]))
            };
            receivers.iter_mut().map(|receiver| u64::from(take(receiver))).sum()
        };
        for number in 1..=bursts {
            // Release: pairs with the Acquire load in `insert`.
            burst.store(number, Ordering::Release);
            inserted += MESSAGES * producers as u64;
            loop {
                // Acquire: pairs with the Release add in `insert`.
                let all_are_done = done.load(Ordering::Acquire) >= number * producers as u64;
                let now = if all_are_done || drains == Drains::Beside { drain() } else { 0 };
                taken += now;
                meanwhile += if all_are_done { 0 } else { now };
                // What is left is taken while the next burst is inserted.
                if all_are_done && (drains == Drains::Beside || taken == inserted) {
                    break;
                }
                match drains {
                    Drains::Behind if now == 0 => yield_now(),
                    _ => spin_loop(),
                }
            }
            if start.elapsed() > patience {
                break;
            }
        }
        while taken < inserted {
            taken += drain();
        }
        assert_eq!(sum, inserted / MESSAGES * (MESSAGES * (MESSAGES - 1) / 2), "{}", queue.name());
        // Release: pairs with the Acquire load in `insert`.
        burst.store(u64::MAX, Ordering::Release);
        let samples = threads.into_iter().flat_map(|thread| thread.join().expect("it returns"));
        Ok(samples.collect())
    })?;
    samples.sort_by(f64::total_cmp);
    Ok(Insertions { samples, meanwhile: meanwhile as f64 / taken as f64 })
}

fn behind(context: &Context) -> Result<Table> {
    let what = "many to one in shared memory: ns to insert a message, median and 99th percentile";
    many(context, "queue-many", what, Drains::Behind)
}

fn beside(context: &Context) -> Result<Table> {
    let what = "the same while the receiver drains";
    many(context, "queue-many-drained", what, Drains::Beside)
}

fn many(
    context: &Context,
    name: &'static str,
    what: &'static str,
    drains: Drains,
) -> Result<Table> {
    let mut columns = vec!["senders", "cpus", "meanwhile"];
    columns.extend(Queue::ALL.iter().flat_map(|queue| [queue.name(), "p99"]));
    let mut table = Table::new(name, what, &columns);
    let cpus = context.cpus;
    if drains.left(cpus) == 0 {
        table.note("left out: it takes two processors");
        return Ok(table);
    }
    let (bursts, patience) = if context.quick {
        (300, Duration::from_millis(150))
    } else {
        (3000, Duration::from_secs(2))
    };
    let mut chart =
        Chart::new("senders", Unit::None, "time to insert a message", Unit::Nanoseconds);
    let mut curves = vec![Vec::new(); Queue::ALL.len()];
    for producers in context.progress(name, PRODUCERS.to_vec()) {
        let enough = if producers <= drains.left(cpus) { "enough" } else { "too few" };
        let (mut cells, mut least) = (Vec::new(), 1.0_f64);
        for (form, curve) in Queue::ALL.into_iter().zip(&mut curves) {
            let Insertions { samples, meanwhile } =
                insertions(form, producers, cpus, drains, bursts, patience)?;
            least = meanwhile.min(least);
            let high = quantile(&samples, 0.99);
            let half = quantile(&samples, 0.5);
            chart.point(&format!("{}, median", form.name()), producers as f64, half);
            chart.point(&format!("{}, p99", form.name()), producers as f64, high);
            curve.push((producers as f64, high));
            cells.push(Cell::time(half));
            cells.push(Cell::time(high));
        }
        let meanwhile = Cell::number(least * 100.0, 0, "%");
        let mut row = vec![Cell::count(producers as u64), enough.into(), meanwhile];
        row.append(&mut cells);
        table.row(row);
    }
    table.chart = Some(chart);
    let slopes: Vec<String> = Queue::ALL
        .iter()
        .zip(&curves)
        .map(|(form, curve)| format!("{} {:.1}", form.name(), slope(curve)))
        .collect();
    table.note(format!(
        "Slope of the 99th percentile, ns for each further sender: {}. Published (figures 6.9 to 6.12, over a \
         network, without numbers): the mailboxes and SCMP scale alike, the lock some 10 times worse.",
        slopes.join(", ")
    ));
    table.note(format!(
        "nodes: a ring for each node of {PER_NODE} senders, as the thesis's msgq, which those share behind a lock in \
         their node's memory."
    ));
    let processors = match drains {
        Drains::Behind => "",
        Drains::Beside => ", of which the receiver has one",
    };
    table.note(format!(
        "meanwhile: the part of all messages that was taken while others were inserted, the least of the row. There are \
         {cpus} processors{processors}. Where there are more senders than processors for them, the rows mostly show the scheduler: a \
         sender that loses its processor while it holds the lock stops all others. queue-network is the experiment \
         without that."
    ));
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] = &[
    ("queue-many", "many to one in shared memory", behind),
    ("queue-many-drained", "many to one in shared memory, while the receiver drains", beside),
];

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
        for queue in Queue::ALL {
            for (drains, producers) in [(Drains::Behind, 5), (Drains::Beside, 27)] {
                let patience = Duration::from_secs(60);
                let all = insertions(queue, producers, 2, drains, 20, patience).unwrap();
                assert_eq!(all.samples.len(), 20 * producers, "{}", queue.name());
                assert!(drains == Drains::Beside || all.meanwhile == 0.0, "{}", queue.name());
            }
        }
    }
}
