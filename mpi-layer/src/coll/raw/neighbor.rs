//! The collectives between neighbours, on elements whose type is known at run time only.

use super::call::Call;
use super::call::sealed::Open;
use super::edges::{Cut, Data, Source};
use crate::comm::Communicator;
use crate::error::MpiError;
use crate::error::length;
use bowline_model::coll::blocks::Blocks;
use bowline_model::coll::plan::Span;

/// So many blocks, of which the first is given.
fn one_for_each(first: &Data, neighbors: usize) -> Result<Vec<Data>, MpiError> {
    first.count.checked_mul(neighbors).ok_or(MpiError::Uncountable)?;
    let block = |index: usize| first.clone().from(index * first.count, first.count);
    Ok((0..neighbors).map(block).collect())
}

/// The blocks with none of the elements that are for nobody or from nobody: those are not touched.
fn reached(mut blocks: Vec<Data>, neighbors: &[Option<u32>]) -> Result<Vec<Data>, MpiError> {
    length("the blocks of neighbours", neighbors.len(), blocks.len())?;
    for (block, neighbor) in blocks.iter_mut().zip(neighbors) {
        if neighbor.is_none() {
            block.count = 0;
        }
    }
    Ok(blocks)
}

impl Communicator {
    /// Sends elements to all neighbours; `received` is the block that comes from the first of them.
    /// (`MPI_Neighbor_allgather`)
    ///
    /// # Safety
    /// As for [`bcast_data`](Self::bcast_data).
    ///
    /// # Errors
    /// [`MpiError::NoTopology`]; [`MpiError::CountMismatch`] when neighbours give different lengths; a member's
    /// failure.
    pub unsafe fn neighbor_allgather_data<C: Call>(
        &self,
        call: C,
        send: Data,
        received: &Data,
    ) -> Result<C::Output, MpiError> {
        let blocks = one_for_each(received, self.neighbor_degrees()?.0)?;
        // SAFETY: promised by the caller.
        unsafe { self.neighbor_allgatherv_data(call, send, blocks) }
    }

    /// The same; `received` has a block for each neighbour. (`MPI_Neighbor_allgatherv`)
    ///
    /// # Safety
    /// As for [`bcast_data`](Self::bcast_data).
    ///
    /// # Errors
    /// As for [`neighbor_allgather_data`](Self::neighbor_allgather_data), and [`MpiError::InvalidLength`] when there is
    /// not a block for each neighbour.
    pub unsafe fn neighbor_allgatherv_data<C: Call>(
        &self,
        call: C,
        send: Data,
        received: Vec<Data>,
    ) -> Result<C::Output, MpiError> {
        let received = reached(received, &self.neighbors()?.sources)?;
        // SAFETY: promised by the caller.
        let (source, target) = unsafe { (Source::of(send)?, Cut::target(received)?) };
        let (own, blocks) = (Span::input(source.len()), target.places());
        let mut open = call.open(source, target);
        // SAFETY: as above.
        let on = unsafe { open.on() };
        self.neighbor_spans(on, "neighbor_allgather", |_| own, |index| blocks.span(index))?;
        open.close(self, None)
    }

    /// Exchanges blocks with all neighbours; `send` and `received` are the first ones. (`MPI_Neighbor_alltoall`)
    ///
    /// # Safety
    /// As for [`bcast_data`](Self::bcast_data).
    ///
    /// # Errors
    /// As for [`neighbor_allgather_data`](Self::neighbor_allgather_data).
    pub unsafe fn neighbor_alltoall_data<C: Call>(
        &self,
        call: C,
        send: &Data,
        received: &Data,
    ) -> Result<C::Output, MpiError> {
        let (indegree, outdegree) = self.neighbor_degrees()?;
        let (from, into) = (one_for_each(send, outdegree)?, one_for_each(received, indegree)?);
        // SAFETY: promised by the caller.
        unsafe { self.neighbor_alltoallv_data(call, from, into) }
    }

    /// The same; `send` and `received` have a block for each neighbour. (`MPI_Neighbor_alltoallv`,
    /// `MPI_Neighbor_alltoallw`)
    ///
    /// # Safety
    /// As for [`bcast_data`](Self::bcast_data).
    ///
    /// # Errors
    /// As for [`neighbor_allgatherv_data`](Self::neighbor_allgatherv_data).
    pub unsafe fn neighbor_alltoallv_data<C: Call>(
        &self,
        call: C,
        send: Vec<Data>,
        received: Vec<Data>,
    ) -> Result<C::Output, MpiError> {
        let neighbors = self.neighbors()?;
        let send = reached(send, &neighbors.destinations)?;
        let received = reached(received, &neighbors.sources)?;
        // SAFETY: promised by the caller.
        let (source, target) = unsafe { (Cut::source(send)?, Cut::target(received)?) };
        let (from, into) = (source.places(), target.places());
        let mut open = call.open(source, target);
        // SAFETY: as above.
        let on = unsafe { open.on() };
        let what = "neighbor_alltoall";
        self.neighbor_spans(on, what, |index| from.span(index), |index| into.span(index))?;
        open.close(self, None)
    }
}
