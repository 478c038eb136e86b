//! The collectives whose data is in cells of staging memory: short ones, which are one exchange.
//!
//! Each rank puts what it brings into its cell, states the call, waits until those have stated it whose data it wants,
//! and reads their cells. So of ranks with a processor each, one line of memory goes from one cache to another. Rules are
//! those of [`bowline_base::staging`]; waiting, sleepers and errors are as [`staged`](super::staged) has them.

use super::Broken;
use super::staged::{Passage, Sources, Terms};
use crate::coll::arena::Buffers;
use crate::coll::spans::Reduction;
use crate::comm::CommInner;
use crate::error::MpiError;
use crate::op::operands::Operands;
use crate::shared_memory::Staging;
use bowline_base::copy::copy_slice;
use bowline_model::coll::blocks::Blocks;
use bowline_model::coll::plan::Span;

/// Where the data of collective `kind` begins in cells, for each rank.
const fn stride(len: usize) -> usize {
    len.next_multiple_of(8)
}

/// Bytes of a cell that blocks for each of some ranks take.
pub(super) const fn space(ranks: u32, len: usize) -> usize {
    stride(len).saturating_mul(ranks as usize)
}

impl Staging {
    /// Returns when all ranks have called it.
    pub(crate) fn barrier(&self, comm: &CommInner) -> Result<(), MpiError> {
        let terms = Terms { kind: super::staged::BARRIER, root: 0, len: 0 };
        self.collective(comm, terms, &|_| 0, |passage| {
            passage.state(|_| {})?;
            passage.compare(Sources::AllAlike)
        })
    }
}

/// Brings `data` of the root to all ranks.
pub(super) fn bcast(
    passage: &mut Passage<'_>,
    buffers: &mut Buffers<'_>,
    data: Span,
    root: u32,
) -> Result<(), Broken> {
    if passage.comm.rank == root {
        return passage.state(|cell| cell.put(0, buffers.bytes(data)));
    }
    passage.compare(Sources::One(root))?;
    passage.cells(|cell| cell.get(root, 0, buffers.bytes_mut(data)));
    Ok(())
}

/// Brings the blocks of all ranks to all, or to a root; the own block is in its place.
pub(super) fn gather(
    passage: &mut Passage<'_>,
    buffers: &mut Buffers<'_>,
    own: Span,
    blocks: &impl Blocks,
    to: Option<u32>,
) -> Result<(), Broken> {
    let rank = passage.comm.rank;
    if to != Some(rank) {
        passage.state(|cell| cell.put(0, buffers.bytes(own)))?;
    }
    let sources = match to {
        None => Sources::AllAlike,
        Some(root) if root == rank => Sources::All,
        Some(_) => return Ok(()),
    };
    passage.compare(sources)?;
    passage.cells(|cell| {
        for from in (0..passage.comm.size).filter(|&from| from != rank) {
            cell.get(from, 0, buffers.bytes_mut(blocks.span(from)));
        }
    });
    Ok(())
}

/// Exchanges blocks of `len` bytes between all ranks; the own one is in its place.
pub(super) fn alltoall(
    passage: &mut Passage<'_>,
    buffers: &mut Buffers<'_>,
    len: usize,
    from: &impl Blocks,
    into: &impl Blocks,
) -> Result<(), Broken> {
    let (rank, stride) = (passage.comm.rank, stride(len));
    let others = || (0..passage.comm.size).filter(|&other| other != rank);
    passage.state(|cell| {
        for to in others() {
            cell.put(to as usize * stride, buffers.bytes(from.span(to)));
        }
    })?;
    passage.compare(Sources::AllAlike)?;
    passage.cells(|cell| {
        for source in others() {
            let out = buffers.bytes_mut(into.span(source));
            cell.get(source, rank as usize * stride, out);
        }
    });
    Ok(())
}

/// Brings the vectors of all ranks to all, or to a root: into `rows`, one for each rank, to be combined when the call is
/// over. So an operation of the program's may call back in, or unwind.
pub(super) fn collect(
    passage: &mut Passage<'_>,
    own: &[u8],
    to: Option<u32>,
    rows: &mut [u8],
) -> Result<(), Broken> {
    let (rank, ranks) = (passage.comm.rank, passage.comm.size);
    if to != Some(rank) {
        passage.state(|cell| cell.put(0, own))?;
    }
    let sources = match to {
        None => Sources::AllAlike,
        Some(root) if root == rank => Sources::All,
        Some(_) => return Ok(()),
    };
    passage.compare(sources)?;
    let row = row(own.len());
    passage.cells(|cell| {
        for from in 0..ranks {
            let out = &mut rows[from as usize * row..][..own.len()];
            match from == rank {
                true => copy_slice(own, out),
                false => cell.get(from, 0, out),
            }
        }
    });
    Ok(())
}

/// Bytes from one vector to the next among those that are collected.
pub(super) const fn row(len: usize) -> usize {
    len.next_multiple_of(64)
}

/// Combines what was collected, in order of rank.
pub(super) fn combine<'r>(
    rows: &'r mut [u8],
    ranks: u32,
    len: usize,
    op: Reduction<'_>,
) -> &'r [u8] {
    let (lefts, result) = rows.split_at_mut((ranks as usize - 1) * row(len));
    let result = &mut result[..len];
    if len > 0 {
        for left in lefts.chunks_exact(row(len)).rev() {
            (op.combine)(Operands::of(&left[..len], result));
        }
    }
    result
}
