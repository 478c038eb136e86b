//! The calls that make persistent collectives between neighbours. (MPI: "Persistent Neighborhood Communication".)

use super::PersistentCollective;
use crate::coll::calls::Partition;
use crate::coll::items::cut;
use crate::coll::raw::{Again, Data};
use crate::comm::Communicator;
use crate::datatype::Datatype;
use crate::error::MpiError;
use crate::error::length;
use crate::topo::block_of;
use bowline_model::coll::plan::Space;

impl Communicator {
    /// Makes a sending of the input to all neighbours, of each of which comes a block of its length.
    /// (`MPI_Neighbor_allgather_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`neighbor_allgather`](Self::neighbor_allgather); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`]. The vectors are dropped then.
    pub fn neighbor_allgather_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let (indegree, _) = self.neighbor_degrees()?;
        let space = input.len().saturating_mul(indegree);
        length("the output of neighbor_allgather_init", space, output.len())?;
        self.make_persistent(input, output, |comm, (input, output)| {
            let into = Data { count: input.count, ..output };
            // SAFETY: see `make_persistent`.
            unsafe { comm.neighbor_allgather_data(Again, input, &into) }
        })
    }

    /// Makes a sending of the input to all neighbours, of each of which comes a block that the partition has a place
    /// for. (`MPI_Neighbor_allgatherv_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`neighbor_allgatherv`](Self::neighbor_allgatherv); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`]. The vectors are dropped then.
    pub fn neighbor_allgatherv_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
        partition: Partition<'_>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let (indegree, _) = self.neighbor_degrees()?;
        let what = "the partition of neighbor_allgatherv_init";
        partition.check::<T>(what, indegree as u32, output.len(), Space::Output)?;
        self.make_persistent(input, output, |comm, (input, output)| {
            // SAFETY: see `make_persistent`.
            unsafe { comm.neighbor_allgatherv_data(Again, input, cut::<T>(&output, partition)) }
        })
    }

    /// Makes an exchange of blocks of one length with all neighbours. (`MPI_Neighbor_alltoall_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`neighbor_alltoall`](Self::neighbor_alltoall); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`]. The vectors are dropped then.
    pub fn neighbor_alltoall_init<T: Datatype>(
        &self,
        input: Vec<T>,
        output: Vec<T>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let (indegree, outdegree) = self.neighbor_degrees()?;
        let count = block_of((input.len(), outdegree), (output.len(), indegree))?;
        self.make_persistent(input, output, |comm, (input, output)| {
            let (from, into) = (Data { count, ..input }, Data { count, ..output });
            // SAFETY: see `make_persistent`.
            unsafe { comm.neighbor_alltoall_data(Again, &from, &into) }
        })
    }

    /// Makes an exchange of blocks of different lengths with all neighbours. (`MPI_Neighbor_alltoallv_init`)
    ///
    /// # Errors
    /// Those of the arguments of [`neighbor_alltoallv`](Self::neighbor_alltoallv); [`MpiError::BeyondReach`],
    /// [`MpiError::NumberInUse`]. The vectors are dropped then.
    pub fn neighbor_alltoallv_init<T: Datatype>(
        &self,
        input: Vec<T>,
        send: Partition<'_>,
        output: Vec<T>,
        receive: Partition<'_>,
    ) -> Result<PersistentCollective<T>, MpiError> {
        let (indegree, outdegree) = self.neighbor_degrees()?;
        let what = "the send partition of neighbor_alltoallv_init";
        send.check::<T>(what, outdegree as u32, input.len(), Space::Input)?;
        let what = "the receive partition of neighbor_alltoallv_init";
        receive.check::<T>(what, indegree as u32, output.len(), Space::Output)?;
        self.make_persistent(input, output, |comm, (input, output)| {
            let (from, into) = (cut::<T>(&input, send), cut::<T>(&output, receive));
            // SAFETY: see `make_persistent`.
            unsafe { comm.neighbor_alltoallv_data(Again, from, into) }
        })
    }
}
