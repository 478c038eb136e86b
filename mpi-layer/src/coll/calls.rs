//! The collective calls that move data. (MPI: Collective Communication.)
//!
//! They check arguments and call what works on bytes, [`spans`](super::spans). All ranks of the communicator make the
//! same calls in the same order, with the same root and matching lengths. A collective fails at
//! every rank when a member of the communicator dies.

use super::arena::Buffers;
use crate::comm::Communicator;
use crate::datatype::{Datatype, bytes_of, bytes_of_mut};
use crate::error::{MpiError, length};
use bowline_model::coll::blocks::{Blocks, Even, Placed};
use bowline_model::coll::choice::ChoiceInput;
use bowline_model::coll::plan::{Space, Span};

/// Where the block of each rank lies in a buffer, in elements. Blocks of a receive buffer do not
/// overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the two arguments of the standard, always")]
pub struct Partition<'a> {
    /// Elements in the block of each rank.
    pub counts: &'a [usize],
    /// Where the block of each rank starts.
    pub displacements: &'a [usize],
}

impl<'a> Partition<'a> {
    /// The partition with these counts and displacements, one of each for every rank.
    pub const fn new(counts: &'a [usize], displacements: &'a [usize]) -> Self {
        Self { counts, displacements }
    }

    /// The blocks in a space, when all of them lie in a buffer of `len` elements.
    pub(crate) fn check<T: Datatype>(
        self,
        what: &'static str,
        ranks: u32,
        len: usize,
        space: Space,
    ) -> Result<Placed<'a>, MpiError> {
        let Self { counts, displacements } = self;
        length(what, ranks as usize, counts.len())?;
        length(what, ranks as usize, displacements.len())?;
        for (index, (&count, &displacement)) in counts.iter().zip(displacements).enumerate() {
            let end = displacement.checked_add(count);
            if count > 0 && end.is_none_or(|end| end > len) {
                return Err(MpiError::BlockOutOfRange { what, index, count, displacement, len });
            }
        }
        if space == Space::Output {
            self.check_disjoint(what)?;
        }
        Ok(Placed { space, width: size_of::<T>(), counts, displacements })
    }

    fn check_disjoint(self, what: &'static str) -> Result<(), MpiError> {
        let start = |&index: &usize| self.displacements[index];
        let end = |index: usize| self.displacements[index] + self.counts[index];
        let mut blocks = (0..self.counts.len()).filter(|&index| self.counts[index] > 0);
        // Mostly the blocks come in order, and nothing needs to be sorted.
        let mut last = None;
        let in_order = blocks.all(|index| {
            let after = last.is_none_or(|last| end(last) <= start(&index));
            last = Some(index);
            after
        });
        if in_order {
            return Ok(());
        }
        let mut blocks: Vec<_> =
            (0..self.counts.len()).filter(|&index| self.counts[index] > 0).collect();
        blocks.sort_unstable_by_key(start);
        let clash = blocks.windows(2).find(|pair| end(pair[0]) > start(&pair[1]));
        clash.map_or(Ok(()), |pair| {
            let (first, second) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
            Err(MpiError::BlocksOverlap { what, first, second })
        })
    }
}

/// Success when a buffer holds a block of `block` elements for each rank.
pub(crate) fn blocks_length(
    what: &'static str,
    ranks: u32,
    block: usize,
    got: usize,
) -> Result<(), MpiError> {
    length(what, block.saturating_mul(ranks as usize), got)
}

impl Communicator {
    /// What the choice of algorithms depends on.
    #[inline]
    pub(crate) fn shape(&self) -> ChoiceInput {
        ChoiceInput { ranks: self.inner.size, oversubscribed: self.inner.oversubscribed }
    }

    #[inline]
    fn is_root(&self, root: u32) -> bool {
        self.inner.rank == root
    }

    /// Returns when all ranks have called it. (`MPI_Barrier`)
    ///
    /// # Errors
    /// A member's failure.
    #[inline]
    pub fn barrier(&self) -> Result<(), MpiError> {
        self.barrier_spans()
    }

