//! Nonblocking collectives between neighbours in a scope. (MPI: "Nonblocking Neighborhood Communication".)

use super::{CollectiveRequest, Scope};
use crate::coll::calls::Partition;
use crate::coll::items::{cut, read, written};
use crate::coll::mixed::{Block, BlockMut, received, sent};
use crate::coll::raw::{Data, Later};
use crate::comm::Communicator;
use crate::datatype::Datatype;
use crate::error::MpiError;
use crate::error::length;
use crate::topo::block_of;
use bowline_model::coll::plan::Space;

impl<'scope> Scope<'scope, '_> {
    /// Starts to send `input` to all neighbours and to receive a block of its length from each.
    /// (`MPI_Ineighbor_allgather`)
    ///
    /// # Errors
    /// As for [`Communicator::neighbor_allgather`], and [`MpiError::ForeignCommunicator`].
    pub fn ineighbor_allgather<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let (indegree, _) = comm.neighbor_degrees()?;
        let space = input.len().saturating_mul(indegree);
        length("the output of ineighbor_allgather", space, output.len())?;
        let into = Data { count: input.len(), ..written(output) };
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.neighbor_allgather_data(Later, read(input), &into) })
    }

    /// Starts to send `input` to all neighbours and to receive a block from each, which the partition has a place for.
    /// (`MPI_Ineighbor_allgatherv`)
    ///
    /// # Errors
    /// As for [`Communicator::neighbor_allgatherv`], and [`MpiError::ForeignCommunicator`].
    pub fn ineighbor_allgatherv<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
        partition: Partition<'_>,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let (indegree, _) = comm.neighbor_degrees()?;
        let what = "the partition of ineighbor_allgatherv";
        partition.check::<T>(what, indegree as u32, output.len(), Space::Output)?;
        let blocks = cut::<T>(&written(output), partition);
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.neighbor_allgatherv_data(Later, read(input), blocks) })
    }

    /// Starts an exchange of blocks of one length with all neighbours. (`MPI_Ineighbor_alltoall`)
    ///
    /// # Errors
    /// As for [`Communicator::neighbor_alltoall`], and [`MpiError::ForeignCommunicator`].
    pub fn ineighbor_alltoall<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        output: &'scope mut [T],
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let (indegree, outdegree) = comm.neighbor_degrees()?;
        let count = block_of((input.len(), outdegree), (output.len(), indegree))?;
        let (from, into) = (Data { count, ..read(input) }, Data { count, ..written(output) });
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.neighbor_alltoall_data(Later, &from, &into) })
    }

    /// Starts an exchange of blocks of different lengths with all neighbours. (`MPI_Ineighbor_alltoallv`)
    ///
    /// # Errors
    /// As for [`Communicator::neighbor_alltoallv`], and [`MpiError::ForeignCommunicator`].
    pub fn ineighbor_alltoallv<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        input: &'scope [T],
        send: Partition<'_>,
        output: &'scope mut [T],
        receive: Partition<'_>,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let (indegree, outdegree) = comm.neighbor_degrees()?;
        let what = "the send partition of ineighbor_alltoallv";
        send.check::<T>(what, outdegree as u32, input.len(), Space::Input)?;
        let what = "the receive partition of ineighbor_alltoallv";
        receive.check::<T>(what, indegree as u32, output.len(), Space::Output)?;
        let (from, into) = (cut::<T>(&read(input), send), cut::<T>(&written(output), receive));
        // SAFETY: both are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.neighbor_alltoallv_data(Later, from, into) })
    }

    /// Starts an exchange of blocks with all neighbours, of which each has its own length and type.
    /// (`MPI_Ineighbor_alltoallw`)
    ///
    /// # Errors
    /// As for [`Communicator::neighbor_alltoallw`], and [`MpiError::ForeignCommunicator`].
    pub fn ineighbor_alltoallw(
        &'scope self,
        comm: &'scope Communicator,
        send: impl IntoIterator<Item = Block<'scope>>,
        receive: impl IntoIterator<Item = BlockMut<'scope>>,
    ) -> Result<CollectiveRequest<'scope>, MpiError> {
        self.check(comm)?;
        let (indegree, outdegree) = comm.neighbor_degrees()?;
        let (from, into) = (sent(send, outdegree)?, received(receive, indegree)?);
        // SAFETY: all are borrowed for `'scope`; see `begin`.
        self.begin(unsafe { comm.neighbor_alltoallv_data(Later, from, into) })
    }
}
