//! Proofs of algorithms at some ranks of many, whose messages to all others would be too many to be followed: see [`Sample`]
//! for what is proven.
//!
//! Each gives the number of messages of which both sides were compared. With all ranks chosen these are the proofs that
//! [`prove`](super) has for the same, but for [`scatter_allgather`], which follows its two parts one by one.

use super::blocks::placed;
use super::*;
use crate::coll::layers;
use crate::coll::levels::Factors;
use crate::coll::nodes::Nodes;
use crate::coll::verify::{Sample, Sampled, SampledMessage};

/// Whether each chosen rank ended as `right` says; the number of messages that were compared.
fn all_right(
    sample: Sample<'_>,
    sampled: &Sampled,
    right: impl Fn(Ended<'_>) -> Result<(), PlanFlaw>,
) -> Result<u64, PlanFlaw> {
    let contributions = &sampled.contributions;
    for (&rank, output) in sample.chosen.iter().zip(&sampled.outputs) {
        right(Ended { rank, output, contributions })?;
    }
    Ok(sampled.compared)
}

/// Broadcasts of `len` bytes by [`ScatterAllgather`](Bcast::ScatterAllgather). While parts are scattered, all ranks are
/// followed; while they are gathered, the chosen ones are. Between the two, each rank has no more than its own part.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn scatter_allgather(sample: Sample<'_>, root: u32, len: usize) -> Result<u64, PlanFlaw> {
    let (size, data_span) = (sample.size, Span::output(len));
    let steps = record(size, |plan, place| bcast::scatter_parts(plan, place, root, data_span))?;
    let outcome = follow(steps, |rank, _| Spaces {
        output: if rank == root {
            SymbolicMemory::of(&[data(0, len)])
        } else {
            SymbolicMemory::new(len)
        },
        ..Spaces::default()
    })?;
    let own = |rank| {
        let relative = Place { rank, size }.relative(root);
        bcast::Parts::new(data_span, size).of(relative, relative + 1)
    };
    for rank in 0..size {
        let part = own(rank);
        expect(&outcome, rank, (part.at, part.len), part.at as u64, &Of::Data)?;
    }
    let sampled = sample.follow(
        |plan, place| bcast::gather_parts(plan, place, root, data_span),
        |rank, _| {
            let mut output = SymbolicMemory::new(len);
            let part = if rank == root { data_span } else { own(rank) };
            output.write(part.at, &[data(part.at as u64, part.len)]);
            Spaces { output, ..Spaces::default() }
        },
        |SampledMessage { into, .. }, _| vec![data(into.at as u64, into.len)],
    )?;
    all_right(sample, &sampled, |ended| ended.expect((0, len), 0, &Of::Data))
}

/// Allgathers of blocks that the user placed in `total` bytes, by [`Bruck`](Allgather::Bruck), [`Ring`](Allgather::Ring) or
/// [`Direct`](Allgather::Direct).
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn allgatherv(
    sample: Sample<'_>,
    blocks: &Placed<'_>,
    how: Allgather,
    total: usize,
) -> Result<u64, PlanFlaw> {
    let size = sample.size;
    let elements = elements(size, blocks);
    let all: u64 = blocks.counts.iter().map(|count| (count * blocks.width) as u64).sum();
    let gathered = placed(total, size, blocks, |rank| elements[rank as usize]);
    let sampled = sample.follow(
        |plan, place| allgather::any(plan, place, how, Span::input(blocks.len(place.rank)), blocks),
        |rank, _| Spaces {
            input: SymbolicMemory::of(&[data(elements[rank as usize], blocks.len(rank))]),
            output: SymbolicMemory::new(total),
            scratch: allgather::scratch(how, total),
        },
        |SampledMessage { to, into, .. }, _| match into.space {
            // Blocks are collected from the receiver's own on, around the end.
            Space::Scratch => {
                let first = (elements[to as usize] + into.at as u64) % all.max(1);
                let front = into.len.min((all - first) as usize);
                vec![data(first, front), data(0, into.len - front)]
            }
            _ => gathered.read(into.at, into.len).unwrap_or_default(),
        },
    )?;
    all_right(sample, &sampled, |ended| ended.expect_blocks(blocks, &elements))
}

/// All-to-alls, with so many partners at a time, of blocks of `len(from, to)` bytes, at most 256.
///
/// # Errors
/// The first [`PlanFlaw`].
///
/// # Panics
/// Where a block is longer than that.
pub fn alltoallv(
    sample: Sample<'_>,
    partners: u32,
    len: impl Fn(u32, u32) -> usize,
) -> Result<u64, PlanFlaw> {
    let size = sample.size;
    let len = |from, to| {
        let len = len(from, to);
        assert!(len <= 256, "a block of {len} bytes");
        len
    };
    let offsets = |len: &dyn Fn(u32) -> usize| {
        let sums = (0..size).scan(0, |sum, rank| {
            *sum += len(rank);
            Some(*sum)
        });
        std::iter::once(0).chain(sums).collect::<Vec<_>>()
    };
    let sent = |me| offsets(&|to| len(me, to));
    let got = |me| offsets(&|from| len(from, me));
    let element = |from: u32, to: u32| u64::from(from) << 40 | u64::from(to) << 8;
    let sampled = sample.follow(
        |plan, place| {
            let (sent, got) = (sent(place.rank), got(place.rank));
            let from = Packed { space: Space::Input, offsets: &sent };
            let into = Packed { space: Space::Output, offsets: &got };
            alltoall::staged(plan, place, partners, &from, &into)
        },
        |me, _| {
            let (sent, got) = (sent(me), got(me));
            let from = Packed { space: Space::Input, offsets: &sent };
            Spaces {
                input: placed(sent[size as usize], size, &from, |to| element(me, to)),
                output: SymbolicMemory::new(got[size as usize]),
                scratch: 0,
            }
        },
        |SampledMessage { from, to, .. }, _| vec![data(element(from, to), len(from, to))],
    )?;
    all_right(sample, &sampled, |ended| {
        let me = ended.rank;
        let all: Vec<_> = (0..size).map(|from| element(from, me)).collect();
        ended.expect_blocks(&Packed { space: Space::Output, offsets: &got(me) }, &all)
    })
}

