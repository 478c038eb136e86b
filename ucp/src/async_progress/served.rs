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
//!    and that the call which posted it has not completed. A sender is served as well: where no device
//!    reads, the sender's processor answers a read, or sends the pieces.
//! 2. *Whom it wakes.* A rank that sleeps in a call has its lanes armed for itself, and the thread leaves them alone until
//!    the next request is watched, or the call that has paused it ends. A program that sleeps on the worker's
//!    descriptor is rung by the worker's signal when the thread has taken what came.
//! 3. *Armed lanes.* The thread arms the lanes that it serves, and disarms them unless the rank has armed them since.
//!    A rank that arms and disarms them meanwhile takes the thread's arming away, so no sleep of the thread is
//!    longer than [`POLL_INTERVAL`].

use std::sync::Arc;
use std::time::Duration;

use bowline_base::doorbell::WakeSet;
use bowline_base::slab::Key;
use bowline_uct::{Armed, Caps};

use crate::engine::{Engine, Inner, RemoteWorker};
use crate::lanes::Lane;
use crate::request::{Body, RequestId};
use crate::state::async_state::RESERVE;
use crate::state::wakeup::POLL_INTERVAL;
use crate::worker::Worker;

impl RemoteWorker {
    /// A round of progress for the requests that a thread serves. Whether any is left for which it should go on.
    pub fn serve_watched(&self) -> bool {
        let inner = &mut *self.enter();
        if inner.engine.async_state.asleep {
            return false;
        }
        for lane in inner.lanes.iter_mut().filter(|lane| lane.is_served()) {
            lane.rest.wake();
        }
        if inner.progress() > 0 {
            inner.has_events();
        }
        inner.engine.forget_ended();
        !inner.engine.async_state.served.is_empty()
    }

    /// Whether requests are there that a thread serves while the rank is awake.
    pub fn has_watched(&self) -> bool {
        let inner = &mut *self.enter();
        inner.engine.forget_ended();
        !inner.engine.async_state.asleep && !inner.engine.async_state.served.is_empty()
    }

    /// Has `wait` called to sleep until one of the descriptors is readable, for so long at most, unless something is there
    /// or the rank sleeps itself.
    pub fn sleep_watched(&self, wait: impl FnOnce(&WakeSet, Duration)) {
        let descriptors = {
            let inner = &mut *self.enter();
            if inner.engine.async_state.asleep {
                return;
            }
            let descriptors = inner.served_descriptors();
            if !inner.arm_served() {
                inner.disarm_served();
                return;
            }
            descriptors
        };
        wait(&descriptors, POLL_INTERVAL);
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
        let (peer, length) = match &request.body {
            Body::Receive(receive) => {
                (receive.fetch.as_ref().map(|fetch| fetch.peer), receive.buffer.len_or_mark())
            }
            Body::Send(send) => (Some(send.peer), send.buffer.len()),
            _ => return false,
        };
        // Whose a receive without a message will be is not known yet: any served lane's.
        let served = peer.is_none_or(|peer| {
            self.lanes[self.engine.peers[peer as usize].lane as usize].is_served()
        });
        served && length >= self.engine.async_state.served_from
    }

    /// The shortest message that a served lane offers.
    pub(super) fn first_served(&self) -> usize {
        self.first_offered(Lane::is_served)
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
