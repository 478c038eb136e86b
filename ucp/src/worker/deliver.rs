//! Gives to code of the user what has arrived for it, once no borrow is in the way. The rules are in [`crate::am`].

use bowline_uct::PeerFailure;

use super::Worker;
use super::handlers::{AmHandler, AmMessage, Place};
use crate::peer::Ep;
use crate::state::inbox::{AmArrival, Completed, Delivery};

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
    /// Gives what has arrived to handlers, and what has completed to callbacks. Returns how much that
    /// was, without what waits for a handler that is running.
    #[inline(never)]
    pub(crate) fn deliver(&self) -> u32 {
        // Messages of an id whose handler is running (this is a nested progress) go back.
        let mut waiting = SetAside { worker: self, deliveries: Vec::new() };
        let mut taken = 0;
        let mut inner = self.inner.borrow_mut();
        while let Some(next) = inner.engine.inbox.pop_front() {
            taken += 1;
            let arrival = match next {
                Delivery::Am(arrival) => arrival,
                Delivery::Completed(completed) => {
                    drop(inner);
                    self.call_back(*completed);
                    inner = self.inner.borrow_mut();
                    continue;
                }
                Delivery::End(ep, how) => {
                    drop(inner);
                    self.report_end(ep, how);
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
                    taken -= 1;
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
        taken
    }

    fn call_back(&self, Completed { callback, completion }: Completed) {
        let handler = self.callbacks.borrow_mut().remove(callback);
        if let Some(handler) = handler {
            handler(self, completion);
        }
    }

    /// Calls the handler of an endpoint that is over.
    #[cold]
    fn report_end(&self, ep: Ep, how: PeerFailure) {
        let handler = self.watchers.borrow_mut().0.remove(&ep);
        if let Some(handler) = handler {
            handler(self, ep, how);
        }
    }
}
