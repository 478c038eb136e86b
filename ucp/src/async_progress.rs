//! Asynchronous progress: what moves a worker on while its thread computes.
//!
//! Three kinds of drivers use it, which live outside of this crate, since they need a clock, signals
//! or threads. All enter by remote handles of the worker's lock ([`bowline_base::worker_lock`]), so that there is one
//! inside at most.
//!
//! ```text
//!   signals  recv posts a long receive ── no RTS is here ──► watched, ProgressDriver::watch
//!            a signal interrupts the thread ──► progress_signal_safe ── a caller is inside ──► Closed
//!                                                              └► lanes, RTS matched, get posted ...
//!   thread   a thread sleeps on the lanes ── rung ──► RemoteWorker::serve ──► RemoteWorker::sleep ...
//! ```
//! Rules.
//!
//! 1. *Which receives.* A receive is watched if it is nonblocking and long enough to match a rendezvous,
//!    and its message was not there when it was posted, or was and is copied by the processors. All
//!    others need nobody: what a transport moves was started in the call, and a caller that waits next
//!    ([`Worker::recv_blocking`], [`Worker::recv_awaited`]) progresses. Where processors copy, handlers leave alone the
//!    receives of stages ([`Worker::recv_stage`]), behind which a call has to come, and all where ranks share processors
//!    unless their driver says otherwise: a copy takes the processor from a rank then, also when a handler makes it. While the thread waits in a call, there are no signals
//!    ([`Pause`]).
//! 2. *What a signal handler does.* It takes arrivals that need no memory but what is kept ready here
//!    ([`AsyncState`]), starts the transfers of matched messages, copies a few pieces where the
//!    processor copies, and acknowledges what is complete. Everything else stays, in order: messages in
//!    their lanes, actions in their list, for the next call of the worker.
//! 3. *What it never does.* It allocates and frees nothing, takes no lock, waits for nobody, writes
//!    no log and calls nobody back. Callbacks, errors, first contacts and the end of peers are not for
//!    handlers. The tests of the facade hammer on it with an allocator that does not allow it.
//! 4. *What ordinary calls do for it.* Where a device reads, the call that posts a watched receive has its buffer made
//!    ready ([`SignalSafe::prepare`](bowline_uct::SignalSafe::prepare)). The handler opens the sender's key into space that
//!    is there, reads, and acknowledges; to close the key, to end what was made ready and to complete the receive is
//!    left to the next ordinary call, before which nobody gets the buffer. So is to take back what a handler has lent to a
//!    sender that is a thread of this process.
//! 5. *Sleep.* A worker that is about to sleep shuts handlers out until it is awake, and does not
//!    sleep if there was one since its last poll: the arrival that it would be woken for may be gone.
//!    With a progress thread it sleeps on the doorbell of its [`Signal`](bowline_base::doorbell::Signal), which that thread
//!    rings, instead of the lanes, which the thread sleeps on: so do the leader of a [`SharedWorker`](crate::SharedWorker)
//!    and a program that sleeps on the worker's descriptor.

mod act;
mod served;
mod sink;

pub use served::Served;

use std::time::Duration;

use bowline_base::buffer::MemoryLayout;
use bowline_base::doorbell::{Doorbell, WakeSet};
use bowline_base::slab::Key;
use bowline_base::worker_lock::RemoteGuard;
use bowline_uct::Caps;

use crate::engine::{Inner, RemoteWorker};
use crate::lanes::Lane;
use crate::loan;
use crate::protocol::Conditions;
use crate::request::{Body, Receive};
use crate::state::async_state::{PreparedBuffer, RESERVE};
use crate::state::wakeup::ArmedSleep;
use crate::worker::{ProgressDriver, WatchedReceive, Worker};

/// What progress in a signal handler came to, for the driver, which decides when the next signal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AsyncProgress {
    /// Somebody is inside, or the worker sleeps: nothing was done.
    Closed,
    /// No receive is watched any more: no further signal is needed before the next is posted.
    Idle,
    /// Something is waited for that others do, nobody knows when.
    Waiting,
    /// All that is watched is on its way, by the peers or the transport; the first is complete after
    /// so many bytes.
    Moving {
        /// How many.
        bytes: u64,
    },
    /// This side copies, and has not finished.
    Copying,
    /// A message is here to be copied, whose sender does not come: both will copy it together when they wait, which
    /// takes this side less than to copy it alone now.
    Left,
}

