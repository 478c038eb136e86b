//! The core without types: messages of memory that somebody else answers for.
//!
//! It is for skins of the layer, such as the C library: unstable, and unsafe wherever addresses come
//! from outside. Programs use the typed methods of [`Communicator`].

use bowline_base::buffer::{RecvBuf, SendBuf};

use crate::comm::Communicator;
use crate::error::MpiError;
use crate::handles;
use crate::status::Status;

mod buffered;
mod memory;
mod request;

use bowline_ucp::{OpError, Sent};

pub use bowline_ucp::{OpStatus as MessageEnd, SendMode};
pub use buffered::Pool;
pub use memory::Memory;
pub use request::{
    Completion, General, Mode, PostedMessage, RawRequest, RequestSearch, Standing, StartError,
    Started, Uncancellable, search,
};

use crate::probe::ClaimedMessage;

pub use crate::coll::raw::{Again, Call, Data, Later, Now, reduce_local};
pub use crate::coll::run::Run;
pub use crate::op::operands::Operands;
pub use crate::op::reduce_op::ReduceOp;
pub use bowline_model::coll::price::OpClass;

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
        handles::send_buffer(&self.inner.process, ep, envelope, buffer, mode)
            .map_err(MpiError::from)
    }

    /// The short path of [`send_buffer`](Self::send_buffer) and [`post_send`](Self::post_send) alone, for who
    /// keeps the rest of them elsewhere. Whether the message is on its way; else nothing has happened, and an
    /// argument may be wrong.
    #[inline(always)]
    pub fn send_at_once(&self, buffer: &SendBuf, dest: i32, tag: i32) -> bool {
        let inner = &*self.inner;
        // A negative rank is a large unsigned one.
        if tag < 0 || dest as u32 >= inner.size {
            return false;
        }
        let Some(ep) = inner.known_endpoint(dest as u32) else { return false };
        inner.process.worker.send_at_once(ep, &inner.envelope(tag), buffer)
    }

    /// Receives into what a handle stands for.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    #[inline]
    pub fn recv_buffer(
        &self,
        buffer: RecvBuf,
        source: i32,
        tag: i32,
    ) -> Result<Status, Box<Completion>> {
        let Some(spec) = self.wanted(source, tag)? else { return Ok(Status::NULL) };
        let message = handles::receive_buffer(&self.inner.process, spec, buffer)?;
        Ok(Status::of_message(&message))
    }

    /// [`recv_buffer`](Self::recv_buffer) as a part of its caller. None where there is nobody to receive from, or
    /// an argument is wrong: nothing has happened then.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    #[inline(always)]
    pub fn recv_in_place(
        &self,
        buffer: RecvBuf,
        source: i32,
        tag: i32,
    ) -> Option<Result<Status, Box<Completion>>> {
        let inner = &*self.inner;
        let spec = inner.accepted(source, tag)?;
        Some(match inner.process.recv_blocking(spec, buffer) {
            Ok(message) => Ok(Status::of_message(&message)),
            Err(error) => Err(error.into()),
        })
    }

    /// Sends and receives at once.
    ///
    /// # Errors
    /// As for [`sendrecv`](Self::sendrecv).
    pub fn exchange_buffers(
        &self,
        (out, dest, send_tag): (SendBuf, i32, i32),
        (into, source, recv_tag): (RecvBuf, i32, i32),
    ) -> Result<Status, Box<Completion>> {
        let send = self.destination(dest, send_tag)?;
        let receive = self.wanted(source, recv_tag)?;
        Ok(self.exchange(send, out, receive, into)?)
    }

    /// Starts to send. The memory that the handle stands for stays until the message has ended, and the
    /// communicator as well; none means that it has.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    #[inline]
    pub fn post_send(
        &self,
        buffer: SendBuf,
        dest: i32,
        tag: i32,
        mode: SendMode,
    ) -> Result<Option<PostedMessage>, MpiError> {
        let Some((ep, envelope)) = self.destination(dest, tag)? else { return Ok(None) };
        Ok(match self.inner.process.send(ep, envelope, buffer, mode)? {
            Sent::Done => None,
            Sent::Pending(id) => {
                self.inner.process.worker.watch_send(id);
                Some(PostedMessage::new(id, false))
            }
        })
    }

    /// Starts to receive. The memory that the handle stands for stays until the message has ended, and the
    /// communicator as well; none means that nobody sends.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv), except truncation.
    #[inline]
    pub fn post_recv(
        &self,
        buffer: RecvBuf,
        source: i32,
        tag: i32,
    ) -> Result<Option<PostedMessage>, MpiError> {
        let Some(spec) = self.wanted(source, tag)? else { return Ok(None) };
        let id = self.inner.process.worker.recv(spec, buffer)?;
        self.inner.process.posted(id, &spec);
        Ok(Some(PostedMessage::new(id, true)))
    }

    /// [`post_recv`](Self::post_recv) as a part of its caller. None where there is nobody to receive from, or an
    /// argument is wrong: nothing has happened then.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv), except truncation.
    #[inline(always)]
    pub fn post_recv_in_place(
        &self,
        buffer: RecvBuf,
        source: i32,
        tag: i32,
    ) -> Option<Result<PostedMessage, Box<MpiError>>> {
        let inner = &*self.inner;
        let spec = inner.accepted(source, tag)?;
        Some(match inner.process.worker.recv_in_place(spec, buffer) {
            Ok(id) => {
                inner.process.posted(id, &spec);
                Ok(PostedMessage::new(id, true))
            }
            Err(error) => Err(failed(error)),
        })
    }

    /// [`post_send`](Self::post_send) as a request, which keeps the communicator.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn start_send(
        &self,
        buffer: SendBuf,
        dest: i32,
        tag: i32,
        mode: SendMode,
    ) -> Result<Started, MpiError> {
        let posted = self.post_send(buffer, dest, tag, mode)?;
        Ok(self.started(posted, Completion::EMPTY))
    }

    /// [`post_recv`](Self::post_recv) as a request, which keeps the communicator.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv), except truncation.
    pub fn start_recv(&self, buffer: RecvBuf, source: i32, tag: i32) -> Result<Started, MpiError> {
        let posted = self.post_recv(buffer, source, tag)?;
        Ok(self.started(posted, Completion::NULL))
    }

    /// Starts to send and to receive, as one request.
    ///
    /// # Errors
    /// As for [`sendrecv`](Self::sendrecv), except truncation.
    pub fn start_exchange(
        &self,
        (out, dest, send_tag): (SendBuf, i32, i32),
        (into, source, recv_tag): (RecvBuf, i32, i32),
    ) -> Result<Started, MpiError> {
        self.wanted(source, recv_tag)?;
        let send = self.start_send(out, dest, send_tag, SendMode::Standard)?;
        Ok(self.joint(send, self.start_recv(into, source, recv_tag)))
    }

    /// Waits until `done`, which is asked after everything that happens.
    pub fn wait_until(&self, done: impl FnMut() -> bool) {
        self.inner.process.wait_until(done);
    }

    /// Moves operations on for a caller that comes again and again; after some polls that find nothing each gives the
    /// processor to another thread.
    pub fn poll(&self) {
        self.inner.process.progress_or_yield();
    }
}

