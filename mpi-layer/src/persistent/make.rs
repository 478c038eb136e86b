//! The calls that make persistent collectives. They check arguments as the blocking calls do, record the steps, and
//! send nothing.

use std::rc::Rc;

use super::{Held, PersistentCollective};
use crate::coll::calls::{Partition, blocks_length};
use crate::coll::items::{combine, cut, data, first};
use crate::coll::raw::{Again, Data};
use crate::coll::run::Run;
use crate::comm::Communicator;
use crate::datatype::Datatype;
use crate::error::MpiError;
use crate::error::length;
use crate::handles::OwnedItems;
use crate::op::Operation;
use bowline_model::coll::plan::Space;

impl Communicator {
    /// Makes a collective on two buffers, which `record` is given as elements. Whatever it does with them is sound
    /// for as long as the memory stays, which is longer than the run uses it.
    pub(super) fn make_persistent<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
        record: impl FnOnce(&Self, (Data, Data)) -> Result<Rc<Run>, MpiError>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let buffers = (OwnedItems::new(input), OwnedItems::new(output));
        let elements = |items: &OwnedItems<T>| {
            let (start, count) = items.memory();
            data(start, count)
        };
        let run = record(self, (elements(&buffers.0), elements(&buffers.1)))?;
        Ok(PersistentCollective(Held::new(run, buffers, Rc::clone(&self.inner.process))))
    }

    /// Makes a barrier. (`MPI_Barrier_init`)
    ///
    /// # Errors
    /// [`MpiError::NumberInUse`].
    pub fn barrier_init(&self) -> Result<PersistentCollective<u8>, MpiError> {
        self.make_persistent(Vec::new(), Vec::new(), |comm, _| comm.barrier_data(Again))
    }

    /// Makes a broadcast of the items of `root`, which are its output at all ranks. (`MPI_Bcast_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`bcast`](Self::bcast); [`MpiError::BeyondReach`], [`MpiError::NumberInUse`]. The
    /// vectors are dropped then.
    pub fn bcast_init<T: Datatype>(
        &self,
        output: Vec<T>,
        root: i32,
    ) -> Result<PersistentCollective<T>, MpiError> {
        self.make_persistent(Vec::new(), output, |comm, (_, output)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.bcast_data(Again, output, root) }
        })
    }

    /// Makes a collection of blocks of one length at `root`; elsewhere the output does not count. (`MPI_Gather_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`gather`](Self::gather); [`MpiError::BeyondReach`], [`MpiError::NumberInUse`]. The
    /// vectors are dropped then.
    pub fn gather_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
        root: i32,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let size = self.inner.size;
        if self.root(root)? == self.inner.rank {
            blocks_length("the output of gather_init", size, input.len(), output.len())?;
        }
        self.make_persistent(input, output, |comm, (input, output)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.gather_data(Again, Some(input), first(output, size), root) }
        })
    }

    /// Makes a dealing out of blocks of one length from `root`; elsewhere the input does not count.
    /// (`MPI_Scatter_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`scatter`](Self::scatter); [`MpiError::BeyondReach`], [`MpiError::NumberInUse`]. The
    /// vectors are dropped then.
    pub fn scatter_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
        root: i32,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let size = self.inner.size;
        if self.root(root)? == self.inner.rank {
            blocks_length("the input of scatter_init", size, output.len(), input.len())?;
        }
        self.make_persistent(input, output, |comm, (input, output)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.scatter_data(Again, first(input, size), Some(output), root) }
        })
    }

    /// Makes a collection of blocks of different lengths at `root`, which says where they go. (`MPI_Gatherv_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`gatherv`](Self::gatherv); [`MpiError::BeyondReach`], [`MpiError::NumberInUse`]. The
    /// vectors are dropped then.
    pub fn gatherv_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
        partition: Partition<'_>,
        root: i32,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let size = self.inner.size;
        let here = self.root(root)? == self.inner.rank;
        if here {
            let what = "the partition of gatherv_init";
            partition.check::<T>(what, size, output.len(), Space::Output)?;
        }
        self.make_persistent(input, output, |comm, (input, output)| {
            let blocks = if here { cut::<T>(&output, partition) } else { Vec::new() };
            // SAFETY: see `make_persistent`.
            unsafe { comm.gatherv_data(Again, Some(input), blocks, root) }
        })
    }

    /// Makes a dealing out of blocks of different lengths from `root`, which says where they are. (`MPI_Scatterv_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`scatterv`](Self::scatterv); [`MpiError::BeyondReach`], [`MpiError::NumberInUse`].
    /// The vectors are dropped then.
    pub fn scatterv_init<T: Datatype>(
        &self,
        input: Vec<T>,
        partition: Partition<'_>,
        output: Vec<T>,
        root: i32,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let size = self.inner.size;
        let here = self.root(root)? == self.inner.rank;
        if here {
            let what = "the partition of scatterv_init";
            partition.check::<T>(what, size, input.len(), Space::Input)?;
        }
        self.make_persistent(input, output, |comm, (input, output)| {
            let blocks = if here { cut::<T>(&input, partition) } else { Vec::new() };
            // SAFETY: see `make_persistent`.
            unsafe { comm.scatterv_data(Again, blocks, Some(output), root) }
        })
    }

    /// Makes a collection of blocks of one length at all ranks. (`MPI_Allgather_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`allgather`](Self::allgather); [`MpiError::BeyondReach`], [`MpiError::NumberInUse`].
    /// The vectors are dropped then.
    pub fn allgather_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let size = self.inner.size;
        blocks_length("the output of allgather_init", size, input.len(), output.len())?;
        self.make_persistent(input, output, |comm, (input, output)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.allgather_data(Again, Some(input), first(output, size)) }
        })
    }

    /// Makes a collection of blocks of different lengths at all ranks. (`MPI_Allgatherv_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`allgatherv`](Self::allgatherv); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`]. The vectors are dropped then.
    pub fn allgatherv_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
        partition: Partition<'_>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let size = self.inner.size;
        let what = "the partition of allgatherv_init";
        partition.check::<T>(what, size, output.len(), Space::Output)?;
        self.make_persistent(input, output, |comm, (input, output)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.allgatherv_data(Again, Some(input), cut::<T>(&output, partition)) }
        })
    }

    /// Makes an exchange of blocks of one length between all ranks. (`MPI_Alltoall_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`alltoall`](Self::alltoall); [`MpiError::BeyondReach`], [`MpiError::NumberInUse`].
    /// The vectors are dropped then.
    pub fn alltoall_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let size = self.inner.size;
        let block = input.len() / size as usize;
        blocks_length("the input of alltoall_init", size, block, input.len())?;
        length("the output of alltoall_init", input.len(), output.len())?;
        self.make_persistent(input, output, |comm, (input, output)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.alltoall_data(Again, Some(first(input, size)), first(output, size)) }
        })
    }

    /// Makes an exchange of blocks of different lengths between all ranks. (`MPI_Alltoallv_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`alltoallv`](Self::alltoallv); [`MpiError::BeyondReach`], [`MpiError::NumberInUse`].
    /// The vectors are dropped then.
    pub fn alltoallv_init<T: Datatype>(
        &self,
        input: Vec<T>,
        send: Partition<'_>,
        output: Vec<T>,
        receive: Partition<'_>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let size = self.inner.size;
        send.check::<T>("the send partition of alltoallv_init", size, input.len(), Space::Input)?;
        let what = "the receive partition of alltoallv_init";
        receive.check::<T>(what, size, output.len(), Space::Output)?;
        self.make_persistent(input, output, |comm, (input, output)| {
            let (from, into) = (cut::<T>(&input, send), cut::<T>(&output, receive));
            // SAFETY: see `make_persistent`.
            unsafe { comm.alltoallv_data(Again, Some(from), into) }
        })
    }

    /// Makes a reduction to `root`; elsewhere the output does not count. (`MPI_Reduce_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`reduce`](Self::reduce); [`MpiError::BeyondReach`], [`MpiError::NumberInUse`]. The
    /// vectors are dropped then.
    pub fn reduce_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
        op: impl Operation<T> + 'static,
        root: i32,
    ) -> Result<PersistentCollective<T>, MpiError> {
        if self.root(root)? == self.inner.rank {
            length("the output of reduce_init", input.len(), output.len())?;
        }
        self.make_persistent(input, output, |comm, (input, output)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.reduce_data(Again, Some(input), output, combine(op), root) }
        })
    }

    /// Makes a reduction whose result all ranks get. (`MPI_Allreduce_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`allreduce`](Self::allreduce); [`MpiError::BeyondReach`], [`MpiError::NumberInUse`].
    /// The vectors are dropped then.
    pub fn allreduce_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
        op: impl Operation<T> + 'static,
    ) -> Result<PersistentCollective<T>, MpiError> {
        length("the output of allreduce_init", input.len(), output.len())?;
        self.make_persistent(input, output, |comm, (input, output)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.allreduce_data(Again, Some(input), output, combine(op)) }
        })
    }

    /// Makes a reduction of which rank r gets the r-th block. (`MPI_Reduce_scatter_block_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`reduce_scatter_block`](Self::reduce_scatter_block); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`]. The vectors are dropped then.
    pub fn reduce_scatter_block_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
        op: impl Operation<T> + 'static,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let size = self.inner.size;
        let what = "the input of reduce_scatter_block_init";
        blocks_length(what, size, output.len(), input.len())?;
        self.make_persistent(input, output, |comm, (input, output)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.reduce_scatter_block_data(Again, Some(input.start), output, combine(op)) }
        })
    }

    /// Makes a reduction of which rank r gets `counts[r]` elements, after those of the ranks below.
    /// (`MPI_Reduce_scatter_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`reduce_scatter`](Self::reduce_scatter); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`]. The vectors are dropped then.
    pub fn reduce_scatter_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
        counts: &[usize],
        op: impl Operation<T> + 'static,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let size = self.inner.size;
        length("the counts of reduce_scatter_init", size as usize, counts.len())?;
        length("the output of reduce_scatter_init", counts[self.rank() as usize], output.len())?;
        let sum = counts.iter().fold(0_usize, |sum, &count| sum.saturating_add(count));
        length("the input of reduce_scatter_init", sum, input.len())?;
        self.make_persistent(input, output, |comm, (input, output)| {
            // SAFETY: see `make_persistent`.
            unsafe {
                comm.reduce_scatter_data(Again, Some(input.start), output, counts, combine(op))
            }
        })
    }

    /// Makes a reduction of the inputs of all ranks up to this one. (`MPI_Scan_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`scan`](Self::scan); [`MpiError::BeyondReach`], [`MpiError::NumberInUse`]. The
    /// vectors are dropped then.
    pub fn scan_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
        op: impl Operation<T> + 'static,
    ) -> Result<PersistentCollective<T>, MpiError> {
        length("the output of scan_init", input.len(), output.len())?;
        self.make_persistent(input, output, |comm, (input, output)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.scan_data(Again, false, Some(input), output, combine(op)) }
        })
    }

    /// Makes a reduction of the inputs of all ranks below this one; the output of rank 0 is left as it is.
    /// (`MPI_Exscan_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`exscan`](Self::exscan); [`MpiError::BeyondReach`], [`MpiError::NumberInUse`]. The
    /// vectors are dropped then.
    pub fn exscan_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
        op: impl Operation<T> + 'static,
    ) -> Result<PersistentCollective<T>, MpiError> {
        length("the output of exscan_init", input.len(), output.len())?;
        self.make_persistent(input, output, |comm, (input, output)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.scan_data(Again, true, Some(input), output, combine(op)) }
        })
    }
}
