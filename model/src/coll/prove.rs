//! What each collective has to do, and the proof that an algorithm does it for a number of ranks.
//!
//! A proof follows all ranks ([`verify`](super::verify)): every message is matched, nobody waits for ever, every result
//! has every contribution exactly once, in the order of ranks where that is promised, and with the same bits on all
//! ranks where the result is everybody's.

pub mod alike;
pub mod layers;

use std::convert::Infallible;
use std::ops::Range;

use super::blocks::{Blocks, Even, Packed, Placed};
use super::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree,
};
use super::plan::{Place, Space, Span, Vectors};
use super::record::{Recorder, Steps};
use super::verify::{
    Combined, Contributions, Flaw, Memory, Outcome, Piece, Spaces, follow, record,
};
use super::{
    allgather, allreduce, alltoall, barrier, bcast, chain, gather, multiply, reduce,
    reduce_scatter, scan, scatter, two_trees,
};
use crate::schedule::Schedule;

/// What was proven.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proof {
    /// Messages of each rank.
    pub sent: Vec<u64>,
}

impl Proof {
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

    fn fits(&self, contributions: &Contributions, combined: Combined) -> bool {
        match self {
            Self::Data => combined == Combined::DATA,
            Self::InOrder(ranks) => contributions.in_order(combined, ranks),
            Self::Once(ranks) => contributions.once(combined, ranks),
        }
    }
}

/// Whether `span` of a rank's output holds the elements from `element` on.
pub(crate) fn expect(
    outcome: &Outcome,
    rank: u32,
    (at, len): (usize, usize),
    element: u64,
    of: &Of,
) -> Result<(), Flaw> {
    let output = &outcome.outputs[rank as usize];
    let pieces = output.read(at, len).ok_or(Flaw::Wrong { rank, at })?;
    let (mut at, mut element) = (at, element);
    for piece in pieces {
        if piece.element != element || !of.fits(&outcome.contributions, piece.combined) {
            return Err(Flaw::Wrong { rank, at });
        }
        at += piece.len;
        element += piece.len as u64;
    }
    Ok(())
}

/// Whether all ranks have the same bits.
fn expect_agreement(outcome: &Outcome) -> Result<(), Flaw> {
    match outcome.outputs.iter().position(|output| *output != outcome.outputs[0]) {
        Some(rank) => Err(Flaw::Wrong { rank: rank as u32, at: 0 }),
        None => Ok(()),
    }
}

pub(crate) fn proof(outcome: Outcome) -> Proof {
    Proof { sent: outcome.sent }
}

/// What a rank contributes to a reduction of vectors.
pub(crate) fn contribution(rank: u32, len: usize, contributions: &mut Contributions) -> Memory {
    Memory::of(&[Piece { len, element: 0, combined: contributions.of(rank) }])
}

/// Bytes that are only moved.
pub(crate) const fn data(element: u64, len: usize) -> Piece {
    Piece { len, element, combined: Combined::DATA }
}

/// A memory of `len` bytes with data where the blocks are.
fn placed(len: usize, size: u32, blocks: &impl Blocks, element: impl Fn(u32) -> u64) -> Memory {
    let mut memory = Memory::new(len);
    for rank in 0..size {
        let span = blocks.span(rank);
        memory.write(span.at, &[data(element(rank), span.len)]);
    }
    memory
}

/// The plans of barriers: nobody leaves before the last has come, which is tried with one rank that never comes.
///
/// # Errors
/// The first [`Flaw`].
pub fn barrier(size: u32, how: Barrier) -> Result<Proof, Flaw> {
    any_barrier(record(size, |plan, place| barrier::run(plan, place, how))?)
}

pub(crate) fn any_barrier(all: Vec<Steps>) -> Result<Proof, Flaw> {
    let size = all.len() as u32;
    for absent in [0, size / 2, size - 1] {
        let mut others = all.clone();
        others[absent as usize] = Steps::default();
        match follow(others, |_, _| Spaces::default()) {
            Err(Flaw::Deadlock { ranks, .. }) if ranks == size - 1 => {}
            _ if size == 1 => {}
            _ => return Err(Flaw::Wrong { rank: absent, at: 0 }),
        }
    }
    follow(all, |_, _| Spaces::default()).map(proof)
}

