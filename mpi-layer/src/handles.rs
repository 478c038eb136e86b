//! From slices to the handles that the protocol layer holds: blocking operations and owned
//! buffers.
//!
//! A handle of borrowed memory promises that the memory stays until the operation is complete.
//! Here the promise is kept in two ways: a blocking call does not return (nor unwind) before the
//! completion, and an owned buffer is freed only after it. The two other files with handles are
//! [`scope`](crate::scope), whose exit waits, and [`steps::memory`](crate::steps::memory).

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_ucp::{
    Envelope, Ep, MatchSpec, MatchedMessage, MessageInfo, OpError, OpStatus, ReceiveError,
    RequestId, SendMode, Sent,
};

use crate::datatype::{Datatype, bytes_of_mut};
use crate::process::Process;
use crate::unwinding::without_unwinding;

/// Waits for an operation, without unwinding.
#[inline]
pub(crate) fn complete(process: &Process, id: RequestId) -> OpStatus {
    without_unwinding(|| process.wait(id))
}

/// Sends `bytes` and returns when they may be written again.
#[inline]
pub(crate) fn send(
    process: &Process,
    ep: Ep,
    envelope: Envelope,
    bytes: &[u8],
    mode: SendMode,
) -> Result<(), OpError> {
    // SAFETY: `bytes` is borrowed until `send_buffer` ends, which it does not before the operation is
    // complete.
    let buffer = unsafe { SendBuf::borrowed(bytes.as_ptr(), bytes.len()) };
    send_buffer(process, ep, envelope, buffer, mode)
}

/// Sends what a handle stands for. It neither returns nor unwinds before the operation is complete:
/// `Done` says so, and `Pending` is waited for.
#[inline]
pub(crate) fn send_buffer(
    process: &Process,
    ep: Ep,
    envelope: Envelope,
    buffer: SendBuf,
    mode: SendMode,
) -> Result<(), OpError> {
    without_unwinding(|| match process.send(ep, envelope, buffer, mode) {
        Ok(Sent::Done) => Ok(()),
        Ok(Sent::Pending(id)) => wait_outcome(process, id),
        Err(error) => Err(error),
    })
}

#[cold]
fn wait_outcome(process: &Process, id: RequestId) -> Result<(), OpError> {
    complete(process, id).outcome
}

/// Receives into `bytes` and returns when the message is there.
#[inline]
pub(crate) fn receive(
    process: &Process,
    spec: MatchSpec,
    bytes: &mut [u8],
) -> Result<MessageInfo, ReceiveError> {
    // SAFETY: `bytes` is borrowed exclusively until `receive_buffer` ends, which it does not before
    // the operation is complete.
    let buffer = unsafe { RecvBuf::borrowed(bytes.as_mut_ptr(), bytes.len()) };
    receive_buffer(process, spec, buffer)
}

/// Receives into what a handle stands for. It neither returns nor unwinds before the operation is
/// complete; an error of the worker's means that nothing was posted.
#[inline]
pub(crate) fn receive_buffer(
    process: &Process,
    spec: MatchSpec,
    buffer: RecvBuf,
) -> Result<MessageInfo, ReceiveError> {
    without_unwinding(|| process.recv_blocking(spec, buffer))
}

/// Receives a claimed message into `bytes`; `posted` is called with the receive.
pub(crate) fn receive_claimed(
    process: &Process,
    message: MatchedMessage,
    bytes: &mut [u8],
    posted: impl FnOnce(RequestId),
) -> Result<MessageInfo, ReceiveError> {
    // SAFETY: as in `receive`.
    let buffer = unsafe { RecvBuf::borrowed(bytes.as_mut_ptr(), bytes.len()) };
    receive_claimed_buffer(process, message, buffer, posted)
}

/// Receives a claimed message into what a handle stands for. It neither returns nor unwinds before the
/// message is there.
pub(crate) fn receive_claimed_buffer(
    process: &Process,
    message: MatchedMessage,
    buffer: RecvBuf,
    posted: impl FnOnce(RequestId),
) -> Result<MessageInfo, ReceiveError> {
    without_unwinding(|| {
        let id = process.worker.recv_claimed(message, buffer)?;
        posted(id);
        process.wait(id).message()
    })
}

