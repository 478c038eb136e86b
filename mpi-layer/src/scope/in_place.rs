//! Nonblocking collectives in place in a scope: what a rank gives stands in the buffer that takes the result. (MPI:
//! Collective Communication, "Nonblocking Collective Operations", with `MPI_IN_PLACE`.)
//!
//! As for the blocking ones, those with a root are for the root alone, which is the rank that calls them. The others
//! start the ordinary one, which matches.

use super::{CollectiveRequest, Scope};
use crate::coll::calls::Partition;
use crate::coll::in_place::block_in_place;
use crate::coll::items::{combine, cut, first, read, written};
use crate::coll::mixed::{BlockMut, received};
use crate::coll::raw::{Data, Later};
use crate::comm::Communicator;
use crate::datatype::Datatype;
use crate::error::MpiError;
use crate::op::Operation;
use bowline_model::coll::plan::Space;

impl<'scope> Scope<'scope, '_> {
    /// Starts [`igather`](Self::igather) at its root, which has put its own block in its place of `items`. (`MPI_Igather`
    /// with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::gather_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn igather_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let into = blocks("the buffer of igather_in_place", comm, written(items))?;
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.gather_data(Later, None, into, comm.rank()) })
    }

    /// Starts [`igatherv`](Self::igatherv) at its root, which has put its own block in its place of `items`.
    /// (`MPI_Igatherv` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::gatherv_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn igatherv_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
        partition: Partition<'_>,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let what = "the partition of igatherv_in_place";
        partition.check::<T>(what, comm.inner.size, items.len(), Space::Output)?;
        let blocks = cut::<T>(&written(items), partition);
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.gatherv_data(Later, None, blocks, comm.rank()) })
    }

    /// Starts [`iscatter`](Self::iscatter) at its root, whose own block stays where it is in `items`. (`MPI_Iscatter` with
    /// `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::scatter_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn iscatter_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope [T],
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let from = blocks("the buffer of iscatter_in_place", comm, read(items))?;
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.scatter_data(Later, from, None, comm.rank()) })
    }

    /// Starts [`iscatterv`](Self::iscatterv) at its root, whose own block stays where it is in `items`. (`MPI_Iscatterv`
    /// with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::scatterv_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn iscatterv_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope [T],
        partition: Partition<'_>,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let what = "the partition of iscatterv_in_place";
        partition.check::<T>(what, comm.inner.size, items.len(), Space::Input)?;
        let blocks = cut::<T>(&read(items), partition);
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.scatterv_data(Later, blocks, None, comm.rank()) })
    }

    /// Starts [`iallgather`](Self::iallgather) when each rank has put its block in its place of `items`. (`MPI_Iallgather`
    /// with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::allgather_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn iallgather_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let into = blocks("the buffer of iallgather_in_place", comm, written(items))?;
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.allgather_data(Later, None, into) })
    }

    /// Starts [`iallgatherv`](Self::iallgatherv) when each rank has put its block in its place of `items`.
    /// (`MPI_Iallgatherv` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::allgatherv_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn iallgatherv_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
        partition: Partition<'_>,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let what = "the partition of iallgatherv_in_place";
        partition.check::<T>(what, comm.inner.size, items.len(), Space::Output)?;
        let blocks = cut::<T>(&written(items), partition);
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.allgatherv_data(Later, None, blocks) })
    }

    /// Starts [`ialltoall`](Self::ialltoall) of which each block is sent and replaced by what comes. (`MPI_Ialltoall` with
    /// `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::alltoall_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn ialltoall_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let into = blocks("the buffer of ialltoall_in_place", comm, written(items))?;
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.alltoall_data(Later, None, into) })
    }

    /// Starts [`ialltoallv`](Self::ialltoallv) of which each block is sent and replaced by what comes, which has the same
    /// length. (`MPI_Ialltoallv` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::alltoallv_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn ialltoallv_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
        partition: Partition<'_>,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let what = "the partition of ialltoallv_in_place";
        partition.check::<T>(what, comm.inner.size, items.len(), Space::Output)?;
        let blocks = cut::<T>(&written(items), partition);
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.alltoallv_data(Later, None, blocks) })
    }

    /// Starts [`ialltoallw`](Self::ialltoallw) of which each block is sent and replaced by what comes, which has the same
    /// length and type. (`MPI_Ialltoallw` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::alltoallw_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn ialltoallw_in_place(
        &'scope self,
        comm: &'scope Communicator,
        blocks: impl IntoIterator<Item = BlockMut<'scope>>,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let blocks = received(blocks, comm.inner.size as usize)?;
        // SAFETY: all are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.alltoallv_data(Later, None, blocks) })
    }

    /// Starts [`ireduce`](Self::ireduce) at its root, with the contribution in `items`, which the result replaces.
    /// (`MPI_Ireduce` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::reduce_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn ireduce_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
        op: impl Operation<T> + 'static,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe {
            comm.reduce_data(Later, None, written(items), combine(op), comm.rank())
        })
    }

    /// Starts [`iallreduce`](Self::iallreduce) with the contribution in `items`, which the result replaces.
    /// (`MPI_Iallreduce` with `MPI_IN_PLACE`)
    ///
    /// ```no_run
    /// # use bowline_mpi::{Communicator, MpiError, Sum};
    /// # fn mean(world: &Communicator) -> Result<f64, MpiError> {
    /// let mut sum = [f64::from(world.rank())];
    /// world.scope(|s| {
    ///     let total = s.iallreduce_in_place(world, &mut sum, Sum)?;
    ///     // ... compute here ...
    ///     total.wait()
    /// })?;
    /// # Ok(sum[0] / f64::from(world.size()))
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Communicator::allreduce_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn iallreduce_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
        op: impl Operation<T> + 'static,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.allreduce_data(Later, None, written(items), combine(op)) })
    }

    /// Starts [`ireduce_scatter_block`](Self::ireduce_scatter_block) with the contribution in `items`, of which the result
    /// replaces the first block. (`MPI_Ireduce_scatter_block` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::reduce_scatter_block_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn ireduce_scatter_block_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
        op: impl Operation<T> + 'static,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let what = "the buffer of ireduce_scatter_block_in_place";
        let into = blocks(what, comm, written(items))?;
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.reduce_scatter_block_data(Later, None, into, combine(op)) })
    }

    /// Starts [`ireduce_scatter`](Self::ireduce_scatter) with the contribution in `items`, of which the result replaces the
    /// first `counts[r]` at rank r. (`MPI_Ireduce_scatter` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::reduce_scatter_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn ireduce_scatter_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
        counts: &[usize],
        op: impl Operation<T> + 'static,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        comm.counted_in_place("the buffer of ireduce_scatter_in_place", counts, items.len())?;
        let into = written(items);
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.reduce_scatter_data(Later, None, into, counts, combine(op)) })
    }

    /// Starts [`iscan`](Self::iscan) with the contribution in `items`, which the result replaces. (`MPI_Iscan` with
    /// `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::scan_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn iscan_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
        op: impl Operation<T> + 'static,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.scan_data(Later, false, None, written(items), combine(op)) })
    }

    /// Starts [`iexscan`](Self::iexscan) with the contribution in `items`, which the result replaces; those of rank 0 are
    /// left as they are. (`MPI_Iexscan` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`Communicator::exscan_in_place`], and [`MpiError::ForeignCommunicator`].
    pub fn iexscan_in_place<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
        op: impl Operation<T> + 'static,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.scan_data(Later, true, None, written(items), combine(op)) })
    }
}

/// The first of the blocks of all ranks, which have one length.
fn blocks(what: &'static str, comm: &Communicator, all: Data) -> Result<Data, MpiError> {
    block_in_place(what, comm.inner.size, all.count)?;
    Ok(first(all, comm.inner.size))
}
