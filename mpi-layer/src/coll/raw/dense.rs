//! Blocking collectives on elements that lie side by side, which need no layout: memory at addresses, and lengths in bytes.
//!
//! They do what those of [`raw`](crate::raw) do on such elements, in fewer instructions. What a caller promises is the same.

use super::ReduceOp;
use crate::coll::arena::Buffers;
use crate::comm::Communicator;
use crate::error::MpiError;
use crate::op::operands::Operands;
use bowline_model::coll::plan::Span;

impl Communicator {
    /// Brings `len` bytes of `root` to all ranks.
    ///
    /// # Safety
    /// As [`raw`](crate::raw) says.
    ///
    /// # Errors
    /// As for [`bcast_data`](Self::bcast_data).
    #[inline]
    pub unsafe fn bcast_dense(&self, data: *mut u8, len: usize, root: i32) -> Result<(), MpiError> {
        let root = self.root(root)?;
        // SAFETY: promised by the caller. The root's is only read.
        let buffers = unsafe { Buffers::at((std::ptr::null(), 0), (data, len)) };
        self.bcast_spans(buffers, Span::output(len), root)
    }

    /// Combines the vectors of all ranks, of `len` bytes; the result goes to `received` at `root`, which counts nowhere else.
    ///
    /// # Safety
    /// As [`raw`](crate::raw) says.
    ///
    /// # Errors
    /// As for [`bcast_data`](Self::bcast_data).
    #[inline]
    pub unsafe fn reduce_dense(
        &self,
        send: *const u8,
        received: *mut u8,
        len: usize,
        op: &ReduceOp,
        root: i32,
    ) -> Result<(), MpiError> {
        let root = self.root(root)?;
        let combine = |operands: Operands<'_>| op.call(&operands);
        let space = if self.is_here(root) { len } else { 0 };
        // SAFETY: promised by the caller.
        let buffers = unsafe { Buffers::at((send, len), (received, space)) };
        self.reduce_spans(buffers, Span::input(len), op.reduction(&combine), root)
    }

    /// Combines the vectors of all ranks, of `len` bytes; all get the result.
    ///
    /// # Safety
    /// As [`raw`](crate::raw) says.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    #[inline]
    pub unsafe fn allreduce_dense(
        &self,
        send: *const u8,
        received: *mut u8,
        len: usize,
        op: &ReduceOp,
    ) -> Result<(), MpiError> {
        let combine = |operands: Operands<'_>| op.call(&operands);
        // SAFETY: promised by the caller.
        let buffers = unsafe { Buffers::at((send, len), (received, len)) };
        self.allreduce_spans(buffers, Span::input(len), op.reduction(&combine))
    }

    /// Collects blocks of `len` bytes at all ranks; `received` is the first of them.
    ///
    /// # Safety
    /// As [`raw`](crate::raw) says; all blocks together can be counted.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    #[inline]
    pub unsafe fn allgather_dense(
        &self,
        send: *const u8,
        received: *mut u8,
        len: usize,
    ) -> Result<(), MpiError> {
        // SAFETY: promised by the caller.
        let buffers =
            unsafe { Buffers::at((send, len), (received, len * self.inner.size as usize)) };
        self.allgather_spans(buffers, Span::input(len))
    }

    /// Exchanges blocks of `len` bytes between all ranks; `send` and `received` are the first ones.
    ///
    /// # Safety
    /// As [`raw`](crate::raw) says; all blocks together can be counted.
    ///
    /// # Errors
    /// As for [`allgather_data`](Self::allgather_data).
    #[inline]
    pub unsafe fn alltoall_dense(
        &self,
        send: *const u8,
        received: *mut u8,
        len: usize,
    ) -> Result<(), MpiError> {
        let total = len * self.inner.size as usize;
        // SAFETY: promised by the caller.
        let buffers = unsafe { Buffers::at((send, total), (received, total)) };
        self.alltoall_spans(buffers, len)
    }
}