/// Broadcasts of `len` bytes.
///
/// # Errors
/// The first [`Flaw`].
pub fn bcast(size: u32, how: Bcast, root: u32, len: usize) -> Result<Proof, Flaw> {
    any_bcast(size, root, len, |plan, place| bcast::run(plan, place, how, root, Span::output(len)))
}

pub(crate) fn any_bcast(
    size: u32,
    root: u32,
    len: usize,
    algorithm: impl Fn(&mut Recorder<Infallible>, Place) -> Result<(), Infallible>,
) -> Result<Proof, Flaw> {
    let outcome = follow(record(size, algorithm)?, |rank, _| Spaces {
        output: if rank == root { Memory::of(&[data(0, len)]) } else { Memory::new(len) },
        ..Spaces::default()
    })?;
    (0..size).try_for_each(|rank| expect(&outcome, rank, (0, len), 0, &Of::Data))?;
    Ok(proof(outcome))
}

/// Reductions of vectors of `len` bytes in elements of `width`, in the order of ranks if `ordered`.
///
/// # Errors
/// The first [`Flaw`].
pub fn reduce(
    size: u32,
    how: Reduce,
    root: u32,
    vector: (usize, usize),
    ordered: bool,
) -> Result<Proof, Flaw> {
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
    algorithm: impl Fn(&mut Recorder<Infallible>, Place, Vectors) -> Result<(), Infallible>,
) -> Result<Proof, Flaw> {
    let vectors = Vectors { input: Span::input(len), output: Span::output(len), width, scratch: 0 };
    let steps = record(size, |plan, place| algorithm(plan, place, vectors))?;
    let outcome = follow(steps, |rank, contributions| Spaces {
        input: contribution(rank, len, contributions),
        output: Memory::new(if rank == root { len } else { 0 }),
        scratch,
    })?;
    expect(&outcome, root, (0, len), 0, &Of::new(0..size, ordered))?;
    Ok(proof(outcome))
}

/// Broadcasts of `len` bytes along [two trees](two_trees) in pieces of so many.
///
/// # Errors
/// The first [`Flaw`].
pub fn two_trees_bcast(size: u32, root: u32, len: usize, piece: usize) -> Result<Proof, Flaw> {
    any_bcast(size, root, len, |plan, place| {
        two_trees::bcast(plan, place, root, Span::output(len), piece)
    })
}

/// Reductions along two trees in pieces of so many bytes.
///
/// # Errors
/// The first [`Flaw`].
pub fn two_trees_reduce(
    size: u32,
    root: u32,
    vector: (usize, usize),
    piece: usize,
) -> Result<Proof, Flaw> {
    let scratch = two_trees::scratch(vector, piece);
    any_reduce(size, root, vector, (scratch, false), |plan, place, vectors| {
        two_trees::reduce(plan, place, root, vectors, piece)
    })
}

/// Reductions along a [`chain`] in segments of so many bytes. In the order of ranks if `ordered`.
///
/// # Errors
/// The first [`Flaw`].
pub fn chained_reduce(
    size: u32,
    root: u32,
    vector: (usize, usize),
    segment: usize,
    ordered: bool,
) -> Result<Proof, Flaw> {
    any_reduce(size, root, vector, (2 * vector.0, ordered), |plan, place, vectors| {
        chain::reduce(plan, place, root, vectors, segment)
    })
}

/// Allreduces of vectors of `len` bytes in elements of `width`.
///
/// # Errors
/// The first [`Flaw`].
pub fn allreduce(
    size: u32,
    how: Allreduce,
    (len, width): (usize, usize),
    in_place: bool,
) -> Result<Proof, Flaw> {
    let scratch = |_| allreduce::scratch(how, size, len);
    any_allreduce(size, (len, width), in_place, true, scratch, |plan, place, vectors| {
        allreduce::run(plan, place, how, vectors)
    })
}

