//! The collectives on elements whose type is known at run time only: for skins of the layer.
//!
//! All are `unsafe`, since addresses come from outside. What a caller promises is the same for all:
//! what is sent can be read for the call and nobody writes it; what is received into can be read and
//! written for the call and nobody else uses it; the two do not overlap. Memory of no elements may be at
//! any address. `None` for a buffer stands for `MPI_IN_PLACE`.

mod edges;

pub use self::edges::Data;
use self::edges::{Cut, Source, Target};
use super::arena::Buffers;
use super::blocks::{Blocks, Even, Packed};
use super::engine::Operands;
use super::plan::{Space, Span};
use super::spans::Reduction;
use crate::comm::Communicator;
use crate::error::MpiError;

/// The buffers of a collective.
///
/// # Safety
/// Both are memory as the module says, for `'a`.
#[inline]
unsafe fn buffers<'a>(input: (*const u8, usize), output: (*mut u8, usize)) -> Buffers<'a> {
    // SAFETY: promised by the caller.
    unsafe { Buffers::at(input, output) }
}

const NO_INPUT: (*const u8, usize) = (std::ptr::null(), 0);
const NO_OUTPUT: (*mut u8, usize) = (std::ptr::null_mut(), 0);

/// An input that lies in the memory of blocks.
fn constant((start, len): (*mut u8, usize)) -> (*const u8, usize) {
    (start, len)
}

/// The place of a rank's block among blocks of one length.
fn block(space: Space, rank: u32, len: usize) -> Span {
    Even { space, len }.span(rank)
}

impl Communicator {
    #[inline]
    fn is_here(&self, root: u32) -> bool {
        self.inner.rank == root
    }

    /// Brings the elements of `root` to all ranks. (`MPI_Bcast`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// [`MpiError::InvalidRoot`]; [`MpiError::CountMismatch`] when ranks give different lengths; a
    /// member's failure.
    pub unsafe fn bcast_data(&self, data: Data<'_>, root: i32) -> Result<(), MpiError> {
        let root = self.root(root)?;
        // SAFETY: promised by the caller.
        let mut target = unsafe { Target::of(data)? };
        let span = Span::output(target.len());
        if self.is_here(root) {
            target.load(span);
        }
        // SAFETY: promised by the caller.
        self.bcast_spans(unsafe { buffers(NO_INPUT, target.output()) }, span, root)?;
        if !self.is_here(root) {
            target.store();
        }
        Ok(())
    }

    /// Collects blocks at `root`; `block` is the first of those that are received there, and counts
    /// nowhere else. In place is for the root. (`MPI_Gather`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`bcast_data`](Self::bcast_data).
    pub unsafe fn gather_data(
        &self,
        send: Option<Data<'_>>,
        received: Data<'_>,
        root: i32,
    ) -> Result<(), MpiError> {
        let root = self.root(root)?;
        // SAFETY: promised by the caller.
        let source = unsafe { send.map_or(Ok(Source::NOTHING), |data| Source::of(data))? };
        let mut target = match self.is_here(root) {
            // SAFETY: as above.
            true => unsafe { Target::of(received.times(self.inner.size)?)? },
            false => Target::NOTHING,
        };
        let own = match send {
            Some(_) => Span::input(source.len()),
            None => block(Space::Output, root, target.len() / self.inner.size as usize),
        };
        if send.is_none() {
            target.load(own);
        }
        if self.is_here(root) {
            same(target.len() / self.inner.size as usize, own.len)?;
        }
        // SAFETY: as above.
        self.gather_spans(unsafe { buffers(source.input(), target.output()) }, own, root)?;
        target.store();
        Ok(())
    }

