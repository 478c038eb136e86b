//! Collectives by multiplying, for any number of ranks: in each stage a rank deals with several others at once, so that
//! there are few stages.
//!
//! The ranks are cut into as many chunks as the first factor says, which differ by one rank at most, each chunk again by
//! the second factor, and so on down to single ranks. A stage is an exchange between the chunks of a level. Each rank
//! has a partner in each other chunk, the one at its own place in it; the last rank of a longer chunk has none in a
//! shorter one, and shares that of another rank, each time another one. So no rank number needs a rule of its own, as it
//! does where a power of two or a product is asked for.
//!
//! With one stage these are direct exchanges; with factors of 2, recursive doubling and halving. Factors are nearly
//! equal, since a stage costs its latency once and each message its sender's time.

use super::blocks::{Blocks, Even};
use super::plan::{Place, Plan, Span};

pub(super) mod ordered;
pub(super) mod split;

/// Most stages that there can be.
const STAGES_MAX: usize = 32;

/// The factors of some stages, of which the product is at least the number of ranks.
#[derive(Clone, Copy, Debug)]
pub struct Factors {
    factors: [u32; STAGES_MAX],
    stages: usize,
}

impl Factors {
    /// Nearly equal ones for so many ranks; there are no more stages than ranks need with factors of 2.
    pub fn of(ranks: u32, stages: u32) -> Self {
        let most = ranks.max(2).next_power_of_two().ilog2();
        let stages = stages.clamp(1, most);
        let ranks = u64::from(ranks);
        // The root, rounded up; what floating point gives may be one off.
        let near = (ranks as f64).powf(1.0 / f64::from(stages)) as u64;
        let enough = |factor: &u64| factor.saturating_pow(stages) >= ranks;
        let root = (near.saturating_sub(1).max(2)..).find(enough).unwrap_or(ranks);
        let mut factors = [root as u32; STAGES_MAX];
        let mut product = root.saturating_pow(stages);
        for factor in &mut factors[..stages as usize] {
            let less = product / root * (root - 1);
            if root > 2 && less >= ranks {
                *factor = root as u32 - 1;
                product = less;
            } else {
                break;
            }
        }
        Self { factors, stages: stages as usize }
    }

    /// The factors, the one of the whole first.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = u32> {
        self.factors.into_iter().take(self.stages)
    }
}

/// Ranks that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Chunk {
    first: u32,
    len: u32,
}

impl Chunk {
    /// One of `factor` chunks of it.
    fn cut(self, factor: u32, index: u32) -> Self {
        let at = |index: u32| {
            (u64::from(self.len) * u64::from(index) / u64::from(factor)) as u32 + self.first
        };
        Self { first: at(index), len: at(index + 1) - at(index) }
    }

    /// The chunk with a rank, of `factor` chunks.
    fn with(self, factor: u32, rank: u32) -> u32 {
        // One of the two whose first rank is next to it.
        let place = u64::from(rank - self.first + 1) * u64::from(factor);
        (place.div_ceil(u64::from(self.len)) - 1) as u32
    }
}

/// A rank at one level.
#[derive(Clone, Copy, Debug)]
struct Level {
    whole: Chunk,
    factor: u32,
    /// The number of this rank's chunk.
    own: u32,
    /// This rank's place in it.
    place: u32,
}

impl Level {
    fn chunk(&self, index: u32) -> Chunk {
        self.whole.cut(self.factor, index)
    }

    /// The other chunks with ranks in them, each rank beginning with the one next to its own.
    fn others(&self) -> impl Iterator<Item = (u32, Chunk)> {
        let all = (1..self.factor).map(|step| (self.own + step) % self.factor);
        all.map(|index| (index, self.chunk(index))).filter(|(_, chunk)| chunk.len > 0)
    }

    /// The partner of this rank in another chunk. In an allgather this rank receives that chunk's blocks from it; in a
    /// reduce_scatter it sends it that chunk's part of its vector.
    fn partner(&self, (_, other): (u32, Chunk)) -> u32 {
        let place = if self.place < other.len { self.place } else { self.own % other.len };
        other.first + place
    }