/// Allreduces of vectors of `len` bytes in elements of `width`, by a schedule of recursive multiplying.
///
/// # Errors
/// The first [`Flaw`].
pub fn multiplying(
    schedule: &Schedule,
    (len, width): (usize, usize),
    in_place: bool,
) -> Result<Proof, Flaw> {
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
    algorithm: impl Fn(&mut Recorder<Infallible>, Place, Vectors) -> Result<(), Infallible>,
) -> Result<Proof, Flaw> {
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
            Spaces { input: own, output: Memory::new(len), scratch }
        }
    })?;
    expect(&outcome, 0, (0, len), 0, &Of::new(0..size, ordered))?;
    expect_agreement(&outcome)?;
    Ok(proof(outcome))
}

/// Gathers of blocks of `len` bytes each.
///
/// # Errors
/// The first [`Flaw`].
pub fn gather(size: u32, how: Tree, root: u32, len: usize) -> Result<Proof, Flaw> {
    let blocks = Even { space: Space::Output, len };
    let plan = |plan: &mut Recorder<_>, place| {
        gather::even(plan, place, how, root, Span::input(len), blocks)
    };
    let total = len * size as usize;
    let scratch = |_| gather::scratch(how, size, len);
    any_gather(record(size, plan)?, root, total, &blocks, scratch)
}

/// Gathers of blocks that the user placed in `total` bytes.
///
/// # Errors
/// The first [`Flaw`].
pub fn gatherv(blocks: &Placed<'_>, root: u32, total: usize) -> Result<Proof, Flaw> {
    let size = blocks.counts.len() as u32;
    let own = |rank| Span::input(blocks.len(rank));
    let plan = |plan: &mut Recorder<_>, place: Place| {
        gather::linear(plan, place, root, own(place.rank), blocks)
    };
    any_gather(record(size, plan)?, root, total, blocks, |_| 0)
}

/// Blocks are consecutive elements, so that neighbours are one piece.
fn elements(size: u32, blocks: &impl Blocks) -> Vec<u64> {
    let next = |sum: &mut u64, rank| {
        let first = *sum;
        *sum += blocks.len(rank) as u64;
        Some(first)
    };
    (0..size).scan(0, next).collect()
}

pub(crate) fn any_gather(
    steps: Vec<Steps>,
    root: u32,
    total: usize,
    blocks: &impl Blocks,
    scratch: impl Fn(u32) -> usize,
) -> Result<Proof, Flaw> {
    let size = steps.len() as u32;
    let elements = elements(size, blocks);
    let outcome = follow(steps, |rank, _| Spaces {
        input: Memory::of(&[data(elements[rank as usize], blocks.len(rank))]),
        output: Memory::new(if rank == root { total } else { 0 }),
        scratch: scratch(rank),
    })?;
    expect_blocks(&outcome, root, blocks, &elements)?;
    Ok(proof(outcome))
}

fn expect_blocks(
    outcome: &Outcome,
    rank: u32,
    blocks: &impl Blocks,
    elements: &[u64],
) -> Result<(), Flaw> {
    // Neighbours that are consecutive elements are looked at together.
    let (mut at, mut len, mut first) = (0, 0, 0);
    for (block, &element) in (0..).zip(elements) {
        let span = blocks.span(block);
        if span.at == at + len && element == first + len as u64 {
            len += span.len;
            continue;
        }
        expect(outcome, rank, (at, len), first, &Of::Data)?;
        (at, len, first) = (span.at, span.len, element);
    }
    expect(outcome, rank, (at, len), first, &Of::Data)
}

/// Scatters of blocks of `len` bytes each.
///
/// # Errors
/// The first [`Flaw`].
pub fn scatter(size: u32, how: Tree, root: u32, len: usize) -> Result<Proof, Flaw> {
    let blocks = Even { space: Space::Input, len };
    let plan = |plan: &mut Recorder<_>, place| {
        scatter::even(plan, place, how, root, blocks, Span::output(len))
    };
    let total = len * size as usize;
    let scratch = |_| scatter::scratch(how, size, len);
    any_scatter(record(size, plan)?, root, total, &blocks, scratch)
}

