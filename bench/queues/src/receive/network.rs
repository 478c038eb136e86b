//! Many to one over a network, in virtual time.
//!
//! The steps of each form are posted as one-sided operations to a receiver on a modelled network
//! with the published parameters: issuing an operation takes its sender α_r, its answer is back
//! after a further α_p, and the receiver's adapter serves one operation after the other. The
//! steps' meaning is the library's own: where [`counted`] has a function for it, that function is
//! called. It is a model: no transport is under it, and only the order of operations counts.
//!
//! ```text
//!   ring        put-with-flag
//!   nodes       put-with-flag, by the agent of the node, which issues those of 24 senders one after the other
//!   counted     fetch-add of R ─answer─► put ─answer─► add of S
//!   locked      fetch-or of the lock ─answer─┬─ it was free ──► put, put-with-flag (unlocks)
//!                     ▲                      └─ it was taken ─┐
//!                     └───────────────────────────────────────┘
//! ```
//! Delays vary by a tenth, from a seed, so that senders do not march in step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anyhow::Result;
use bowline_base::scmp::counted;

use super::forms::SLOTS;
use super::many::{quantile, slope};
use super::memory::PER_NODE;
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// What a sender is blocked for by an operation, ns: the required latency α_r of 8 bytes (M. Rüfenacht's thesis, Edinburgh
/// 2020, table 4.1).
const REQUIRED: u64 = 380;
/// What the rest of the operation and its answer take, ns: the pipelining latency α_p of 8 bytes (the same table).
const PIPELINED: u64 = 880;
/// What the receiver's adapter takes for an operation, ns. Published is the sender's gap between two messages, some 6 ns at
/// 10.2 GB/s (chapter 4, where the model is compared with LogP; no table has it). That the receiver's adapter takes as
/// long is this model's assumption; nothing is published of it.
const SERVICE: u64 = 6;
/// Messages of each sender, as published (figures 6.9 to 6.12).
const MESSAGES: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Ring,
    /// A ring for each node (the thesis's msgq).
    Nodes,
    Counted,
    Locked,
}

impl Form {
    const ALL: [Self; 4] = [Self::Ring, Self::Nodes, Self::Counted, Self::Locked];

    const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Nodes => "nodes",
            Self::Counted => "scmp-counted",
            Self::Locked => "locked",
        }
    }
}

/// An operation as the adapter sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    /// Of a message, with or without a flag behind it.
    Put,
    /// Of R.
    FetchAdd,
    /// Of S.
    Add,
    /// Of the lock.
    FetchOr,
    /// Of the lock word, with the message before it.
    Unlock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// At the receiver's adapter.
    Arrives(usize, Operation),
    /// Back at the sender, with what the word was.
    Answered(usize, Operation, u64),
    /// Out of the hands of a node's agent.
    Issued(usize),
}

/// A sender.
#[derive(Clone, Copy, Debug)]
struct Producer {
    /// Messages inserted.
    sent: u32,
    /// When it began with the one under way.
    since: u64,
}

/// One run: a receiver, its words, and all senders.
struct Run {
    form: Form,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    random: u64,
    /// When the adapter is free again.
    free: u64,
    reserved: u64,
    settled: u64,
    locked: bool,
    producers: Vec<Producer>,
    /// When the agent of each node is free again.
    agents: Vec<u64>,
    /// Nanoseconds of each insertion.
    samples: Vec<f64>,
    /// Operations posted.
    operations: u64,
}

impl Run {
    fn new(form: Form, producers: usize, seed: u64) -> Self {
        let mut run = Self {
            form,
            now: 0,
            events: BinaryHeap::new(),
            number: 0,
            random: seed,
            free: 0,
            // Generation 1 in half 0, as `counted::init` leaves it.
            reserved: 1 << 32,
            settled: 0,
            locked: false,
            producers: vec![Producer { sent: 0, since: 0 }; producers],
            agents: vec![0; producers.div_ceil(PER_NODE as usize)],
            samples: Vec::new(),
            operations: 0,
        };
        for producer in 0..producers {
            run.begin(producer, 0);
        }
        run
    }

    /// Some time near `ns`.
    fn near(&mut self, ns: u64) -> u64 {
        // SplitMix64, whose low bits are as good as its high ones.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ns * 19 / 20 + (mixed ^ mixed >> 31) % (ns / 10 + 1)
    }

