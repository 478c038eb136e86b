//! The calls that make persistent collectives in place: what a rank gives stands in the buffer that takes the result.
//! (MPI: Collective Communication, "Persistent Collective Operations", with `MPI_IN_PLACE`.)
//!
//! That buffer is the [output](PersistentCollective::output) of what is made, and its input is empty; only where nothing
//! is received, at the root of what is dealt out, it is the input. As for the blocking ones, those with a root are for
//! the root alone, which is the rank that calls them. The others make the ordinary one, which matches.
//!
//! What is given is what stands there at each start; after the first one that is the result, unless it is written again.

use std::rc::Rc;

use super::{Held, PersistentCollective, PersistentExchange};
use crate::coll::calls::Partition;
use crate::coll::in_place::block_in_place;
use crate::coll::items::{combine, cut, first};
use crate::coll::mixed::OwnedBlock;
use crate::coll::raw::{Again, Data};
use crate::coll::run::Run;
use crate::comm::Communicator;
use crate::datatype::Datatype;
use crate::error::{MpiError, length};
use crate::op::Operation;
use bowline_model::coll::plan::Space;

impl Communicator {
    /// Makes a collective in place on one buffer, as [`make_persistent`](Self::make_persistent) does on two.
    fn make_in_place<T: Datatype>(
        &self,
        items: Vec<T>,
        record: impl FnOnce(&Self, Data) -> Result<Rc<Run>, MpiError>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        self.make_persistent(Vec::new(), items, |comm, (_, items)| record(comm, items))
    }