/// Sends and receives at once; neither returns nor unwinds before both are complete.
#[inline]
pub(crate) fn exchange(
    process: &Process,
    (ep, envelope, out): (Ep, Envelope, SendBuf),
    (spec, into): (MatchSpec, RecvBuf),
) -> Result<MessageInfo, ReceiveError> {
    // The send is first: the peer waits for it, and what it fails with leaves nothing to take back.
    without_unwinding(|| {
        let sent = process.send(ep, envelope, out, SendMode::Standard)?;
        let received = receive_buffer(process, spec, into);
        let outcome = match sent {
            Sent::Done => Ok(()),
            Sent::Pending(id) => wait_outcome(process, id),
        };
        outcome.map_err(ReceiveError::from).and(received)
    })
}

/// A vector taken apart, so that no reference to its elements exists while an operation uses
/// them. Its memory does not move when it does.
#[derive(Debug)]
pub(crate) struct OwnedItems<T: Datatype> {
    start: *mut T,
    len: usize,
    capacity: usize,
    owns: PhantomData<T>,
}

impl<T: Datatype> OwnedItems<T> {
    pub(crate) fn new(items: Vec<T>) -> Self {
        let mut items = ManuallyDrop::new(items);
        let (start, len, capacity) = (items.as_mut_ptr(), items.len(), items.capacity());
        Self { start, len, capacity, owns: PhantomData }
    }

    pub(crate) fn into_vec(self) -> Vec<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the three came out of a vector in `new`, and `this` is forgotten here, so that
        // the memory has one owner again.
        unsafe { Vec::from_raw_parts(this.start, this.len, this.capacity) }
    }

    /// Address and number of the items. The address is good as long as `self` is neither dropped nor turned into
    /// a vector, whatever slices of the items are made meanwhile.
    pub(crate) fn memory(&self) -> (*mut T, usize) {
        (self.start, self.len)
    }

    /// The items.
    ///
    /// # Safety
    /// No operation writes them as long as the slice is there.
    pub(crate) unsafe fn items(&self) -> &[T] {
        // SAFETY: `start` and `len` are those of a vector that nobody else owns; nobody writes, by the promise of
        // the caller.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// The items, to be written.
    ///
    /// # Safety
    /// No operation uses them as long as the slice is there.
    pub(crate) unsafe fn items_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `items`; nobody else uses them, by the promise of the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// A handle for sending the items.
    ///
    /// # Safety
    /// `self` must not be dropped or turned into a vector before an operation with the handle has reported its
    /// completion. Forgetting it is allowed.
    pub(crate) unsafe fn outgoing(&mut self) -> SendBuf {
        let bytes = self.bytes_mut();
        // SAFETY: the memory stays as long as `self` is not dropped, by the promise of the
        // caller, and nothing but `into_vec` and `drop` gives access to it.
        unsafe { SendBuf::borrowed(bytes.as_ptr(), bytes.len()) }
    }

    /// A handle for receiving into the items.
    ///
    /// # Safety
    /// As for [`outgoing`](Self::outgoing).
    pub(crate) unsafe fn incoming(&mut self) -> RecvBuf {
        let bytes = self.bytes_mut();
        // SAFETY: as in `outgoing`.
        unsafe { RecvBuf::borrowed(bytes.as_mut_ptr(), bytes.len()) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `start` and `len` are those of a vector that nobody else owns.
        bytes_of_mut(unsafe { std::slice::from_raw_parts_mut(self.start, self.len) })
    }
}

impl<T: Datatype> Drop for OwnedItems<T> {
    fn drop(&mut self) {
        // SAFETY: as in `into_vec`; after `drop` nobody uses the fields.
        drop(unsafe { Vec::from_raw_parts(self.start, self.len, self.capacity) });
    }
}
