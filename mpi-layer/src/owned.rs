//! Nonblocking operations that own their buffers, for use outside of scopes: kept in structs,
//! queues and across calls. (MPI: Point-to-Point Communication, "Nonblocking Communication".)
//!
//! A buffer comes back from `wait`. When a request is dropped while its operation is under way,
//! the rank keeps the buffer: a send goes on in the background and is finished before the rank
//! leaves; a receive is cancelled, or, when a message has matched it already, its data is thrown
//! away. A forgotten request leaks its buffer and nothing else.

use std::mem::ManuallyDrop;
use std::rc::Rc;

use bowline_ucp::SendMode;

use crate::comm::Communicator;
use crate::datatype::Datatype;
use crate::error::MpiError;
use crate::handles::OwnedItems;
use crate::process::Process;
use crate::request::sealed::Core;
use crate::request::{Request, State};
use crate::status::Status;
use crate::unwinding::without_unwinding;

#[derive(Debug)]
struct Owned<T: Datatype> {
    /// Dropped by hand: only when the operation is complete.
    items: ManuallyDrop<OwnedItems<T>>,
    state: State,
    /// Keeps the context open in which a receive is posted.
    comm: Communicator,
}

/// A send that owns what it sends.
#[derive(Debug)]
#[must_use = "dropped, the send goes on in the background and the buffer is lost"]
pub struct OwnedSend<T: Datatype>(Owned<T>);

/// A receive that owns where it receives to.
#[derive(Debug)]
#[must_use = "dropped, the receive is cancelled"]
pub struct OwnedRecv<T: Datatype>(Owned<T>);

impl Communicator {
    /// Starts to send `items` to rank `dest`. (`MPI_Isend`)
    ///
    /// # Errors
    /// Those of [`send`](Self::send); the vector is dropped then.
    pub fn isend_owned<T: Datatype>(
        &self,
        items: Vec<T>,
        dest: i32,
        tag: i32,
    ) -> Result<OwnedSend<T>, MpiError> {
        let mut request = OwnedSend(Owned::new(self, items));
        // SAFETY: the request gives its items away or drops them only when the operation is
        // complete, and leaves them to the process otherwise; see `take` and `release`.
        let buffer = unsafe { request.0.items.outgoing() };
        let posted = without_unwinding(|| self.post_send(buffer, dest, tag, SendMode::Standard))?;
        request.0.state = State::of(posted, Status::EMPTY);
        Ok(request)
    }

    /// Starts to receive a message into `items`, which may be longer than the message. (`MPI_Irecv`)
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv), except truncation; the vector is dropped then.
    pub fn irecv_owned<T: Datatype>(
        &self,
        items: Vec<T>,
        source: i32,
        tag: i32,
    ) -> Result<OwnedRecv<T>, MpiError> {
        let mut request = OwnedRecv(Owned::new(self, items));
        // SAFETY: as in `isend_owned`.
        let buffer = unsafe { request.0.items.incoming() };
        let posted = without_unwinding(|| self.post_recv(buffer, source, tag))?;
        request.0.state = State::of(posted, Status::NULL);
        Ok(request)
    }
}

impl<T: Datatype> Owned<T> {
    fn new(comm: &Communicator, items: Vec<T>) -> Self {
        Self {
            items: ManuallyDrop::new(OwnedItems::new(items)),
            state: State::Ready(Ok(Status::EMPTY)),
            comm: comm.clone(),
        }
    }

    /// The vector of a completed operation.
    fn take(&mut self) -> Vec<T> {
        assert!(!matches!(self.state, State::Active(_)), "the operation is complete");
        std::mem::replace(&mut *self.items, OwnedItems::new(Vec::new())).into_vec()
    }

    /// Frees the items, or leaves them to the process while they are in use.
    fn release(&mut self) {
        // SAFETY: called by `drop` of the two requests only, once, after which `items` is not
        // used again.
        let items = unsafe { ManuallyDrop::take(&mut self.items) };
        if let State::Active(posted) = self.state {
            if self.process().is_forked() {
                // The operation is the parent's; its thread may have held the worker's lock when the child was made.
                return std::mem::forget(items);
            }
            self.process().adopt(posted.id(), Box::new(items));
        }
    }

    fn process(&self) -> &Rc<Process> {
        &self.comm.inner.process
    }
}

impl<T: Datatype> OwnedSend<T> {
    /// Waits until the send is complete and gives the buffer back. (`MPI_Wait`)
    ///
    /// # Errors
    /// The partner's failure; the buffer is dropped then.
    pub fn wait(mut self) -> Result<Vec<T>, MpiError> {
        self.complete()?;
        Ok(self.0.take())
    }
}

impl<T: Datatype> OwnedSend<T> {
    /// Cancels the send if no receive has matched it yet; [`wait`](Self::wait) returns which. A send
    /// whose data has left the buffer already is complete. Nothing happens in a forked child, whose parent has it. (`MPI_Cancel`)
    ///
    /// A receiver that has found the message by a probe, and not claimed it by
    /// [`mprobe`](crate::Communicator::mprobe), may wait for it in vain then.
    pub fn cancel(&mut self) {
        if let State::Active(posted) = self.0.state
            && !self.0.process().is_forked()
        {
            self.0.process().worker.cancel(posted.id());
        }
    }
}

impl<T: Datatype> OwnedRecv<T> {
    /// Waits for the message and gives the buffer back. (`MPI_Wait`)
    ///
    /// # Errors
    /// [`MpiError::Truncated`], [`MpiError::Cancelled`], the partner's failure; the buffer is
    /// dropped then, unless it was asked for by [`complete`](Request::complete) and
    /// [`into_items`](Self::into_items).
    pub fn wait(mut self) -> Result<(Vec<T>, Status), MpiError> {
        let status = self.complete()?;
        Ok((self.0.take(), status))
    }

    /// Cancels the receive if no message has matched it yet; [`wait`](Self::wait) returns which.
    /// Nothing happens in a forked child, whose parent has it. (`MPI_Cancel`)
    pub fn cancel(&mut self) {
        if let State::Active(posted) = self.0.state
            && !self.0.process().is_forked()
        {
            self.0.process().worker.cancel(posted.id());
        }
    }

    /// The buffer, whatever the outcome; the request itself when it is not complete.
    ///
    /// # Errors
    /// The request, unchanged, while the operation is under way.
    pub fn into_items(mut self) -> Result<Vec<T>, Self> {
        if let State::Active(_) = self.0.state {
            return Err(self);
        }
        Ok(self.0.take())
    }
}

impl<T: Datatype> Drop for OwnedSend<T> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl<T: Datatype> Drop for OwnedRecv<T> {
    fn drop(&mut self) {
        self.cancel();
        self.0.release();
    }
}

macro_rules! requests {
    ($($type:ident),*) => {$(
        #[expect(private_interfaces, reason = "sealed: nobody outside can name or call it")]
        impl<T: Datatype> Core for $type<T> {
            fn process(&self) -> &Process {
                &self.0.comm.inner.process
            }
            fn state(&mut self) -> &mut State {
                &mut self.0.state
            }
            fn state_now(&self) -> State {
                self.0.state
            }
            fn released(&mut self) {}
        }

        impl<T: Datatype> Request for $type<T> {}
    )*};
}

requests!(OwnedSend, OwnedRecv);
