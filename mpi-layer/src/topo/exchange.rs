//! The collectives between neighbours: what each rank sends and receives, and the typed calls.
//!
//! All of them are one stage: every block goes straight to the neighbour that it is for. Messages between two ranks
//! match in the order of edges, which is that in which they are sent; blocks that a rank sends to itself are copied.
//! Nothing is sent to or received from nobody, and blocks of nobody are neither read nor written.

use crate::coll::arena::Buffers;
use crate::coll::calls::Partition;
use crate::coll::spans::Follow;
use crate::comm::Communicator;
use crate::datatype::{Datatype, bytes_of, bytes_of_mut};
use crate::error::MpiError;
use crate::error::length;
use crate::record::Call;
use bowline_model::coll::blocks::{Blocks, Even};
use bowline_model::coll::plan::{Plan, Space, Span};

/// The elements of a block, where `sent` elements are for `outdegree` neighbours and `received` come from `indegree`.
pub(crate) fn block_of(
    (sent, outdegree): (usize, usize),
    (received, indegree): (usize, usize),
) -> Result<usize, MpiError> {
    let block = sent.checked_div(outdegree).or_else(|| received.checked_div(indegree));
    let block = block.unwrap_or(0);
    length("the input of an exchange between neighbours", block.saturating_mul(outdegree), sent)?;
    let what = "the output of an exchange between neighbours";
    length(what, block.saturating_mul(indegree), received)?;
    Ok(block)
}

impl Communicator {
    /// How many neighbours this rank receives from, and how many it sends to; nobody beyond the border of a grid
    /// counts as one.
    ///
    /// # Errors
    /// [`MpiError::NoTopology`].
    pub fn neighbor_degrees(&self) -> Result<(usize, usize), MpiError> {
        let neighbors = self.neighbors()?;
        Ok((neighbors.sources.len(), neighbors.destinations.len()))
    }

