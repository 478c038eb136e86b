//! A program: a sequence of steps that all ranks go through in one order, each of them free of
//! deadlock by itself. So the whole is, whatever the network does.
//!
//! Tags: a step uses its own eight, so that a message of a later step, whose sender is ahead, does
//! not fit a receive of this one. Receives from anyone with any tag would take it all the same;
//! such a step ends with a barrier.

use bowline::simulate::Random;

use crate::batch::{Batch, Mode, stable};

/// Tags of a step.
pub(crate) const TAGS: i32 = 8;

/// Communicators made by one call: which ranks of the world are in each, in order.
pub(crate) type Family = Vec<Vec<usize>>;

/// How a single message is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    Exact,
    AnySource,
    AnyTag,
    Probe,
    ProbeAnySource,
    PollProbe,
    MatchedProbe,
    PollMatchedProbe,
    Test,
    /// Into a buffer of half its length.
    Short,
    /// Cancelled after some looks, and received again if that came in time.
    Cancel,
}

/// How a single message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Give {
    Blocking,
    Synchronous,
    Owned,
    Dropped,
    Scoped,
}

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Barrier,
    Bcast,
    Reduce,
    ReduceOrdered,
    Allreduce,
    AllreduceOrdered,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    Scan,
    Exscan,
    ReduceScatter,
}

const COLLECTIVES: [Which; 13] = [
    Which::Barrier,
    Which::Bcast,
    Which::Reduce,
    Which::ReduceOrdered,
    Which::Allreduce,
    Which::AllreduceOrdered,
    Which::Gather,
    Which::Scatter,
    Which::Allgather,
    Which::Alltoall,
    Which::Scan,
    Which::Exscan,
    Which::ReduceScatter,
];

/// What happens in a step, in ranks of its communicator.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Many nonblocking messages at once.
    Batch(Batch),
    /// One message.
    Message {
        from: usize,
        to: usize,
        len: usize,
        give: Give,
        take: Take,
    },
    /// Everybody sends to one distance and receives from the other.
    Shift {
        by: usize,
        len: usize,
        replace: bool,
    },
    Collective {
        which: Which,
        root: usize,
        len: usize,
    },
    /// A receive that nobody sends to, cancelled.
    Cancel {
        rank: usize,
        any: bool,
    },
    /// A rank that is busy with something else.
    Busy {
        rank: usize,
        looks: u32,
    },
    /// Makes family `into` of the same ranks.
    Dup {
        into: usize,
    },
    /// Makes family `into`; colours and keys by rank, a negative colour for none.
    Split {
        into: usize,
        colors: Vec<i32>,
        keys: Vec<i32>,
    },
    /// Everybody lets go of the communicator.
    Free,
}

/// A step of one communicator.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) family: usize,
    pub(crate) group: usize,
    pub(crate) what: What,
}

/// A program.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) families: Vec<Family>,
    pub(crate) steps: Vec<Step>,
}

/// A length near where something changes its ways: short, inline and packed messages, credit,
/// rendezvous.
fn length(random: &mut Random, bcopy: usize) -> usize {
    let near = [0, 1, 8, 32, 64, 128, 1000, bcopy, bcopy, 2 * bcopy, 4096, 16 * bcopy];
    let near = near[random.below(near.len() as u64) as usize];
    if random.below(40) == 0 {
        return 65_536 + random.below(200_000) as usize;
    }
    (near + random.below(5) as usize).saturating_sub(2).min(150_000)
}

impl Plan {
    pub(crate) fn random(random: &mut Random, ranks: usize, bcopy: usize) -> Self {
        let mut plan = Self { families: vec![vec![(0..ranks).collect()]], steps: Vec::new() };
        let mut freed = vec![false];
        let count = 6 + random.below(30);
        for _ in 0..count {
            let open: Vec<usize> = (0..freed.len()).filter(|&f| !freed[f]).collect();
            let family = open[random.below(open.len() as u64) as usize];
            let group = random.below(plan.families[family].len() as u64) as usize;
            let size = plan.families[family][group].len();
            let what = plan.what(random, family, group, size, bcopy, open.len());
            match what {
                What::Dup { .. } | What::Split { .. } => freed.push(false),
                What::Free => freed[family] = true,
                _ => {}
            }
            plan.steps.push(Step { family, group, what });
        }
        // Everybody depends on everybody in the end.
        let what = What::Collective { which: Which::Barrier, root: 0, len: 0 };
        plan.steps.push(Step { family: 0, group: 0, what });
        plan
    }