    fn at(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    /// The sender issues an operation at `time`; returns when it is free again.
    fn issue(&mut self, producer: usize, operation: Operation, time: u64) -> u64 {
        self.operations += 1;
        let free = time + self.near(REQUIRED);
        let arrival = free + self.near(PIPELINED / 2);
        self.at(arrival, Event::Arrives(producer, operation));
        free
    }

    /// The sender begins with its next message at `time`.
    fn begin(&mut self, producer: usize, time: u64) {
        self.producers[producer].since = time;
        match self.form {
            Form::Ring => {
                let free = self.issue(producer, Operation::Put, time);
                self.inserted(producer, free);
            }
            Form::Nodes => {
                let agent = producer / PER_NODE as usize;
                let free = self.issue(producer, Operation::Put, time.max(self.agents[agent]));
                self.agents[agent] = free;
                // The sender goes on when its agent is done with the message.
                self.at(free, Event::Issued(producer));
            }
            Form::Counted => {
                self.issue(producer, Operation::FetchAdd, time);
            }
            Form::Locked => {
                self.issue(producer, Operation::FetchOr, time);
            }
        }
    }

    fn inserted(&mut self, producer: usize, time: u64) {
        let Producer { sent, since } = &mut self.producers[producer];
        *sent += 1;
        self.samples.push((time - *since) as f64);
        if *sent < MESSAGES {
            self.begin(producer, time);
        }
    }

    /// The adapter serves an operation; its answer goes back.
    fn serve(&mut self, producer: usize, operation: Operation) {
        self.free = self.free.max(self.now) + SERVICE;
        let old = match operation {
            Operation::Put => 0,
            Operation::FetchAdd => {
                self.reserved += 1;
                self.reserved - 1
            }
            Operation::Add => {
                self.settled += 1;
                self.settled - 1
            }
            Operation::FetchOr => u64::from(std::mem::replace(&mut self.locked, true)),
            Operation::Unlock => {
                assert!(self.locked, "only who holds the lock gives it back");
                self.locked = false;
                0
            }
        };
        let back = self.free + self.near(PIPELINED / 2);
        self.at(back, Event::Answered(producer, operation, old));
    }

    fn answered(&mut self, producer: usize, operation: Operation, old: u64) {
        let now = self.now;
        match (self.form, operation) {
            (Form::Counted, Operation::FetchAdd) => {
                let ticket = counted::ticket(old, 1, SLOTS).expect("a half has space for all");
                assert!(ticket.offset() < SLOTS);
                self.issue(producer, Operation::Put, now);
            }
            // The put is complete: it may be finalised.
            (Form::Counted, Operation::Put) => {
                let free = self.issue(producer, Operation::Add, now);
                self.inserted(producer, free);
            }
            (Form::Locked, Operation::FetchOr) if old == 0 => {
                let free = self.issue(producer, Operation::Put, now);
                let free = self.issue(producer, Operation::Unlock, free);
                self.inserted(producer, free);
            }
            (Form::Locked, Operation::FetchOr) => {
                self.issue(producer, Operation::FetchOr, now);
            }
            _ => {}
        }
    }

    /// Runs to the end.
    fn run(mut self) -> Self {
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            self.now = time;
            match event {
                Event::Arrives(producer, operation) => self.serve(producer, operation),
                Event::Issued(producer) => self.inserted(producer, time),
                Event::Answered(producer, operation, old) => {
                    self.answered(producer, operation, old)
                }
            }
        }
        let all = self.producers.len() * MESSAGES as usize;
        assert_eq!(self.samples.len(), all, "every message is inserted");
        if self.form == Form::Counted {
            assert_eq!(self.settled, all as u64, "every reservation is finalised");
        }
        self
    }
}