    /// Exchanges blocks with the neighbours, each of which has a number.
    pub(crate) fn neighbor_spans<'a>(
        &'a self,
        mut on: impl Follow<'a>,
        what: &'static str,
        sent: impl Fn(u32) -> Span,
        received: impl Fn(u32) -> Span,
    ) -> Result<(), MpiError> {
        let (neighbors, own) = (self.neighbors()?, self.inner.rank);
        let from = |&index: &usize| Some((neighbors.sources[index]?, received(index as u32)));
        let to = |&index: &usize| Some((neighbors.destinations[index]?, sent(index as u32)));
        let receives: Vec<_> = neighbors.receive_order().filter_map(|index| from(&index)).collect();
        let sends: Vec<_> =
            (0..neighbors.destinations.len()).filter_map(|index| to(&index)).collect();
        fn spans(all: &[(u32, Span)], own: u32) -> impl Iterator<Item = Span> + '_ {
            all.iter().filter(move |(rank, _)| *rank == own).map(|&(_, span)| span)
        }
        if spans(&sends, own).count() != spans(&receives, own).count() {
            // Nobody else declares these, so that this rank would wait for itself.
            let why =
                "a rank sends to itself and receives from itself by different numbers of edges";
            return Err(MpiError::InvalidGraph { why });
        }
        let mut copies = spans(&sends, own).zip(spans(&receives, own));
        if let Some((from, into)) = copies.find(|(from, into)| from.len != into.len) {
            return Err(MpiError::CountMismatch {
                expected: into.len as u64,
                got: from.len as u64,
            });
        }
        fn messages(all: &[(u32, Span)], own: u32) -> impl Iterator<Item = (u32, usize)> + '_ {
            let others = all.iter().filter(move |(rank, _)| *rank != own);
            others.map(|&(rank, span)| (rank, span.len))
        }
        let call = || Call::edges(what, messages(&sends, own), messages(&receives, own));
        let _recorded = on.recorded(self, what, call);
        on.follow(self, 0, None, |plan| {
            for &(rank, span) in receives.iter().filter(|(rank, _)| *rank != own) {
                plan.recv(rank, span)?;
            }
            for &(rank, span) in sends.iter().filter(|(rank, _)| *rank != own) {
                plan.send(rank, span)?;
            }
            spans(&sends, own)
                .zip(spans(&receives, own))
                .for_each(|(from, into)| plan.copy(from, into));
            plan.wait()
        })
    }

    /// Sends `input` to all neighbours, and receives a block of its length from each. (`MPI_Neighbor_allgather`)
    ///
    /// Neighbours are in the order of the topology; in a grid that is the one below and then the one above in each
    /// dimension, and the block of nobody beyond a border is left as it is.
    ///
    /// # Errors
    /// [`MpiError::NoTopology`]; [`MpiError::InvalidGraph`] when the edges of this rank to itself differ in number from
    /// those from itself; [`MpiError::InvalidLength`] when the output has not space for exactly all blocks;
    /// [`MpiError::CountMismatch`] when neighbours give different lengths; a member's failure.
    pub fn neighbor_allgather<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), MpiError> {
        let (indegree, _) = self.neighbor_degrees()?;
        let capacity = input.len().saturating_mul(indegree);
        length("the output of neighbor_allgather", capacity, output.len())?;
        let own = Span::input(size_of_val(input));
        let blocks = Even { space: Space::Output, len: own.len };
        let buffers = Buffers::of(bytes_of(input), bytes_of_mut(output));
        self.neighbor_spans(buffers, "neighbor_allgather", |_| own, |index| blocks.span(index))
    }

    /// The same where the blocks that come have different lengths; the partition says where they go.
    /// (`MPI_Neighbor_allgatherv`)
    ///
    /// # Errors
    /// As for [`neighbor_allgather`](Self::neighbor_allgather), and [`MpiError::BlockOutOfRange`] and
    /// [`MpiError::BlocksOverlap`] for a wrong partition.
    pub fn neighbor_allgatherv<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
        partition: Partition<'_>,
    ) -> Result<(), MpiError> {
        let (indegree, _) = self.neighbor_degrees()?;
        let what = "the partition of neighbor_allgatherv";
        let blocks = partition.check::<T>(what, indegree as u32, output.len(), Space::Output)?;
        let own = Span::input(size_of_val(input));
        let buffers = Buffers::of(bytes_of(input), bytes_of_mut(output));
        self.neighbor_spans(buffers, "neighbor_allgather", |_| own, |index| blocks.span(index))
    }

    /// Sends a block of `input` to each neighbour and receives a block of `output` from each; all have one length. In a
    /// grid, what is sent to the neighbour below arrives there as from the neighbour above, also where both are one.
    /// (`MPI_Neighbor_alltoall`)
    ///
    /// # Errors
    /// As for [`neighbor_allgather`](Self::neighbor_allgather).
    pub fn neighbor_alltoall<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), MpiError> {
        let (indegree, outdegree) = self.neighbor_degrees()?;
        let block = block_of((input.len(), outdegree), (output.len(), indegree))?;
        let len = block * size_of::<T>();
        let (from, into) = (Even { space: Space::Input, len }, Even { space: Space::Output, len });
        let buffers = Buffers::of(bytes_of(input), bytes_of_mut(output));
        let what = "neighbor_alltoall";
        self.neighbor_spans(buffers, what, |index| from.span(index), |index| into.span(index))
    }

    /// The same where blocks have different lengths; the partitions say which. (`MPI_Neighbor_alltoallv`)
    ///
    /// # Errors
    /// As for [`neighbor_allgatherv`](Self::neighbor_allgatherv).
    pub fn neighbor_alltoallv<T: Datatype>(
        &self,
        input: &[T],
        send: Partition<'_>,
        output: &mut [T],
        receive: Partition<'_>,
    ) -> Result<(), MpiError> {
        let (indegree, outdegree) = self.neighbor_degrees()?;
        let what = "the send partition of neighbor_alltoallv";
        let from = send.check::<T>(what, outdegree as u32, input.len(), Space::Input)?;
        let what = "the receive partition of neighbor_alltoallv";
        let into = receive.check::<T>(what, indegree as u32, output.len(), Space::Output)?;
        let buffers = Buffers::of(bytes_of(input), bytes_of_mut(output));
        let what = "neighbor_alltoall";
        self.neighbor_spans(buffers, what, |index| from.span(index), |index| into.span(index))
    }
}
