//! A program: a sequence of steps that all ranks go through in one order, each of them free of
//! deadlock by itself. So the whole is, whatever the network does.
//!
//! Tags: a step uses its own eight, so that a message of a later step, whose sender is ahead, does
//! not fit a receive of this one. Receives from anyone with any tag would take it nevertheless;
//! such a step ends with a barrier.

use bowline::simulate::Random;

use crate::background::{Begun, Duplicated};
use crate::batch::{Batch, Mode, stable};
use crate::collective::{COLLECTIVES, COMBINES, Collective, Combine, NEIGHBORLY, Which};
use crate::neighbors::Neighbors;

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
    /// Cancelled after some polls, and received again if that came in time.
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

/// What happens in a step, in ranks of its communicator.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Many nonblocking messages at once.
    Batch(Batch),
    /// One message.
    Message { from: usize, to: usize, len: usize, give: Give, take: Take },
    /// Everybody sends to one distance and receives from the other.
    Shift { by: usize, len: usize, replace: bool },
    /// A blocking collective.
    Collective(Collective),
    /// Nonblocking collectives and duplications of any communicators, under way while the steps are gone through.
    Around { begun: Vec<Begun>, duplicated: Vec<Duplicated>, inner: Vec<Step> },
    /// Makes a persistent collective.
    Make { slot: usize, collective: Collective },
    /// Starts persistent collectives of any communicators.
    Start { slots: Vec<usize> },
    /// Ends them.
    Finish { slots: Vec<usize> },
    /// Drops one, which may be under way.
    Discard { slot: usize },
    /// A receive that nobody sends to, cancelled.
    Cancel { rank: usize, any: bool },
    /// A rank that is busy with something else.
    Busy { rank: usize, polls: u32 },
    /// Makes family `into` of the same ranks.
    Dup { into: usize },
    /// Makes family `into`; colours and keys by rank, a negative colour for none.
    Split { into: usize, colors: Vec<i32>, keys: Vec<i32> },
    /// Makes family `into` of the first ranks, with the neighbours that the program has for it.
    Place { into: usize },
    /// Everybody lets go of the communicator.
    Free,
}

/// A step of one communicator, or of all ranks.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// No other step has it.
    pub(crate) number: usize,
    pub(crate) family: usize,
    pub(crate) group: usize,
    pub(crate) what: What,
}

impl What {
    /// Whether all ranks take part, each in what it is a member of.
    pub(crate) const fn is_everybodys(&self) -> bool {
        matches!(
            self,
            Self::Around { .. } | Self::Start { .. } | Self::Finish { .. } | Self::Discard { .. }
        )
    }
}

/// A program.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) families: Vec<Family>,
    /// Of those that have a topology and so one communicator, the neighbours.
    pub(crate) neighbors: Vec<Option<Neighbors>>,
    pub(crate) steps: Vec<Step>,
    /// Persistent collectives.
    pub(crate) slots: usize,
}

/// Where a persistent collective stands at the members of its communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Inactive,
    Active,
    Gone,
}

/// A program that is being made up.
struct Maker<'a> {
    random: &'a mut Random,
    bcopy: usize,
    families: Vec<Family>,
    neighbors: Vec<Option<Neighbors>>,
    freed: Vec<bool>,
    /// Persistent collectives.
    slots: Vec<Stand>,
    steps: usize,
}

/// A length near which the protocol changes: short, inline and packed messages, credit,
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
        let mut maker = Maker {
            random,
            bcopy,
            families: vec![vec![(0..ranks).collect()]],
            neighbors: vec![None],
            freed: vec![false],
            slots: Vec::new(),
            steps: 0,
        };
        let count = 6 + maker.below(30);
        let mut steps = Vec::new();
        (0..count).for_each(|_| steps.push(maker.step(2)));
        let left = maker.standing(Stand::Active);
        steps.push(maker.numbered(0, 0, What::Finish { slots: left }));
        // Everybody depends on everybody in the end.
        let barrier = Collective { which: Which::Barrier, combine: Combine::Add, root: 0, len: 0 };
        steps.push(maker.numbered(0, 0, What::Collective(barrier)));
        let Maker { families, neighbors, slots, .. } = maker;
        Self { families, neighbors, steps, slots: slots.len() }
    }
}