    /// The ranks of another chunk whose partner this rank is.
    fn partners(&self, (index, other): (u32, Chunk)) -> impl Iterator<Item = u32> {
        let own = self.chunk(self.own).len;
        let opposite = (self.place < other.len).then_some(self.place);
        let last = (other.len > own && index % own == self.place).then_some(own);
        opposite.into_iter().chain(last).map(move |place| other.first + place)
    }
}

/// The levels of a rank, that of the whole first.
fn levels(place: Place, factors: Factors) -> impl DoubleEndedIterator<Item = Level> {
    let mut all = [None; STAGES_MAX];
    let mut whole = Chunk { first: 0, len: place.size };
    for (level, factor) in all.iter_mut().zip(factors.iter()) {
        let own = whole.with(factor, place.rank);
        let chunk = whole.cut(factor, own);
        *level = Some(Level { whole, factor, own, place: place.rank - chunk.first });
        whole = chunk;
    }
    debug_assert_eq!(whole, Chunk { first: place.rank, len: 1 });
    all.into_iter().flatten()
}

/// Nobody leaves before the last has come: in each round a rank reaches as many more as the factor says, counted from
/// its own number.
pub(super) fn barrier<P: Plan>(plan: &mut P, place: Place, stages: u32) -> Result<(), P::Error> {
    let mut reached = 1_u64;
    for factor in Factors::of(place.size, stages).iter() {
        let distances = (1..u64::from(factor)).map(|step| step * reached);
        let distances = distances.take_while(|distance| *distance < u64::from(place.size));
        for distance in distances.clone() {
            plan.recv(place.left(distance as u32), Span::EMPTY)?;
        }
        for distance in distances {
            plan.send(place.right(distance as u32), Span::EMPTY)?;
        }
        plan.wait()?;
        reached *= u64::from(factor);
    }
    Ok(())
}

/// Blocks of one length: chunks of the lowest level first. `own` may be the own block of the output.
pub(super) fn allgather<P: Plan>(
    plan: &mut P,
    place: Place,
    stages: u32,
    own: Span,
    output: Even,
) -> Result<(), P::Error> {
    plan.copy(own, output.span(place.rank));
    let factors = Factors::of(place.size, stages);
    collect(plan, place, (factors, factors.stages), &output, false)
}

/// Of the first so many levels, the last one first: each rank gets the blocks of the other chunks from its partners.
/// The first rank of each whole chunk may have them already.
fn collect<P: Plan>(
    plan: &mut P,
    place: Place,
    (factors, count): (Factors, usize),
    blocks: &impl Blocks,
    first_has_all: bool,
) -> Result<(), P::Error> {
    for level in levels(place, factors).rev().skip(factors.stages - count) {
        let gets = |rank: u32| !(first_has_all && rank == level.whole.first);
        for other in level.others().filter(|_| gets(place.rank)) {
            recv(plan, level.partner(other), window(blocks, other.1))?;
        }
        for other in level.others() {
            for rank in level.partners(other).filter(|&rank| gets(rank)) {
                send(plan, rank, window(blocks, level.chunk(level.own)))?;
            }
        }
        plan.wait()?;
    }
    Ok(())
}

/// Sends, if there is anything.
fn send<P: Plan>(plan: &mut P, to: u32, from: Span) -> Result<(), P::Error> {
    if from.len > 0 { plan.send(to, from) } else { Ok(()) }
}

/// Receives, if there is anything.
fn recv<P: Plan>(plan: &mut P, from: u32, into: Span) -> Result<(), P::Error> {
    if into.len > 0 { plan.recv(from, into) } else { Ok(()) }
}

/// The bytes of the blocks of a chunk.
fn window(blocks: &impl Blocks, chunk: Chunk) -> Span {
    let (first, last) = (blocks.span(chunk.first), blocks.span(chunk.first + chunk.len - 1));
    Span::new(first.space, first.at, last.at + last.len - first.at)
}