/// An error as one word, so that a call without one is cheap.
#[cold]
#[inline(never)]
fn failed(error: OpError) -> Box<MpiError> {
    Box::new(error.into())
}

impl ClaimedMessage {
    /// Receives the message into what a handle stands for.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    pub fn recv_buffer(mut self, buffer: RecvBuf) -> Result<Status, Box<Completion>> {
        let Some(message) = self.message.take() else { return Ok(Status::NULL) };
        let info =
            handles::receive_claimed_buffer(&self.comm.inner.process, message, buffer, |id| {
                self.comm.inner.claimed(id)
            })?;
        Ok(Status::of_message(&info))
    }

    /// Starts to receive the message. The memory that the handle stands for stays until the request has
    /// ended.
    ///
    /// # Errors
    /// When the message's sender has failed.
    pub fn start_recv(mut self, buffer: RecvBuf) -> Result<Started, MpiError> {
        let Some(message) = self.message.take() else {
            return Ok(Started::Done(Completion::NULL));
        };
        let worker = &self.comm.inner.process.worker;
        let id = worker.recv_claimed(message, buffer)?;
        worker.watch_claimed(id);
        self.comm.inner.claimed(id);
        Ok(self.comm.started(Some(PostedMessage::new(id, true)), Completion::NULL))
    }

    /// Whether it is the message of nobody.
    pub const fn is_null(&self) -> bool {
        self.message.is_none()
    }
}
