//! Requests that a thread beside the worker serves, in the mode whose signal handlers poll the other lanes: lanes that
//! no signal handler may poll, whose calls may lock or allocate.
//!
//! It is not the progress thread of [`RemoteWorker::serve`], which sleeps on all lanes and is woken by every message.
//! This one sleeps on nothing while no request is watched for it, and then only on the lanes that it serves.
//!
//! ```text
//!   rank     recv, watch_send ── long, over a served lane ──► served, ProgressDriver::serve
//!   thread   RemoteWorker::serve_watched ── one is left ──► RemoteWorker::sleep_watched ── a lane is readable ──► again
//!                                        └─ none is left, or the rank sleeps ──► it goes away
//! ```
//! Rules.
//!
//! 1. *Which requests.* A nonblocking receive or send that is as long as the first message which a served lane offers,
//!    at most [`LONG`], and that the call which posted it has not completed. A sender is served as well: where no device
//!    reads, the sender's processor answers a read, or sends the pieces that its lane had no space for.
//! 2. *Whom it wakes.* A rank that sleeps in a call has its lanes armed for itself, and the thread leaves them alone until
//!    the next request is watched, or the call that has paused it ends. A program that sleeps on the worker's
//!    descriptor is rung by the worker's signal when the thread has taken what came.
//! 3. *Armed lanes.* The thread arms the lanes that it serves, and disarms them unless the rank has armed them since. A rank
//!    that waits takes the thread's arming away, and the thread is called again when it has waited. Where a program sleeps on
//!    the worker's descriptor now and then, the lanes are its own to arm, and the thread sleeps for a time.
//! 4. *Lanes of handlers.* The thread polls none of them, and leaves what belongs to them to handlers and to the rank: whether such
//!    a message is worth it is decided there. A receive whose message comes over such a lane is not the thread's any more.

use std::sync::Arc;

use bowline_base::doorbell::WakeSet;
use bowline_base::slab::Key;
use bowline_uct::{Armed, Caps};

use crate::action::Action;
use crate::engine::{Engine, Inner, RemoteWorker};
use crate::lanes::Lane;
use crate::peer::PeerIndex;
use crate::request::{Body, RequestId};
use crate::state::async_state::RESERVE;
use crate::worker::Worker;

/// A message of this length may be under way for some time although nobody has to ask for it: its lane has space for a part.
const LONG: usize = 64 << 10;

/// What a thread has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Served {
    /// How many events there were.
    pub events: u32,
    /// Whether requests are left for which it should go on.
    pub left: bool,
}

impl RemoteWorker {
    /// A round of progress of the lanes that a thread serves.
    pub fn serve_watched(&self) -> Served {
        let inner = &mut *self.enter();
        if inner.engine.async_state.asleep {
            return Served { events: 0, left: false };
        }
        let events = inner.progress_some(Lane::is_served, Inner::is_for_handlers);
        if events > 0 {
            inner.has_events();
        }
        Served { events, left: inner.is_watched_for_thread() }
    }

    /// Whether requests are there that a thread serves while the rank is awake.
    pub fn has_watched(&self) -> bool {
        let inner = &mut *self.enter();
        !inner.engine.async_state.asleep && inner.is_watched_for_thread()
    }

    /// Has `wait` called to sleep until one of the descriptors is readable, for a time that its maker knows, unless something is there
    /// or the rank sleeps itself.
    /// Whether it is to be a short time: something that it waits for does not wake it.
    pub fn sleep_watched(&self, wait: impl FnOnce(&WakeSet, bool)) {
        let (descriptors, short) = {
            let inner = &mut *self.enter();
            if inner.engine.async_state.asleep {
                return;
            }
            if inner.wakeup.armed {
                // Rule 3.
                (Arc::default(), true)
            } else if inner.arm_served() {
                let wakes = |lane: &Lane| lane.iface.attr().caps.contains(Caps::EVENT_FD);
                let short = inner.lanes.iter().any(|lane| lane.is_served() && !wakes(lane));
                (inner.served_descriptors(), short)
            } else {
                return inner.disarm_served();
            }
        };
        wait(&descriptors, short);
        self.enter().disarm_served();
    }
}

impl Worker {
    /// Whether the worker has lanes that no signal handler may poll: a driver by signals needs a thread beside for their
    /// messages.
    pub fn has_served_lanes(&self) -> bool {
        self.inner.borrow().lanes.iter().any(Lane::is_served)
    }

    /// The caller of a send that is not complete is going to compute before it waits for it: who drives the worker's
    /// progress beside its calls moves it on, where its lane wants that.
    #[inline]
    pub fn watch_send(&self, id: RequestId) {
        if self.installed.serves.get() {
            self.serve(id.0);
        }
    }

    /// A receive of a claimed message was posted whose caller is going to compute before it waits for it.
    #[inline]
    pub fn watch_claimed(&self, id: RequestId) {
        let length = match self.inner.borrow().engine.requests.get(id.0).map(|r| &r.body) {
            Some(Body::Receive(receive)) => receive.buffer.len_or_mark(),
            _ => return,
        };
        if length >= self.inner.borrow().engine.async_state.from {
            self.watch(id.0, true, false);
        }
    }