/// The part of a value that belongs to a chunk, where the value is that of the chunk `whole`.
fn part(value: Span, blocks: &impl Blocks, whole: Chunk, chunk: Chunk) -> Span {
    let Span { at, len, .. } = window(blocks, chunk);
    value.part(at - window(blocks, whole).at, len)
}

/// The most bytes of a stage: of the first, the third and so on, and of the others.
fn most_by_parity(bytes: impl Iterator<Item = usize>) -> [usize; 2] {
    let mut most = [0, 0];
    for (stage, bytes) in bytes.enumerate() {
        most[stage % 2] = most[stage % 2].max(bytes);
    }
    most
}

/// The most bytes that arrive in a stage: of the stages in which anything does, the first, the third and so on, and the
/// others.
fn arrivals(place: Place, factors: Factors, blocks: &impl Blocks) -> [usize; 2] {
    let arriving = levels(place, factors).map(|level| {
        let values: usize = level.others().map(|other| level.partners(other).count()).sum();
        values * window(blocks, level.chunk(level.own)).len
    });
    most_by_parity(arriving.filter(|bytes| *bytes > 0))
}

/// Bytes of scratch that a reduction by so many stages needs whose result is scattered.
pub(super) fn scratch(place: Place, stages: u32, blocks: &impl Blocks) -> usize {
    arrivals(place, Factors::of(place.size, stages), blocks).iter().sum()
}

/// Reduces the inputs, which `blocks` cuts without gaps, and brings each rank's block of the result to its output:
/// chunks of the whole first, so that what is sent shrinks. For commutative operations; the order is the same in every
/// run.
pub(super) fn reduce_scatter<P: Plan>(
    plan: &mut P,
    place: Place,
    stages: u32,
    blocks: &impl Blocks,
    output: Span,
) -> Result<(), P::Error> {
    let factors = Factors::of(place.size, stages);
    let mut sum = Sum {
        value: window(blocks, Chunk { first: 0, len: place.size }),
        areas: [0, arrivals(place, factors, blocks)[0]],
        next: 0,
    };
    sum.distribute(plan, place, (factors, factors.stages), blocks)?;
    plan.copy(sum.value, output);
    Ok(())
}

/// A value that stage after stage is merged with what arrives.
struct Sum {
    value: Span,
    /// Where messages arrive in scratch. What a stage has reduced is sent in the next one, whose arrivals lie elsewhere.
    areas: [usize; 2],
    /// The area of the next stage.
    next: usize,
}

impl Sum {
    /// Where an arrival of the next stage lies, of many that are as long as `kept`.
    const fn arrival(&self, index: usize, kept: Span) -> Span {
        Span::scratch(self.areas[self.next] + index * kept.len, kept.len)
    }

    /// Merges so many arrivals with what is kept of the value.
    fn merge<P: Plan>(&mut self, plan: &mut P, kept: Span, arrivals: usize) {
        self.value = kept;
        if arrivals > 0 {
            self.value = self.arrival(arrivals - 1, kept);
            for index in (0..arrivals - 1).rev() {
                plan.reduce(self.arrival(index, kept), self.value);
            }
            plan.reduce(kept, self.value);
            self.next = 1 - self.next;
        }
    }

    /// Of the first so many levels: each rank keeps the part of its own chunk and gives the others away.
    fn distribute<P: Plan>(
        &mut self,
        plan: &mut P,
        place: Place,
        (factors, count): (Factors, usize),
        blocks: &impl Blocks,
    ) -> Result<(), P::Error> {
        for level in levels(place, factors).take(count) {
            let part = |chunk| part(self.value, blocks, level.whole, chunk);
            let kept = part(level.chunk(level.own));
            let mut arrivals = 0;
            for other in level.others() {
                for rank in level.partners(other).filter(|_| kept.len > 0) {
                    plan.recv(rank, self.arrival(arrivals, kept))?;
                    arrivals += 1;
                }
            }
            for other in level.others() {
                send(plan, level.partner(other), part(other.1))?;
            }
            plan.wait()?;
            self.merge(plan, kept, arrivals);
        }
        Ok(())
    }
}
