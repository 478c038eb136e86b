//! The collective calls that reduce. (MPI: Collective Communication, "Global Reduction
//! Operations".)
//!
//! Contributions are combined in rank order, whatever the algorithm, for every operation that is
//! not declared commutative; results are the same on all ranks and in every run.

use super::blocks::{Blocks, Even, Packed};
use super::calls::{blocks_length, length};
use super::plan::{Space, Span, Vectors};
use super::{allreduce, reduce, reduce_scatter, scan, shared};
use crate::comm::Communicator;
use crate::datatype::{Datatype, bytes_of, bytes_of_mut, items_of, items_of_mut};
use crate::error::MpiError;
use crate::op::Operation;

/// The operation on bytes.
#[inline]
fn combine<'a, T: Datatype>(op: &'a impl Operation<T>) -> impl Fn(&[u8], &mut [u8]) + 'a {
    // Scratch is aligned to cache lines and blocks in it to elements.
    const { assert!(align_of::<T>() <= 64, "datatypes are aligned to a cache line at most") };
    move |left, right| op.combine(items_of(left), items_of_mut(right))
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
        let (len, width) = (size_of_val(input), size_of::<T>());
        let how = self.shape().reduce(len, width, op.is_commutative());
        let scratch = reduce::scratch(how, self.inner.size, len);
        let vectors =
            Vectors { input: Span::input(len), output: Span::output(len), width, scratch: 0 };
        let combine = combine(&op);
        let mut engine =
            self.engine(bytes_of(input), bytes_of_mut(output), scratch, Some(&combine));
        reduce::run(&mut engine, self.place(), how, root, vectors)
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
        self.allreduce_spans(bytes_of(input), own, output, &op)
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
        self.allreduce_spans(&[], own, items, &op)
    }

    #[inline]
    fn allreduce_spans<T: Datatype>(
        &self,
        input: &[u8],
        own: Span,
        output: &mut [T],
        op: &impl Operation<T>,
    ) -> Result<(), MpiError> {
        if own.len <= shared::MAX_BYTES
            && let Some(shared) = self.shared()?
        {
            let combine = combine(op);
            // In place, the contribution is where the result goes.
            let mut own_copy = [0; shared::MAX_BYTES];
            let contribution: &[u8] = if input.is_empty() {
                let bytes = bytes_of(output);
                own_copy[..bytes.len()].copy_from_slice(bytes);
                &own_copy[..bytes.len()]
            } else {
                input
            };
            return shared.run(&self.inner, contribution, bytes_of_mut(output), Some(&combine));
        }
        self.allreduce_by_messages(input, own, output, op)
    }

    #[inline]
    pub(super) fn allreduce_by_messages<T: Datatype>(
        &self,
        input: &[u8],
        own: Span,
        output: &mut [T],
        op: &impl Operation<T>,
    ) -> Result<(), MpiError> {
        let width = size_of::<T>();
        let how = self.shape().allreduce(own.len, width);
        let scratch = allreduce::scratch(how, self.inner.size, own.len);
        let vectors = Vectors { input: own, output: Span::output(own.len), width, scratch: 0 };
        let combine = combine(op);
        let mut engine = self.engine(input, bytes_of_mut(output), scratch, Some(&combine));
        allreduce::run(&mut engine, self.place(), how, vectors)
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
    /// [`MpiError::CountMismatch`] when ranks give different counts; a member's failure.
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
        let own = Span::output(size_of_val(output));
        let total = size_of_val(input);
        let how = self.shape().reduce_scatter(total, op.is_commutative());
        let scratch = reduce_scatter::scratch(how, self.inner.size, total, own.len);
        let combine = combine(op);
        let mut engine =
            self.engine(bytes_of(input), bytes_of_mut(output), scratch, Some(&combine));
        reduce_scatter::run(&mut engine, self.place(), how, blocks, own)
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
        let how = self.shape().scan();
        let scratch = scan::scratch(how, len);
        let combine = combine(op);
        let mut engine =
            self.engine(bytes_of(input), bytes_of_mut(output), scratch, Some(&combine));
        let (input, output) = (Span::input(len), Span::output(len));
        scan::run(&mut engine, self.place(), how, exclusive, input, output)
    }
}