    /// The rank is awake again, outside of a call that waits: the thread has gone away meanwhile.
    pub(crate) fn call_lane_thread(&self) {
        if self.installed.serves.get()
            && self.installed.watching.get()
            && self.inner.borrow_mut().is_watched_for_thread()
            && let Some(driver) = &mut *self.installed.driver.borrow_mut()
        {
            driver.serve();
        }
    }

    /// Has a request served if a thread is of use for it. Whether it is.
    #[cold]
    pub(crate) fn serve(&self, key: Key) -> bool {
        {
            let inner = &mut *self.inner.borrow_mut();
            if !inner.gains_by_thread(key) {
                return false;
            }
            inner.engine.serve(key);
        }
        self.installed.watching.set(true);
        if let Some(driver) = &mut *self.installed.driver.borrow_mut() {
            driver.serve();
        }
        true
    }
}

impl Inner {
    /// Whether a request that was just posted is one of rule 1.
    fn gains_by_thread(&self, key: Key) -> bool {
        let Some(request) = self.engine.requests.get(key).filter(|request| !request.done) else {
            return false;
        };
        let length = match &request.body {
            Body::Receive(receive) => receive.buffer.len_or_mark(),
            Body::Send(send) => send.buffer.len(),
            _ => return false,
        };
        // Whose a receive without a message will be is not known yet: any served lane's.
        let served = known_peer(&request.body).is_none_or(|peer| {
            self.lanes[self.engine.peers[peer as usize].lane as usize].is_served()
        });
        served && length >= self.engine.async_state.served_from
    }

    /// The length of rule 1.
    pub(super) fn first_served(&self) -> usize {
        self.first_offered(Lane::is_served).min(LONG)
    }

    /// Whether requests are left for the thread.
    fn is_watched_for_thread(&mut self) -> bool {
        self.engine.forget_ended();
        let Self { lanes, engine, .. } = self;
        let (peers, requests) = (&engine.peers, &engine.requests);
        engine.async_state.served.retain(|key| {
            let peer = requests.get(*key).and_then(|request| known_peer(&request.body));
            peer.is_none_or(|peer| lanes[peers[peer as usize].lane as usize].is_served())
        });
        !engine.async_state.served.is_empty()
    }

    /// Rule 4.
    fn is_for_handlers(&self, action: &Action) -> bool {
        let handled = |peer: PeerIndex| {
            self.lanes[self.engine.peers[peer as usize].lane as usize].is_signal_safe()
        };
        match action {
            Action::Run(key) => {
                let request = self.engine.requests.get(*key);
                request.and_then(|request| known_peer(&request.body)).is_some_and(handled)
            }
            Action::Poll(_) => self.lanes.iter().any(Lane::is_signal_safe),
            _ => false,
        }
    }

    /// Arms the served lanes. Whether one may sleep.
    fn arm_served(&mut self) -> bool {
        let served =
            |lane: &&mut Lane| lane.is_served() && lane.iface.attr().caps.contains(Caps::EVENT_FD);
        self.lanes.iter_mut().filter(served).all(|lane| lane.iface.arm(true) == Armed::Ready)
    }

    /// The thread is awake again.
    fn disarm_served(&mut self) {
        if self.engine.async_state.asleep || self.wakeup.armed {
            // Rule 3.
            return;
        }
        for lane in self.lanes.iter_mut().filter(|lane| lane.is_served()) {
            lane.iface.disarm();
        }
    }

    /// What becomes readable when a served lane has something. A lane without a descriptor is polled after each sleep.
    fn served_descriptors(&mut self) -> Arc<WakeSet> {
        if let Some(known) = &self.engine.async_state.served_descriptors {
            return Arc::clone(known);
        }
        let mut all = WakeSet::default();
        for lane in self.lanes.iter_mut().filter(|lane| lane.is_served()) {
            if !lane.iface.attr().caps.contains(Caps::EVENT_FD) {
                continue;
            }
            let provider = lane.iface.attr().provider;
            let event = lane.iface.event_fd().map_err(|error| error.to_string());
            if let Err(error) = event.and_then(|e| all.add(e).map_err(|error| error.to_string())) {
                tracing::warn!(provider, error, "no event descriptor; the thread polls it");
            }
        }
        let all = Arc::new(all);
        self.engine.async_state.served_descriptors = Some(Arc::clone(&all));
        all
    }
}

/// The peer of a request, once it is known.
fn known_peer(body: &Body) -> Option<PeerIndex> {
    match body {
        Body::Receive(receive) => receive.fetch.as_ref().map(|fetch| fetch.peer),
        Body::Send(send) => Some(send.peer),
        _ => None,
    }
}

impl Lane {
    /// Whether a thread serves it in the mode of signals: no handler may poll it.
    pub(crate) fn is_served(&self) -> bool {
        self.polled && !self.loopback && !self.is_signal_safe()
    }
}

impl Engine {
    fn serve(&mut self, key: Key) {
        let served = &mut self.async_state.served;
        if served.len() == served.capacity() {
            self.forget_ended();
            self.async_state.served.reserve(RESERVE);
        }
        self.async_state.served.push(key);
    }
}
