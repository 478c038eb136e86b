//! The blocking collectives in place: what a rank gives stands in the buffer that takes the result. (MPI: Collective
//! Communication, "Specifics for Intracommunicator Collective Operations", on `MPI_IN_PLACE`.)
//!
//! Those with a root are in place at the root alone. They have no argument for it: the rank that calls them is the root,
//! and the others make the ordinary call with its number. `allgather_in_place`, `reduce_in_place` and
//! `allreduce_in_place` stand beside the calls of their names. Where an algorithm needs what it overwrites, a copy is made.

use super::arena::Buffers;
use super::calls::{Partition, blocks_length};
use super::items::{first, read};
use super::mixed::{BlockMut, received};
use super::raw::Now;
use crate::comm::Communicator;
use crate::datatype::{Datatype, bytes_of, bytes_of_mut};
use crate::error::{MpiError, length};
use crate::op::Operation;
use bowline_model::coll::blocks::{Blocks, Even};
use bowline_model::coll::plan::Space;

impl Communicator {
    /// [`gather`](Self::gather) at its root, which has put its own block in its place of `items`. (`MPI_Gather` with
    /// `MPI_IN_PLACE`)
    ///
    /// ```no_run
    /// # use bowline_mpi::{Communicator, MpiError};
    /// # fn ranks(world: &Communicator) -> Result<Vec<i32>, MpiError> {
    /// let mut all = vec![0; world.size() as usize];
    /// match world.rank() {
    ///     0 => world.gather_in_place(&mut all)?,
    ///     rank => world.gather(&[rank], &mut [], 0)?,
    /// }
    /// # Ok(all)
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] when `items` is not a multiple of the number of ranks; else as for
    /// [`gather`](Self::gather).
    pub fn gather_in_place<T: Datatype>(&self, items: &mut [T]) -> Result<(), MpiError> {
        let count = block_in_place("the buffer of gather_in_place", self.inner.size, items.len())?;
        let root = self.inner.rank;
        let own = Even { space: Space::Output, len: count * size_of::<T>() }.span(root);
        self.gather_spans(Buffers::of(&[], bytes_of_mut(items)), own, root)
    }

    /// [`gatherv`](Self::gatherv) at its root, which has put its own block in its place of `items`. (`MPI_Gatherv` with
    /// `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`gatherv`](Self::gatherv).
    pub fn gatherv_in_place<T: Datatype>(
        &self,
        items: &mut [T],
        partition: Partition<'_>,
    ) -> Result<(), MpiError> {
        let root = self.inner.rank;
        let what = "the partition of gatherv_in_place";
        let blocks = partition.check::<T>(what, self.inner.size, items.len(), Space::Output)?;
        let own = blocks.span(root);
        self.gatherv_spans(Buffers::of(&[], bytes_of_mut(items)), own, &blocks, root)
    }

    /// [`scatter`](Self::scatter) at its root, whose own block stays where it is in `items`. (`MPI_Scatter` with
    /// `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] when `items` is not a multiple of the number of ranks; else as for
    /// [`scatter`](Self::scatter).
    pub fn scatter_in_place<T: Datatype>(&self, items: &[T]) -> Result<(), MpiError> {
        block_in_place("the buffer of scatter_in_place", self.inner.size, items.len())?;
        let from = first(read(items), self.inner.size);
        // SAFETY: `items` is borrowed for the call; nothing is received.
        unsafe { self.scatter_data(Now, from, None, self.rank()) }
    }

    /// [`scatterv`](Self::scatterv) at its root, whose own block stays where it is in `items`. (`MPI_Scatterv` with
    /// `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`scatterv`](Self::scatterv).
    pub fn scatterv_in_place<T: Datatype>(
        &self,
        items: &[T],
        partition: Partition<'_>,
    ) -> Result<(), MpiError> {
        let root = self.inner.rank;
        let what = "the partition of scatterv_in_place";
        let blocks = partition.check::<T>(what, self.inner.size, items.len(), Space::Input)?;
        let own = blocks.span(root);
        self.scatterv_spans(Buffers::of(bytes_of(items), &mut []), &blocks, own, root)
    }

    /// [`allgatherv`](Self::allgatherv) when each rank has put its block in its place of `items`. (`MPI_Allgatherv` with
    /// `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`allgatherv`](Self::allgatherv).
    pub fn allgatherv_in_place<T: Datatype>(
        &self,
        items: &mut [T],
        partition: Partition<'_>,
    ) -> Result<(), MpiError> {
        let what = "the partition of allgatherv_in_place";
        let blocks = partition.check::<T>(what, self.inner.size, items.len(), Space::Output)?;
        let own = blocks.span(self.inner.rank);
        // No overflow: blocks do not overlap and lie in one buffer.
        let total = partition.counts.iter().sum::<usize>() * size_of::<T>();
        self.allgatherv_spans(Buffers::of(&[], bytes_of_mut(items)), own, &blocks, total)
    }

    /// [`alltoall`](Self::alltoall) of which each block is sent and replaced by what comes. (`MPI_Alltoall` with
    /// `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] when `items` is not a multiple of the number of ranks; else as for
    /// [`alltoall`](Self::alltoall).
    pub fn alltoall_in_place<T: Datatype>(&self, items: &mut [T]) -> Result<(), MpiError> {
        block_in_place("the buffer of alltoall_in_place", self.inner.size, items.len())?;
        let given = items.to_vec();
        self.alltoall(&given, items)
    }

    /// [`alltoallv`](Self::alltoallv) of which each block is sent and replaced by what comes, which has the same length.
    /// (`MPI_Alltoallv` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`alltoallv`](Self::alltoallv).
    pub fn alltoallv_in_place<T: Datatype>(
        &self,
        items: &mut [T],
        partition: Partition<'_>,
    ) -> Result<(), MpiError> {
        let given = items.to_vec();
        self.alltoallv(&given, partition, items, partition)
    }

    /// [`alltoallw`](Self::alltoallw) of which each block is sent and replaced by what comes, which has the same length and
    /// type. (`MPI_Alltoallw` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`alltoallw`](Self::alltoallw).
    pub fn alltoallw_in_place<'a>(
        &self,
        blocks: impl IntoIterator<Item = BlockMut<'a>>,
    ) -> Result<(), MpiError> {
        let blocks = received(blocks, self.inner.size as usize)?;
        // SAFETY: all blocks are borrowed exclusively for `'a`, which is longer than the call, so that no two overlap.
        unsafe { self.alltoallv_data(Now, None, blocks) }
    }

    /// [`reduce_scatter_block`](Self::reduce_scatter_block) with the contribution in `items`, of which the result replaces
    /// the first block. (`MPI_Reduce_scatter_block` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] when `items` is not a multiple of the number of ranks; else as for
    /// [`reduce_scatter_block`](Self::reduce_scatter_block).
    pub fn reduce_scatter_block_in_place<T: Datatype>(
        &self,
        items: &mut [T],
        op: impl Operation<T>,
    ) -> Result<(), MpiError> {
        let what = "the buffer of reduce_scatter_block_in_place";
        let count = block_in_place(what, self.inner.size, items.len())?;
        let given = items.to_vec();
        self.reduce_scatter_block(&given, &mut items[..count], op)
    }

    /// [`reduce_scatter`](Self::reduce_scatter) with the contribution in `items`, of which the result replaces the first
    /// `counts[r]` at rank r. (`MPI_Reduce_scatter` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`reduce_scatter`](Self::reduce_scatter).
    pub fn reduce_scatter_in_place<T: Datatype>(
        &self,
        items: &mut [T],
        counts: &[usize],
        op: impl Operation<T>,
    ) -> Result<(), MpiError> {
        let what = "the buffer of reduce_scatter_in_place";
        let own = self.counted_in_place(what, counts, items.len())?;
        let given = items.to_vec();
        self.reduce_scatter(&given, &mut items[..own], counts, op)
    }

    /// [`scan`](Self::scan) with the contribution in `items`, which the result replaces. (`MPI_Scan` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`scan`](Self::scan).
    pub fn scan_in_place<T: Datatype>(
        &self,
        items: &mut [T],
        op: impl Operation<T>,
    ) -> Result<(), MpiError> {
        let given = items.to_vec();
        self.scan(&given, items, op)
    }

    /// [`exscan`](Self::exscan) with the contribution in `items`, which the result replaces; those of rank 0 are left as they
    /// are. (`MPI_Exscan` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`exscan`](Self::exscan).
    pub fn exscan_in_place<T: Datatype>(
        &self,
        items: &mut [T],
        op: impl Operation<T>,
    ) -> Result<(), MpiError> {
        let given = items.to_vec();
        self.exscan(&given, items, op)
    }

    /// This rank's count in a scattered reduction in place of so many elements.
    pub(crate) fn counted_in_place(
        &self,
        what: &'static str,
        counts: &[usize],
        len: usize,
    ) -> Result<usize, MpiError> {
        length("the counts of a reduction in place", self.inner.size as usize, counts.len())?;
        let sum = counts.iter().fold(0_usize, |sum, &count| sum.saturating_add(count));
        length(what, sum, len)?;
        Ok(counts[self.inner.rank as usize])
    }
}

/// Elements of a block where a buffer of `len` has one for each rank.
pub(crate) fn block_in_place(
    what: &'static str,
    ranks: u32,
    len: usize,
) -> Result<usize, MpiError> {
    let count = len / ranks as usize;
    blocks_length(what, ranks, count, len)?;
    Ok(count)
}