    /// Brings the items of `root` to all ranks. (`MPI_Bcast`)
    ///
    /// # Errors
    /// [`MpiError::InvalidRoot`]; [`MpiError::CountMismatch`] when ranks give different lengths;
    /// a member's failure.
    pub fn bcast<T: Datatype>(&self, items: &mut [T], root: i32) -> Result<(), MpiError> {
        let root = self.root(root)?;
        let data = Span::output(size_of_val(items));
        self.bcast_spans(Buffers::of(&[], bytes_of_mut(items)), data, root)
    }

    /// Collects blocks of one length at `root`: the block of rank r is at r times the length of
    /// `input`. `output` counts at the root only. (`MPI_Gather`)
    ///
    /// # Errors
    /// [`MpiError::InvalidRoot`]; [`MpiError::InvalidLength`] when the root's output has not space
    /// for exactly all blocks; [`MpiError::CountMismatch`] when ranks give different lengths; a
    /// member's failure.
    pub fn gather<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
        root: i32,
    ) -> Result<(), MpiError> {
        let root = self.root(root)?;
        if self.is_root(root) {
            blocks_length("the output of gather", self.inner.size, input.len(), output.len())?;
        }
        let own = Span::input(size_of_val(input));
        self.gather_spans(Buffers::of(bytes_of(input), bytes_of_mut(output)), own, root)
    }

    /// Collects blocks of different lengths at `root`, which says where they go; elsewhere
    /// `output` and `partition` do not count. (`MPI_Gatherv`)
    ///
    /// # Errors
    /// [`MpiError::InvalidRoot`]; at the root [`MpiError::InvalidLength`],
    /// [`MpiError::BlockOutOfRange`] and [`MpiError::BlocksOverlap`] for a wrong partition, and
    /// [`MpiError::CountMismatch`] when a rank gives another length than its count; a member's
    /// failure.
    pub fn gatherv<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
        partition: Partition<'_>,
        root: i32,
    ) -> Result<(), MpiError> {
        let root = self.root(root)?;
        let own = Span::input(size_of_val(input));
        let blocks = if self.is_root(root) {
            let what = "the partition of gatherv";
            let blocks =
                partition.check::<T>(what, self.inner.size, output.len(), Space::Output)?;
            length(
                "the input of gatherv at its root",
                partition.counts[root as usize],
                input.len(),
            )?;
            blocks
        } else {
            Placed { space: Space::Output, width: 0, counts: &[], displacements: &[] }
        };
        let buffers = Buffers::of(bytes_of(input), bytes_of_mut(output));
        self.gatherv_spans(buffers, own, &blocks, root)
    }

    /// Deals out blocks of one length from `root`: rank r gets what is at r times the length of
    /// `output`. `input` counts at the root only. (`MPI_Scatter`)
    ///
    /// # Errors
    /// As for [`gather`](Self::gather).
    pub fn scatter<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
        root: i32,
    ) -> Result<(), MpiError> {
        let root = self.root(root)?;
        if self.is_root(root) {
            blocks_length("the input of scatter", self.inner.size, output.len(), input.len())?;
        }
        let own = Span::output(size_of_val(output));
        self.scatter_spans(Buffers::of(bytes_of(input), bytes_of_mut(output)), own, root)
    }

    /// Deals out blocks of different lengths from `root`, which says where they are; elsewhere
    /// `input` and `partition` do not count. (`MPI_Scatterv`)
    ///
    /// # Errors
    /// As for [`gatherv`](Self::gatherv); blocks of the input may overlap.
    pub fn scatterv<T: Datatype>(
        &self,
        input: &[T],
        partition: Partition<'_>,
        output: &mut [T],
        root: i32,
    ) -> Result<(), MpiError> {
        let root = self.root(root)?;
        let own = Span::output(size_of_val(output));
        let blocks = if self.is_root(root) {
            let what = "the partition of scatterv";
            let blocks = partition.check::<T>(what, self.inner.size, input.len(), Space::Input)?;
            let count = partition.counts[root as usize];
            length("the output of scatterv at its root", count, output.len())?;
            blocks
        } else {
            Placed { space: Space::Input, width: 0, counts: &[], displacements: &[] }
        };
        let buffers = Buffers::of(bytes_of(input), bytes_of_mut(output));
        self.scatterv_spans(buffers, &blocks, own, root)
    }

    /// Collects blocks of one length at all ranks. (`MPI_Allgather`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] when the output has not space for exactly all blocks;
    /// [`MpiError::CountMismatch`] when ranks give different lengths; a member's failure.
    pub fn allgather<T: Datatype>(&self, input: &[T], output: &mut [T]) -> Result<(), MpiError> {
        blocks_length("the output of allgather", self.inner.size, input.len(), output.len())?;
        let own = Span::input(size_of_val(input));
        self.allgather_spans(Buffers::of(bytes_of(input), bytes_of_mut(output)), own)
    }

    /// The same when each rank has put its block in its place of `items` already.
    /// (`MPI_Allgather` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] when `items` is not a multiple of the number of ranks; else as
    /// for [`allgather`](Self::allgather).
    pub fn allgather_in_place<T: Datatype>(&self, items: &mut [T]) -> Result<(), MpiError> {
        let count = items.len() / self.inner.size as usize;
        blocks_length("the buffer of allgather", self.inner.size, count, items.len())?;
        let blocks = Even { space: Space::Output, len: count * size_of::<T>() };
        let own = blocks.span(self.inner.rank);
        self.allgather_spans(Buffers::of(&[], bytes_of_mut(items)), own)
    }

    /// Collects blocks of different lengths at all ranks; `partition` has the same counts
    /// everywhere. (`MPI_Allgatherv`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`], [`MpiError::BlockOutOfRange`] and
    /// [`MpiError::BlocksOverlap`] for a wrong partition; [`MpiError::CountMismatch`] when a rank
    /// gives another length than its count; a member's failure.
    pub fn allgatherv<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
        partition: Partition<'_>,
    ) -> Result<(), MpiError> {
        let what = "the partition of allgatherv";
        let blocks = partition.check::<T>(what, self.inner.size, output.len(), Space::Output)?;
        let count = partition.counts[self.inner.rank as usize];
        length("the input of allgatherv", count, input.len())?;
        let own = Span::input(size_of_val(input));
        // No overflow: blocks do not overlap and lie in one buffer.
        let total = partition.counts.iter().sum::<usize>() * size_of::<T>();
        let buffers = Buffers::of(bytes_of(input), bytes_of_mut(output));
        self.allgatherv_spans(buffers, own, &blocks, total)
    }

    /// Sends the r-th block of `input` to rank r, and receives the r-th block of `output` from
    /// it; all blocks have one length. (`MPI_Alltoall`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] when the buffers differ in length, or their length is not a
    /// multiple of the number of ranks; [`MpiError::CountMismatch`]; a member's failure.
    pub fn alltoall<T: Datatype>(&self, input: &[T], output: &mut [T]) -> Result<(), MpiError> {
        let count = input.len() / self.inner.size as usize;
        blocks_length("the input of alltoall", self.inner.size, count, input.len())?;
        length("the output of alltoall", input.len(), output.len())?;
        let len = count * size_of::<T>();
        self.alltoall_spans(Buffers::of(bytes_of(input), bytes_of_mut(output)), len)
    }

    /// Sends a block of `input` to each rank and receives a block of `output` from each; the
    /// partitions say which. (`MPI_Alltoallv`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`], [`MpiError::BlockOutOfRange`] and
    /// [`MpiError::BlocksOverlap`] for a wrong partition; [`MpiError::CountMismatch`] when
    /// partners give different counts; a member's failure.
    pub fn alltoallv<T: Datatype>(
        &self,
        input: &[T],
        send: Partition<'_>,
        output: &mut [T],
        receive: Partition<'_>,
    ) -> Result<(), MpiError> {
        let (size, rank) = (self.inner.size, self.inner.rank as usize);
        let what = "the send partition of alltoallv";
        let from = send.check::<T>(what, size, input.len(), Space::Input)?;
        let what = "the receive partition of alltoallv";
        let into = receive.check::<T>(what, size, output.len(), Space::Output)?;
        length("the own block of alltoallv", send.counts[rank], receive.counts[rank])?;
        self.alltoallv_spans(Buffers::of(bytes_of(input), bytes_of_mut(output)), &from, &into)
    }
}
