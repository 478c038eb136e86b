//! The collective calls that reduce. (MPI: Collective Communication, "Global Reduction
//! Operations".)
//!
//! Contributions are combined in rank order, whatever the algorithm, for every operation that is
//! not declared commutative; results are the same on all ranks and in every run.

use super::arena::Buffers;
use super::calls::blocks_length;
use super::spans::Reduction;
use crate::comm::Communicator;
use crate::datatype::{Datatype, bytes_of, bytes_of_mut, items_of, items_of_mut};
use crate::error::MpiError;
use crate::error::length;
use crate::op::Operation;
use crate::op::operands::Operands;
use bowline_model::coll::blocks::{Blocks, Even, Packed};
use bowline_model::coll::forms::Allreduce;
use bowline_model::coll::plan::{Space, Span};

/// The operation on bytes, for collectives whose buffers are slices of `T`.
#[inline]
fn combine<'a, T: Datatype>(op: &'a impl Operation<T>) -> impl Fn(Operands<'_>) + 'a {
    // Scratch is aligned to cache lines and blocks in it to elements.
    const { assert!(align_of::<T>() <= 64, "datatypes are aligned to a cache line at most") };
    move |operands| {
        // SAFETY: operands are parts of the buffers, which are slices, or of scratch, which is
        // initialised memory too.
        let (left, right) = unsafe { operands.slices() };
        op.combine(items_of(left), items_of_mut(right));
    }
}

/// What algorithms need of an operation on `T`.
#[inline]
fn reduction<'a, T: Datatype>(
    op: &impl Operation<T>,
    combine: &'a impl Fn(Operands<'_>),
) -> Reduction<'a> {
    Reduction::new(size_of::<T>(), op.is_commutative(), op.class(), combine)
}

