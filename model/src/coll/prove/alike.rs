//! Proofs of algorithms that are the same at all ranks but for their numbers, of which one rank is followed: see
//! [`Alike`]. So algorithms with a message for each pair of ranks are proven for many ranks.
//!
//! `compared` are the ranks whose plans are compared with rank 0's. With all of them these are the proofs that
//! [`prove`](super) has for the same.

use super::*;
use crate::coll::verify::{Alike, Elements, Symmetry, moving};

/// Broadcasts of `len` bytes from rank 0, of which all ranks are followed, and from these roots, whose plans are compared with
/// those of rank 0's.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn bcast(
    size: u32,
    how: Bcast,
    roots: impl IntoIterator<Item = u32>,
    len: usize,
) -> Result<PlanProof, PlanFlaw> {
    let alike = Alike {
        size,
        symmetry: Symmetry::Rotation,
        block: 1,
        moving: moving(&[]),
        elements: Elements::Blocks,
    };
    for root in roots {
        alike.compare_root(root, |plan, place, root| {
            bcast::run(plan, place, how, root, Span::output(len))
        })?;
    }
    super::bcast(size, how, 0, len)
}

/// Allgathers of blocks of `len` bytes each, at least 1: by [`Bruck`](Allgather::Bruck), [`Ring`](Allgather::Ring) or
/// [`Direct`](Allgather::Direct).
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn allgather(
    size: u32,
    how: Allgather,
    len: usize,
    compared: impl IntoIterator<Item = u32>,
) -> Result<PlanProof, PlanFlaw> {
    let blocks = Even { space: Space::Output, len };
    let alike = Alike {
        size,
        symmetry: Symmetry::Rotation,
        block: len,
        moving: moving(&[Space::Output]),
        elements: Elements::Blocks,
    };
    let total = len * size as usize;
    let plan = |plan: &mut PlanRecorder<_>, place| {
        allgather::even(plan, place, how, Span::input(len), blocks)
    };
    let outcome = alike.follow(plan, compared, |_| Spaces {
        input: SymbolicMemory::of(&[data(0, len)]),
        output: SymbolicMemory::new(total),
        scratch: allgather::scratch(how, total),
    })?;
    expect_blocks(&outcome, 0, &blocks, &elements(size, &blocks))?;
    Ok(proof(outcome))
}

/// All-to-alls of blocks of `len` bytes each, at least 1.
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn alltoall(
    size: u32,
    how: Alltoall,
    len: usize,
    compared: impl IntoIterator<Item = u32>,
) -> Result<PlanProof, PlanFlaw> {
    let (from, into) = (Even { space: Space::Input, len }, Even { space: Space::Output, len });
    let exchange = matches!(how, Alltoall::Staged(_)) && size.is_power_of_two();
    let alike = Alike {
        size,
        symmetry: if exchange { Symmetry::Exchange } else { Symmetry::Rotation },
        block: len,
        moving: moving(&[Space::Input, Space::Output]),
        elements: Elements::OfRanks,
    };
    let total = len * size as usize;
    let plan = |plan: &mut PlanRecorder<_>, place| alltoall::even(plan, place, how, from, into);
    let outcome = alike.follow(plan, compared, |_| Spaces {
        input: SymbolicMemory::of(&[data(of_input(0, 0), total)]),
        output: SymbolicMemory::new(total),
        scratch: alltoall::scratch(how, size, len),
    })?;
    for rank in 0..size {
        let block = into.span(rank);
        expect(&outcome, 0, (block.at, len), of_input(rank, 0), &Of::Data)?;
    }
    Ok(proof(outcome))
}

/// Reductions of vectors of blocks of `len` bytes each, at least 1, that are scattered
/// [pairwise](ReduceScatter::Pairwise).
///
/// # Errors
/// The first [`PlanFlaw`].
pub fn pairwise(
    size: u32,
    len: usize,
    compared: impl IntoIterator<Item = u32>,
) -> Result<PlanProof, PlanFlaw> {
    let (how, blocks) = (ReduceScatter::Pairwise, Even { space: Space::Input, len });
    let alike = Alike {
        size,
        symmetry: Symmetry::Rotation,
        block: len,
        moving: moving(&[Space::Input]),
        elements: Elements::Blocks,
    };
    let plan = |plan: &mut PlanRecorder<_>, place| {
        reduce_scatter::run(plan, place, how, &blocks, Span::output(len))
    };
    let outcome = alike.follow(plan, compared, |contributions| Spaces {
        input: contribution(0, len * size as usize, contributions),
        output: SymbolicMemory::new(len),
        scratch: reduce_scatter::scratch(how, Place { rank: 0, size }, &blocks),
    })?;
    expect(&outcome, 0, (0, len), 0, &Of::new(0..size, false))?;
    Ok(proof(outcome))
}