/// What drives a worker beside its own calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverKind {
    /// A signal handler of its thread.
    Signal,
    /// The same, and a thread for the lanes that handlers may not poll ([`Worker::has_served_lanes`]).
    SignalAndThread,
    /// A thread that sleeps on its lanes.
    Thread,
}

impl RemoteWorker {
    /// Progress in a signal handler. To be called from one that has interrupted any thread; returns soon: after
    /// a bounded number of messages, and the first piece of a copy, 64 to 256 KB, after which `spare`
    /// says that there is no time for another. See the module's rules.
    pub fn progress_signal_safe(&self, spare: impl FnMut() -> bool) -> AsyncProgress {
        match self.0.try_enter() {
            Some(mut inner) => inner.progress_signal_safe(spare),
            None => AsyncProgress::Closed,
        }
    }

    /// A whole round of progress, by a progress thread, and what it moves on beside. Returns how many
    /// events there were.
    pub fn serve(&self) -> u32 {
        let (events, beside) = {
            let inner = &mut *self.enter();
            let events = inner.progress();
            // What was left before is carried out now. What this poll itself leaves waits for an arrival, which rings.
            inner.engine.async_state.called = false;
            if events > 0 {
                inner.has_events();
            }
            (events, inner.background.clone())
        };
        let moved = beside.is_some_and(|work| work.advance(self));
        if moved {
            self.enter().has_events();
        }
        events + u32::from(moved)
    }

    pub(crate) fn enter(&self) -> RemoteGuard<'_, Inner> {
        self.0.enter()
    }

    /// Has `wait` called to sleep on the lanes, by a progress thread, unless something is there: with
    /// what is rung, or with descriptors, and with how long to sleep at most.
    pub fn sleep(&self, wait: impl FnOnce(Option<&Doorbell>, &WakeSet, Option<Duration>)) {
        let armed = {
            let inner = &mut *self.0.enter();
            if inner.engine.async_state.called {
                return;
            }
            // From here on a call rings: the doorbell is armed before anybody else can enter.
            let armed = inner.arm_sleep();
            if armed.is_none() {
                // A death may have ended requests.
                inner.has_events();
            }
            armed
        };
        if let Some(ArmedSleep { doorbell, descriptors, mut deadline }) = armed {
            if doorbell.is_none() {
                // Nothing would wake the sleeper when the worker wants something else.
                let short = Duration::from_millis(1);
                deadline = Some(deadline.map_or(short, |deadline| deadline.min(short)));
            }
            wait(doorbell.as_ref(), &descriptors, deadline);
            self.0.enter().disarm();
        }
    }
}

impl Worker {
    /// Installs what drives the worker's progress beside its calls for the rest of its life: what `make` makes. From
    /// then on each call costs a compare-and-swap.
    ///
    /// # Errors
    /// What `make` returns; then the worker has no driver.
    ///
    /// # Panics
    /// When it has one already.
    pub fn install_progress<E>(
        &self,
        how: DriverKind,
        make: impl FnOnce(RemoteWorker) -> Result<Box<dyn ProgressDriver>, E>,
    ) -> Result<(), E> {
        let driver = &mut *self.installed.driver.borrow_mut();
        assert!(driver.is_none(), "a worker has one driver");
        let set_thread = |has| {
            let inner = &mut *self.inner.borrow_mut();
            inner.engine.async_state.thread = has;
            inner.descriptors = None;
        };
        // Before the thread begins, which would take signals otherwise, or ring nobody.
        if how != DriverKind::Signal {
            drop(self.signal());
        }
        if how == DriverKind::Thread {
            set_thread(true);
        }
        let made = make(RemoteWorker(self.inner.remote()));
        let made = made.inspect_err(|_| set_thread(false))?;
        self.installed.copies_always.set(made.copies_always());
        *driver = Some(made);
        self.choose(|conditions| Conditions { asynchronous: true, ..conditions });
        if how != DriverKind::Thread {
            self.installed.signals.set(true);
            self.installed.serves.set(how == DriverKind::SignalAndThread);
            self.choose_watched();
            self.inner.borrow_mut().provide();
        }
        Ok(())
    }

