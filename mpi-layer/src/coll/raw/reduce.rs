//! The reductions among the collectives on elements of a layout. What callers promise stands with the
//! others.

use super::edges::{Data, Source, Target};
use super::{buffers, same};
use crate::coll::blocks::{Blocks, Even, Packed};
use crate::coll::engine::Operands;
use crate::coll::plan::{Space, Span};
use crate::coll::spans::Reduction;
use crate::comm::Communicator;
use crate::error::MpiError;

impl Communicator {
    /// Combines the elements of all ranks; the result goes to `received` at `root`, which counts nowhere
    /// else. In place is for the root. (`MPI_Reduce`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`bcast_data`](Self::bcast_data).
    pub unsafe fn reduce_data(
        &self,
        send: Option<Data<'_>>,
        received: Data<'_>,
        op: Reduction<'_>,
        root: i32,
    ) -> Result<(), MpiError> {
        let root = self.root(root)?;
        // SAFETY: promised by the caller.
        let source = unsafe { send.map_or(Ok(Source::NOTHING), |data| Source::of(data))? };
        let mut target = match self.is_here(root) {
            // SAFETY: as above.
            true => unsafe { Target::of(received)? },
            false => Target::NOTHING,
        };
        let own = self.contribution(send, &source, &mut target);
        // SAFETY: as above.
        self.reduce_spans(unsafe { buffers(source.input(), target.output()) }, own, op, root)?;
        target.store();
        Ok(())
    }

    /// Where the contribution to a reduction is.
    #[inline]
    fn contribution(
        &self,
        send: Option<Data<'_>>,
        source: &Source,
        target: &mut Target<'_>,
    ) -> Span {
        match send {
            Some(_) => Span::input(source.len()),
            None => {
                let own = Span::output(target.len());
                target.load(own);
                own
            }
        }
    }

    /// Combines the elements of all ranks; all get the result. (`MPI_Allreduce`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    #[inline]
    pub unsafe fn allreduce_data(
        &self,
        send: Option<Data<'_>>,
        received: Data<'_>,
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        // SAFETY: promised by the caller.
        let source = unsafe { send.map_or(Ok(Source::NOTHING), |data| Source::of(data))? };
        // SAFETY: as above.
        let mut target = unsafe { Target::of(received)? };
        let own = self.contribution(send, &source, &mut target);
        // SAFETY: as above.
        self.allreduce_spans(unsafe { buffers(source.input(), target.output()) }, own, op)?;
        target.store();
        Ok(())
    }

    /// [`allreduce_data`](Self::allreduce_data) of `len` bytes of elements that lie side by side on both sides.
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    #[inline]
    pub unsafe fn allreduce_side_by_side(
        &self,
        send: *const u8,
        received: *mut u8,
        len: usize,
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        // SAFETY: promised by the caller.
        self.allreduce_spans(unsafe { buffers((send, len), (received, len)) }, Span::input(len), op)
    }

    /// Combines the elements of all ranks; rank r gets `counts[r]` of the results, after those of the
    /// ranks below. `send` are the elements of all; in place, they stand in `received` and the result
    /// goes to its first ones. (`MPI_Reduce_scatter`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    pub unsafe fn reduce_scatter_data(
        &self,
        send: Option<*mut u8>,
        received: Data<'_>,
        counts: &[usize],
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        let mut offsets = Vec::with_capacity(counts.len() + 1);
        let mut sum = 0_usize;
        offsets.push(0);
        for &count in counts {
            sum = sum.checked_add(count).ok_or(MpiError::Uncountable)?;
            // That the last and greatest can be counted is checked with the source.
            offsets.push(sum.saturating_mul(op.width));
        }
        let all = Data { count: sum, ..received };
        let own = counts[self.inner.rank as usize];
        let blocks = Packed { space: Space::Input, offsets: &offsets };
        // SAFETY: promised by the caller.
        unsafe { self.reduce_scatter_blocks_data(send, all, own, &blocks, op) }
    }

    /// The same with `received.count` elements for each rank. (`MPI_Reduce_scatter_block`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    pub unsafe fn reduce_scatter_block_data(
        &self,
        send: Option<*mut u8>,
        received: Data<'_>,
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        let blocks = Even { space: Space::Input, len: received.bytes()? };
        let all = received.times(self.inner.size)?;
        // SAFETY: promised by the caller.
        unsafe { self.reduce_scatter_blocks_data(send, all, received.count, &blocks, op) }
    }

    /// `all` are the elements of all ranks, at the receive buffer's address.
    ///
    /// # Safety
    /// As the module says.
    unsafe fn reduce_scatter_blocks_data(
        &self,
        send: Option<*mut u8>,
        all: Data<'_>,
        own: usize,
        blocks: &impl Blocks,
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        // SAFETY: promised by the caller. In place, what is combined stands where the result goes.
        let source = unsafe {
            match send {
                Some(start) => Source::of(Data { start, ..all })?,
                None => Source::copy(all)?,
            }
        };
        // SAFETY: as above.
        let target = unsafe { Target::of(all.from(0, own))? };
        // SAFETY: as above.
        let buffers = unsafe { buffers(source.input(), target.output()) };
        self.reduce_scatter_spans(buffers, blocks, source.len(), op)?;
        target.store();
        Ok(())
    }

    /// Combines the elements of all ranks up to this one, or, if `exclusive`, below it; rank 0's
    /// `received` is left as it is then. (`MPI_Scan`, `MPI_Exscan`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    pub unsafe fn scan_data(
        &self,
        exclusive: bool,
        send: Option<Data<'_>>,
        received: Data<'_>,
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        // SAFETY: promised by the caller. In place, the contribution is overwritten while it is still
        // needed.
        let source = unsafe {
            match send {
                Some(data) => Source::of(data)?,
                None => Source::copy(received)?,
            }
        };
        let ignored = exclusive && self.inner.rank == 0;
        // SAFETY: as above.
        let target = unsafe { if ignored { Target::NOTHING } else { Target::of(received)? } };
        // SAFETY: as above.
        let buffers = unsafe { buffers(source.input(), target.output()) };
        self.scan_spans(buffers, exclusive, source.len(), op)?;
        target.store();
        Ok(())
    }
}

/// Combines two vectors of one process: `right = left OP right`. (`MPI_Reduce_local`)
///
/// # Safety
/// As the module says, for `left` as what is sent and `right` as what is received into.
///
/// # Errors
/// When the vectors cannot be counted.
pub unsafe fn reduce_local(
    left: Data<'_>,
    right: Data<'_>,
    op: Reduction<'_>,
) -> Result<(), MpiError> {
    // SAFETY: promised by the caller.
    let source = unsafe { Source::of(left)? };
    // SAFETY: as above.
    let mut target = unsafe { Target::of(right)? };
    target.load(Span::output(target.len()));
    same(target.len(), source.len())?;
    if source.len() > 0 {
        // SAFETY: both have as many bytes, which are ours for the call.
        (op.combine)(unsafe { Operands::new(source.input().0, target.output().0, source.len()) });
    }
    target.store();
    Ok(())
}
