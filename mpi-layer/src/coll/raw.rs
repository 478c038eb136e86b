//! The collectives on elements whose type is known at run time only: for skins of the layer.
//!
//! All are `unsafe`, since addresses come from outside. What a caller promises is the same for all:
//! what is sent can be read for the call and nobody writes it; what is received into can be read and
//! written for the call and nobody else uses it; the two do not overlap. Memory of no elements may be at
//! any address. `None` for a buffer stands for `MPI_IN_PLACE`.
//!
//! The first argument says when it is done ([`call`]). Where that is later, the promise is for as long as the
//! [run](super::run) is active, and for every time that it is.

mod call;
mod dense;
mod edges;
mod greatest;
mod neighbor;
mod reduce;

use self::call::sealed::Open;
pub use self::call::{Again, Call, Later, Now};
pub use self::edges::Data;
pub(crate) use self::edges::Side;
use self::edges::{Cut, Source, Target, Unused};
pub(crate) use self::greatest::Greatest;
pub use self::reduce::reduce_local;
use super::spans::Follow;
use crate::comm::Communicator;
use crate::error::MpiError;
pub(crate) use crate::op::reduce_op::ReduceOp;
use bowline_model::coll::blocks::{Blocks, Even};
use bowline_model::coll::plan::{Space, Span};

/// The place of a rank's block among blocks of one length.
fn block(space: Space, rank: u32, len: usize) -> Span {
    Even { space, len }.span(rank)
}

impl Communicator {
    #[inline]
    fn is_here(&self, root: u32) -> bool {
        self.inner.rank == root
    }

    /// Waits until all ranks have called it. (`MPI_Barrier`)
    ///
    /// # Errors
    /// A member's failure.
    pub fn barrier_data<C: Call>(&self, call: C) -> Result<C::Output, MpiError> {
        let mut open = call.open(Source::NOTHING, Target::NOTHING);
        // SAFETY: there is no memory.
        unsafe { open.on() }.barrier(self)?;
        open.close(self, None)
    }

    /// Brings the elements of `root` to all ranks. (`MPI_Bcast`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// [`MpiError::InvalidRoot`]; [`MpiError::CountMismatch`] when ranks give different lengths; a
    /// member's failure.
    pub unsafe fn bcast_data<C: Call>(
        &self,
        call: C,
        data: Data,
        root: i32,
    ) -> Result<C::Output, MpiError> {
        let root = self.root(root)?;
        // SAFETY: promised by the caller.
        let mut target = unsafe { Target::of(data)? };
        let span = Span::output(target.len());
        if self.is_here(root) {
            target.reads(span);
            target.only_read();
        }
        let mut open = call.open(Source::NOTHING, target);
        // SAFETY: promised by the caller.
        self.bcast_spans(unsafe { open.on() }, span, root)?;
        open.close(self, None)
    }

    /// Collects blocks at `root`; `block` is the first of those that are received there, and counts
    /// nowhere else. In place is for the root. (`MPI_Gather`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`bcast_data`](Self::bcast_data).
    pub unsafe fn gather_data<C: Call>(
        &self,
        call: C,
        send: Option<Data>,
        received: Data,
        root: i32,
    ) -> Result<C::Output, MpiError> {
        let root = self.root(root)?;
        let in_place = send.is_none();
        // SAFETY: promised by the caller.
        let source = unsafe { send.map_or(Ok(Source::NOTHING), |data| Source::of(data))? };
        let mut target = match self.is_here(root) {
            // SAFETY: as above.
            true => unsafe { Target::of(received.times(self.inner.size)?)? },
            false => Target::NOTHING,
        };
        let own = match in_place {
            false => Span::input(source.len()),
            true => block(Space::Output, root, target.len() / self.inner.size as usize),
        };
        if in_place {
            target.reads(own);
        }
        if self.is_here(root) {
            same(target.len() / self.inner.size as usize, own.len)?;
        }
        let mut open = call.open(source, target);
        // SAFETY: as above.
        self.gather_spans(unsafe { open.on() }, own, root)?;
        open.close(self, None)
    }