    /// From which length on requests are watched: anew where protocols are chosen anew.
    pub(crate) fn choose_watched(&self) {
        if !self.installed.signals.get() {
            return;
        }
        let inner = &mut *self.inner.borrow_mut();
        let always = self.installed.copies_always.get();
        let handled_from = inner.first_offered(|lane| lane.is_handled(always));
        let serves = self.installed.serves.get();
        let served_from = if serves { inner.first_served() } else { usize::MAX };
        let state = &mut inner.engine.async_state;
        (state.handled_from, state.served_from) = (handled_from, served_from);
        state.from = handled_from.min(served_from);
    }

    /// A long receive was posted: polls once if no message of its was known, and has it watched by who is of use for
    /// it: by handlers if there is none, or one that takes its receiver long to copy, unless it is of a `stage` and processors
    /// copy.
    #[cold]
    pub(crate) fn watch(&self, key: Key, known: bool, stage: bool) {
        let what = {
            let inner = &mut *self.inner.borrow_mut();
            if !known && inner.engine.async_state.handled_from != usize::MAX && inner.progress() > 0
            {
                // What this call has brought is asked for before the next sleep.
                inner.engine.async_state.progressed = true;
            }
            let is_moved = |what: &_| matches!(what, WatchedReceive::Awaited { copy: None });
            let always = self.installed.copies_always.get();
            let what = inner.gain(key, always).filter(|what| !stage || is_moved(what));
            if what.is_some() {
                inner.provide();
                inner.prepare_buffer(key);
                inner.engine.watch(key);
            }
            what
        };
        if let Some(what) = what {
            self.installed.watching.set(true);
            if let Some(driver) = &mut *self.installed.driver.borrow_mut() {
                driver.watch(what);
            }
        }
        if self.installed.serves.get() {
            self.serve(key);
        }
    }
}

impl Inner {
    /// What signal handlers can do for a receive that was just posted, if anything.
    fn gain(&self, key: Key, always: bool) -> Option<WatchedReceive> {
        let request = self.engine.requests.get(key).filter(|request| !request.done)?;
        let Body::Receive(receive) = &request.body else { return None };
        if receive.buffer.len_or_mark() < self.engine.async_state.handled_from {
            return None;
        }
        let Some(fetch) = &receive.fetch else {
            // Whose it will be is not known yet: any lane's that handlers poll, and that has brought such messages
            // before where it moves them.
            let serves = |lane: &&Lane| {
                lane.is_handled(always) && (lane.has_read || !lane.reads_into_prepared())
            };
            let lanes = self.lanes.iter().filter(serves);
            let bytes = receive.buffer.len_or_mark() as u64;
            let copy = lanes.map(|lane| lane.copying(bytes)).reduce(|a, b| Some(a?.max(b?)))?;
            return Some(WatchedReceive::Awaited { copy });
        };
        let rest = fetch.receiver.as_ref()?.left_to_copy(fetch.wanted)?;
        let lane = &self.lanes[self.engine.peers[fetch.peer as usize].lane as usize];
        let copy = lane.copying(rest).filter(|_| lane.is_handled(always))?;
        Some(WatchedReceive::Begun { copy })
    }

    /// Has the buffer of a watched receive made ready on the lanes that want it, and ends that of receives that are over.
    /// On a lane over which no message was read before nothing is: registrations are dear, and most jobs have lanes that
    /// bring no long messages.
    fn prepare_buffer(&mut self, key: Key) {
        self.unprepare_ended();
        let Some(request) = self.engine.requests.get_mut(key) else { return };
        let Body::Receive(Receive { buffer, fetch: None, .. }) = &mut request.body else { return };
        if buffer.shape() != MemoryLayout::Whole {
            return;
        }
        let len = buffer.len();
        let Some(all) = loan::of_recv(buffer, 0, len) else { return };
        for (at, lane) in (0..).zip(&mut self.lanes) {
            if lane.reads_into_prepared()
                && lane.has_read
                && let Ok(memory) = lane.iface.prepare(all)
            {
                let prepared = PreparedBuffer { receive: key, lane: at, memory };
                self.engine.async_state.prepared.push(prepared);
            }
        }
    }