    /// Collects blocks at `root`, which has one entry of `received` for each rank; elsewhere it is
    /// empty. In place is for the root. (`MPI_Gatherv`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// [`MpiError::BlocksOverlap`]; else as for [`bcast_data`](Self::bcast_data).
    pub unsafe fn gatherv_data(
        &self,
        send: Option<Data<'_>>,
        received: &[Data<'_>],
        root: i32,
    ) -> Result<(), MpiError> {
        let root = self.root(root)?;
        // SAFETY: promised by the caller.
        let source = unsafe { send.map_or(Ok(Source::NOTHING), |data| Source::of(data))? };
        let target = match self.is_here(root) {
            // SAFETY: as above.
            true => unsafe { Cut::target(received)? },
            false => Cut::nothing(Space::Output),
        };
        let own = match send {
            Some(_) => Span::input(source.len()),
            None => {
                target.load(root as usize);
                target.span(root)
            }
        };
        if self.is_here(root) {
            same(target.len(root), own.len)?;
        }
        // SAFETY: as above.
        let buffers = unsafe { buffers(source.input(), target.memory()) };
        self.gatherv_spans(buffers, own, &target, root)?;
        target.store();
        Ok(())
    }

    /// Deals out blocks from `root`; `sent` is the first of them, and counts nowhere else. In place is
    /// for the root, whose block stays where it is. (`MPI_Scatter`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`bcast_data`](Self::bcast_data).
    pub unsafe fn scatter_data(
        &self,
        sent: Data<'_>,
        receive: Option<Data<'_>>,
        root: i32,
    ) -> Result<(), MpiError> {
        let root = self.root(root)?;
        let source = match self.is_here(root) {
            // SAFETY: promised by the caller.
            true => unsafe { Source::of(sent.times(self.inner.size)?)? },
            false => Source::NOTHING,
        };
        // SAFETY: as above.
        let target = unsafe { receive.map_or(Ok(Target::NOTHING), |data| Target::of(data))? };
        let len = source.len() / self.inner.size as usize;
        let Some(_) = receive else {
            // Some forms write the own block, which has no other place then.
            let mut unused = vec![0; if self.scatter_writes_own(len) { len } else { 0 }];
            let own = match unused.is_empty() {
                true => block(Space::Input, root, len),
                false => Span::output(len),
            };
            let output = (unused.as_mut_ptr(), unused.len());
            // SAFETY: as above; the output is new memory.
            return self.scatter_spans(unsafe { buffers(source.input(), output) }, own, root);
        };
        let own = Span::output(target.len());
        if self.is_here(root) {
            same(len, own.len)?;
        }
        // SAFETY: as above.
        self.scatter_spans(unsafe { buffers(source.input(), target.output()) }, own, root)?;
        target.store();
        Ok(())
    }

    /// Deals out blocks from `root`, which has one entry of `sent` for each rank; elsewhere it is empty.
    /// In place is for the root, whose block stays where it is. (`MPI_Scatterv`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`bcast_data`](Self::bcast_data).
    pub unsafe fn scatterv_data(
        &self,
        sent: &[Data<'_>],
        receive: Option<Data<'_>>,
        root: i32,
    ) -> Result<(), MpiError> {
        let root = self.root(root)?;
        let source = match self.is_here(root) {
            // SAFETY: promised by the caller.
            true => unsafe { Cut::source(sent)? },
            false => Cut::nothing(Space::Input),
        };
        // SAFETY: as above.
        let target = unsafe { receive.map_or(Ok(Target::NOTHING), |data| Target::of(data))? };
        let own = match receive {
            Some(_) => Span::output(target.len()),
            None => source.span(root),
        };
        if self.is_here(root) {
            same(source.len(root), own.len)?;
        }
        // SAFETY: as above.
        let buffers = unsafe { buffers(constant(source.memory()), target.output()) };
        self.scatterv_spans(buffers, &source, own, root)?;
        target.store();
        Ok(())
    }

    /// Collects blocks at all ranks; `received` is the first of them. (`MPI_Allgather`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// [`MpiError::CountMismatch`] when ranks give different lengths; a member's failure.
    pub unsafe fn allgather_data(
        &self,
        send: Option<Data<'_>>,
        received: Data<'_>,
    ) -> Result<(), MpiError> {
        // SAFETY: promised by the caller.
        let source = unsafe { send.map_or(Ok(Source::NOTHING), |data| Source::of(data))? };
        // SAFETY: as above.
        let mut target = unsafe { Target::of(received.times(self.inner.size)?)? };
        let len = target.len() / self.inner.size as usize;
        let own = match send {
            Some(_) => Span::input(source.len()),
            None => block(Space::Output, self.inner.rank, len),
        };
        if send.is_none() {
            target.load(own);
        }
        same(len, own.len)?;
        // SAFETY: as above.
        self.allgather_spans(unsafe { buffers(source.input(), target.output()) }, own)?;
        target.store();
        Ok(())
    }

    /// Collects blocks at all ranks; `received` has one for each. (`MPI_Allgatherv`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// [`MpiError::BlocksOverlap`]; else as for [`allgather_data`](Self::allgather_data).
    pub unsafe fn allgatherv_data(
        &self,
        send: Option<Data<'_>>,
        received: &[Data<'_>],
    ) -> Result<(), MpiError> {
        let rank = self.inner.rank;
        // SAFETY: promised by the caller.
        let source = unsafe { send.map_or(Ok(Source::NOTHING), |data| Source::of(data))? };
        // SAFETY: as above.
        let target = unsafe { Cut::target(received)? };
        let own = match send {
            Some(_) => Span::input(source.len()),
            None => {
                target.load(rank as usize);
                target.span(rank)
            }
        };
        same(target.len(rank), own.len)?;
        // SAFETY: as above.
        let buffers = unsafe { buffers(source.input(), target.memory()) };
        self.allgatherv_spans(buffers, own, &target, target.total())?;
        target.store();
        Ok(())
    }

    /// Exchanges blocks between all ranks; `send` and `received` are the first ones. (`MPI_Alltoall`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    pub unsafe fn alltoall_data(
        &self,
        send: Option<Data<'_>>,
        received: Data<'_>,
    ) -> Result<(), MpiError> {
        let size = self.inner.size;
        let received = received.times(size)?;
        // SAFETY: promised by the caller. In place, what is sent is what stands in the output.
        let source = unsafe {
            match send {
                Some(data) => Source::of(data.times(size)?)?,
                None => Source::copy(received)?,
            }
        };
        // SAFETY: as above.
        let target = unsafe { Target::of(received)? };
        same(target.len(), source.len())?;
        let len = source.len() / size as usize;
        // SAFETY: as above.
        self.alltoall_spans(unsafe { buffers(source.input(), target.output()) }, len)?;
        target.store();
        Ok(())
    }

    /// Exchanges blocks between all ranks; `send` and `received` have one for each. (`MPI_Alltoallv`,
    /// `MPI_Alltoallw`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`allgatherv_data`](Self::allgatherv_data).
    pub unsafe fn alltoallv_data(
        &self,
        send: Option<&[Data<'_>]>,
        received: &[Data<'_>],
    ) -> Result<(), MpiError> {
        let rank = self.inner.rank;
        // SAFETY: promised by the caller. In place, what is sent is what stands in the output.
        let source = unsafe {
            match send {
                Some(blocks) => Cut::source(blocks)?,
                None => Cut::copy(received)?,
            }
        };
        // SAFETY: as above.
        let target = unsafe { Cut::target(received)? };
        same(target.len(rank), source.len(rank))?;
        // SAFETY: as above.
        let buffers = unsafe { buffers(constant(source.memory()), target.memory()) };
        self.alltoallv_spans(buffers, &source, &target)?;
        target.store();
        Ok(())
    }

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
        let buffers = unsafe {
            let output = if ignored { NO_OUTPUT } else { target.output() };
            buffers(source.input(), output)
        };
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

/// Success when both sides of an exchange of this rank with itself have one length.
#[inline]
fn same(room: usize, own: usize) -> Result<(), MpiError> {
    if room == own {
        return Ok(());
    }
    Err(MpiError::CountMismatch { expected: room as u64, got: own as u64 })
}