impl Communicator {
    /// Combines the inputs of all ranks, element by element; the result goes to `output` at
    /// `root`, which elsewhere does not count. (`MPI_Reduce`)
    ///
    /// # Errors
    /// [`MpiError::InvalidRoot`]; [`MpiError::InvalidLength`] when the root's buffers differ in
    /// length; [`MpiError::CountMismatch`] when ranks give different lengths; a member's failure.
    pub fn reduce<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
        op: impl Operation<T>,
        root: i32,
    ) -> Result<(), MpiError> {
        let root = self.root(root)?;
        if self.inner.rank == root {
            length("the output of reduce", input.len(), output.len())?;
        }
        let own = Span::input(size_of_val(input));
        let combine = combine(&op);
        let buffers = Buffers::of(bytes_of(input), bytes_of_mut(output));
        self.reduce_spans(buffers, own, reduction(&op, &combine), root)
    }

    /// The same at the root, which is the rank that calls this, with the contribution in `items`, which the result
    /// replaces; the others call [`reduce`](Self::reduce). (`MPI_Reduce` with `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    pub fn reduce_in_place<T: Datatype>(
        &self,
        items: &mut [T],
        op: impl Operation<T>,
    ) -> Result<(), MpiError> {
        let own = Span::output(size_of_val(items));
        let combine = combine(&op);
        let buffers = Buffers::of(&[], bytes_of_mut(items));
        self.reduce_spans(buffers, own, reduction(&op, &combine), self.inner.rank)
    }

    /// Combines the inputs of all ranks, element by element; all get the result.
    /// (`MPI_Allreduce`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] when the buffers differ in length;
    /// [`MpiError::CountMismatch`] when ranks give different lengths; a member's failure.
    #[inline]
    pub fn allreduce<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
        op: impl Operation<T>,
    ) -> Result<(), MpiError> {
        length("the output of allreduce", input.len(), output.len())?;
        let own = Span::input(size_of_val(input));
        let combine = combine(&op);
        let buffers = Buffers::of(bytes_of(input), bytes_of_mut(output));
        self.allreduce_spans(buffers, own, reduction(&op, &combine))
    }

    /// The same with the contribution in `items`, which the result replaces. (`MPI_Allreduce` with
    /// `MPI_IN_PLACE`)
    ///
    /// # Errors
    /// As for [`allreduce`](Self::allreduce).
    #[inline]
    pub fn allreduce_in_place<T: Datatype>(
        &self,
        items: &mut [T],
        op: impl Operation<T>,
    ) -> Result<(), MpiError> {
        let own = Span::output(size_of_val(items));
        let combine = combine(&op);
        let buffers = Buffers::of(&[], bytes_of_mut(items));
        self.allreduce_spans(buffers, own, reduction(&op, &combine))
    }

    /// An allreduce by which members agree on something; nothing that they could have different decides how it is done.
    /// Small ones go through memory that they share if `in_memory`.
    pub(crate) fn agree_in_place<T: Datatype>(
        &self,
        items: &mut [T],
        op: &impl Operation<T>,
        in_memory: bool,
    ) -> Result<(), MpiError> {
        let own = Span::output(size_of_val(items));
        let combine = combine(op);
        let buffers = Buffers::of(&[], bytes_of_mut(items));
        self.allreduce_to_agree(buffers, own, reduction(op, &combine), in_memory)
    }

    /// The same by messages and one algorithm, whatever the ranks know of each other.
    pub(crate) fn agree_by_messages<T: Datatype>(
        &self,
        items: &mut [T],
        op: &impl Operation<T>,
    ) -> Result<(), MpiError> {
        let own = Span::output(size_of_val(items));
        let combine = combine(op);
        let buffers = Buffers::of(&[], bytes_of_mut(items));
        self.allreduce_by(buffers, Allreduce::Doubling, own, reduction(&op, &combine))
    }

    /// Combines the inputs of all ranks, element by element; rank r gets the r-th block of the
    /// result, all blocks having the length of `output`. (`MPI_Reduce_scatter_block`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] when the input is not exactly a block for each rank;
    /// [`MpiError::CountMismatch`] when ranks give different lengths; a member's failure.
    pub fn reduce_scatter_block<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
        op: impl Operation<T>,
    ) -> Result<(), MpiError> {
        let what = "the input of reduce_scatter_block";
        blocks_length(what, self.inner.size, output.len(), input.len())?;
        let blocks = Even { space: Space::Input, len: size_of_val(output) };
        self.reduce_scatter_blocks(input, output, &blocks, &op)
    }

    /// Combines the inputs of all ranks, element by element; rank r gets `counts[r]` elements of
    /// the result, after those of the ranks below. (`MPI_Reduce_scatter`)
    ///
    /// # Errors
    /// [`MpiError::InvalidLength`] when there is not a count for each rank, the counts do not add
    /// up to the input, or the own one is not the length of the output;
    /// [`MpiError::CountMismatch`] when ranks give different counts, or, where they share processors,
    /// [`MpiError::MemoryOverwritten`]; a member's failure.
    pub fn reduce_scatter<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
        counts: &[usize],
        op: impl Operation<T>,
    ) -> Result<(), MpiError> {
        length("the counts of reduce_scatter", self.inner.size as usize, counts.len())?;
        let own = counts[self.inner.rank as usize];
        length("the output of reduce_scatter", own, output.len())?;
        let mut offsets = Vec::with_capacity(counts.len() + 1);
        let mut sum = 0usize;
        offsets.push(0);
        for count in counts {
            sum = sum.saturating_add(*count);
            offsets.push(sum.saturating_mul(size_of::<T>()));
        }
        length("the input of reduce_scatter", sum, input.len())?;
        let blocks = Packed { space: Space::Input, offsets: &offsets };
        self.reduce_scatter_blocks(input, output, &blocks, &op)
    }

    fn reduce_scatter_blocks<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
        blocks: &impl Blocks,
        op: &impl Operation<T>,
    ) -> Result<(), MpiError> {
        let combine = combine(op);
        let buffers = Buffers::of(bytes_of(input), bytes_of_mut(output));
        self.reduce_scatter_spans(buffers, blocks, size_of_val(input), reduction(op, &combine))
    }

    /// Combines, element by element, the inputs of all ranks up to this one. (`MPI_Scan`)
    ///
    /// # Errors
    /// As for [`allreduce`](Self::allreduce).
    pub fn scan<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
        op: impl Operation<T>,
    ) -> Result<(), MpiError> {
        self.prefix(false, input, output, &op)
    }

    /// Combines, element by element, the inputs of all ranks below this one; the output of rank 0
    /// is left as it is. (`MPI_Exscan`)
    ///
    /// # Errors
    /// As for [`allreduce`](Self::allreduce).
    pub fn exscan<T: Datatype>(
        &self,
        input: &[T],
        output: &mut [T],
        op: impl Operation<T>,
    ) -> Result<(), MpiError> {
        self.prefix(true, input, output, &op)
    }

    fn prefix<T: Datatype>(
        &self,
        exclusive: bool,
        input: &[T],
        output: &mut [T],
        op: &impl Operation<T>,
    ) -> Result<(), MpiError> {
        length("the output of a scan", input.len(), output.len())?;
        let len = size_of_val(input);
        let combine = combine(op);
        let buffers = Buffers::of(bytes_of(input), bytes_of_mut(output));
        self.scan_spans(buffers, exclusive, len, reduction(op, &combine))
    }
}