/// All-to-alls in layers of blocks of `len` bytes, with so many partners among nodes whose ranks follow each other.
///
/// # Errors
/// The first [`PlanFlaw`].
///
/// # Panics
/// Where ranks of a node do not follow each other.
pub fn layered_alltoall(
    sample: Sample<'_>,
    nodes: &Nodes,
    partners: u32,
    len: usize,
) -> Result<u64, PlanFlaw> {
    assert!(nodes.are_consecutive(), "ranks of a node follow each other");
    let size = sample.size;
    let (from, into) = (Even { space: Space::Input, len }, Even { space: Space::Output, len });
    let element =
        |from: u32, to: u32| (u64::from(from) * u64::from(size) + u64::from(to)) * len as u64;
    let input = |me| vec![data(element(me, 0), size as usize * len)];
    let output = |me| (0..size).map(|from| data(element(from, me), len)).collect::<Vec<_>>();
    let members = |rank| nodes.members(nodes.node(rank));
    let sampled = sample.follow(
        |plan, place| layers::alltoall(plan, place, nodes, partners, from, into),
        |rank, _| Spaces {
            input: SymbolicMemory::of(&input(rank)),
            output: SymbolicMemory::new(size as usize * len),
            scratch: layers::alltoall_scratch(nodes, Place { rank, size }, len),
        },
        |SampledMessage { from, to, .. }, _| {
            if nodes.node(from) != nodes.node(to) {
                // Of each rank of the one node, what it has for all ranks of the other one.
                let (first, ranks) = (members(to)[0], members(to).len());
                let each = |&from: &u32| data(element(from, first), ranks * len);
                return members(from).iter().map(each).collect();
            }
            if members(to)[0] == to { input(from) } else { output(to) }
        },
    )?;
    all_right(sample, &sampled, |ended| {
        let elements: Vec<_> = (0..size).map(|from| element(from, ended.rank)).collect();
        ended.expect_blocks(&into, &elements)
    })
}

/// Reductions of vectors that are cut at these offsets, of which there is one more than ranks, by
/// [`Direct`](ReduceScatter::Direct), [`Pairwise`](ReduceScatter::Pairwise) or [`Ordered`](ReduceScatter::Ordered). In the
/// order of ranks but pairwise.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn reduce_scatter(
    sample: Sample<'_>,
    offsets: &[usize],
    how: ReduceScatter,
) -> Result<u64, PlanFlaw> {
    let size = sample.size;
    let total = offsets[size as usize];
    let blocks = Packed { space: Space::Input, offsets };
    let sampled = sample.follow(
        |plan, place| {
            let own = Span::output(blocks.len(place.rank));
            reduce_scatter::run(plan, place, how, &blocks, own)
        },
        |rank, contributions| Spaces {
            input: contribution(rank, total, contributions),
            output: SymbolicMemory::new(blocks.len(rank)),
            scratch: reduce_scatter::scratch(how, Place { rank, size }, &blocks),
        },
        |arrival, contributions| match how {
            ReduceScatter::Ordered(stages) => {
                let factors: Vec<u32> = Factors::of(size, stages).iter().collect();
                in_order(size, &factors, arrival, &blocks, contributions)
            }
            _ => {
                let own = blocks.span(arrival.to);
                let combined = contributions.of(arrival.from);
                vec![MemoryPiece { len: own.len, element: own.at as u64, combined }]
            }
        },
    )?;
    let ordered = how != ReduceScatter::Pairwise;
    all_right(sample, &sampled, |ended| {
        let block = blocks.span(ended.rank);
        ended.expect((0, block.len), block.at as u64, &Of::new(0..size, ordered))
    })
}

/// What arrives in a stage of [`Ordered`](ReduceScatter::Ordered): the blocks of the ranks whose digits of the stages so
/// far, with that of this stage, are the receiver's, combined of the sender's run of ranks.
fn in_order(
    size: u32,
    factors: &[u32],
    SampledMessage { from, to, stage, .. }: SampledMessage,
    blocks: &impl Blocks,
    contributions: &mut ContributionTable,
) -> Vec<MemoryPiece> {
    let (done, rest) = factors.split_at(stage as usize);
    // The first digits of a rank are its lowest ones.
    let run: u32 = done.iter().product();
    let combined = contributions.run(from / run * run..(from / run + 1) * run);
    let kept = run * rest.first().copied().unwrap_or(1);
    let digits = &factors[stage as usize + 1..];
    let block = |index: u32| {
        // The digits of an index, the last one of a rank first.
        let (mut rest, mut rank, mut weight) = (index, 0, size);
        for factor in digits.iter().rev() {
            weight /= factor;
            rank += rest % factor * weight;
            rest /= factor;
        }
        blocks.span(to % kept + rank)
    };
    let piece = |span: Span| {
        combined.map(|combined| MemoryPiece { len: span.len, element: span.at as u64, combined })
    };
    (0..size / kept).filter_map(|index| piece(block(index))).collect()
}
