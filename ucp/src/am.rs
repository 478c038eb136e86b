//! User's active messages: a 16-bit id, a small header and data, given to a handler at the target.
//!
//! ```text
//!   am_send ─┬─ short enough ─► AM, AM_FIRST + PIECE ─► handler, data there
//!            └─ longer ───────► AM_RTS ──────────────► handler, data with its sender
//!                                     recv, now or after keep ──► fetched as a tagged message is
//!                                     neither ──────────────────► ACK: the sender has its buffer
//! ```
//! Rules. (1) Handlers run in the order in which messages of a peer arrive, after the lanes have
//! returned, and hold no borrow of the worker: a handler may send, receive, and progress. (2) While
//! one runs its id has no handler, so a message for it that arrives in a nested progress waits until
//! the handler has returned. (3) Data that lies with its sender stays there until it is received or
//! dropped; a message that its handler neither receives nor keeps is dropped when it returns. A
//! kept one must be given to [`Worker::am_recv`] or [`Worker::am_drop`], or its sender waits as long
//! as both live. (4) What a sender may still have here without being asked is bounded by its credit;
//! beyond it data stays with the sender, however short. (5) A sender may take a message back whose data
//! is still with it (`cancel.rs`): its handler is not called any more; one that is in a handler, or
//! kept, cannot be received. (6) A handler that panics has had its message: it is called with the next one
//! as after a return, and messages that were set aside for it stay. Handlers that want nothing of the worker can do without all that:
//! [`crate::in_place`].

use bowline_base::buffer::RecvBuf;

use crate::completion::Completed;
use crate::error::OpError;
use crate::matching::Envelope;
use crate::peer::Ep;
use crate::request::{self, RequestId, Status};
use crate::wire::Rts;
use crate::worker::{Inner, Worker};

/// An active message that waits for its handler to be called.
#[derive(Debug)]
pub(crate) struct AmArrival {
    /// The sender. An endpoint and no index, since the message may be with the user while that
    /// becomes another's.
    pub(crate) from: Ep,
    pub(crate) id: u16,
    /// Bytes of header, the first of `payload`.
    pub(crate) header: u32,
    /// Header, and the data that came with it.
    pub(crate) payload: Vec<u8>,
    /// Where the data is, if it did not.
    pub(crate) remote: Option<Box<Rts>>,
}

impl AmArrival {
    #[inline]
    fn header(&self) -> &[u8] {
        &self.payload[..self.header as usize]
    }

    #[inline]
    fn data(&self) -> Option<&[u8]> {
        match self.remote {
            None => Some(&self.payload[self.header as usize..]),
            Some(_) => None,
        }
    }

    fn len(&self) -> u64 {
        match &self.remote {
            None => self.payload.len() as u64 - u64::from(self.header),
            Some(rts) => rts.length,
        }
    }
}

/// What waits to be given to code of the user once no lane and no borrow is in the way.
#[derive(Debug)]
pub(crate) enum Delivery {
    Am(AmArrival),
    Completed(Box<Completed>),
    /// A peer has failed or closed; behind its messages.
    End(Ep, bowline_uct::PeerFailure),
}

/// An active message as its handler sees it.
#[derive(Debug)]
pub struct AmMessage<'a> {
    /// The sender; a reply goes there, also when this worker never connected to it.
    pub from: Ep,
    worker: &'a Worker,
    arrival: &'a mut AmArrival,
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
pub struct AmKept(AmArrival);

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
enum Place {
    #[default]
    Empty,
    Ready(AmHandler),
    /// Rule 2.
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
    fn put(&mut self, id: u16, place: Place) {
        let index = usize::from(id);
        if index >= self.0.len() {
            self.0.resize_with(index + 1, Place::default);
        }
        self.0[index] = place;
    }

    /// Takes the handler of `id` to run it.
    #[inline]
    fn take(&mut self, id: u16) -> Place {
        match self.0.get_mut(usize::from(id)) {
            Some(place @ Place::Ready(_)) => std::mem::replace(place, Place::Running),
            Some(Place::Running) => Place::Running,
            _ => Place::Empty,
        }
    }

