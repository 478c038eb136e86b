//! What each collective has to do, and the proof that an algorithm does it for a number of ranks.
//!
//! A proof follows all ranks ([`verify`](super::verify)): every message is matched, nobody waits for ever, every result
//! has every contribution exactly once, in the order of ranks where that is promised, and with the same bits on all
//! ranks where the result is everybody's.

pub mod alike;
mod blocks;
pub mod layers;
pub mod sampled;

use std::convert::Infallible;
use std::ops::Range;

pub use blocks::{allgather, allgatherv, alltoall, alltoallv, gather, gatherv, scatter, scatterv};
pub(crate) use blocks::{any_allgather, any_gather};
use blocks::{any_allgatherv, any_alltoall, any_scatter, elements, expect_blocks, of_input};

use super::blocks::{Blocks, Even, Packed, Placed};
use super::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree,
};
use super::plan::{Place, Space, Span, Vectors};
use super::record::{PlanRecorder, Steps};
use super::verify::{
    CollectiveOutcome, Combined, ContributionTable, MemoryPiece, PlanFlaw, Spaces, SymbolicMemory,
    follow, record,
};
use super::{
    allgather, allreduce, alltoall, barrier, bcast, chain, gather, multiply, reduce,
    reduce_scatter, scan, scatter, two_trees,
};
use crate::schedule::Schedule;

/// What was proven.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanProof {
    /// Messages of each rank.
    pub sent: Vec<u64>,
}

impl PlanProof {
    /// Messages of all ranks.
    pub fn messages(&self) -> u64 {
        self.sent.iter().sum()
    }
}

/// What bytes of a result have to be combined of.
pub(crate) enum Of {
    /// Nothing: they were moved.
    Data,
    /// Each rank once, in ascending order.
    InOrder(Range<u32>),
    /// Each rank once.
    Once(Range<u32>),
}

impl Of {
    pub(crate) const fn new(ranks: Range<u32>, ordered: bool) -> Self {
        if ordered { Self::InOrder(ranks) } else { Self::Once(ranks) }
    }

    fn fits(&self, contributions: &ContributionTable, combined: Combined) -> bool {
        match self {
            Self::Data => combined == Combined::DATA,
            Self::InOrder(ranks) => contributions.in_order(combined, ranks),
            Self::Once(ranks) => contributions.once(combined, ranks),
        }
    }
}

/// Whether `span` of a rank's output holds the elements from `element` on.
pub(crate) fn expect(
    outcome: &CollectiveOutcome,
    rank: u32,
    span: (usize, usize),
    element: u64,
    of: &Of,
) -> Result<(), PlanFlaw> {
    outcome.ended(rank).expect(span, element, of)
}

/// A rank at its end.
struct Ended<'a> {
    rank: u32,
    output: &'a SymbolicMemory,
    contributions: &'a ContributionTable,
}

impl CollectiveOutcome {
    fn ended(&self, rank: u32) -> Ended<'_> {
        let output = &self.outputs[rank as usize];
        Ended { rank, output, contributions: &self.contributions }
    }
}

impl Ended<'_> {
    /// Whether a span of the output holds the elements from `element` on.
    fn expect(&self, (at, len): (usize, usize), element: u64, of: &Of) -> Result<(), PlanFlaw> {
        let rank = self.rank;
        let pieces = self.output.read(at, len).ok_or(PlanFlaw::Wrong { rank, at })?;
        let (mut at, mut element) = (at, element);
        for piece in pieces {
            if piece.element != element || !of.fits(self.contributions, piece.combined) {
                return Err(PlanFlaw::Wrong { rank, at });
            }
            at += piece.len;
            element += piece.len as u64;
        }
        Ok(())
    }

    /// Whether blocks of the output hold the elements that begin at these.
    fn expect_blocks(&self, blocks: &impl Blocks, elements: &[u64]) -> Result<(), PlanFlaw> {
        // Neighbours that are consecutive elements are checked together.
        let (mut at, mut len, mut first) = (0, 0, 0);
        for (block, &element) in (0..).zip(elements) {
            let span = blocks.span(block);
            if span.at == at + len && element == first + len as u64 {
                len += span.len;
                continue;
            }
            self.expect((at, len), first, &Of::Data)?;
            (at, len, first) = (span.at, span.len, element);
        }
        self.expect((at, len), first, &Of::Data)
    }
}

/// Whether all ranks have the same bits.
fn expect_agreement(outcome: &CollectiveOutcome) -> Result<(), PlanFlaw> {
    match outcome.outputs.iter().position(|output| *output != outcome.outputs[0]) {
        Some(rank) => Err(PlanFlaw::Wrong { rank: rank as u32, at: 0 }),
        None => Ok(()),
    }
}

pub(crate) fn proof(outcome: CollectiveOutcome) -> PlanProof {
    PlanProof { sent: outcome.sent }
}

/// What a rank contributes to a reduction of vectors.
pub(crate) fn contribution(
    rank: u32,
    len: usize,
    contributions: &mut ContributionTable,
) -> SymbolicMemory {
    SymbolicMemory::of(&[MemoryPiece { len, element: 0, combined: contributions.of(rank) }])
}