    fn what(
        &mut self,
        random: &mut Random,
        family: usize,
        group: usize,
        size: usize,
        bcopy: usize,
        open: usize,
    ) -> What {
        let below = |random: &mut Random, n: usize| random.below(n as u64) as usize;
        let rank = below(random, size);
        match random.below(100) {
            0..35 => What::Batch(batch(random, size, bcopy)),
            35..55 if size > 1 => {
                let to = (rank + 1 + below(random, size - 1)) % size;
                let len = length(random, bcopy);
                What::Message { from: rank, to, len, give: give(random), take: take(random) }
            }
            35..62 => {
                let (by, len) = (below(random, size), length(random, bcopy));
                What::Shift { by, len, replace: random.below(2) == 0 }
            }
            62..85 => {
                let which = COLLECTIVES[below(random, COLLECTIVES.len())];
                // In words; large enough for every algorithm to be chosen at times.
                let most = [2, 20, 300, 3000, 20_000][below(random, 5)];
                What::Collective { which, root: rank, len: below(random, most) / size }
            }
            85..88 => What::Cancel { rank, any: random.below(2) == 0 },
            88..92 => What::Busy { rank, looks: random.below(50) as u32 },
            // A call on one group of a family makes a family of its own.
            92..95 if open < 5 => {
                let ranks = self.families[family][group].clone();
                self.families.push(vec![ranks]);
                What::Dup { into: self.families.len() - 1 }
            }
            95..98 if open < 5 => self.split(random, family, group, size),
            98..100 if family != 0 && self.families[family].len() == 1 => What::Free,
            _ => What::Busy { rank, looks: 3 },
        }
    }

    fn split(&mut self, random: &mut Random, family: usize, group: usize, size: usize) -> What {
        let colors: Vec<i32> = (0..size).map(|_| random.below(4) as i32 - 1).collect();
        let keys: Vec<i32> = (0..size).map(|_| random.below(5) as i32 - 2).collect();
        let mut made = Family::new();
        for color in 0..3 {
            let mut members: Vec<usize> = (0..size).filter(|&r| colors[r] == color).collect();
            members.sort_by_key(|&rank| keys[rank]);
            let world = members.iter().map(|&rank| self.families[family][group][rank]).collect();
            if !members.is_empty() {
                made.push(world);
            }
        }
        if made.is_empty() {
            return What::Busy { rank: 0, looks: 1 };
        }
        self.families.push(made);
        What::Split { into: self.families.len() - 1, colors, keys }
    }
}

fn give(random: &mut Random) -> Give {
    [Give::Blocking, Give::Synchronous, Give::Owned, Give::Dropped, Give::Scoped]
        [random.below(5) as usize]
}

fn take(random: &mut Random) -> Take {
    [
        Take::Exact,
        Take::AnySource,
        Take::AnyTag,
        Take::Probe,
        Take::ProbeAnySource,
        Take::PollProbe,
        Take::MatchedProbe,
        Take::PollMatchedProbe,
        Take::Test,
        Take::Short,
        Take::Cancel,
    ][random.below(11) as usize]
}

fn batch(random: &mut Random, size: usize, bcopy: usize) -> Batch {
    let most = [3, 10, 60][random.below(3) as usize];
    let tiny = random.below(3) == 0;
    let mut batch = Batch::default();
    for _ in 0..1 + random.below(most) {
        let (from, to) = (random.below(size as u64) as usize, random.below(size as u64) as usize);
        let len = if tiny { random.below(40) as usize } else { length(random, bcopy) };
        batch.add(from, to, random.below(4) as i32, len, random.below(6) == 0);
    }
    for to in 0..size {
        let modes = [Mode::Exact, Mode::AnySource, Mode::AnyTag, Mode::Wild];
        let mode = modes[random.below(4) as usize];
        batch.receive(random, to, mode);
        debug_assert!(
            (0..size).all(|from| {
                batch.modes[to] != Mode::AnyTag || stable(&batch, from, to).is_some()
            })
        );
    }
    batch.style = random.word();
    batch
}
