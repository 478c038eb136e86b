//! The reductions among the collectives on elements of a layout. What callers promise stands with the
//! others.

use super::call::sealed::Open;
use super::edges::{Data, Side, Source, Target};
use super::{Call, ReduceOp, same};
use crate::coll::spans::Follow;
use crate::comm::Communicator;
use crate::error::MpiError;
use crate::op::operands::Operands;
use bowline_model::coll::blocks::{Blocks, Even, Packed};
use bowline_model::coll::plan::{Space, Span};

impl Communicator {
    /// Combines the elements of all ranks; the result goes to `received` at `root`, which counts nowhere
    /// else. In place is for the root. (`MPI_Reduce`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`bcast_data`](Self::bcast_data).
    pub unsafe fn reduce_data<C: Call>(
        &self,
        call: C,
        send: Option<Data>,
        received: Data,
        op: ReduceOp,
        root: i32,
    ) -> Result<C::Output, MpiError> {
        let root = self.root(root)?;
        let in_place = send.is_none();
        // SAFETY: promised by the caller.
        let source = unsafe { send.map_or(Ok(Source::NOTHING), |data| Source::of(data))? };
        let mut target = match self.is_here(root) {
            // SAFETY: as above.
            true => unsafe { Target::of(received)? },
            false => Target::NOTHING,
        };
        let own = contribution(in_place, &source, &mut target);
        let mut open = call.open(source, target);
        let combine = |operands: Operands<'_>| op.call(&operands);
        // SAFETY: as above.
        self.reduce_spans(unsafe { open.on() }, own, op.reduction(&combine), root)?;
        open.close(self, Some(op))
    }

    /// Combines the elements of all ranks; all get the result. (`MPI_Allreduce`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    #[inline]
    pub unsafe fn allreduce_data<C: Call>(
        &self,
        call: C,
        send: Option<Data>,
        received: Data,
        op: ReduceOp,
    ) -> Result<C::Output, MpiError> {
        let in_place = send.is_none();
        // SAFETY: promised by the caller.
        let source = unsafe { send.map_or(Ok(Source::NOTHING), |data| Source::of(data))? };
        // SAFETY: as above.
        let mut target = unsafe { Target::of(received)? };
        let own = contribution(in_place, &source, &mut target);
        let mut open = call.open(source, target);
        let combine = |operands: Operands<'_>| op.call(&operands);
        // SAFETY: as above.
        unsafe { open.on() }.allreduce(self, own, op.reduction(&combine))?;
        open.close(self, Some(op))
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
    pub unsafe fn reduce_scatter_data<C: Call>(
        &self,
        call: C,
        send: Option<*mut u8>,
        received: Data,
        counts: &[usize],
        op: ReduceOp,
    ) -> Result<C::Output, MpiError> {
        let mut offsets = Vec::with_capacity(counts.len() + 1);
        let mut sum = 0_usize;
        offsets.push(0);
        for &count in counts {
            sum = sum.checked_add(count).ok_or(MpiError::Uncountable)?;
            // That the last and greatest can be counted is checked with the source.
            offsets.push(sum.saturating_mul(op.width()));
        }
        let all = Data { count: sum, ..received };
        let own = counts[self.inner.rank as usize];
        let blocks = Packed { space: Space::Input, offsets: &offsets };
        // SAFETY: promised by the caller.
        unsafe { self.reduce_scatter_blocks_data(call, send, all, own, &blocks, op) }
    }

    /// The same with `received.count` elements for each rank. (`MPI_Reduce_scatter_block`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    pub unsafe fn reduce_scatter_block_data<C: Call>(
        &self,
        call: C,
        send: Option<*mut u8>,
        received: Data,
        op: ReduceOp,
    ) -> Result<C::Output, MpiError> {
        let blocks = Even { space: Space::Input, len: received.bytes()? };
        let (count, all) = (received.count, received.times(self.inner.size)?);
        // SAFETY: promised by the caller.
        unsafe { self.reduce_scatter_blocks_data(call, send, all, count, &blocks, op) }
    }

    /// `all` are the elements of all ranks, at the receive buffer's address.
    ///
    /// # Safety
    /// As the module says.
    unsafe fn reduce_scatter_blocks_data<C: Call>(
        &self,
        call: C,
        send: Option<*mut u8>,
        all: Data,
        own: usize,
        blocks: &impl Blocks,
        op: ReduceOp,
    ) -> Result<C::Output, MpiError> {
        // SAFETY: promised by the caller. In place, what is combined stands where the result goes.
        let source = unsafe {
            match send {
                Some(start) => Source::of(Data { start, ..all.clone() })?,
                None => Source::copy(all.clone())?,
            }
        };
        // SAFETY: as above.
        let target = unsafe { Target::of(all.from(0, own))? };
        let total = source.len();
        let mut open = call.open(source, target);
        let combine = |operands: Operands<'_>| op.call(&operands);
        // SAFETY: as above.
        self.reduce_scatter_spans(unsafe { open.on() }, blocks, total, op.reduction(&combine))?;
        open.close(self, Some(op))
    }

    /// Combines the elements of all ranks up to this one, or, if `exclusive`, below it; rank 0's
    /// `received` is left as it is then. (`MPI_Scan`, `MPI_Exscan`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    pub unsafe fn scan_data<C: Call>(
        &self,
        call: C,
        exclusive: bool,
        send: Option<Data>,
        received: Data,
        op: ReduceOp,
    ) -> Result<C::Output, MpiError> {
        // SAFETY: promised by the caller. In place, the contribution is overwritten while it is still
        // needed.
        let source = unsafe {
            match send {
                Some(data) => Source::of(data)?,
                None => Source::copy(received.clone())?,
            }
        };
        let ignored = exclusive && self.inner.rank == 0;
        // SAFETY: as above.
        let target = unsafe { if ignored { Target::NOTHING } else { Target::of(received)? } };
        let len = source.len();
        let mut open = call.open(source, target);
        let combine = |operands: Operands<'_>| op.call(&operands);
        // SAFETY: as above.
        self.scan_spans(unsafe { open.on() }, exclusive, len, op.reduction(&combine))?;
        open.close(self, Some(op))
    }
}

/// Where the contribution to a reduction is.
#[inline]
fn contribution(in_place: bool, source: &Source, target: &mut Target) -> Span {
    if !in_place {
        return Span::input(source.len());
    }
    let own = Span::output(target.len());
    target.reads(own);
    own
}

/// Combines two vectors of one process: `right = left OP right`. (`MPI_Reduce_local`)
///
/// # Safety
/// As the module says, for `left` as what is sent and `right` as what is received into.
///
/// # Errors
/// When the vectors cannot be counted.
pub unsafe fn reduce_local(left: Data, right: Data, op: &ReduceOp) -> Result<(), MpiError> {
    // SAFETY: promised by the caller.
    let mut source = unsafe { Source::of(left)? };
    // SAFETY: as above.
    let mut target = unsafe { Target::of(right)? };
    target.reads(Span::output(target.len()));
    source.load();
    target.load();
    same(target.len(), source.len())?;
    if source.len() > 0 {
        // SAFETY: both have as many bytes, which are ours for the call.
        op.call(&unsafe { Operands::new(source.memory().0, target.memory().0, source.len()) });
    }
    target.store();
    Ok(())
}
