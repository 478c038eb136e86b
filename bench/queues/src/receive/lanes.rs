//! Many to one through the whole engine: workers over the simulated network, whose messages are the
//! transport's own, or go through a receive queue by puts and atomics.
//!
//! Time is virtual. Of the network's parameters ([`NetworkOptions`]'s default) two are published by M. Rüfenacht's thesis
//! (Edinburgh 2020): 380 ns between two departures, the required latency of 8 to 128 bytes (table 4.1), and 10.2 GB/s (chapter
//! 4, where its model is compared with LogP). The way is ours: what follows a departure until its acknowledgement is back is
//! published as 880 ns (8 bytes, table 4.1); here each of the two ways takes 1 us, a round figure, and up to 100 ns more by
//! lot, so that an answer is back after 2.3 to 2.5 times as long.

use anyhow::{Context as _, Result, bail};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_receive_queue::with_messages;
use bowline_sim::{Network, NetworkOptions};
use bowline_ucp::{
    Envelope, Ep, Idle, MatchSpec, SendMode, Sent, SpaceOptions, Stages, Waiter, Worker,
    WorkerParts,
};
use bowline_uct::Iface;

use super::locked_lane::LockedLane;
use super::many::{quantile, slope};
use super::memory::PER_NODE;
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// Messages of each sender in a burst, as published (figures 6.9 to 6.12).
const MESSAGES: u64 = 8;

/// Messages of each sender before, where those who send most get rings.
const WARM: u64 = 48;

/// Slots of a half, as in the experiments of chapter 6.
const SLOTS: u32 = 1024;

/// The queues to compare with, which no setting names: one that senders lock, and a ring for each node (the thesis's msgq), by
/// which one process of the node sends for all that are there.
const LOCKED: &str = "locked";
const NODES: &str = "nodes";

/// Steps of the network after which a burst is given up.
const MOST_STEPS: u32 = 10_000_000;

/// Nothing here calls what blocks.
#[derive(Debug)]
struct Never;

impl Waiter for Never {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: 0 }
    }
    fn yield_now(&mut self) {}
    fn sleep(&mut self, _: Idle<'_>) {
        unreachable!("nothing that blocks is called")
    }
}

/// A receiver and its senders.
struct Job {
    network: Network,
    /// The receiver first.
    workers: Vec<Worker>,
    /// Of the others, to the receiver.
    eps: Vec<Ep>,
    senders: usize,
    /// For how many senders each of the others sends. What these hand to it in their node's memory takes no virtual time.
    shared_by: usize,
}

/// What a burst took.
struct Burst {
    /// Nanoseconds from its start to the arrival of each sender's last message.
    arrivals: Vec<f64>,
    /// Operations posted for each message.
    operations: f64,
}

impl Job {
    /// `queue` is what `BOWLINE_RECV_QUEUE` says, [`LOCKED`] or [`NODES`].
    fn new(senders: usize, queue: &str, seed: u64) -> Result<Self> {
        let network = Network::new(NetworkOptions {
            seed,
            jitter_ns: 100,
            slots: 1024,
            ..NetworkOptions::default()
        });
        let setting = match queue {
            LOCKED => "auto",
            NODES => "ring",
            other => other,
        };
        let shared_by = if queue == NODES { PER_NODE as usize } else { 1 };
        let slots = SLOTS.to_string();
        let settings =
            [("BOWLINE_RECV_QUEUE", setting), ("BOWLINE_RECV_QUEUE_SLOTS", slots.as_str())];
        let tables = [bowline_ucp::SETTINGS, bowline_receive_queue::SETTINGS];
        let config = Config::from_pairs(settings, &tables)?;
        let workers = (0..=senders.div_ceil(shared_by))
            .map(|rank| {
                let uid = rank as u64 + 1;
                let network = Box::new(network.open());
                let lane: Box<dyn Iface> = if queue == LOCKED {
                    Box::new(LockedLane::open(network, SLOTS, rank as u16)?)
                } else {
                    with_messages(network, &config, uid)?
                };
                let worker = Worker::new(WorkerParts {
                    job: 1,
                    rank: rank as u32,
                    incarnation: 0,
                    uid,
                    lanes: vec![lane],
                    waiter: Box::new(Never),
                    failures: None,
                    config: config.clone(),
                })?;
                worker.open_space(0, SpaceOptions::default())?;
                Ok(worker)
            })
            .collect::<Result<Vec<_>>>()?;
        let address = workers[0].address();
        let eps = workers[1..]
            .iter()
            .map(|worker| worker.connect(&address).context("cannot connect"))
            .collect::<Result<_>>()?;
        Ok(Self { network, workers, eps, senders, shared_by })
    }

