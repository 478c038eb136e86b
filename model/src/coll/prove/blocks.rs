//! Proofs of collectives that move a block of each rank, to all of them or to each other one.

use super::*;

/// Gathers of blocks of `len` bytes each. In place, the root's block is where it belongs already.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn gather(
    size: u32,
    how: Tree,
    root: u32,
    len: usize,
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let blocks = Even { space: Space::Output, len };
    let (total, scratch) = (len * size as usize, |_| gather::scratch(how, size, len));
    any_gather(size, (root, in_place), total, &blocks, scratch, |plan, place, own| {
        gather::even(plan, place, how, root, own, blocks)
    })
}

/// Gathers of blocks that the user placed in `total` bytes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn gatherv(
    blocks: &Placed<'_>,
    root: u32,
    total: usize,
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let size = blocks.counts.len() as u32;
    any_gather(
        size,
        (root, in_place),
        total,
        blocks,
        |_| 0,
        |plan, place, own| gather::linear(plan, place, root, own, blocks),
    )
}

/// Where a rank has its own block: in place among those of all, or else alone in a space.
fn own_block(rank: u32, blocks: &impl Blocks, in_place: bool, space: Space) -> Span {
    if in_place { blocks.span(rank) } else { Span::new(space, 0, blocks.len(rank)) }
}

/// The buffers of a rank that has its own block there, with an output of `total` bytes.
fn spaces_with_own(
    (block, element): (Span, u64),
    in_place: bool,
    total: usize,
    scratch: usize,
) -> Spaces {
    let own = [data(element, block.len)];
    let (mut input, mut output) = (SymbolicMemory::default(), SymbolicMemory::new(total));
    if in_place {
        output.write(block.at, &own);
    } else {
        input = SymbolicMemory::of(&own);
    }
    Spaces { input, output, scratch }
}

/// A memory of `len` bytes with data where the blocks are.
pub(super) fn placed(
    len: usize,
    size: u32,
    blocks: &impl Blocks,
    element: impl Fn(u32) -> u64,
) -> SymbolicMemory {
    let mut memory = SymbolicMemory::new(len);
    for rank in 0..size {
        let span = blocks.span(rank);
        memory.write(span.at, &[data(element(rank), span.len)]);
    }
    memory
}

/// Blocks are consecutive elements, so that neighbours are one piece.
pub(super) fn elements(size: u32, blocks: &impl Blocks) -> Vec<u64> {
    let next = |sum: &mut u64, rank| {
        let first = *sum;
        *sum += blocks.len(rank) as u64;
        Some(first)
    };
    (0..size).scan(0, next).collect()
}

/// Gathers into `total` bytes. The algorithm is given where a rank has its own block.
pub(crate) fn any_gather(
    size: u32,
    (root, in_place): (u32, bool),
    total: usize,
    blocks: &impl Blocks,
    scratch: impl Fn(u32) -> usize,
    algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place, Span) -> Result<(), Infallible>,
) -> Result<PlanProof, PlanFlaw> {
    let steps = record(size, |plan, place| {
        let in_place = in_place && place.rank == root;
        algorithm(plan, place, own_block(place.rank, blocks, in_place, Space::Input))
    })?;
    let elements = elements(size, blocks);
    let outcome = follow(steps, |rank, _| {
        let is_root = rank == root;
        let own = (blocks.span(rank), elements[rank as usize]);
        let total = if is_root { total } else { 0 };
        spaces_with_own(own, in_place && is_root, total, scratch(rank))
    })?;
    expect_blocks(&outcome, root, blocks, &elements)?;
    Ok(proof(outcome))
}

pub(super) fn expect_blocks(
    outcome: &CollectiveOutcome,
    rank: u32,
    blocks: &impl Blocks,
    elements: &[u64],
) -> Result<(), PlanFlaw> {
    outcome.ended(rank).expect_blocks(blocks, elements)
}

/// Scatters of blocks of `len` bytes each. In place, the root's block stays in its input, which no step may write: that
/// is for [`Tree::Linear`].
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn scatter(
    size: u32,
    how: Tree,
    root: u32,
    len: usize,
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let blocks = Even { space: Space::Input, len };
    let (total, scratch) = (len * size as usize, |_| scatter::scratch(how, size, len));
    any_scatter(size, (root, in_place), total, &blocks, scratch, |plan, place, own| {
        scatter::even(plan, place, how, root, blocks, own)
    })
}

/// Scatters of blocks that the user placed in `total` bytes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn scatterv(
    blocks: &Placed<'_>,
    root: u32,
    total: usize,
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let size = blocks.counts.len() as u32;
    any_scatter(
        size,
        (root, in_place),
        total,
        blocks,
        |_| 0,
        |plan, place, own| scatter::linear(plan, place, root, blocks, own),
    )
}

