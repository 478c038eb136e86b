//! The collectives on elements whose type is known at run time only: for skins of the layer.
//!
//! All are `unsafe`, since addresses come from outside. What a caller promises is the same for all:
//! what is sent can be read for the call and nobody writes it; what is received into can be read and
//! written for the call and nobody else uses it; the two do not overlap. Memory of no elements may be at
//! any address. `None` for a buffer stands for `MPI_IN_PLACE`.

mod edges;
mod reduce;

pub use self::edges::Data;
use self::edges::{Cut, Source, Target};
pub use self::reduce::reduce_local;
use super::arena::Buffers;
use super::blocks::{Blocks, Even};
use super::plan::{Space, Span};
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
}

/// Success when both sides of an exchange of this rank with itself have one length.
#[inline]
fn same(room: usize, own: usize) -> Result<(), MpiError> {
    if room == own {
        return Ok(());
    }
    Err(MpiError::CountMismatch { expected: room as u64, got: own as u64 })
}