/// Scatters of blocks that the user placed in `total` bytes.
///
/// # Errors
/// The first [`Flaw`].
pub fn scatterv(blocks: &Placed<'_>, root: u32, total: usize) -> Result<Proof, Flaw> {
    let size = blocks.counts.len() as u32;
    let own = |rank| Span::output(blocks.len(rank));
    let plan = |plan: &mut Recorder<_>, place: Place| {
        scatter::linear(plan, place, root, blocks, own(place.rank))
    };
    any_scatter(record(size, plan)?, root, total, blocks, |_| 0)
}

fn any_scatter(
    steps: Vec<Steps>,
    root: u32,
    total: usize,
    blocks: &impl Blocks,
    scratch: impl Fn(u32) -> usize,
) -> Result<Proof, Flaw> {
    let size = steps.len() as u32;
    let elements = elements(size, blocks);
    let outcome = follow(steps, |rank, _| Spaces {
        input: match rank == root {
            true => placed(total, size, blocks, |rank| elements[rank as usize]),
            false => Memory::default(),
        },
        output: Memory::new(blocks.len(rank)),
        scratch: scratch(rank),
    })?;
    for rank in 0..size {
        expect(&outcome, rank, (0, blocks.len(rank)), elements[rank as usize], &Of::Data)?;
    }
    Ok(proof(outcome))
}

/// Allgathers of blocks of `len` bytes each.
///
/// # Errors
/// The first [`Flaw`].
pub fn allgather(size: u32, how: Allgather, len: usize, in_place: bool) -> Result<Proof, Flaw> {
    let blocks = Even { space: Space::Output, len };
    let own = |rank| if in_place { blocks.span(rank) } else { Span::input(len) };
    let plan = |plan: &mut Recorder<_>, place: Place| {
        allgather::even(plan, place, how, own(place.rank), blocks)
    };
    let total = len * size as usize;
    any_allgather(record(size, plan)?, total, allgather::scratch(how, total), &blocks, in_place)
}

/// Allgathers of blocks that the user placed in `total` bytes.
///
/// # Errors
/// The first [`Flaw`].
pub fn allgatherv(blocks: &Placed<'_>, how: Allgather, total: usize) -> Result<Proof, Flaw> {
    let size = blocks.counts.len() as u32;
    let own = |rank| Span::input(blocks.len(rank));
    let plan = |plan: &mut Recorder<_>, place: Place| {
        allgather::any(plan, place, how, own(place.rank), blocks)
    };
    any_allgather(record(size, plan)?, total, allgather::scratch(how, total), blocks, false)
}

pub(crate) fn any_allgather(
    steps: Vec<Steps>,
    total: usize,
    scratch: usize,
    blocks: &impl Blocks,
    in_place: bool,
) -> Result<Proof, Flaw> {
    let size = steps.len() as u32;
    let elements = elements(size, blocks);
    let outcome = follow(steps, |rank, _| {
        let own = [data(elements[rank as usize], blocks.len(rank))];
        let (mut input, mut output) = (Memory::default(), Memory::new(total));
        if in_place {
            output.write(blocks.span(rank).at, &own);
        } else {
            input = Memory::of(&own);
        }
        Spaces { input, output, scratch }
    })?;
    expect_blocks(&outcome, 0, blocks, &elements)?;
    expect_agreement(&outcome)?;
    Ok(proof(outcome))
}

/// The element at a place of a rank's input.
fn of_input(rank: u32, at: usize) -> u64 {
    (u64::from(rank) << 40) + at as u64
}

/// All-to-alls of blocks of `len` bytes each.
///
/// # Errors
/// The first [`Flaw`].
pub fn alltoall(size: u32, how: Alltoall, len: usize) -> Result<Proof, Flaw> {
    let (from, into) = (Even { space: Space::Input, len }, Even { space: Space::Output, len });
    let steps = record(size, |plan, place| alltoall::even(plan, place, how, from, into))?;
    let scratch = |_| alltoall::scratch(how, size, len);
    any_alltoall(steps, len * size as usize, len * size as usize, scratch, |_| (from, into))
}

