//! Code of the user that a worker calls: handlers of active messages, callbacks of requests, and handlers of
//! the end of an endpoint. Each is given the worker, and may call it.

use std::collections::HashMap;

use bowline_base::buffer::RecvBuf;
use bowline_uct::PeerFailure;

use super::Worker;
use crate::error::OpError;
use crate::peer::Ep;
use crate::request::RequestId;
use crate::state::inbox::{AmArrival, RequestCompletion};

/// An active message as its handler sees it.
#[derive(Debug)]
pub struct AmMessage<'a> {
    /// The sender; a reply goes there, also when this worker never connected to it.
    pub from: Ep,
    pub(super) worker: &'a Worker,
    pub(super) arrival: &'a mut AmArrival,
}

impl AmMessage<'_> {
    /// The header.
    #[inline]
    pub fn header(&self) -> &[u8] {
        self.arrival.header()
    }

    /// Bytes of data.
    pub fn len(&self) -> u64 {
        self.arrival.len()
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The data; `None` while it lies with its sender, until it is received.
    #[inline]
    pub fn data(&self) -> Option<&[u8]> {
        self.arrival.data()
    }

    /// Receives the data into `buffer`: what lies with its sender is fetched, what is here copied.
    ///
    /// # Errors
    /// When its data is not here and the sender has failed, or has taken it back.
    pub fn recv(self, buffer: RecvBuf) -> Result<RequestId, OpError> {
        let Self { worker, .. } = self;
        worker.am_recv(self.keep(), buffer)
    }

    /// The message beyond the handler's return. Data that is here moves and is not copied; data
    /// that lies with its sender goes on lying there.
    pub fn keep(self) -> AmKept {
        let AmArrival { from, id, header, .. } = *self.arrival;
        // Credit for what is kept is given back when the handler returns: the memory is the user's.
        let payload = std::mem::take(&mut self.arrival.payload);
        self.arrival.header = 0;
        let remote = self.arrival.remote.take();
        AmKept(AmArrival { from, id, header, payload, remote })
    }
}

/// An active message that outlives its handler. It must be received or dropped by the worker that
/// it came to; where its data lies with its sender, that one waits until then.
#[derive(Debug)]
#[must_use = "its sender may wait for it to be received or dropped"]
pub struct AmKept(pub(crate) AmArrival);

impl AmKept {
    /// The sender.
    pub fn from(&self) -> Ep {
        self.0.from
    }

    /// The header.
    pub fn header(&self) -> &[u8] {
        self.0.header()
    }

    /// Bytes of data.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The data; `None` while it lies with its sender, until it is received.
    pub fn data(&self) -> Option<&[u8]> {
        self.0.data()
    }
}

/// What is called with the active messages of an id.
pub type AmHandler = Box<dyn FnMut(&Worker, AmMessage<'_>) + Send>;

/// The handler of an id.
#[derive(Default)]
pub(crate) enum Place {
    #[default]
    Empty,
    Ready(AmHandler),
    /// Rule 2 of [`crate::am`].
    Running,
}

/// Handlers by id; the table is as long as the largest id that ever had one.
#[derive(Default)]
pub(crate) struct Handlers(Vec<Place>);

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = self.0.iter().enumerate().filter(|(_, place)| !matches!(place, Place::Empty));
        f.debug_list().entries(known.map(|(id, _)| id)).finish()
    }
}

impl Handlers {
    pub(crate) fn put(&mut self, id: u16, place: Place) {
        let index = usize::from(id);
        if index >= self.0.len() {
            self.0.resize_with(index + 1, Place::default);
        }
        self.0[index] = place;
    }

    /// Takes the handler of `id` to run it.
    #[inline]
    pub(super) fn take(&mut self, id: u16) -> Place {
        match self.0.get_mut(usize::from(id)) {
            Some(place @ Place::Ready(_)) => std::mem::replace(place, Place::Running),
            Some(Place::Running) => Place::Running,
            _ => Place::Empty,
        }
    }

    /// The handler of `id` has run. It may have been replaced or taken away meanwhile.
    #[inline]
    pub(super) fn give_back(&mut self, id: u16, handler: AmHandler) {
        if let Some(place @ Place::Running) = self.0.get_mut(usize::from(id)) {
            *place = Place::Ready(handler);
        }
    }
}

/// What is called when a request is complete.
pub type CompletionHandler = Box<dyn FnOnce(&Worker, RequestCompletion) + Send>;

/// Called when the peer of an endpoint has failed or closed.
pub type ErrorHandler = Box<dyn FnOnce(&Worker, Ep, PeerFailure) + Send>;

/// Error handlers by endpoint: only of those that are open, or of whose end they are still to hear.
#[derive(Default)]
pub(crate) struct Watchers(pub(crate) HashMap<Ep, ErrorHandler>);

impl std::fmt::Debug for Watchers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watchers").field(&self.0.keys()).finish()
    }
}

impl Watchers {
    pub(crate) fn remove(&mut self, ep: Ep) {
        self.0.remove(&ep);
    }
}