impl Maker<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    fn numbered(&mut self, family: usize, group: usize, what: What) -> Step {
        self.steps += 1;
        Step { number: self.steps - 1, family, group, what }
    }

    fn open(&self) -> Vec<usize> {
        (0..self.freed.len()).filter(|&family| !self.freed[family]).collect()
    }

    /// A communicator.
    fn some(&mut self) -> (usize, usize) {
        let open = self.open();
        let family = open[self.below(open.len())];
        let group = self.below(self.families[family].len());
        (family, group)
    }

    /// A step, around which others may stand to some depth.
    fn step(&mut self, depth: usize) -> Step {
        let (family, group) = self.some();
        let size = self.families[family][group].len();
        let what = self.what(family, group, size, depth);
        self.numbered(family, group, what)
    }

    fn what(&mut self, family: usize, group: usize, size: usize, depth: usize) -> What {
        let (rank, open) = (self.below(size), self.open().len());
        match self.below(136) {
            0..35 => What::Batch(batch(self.random, size, self.bcopy)),
            35..55 if size > 1 => {
                let to = (rank + 1 + self.below(size - 1)) % size;
                let len = length(self.random, self.bcopy);
                let (give, take) = (give(self.random), take(self.random));
                What::Message { from: rank, to, len, give, take }
            }
            35..62 => {
                let (by, len) = (self.below(size), length(self.random, self.bcopy));
                What::Shift { by, len, replace: self.below(2) == 0 }
            }
            62..85 => What::Collective(self.collective(family, size)),
            85..88 => What::Cancel { rank, any: self.below(2) == 0 },
            88..92 => What::Busy { rank, polls: self.below(50) as u32 },
            // A call on one group of a family makes a family of its own.
            92..95 if open < 5 => What::Dup { into: self.duplicate(family, group) },
            95..98 if open < 5 => self.split(family, group, size),
            98..100 if family != 0 && self.families[family].len() == 1 => {
                self.freed[family] = true;
                What::Free
            }
            100..115 if depth > 0 => self.around(depth),
            100..130 => self.persistent(family, size),
            130..136 if open < 5 => self.place(family, group, size),
            _ => What::Busy { rank, polls: 3 },
        }
    }

    /// The number of a new family.
    fn add(&mut self, family: Family, neighbors: Option<Neighbors>) -> usize {
        self.families.push(family);
        self.neighbors.push(neighbors);
        self.freed.push(false);
        self.families.len() - 1
    }

    /// A family of one communicator, which has the topology of the first one.
    fn duplicate(&mut self, family: usize, group: usize) -> usize {
        let ranks = self.families[family][group].clone();
        self.add(vec![ranks], self.neighbors[family].clone())
    }

    fn collective(&mut self, family: usize, size: usize) -> Collective {
        // In words; large enough for every algorithm to be chosen at times.
        let most = [2, 20, 300, 3000, 20_000][self.below(5)];
        let neighborly = self.neighbors[family].is_some() && self.below(2) == 0;
        let all: &[Which] = if neighborly { &NEIGHBORLY } else { &COLLECTIVES };
        Collective {
            which: all[self.below(all.len())],
            combine: COMBINES[self.below(COMBINES.len())],
            root: self.below(size),
            len: self.below(most) / size,
        }
    }

    fn around(&mut self, depth: usize) -> What {
        let mut begun = Vec::new();
        for _ in 0..1 + self.below(5) {
            let (family, group) = self.some();
            let collective = self.collective(family, self.families[family][group].len());
            begun.push(Begun { family, group, collective });
        }
        let many = self.below(3) / 2 * (1 + self.below(2));
        let originals: Vec<_> = (0..many).map(|_| self.some()).collect();
        let inner = (0..self.below(6)).map(|_| self.step(depth - 1)).collect();
        // Nobody has them before the end.
        let mut duplicated = Vec::new();
        for (family, group) in originals {
            if self.open().len() < 5 {
                duplicated.push(Duplicated { family, group, into: self.duplicate(family, group) });
            }
        }
        What::Around { begun, duplicated, inner }
    }

    fn standing(&self, stand: Stand) -> Vec<usize> {
        (0..self.slots.len()).filter(|&slot| self.slots[slot] == stand).collect()
    }

    /// Something about persistent collectives.
    fn persistent(&mut self, family: usize, size: usize) -> What {
        let (inactive, active) = (self.standing(Stand::Inactive), self.standing(Stand::Active));
        let some = |maker: &mut Self, of: &[usize], stand: Stand| -> Vec<usize> {
            let mut slots: Vec<usize> =
                of.iter().copied().filter(|_| maker.below(4) != 0).collect();
            if slots.is_empty() {
                slots.push(of[0]);
            }
            slots.iter().for_each(|&slot| maker.slots[slot] = stand);
            slots
        };
        match self.below(12) {
            0..4 if !active.is_empty() => {
                What::Finish { slots: some(self, &active, Stand::Inactive) }
            }
            4..9 if !inactive.is_empty() => {
                What::Start { slots: some(self, &inactive, Stand::Active) }
            }
            9 if !active.is_empty() || !inactive.is_empty() => {
                let there = [active, inactive].concat();
                let slot = there[self.below(there.len())];
                self.slots[slot] = Stand::Gone;
                What::Discard { slot }
            }
            _ => {
                let mut collective = self.collective(family, size);
                if matches!(collective.which, Which::Alltoallw | Which::NeighborAlltoallw) {
                    // Blocks of its own that are large may lie farther apart than a persistent exchange can reach.
                    collective.len = collective.len.min(300);
                }
                self.slots.push(Stand::Inactive);
                What::Make { slot: self.slots.len() - 1, collective }
            }
        }
    }

    fn split(&mut self, family: usize, group: usize, size: usize) -> What {
        let colors: Vec<i32> = (0..size).map(|_| self.below(4) as i32 - 1).collect();
        let keys: Vec<i32> = (0..size).map(|_| self.below(5) as i32 - 2).collect();
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
            return What::Busy { rank: 0, polls: 1 };
        }
        What::Split { into: self.add(made, None), colors, keys }
    }

    /// A grid or a graph.
    fn place(&mut self, family: usize, group: usize, size: usize) -> What {
        let neighbors = match self.below(4) {
            0..2 => Neighbors::grid(self.random, size),
            2 => Neighbors::graph(self.random, size, false),
            _ => Neighbors::graph(self.random, size, true),
        };
        let ranks = self.families[family][group][..neighbors.to.len()].to_vec();
        What::Place { into: self.add(vec![ranks], Some(neighbors)) }
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
