//! Nonblocking collectives in a scope. (MPI: Collective Communication, "Nonblocking Collective Operations".)
//!
//! Each starts here and is carried out whenever this rank waits or polls for anything. All ranks start the same
//! ones in the same order; a nonblocking one never matches a blocking one. Buffers are borrowed for the scope
//! (point 1 of [`scope`](super)), which waits for all of them: when it ends well, for their end; when it fails or
//! panics, what is under way is given up, and other members may fail then. Operations are code that runs inside
//! of other calls: one that panics ends the process.

use std::rc::Rc;

use super::Scope;
use crate::coll::calls::{Partition, blocks_length};
use crate::coll::items::{combine, cut, first, read, written};
use crate::coll::mixed::{Block, BlockMut, received, sent};
use crate::coll::raw::Later;
use crate::coll::run::Run;
use crate::comm::Communicator;
use crate::datatype::Datatype;
use crate::error::MpiError;
use crate::error::length;
use crate::op::Operation;
use crate::process::Process;
use crate::request::sealed::Core;
use crate::request::{Request, State};
use bowline_model::coll::plan::Space;

/// A collective in a scope. Dropped, it goes on, and the scope waits for it. As a [`Request`] its status is empty.
///
/// Beside the errors that stand with each call that starts one, all of these calls have [`MpiError::BeyondReach`] and
/// [`MpiError::NumberInUse`].
#[derive(Debug)]
#[must_use = "the scope waits for it; wait for it here to learn how it ended"]
pub struct CollectiveRequest<'scope> {
    process: &'scope Process,
    run: Rc<Run>,
    /// How it ended, once that has been reported: the scope does not report it again.
    reported: State,
}

impl CollectiveRequest<'_> {
    /// Waits for the end. (`MPI_Wait`)
    ///
    /// # Errors
    /// Those of the blocking call of the same name: [`MpiError::CountMismatch`] when ranks give different lengths;
    /// a member's failure.
    pub fn wait(mut self) -> Result<(), MpiError> {
        self.complete().map(drop)
    }

    /// Whether it has ended. Makes progress. (`MPI_Test`)
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), when it has ended so.
    pub fn test(&mut self) -> Result<bool, MpiError> {
        Request::test(self).map(|ended| ended.is_some())
    }
}

#[expect(private_interfaces, reason = "sealed: nobody outside can name or call it")]
impl Core for CollectiveRequest<'_> {
    fn process(&self) -> &Process {
        self.process
    }
    fn state(&mut self) -> &mut State {
        &mut self.reported
    }
    fn state_now(&self) -> State {
        State::of_run(&self.run, self.reported)
    }
    fn released(&mut self) {
        self.run.finish();
    }
}

impl Request for CollectiveRequest<'_> {}

