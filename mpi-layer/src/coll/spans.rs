//! The collectives on bytes: an algorithm is chosen and run on spans of the buffers.
//!
//! What the spans mean, and that they fit the buffers, is the business of the callers: the typed methods
//! of [`Communicator`] and the untyped ones of [`raw`](super::raw). A choice depends on lengths in bytes
//! that all ranks know.

use bowline_base::sync::Line;

use super::arena::Buffers;
use super::blocks::{Blocks, Even};
use super::choice::Tree;
use super::engine::Combine;
use super::plan::{Place, Space, Span, Vectors};
use super::{
    allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter, scan, scatter,
    shared,
};
use crate::comm::Communicator;
use crate::error::MpiError;

/// An operation as algorithms need it.
#[derive(Clone, Copy)]
pub struct Reduction<'a> {
    /// Bytes of an element; vectors are cut between elements only.
    pub(crate) width: usize,
    pub(crate) commutative: bool,
    pub(crate) combine: Combine<'a>,
}

impl std::fmt::Debug for Reduction<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Reduction")
            .field("width", &self.width)
            .field("commutative", &self.commutative)
            .finish_non_exhaustive()
    }
}

impl<'a> Reduction<'a> {
    /// The operation `combine` on elements of `width` bytes.
    #[inline]
    pub fn new(width: usize, commutative: bool, combine: Combine<'a>) -> Self {
        Self { width, commutative, combine }
    }
}

impl Communicator {
    /// Returns when all ranks have called it.
    #[inline]
    pub(crate) fn barrier_spans(&self) -> Result<(), MpiError> {
        if let Some(shared) = self.shared()? {
            return shared.run(&self.inner, &[], &mut [], None);
        }
        let how = self.shape().barrier();
        let mut engine = self.engine(Buffers::of(&[], &mut []), 0, None);
        barrier::run(&mut engine, self.place(), how)
    }

    pub(crate) fn bcast_spans(
        &self,
        buffers: Buffers<'_>,
        data: Span,
        root: u32,
    ) -> Result<(), MpiError> {
        let how = self.shape().bcast(data.len);
        bcast::run(&mut self.engine(buffers, 0, None), self.place(), how, root, data)
    }

    /// Blocks of the length of `own` to the output at the root.
    pub(crate) fn gather_spans(
        &self,
        buffers: Buffers<'_>,
        own: Span,
        root: u32,
    ) -> Result<(), MpiError> {
        let how = self.shape().tree(own.len);
        let blocks = Even { space: Space::Output, len: own.len };
        let scratch = gather::scratch(how, self.inner.size, own.len);
        let mut engine = self.engine(buffers, scratch, None);
        gather::even(&mut engine, self.place(), how, root, own, blocks)
    }

    pub(crate) fn gatherv_spans(
        &self,
        buffers: Buffers<'_>,
        own: Span,
        blocks: &impl Blocks,
        root: u32,
    ) -> Result<(), MpiError> {
        gather::linear(&mut self.engine(buffers, 0, None), self.place(), root, own, blocks)
    }

    /// Whether the root writes its own block when blocks have this length: it may not be in place then.
    pub(crate) fn scatter_writes_own(&self, block: usize) -> bool {
        self.shape().tree(block) == Tree::Binomial
    }

    /// Blocks of the length of `own` from the input at the root.
    pub(crate) fn scatter_spans(
        &self,
        buffers: Buffers<'_>,
        own: Span,
        root: u32,
    ) -> Result<(), MpiError> {
        let how = self.shape().tree(own.len);
        let blocks = Even { space: Space::Input, len: own.len };
        let scratch = scatter::scratch(how, self.inner.size, own.len);
        let mut engine = self.engine(buffers, scratch, None);
        scatter::even(&mut engine, self.place(), how, root, blocks, own)
    }

    pub(crate) fn scatterv_spans(
        &self,
        buffers: Buffers<'_>,
        blocks: &impl Blocks,
        own: Span,
        root: u32,
    ) -> Result<(), MpiError> {
        scatter::linear(&mut self.engine(buffers, 0, None), self.place(), root, blocks, own)
    }

    /// Blocks of the length of `own`, which may be the own block of the output.
    pub(crate) fn allgather_spans(&self, buffers: Buffers<'_>, own: Span) -> Result<(), MpiError> {
        let how = self.shape().allgather(own.len);
        let scratch = allgather::scratch(how, own.len * self.inner.size as usize);
        let mut engine = self.engine(buffers, scratch, None);
        let blocks = Even { space: Space::Output, len: own.len };
        allgather::even(&mut engine, self.place(), how, own, blocks)
    }