    /// The handler of `id` has run. It may have been replaced or taken away meanwhile.
    #[inline]
    fn give_back(&mut self, id: u16, handler: AmHandler) {
        if let Some(place @ Place::Running) = self.0.get_mut(usize::from(id)) {
            *place = Place::Ready(handler);
        }
    }
}

/// A handler that runs, and its message. What follows from its return follows from its panic too (rule
/// 6): the id has its handler again, and the message is over.
struct Running<'a> {
    worker: &'a Worker,
    handler: Option<AmHandler>,
    arrival: AmArrival,
    /// Of header and data that came along.
    bytes: usize,
}

impl Running<'_> {
    #[inline]
    fn call(&mut self) {
        let Self { worker, handler, arrival, .. } = self;
        let from = arrival.from;
        if let Some(handler) = handler {
            handler(worker, AmMessage { from, worker, arrival });
        }
    }
}

impl Drop for Running<'_> {
    #[inline]
    fn drop(&mut self) {
        let (from, id) = (self.arrival.from, self.arrival.id);
        if let Some(handler) = self.handler.take() {
            self.worker.handlers.borrow_mut().give_back(id, handler);
        }
        let inner = &mut *self.worker.inner.borrow_mut();
        inner.engine.counters.am_received += 1;
        inner.engine.am_taken(from, self.bytes);
        inner.engine.am_buffers.release(std::mem::take(&mut self.arrival.payload));
        if let Some(rts) = self.arrival.remote.take() {
            inner.am_dropped(from, &rts, 0);
        }
    }
}

/// Messages that go back in front of the others, also where a handler panics.
struct SetAside<'a> {
    worker: &'a Worker,
    deliveries: Vec<Delivery>,
}

impl Drop for SetAside<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.deliveries.is_empty() {
            return;
        }
        self.worker.inner.borrow_mut().engine.put_back(&mut self.deliveries);
    }
}

impl Worker {
    /// Has `handler` called with every active message of `id`, in place of the one before.
    /// Messages of ids without handler are dropped and counted as stray; where their data lies with
    /// its sender, that one's operation fails.
    pub fn am_handler(&self, id: u16, handler: AmHandler) {
        self.handlers.borrow_mut().put(id, Place::Ready(handler));
    }

    /// Takes the handler of `id` away, and [the one in place](Self::am_handler_in_place).
    pub fn am_handler_remove(&self, id: u16) {
        self.handlers.borrow_mut().put(id, Place::Empty);
        let in_place = self.inner.borrow_mut().engine.in_place.remove(id);
        // Out of the borrow: what it holds may want the worker as it goes.
        drop(in_place);
    }