    /// Lets everything that is under way end.
    fn settle(&self) {
        let mut quiet = 0;
        while quiet < 3 {
            for worker in &self.workers {
                worker.progress();
            }
            quiet = if self.network.advance() { 0 } else { quiet + 1 };
        }
    }

    /// Every sender sends so many messages at once.
    fn burst(&self, messages: u64) -> Result<Burst> {
        let (receiver, others) = self.workers.split_first().expect("there is a receiver");
        let mut waiting = Vec::new();
        for source in 0..self.senders {
            for tag in 0..messages {
                let spec = MatchSpec {
                    space: 0,
                    source: Some(source as u32 + 1),
                    tag,
                    tag_mask: u64::MAX,
                };
                waiting.push((source, receiver.recv(spec, RecvBuf::owned(vec![0; 8]))?));
            }
        }
        self.settle();
        let posted = self.network.counters().posted;
        let start = self.network.now();
        let mut sends = Vec::new();
        for tag in 0..messages {
            for source in 0..self.senders {
                let by = source / self.shared_by;
                let envelope = Envelope { space: 0, source: source as u32 + 1, tag };
                let bytes = SendBuf::owned((source as u64 ^ tag).to_ne_bytes().to_vec());
                let sent = others[by].send(self.eps[by], envelope, bytes, SendMode::Standard)?;
                if let Sent::Pending(send) = sent {
                    sends.push((by, send));
                }
            }
        }
        let mut arrivals = vec![0.0; self.senders];
        let mut steps = 0;
        while !waiting.is_empty() || !sends.is_empty() {
            for worker in &self.workers {
                worker.progress();
            }
            let now = (self.network.now() - start) as f64;
            let mut wrong = None;
            waiting.retain(|&(source, receive)| {
                if !receiver.is_complete(receive) {
                    return true;
                }
                let status = receiver.wait(receive);
                if status.outcome.is_err() || status.length != 8 {
                    wrong = Some(status);
                }
                arrivals[source] = now;
                false
            });
            if let Some(status) = wrong {
                bail!("a message came as {status:?}");
            }
            sends.retain(|&(by, send)| {
                let pending = !others[by].is_complete(send);
                if !pending {
                    others[by].wait(send);
                }
                pending
            });
            self.network.advance();
            steps += 1;
            if steps > MOST_STEPS {
                bail!("{} messages never came", waiting.len());
            }
        }
        self.settle();
        let posted = self.network.counters().posted - posted;
        let operations = posted as f64 / (messages * self.senders as u64) as f64;
        Ok(Burst { arrivals, operations })
    }
}

/// Settings of `BOWLINE_RECV_QUEUE` and the queues to compare with, and what the table calls them. The network has messages
/// of its own, which `auto` uses.
const FORMS: [(&str, &str); 7] = [
    ("auto", "messages"),
    ("scmp", "scmp"),
    ("scmp-rings", "scmp-rings"),
    ("scmp-seq", "scmp-seq"),
    ("ring", "ring"),
    (LOCKED, "locked"),
    (NODES, "nodes"),
];

