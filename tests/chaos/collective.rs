//! Collectives of words: what each rank gives to one, and what it must get, computed by hand. How
//! they are called is in `calls`.

use crate::content::{mix, words};
use crate::neighbors::Member;

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Barrier,
    Bcast,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    /// The same with blocks of several types.
    Alltoallw,
    Reduce,
    Allreduce,
    ReduceScatterBlock,
    ReduceScatter,
    Scan,
    Exscan,
    NeighborAllgather,
    NeighborAllgatherv,
    NeighborAlltoall,
    NeighborAlltoallv,
    NeighborAlltoallw,
}

pub(crate) const COLLECTIVES: [Which; 17] = [
    Which::Barrier,
    Which::Bcast,
    Which::Gather,
    Which::Gatherv,
    Which::Scatter,
    Which::Scatterv,
    Which::Allgather,
    Which::Allgatherv,
    Which::Alltoall,
    Which::Alltoallv,
    Which::Alltoallw,
    Which::Reduce,
    Which::Allreduce,
    Which::ReduceScatterBlock,
    Which::ReduceScatter,
    Which::Scan,
    Which::Exscan,
];

/// Those of communicators with a topology.
pub(crate) const NEIGHBORLY: [Which; 5] = [
    Which::NeighborAllgather,
    Which::NeighborAllgatherv,
    Which::NeighborAlltoall,
    Which::NeighborAlltoallv,
    Which::NeighborAlltoallw,
];

/// How words are combined. Sums of the library may not overflow; these may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    /// A closure that commutes.
    Add,
    /// An operation of the library.
    Xor,
    /// A closure that does not commute.
    Compose,
}

pub(crate) const COMBINES: [Combine; 3] = [Combine::Add, Combine::Xor, Combine::Compose];

/// The maps x -> ax + b over wrapping words of half the length, both in one word: composition is
/// associative and does not commute.
pub(crate) fn compose(left: u64, right: u64) -> u64 {
    let ((a, b), (c, d)) = ((left >> 32, left as u32), (right >> 32, right as u32));
    let product = (a as u32).wrapping_mul(c as u32);
    u64::from(product) << 32 | u64::from((c as u32).wrapping_mul(b).wrapping_add(d))
}

impl Combine {
    fn of(self, left: u64, right: u64) -> u64 {
        match self {
            Self::Add => left.wrapping_add(right),
            Self::Xor => left ^ right,
            Self::Compose => compose(left, right),
        }
    }

    /// The contributions of some ranks, from the lowest to the highest.
    fn all(self, seed: u64, ranks: std::ops::Range<usize>, len: usize) -> Vec<u64> {
        let each = ranks.map(|rank| contribution(seed, rank, len));
        let both = |left: Vec<u64>, right: Vec<u64>| {
            left.iter().zip(&right).map(|(&left, &right)| self.of(left, right)).collect()
        };
        each.reduce(both).expect("there is a rank")
    }
}

/// A rank's words. Factors of maps are odd, so that nothing becomes zero.
fn contribution(seed: u64, rank: usize, len: usize) -> Vec<u64> {
    words(seed, rank, len).into_iter().map(|word| word | 1 << 32).collect()
}

/// What is in places that nothing is sent to.
pub(crate) const UNTOUCHED: u64 = 0x5555_aaaa_5555_aaaa;

/// A collective of a communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collective {
    pub(crate) which: Which,
    pub(crate) combine: Combine,
    pub(crate) root: usize,
    /// Words of a rank, or of a block; where blocks differ, of the longest.
    pub(crate) len: usize,
}

/// Blocks of different lengths, with a word between neighbours.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) counts: Vec<usize>,
    pub(crate) places: Vec<usize>,
}

impl Blocks {
    fn new(counts: Vec<usize>) -> Self {
        let places =
            counts.iter().scan(0, |at, &count| Some(std::mem::replace(at, *at + count + 1)));
        Self { places: places.collect(), counts }
    }

    pub(crate) fn extent(&self) -> usize {
        self.counts.iter().map(|count| count + 1).sum()
    }

    pub(crate) fn block(&self, rank: usize) -> std::ops::Range<usize> {
        self.places[rank]..self.places[rank] + self.counts[rank]
    }
}

/// What a rank gives to a collective, and what it must have in the end.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) input: Vec<u64>,
    pub(crate) output: Vec<u64>,
    expected: Vec<u64>,
}

impl Content {
    /// Changes a word that is given to others, if there is one, to try the oracle.
    pub(crate) fn corrupt(&mut self) {
        if let Some(word) = self.input.first_mut() {
            *word ^= 1 << 32;
        }
    }
}

impl Collective {
    /// Words of a block of ranks of which nobody needs all to be alike.
    fn uneven(&self, number: usize) -> usize {
        self.len * ((5 * number + self.root) % 4) / 3
    }

    /// The blocks of all ranks, for those that have one partition.
    pub(crate) fn blocks(&self, n: usize) -> Blocks {
        Blocks::new((0..n).map(|rank| self.uneven(rank)).collect())
    }

    /// Whether it is one between neighbours.
    fn is_neighborly(&self) -> bool {
        NEIGHBORLY.contains(&self.which)
    }