/// Bytes that are only moved.
pub(crate) const fn data(element: u64, len: usize) -> MemoryPiece {
    MemoryPiece { len, element, combined: Combined::DATA }
}

/// The plans of barriers: nobody leaves before the last has come, which is tried with one rank that never comes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn barrier(size: u32, how: Barrier) -> Result<PlanProof, PlanFlaw> {
    any_barrier(record(size, |plan, place| barrier::run(plan, place, how))?)
}

pub(crate) fn any_barrier(all: Vec<Steps>) -> Result<PlanProof, PlanFlaw> {
    let size = all.len() as u32;
    barrier_without(all, [0, size / 2, size - 1])
}

/// Barriers with each of these ranks as the one that never comes.
fn barrier_without(
    all: Vec<Steps>,
    absent: impl IntoIterator<Item = u32>,
) -> Result<PlanProof, PlanFlaw> {
    let size = all.len() as u32;
    for absent in absent {
        let mut others = all.clone();
        others[absent as usize] = Steps::default();
        match follow(others, |_, _| Spaces::default()) {
            Err(PlanFlaw::Deadlock { ranks, .. }) if ranks == size - 1 => {}
            _ if size == 1 => {}
            _ => return Err(PlanFlaw::Wrong { rank: absent, at: 0 }),
        }
    }
    follow(all, |_, _| Spaces::default()).map(proof)
}

/// Broadcasts of `len` bytes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn bcast(size: u32, how: Bcast, root: u32, len: usize) -> Result<PlanProof, PlanFlaw> {
    any_bcast(size, root, len, |plan, place| bcast::run(plan, place, how, root, Span::output(len)))
}

pub(crate) fn any_bcast(
    size: u32,
    root: u32,
    len: usize,
    algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place) -> Result<(), Infallible>,
) -> Result<PlanProof, PlanFlaw> {
    let outcome = follow(record(size, algorithm)?, |rank, _| Spaces {
        output: if rank == root {
            SymbolicMemory::of(&[data(0, len)])
        } else {
            SymbolicMemory::new(len)
        },
        ..Spaces::default()
    })?;
    (0..size).try_for_each(|rank| expect(&outcome, rank, (0, len), 0, &Of::Data))?;
    Ok(proof(outcome))
}

/// Reductions of vectors of `len` bytes in elements of `width`, in the order of ranks if `ordered`.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn reduce(
    size: u32,
    how: Reduce,
    root: u32,
    vector: (usize, usize),
    ordered: bool,
) -> Result<PlanProof, PlanFlaw> {
    let scratch = reduce::scratch(how, size, vector);
    any_reduce(size, root, vector, (scratch, ordered), |plan, place, vectors| {
        reduce::run(plan, place, how, root, vectors)
    })
}

/// Reductions with so many bytes of scratch, in the order of ranks if `ordered`.
pub(crate) fn any_reduce(
    size: u32,
    root: u32,
    (len, width): (usize, usize),
    (scratch, ordered): (usize, bool),
    algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place, Vectors) -> Result<(), Infallible>,
) -> Result<PlanProof, PlanFlaw> {
    let vectors = Vectors { input: Span::input(len), output: Span::output(len), width, scratch: 0 };
    let steps = record(size, |plan, place| algorithm(plan, place, vectors))?;
    let outcome = follow(steps, |rank, contributions| Spaces {
        input: contribution(rank, len, contributions),
        output: SymbolicMemory::new(if rank == root { len } else { 0 }),
        scratch,
    })?;
    expect(&outcome, root, (0, len), 0, &Of::new(0..size, ordered))?;
    Ok(proof(outcome))
}

/// Broadcasts of `len` bytes along [two trees](two_trees) in pieces of so many.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn two_trees_bcast(
    size: u32,
    root: u32,
    len: usize,
    piece: usize,
) -> Result<PlanProof, PlanFlaw> {
    any_bcast(size, root, len, |plan, place| {
        two_trees::bcast(plan, place, root, Span::output(len), piece)
    })
}

/// Reductions along two trees in pieces of so many bytes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn two_trees_reduce(
    size: u32,
    root: u32,
    vector: (usize, usize),
    piece: usize,
) -> Result<PlanProof, PlanFlaw> {
    let scratch = two_trees::scratch(vector, piece);
    any_reduce(size, root, vector, (scratch, false), |plan, place, vectors| {
        two_trees::reduce(plan, place, root, vectors, piece)
    })
}

/// Reductions along a [`chain`] in segments of so many bytes. In the order of ranks if `ordered`.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn chained_reduce(
    size: u32,
    root: u32,
    vector: (usize, usize),
    segment: usize,
    ordered: bool,
) -> Result<PlanProof, PlanFlaw> {
    any_reduce(size, root, vector, (2 * vector.0, ordered), |plan, place, vectors| {
        chain::reduce(plan, place, root, vectors, segment)
    })
}

