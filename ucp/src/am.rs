//! User's active messages: a 16-bit id, a small header and data, given to a handler at the target.
//!
//! Handlers run after the lanes have returned and hold no borrow of the worker: a handler may
//! send, receive, and progress. While it runs its own id has no handler, so a message for it that
//! arrives in a nested progress waits until the handler has returned.

use std::collections::HashMap;

use bowline_base::view::View;

use crate::peer::{Ep, PeerIndex};
use crate::worker::Worker;

/// Payload that needs no memory of its own.
const SMALL: usize = 64;

/// Bytes that are owned, in place when they are few.
#[derive(Debug)]
pub(crate) enum Bytes {
    Small([u8; SMALL], u8),
    Large(Vec<u8>),
}

impl Bytes {
    #[inline]
    pub(crate) fn copy_of(view: View<'_>) -> Self {
        if view.len() <= SMALL {
            let mut bytes = [0; SMALL];
            let n = view.copy_out(&mut bytes);
            return Self::Small(bytes, n as u8);
        }
        Self::Large(view.to_vec())
    }

    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Small(bytes, n) => &bytes[..usize::from(*n)],
            Self::Large(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Large(bytes)
    }
}

/// An active message that waits for its handler to be called.
#[derive(Debug)]
pub(crate) struct AmArrival {
    pub(crate) peer: PeerIndex,
    pub(crate) id: u16,
    pub(crate) header: u32,
    pub(crate) payload: Bytes,
}

/// An active message as its handler sees it.
#[derive(Debug)]
pub struct AmMessage<'a> {
    /// The sender; a reply goes there.
    pub from: Ep,
    /// The header.
    pub header: &'a [u8],
    /// The data.
    pub data: &'a [u8],
}

/// What is called with the active messages of an id.
pub type AmHandler = Box<dyn FnMut(&Worker, AmMessage<'_>) + Send>;

/// Handlers by id, and the ids whose handlers are running.
#[derive(Default)]
pub(crate) struct Handlers {
    by_id: HashMap<u16, AmHandler>,
    running: Vec<u16>,
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handlers").field(&self.by_id.keys()).finish()
    }
}

impl Worker {
    /// Has `handler` called with every active message of `id`, in place of the one before.
    /// Messages of ids without handler are dropped and counted as stray.
    pub fn am_handler(&self, id: u16, handler: AmHandler) {
        self.handlers.borrow_mut().by_id.insert(id, handler);
    }

    /// Takes the handler of `id` away.
    pub fn am_handler_remove(&self, id: u16) {
        self.handlers.borrow_mut().by_id.remove(&id);
    }

    /// Calls handlers for what has arrived.
    #[cold]
    pub(crate) fn deliver_am(&self) {
        // Messages of an id whose handler is running (this is a nested progress) go back.
        let mut waiting = Vec::new();
        loop {
            let next = self.inner.borrow_mut().engine.am_inbox.pop_front();
            let Some(arrival) = next else { break };
            let mut handlers = self.handlers.borrow_mut();
            let Some(mut handler) = handlers.by_id.remove(&arrival.id) else {
                if handlers.running.contains(&arrival.id) {
                    waiting.push(arrival);
                } else {
                    self.inner.borrow_mut().engine.counters.stray += 1;
                }
                continue;
            };
            handlers.running.push(arrival.id);
            drop(handlers);
            let bytes = arrival.payload.as_slice();
            let (header, data) = bytes.split_at(arrival.header as usize);
            handler(self, AmMessage { from: Ep(arrival.peer), header, data });
            let mut handlers = self.handlers.borrow_mut();
            handlers.running.pop();
            // The handler may have put another one in its place.
            handlers.by_id.entry(arrival.id).or_insert(handler);
            let mut inner = self.inner.borrow_mut();
            inner.engine.counters.am_received += 1;
            inner.engine.taken(arrival.peer, bytes.len());
        }
        let mut inner = self.inner.borrow_mut();
        for arrival in waiting.into_iter().rev() {
            inner.engine.am_inbox.push_front(arrival);
        }
        inner.act();
    }
}
