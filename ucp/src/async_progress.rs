//! Asynchronous progress: what moves a worker on while its thread computes.
//!
//! Two kinds of drivers use it, which live outside of this crate, since they need a clock, signals
//! or threads. Both enter by remote handles of the worker's lock ([`bowline_base::worker_lock`]), so that there is one
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
//!    others need nobody: what a transport moves was started in the call. While the thread waits in a
//!    call, which progresses, there are no signals ([`Pause`]).
//! 2. *What a signal handler does.* It takes arrivals that need no memory but what is kept ready here
//!    ([`AsyncState`]), starts the transfers of matched messages, copies a few pieces where the
//!    processor copies, and acknowledges what is complete. Everything else stays, in order: messages in
//!    their lanes, actions in their list, for the next call of the worker.
//! 3. *What it never does.* It allocates and frees nothing, takes no lock, waits for nobody, writes
//!    no log and calls nobody back. Callbacks, errors, first contacts and the end of peers are not for
//!    handlers. The tests of the facade hammer on it with an allocator that does not allow it.
//! 4. *Sleep.* A worker that is about to sleep shuts handlers out until it is awake, and does not
//!    sleep if there was one since its last look: the arrival that it would be woken for may be gone.
//!    With a progress thread it sleeps on that thread's news instead of the lanes, which the thread sleeps on.

mod act;
mod sink;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use bowline_base::doorbell::{Doorbell, Sleep, WakeSet};
use bowline_base::slab::Key;
use bowline_base::worker_lock::{RemoteGuard, RemoteHandle};
use bowline_uct::Caps;

use crate::background::BackgroundWork;
use crate::proto;
use crate::request::{Body, Fetch};
use crate::waits::Waits;
use crate::wakeup::Nap;
use crate::wire::{self, CoopRequest};
use crate::worker::{Inner, Worker};

/// Boxes of each kind that are kept ready.
const READY: usize = 32;

/// Room for boxes that come back; and actions and other notes that a handler may add.
pub(crate) const ROOM: usize = 128;

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
}

/// A receive that a driver is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedReceive {
    /// Its message has not come.
    Awaited {
        /// What a message of this length takes a processor that copies it, as predicted; none if the
        /// transport moves it.
        copy: Option<Duration>,
    },
    /// Its message was there, and its receiver has begun to copy it.
    Begun {
        /// What the rest takes a processor, as predicted.
        copy: Duration,
    },
}

/// What drives the progress of a worker from outside of its calls; notified when there is something to watch.
pub trait ProgressDriver: Send {
    /// A receive was posted that signal handlers may move. Called by the worker's thread, outside of the worker,
    /// as the others.
    fn watch(&mut self, what: WatchedReceive);

    /// The thread waits in a call, which progresses: no signals before [`resume`](Self::resume), or
    /// before the next receive.
    fn pause(&mut self);

    /// The call has ended, and receives are still watched.
    fn resume(&mut self);
}

/// What drives a worker beside its own calls.
#[derive(Debug)]
pub enum DriverKind {
    /// A signal handler of its thread.
    Signal,
    /// A thread that sleeps on its lanes. The doorbell, a private one, is rung when that thread
    /// has found something.
    Thread(Doorbell),
}

/// The driver of a worker, if it has one.
#[derive(Default)]
pub(crate) struct InstalledDriver {
    driver: RefCell<Option<Box<dyn ProgressDriver>>>,
    /// It was notified of a receive since it paused.
    watching: Cell<bool>,
}

/// The driver's pause while a call waits; it ends with this.
pub(crate) struct Pause<'a> {
    worker: &'a Worker,
    paused: bool,
}

impl<'a> Pause<'a> {
    #[inline]
    pub(crate) fn new(worker: &'a Worker) -> Self {
        Self { worker, paused: false }
    }

    /// Whether there is something to pause. Asked inside of the worker; a pause begins outside.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.worker.installed.watching.get()
    }

    /// The call has to wait.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if self.is_wanted() {
            self.pause();
        }
    }

    #[cold]
    fn pause(&mut self) {
        self.paused = true;
        self.worker.installed.watching.set(false);
        if let Some(driver) = &mut *self.worker.installed.driver.borrow_mut() {
            driver.pause();
        }
    }

    #[cold]
    fn end(&mut self) {
        {
            let engine = &mut self.worker.inner.borrow_mut().engine;
            engine.forget_ended();
            if engine.async_state.watched.is_empty() {
                return;
            }
        }
        self.worker.installed.watching.set(true);
        if let Some(driver) = &mut *self.worker.installed.driver.borrow_mut() {
            driver.resume();
        }
    }
}