/// All-to-alls, with so many partners at a time, of blocks of `len(from, to)` bytes.
///
/// # Errors
/// The first [`Flaw`].
pub fn alltoallv(size: u32, partners: u32, len: impl Fn(u32, u32) -> usize) -> Result<Proof, Flaw> {
    let offsets = |lengths: Vec<usize>| {
        let sums = lengths.into_iter().scan(0, |sum, len| {
            *sum += len;
            Some(*sum)
        });
        std::iter::once(0).chain(sums).collect::<Vec<_>>()
    };
    let sent: Vec<_> =
        (0..size).map(|me| offsets((0..size).map(|to| len(me, to)).collect())).collect();
    let got: Vec<_> =
        (0..size).map(|me| offsets((0..size).map(|from| len(from, me)).collect())).collect();
    let blocks = |me: u32| {
        let from = Packed { space: Space::Input, offsets: &sent[me as usize] };
        (from, Packed { space: Space::Output, offsets: &got[me as usize] })
    };
    let steps = record(size, |plan, place| {
        let (from, into) = blocks(place.rank);
        alltoall::staged(plan, place, partners, &from, &into)
    })?;
    let most = |offsets: &[Vec<usize>]| offsets.iter().filter_map(|all| all.last()).copied().max();
    any_alltoall(steps, most(&sent).unwrap_or(0), most(&got).unwrap_or(0), |_| 0, blocks)
}

fn any_alltoall<B: Blocks>(
    steps: Vec<Steps>,
    input: usize,
    output: usize,
    scratch: impl Fn(u32) -> usize,
    blocks: impl Fn(u32) -> (B, B),
) -> Result<Proof, Flaw> {
    let size = steps.len() as u32;
    let outcome = follow(steps, |me, _| {
        let input = Memory::of(&[data(of_input(me, 0), input)]);
        Spaces { input, output: Memory::new(output), scratch: scratch(me) }
    })?;
    for me in 0..size {
        let (_, into) = blocks(me);
        for from in 0..size {
            let span = into.span(from);
            let sent = blocks(from).0.span(me).at;
            expect(&outcome, me, (span.at, span.len), of_input(from, sent), &Of::Data)?;
        }
    }
    Ok(proof(outcome))
}

/// Reductions of vectors that are cut at these offsets, of which there is one more than ranks. In the order of ranks
/// if `ordered`.
///
/// # Errors
/// The first [`Flaw`].
pub fn reduce_scatter(offsets: &[usize], how: ReduceScatter, ordered: bool) -> Result<Proof, Flaw> {
    let size = offsets.len() as u32 - 1;
    let total = offsets[size as usize];
    let blocks = Packed { space: Space::Input, offsets };
    let steps = record(size, |plan, place| {
        reduce_scatter::run(plan, place, how, &blocks, Span::output(blocks.len(place.rank)))
    })?;
    let outcome = follow(steps, |rank, contributions| Spaces {
        input: contribution(rank, total, contributions),
        output: Memory::new(blocks.len(rank)),
        scratch: reduce_scatter::scratch(how, Place { rank, size }, &blocks),
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
/// The first [`Flaw`].
pub fn scan(size: u32, how: Scan, exclusive: bool, len: usize) -> Result<Proof, Flaw> {
    let steps = record(size, |plan, place| {
        scan::run(plan, place, how, exclusive, Span::input(len), Span::output(len))
    })?;
    any_scan(steps, exclusive, len, scan::scratch(how, len))
}

fn any_scan(steps: Vec<Steps>, exclusive: bool, len: usize, scratch: usize) -> Result<Proof, Flaw> {
    let size = steps.len() as u32;
    let outcome = follow(steps, |rank, contributions| Spaces {
        input: contribution(rank, len, contributions),
        output: Memory::new(len),
        scratch,
    })?;
    for rank in 0..size {
        match (exclusive, rank) {
            // Nothing comes before rank 0, whose output is left alone.
            (true, 0) if outcome.outputs[0].read(0, len.min(1)).is_some() && len > 0 => {
                return Err(Flaw::Wrong { rank, at: 0 });
            }
            (true, 0) => {}
            (true, _) => expect(&outcome, rank, (0, len), 0, &Of::InOrder(0..rank))?,
            (false, _) => expect(&outcome, rank, (0, len), 0, &Of::InOrder(0..rank + 1))?,
        }
    }
    Ok(proof(outcome))
}
