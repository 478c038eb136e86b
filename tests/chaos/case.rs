//! A case: a program, a network and a job, all from one seed.

use std::fmt;

use bowline::simulate::{Death, Faults, Moment, NetworkPartition, Random, SimulatedJob};
use bowline_model::coll::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Form, Reduce, ReduceScatter, Scan, Tree,
};
use bowline_model::coll::wanted::STAGED;

use crate::layers::LAYERS;
use crate::plan::{Plan, Step, What};

/// What goes wrong beyond what links hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nothing: every call must succeed.
    None,
    /// Ranks die.
    Deaths,
    /// A partition does not heal in time.
    Parted,
}

/// A case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) trouble: Trouble,
    pub(crate) job: SimulatedJob,
    pub(crate) plan: Plan,
    /// Whether senders of batches change a byte, to try the oracle.
    pub(crate) corrupt: bool,
    /// Whether one member of each nonblocking and persistent collective does so.
    pub(crate) corrupt_collectives: bool,
    /// A message that is never sent, to try the search for deadlocks.
    forgotten: Option<usize>,
}

/// What is asked for of allreduces beside the forms. Communicators whose size a schedule does not suit do without it.
const ALLREDUCES: &[&str] = &[
    "multiplying",
    "multiplying:9",
    "a4",
    "a3,a2",
    "a4,a2",
    "s4,a2,g4",
    "m1g2a3,n1g3a2",
    "c6m2,a4,e6m2",
];