impl Drop for Pause<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.paused {
            self.end();
        }
    }
}

/// What is kept ready for signal handlers, and which receives they are for.
pub(crate) struct AsyncState {
    /// The shortest receive that is watched; none by default.
    pub(crate) from: usize,
    watched: Vec<Key>,
    #[expect(clippy::vec_box, reason = "it is the boxes that are kept")]
    fetches: Vec<Box<Fetch>>,
    payloads: Vec<Vec<u8>>,
    /// There was progress beside it since the last look of the worker itself.
    progressed: bool,
    /// The worker sleeps, or is about to.
    asleep: bool,
    /// A receive whose message goes to a callback was posted.
    pub(crate) callbacks: bool,
    news: Option<Doorbell>,
    /// The progress thread was called since its last look: what it is to look at rings no doorbell that is not armed yet.
    pub(crate) called: bool,
    /// What the progress thread moves on beside the lanes.
    pub(crate) background: Option<Arc<dyn BackgroundWork>>,
}

impl AsyncState {
    pub(crate) const NONE: Self = Self {
        from: usize::MAX,
        watched: Vec::new(),
        fetches: Vec::new(),
        payloads: Vec::new(),
        progressed: false,
        asleep: false,
        callbacks: false,
        news: None,
        called: false,
        background: None,
    };

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
        self.news.is_some()
    }

    /// Takes a box back. It goes where there is room for it, which a handler has looked for before.
    pub(crate) fn keep(&mut self, place: Box<Fetch>) {
        if self.fetches.len() < self.fetches.capacity() {
            self.fetches.push(place);
        }
    }

    /// Whether there are payloads for what one message may ask for.
    pub(crate) fn has_payloads(&self) -> bool {
        self.payloads.len() > 1
    }

    /// A payload that has to wait for room in its lane.
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
    fn provide(&mut self) {
        self.fetches.reserve(ROOM);
        while self.fetches.len() < READY {
            self.fetches.push(Box::new(Fetch::NONE));
        }
        while self.payloads.len() < READY {
            self.payloads.push(Vec::with_capacity(CoopRequest::FIXED + wire::MAX_RKEY));
        }
    }
}

/// A worker as its driver sees it, from beside its thread.
#[derive(Clone, Debug)]
pub struct RemoteWorker(RemoteHandle<Inner>);

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
            // What was left before is looked at now. What this look itself leaves waits for an arrival, which rings.
            inner.engine.async_state.called = false;
            if events > 0 {
                inner.has_news();
            }
            (events, inner.engine.async_state.background.clone())
        };
        let moved = beside.is_some_and(|work| work.advance(self));
        if moved {
            self.enter().has_news();
        }
        events + u32::from(moved)
    }

    /// Enters by it.
    pub(crate) fn enter(&self) -> RemoteGuard<'_, Inner> {
        self.0.enter()
    }

    /// Has `wait` called to sleep on the lanes, by a progress thread, unless something is there: with
    /// what is rung, or with descriptors, and with how long to sleep at most.
    pub fn sleep(&self, wait: impl FnOnce(Option<&Doorbell>, &WakeSet, Option<Duration>)) {
        let nap = {
            let inner = &mut *self.0.enter();
            if inner.engine.async_state.called {
                return;
            }
            // From here on a call rings: the doorbell is armed before anybody else can enter.
            let nap = inner.begin_nap();
            if nap.is_none() {
                // A death may have ended requests.
                inner.has_news();
            }
            nap
        };
        if let Some(Nap { doorbell, descriptors, mut deadline }) = nap {
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
        *driver = Some(make(RemoteWorker(self.inner.remote()))?);
        let inner = &mut *self.inner.borrow_mut();
        match how {
            DriverKind::Signal => {
                inner.engine.async_state.from = inner.first_watched();
                inner.provide();
            }
            DriverKind::Thread(news) => inner.engine.async_state.news = Some(news),
        }
        Ok(())
    }

    /// A long receive was posted: looks once if no message of its was known, and has it watched if
    /// there is none, or one that takes its receiver long to copy.
    #[cold]
    pub(crate) fn watch(&self, key: Key, known: bool) {
        let what = {
            let inner = &mut *self.inner.borrow_mut();
            if !known {
                inner.progress();
            }
            let Some(what) = inner.gain(key) else { return };
            inner.provide();
            inner.engine.watch(key);
            what
        };
        self.installed.watching.set(true);
        if let Some(driver) = &mut *self.installed.driver.borrow_mut() {
            driver.watch(what);
        }
    }

    /// Sleeps until the progress thread has news, where there is one: then whether it slept, as [`sleep`](Self::sleep) does.
    #[cold]
    pub(crate) fn sleep_beside_thread(&self, first: bool) -> Option<bool> {
        let (news, deadline) = {
            let inner = &mut *self.inner.borrow_mut();
            let news = inner.engine.async_state.news.clone()?;
            if inner.has_async_progress() {
                return Some(false);
            }
            news.arm(Sleep::Futex);
            // The thread may sleep without knowing what is waited for now, room in a lane for
            // instance.
            inner.call_progress_thread();
            (news, inner.wakeup.look)
        };
        let nap = Nap { doorbell: Some(news), descriptors: Arc::default(), deadline };
        self.sleeps.set(self.sleeps.get() + 1);
        self.waiter.borrow_mut().sleep(nap.idle(Waits::of(self), first));
        if let Some(news) = nap.doorbell {
            news.disarm();
        }
        Some(true)
    }
}