    /// Blocks of `total` bytes together.
    pub(crate) fn allgatherv_spans(
        &self,
        buffers: Buffers<'_>,
        own: Span,
        blocks: &impl Blocks,
        total: usize,
    ) -> Result<(), MpiError> {
        let how = self.shape().allgatherv(total);
        let mut engine = self.engine(buffers, allgather::scratch(how, total), None);
        allgather::any(&mut engine, self.place(), how, own, blocks)
    }

    /// Blocks of `len` bytes.
    pub(crate) fn alltoall_spans(&self, buffers: Buffers<'_>, len: usize) -> Result<(), MpiError> {
        let how = self.shape().alltoall(len);
        let scratch = alltoall::scratch(how, self.inner.size, len);
        let mut engine = self.engine(buffers, scratch, None);
        let (from, into) = (Even { space: Space::Input, len }, Even { space: Space::Output, len });
        alltoall::even(&mut engine, self.place(), how, from, into)
    }

    pub(crate) fn alltoallv_spans(
        &self,
        buffers: Buffers<'_>,
        from: &impl Blocks,
        into: &impl Blocks,
    ) -> Result<(), MpiError> {
        let partners = self.shape().alltoallv();
        alltoall::staged(&mut self.engine(buffers, 0, None), self.place(), partners, from, into)
    }

    /// The result goes to the first bytes of the output at the root; `own` may be them.
    pub(crate) fn reduce_spans(
        &self,
        buffers: Buffers<'_>,
        own: Span,
        op: Reduction<'_>,
        root: u32,
    ) -> Result<(), MpiError> {
        let Reduction { width, commutative, combine } = op;
        let how = self.shape().reduce(own.len, width, commutative);
        let scratch = reduce::scratch(how, self.inner.size, own.len);
        let vectors = Vectors { input: own, output: Span::output(own.len), width, scratch: 0 };
        let mut engine = self.engine(buffers, scratch, Some(combine));
        reduce::run(&mut engine, self.place(), how, root, vectors)
    }

    /// The result goes to the first bytes of the output; `own` may be them.
    #[inline]
    pub(crate) fn allreduce_spans(
        &self,
        mut buffers: Buffers<'_>,
        own: Span,
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        if own.len <= shared::MAX_BYTES
            && let Some(shared) = self.shared()?
        {
            // Copies, which are aligned and nobody else's.
            let (mut input, mut output) =
                (Line([0; shared::MAX_BYTES]), Line([0; shared::MAX_BYTES]));
            let (input, output) = (&mut input[..own.len], &mut output[..own.len]);
            buffers.read(own, input);
            shared.run(&self.inner, input, output, Some(op.combine))?;
            buffers.write(Span::output(own.len), output);
            return Ok(());
        }
        self.allreduce_by_messages(buffers, own, op)
    }

    pub(super) fn allreduce_by_messages(
        &self,
        buffers: Buffers<'_>,
        own: Span,
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        let Reduction { width, combine, .. } = op;
        let how = self.shape().allreduce(own.len, width);
        let scratch = allreduce::scratch(how, self.inner.size, own.len);
        let vectors = Vectors { input: own, output: Span::output(own.len), width, scratch: 0 };
        let mut engine = self.engine(buffers, scratch, Some(combine));
        allreduce::run(&mut engine, self.place(), how, vectors)
    }

    /// Blocks of the input, without gaps; that of this rank goes to the first bytes of the output.
    pub(crate) fn reduce_scatter_spans(
        &self,
        buffers: Buffers<'_>,
        blocks: &impl Blocks,
        total: usize,
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        let own = Span::output(blocks.len(self.inner.rank));
        let how = self.shape().reduce_scatter(total, op.commutative);
        let scratch = reduce_scatter::scratch(how, self.inner.size, total, own.len);
        let mut engine = self.engine(buffers, scratch, Some(op.combine));
        reduce_scatter::run(&mut engine, self.place(), how, blocks, own)
    }

    /// A prefix reduction of `len` bytes.
    pub(crate) fn scan_spans(
        &self,
        buffers: Buffers<'_>,
        exclusive: bool,
        len: usize,
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        let how = self.shape().scan();
        let mut engine = self.engine(buffers, scan::scratch(how, len), Some(op.combine));
        let (input, output) = (Span::input(len), Span::output(len));
        scan::run(&mut engine, self.place(), how, exclusive, input, output)
    }
}

impl Communicator {
    /// This rank and the number of ranks.
    #[inline]
    pub(crate) fn place(&self) -> Place {
        Place { rank: self.inner.rank, size: self.inner.size }
    }
}