impl<'scope> Scope<'scope, '_> {
    /// Starts a recorded collective, whose buffers are borrowed for the scope.
    pub(super) fn begin(
        &'scope self,
        run: Result<Rc<Run>, MpiError>,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        let run = run?;
        self.tracker.runs.borrow_mut().push(Rc::clone(&run));
        // SAFETY: the buffers are borrowed for `'scope`, and the tracker, which has the run, neither returns nor
        // unwinds before it has ended or is dropped (the module's points 1 and 2).
        let started = unsafe { run.start() };
        debug_assert!(started, "a run is started once");
        Ok(CollectiveRequest { process: &self.tracker.process, run, reported: State::Running })
    }

    /// Starts a barrier. (`MPI_Ibarrier`)
    ///
    /// # Errors
    /// [`MpiError::ForeignCommunicator`].
    pub fn ibarrier(
        &'scope self,
        comm: &'scope Communicator,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        self.begin(comm.barrier_data(Later))
    }

    /// Starts to bring the items of `root` to all ranks. (`MPI_Ibcast`)
    ///
    /// # Errors
    /// [`MpiError::InvalidRoot`], [`MpiError::ForeignCommunicator`].
    pub fn ibcast<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
        root: i32,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        // SAFETY: `items` are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.bcast_data(Later, written(items), root) })
    }

    /// Starts to collect blocks of one length at `root`. (`MPI_Igather`)
    ///
    /// # Errors
    /// As for [`Communicator::gather`], and [`MpiError::ForeignCommunicator`].
    pub fn igather<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
        root: i32,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        if comm.root(root)? == comm.inner.rank {
            blocks_length("the output of igather", comm.inner.size, input.len(), output.len())?;
        }
        let into = first(written(output), comm.inner.size);
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.gather_data(Later, Some(read(input)), into, root) })
    }

    /// Starts to deal out blocks of one length from `root`. (`MPI_Iscatter`)
    ///
    /// # Errors
    /// As for [`Communicator::scatter`], and [`MpiError::ForeignCommunicator`].
    pub fn iscatter<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
        root: i32,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        if comm.root(root)? == comm.inner.rank {
            blocks_length("the input of iscatter", comm.inner.size, output.len(), input.len())?;
        }
        let from = first(read(input), comm.inner.size);
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.scatter_data(Later, from, Some(written(output)), root) })
    }

    /// Starts to collect blocks of different lengths at `root`, which says where they go. (`MPI_Igatherv`)
    ///
    /// # Errors
    /// As for [`Communicator::gatherv`], and [`MpiError::ForeignCommunicator`].
    pub fn igatherv<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
        partition: Partition<'_>,
        root: i32,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let mut blocks = Vec::new();
        if comm.root(root)? == comm.inner.rank {
            let what = "the partition of igatherv";
            partition.check::<T>(what, comm.inner.size, output.len(), Space::Output)?;
            blocks = cut::<T>(&written(output), partition);
        }
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.gatherv_data(Later, Some(read(input)), blocks, root) })
    }

    /// Starts to deal out blocks of different lengths from `root`, which says where they are. (`MPI_Iscatterv`)
    ///
    /// # Errors
    /// As for [`Communicator::scatterv`], and [`MpiError::ForeignCommunicator`].
    pub fn iscatterv<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        partition: Partition<'_>,
        output: &'scope mut [T],
        root: i32,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let mut blocks = Vec::new();
        if comm.root(root)? == comm.inner.rank {
            let what = "the partition of iscatterv";
            partition.check::<T>(what, comm.inner.size, input.len(), Space::Input)?;
            blocks = cut::<T>(&read(input), partition);
        }
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.scatterv_data(Later, blocks, Some(written(output)), root) })
    }

    /// Starts to collect blocks of one length at all ranks. (`MPI_Iallgather`)
    ///
    /// # Errors
    /// As for [`Communicator::allgather`], and [`MpiError::ForeignCommunicator`].
    pub fn iallgather<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        blocks_length("the output of iallgather", comm.inner.size, input.len(), output.len())?;
        let into = first(written(output), comm.inner.size);
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.allgather_data(Later, Some(read(input)), into) })
    }

    /// Starts to collect blocks of different lengths at all ranks. (`MPI_Iallgatherv`)
    ///
    /// # Errors
    /// As for [`Communicator::allgatherv`], and [`MpiError::ForeignCommunicator`].
    pub fn iallgatherv<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
        partition: Partition<'_>,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let what = "the partition of iallgatherv";
        partition.check::<T>(what, comm.inner.size, output.len(), Space::Output)?;
        let blocks = cut::<T>(&written(output), partition);
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.allgatherv_data(Later, Some(read(input)), blocks) })
    }

    /// Starts an exchange of blocks of one length between all ranks. (`MPI_Ialltoall`)
    ///
    /// # Errors
    /// As for [`Communicator::alltoall`], and [`MpiError::ForeignCommunicator`].
    pub fn ialltoall<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let size = comm.inner.size;
        let count = input.len() / size as usize;
        blocks_length("the input of ialltoall", size, count, input.len())?;
        length("the output of ialltoall", input.len(), output.len())?;
        let (from, into) = (first(read(input), size), first(written(output), size));
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.alltoall_data(Later, Some(from), into) })
    }

    /// Starts an exchange of blocks of different lengths between all ranks. (`MPI_Ialltoallv`)
    ///
    /// # Errors
    /// As for [`Communicator::alltoallv`], and [`MpiError::ForeignCommunicator`].
    pub fn ialltoallv<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        send: Partition<'_>,
        output: &'scope mut [T],
        receive: Partition<'_>,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let size = comm.inner.size;
        send.check::<T>("the send partition of ialltoallv", size, input.len(), Space::Input)?;
        let what = "the receive partition of ialltoallv";
        receive.check::<T>(what, size, output.len(), Space::Output)?;
        let (from, into) = (cut::<T>(&read(input), send), cut::<T>(&written(output), receive));
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.alltoallv_data(Later, Some(from), into) })
    }

    /// Starts an exchange of blocks of which each has its own length and type. (`MPI_Ialltoallw`)
    ///
    /// # Errors
    /// As for [`Communicator::alltoallw`], and [`MpiError::ForeignCommunicator`].
    pub fn ialltoallw(
        &'scope self,
        comm: &'scope Communicator,
        send: impl IntoIterator<Item = Block<'scope>>,
        receive: impl IntoIterator<Item = BlockMut<'scope>>,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let size = comm.inner.size as usize;
        let (from, into) = (sent(send, size)?, received(receive, size)?);
        // SAFETY: all are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.alltoallv_data(Later, Some(from), into) })
    }

    /// Starts to combine the inputs of all ranks at `root`. (`MPI_Ireduce`)
    ///
    /// # Errors
    /// As for [`Communicator::reduce`], and [`MpiError::ForeignCommunicator`].
    pub fn ireduce<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
        op: impl Operation<T> + 'static,
        root: i32,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        if comm.root(root)? == comm.inner.rank {
            length("the output of ireduce", input.len(), output.len())?;
        }
        let (from, into) = (Some(read(input)), written(output));
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.reduce_data(Later, from, into, combine(op), root) })
    }

    /// Starts to combine the inputs of all ranks; all get the result. (`MPI_Iallreduce`)
    ///
    /// # Errors
    /// As for [`Communicator::allreduce`], and [`MpiError::ForeignCommunicator`].
    pub fn iallreduce<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
        op: impl Operation<T> + 'static,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        length("the output of iallreduce", input.len(), output.len())?;
        let (from, into) = (Some(read(input)), written(output));
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.allreduce_data(Later, from, into, combine(op)) })
    }

    /// Starts to combine the inputs of all ranks; rank r gets the r-th block of the result.
    /// (`MPI_Ireduce_scatter_block`)
    ///
    /// # Errors
    /// As for [`Communicator::reduce_scatter_block`], and [`MpiError::ForeignCommunicator`].
    pub fn ireduce_scatter_block<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
        op: impl Operation<T> + 'static,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let what = "the input of ireduce_scatter_block";
        blocks_length(what, comm.inner.size, output.len(), input.len())?;
        let (from, into) = (Some(read(input).start), written(output));
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.reduce_scatter_block_data(Later, from, into, combine(op)) })
    }

    /// Starts to combine the inputs of all ranks; rank r gets `counts[r]` elements of the result, after those of
    /// the ranks below. (`MPI_Ireduce_scatter`)
    ///
    /// # Errors
    /// As for [`Communicator::reduce_scatter`], and [`MpiError::ForeignCommunicator`].
    pub fn ireduce_scatter<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
        counts: &[usize],
        op: impl Operation<T> + 'static,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        length("the counts of ireduce_scatter", comm.inner.size as usize, counts.len())?;
        length("the output of ireduce_scatter", counts[comm.inner.rank as usize], output.len())?;
        let sum = counts.iter().fold(0_usize, |sum, &count| sum.saturating_add(count));
        length("the input of ireduce_scatter", sum, input.len())?;
        let (from, into) = (Some(read(input).start), written(output));
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.reduce_scatter_data(Later, from, into, counts, combine(op)) })
    }

    /// Starts to combine the inputs of all ranks up to this one. (`MPI_Iscan`)
    ///
    /// # Errors
    /// As for [`Communicator::scan`], and [`MpiError::ForeignCommunicator`].
    pub fn iscan<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
        op: impl Operation<T> + 'static,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.prefix(comm, false, (input, output), op)
    }

    /// Starts to combine the inputs of all ranks below this one; the output of rank 0 is left as it is.
    /// (`MPI_Iexscan`)
    ///
    /// # Errors
    /// As for [`Communicator::exscan`], and [`MpiError::ForeignCommunicator`].
    pub fn iexscan<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
        op: impl Operation<T> + 'static,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.prefix(comm, true, (input, output), op)
    }

    fn prefix<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        exclusive: bool,
        (input, output): (&'scope [T], &'scope mut [T]),
        op: impl Operation<T> + 'static,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        length("the output of a scan", input.len(), output.len())?;
        let (from, into) = (Some(read(input)), written(output));
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.scan_data(Later, exclusive, from, into, combine(op)) })
    }
}