    /// Makes [`gather_init`](Self::gather_init) at its root, which has its own block in its place of `items`.
    /// (`MPI_Gather_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// Those of the arguments of [`gather_in_place`](Self::gather_in_place); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`]. The vector is dropped then, as in all of these calls.
    pub fn gather_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        block_in_place("the buffer of gather_in_place_init", self.inner.size, items.len())?;
        self.make_in_place(items, |comm, items| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.gather_data(Again, None, first(items, comm.inner.size), comm.rank()) }
        })
    }

    /// Makes [`gatherv_init`](Self::gatherv_init) at its root, which has its own block in its place of `items`.
    /// (`MPI_Gatherv_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// Those of the arguments of [`gatherv_in_place`](Self::gatherv_in_place); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`].
    pub fn gatherv_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
        partition: Partition<'_>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let what = "the partition of gatherv_in_place_init";
        partition.check::<T>(what, self.inner.size, items.len(), Space::Output)?;
        self.make_in_place(items, |comm, items| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.gatherv_data(Again, None, cut::<T>(&items, partition), comm.rank()) }
        })
    }

    /// Makes [`scatter_init`](Self::scatter_init) at its root, whose own block stays where it is in `items`, which are the
    /// input. (`MPI_Scatter_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// Those of the arguments of [`scatter_in_place`](Self::scatter_in_place); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`].
    pub fn scatter_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        block_in_place("the buffer of scatter_in_place_init", self.inner.size, items.len())?;
        self.make_persistent(items, Vec::new(), |comm, (items, _)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.scatter_data(Again, first(items, comm.inner.size), None, comm.rank()) }
        })
    }

    /// Makes [`scatterv_init`](Self::scatterv_init) at its root, whose own block stays where it is in `items`, which are
    /// the input. (`MPI_Scatterv_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// Those of the arguments of [`scatterv_in_place`](Self::scatterv_in_place); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`].
    pub fn scatterv_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
        partition: Partition<'_>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let what = "the partition of scatterv_in_place_init";
        partition.check::<T>(what, self.inner.size, items.len(), Space::Input)?;
        self.make_persistent(items, Vec::new(), |comm, (items, _)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.scatterv_data(Again, cut::<T>(&items, partition), None, comm.rank()) }
        })
    }

    /// Makes [`allgather_init`](Self::allgather_init) when each rank has its block in its place of `items`.
    /// (`MPI_Allgather_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// Those of the arguments of [`allgather_in_place`](Self::allgather_in_place); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`].
    pub fn allgather_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        block_in_place("the buffer of allgather_in_place_init", self.inner.size, items.len())?;
        self.make_in_place(items, |comm, items| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.allgather_data(Again, None, first(items, comm.inner.size)) }
        })
    }

    /// Makes [`allgatherv_init`](Self::allgatherv_init) when each rank has its block in its place of `items`.
    /// (`MPI_Allgatherv_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// Those of the arguments of [`allgatherv_in_place`](Self::allgatherv_in_place); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`].
    pub fn allgatherv_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
        partition: Partition<'_>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let what = "the partition of allgatherv_in_place_init";
        partition.check::<T>(what, self.inner.size, items.len(), Space::Output)?;
        self.make_in_place(items, |comm, items| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.allgatherv_data(Again, None, cut::<T>(&items, partition)) }
        })
    }

    /// Makes [`alltoall_init`](Self::alltoall_init) of which each block is sent and replaced by what comes.
    /// (`MPI_Alltoall_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// Those of the arguments of [`alltoall_in_place`](Self::alltoall_in_place); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`].
    pub fn alltoall_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        block_in_place("the buffer of alltoall_in_place_init", self.inner.size, items.len())?;
        self.make_in_place(items, |comm, items| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.alltoall_data(Again, None, first(items, comm.inner.size)) }
        })
    }

    /// Makes [`alltoallv_init`](Self::alltoallv_init) of which each block is sent and replaced by what comes, which has the
    /// same length. (`MPI_Alltoallv_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// Those of the arguments of [`alltoallv_in_place`](Self::alltoallv_in_place); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`].
    pub fn alltoallv_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
        partition: Partition<'_>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let what = "the partition of alltoallv_in_place_init";
        partition.check::<T>(what, self.inner.size, items.len(), Space::Output)?;
        self.make_in_place(items, |comm, items| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.alltoallv_data(Again, None, cut::<T>(&items, partition)) }
        })
    }

    /// Makes [`alltoallw_init`](Self::alltoallw_init) of which each block is sent and replaced by what comes, which has the
    /// same length and type. The blocks are those that are received. (`MPI_Alltoallw_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`], [`MpiError::BeyondReach`], [`MpiError::NumberInUse`]. The blocks are dropped then.
    pub fn alltoallw_in_place_init(
        &self,
        blocks: Vec<OwnedBlock>,
    ) -> Result<PersistentExchange, MpiError> {
        length("the blocks of alltoallw_in_place_init", self.inner.size as usize, blocks.len())?;
        let data = blocks.iter().map(OwnedBlock::data).collect();
        // SAFETY: their memory stays as long as the run may use it, and nobody gets at it meanwhile: see `Held`.
        let run = unsafe { self.alltoallv_data(Again, None, data) }?;
        let process = Rc::clone(&self.inner.process);
        Ok(PersistentExchange(Held::new(run, (Vec::new(), blocks), process)))
    }

    /// Makes [`reduce_init`](Self::reduce_init) at its root, with the contribution in `items`, which the result replaces.
    /// (`MPI_Reduce_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// Those of [`reduce_in_place`](Self::reduce_in_place)'s arguments; [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`].
    pub fn reduce_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
        op: impl Operation<T> + 'static,
    ) -> Result<PersistentCollective<T>, MpiError> {
        self.make_in_place(items, |comm, items| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.reduce_data(Again, None, items, combine(op), comm.rank()) }
        })
    }

    /// Makes [`allreduce_init`](Self::allreduce_init) with the contribution in `items`, which the result replaces.
    /// (`MPI_Allreduce_init` with `MPI_IN_PLACE`)
    ///
    /// ```no_run
    /// # use bowline_mpi::{Communicator, Max, MpiError};
    /// # fn relax(world: &Communicator, step: impl Fn() -> f64) -> Result<(), MpiError> {
    /// let mut greatest = world.allreduce_in_place_init(vec![0.0], Max)?;
    /// loop {
    ///     greatest.output_mut()?[0] = step();
    ///     greatest.start()?;
    ///     // ... compute here ...
    ///     greatest.wait()?;
    ///     if greatest.output()?[0] < 1e-6 {
    ///         return Ok(());
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`MpiError::BeyondReach`], [`MpiError::NumberInUse`].
    pub fn allreduce_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
        op: impl Operation<T> + 'static,
    ) -> Result<PersistentCollective<T>, MpiError> {
        self.make_in_place(items, |comm, items| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.allreduce_data(Again, None, items, combine(op)) }
        })
    }

    /// Makes [`reduce_scatter_block_init`](Self::reduce_scatter_block_init) with the contribution in `items`, of which the
    /// result replaces the first block. (`MPI_Reduce_scatter_block_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// Those of the arguments of [`reduce_scatter_block_in_place`](Self::reduce_scatter_block_in_place);
    /// [`MpiError::BeyondReach`], [`MpiError::NumberInUse`].
    pub fn reduce_scatter_block_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
        op: impl Operation<T> + 'static,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let what = "the buffer of reduce_scatter_block_in_place_init";
        block_in_place(what, self.inner.size, items.len())?;
        self.make_in_place(items, |comm, items| {
            let block = first(items, comm.inner.size);
            // SAFETY: see `make_persistent`.
            unsafe { comm.reduce_scatter_block_data(Again, None, block, combine(op)) }
        })
    }

    /// Makes [`reduce_scatter_init`](Self::reduce_scatter_init) with the contribution in `items`, of which the result
    /// replaces the first `counts[r]` at rank r. (`MPI_Reduce_scatter_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// Those of the arguments of [`reduce_scatter_in_place`](Self::reduce_scatter_in_place); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`].
    pub fn reduce_scatter_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
        counts: &[usize],
        op: impl Operation<T> + 'static,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let what = "the buffer of reduce_scatter_in_place_init";
        self.counted_in_place(what, counts, items.len())?;
        self.make_in_place(items, |comm, items| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.reduce_scatter_data(Again, None, items, counts, combine(op)) }
        })
    }

    /// Makes [`scan_init`](Self::scan_init) with the contribution in `items`, which the result replaces. (`MPI_Scan_init`
    /// with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// [`MpiError::BeyondReach`], [`MpiError::NumberInUse`].
    pub fn scan_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
        op: impl Operation<T> + 'static,
    ) -> Result<PersistentCollective<T>, MpiError> {
        self.make_in_place(items, |comm, items| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.scan_data(Again, false, None, items, combine(op)) }
        })
    }

    /// Makes [`exscan_init`](Self::exscan_init) with the contribution in `items`, which the result replaces; those of
    /// rank 0 are left as they are. (`MPI_Exscan_init` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// [`MpiError::BeyondReach`], [`MpiError::NumberInUse`].
    pub fn exscan_in_place_init<T: Datatype>(
        &self,
        items: Vec<T>,
        op: impl Operation<T> + 'static,
    ) -> Result<PersistentCollective<T>, MpiError> {
        self.make_in_place(items, |comm, items| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.scan_data(Again, true, None, items, combine(op)) }
        })
    }
}