impl Inner {
    /// What signal handlers can do for a receive that was just posted, if anything.
    fn gain(&self, key: Key) -> Option<WatchedReceive> {
        let request = self.engine.requests.get(key).filter(|request| !request.done)?;
        let Body::Receive(receive) = &request.body else { return None };
        let Some(fetch) = &receive.fetch else {
            // Whose it will be is not known yet: any lane's that handlers look at.
            let lanes = self.lanes.iter().filter(|lane| lane.is_signal_safe());
            let bytes = receive.buffer.len_or_mark() as u64;
            let copy = lanes.map(|lane| lane.copying(bytes)).reduce(|a, b| Some(a?.max(b?)));
            return Some(WatchedReceive::Awaited { copy: copy.flatten() });
        };
        let rest = fetch.receiver.as_ref()?.left_to_copy(fetch.wanted)?;
        let lane = self.engine.peers[fetch.peer as usize].lane as usize;
        Some(WatchedReceive::Begun { copy: self.lanes[lane].copying(rest)? })
    }

    /// The shortest receive that a rendezvous may match.
    fn first_watched(&self) -> usize {
        let lanes = self.lanes.iter().filter(|lane| lane.is_signal_safe());
        let shortest = lanes.flat_map(|lane| {
            let rendezvous = proto::ALL.iter().filter(|protocol| protocol.rendezvous);
            rendezvous.filter_map(|protocol| lane.choices.tag_send.first(protocol))
        });
        shortest.min().map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Makes ready what signal handlers use.
    fn provide(&mut self) {
        let engine = &mut self.engine;
        engine.async_state.provide();
        engine.actions.reserve(ROOM);
        engine.protocols.kept.provide();
        for lane in self.lanes.iter_mut().filter(|lane| lane.is_signal_safe()) {
            lane.prepare_cursors();
        }
    }

    /// The progress thread has found something: wakes the worker's thread.
    fn has_news(&mut self) {
        self.engine.async_state.progressed = true;
        if let Some(news) = &self.engine.async_state.news {
            news.ring();
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

impl crate::lanes::Lane {
    /// Whether signal handlers look at it.
    pub(crate) fn is_signal_safe(&self) -> bool {
        self.iface.attr().caps.contains(Caps::SIGNAL_SAFE)
    }

    /// What an offered message of so many bytes takes one processor, as predicted; `None` if the lane
    /// moves it.
    fn copying(&self, bytes: u64) -> Option<Duration> {
        if self.iface.attr().caps.contains(Caps::CARRIES) {
            return None;
        }
        let ranges = self.choices.fetch.ranges();
        let range = ranges.iter().rfind(|range| range.from <= bytes);
        let alone = range.map_or(0.0, |range| range.protocol.life.copiers() * range.cost(bytes));
        Some(Duration::from_nanos(alone as u64))
    }
}

impl crate::engine::Engine {
    fn watch(&mut self, key: Key) {
        if self.async_state.watched.len() == self.async_state.watched.capacity() {
            self.forget_ended();
            self.async_state.watched.reserve(ROOM);
        }
        self.async_state.watched.push(key);
    }

    /// Forgets the watched receives that are complete. Allocates nothing.
    fn forget_ended(&mut self) {
        let requests = &self.requests;
        let open = |key: &Key| {
            requests
                .get(*key)
                .is_some_and(|request| !request.done && matches!(request.body, Body::Receive(_)))
        };
        self.async_state.watched.retain(open);
    }
}