fn network(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "queue-network",
        "many to one over a modelled network: time to insert a message, operations for each",
        &[
            "senders",
            "ring",
            "p99",
            "ops",
            "nodes",
            "p99",
            "ops",
            "scmp-counted",
            "p99",
            "ops",
            "locked",
            "p99",
            "ops",
        ],
    );
    let seeds = if context.quick { 40 } else { 400 };
    let mut chart = Chart::new(
        "senders",
        Unit::None,
        "time to insert a message, 99th percentile",
        Unit::Nanoseconds,
    );
    let mut curves = vec![Vec::new(); Form::ALL.len()];
    let rows = vec![1usize, 2, 4, 8, 16, 24, 32, 48, 64];
    for producers in context.progress("queue-network", rows) {
        let mut cells = vec![Cell::count(producers as u64)];
        for (form, curve) in Form::ALL.into_iter().zip(&mut curves) {
            let (mut samples, mut operations) = (Vec::new(), 0);
            for seed in 1..=seeds {
                let run = Run::new(form, producers, seed).run();
                operations += run.operations;
                samples.extend(run.samples);
            }
            samples.sort_by(f64::total_cmp);
            let high = quantile(&samples, 0.99);
            chart.point(form.name(), producers as f64, high);
            curve.push((producers as f64, high));
            cells.push(Cell::time(quantile(&samples, 0.5)));
            cells.push(Cell::time(high));
            cells.push(Cell::number(operations as f64 / samples.len() as f64, 1, ""));
        }
        table.row(cells);
    }
    table.chart = Some(chart);
    notes(&mut table, &curves);
    Ok(table)
}

/// What the curves of the forms say, in their order.
fn notes(table: &mut Table, curves: &[Vec<(f64, f64)>]) {
    let [ring, nodes, scmp, locked] = [0, 1, 2, 3].map(|at: usize| slope(&curves[at]));
    let full = |&&(senders, _): &&(f64, f64)| senders >= f64::from(PER_NODE);
    let beyond: Vec<_> = curves[1].iter().filter(full).copied().collect();
    table.note(
        "Virtual time, the same on every machine: α_r 380 ns, α_p 880 ns (published, table 4.1). Assumed are 6 \
         ns of the receiver's adapter for each operation (published is such a gap of the sender's, chapter 4) and delays that vary by a tenth. The put of \
         scmp-counted is complete before it is finalised.",
    );
    table.note(format!(
        "Slope of the 99th percentile, ns for each further sender (figure 6.12): ring {ring:.1}, nodes \
         {nodes:.1} ({:.1} from {PER_NODE} senders on, when a node is full), scmp-counted {scmp:.1}, locked {locked:.1}: the \
         lock's is {:.0} times SCMP's in this model, which is no measurement; queue-lanes measures it. Published: SCMP \
         about 10 times better than the lock, with the shape of the mailboxes (figures only); here more, \
         since this network is never congested but at the receiver.",
        slope(&beyond),
        locked / scmp
    ));
    let flight = (PIPELINED / 2) as f64;
    let [ring, scmp] = [0, 2].map(|at: usize| curves[at][0].1 + flight);
    // Of 128 bytes and more msgq sends a request, and the receiver reads them.
    let offered = ring + (REQUIRED + PIPELINED) as f64;
    table.note(format!(
        "nodes: a message of 128 bytes or more is offered and read, in {:.1} x the time of a shorter one here \
         (published, in the text of the latencies: msgq goes from about 3 to about 9 us there). An agent issues a message in α_r, so that the 24 \
         senders of a node wait for each other at their own node.",
        offered / ring
    ));
    table.note(format!(
        "One sender, until the message is there: scmp-counted {:.1} x the ring (published, measured at \
         8 bytes, in the same text: 3.5 x). This is the model's figure, from its own constants.",
        scmp / ring
    ));
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] =
    &[("queue-network", "many to one over a modelled network", network)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_the_same_again_and_one_sender_never_waits() {
        for form in Form::ALL {
            let samples = |seed| Run::new(form, 9, seed).run().samples;
            assert_eq!(samples(3), samples(3));
            assert_ne!(samples(3), samples(4));
        }
        let alone = |form| {
            let run = Run::new(form, 1, 1).run();
            run.operations as f64 / run.samples.len() as f64
        };
        assert_eq!(Form::ALL.map(alone)[..3], [1.0, 1.0, 3.0]);
        assert!(alone(Form::Locked) >= 3.0);
    }

    #[test]
    fn a_lock_that_is_held_is_tried_again_and_a_counter_is_not() {
        let operations = |form| {
            let run = Run::new(form, 32, 1).run();
            run.operations as f64 / run.samples.len() as f64
        };
        assert_eq!(operations(Form::Counted), 3.0, "add, put, add");
        let alone = Run::new(Form::Locked, 1, 1).run();
        let alone = alone.operations as f64 / alone.samples.len() as f64;
        assert!(operations(Form::Locked) > alone, "nobody has found it held");
    }
}