    /// Collects blocks at `root`, which has one entry of `received` for each rank; elsewhere it is
    /// empty. In place is for the root. (`MPI_Gatherv`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// [`MpiError::BlocksOverlap`]; else as for [`bcast_data`](Self::bcast_data).
    pub unsafe fn gatherv_data<C: Call>(
        &self,
        call: C,
        send: Option<Data>,
        received: Vec<Data>,
        root: i32,
    ) -> Result<C::Output, MpiError> {
        let root = self.root(root)?;
        let in_place = send.is_none();
        // SAFETY: promised by the caller.
        let source = unsafe { send.map_or(Ok(Source::NOTHING), |data| Source::of(data))? };
        let mut target = match self.is_here(root) {
            // SAFETY: as above.
            true => unsafe { Cut::target(received)? },
            false => Cut::nothing(Space::Output),
        };
        let own = match in_place {
            false => Span::input(source.len()),
            true => {
                target.reads(root);
                target.span(root)
            }
        };
        if self.is_here(root) {
            same(target.len(root), own.len)?;
        }
        let blocks = target.places();
        let mut open = call.open(source, target);
        // SAFETY: as above.
        self.gatherv_spans(unsafe { open.on() }, own, &blocks, root)?;
        open.close(self, None)
    }

    /// Deals out blocks from `root`; `sent` is the first of them, and counts nowhere else. In place is
    /// for the root, whose block stays where it is. (`MPI_Scatter`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`bcast_data`](Self::bcast_data).
    pub unsafe fn scatter_data<C: Call>(
        &self,
        call: C,
        sent: Data,
        receive: Option<Data>,
        root: i32,
    ) -> Result<C::Output, MpiError> {
        let root = self.root(root)?;
        let source = match self.is_here(root) {
            // SAFETY: promised by the caller.
            true => unsafe { Source::of(sent.times(self.inner.size)?)? },
            false => Source::NOTHING,
        };
        let len = source.len() / self.inner.size as usize;
        let Some(receive) = receive else {
            // Some forms write the own block, which has no other place then.
            let unused = Unused::new(if self.scatter_writes_own(len) { len } else { 0 });
            let own = match unused.memory().1 {
                0 => block(Space::Input, root, len),
                len => Span::output(len),
            };
            let mut open = call.open(source, unused);
            // SAFETY: as above.
            self.scatter_spans(unsafe { open.on() }, own, root)?;
            return open.close(self, None);
        };
        // SAFETY: as above.
        let target = unsafe { Target::of(receive)? };
        let own = Span::output(target.len());
        if self.is_here(root) {
            same(len, own.len)?;
        }
        let mut open = call.open(source, target);
        // SAFETY: as above.
        self.scatter_spans(unsafe { open.on() }, own, root)?;
        open.close(self, None)
    }

    /// Deals out blocks from `root`, which has one entry of `sent` for each rank; elsewhere it is empty.
    /// In place is for the root, whose block stays where it is. (`MPI_Scatterv`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`bcast_data`](Self::bcast_data).
    pub unsafe fn scatterv_data<C: Call>(
        &self,
        call: C,
        sent: Vec<Data>,
        receive: Option<Data>,
        root: i32,
    ) -> Result<C::Output, MpiError> {
        let root = self.root(root)?;
        let source = match self.is_here(root) {
            // SAFETY: promised by the caller.
            true => unsafe { Cut::source(sent)? },
            false => Cut::nothing(Space::Input),
        };
        let in_place = receive.is_none();
        // SAFETY: as above.
        let target = unsafe { receive.map_or(Ok(Target::NOTHING), |data| Target::of(data))? };
        let own = match in_place {
            false => Span::output(target.len()),
            true => source.span(root),
        };
        if self.is_here(root) {
            same(source.len(root), own.len)?;
        }
        let blocks = source.places();
        let mut open = call.open(source, target);
        // SAFETY: as above.
        self.scatterv_spans(unsafe { open.on() }, &blocks, own, root)?;
        open.close(self, None)
    }