fn lanes(context: &Context) -> Result<Table> {
    let mut columns = vec!["senders"];
    for (_, name) in FORMS {
        columns.extend([name, "p99", "ops"]);
    }
    let mut table = Table::new(
        "queue-lanes",
        "many to one through the engine over a simulated network: until a sender's 8 messages are \
         there",
        &columns,
    );
    let mut chart = Chart::new(
        "senders",
        Unit::None,
        "virtual time until 8 messages are there, 99th percentile",
        Unit::Nanoseconds,
    );
    let (rows, seeds) = if context.quick {
        (vec![1usize, 2, 4, 8, 16, 32], 3)
    } else {
        (vec![1, 2, 4, 8, 16, 24, 32, 48, 64], 25)
    };
    let mut curves = vec![Vec::new(); FORMS.len()];
    // Operations for each message with the most senders.
    let mut posted = [0.0; FORMS.len()];
    for senders in context.progress("queue-lanes", rows) {
        let mut cells = vec![Cell::count(senders as u64)];
        for (((queue, name), curve), posted) in FORMS.into_iter().zip(&mut curves).zip(&mut posted)
        {
            let (mut samples, mut operations) = (Vec::new(), 0.0);
            for seed in 1..=seeds {
                let job = Job::new(senders, queue, seed)?;
                // Introductions and first contact; where there are rings, so much that they are used.
                job.burst(if queue == "scmp-rings" { WARM } else { 1 })?;
                let burst = job.burst(MESSAGES)?;
                samples.extend(burst.arrivals);
                operations += burst.operations / seeds as f64;
            }
            samples.sort_by(f64::total_cmp);
            let (half, high) = (quantile(&samples, 0.5), quantile(&samples, 0.99));
            chart.point(name, senders as f64, high);
            curve.push((senders as f64, high));
            *posted = operations;
            cells.extend([Cell::time(half), Cell::time(high), Cell::number(operations, 1, "")]);
        }
        table.row(cells);
    }
    table.chart = Some(chart);
    table.note(
        "messages: the transport's own active messages; the others: the same transport with this \
         BOWLINE_RECV_QUEUE, a queue that senders lock, and a ring for each node of 24 senders \
         (the thesis's msgq), through which one of them sends for all; what they hand to it takes no time here. ops: operations posted for each message; those that wait for a \
         reservation share the next one, hence fewer than the three of a message alone. scmp-rings \
         has sixteen rings: where there are more senders, the others stay in the queue.",
    );
    let slopes: Vec<f64> = curves.iter().map(|curve| slope(curve)).collect();
    let named = FORMS.iter().zip(&slopes).map(|((_, name), slope)| format!("{name} {slope:.1}"));
    table.note(format!(
        "Slope of the 99th percentile, ns for each further sender: {}. Published (figures 6.9 to 6.12): SCMP scales as the \
         mailboxes do, and is slower in absolute terms.",
        named.collect::<Vec<_>>().join(", ")
    ));
    table.note(format!(
        "Published, the locked queue grows about 10 times as steeply as SCMP. There a fetch-or takes the lock and reads the word; \
         here each guess of the word is a compare-and-swap of 1 us each way, and a release makes the guesses of all others wrong: \
         {:.1} operations for each message with the most senders, by SCMP {:.1}, whose fetch-and-adds overlap, since arrivals take \
         no time here.",
        posted[5], posted[1]
    ));
    let (scmp, locked) = (slopes[1], slopes[5]);
    table.goal(
        "the slope of SCMP is at most a tenth of that of the locked queue",
        format!("{scmp:.1} and {locked:.1} ns for each further sender"),
        scmp * 10.0 <= locked,
    );
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] =
    &[("queue-lanes", "many to one through the engine over a simulated network", lanes)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_by_the_queue_takes_three_operations() {
        let ops = |queue| {
            let job = Job::new(1, queue, 1).unwrap();
            job.burst(1).unwrap();
            let burst = job.burst(1).unwrap();
            assert_eq!(burst.arrivals.len(), 1);
            burst.operations
        };
        assert_eq!([ops("auto"), ops("scmp"), ops("ring")], [1.0, 3.0, 2.0]);
        // And guesses of the word, which the receiver has changed meanwhile.
        assert!(ops(LOCKED) > 3.0);
        // And a flush, which nothing waits for.
        assert_eq!(ops("scmp-seq"), 3.0);
    }

    #[test]
    fn senders_of_a_node_share_a_mailbox() {
        let senders = PER_NODE as usize + 1;
        let job = Job::new(senders, NODES, 1).unwrap();
        assert_eq!(job.workers.len(), 3, "the receiver, and one of each node");
        job.burst(1).unwrap();
        let burst = job.burst(2).unwrap();
        assert_eq!(burst.arrivals.len(), senders);
        let (alone, shared) =
            burst.arrivals.split_last().map(|(last, rest)| (*last, rest)).unwrap();
        let last = shared.iter().copied().fold(0.0, f64::max);
        assert!(last > alone, "{last} ns among {PER_NODE}, {alone} ns alone");
    }
}