/// Scatters from `total` bytes. The algorithm is given where a rank gets its own block.
pub(super) fn any_scatter(
    size: u32,
    (root, in_place): (u32, bool),
    total: usize,
    blocks: &impl Blocks,
    scratch: impl Fn(u32) -> usize,
    algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place, Span) -> Result<(), Infallible>,
) -> Result<PlanProof, PlanFlaw> {
    let gets = |rank: u32| !(in_place && rank == root);
    let steps = record(size, |plan, place| {
        let in_place = !gets(place.rank);
        algorithm(plan, place, own_block(place.rank, blocks, in_place, Space::Output))
    })?;
    let elements = elements(size, blocks);
    let outcome = follow(steps, |rank, _| Spaces {
        input: match rank == root {
            true => placed(total, size, blocks, |rank| elements[rank as usize]),
            false => SymbolicMemory::default(),
        },
        output: SymbolicMemory::new(if gets(rank) { blocks.len(rank) } else { 0 }),
        scratch: scratch(rank),
    })?;
    for rank in (0..size).filter(|&rank| gets(rank)) {
        expect(&outcome, rank, (0, blocks.len(rank)), elements[rank as usize], &Of::Data)?;
    }
    Ok(proof(outcome))
}

/// Allgathers of blocks of `len` bytes each.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn allgather(
    size: u32,
    how: Allgather,
    len: usize,
    in_place: bool,
) -> Result<PlanProof, PlanFlaw> {
    let blocks = Even { space: Space::Output, len };
    let total = len * size as usize;
    let scratch = allgather::scratch(how, total);
    any_allgather(size, in_place, total, &blocks, scratch, |plan, place, own| {
        allgather::even(plan, place, how, own, blocks)
    })
}

/// Allgathers of blocks that the user placed in `total` bytes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn allgatherv(
    blocks: &Placed<'_>,
    how: Allgather,
    total: usize,
) -> Result<PlanProof, PlanFlaw> {
    let (size, scratch) = (blocks.counts.len() as u32, allgather::scratch(how, total));
    any_allgather(size, false, total, blocks, scratch, |plan, place, own| {
        allgather::any(plan, place, how, own, blocks)
    })
}

/// Allgathers into `total` bytes. The algorithm is given where a rank has its own block.
pub(crate) fn any_allgather(
    size: u32,
    in_place: bool,
    total: usize,
    blocks: &impl Blocks,
    scratch: usize,
    algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place, Span) -> Result<(), Infallible>,
) -> Result<PlanProof, PlanFlaw> {
    let all = follow_allgather(size, in_place, total, |_| blocks, |_| scratch, algorithm)?;
    let (outcome, elements) = all;
    expect_blocks(&outcome, 0, blocks, &elements)?;
    expect_agreement(&outcome)?;
    Ok(proof(outcome))
}

/// The same of blocks that each rank has elsewhere, as `blocks` says of it.
pub(super) fn any_allgatherv<B: Blocks>(
    size: u32,
    in_place: bool,
    total: usize,
    blocks: impl Fn(u32) -> B,
    scratch: impl Fn(u32) -> usize,
    algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place, Span) -> Result<(), Infallible>,
) -> Result<PlanProof, PlanFlaw> {
    let all = follow_allgather(size, in_place, total, &blocks, scratch, algorithm)?;
    let (outcome, elements) = all;
    for rank in 0..size {
        expect_blocks(&outcome, rank, &blocks(rank), &elements)?;
    }
    Ok(proof(outcome))
}

/// Follows an allgather. Its end, and the first element of each block.
fn follow_allgather<B: Blocks>(
    size: u32,
    in_place: bool,
    total: usize,
    blocks: impl Fn(u32) -> B,
    scratch: impl Fn(u32) -> usize,
    algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place, Span) -> Result<(), Infallible>,
) -> Result<(CollectiveOutcome, Vec<u64>), PlanFlaw> {
    let steps = record(size, |plan, place| {
        let own = own_block(place.rank, &blocks(place.rank), in_place, Space::Input);
        algorithm(plan, place, own)
    })?;
    let elements = elements(size, &blocks(0));
    let outcome = follow(steps, |rank, _| {
        let own = (blocks(rank).span(rank), elements[rank as usize]);
        spaces_with_own(own, in_place, total, scratch(rank))
    })?;
    Ok((outcome, elements))
}

/// The element at a place of a rank's input.
pub(super) fn of_input(rank: u32, at: usize) -> u64 {
    (u64::from(rank) << 40) + at as u64
}

/// All-to-alls of blocks of `len` bytes each.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn alltoall(size: u32, how: Alltoall, len: usize) -> Result<PlanProof, PlanFlaw> {
    let (from, into) = (Even { space: Space::Input, len }, Even { space: Space::Output, len });
    let steps = record(size, |plan, place| alltoall::even(plan, place, how, from, into))?;
    let scratch = |_| alltoall::scratch(how, size, len);
    any_alltoall(steps, len * size as usize, len * size as usize, scratch, |_| (from, into))
}

/// All-to-alls, with so many partners at a time, of blocks of `len(from, to)` bytes.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn alltoallv(
    size: u32,
    partners: u32,
    len: impl Fn(u32, u32) -> usize,
) -> Result<PlanProof, PlanFlaw> {
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

pub(super) fn any_alltoall<B: Blocks>(
    steps: Vec<Steps>,
    input: usize,
    output: usize,
    scratch: impl Fn(u32) -> usize,
    blocks: impl Fn(u32) -> (B, B),
) -> Result<PlanProof, PlanFlaw> {
    let size = steps.len() as u32;
    let outcome = follow(steps, |me, _| {
        let input = SymbolicMemory::of(&[data(of_input(me, 0), input)]);
        Spaces { input, output: SymbolicMemory::new(output), scratch: scratch(me) }
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
