//! What is kept ready for signal handlers, and which receives they are for. The rules are in
//! [`crate::async_progress`].

use std::sync::Arc;

use bowline_base::doorbell::WakeSet;
use bowline_base::slab::Key;

use bowline_uct::PreparedId;

use crate::request::{Fetch, Receiver};
use crate::wire::{self, CoopRequest};

/// Boxes of each kind that are kept ready.
pub(crate) const READY: usize = 32;

/// Space for boxes that come back; and actions and other notes that a handler may add.
pub(crate) const RESERVE: usize = 128;

/// The buffer of a watched receive, into which handlers may read over a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreparedBuffer {
    pub(crate) receive: Key,
    pub(crate) lane: u32,
    pub(crate) memory: PreparedId,
}

/// What is kept ready for signal handlers, and which receives they are for.
pub(crate) struct AsyncState {
    /// The shortest receive that is watched by anybody; none by default.
    pub(crate) from: usize,
    /// The shortest one that handlers are of use for.
    pub(crate) handled_from: usize,
    pub(crate) watched: Vec<Key>,
    /// The shortest request that a thread serves which knows of watched requests alone.
    pub(crate) served_from: usize,
    pub(crate) served: Vec<Key>,
    /// What becomes readable when a lane of those requests has something.
    pub(crate) served_descriptors: Option<Arc<WakeSet>>,
    /// Of watched receives, until ordinary calls find that they have ended.
    pub(crate) prepared: Vec<PreparedBuffer>,
    #[expect(clippy::vec_box, reason = "it is the boxes that are kept")]
    pub(crate) fetches: Vec<Box<Fetch>>,
    /// States of protocols that have ended, which handlers do not free.
    pub(crate) retired: Vec<Receiver>,
    pub(crate) payloads: Vec<Vec<u8>>,
    /// A signal handler is inside.
    pub(crate) in_handler: bool,
    /// It has left a message to be copied by both sides.
    pub(crate) left: bool,
    /// There was progress beside it since the last poll of the worker itself.
    pub(crate) progressed: bool,
    /// The worker sleeps, or is about to.
    pub(crate) asleep: bool,
    /// A receive whose message goes to a callback was posted.
    pub(crate) callbacks: bool,
    /// A progress thread serves the worker.
    pub(crate) thread: bool,
    /// The progress thread was called since its last poll: what it has to do rings no doorbell that is not armed yet.
    pub(crate) called: bool,
}

impl AsyncState {
    pub(crate) const NONE: Self = Self {
        from: usize::MAX,
        handled_from: usize::MAX,
        watched: Vec::new(),
        served_from: usize::MAX,
        served: Vec::new(),
        served_descriptors: None,
        prepared: Vec::new(),
        fetches: Vec::new(),
        retired: Vec::new(),
        payloads: Vec::new(),
        in_handler: false,
        left: false,
        progressed: false,
        asleep: false,
        callbacks: false,
        thread: false,
        called: false,
    };

    /// The memory by which handlers read into the buffer of a receive over a lane.
    pub(crate) fn prepared_for(&self, receive: Key, lane: u32) -> Option<PreparedId> {
        let found = self.prepared.iter().find(|at| at.receive == receive && at.lane == lane);
        found.map(|at| at.memory)
    }

    /// A box for a message that is read, one that is kept ready if there is one.
    pub(crate) fn boxed(&mut self, fetch: Fetch) -> Box<Fetch> {
        match self.fetches.pop() {
            Some(mut place) => {
                *place = fetch;
                place
            }
            None => Box::new(fetch),
        }
    }

    /// Whether a progress thread serves the worker.
    #[inline]
    pub(crate) fn has_thread(&self) -> bool {
        self.thread
    }

    /// Takes a box back. It goes where there is space for it, which a handler has checked before.
    pub(crate) fn keep(&mut self, mut place: Box<Fetch>) {
        if self.fetches.len() < self.fetches.capacity() {
            if let Some(receiver) = place.receiver.take()
                && self.in_handler
                && size_of_val(&*receiver) > 0
                && self.retired.len() < self.retired.capacity()
            {
                // To drop a state with memory of its own would free that.
                self.retired.push(receiver);
            }
            self.fetches.push(place);
        }
    }

    /// Whether there is space for what one message gives back.
    pub(crate) fn has_space(&self) -> bool {
        let retired = self.retired.len() < self.retired.capacity();
        retired && self.fetches.len() < self.fetches.capacity()
    }

    /// Whether there are payloads for what one message may ask for.
    pub(crate) fn has_payloads(&self) -> bool {
        self.payloads.len() > 1
    }

    /// A payload that has to wait for space in its lane.
    pub(crate) fn payload(&mut self, bytes: &[u8]) -> Vec<u8> {
        let fits = |place: &mut Vec<u8>| place.capacity() >= bytes.len();
        match self.payloads.pop_if(fits) {
            Some(mut place) => {
                place.extend_from_slice(bytes);
                place
            }
            None => bytes.to_vec(),
        }
    }

    /// Fills up what signal handlers use, which they cannot do themselves.
    pub(crate) fn provide(&mut self) {
        self.fetches.reserve(RESERVE);
        self.retired.clear();
        self.retired.reserve(RESERVE);
        while self.fetches.len() < READY {
            self.fetches.push(Box::new(Fetch::NONE));
        }
        while self.payloads.len() < READY {
            self.payloads.push(Vec::with_capacity(CoopRequest::FIXED + wire::MAX_RKEY));
        }
    }
}