    /// Longest header of an active message to `ep`, in bytes.
    ///
    /// # Errors
    /// When the peer has failed or cannot be reached.
    pub fn am_max_header(&self, ep: Ep) -> Result<usize, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let index = inner.engine.index_of(ep)?;
        inner.ready(index)?;
        let lane = inner.engine.peers[index as usize].lane;
        Ok(max_header(inner.lanes[lane as usize].iface.attr().limits.am.max_bcopy))
    }

    /// Receives a kept message into `buffer`. Its sender has its own buffer back when the request
    /// is complete.
    ///
    /// # Errors
    /// When its data is not here and the sender has failed, or has taken it back.
    pub fn am_recv(&self, message: AmKept, buffer: RecvBuf) -> Result<RequestId, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let AmKept(AmArrival { from, header, payload, remote, .. }) = message;
        let none = Envelope { space: 0, source: 0, tag: 0 };
        let peer = inner.engine.place_of(from);
        if let Some(rts) = &remote {
            inner.engine.index_of(from)?;
            if let Some(how) = inner.engine.peers[peer as usize].failure() {
                return Err(how.into());
            }
            if !inner.engine.am_waiting.remove(&(peer, rts.request)) {
                return Err(OpError::TakenBack);
            }
        }
        let (key, _) = request::begin_receive(&mut inner.engine.requests, buffer, none.space);
        match remote {
            Some(rts) => {
                inner.engine.begin_fetch(key, peer, &none, *rts);
                inner.act();
            }
            None => {
                let data = &payload[header as usize..];
                inner.engine.receive_here(key, data);
                inner.engine.am_buffers.release(payload);
            }
        }
        Ok(RequestId(key))
    }

    /// Drops a kept message. A sender that waits for it is done, as if it had been received.
    pub fn am_drop(&self, message: AmKept) {
        let inner = &mut *self.inner.borrow_mut();
        let AmKept(AmArrival { from, remote, .. }) = message;
        if let Some(rts) = remote {
            inner.am_dropped(from, &rts, 0);
        }
    }

    /// Gives what has arrived to handlers, and what has completed to callbacks.
    #[inline(never)]
    pub(crate) fn deliver(&self) {
        // Messages of an id whose handler is running (this is a nested progress) go back.
        let mut waiting = SetAside { worker: self, deliveries: Vec::new() };
        let mut inner = self.inner.borrow_mut();
        while let Some(next) = inner.engine.inbox.pop_front() {
            let arrival = match next {
                Delivery::Am(arrival) => arrival,
                Delivery::Completed(completed) => {
                    drop(inner);
                    completed.call(self);
                    inner = self.inner.borrow_mut();
                    continue;
                }
                Delivery::End(ep, how) => {
                    drop(inner);
                    self.tell_end(ep, how);
                    inner = self.inner.borrow_mut();
                    continue;
                }
            };
            if let Some(rts) = &arrival.remote
                && let Ok(peer) = inner.engine.index_of(arrival.from)
                && !inner.engine.am_waiting.contains(&(peer, rts.request))
                && inner.engine.peers[peer as usize].failure().is_none()
            {
                // Rule 5.
                inner.engine.am_taken(arrival.from, arrival.payload.len());
                continue;
            }
            let place = self.handlers.borrow_mut().take(arrival.id);
            let handler = match place {
                Place::Ready(handler) => handler,
                Place::Running => {
                    inner.engine.set_aside += 1;
                    waiting.deliveries.push(Delivery::Am(arrival));
                    continue;
                }
                Place::Empty => {
                    inner.nobody_takes(&arrival);
                    continue;
                }
            };
            drop(inner);
            let bytes = arrival.payload.len();
            let mut running = Running { worker: self, handler: Some(handler), arrival, bytes };
            running.call();
            drop(running);
            inner = self.inner.borrow_mut();
        }
        // To drain nothing is not free.
        if !waiting.deliveries.is_empty() {
            inner.engine.put_back(&mut waiting.deliveries);
        }
        if !inner.engine.actions.is_empty() {
            inner.act();
        }
    }
}

/// Longest header where one message of the transport holds `max_bcopy` bytes: it goes in front of
/// the data or beside a request to send, whichever is longer.
pub(crate) const fn max_header(max_bcopy: usize) -> usize {
    max_bcopy.saturating_sub(Rts::FIXED + crate::wire::MAX_RKEY)
}

impl Inner {
    /// A message whose id has no handler.
    #[cold]
    fn nobody_takes(&mut self, arrival: &AmArrival) {
        self.engine.counters.stray += 1;
        self.engine.am_taken(arrival.from, arrival.payload.len());
        if let Some(rts) = &arrival.remote {
            self.am_dropped(arrival.from, rts, crate::wire::NO_HANDLER);
        }
    }

    /// Tells the sender of a message that nobody will receive it, unless it has taken it back.
    fn am_dropped(&mut self, from: Ep, rts: &Rts, outcome: u64) {
        let peer = self.engine.place_of(from);
        if self.engine.am_waiting.remove(&(peer, rts.request)) {
            self.control(peer, crate::wire::ACK, [rts.request, outcome], &[]);
        }
    }
}

impl crate::engine::Engine {
    /// Messages that were set aside are in the inbox again, in front.
    fn put_back(&mut self, deliveries: &mut Vec<Delivery>) {
        self.set_aside -= deliveries.len();
        for delivery in deliveries.drain(..).rev() {
            self.inbox.push_front(delivery);
        }
    }

    /// Completes a receive with a message that is here.
    fn receive_here(&mut self, key: bowline_base::slab::Key, data: &[u8]) {
        if let Some(request) = self.requests.get_mut(key) {
            request.status = Status { length: data.len() as u64, ..Status::NONE };
            if let request::Body::Receive(receive) = &mut request.body {
                receive.buffer.write_at(0, data);
            }
        }
        self.complete_receive(key);
    }
}
