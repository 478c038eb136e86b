//! The core without types: messages of memory that somebody else answers for.
//!
//! It is for skins of the layer, such as the C library: unstable, and unsafe wherever addresses come
//! from outside. Programs use the typed methods of [`Communicator`].

use bowline_base::buffer::{RecvBuf, SendBuf};

use crate::comm::Communicator;
use crate::error::MpiError;
use crate::handles;
use crate::status::Status;

mod memory;

pub use bowline_ucp::SendMode;
pub use memory::Memory;

pub use crate::coll::engine::Operands;
pub use crate::coll::raw::{Data, reduce_local};
pub use crate::coll::spans::Reduction;
pub use crate::op::untyped::{Kernel, LaidOut, Predefined, UserFunction};

impl Communicator {
    /// Sends what a handle stands for; returns when it may be written again.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    #[inline]
    pub fn send_buffer(
        &self,
        buffer: SendBuf,
        dest: i32,
        tag: i32,
        mode: SendMode,
    ) -> Result<(), MpiError> {
        let Some((ep, envelope)) = self.destination(dest, tag)? else { return Ok(()) };
        let worker = &self.inner.process.worker;
        handles::send_buffer(worker, ep, envelope, buffer, mode).map_err(MpiError::from)
    }

    /// Receives into what a handle stands for.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    #[inline]
    pub fn recv_buffer(&self, buffer: RecvBuf, source: i32, tag: i32) -> Result<Status, MpiError> {
        let Some(spec) = self.wanted(source, tag)? else { return Ok(Status::NULL) };
        let message = handles::receive_buffer(&self.inner.process.worker, spec, buffer)?;
        Ok(Status::of_message(&message))
    }
}