/// Every algorithm that a setting names: `auto` twice, the forms, and some more.
fn algorithms<F: Form>(others: &[&'static str]) -> Vec<&'static str> {
    let forms = F::NAMED.iter().map(|(name, _)| *name);
    ["auto", "auto"].into_iter().chain(forms).chain(others.iter().copied()).collect()
}

fn one_of<T: Copy>(random: &mut Random, values: &[T]) -> T {
    values[random.below(values.len() as u64) as usize]
}

impl Case {
    /// The case of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x6368_616f_7300);
        let ranks = 2 + random.below(7) as u32;
        let trouble = match random.below(10) {
            0..5 => Trouble::None,
            5..9 => Trouble::Deaths,
            _ => Trouble::Parted,
        };
        let mut job = SimulatedJob::new(ranks, random.word());
        job.label = format!("to replay:\n  {}\n", crate::command(seed));
        job.limit_ns = 600_000_000_000;
        job.oversubscribed = random.below(3) == 0;
        network(&mut job, &mut random);
        settings(&mut job, &mut random);
        if random.below(3) == 0 {
            nodes(&mut job, &mut random);
        }
        match trouble {
            Trouble::None => {}
            Trouble::Deaths => deaths(&mut job, &mut random),
            Trouble::Parted => parted(&mut job, &mut random),
        }
        let plan = Plan::random(&mut random.fork(), ranks as usize, job.network.max_bcopy);
        Self {
            seed,
            trouble,
            job,
            plan,
            corrupt: false,
            corrupt_collectives: false,
            forgotten: None,
        }
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.trouble == Trouble::None
    }

    /// Leaves out the sending of one message.
    pub(crate) fn forget_a_receiver(&mut self) {
        let from_to = |what: &What| matches!(what, What::Message { .. });
        let found = self.plan.steps.iter().find(|step| from_to(&step.what));
        self.forgotten = found.map(|step| step.number);
        if found.is_none() {
            let family = self.plan.families[0].clone();
            assert!(family[0].len() > 1, "cases have two ranks at least");
            let what = What::Message {
                from: 0,
                to: 1,
                len: 8,
                give: crate::plan::Give::Blocking,
                take: crate::plan::Take::Exact,
            };
            let number = 1000;
            self.plan.steps.insert(0, Step { number, family: 0, group: 0, what });
            self.forgotten = Some(number);
        }
    }

    pub(crate) fn is_forgotten(&self, step: usize) -> bool {
        self.forgotten == Some(step)
    }
}

fn network(job: &mut SimulatedJob, random: &mut Random) {
    let network = &mut job.network;
    network.latency_ns = one_of(random, &[0, 100, 1000, 50_000]);
    network.gap_ns = one_of(random, &[0, 10, 380]);
    network.byte_ps = one_of(random, &[0, 98, 10_000]);
    network.jitter_ns = one_of(random, &[0, 100, 5000, 200_000]);
    network.slots = one_of(random, &[1, 2, 3, 8, 64]);
    network.outstanding = one_of(random, &[1, 4, 4096]);
    network.max_bcopy = one_of(random, &[512, 1024, 8192]);
    network.max_short = one_of(random, &[0, 8, 32, 128]);
    network.one_sided = random.below(4) != 0;
    network.whole_process = random.below(3) != 0;
    network.puts_ordered = random.below(2) == 0;
    network.put_before_atomic = random.below(2) == 0;
    network.detect_ns = one_of(random, &[0, 1000, 1_000_000, 100_000_000]);
    network.detect_jitter_ns = one_of(random, &[0, 1000, 10_000_000]);
    if random.below(3) != 0 {
        network.faults = Faults {
            loss: one_of(random, &[0, 10_000, 300_000]),
            retransmit_ns: one_of(random, &[1000, 100_000]),
            duplicate: one_of(random, &[0, 10_000, 300_000]),
            reorder: one_of(random, &[0, 10_000, 300_000]),
            reorder_ns: one_of(random, &[1000, 1_000_000]),
        };
    }
    if random.below(5) == 0 {
        let from_ns = random.below(2_000_000);
        let until_ns = from_ns + random.below(5_000_000);
        let side = (0..job.ranks).filter(|_| random.below(2) == 0).collect();
        network.partitions.push(NetworkPartition { from_ns, until_ns, side });
    }
}

fn settings(job: &mut SimulatedJob, random: &mut Random) {
    for (name, values) in [
        ("BOWLINE_RNDV_THRESHOLD", &["auto", "auto", "0", "1000", "20000", "64m"][..]),
        ("BOWLINE_EAGER_SHARE_FIRST", &["1k", "5000", "64k"]),
        ("BOWLINE_EAGER_SHARE", &["1k", "64k", "512k"]),
        ("BOWLINE_UNEXPECTED_BUDGET", &["0", "100k", "64m"]),
        ("BOWLINE_SELF_SLOTS", &["2", "256"]),
        ("BOWLINE_SELF_BUFFERS", &["2", "64"]),
        ("BOWLINE_COLL_COSTS", &["auto", "auto", "tcp", "shm", "tcp,pipelining=100000"]),
    ] {
        job.config.set_text(name, one_of(random, values)).expect("the values are good");
    }
    // Ranks of the simulator share no memory, so that they go by messages where it is asked for.
    for (name, values) in [
        ("BOWLINE_BARRIER", algorithms::<Barrier>(&[STAGED])),
        ("BOWLINE_BCAST", algorithms::<Bcast>(&[STAGED])),
        ("BOWLINE_REDUCE", algorithms::<Reduce>(&[STAGED])),
        ("BOWLINE_ALLREDUCE", algorithms::<Allreduce>(&[ALLREDUCES, &[STAGED]].concat())),
        ("BOWLINE_GATHER", algorithms::<Tree>(&[STAGED])),
        ("BOWLINE_SCATTER", algorithms::<Tree>(&[])),
        ("BOWLINE_ALLGATHER", algorithms::<Allgather>(&[STAGED])),
        ("BOWLINE_ALLTOALL", algorithms::<Alltoall>(&[STAGED])),
        ("BOWLINE_REDUCE_SCATTER", algorithms::<ReduceScatter>(&[STAGED])),
        ("BOWLINE_SCAN", algorithms::<Scan>(&[])),
    ] {
        job.config.set_text(name, one_of(random, &values)).expect("the values are good");
    }
}

/// Two to four nodes, of consecutive ranks or not. Messages between them are dear, and of every second collective layers
/// are asked for.
fn nodes(job: &mut SimulatedJob, random: &mut Random) {
    let (count, ranks) = (2 + random.below(3) as u32, job.ranks);
    job.nodes = match random.below(3) {
        0 => (0..ranks).map(|_| random.below(u64::from(count)) as u32).collect(),
        1 => (0..ranks).map(|rank| rank % count).collect(),
        _ => (0..ranks).map(|rank| rank * count / ranks).collect(),
    };
    let costs = one_of(random, &["shm/tcp", "shm/tcp,pipelining=1000000"]);
    job.config.set_text("BOWLINE_COLL_COSTS", costs).expect("the costs are good");
    for (name, values) in LAYERS {
        let value = if random.below(2) == 0 { "auto" } else { one_of(random, values) };
        job.config.set_text(name, value).expect("the values are good");
    }
}

fn deaths(job: &mut SimulatedJob, random: &mut Random) {
    let count = one_of(random, &[1, 1, 1, 2]).min(job.ranks - 1);
    for _ in 0..count {
        let node = random.below(u64::from(job.ranks)) as u32;
        let when = if random.below(2) == 0 {
            let most = one_of(random, &[10_000, 300_000, 10_000_000]);
            Moment::At(random.below(most))
        } else {
            let most = one_of(random, &[5, 50, 500]);
            Moment::Operation(1 + random.below(most))
        };
        job.network.deaths.push(Death { node, when });
    }
}

fn parted(job: &mut SimulatedJob, random: &mut Random) {
    let latest = one_of(random, &[10_000, 300_000, 5_000_000]);
    let from_ns = random.below(latest);
    let side = (0..1 + random.below(u64::from(job.ranks) - 1) as u32).collect();
    job.network.unreachable_ns = one_of(random, &[10_000, 1_000_000, 50_000_000]);
    job.network.partitions = vec![NetworkPartition { from_ns, until_ns: u64::MAX, side }];
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {} ranks, trouble: {:?}", self.seed, self.job.ranks, self.trouble)?;
        writeln!(f, "{:#?}", self.job.network)?;
        writeln!(f, "oversubscribed: {}", self.job.oversubscribed)?;
        writeln!(f, "nodes: {:?}", self.job.nodes)?;
        for (number, family) in self.plan.families.iter().enumerate() {
            writeln!(f, "family {number}: {family:?}")?;
        }
        for (number, step) in self.plan.steps.iter().enumerate() {
            let Step { family, group, what, .. } = step;
            writeln!(f, "step {number} ({family}.{group}): {what:?}")?;
        }
        Ok(())
    }
}