    /// Collects blocks at all ranks; `received` is the first of them. (`MPI_Allgather`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// [`MpiError::CountMismatch`] when ranks give different lengths; a member's failure.
    pub unsafe fn allgather_data<C: Call>(
        &self,
        call: C,
        send: Option<Data>,
        received: Data,
    ) -> Result<C::Output, MpiError> {
        let in_place = send.is_none();
        // SAFETY: promised by the caller.
        let source = unsafe { send.map_or(Ok(Source::NOTHING), |data| Source::of(data))? };
        // SAFETY: as above.
        let mut target = unsafe { Target::of(received.times(self.inner.size)?)? };
        let len = target.len() / self.inner.size as usize;
        let own = match in_place {
            false => Span::input(source.len()),
            true => block(Space::Output, self.inner.rank, len),
        };
        if in_place {
            target.reads(own);
        }
        same(len, own.len)?;
        let mut open = call.open(source, target);
        // SAFETY: as above.
        self.allgather_spans(unsafe { open.on() }, own)?;
        open.close(self, None)
    }

    /// Collects blocks at all ranks; `received` has one for each. (`MPI_Allgatherv`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// [`MpiError::BlocksOverlap`]; else as for [`allgather_data`](Self::allgather_data).
    pub unsafe fn allgatherv_data<C: Call>(
        &self,
        call: C,
        send: Option<Data>,
        received: Vec<Data>,
    ) -> Result<C::Output, MpiError> {
        let rank = self.inner.rank;
        let in_place = send.is_none();
        // SAFETY: promised by the caller.
        let source = unsafe { send.map_or(Ok(Source::NOTHING), |data| Source::of(data))? };
        // SAFETY: as above.
        let mut target = unsafe { Cut::target(received)? };
        let own = match in_place {
            false => Span::input(source.len()),
            true => {
                target.reads(rank);
                target.span(rank)
            }
        };
        same(target.len(rank), own.len)?;
        let (blocks, total) = (target.places(), target.total());
        let mut open = call.open(source, target);
        // SAFETY: as above.
        self.allgatherv_spans(unsafe { open.on() }, own, &blocks, total)?;
        open.close(self, None)
    }

    /// Exchanges blocks between all ranks; `send` and `received` are the first ones. (`MPI_Alltoall`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    pub unsafe fn alltoall_data<C: Call>(
        &self,
        call: C,
        send: Option<Data>,
        received: Data,
    ) -> Result<C::Output, MpiError> {
        let size = self.inner.size;
        let received = received.times(size)?;
        // SAFETY: promised by the caller. In place, what is sent is what stands in the output.
        let source = unsafe {
            match send {
                Some(data) => Source::of(data.times(size)?)?,
                None => Source::copy(received.clone())?,
            }
        };
        // SAFETY: as above.
        let target = unsafe { Target::of(received)? };
        same(target.len(), source.len())?;
        let len = source.len() / size as usize;
        let mut open = call.open(source, target);
        // SAFETY: as above.
        self.alltoall_spans(unsafe { open.on() }, len)?;
        open.close(self, None)
    }

    /// Exchanges blocks between all ranks; `send` and `received` have one for each. (`MPI_Alltoallv`,
    /// `MPI_Alltoallw`)
    ///
    /// # Safety
    /// As the module says.
    ///
    /// # Errors
    /// As for [`allgatherv_data`](Self::allgatherv_data).
    pub unsafe fn alltoallv_data<C: Call>(
        &self,
        call: C,
        send: Option<Vec<Data>>,
        received: Vec<Data>,
    ) -> Result<C::Output, MpiError> {
        let rank = self.inner.rank;
        // SAFETY: promised by the caller. In place, what is sent is what stands in the output.
        let source = unsafe {
            match send {
                Some(blocks) => Cut::source(blocks)?,
                None => Cut::copy(received.clone())?,
            }
        };
        // SAFETY: as above.
        let target = unsafe { Cut::target(received)? };
        same(target.len(rank), source.len(rank))?;
        let (from, into) = (source.places(), target.places());
        let mut open = call.open(source, target);
        // SAFETY: as above.
        self.alltoallv_spans(unsafe { open.on() }, &from, &into)?;
        open.close(self, None)
    }
}

/// Success when both sides of an exchange of this rank with itself have one length.
#[inline]
fn same(capacity: usize, own: usize) -> Result<(), MpiError> {
    if capacity == own {
        return Ok(());
    }
    Err(MpiError::CountMismatch { expected: capacity as u64, got: own as u64 })
}
