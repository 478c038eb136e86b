//! Completion callbacks: code of the user that runs when a request is complete.
//!
//! ```text
//!   on_complete(id, f) ─► the request is detached, f kept beside it
//!   whatever completes it ─► end of a detached request ─► f and the status go to the inbox
//!   next progress, lanes returned, no borrow held ─► f(worker, completion)
//! ```
//! Rules: (1) the request is freed by its completion, and its id is stale from then on; before, it
//! can be cancelled and asked about. (2) A callback runs inside of a progress or a wait of its
//! worker, never inside of the call that posted or cancelled. (3) It may call whatever a handler of
//! active messages may: see [`crate::Worker::am_handler`]. (4) Callbacks run in the order of the
//! completions, among the handlers of messages that came between them.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::slab::Key;

use crate::engine::Engine;
use crate::error::OpError;
use crate::request::{Body, OneSided, RequestId};
use crate::state::inbox::{Completed, Delivery, RequestCompletion};
use crate::status::OpStatus;
use crate::worker::{CompletionHandler, Worker};

/// The handle that an operation held.
#[derive(Debug)]
pub enum Handle {
    /// Of a send, or a put.
    Send(SendBuf),
    /// Of a receive, or a get.
    Receive(RecvBuf),
}

/// The handle of a request.
fn handle(body: Body) -> Option<Handle> {
    match body {
        Body::Receive(receive) => Some(Handle::Receive(receive.buffer)),
        Body::Send(send) => Some(Handle::Send(send.buffer)),
        Body::Stream(receive) => Some(Handle::Receive(receive.buffer)),
        Body::OneSided(one) => {
            let OneSided { send, receive, .. } = *one;
            send.map(Handle::Send).or_else(|| receive.map(Handle::Receive))
        }
        Body::Expecting(_) | Body::Free => None,
    }
}

/// The bytes that a request's buffer owned.
pub(crate) fn owned_bytes(body: Body) -> Option<Vec<u8>> {
    match handle(body)? {
        Handle::Send(buffer) => buffer.into_owned(),
        Handle::Receive(buffer) => buffer.into_owned(),
    }
}

impl Worker {
    /// The status of a completed request with the handle that it was given: for pieces and callbacks,
    /// which [`Worker::take_with_buffer`] cannot hand back.
    pub fn take_with_handle(&self, id: RequestId) -> Option<(OpStatus, Option<Handle>)> {
        let inner = &mut *self.inner.borrow_mut();
        let request = inner.engine.requests.get_mut(id.0).filter(|request| request.done)?;
        let (status, body) = (request.status, std::mem::take(&mut request.body));
        inner.engine.requests.release(id.0);
        Some((status, handle(body)))
    }

    /// Has `handler` called when the request is complete, also when it is already. The request is
    /// freed by that.
    ///
    /// # Errors
    /// When there is no such request, or one that was detached before; nothing is called then.
    pub fn on_complete(&self, id: RequestId, handler: CompletionHandler) -> Result<(), OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let engine = &mut inner.engine;
        let Some(request) = engine.requests.get_mut(id.0).filter(|request| !request.detached)
        else {
            return Err(OpError::BadRequest);
        };
        request.detached = true;
        let done = request.done;
        let place = id.0.index() as usize;
        if place >= engine.callbacks.len() {
            engine.callbacks.resize_with(place + 1, || None);
        }
        let callbacks = &mut *self.callbacks.borrow_mut();
        let callback = callbacks.insert(handler);
        // One whose request ended without it is called no more.
        if let Some((_, before)) = engine.callbacks[place].replace((id.0, callback)) {
            callbacks.remove(before);
        }
        if done {
            engine.end_detached(id.0);
        }
        Ok(())
    }
}

impl Engine {
    /// A detached request is complete: it is freed, and its callback noted if it has one.
    #[cold]
    pub(crate) fn end_detached(&mut self, key: Key) {
        let callback = self.callbacks.get_mut(key.index() as usize);
        let callback = callback.and_then(|place| place.take_if(|(waits, _)| *waits == key));
        if let (Some((_, callback)), Some(request)) = (callback, self.requests.get_mut(key)) {
            let (status, body) = (request.status, std::mem::take(&mut request.body));
            let completion = RequestCompletion { status, buffer: owned_bytes(body) };
            let completed = Box::new(Completed { callback, completion });
            self.inbox.push_back(Delivery::Completed(completed));
        }
        crate::request::end(&mut self.requests, key);
    }
}