/// Allreduces of vectors of `len` bytes in elements of `width`.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn allreduce(
    size: u32,
    how: Allreduce,
    (len, width): (usize, usize),
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let scratch = |_| allreduce::scratch(how, size, len);
    any_allreduce(size, (len, width), in_place, true, scratch, |plan, place, vectors| {
        allreduce::run(plan, place, how, vectors)
    })
}

/// Allreduces of vectors of `len` bytes in elements of `width`, by a schedule of recursive multiplying.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn multiplying(
    schedule: &Schedule,
    (len, width): (usize, usize),
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let ranks = schedule.ranks();
    let stages: Vec<_> = (0..ranks).map(|rank| schedule.stages(rank)).collect();
    let scratch = |rank: u32| multiply::scratch(&stages[rank as usize], len, width);
    let ordered = schedule.keeps_order();
    any_allreduce(ranks, (len, width), in_place, ordered, scratch, |plan, place, vectors| {
        multiply::run(plan, &stages[place.rank as usize], vectors)
    })
}

pub(crate) fn any_allreduce(
    size: u32,
    (len, width): (usize, usize),
    in_place: bool,
    ordered: bool,
    scratch: impl Fn(u32) -> usize,
    algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place, Vectors) -> Result<(), Infallible>,
) -> Result<PlanProof, PlanFlaw> {
    let output = Span::output(len);
    let input = if in_place { output } else { Span::input(len) };
    let vectors = Vectors { input, output, width, scratch: 0 };
    let steps = record(size, |plan, place| algorithm(plan, place, vectors))?;
    let outcome = follow(steps, |rank, contributions| {
        let own = contribution(rank, len, contributions);
        let scratch = scratch(rank);
        if in_place {
            Spaces { output: own, scratch, ..Spaces::default() }
        } else {
            Spaces { input: own, output: SymbolicMemory::new(len), scratch }
        }
    })?;
    expect(&outcome, 0, (0, len), 0, &Of::new(0..size, ordered))?;
    expect_agreement(&outcome)?;
    Ok(proof(outcome))
}

/// Reductions of vectors that are cut at these offsets, of which there is one more than ranks. In the order of ranks
/// if `ordered`.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn reduce_scatter(
    offsets: &[usize],
    how: ReduceScatter,
    ordered: bool,
) -> Result<PlanProof, PlanFlaw> {
    let size = offsets.len() as u32 - 1;
    let blocks = Packed { space: Space::Input, offsets };
    let steps = record(size, |plan, place| {
        reduce_scatter::run(plan, place, how, &blocks, Span::output(blocks.len(place.rank)))
    })?;
    let scratch = |rank| reduce_scatter::scratch(how, Place { rank, size }, &blocks);
    any_reduce_scatter(steps, &blocks, ordered, scratch)
}

/// Reductions whose result is scattered, in the order of ranks if `ordered`.
pub(crate) fn any_reduce_scatter(
    steps: Vec<Steps>,
    blocks: &Packed<'_>,
    ordered: bool,
    scratch: impl Fn(u32) -> usize,
) -> Result<PlanProof, PlanFlaw> {
    let size = steps.len() as u32;
    let total = blocks.offsets[size as usize];
    let outcome = follow(steps, |rank, contributions| Spaces {
        input: contribution(rank, total, contributions),
        output: SymbolicMemory::new(blocks.len(rank)),
        scratch: scratch(rank),
    })?;
    let of = Of::new(0..size, ordered);
    for rank in 0..size {
        let span = blocks.span(rank);
        expect(&outcome, rank, (0, span.len), span.at as u64, &of)?;
    }
    Ok(proof(outcome))
}

/// Prefix reductions of vectors of `len` bytes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn scan(size: u32, how: Scan, exclusive: bool, len: usize) -> Result<PlanProof, PlanFlaw> {
    let steps = record(size, |plan, place| {
        scan::run(plan, place, how, exclusive, Span::input(len), Span::output(len))
    })?;
    any_scan(steps, exclusive, len, scan::scratch(how, len))
}

fn any_scan(
    steps: Vec<Steps>,
    exclusive: bool,
    len: usize,
    scratch: usize,
) -> Result<PlanProof, PlanFlaw> {
    let size = steps.len() as u32;
    let outcome = follow(steps, |rank, contributions| Spaces {
        input: contribution(rank, len, contributions),
        output: SymbolicMemory::new(len),
        scratch,
    })?;
    for rank in 0..size {
        match (exclusive, rank) {
            // Nothing comes before rank 0, whose output is left alone.
            (true, 0) if outcome.outputs[0].read(0, len.min(1)).is_some() && len > 0 => {
                return Err(PlanFlaw::Wrong { rank, at: 0 });
            }
            (true, 0) => {}
            (true, _) => expect(&outcome, rank, (0, len), 0, &Of::InOrder(0..rank))?,
            (false, _) => expect(&outcome, rank, (0, len), 0, &Of::InOrder(0..rank + 1))?,
        }
    }
    Ok(proof(outcome))
}