    /// Ends what was made ready for receives that are over.
    pub(crate) fn unprepare_ended(&mut self) {
        let Self { lanes, engine, .. } = self;
        let requests = &engine.requests;
        engine.async_state.prepared.retain(|at| {
            let runs = requests.get(at.receive).is_some_and(|request| !request.done);
            if !runs {
                lanes[at.lane as usize].iface.unprepare(at.memory);
            }
            runs
        });
    }

    /// The shortest message for which a rendezvous may be chosen on one of `these` lanes.
    fn first_offered(&self, these: impl Fn(&Lane) -> bool) -> usize {
        let lanes = self.lanes.iter().filter(|lane| these(lane));
        let shortest = lanes.flat_map(|lane| {
            let rendezvous =
                self.engine.protocols.all.iter().filter(|protocol| protocol.rendezvous);
            rendezvous.filter_map(|protocol| lane.choices.tag_send.first(protocol))
        });
        shortest.min().map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Makes ready what signal handlers use.
    fn provide(&mut self) {
        let engine = &mut self.engine;
        engine.async_state.provide();
        engine.actions.reserve(RESERVE);
        for at in 0..self.engine.protocols.lives.len() {
            self.engine.protocols.lives[at].provide(self);
        }
    }

    /// The progress thread has found something: wakes the worker's thread.
    fn has_events(&mut self) {
        self.engine.async_state.progressed = true;
        if let Some(signal) = self.wakeup.signal() {
            signal.doorbell().ring();
        }
    }

    /// Whether there was progress beside the worker since the last time that this was asked.
    pub(crate) fn has_async_progress(&mut self) -> bool {
        std::mem::take(&mut self.engine.async_state.progressed)
    }

    /// From here to the worker's awakening signal handlers do nothing.
    pub(crate) fn shut_out_signals(&mut self, asleep: bool) {
        self.engine.async_state.asleep = asleep;
    }
}

impl Lane {
    /// Whether signal handlers poll it.
    pub(crate) fn is_signal_safe(&self) -> bool {
        self.iface.attr().caps.contains(Caps::SIGNAL_SAFE)
    }

    /// Whether handlers move its long messages: they may poll it, and the transport carries them, or a processor that no other
    /// rank wants, if handlers do not copy always (rule 1).
    fn is_handled(&self, copies_always: bool) -> bool {
        let moves = self.iface.attr().caps.contains(Caps::CARRIES);
        let copies = copies_always || !self.choices.conditions.oversubscribed;
        self.is_signal_safe() && (moves || copies)
    }

    /// Whether handlers read over it into memory that was prepared.
    pub(crate) fn reads_into_prepared(&self) -> bool {
        self.iface.attr().caps.contains(Caps::GET_PREPARED)
    }

    /// What an offered message of so many bytes takes one processor, as predicted; `None` if the lane
    /// moves it.
    fn copying(&self, bytes: u64) -> Option<Duration> {
        if self.iface.attr().caps.contains(Caps::CARRIES) {
            return None;
        }
        let ranges = self.choices.fetch.ranges();
        let range = ranges.iter().rfind(|range| range.from <= bytes);
        let alone = range.map_or(0.0, |range| range.protocol.copiers * range.cost(bytes));
        Some(Duration::from_nanos(alone as u64))
    }
}

impl crate::engine::Engine {
    fn watch(&mut self, key: Key) {
        if self.async_state.watched.len() == self.async_state.watched.capacity() {
            self.forget_ended();
            self.async_state.watched.reserve(RESERVE);
        }
        self.async_state.watched.push(key);
    }

    /// Forgets the watched receives that are complete. Allocates nothing.
    pub(crate) fn forget_ended(&mut self) {
        let requests = &self.requests;
        let open = |key: &Key| {
            let request = requests.get(*key).filter(|request| !request.done);
            request.is_some_and(|request| match &request.body {
                // Nothing is left to handlers of one that is acknowledged.
                Body::Receive(Receive { fetch, .. }) => {
                    fetch.as_ref().is_none_or(|fetch| !fetch.acknowledged)
                }
                _ => false,
            })
        };
        self.async_state.watched.retain(open);
        let under_way = |key: &Key| self.requests.get(*key).is_some_and(|request| !request.done);
        self.async_state.served.retain(under_way);
    }
}
