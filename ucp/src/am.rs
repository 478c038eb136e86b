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

use crate::engine::Inner;
use crate::error::OpError;
use crate::matching::Envelope;
use crate::peer::Ep;
use crate::request::{self, RequestId};
use crate::select::MessageKind;
use crate::state::inbox::{AmArrival, Delivery};
use crate::status::OpStatus;
use crate::wire::{self, Rts};
use crate::worker::{AmHandler, AmKept, Place, Worker};

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
        Ok(wire::max_am_header(inner.lanes[lane as usize].iface.attr().limits.am.max_bcopy))
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
        let peer = inner.engine.slot_of(from);
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
                inner.engine.begin_fetch(key, peer, &none, *rts, Some(MessageKind::Active));
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
}

impl Inner {
    /// A message whose id has no handler.
    #[cold]
    pub(crate) fn nobody_takes(&mut self, arrival: &AmArrival) {
        self.engine.counters.stray += 1;
        self.engine.am_taken(arrival.from, arrival.payload.len());
        if let Some(rts) = &arrival.remote {
            self.am_dropped(arrival.from, rts, wire::NO_HANDLER);
        }
    }

    /// Reports to the sender of a message that nobody will receive it, unless it has taken it back.
    pub(crate) fn am_dropped(&mut self, from: Ep, rts: &Rts, outcome: u64) {
        let peer = self.engine.slot_of(from);
        if self.engine.am_waiting.remove(&(peer, rts.request)) {
            self.control(peer, wire::ACK, [rts.request, outcome], &[]);
        }
    }
}

impl crate::engine::Engine {
    /// Messages that were set aside are in the inbox again, in front.
    pub(crate) fn put_back(&mut self, deliveries: &mut Vec<Delivery>) {
        self.set_aside -= deliveries.len();
        for delivery in deliveries.drain(..).rev() {
            self.inbox.push_front(delivery);
        }
    }

    /// Completes a receive with a message that is here.
    pub(crate) fn receive_here(&mut self, key: bowline_base::slab::Key, data: &[u8]) {
        if let Some(request) = self.requests.get_mut(key) {
            request.status = OpStatus { length: data.len() as u64, ..OpStatus::NONE };
            if let request::Body::Receive(receive) = &mut request.body {
                receive.buffer.write_at(0, data);
            }
        }
        self.complete_receive(key);
    }
}