    /// What a rank sends to each, and what it receives from each: of all, or of its neighbours.
    pub(crate) fn exchanged(&self, member: Member<'_>) -> (Blocks, Blocks) {
        let neighborly = self.is_neighborly();
        let to = (0..member.outgoing(neighborly)).map(|place| self.uneven(3 * member.me + place));
        let from = (0..member.incoming(neighborly)).map(|place| {
            match member.origin(neighborly, place) {
                Some((from, _)) if self.which == Which::NeighborAllgatherv => self.uneven(from),
                Some((from, to)) => self.uneven(3 * from + to),
                // Nobody's: a place in which nothing arrives.
                None => self.uneven(place),
            }
        });
        (Blocks::new(to.collect()), Blocks::new(from.collect()))
    }

    /// What a member has, before and after.
    pub(crate) fn content(&self, seed: u64, member: Member<'_>) -> Content {
        let Self { which, combine, root, len } = *self;
        let (Member { me, n, .. }, neighborly) = (member, self.is_neighborly());
        let here = me == root;
        let blocks = self.blocks(n);
        let mine = |len| contribution(seed, me, len);
        let everybody =
            || (0..n).flat_map(|rank| contribution(seed, rank, len)).collect::<Vec<_>>();
        let untouched = |len| vec![UNTOUCHED; len];
        let placed = |blocks: &Blocks, of: &dyn Fn(usize) -> Vec<u64>| {
            let mut all = untouched(blocks.extent());
            let numbers = 0..blocks.counts.len();
            numbers.for_each(|number| all[blocks.block(number)].copy_from_slice(&of(number)));
            all
        };
        let part = |rank: usize| contribution(seed, rank, blocks.counts[rank]);
        let between =
            |from: usize, to: usize, len: usize| contribution(mix(&[seed, to as u64]), from, len);
        // What arrives in a place, of the blocks that ranks have for each other.
        let arrives = |place: usize, len: usize| {
            let origin = member.origin(neighborly, place);
            origin.map_or_else(|| untouched(len), |(from, to)| between(from, to, len))
        };
        // The same where each rank has one for all.
        let arrives_alike = |place: usize, len: usize| {
            let origin = member.origin(neighborly, place);
            origin.map_or_else(|| untouched(len), |(from, _)| contribution(seed, from, len))
        };
        let none = Vec::new;
        let (input, expected) = match which {
            Which::Barrier => (none(), none()),
            Which::Bcast => (none(), contribution(seed, root, len)),
            Which::Gather => (mine(len), if here { everybody() } else { none() }),
            Which::Scatter => (if here { everybody() } else { none() }, mine(len)),
            Which::Gatherv => (part(me), if here { placed(&blocks, &part) } else { none() }),
            Which::Scatterv => (if here { placed(&blocks, &part) } else { none() }, part(me)),
            Which::Allgather => (mine(len), everybody()),
            Which::Allgatherv => (part(me), placed(&blocks, &part)),
            Which::Alltoall | Which::NeighborAlltoall => {
                let out = (0..member.outgoing(neighborly)).flat_map(|to| between(me, to, len));
                let into = (0..member.incoming(neighborly)).flat_map(|place| arrives(place, len));
                (out.collect(), into.collect())
            }
            Which::Alltoallv
            | Which::Alltoallw
            | Which::NeighborAlltoallv
            | Which::NeighborAlltoallw => {
                let (to, from) = self.exchanged(member);
                let out = placed(&to, &|place| between(me, place, to.counts[place]));
                (out, placed(&from, &|place| arrives(place, from.counts[place])))
            }
            Which::NeighborAllgather => {
                let places = 0..member.incoming(neighborly);
                (mine(len), places.flat_map(|place| arrives_alike(place, len)).collect())
            }
            Which::NeighborAllgatherv => {
                let (_, from) = self.exchanged(member);
                (part(me), placed(&from, &|place| arrives_alike(place, from.counts[place])))
            }
            Which::Reduce => (mine(len), if here { combine.all(seed, 0..n, len) } else { none() }),
            Which::Allreduce => (mine(len), combine.all(seed, 0..n, len)),
            Which::ReduceScatterBlock => {
                (mine(len * n), combine.all(seed, 0..n, len * n)[me * len..][..len].to_vec())
            }
            Which::ReduceScatter => {
                let at: usize = blocks.counts[..me].iter().sum();
                let sum = blocks.counts.iter().sum();
                let all = combine.all(seed, 0..n, sum);
                (mine(sum), all[at..at + blocks.counts[me]].to_vec())
            }
            Which::Scan => (mine(len), combine.all(seed, 0..me + 1, len)),
            Which::Exscan if me == 0 => (mine(len), untouched(len)),
            Which::Exscan => (mine(len), combine.all(seed, 0..me, len)),
        };
        let output = match which {
            Which::Bcast if here => expected.clone(),
            _ => untouched(expected.len()),
        };
        Content { input, output, expected }
    }

    /// That the output is what it must be.
    pub(crate) fn check(&self, content: &Content, got: &[u64], way: &str) {
        assert!(got == content.expected, "oracle: {way} {self:?} gives another result");
    }
}
