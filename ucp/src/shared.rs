//! A worker that several threads use at once.
//!
//! There are three ways to have a worker and threads, and the type says which:
//!
//! | mode | type | what the program does |
//! |---|---|---|
//! | single | [`Worker`] | one thread has it |
//! | serialised | [`Worker`], which is `Send` | it goes from thread to thread, or lies in a lock of the program's |
//! | multiple | [`SharedWorker`] | any thread calls anything at any time |
//!
//! ```text
//!   thread ── with(op) ──► lock ── op ── settle ── unlock ── wakes the one at the turn, if it sleeps
//!   thread ── wait(id) ──► lock ── look ── there: done
//!                                  └─ nobody has the turn: progress, unlocked between two looks,
//!                                  │                       asleep without the lock
//!                                  └─ else: asleep on a word of its own, until done or at the turn
//! ```
//! Rules. (1) One lock for each worker; nobody sleeps with it. (2) One thread at a time makes progress
//! and sleeps on the transports ([`bowline_base::turn`] has the election and its model); the others
//! sleep on a word each. (3) Whoever looked, and so may have completed the requests of others, calls
//! those before the lock is free again. (4) Whoever has posted something while the one at the turn
//! sleeps wakes it: what a post leaves undone is moved on by progress. (5) The one at the turn lets
//! those who want the lock have it between two of its looks. (6) Any thread may complete, wait for or
//! cancel any request; the wait of two threads for one request ends for both, and one of them has the
//! status.
//!
//! Handlers of active messages and of errors run in whichever thread makes progress, with the lock:
//! they use the [`Worker`] that they are given. A handler that uses the shared worker instead would
//! wait for itself; that is a panic with this explanation.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_base::doorbell::Signal;
use bowline_base::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use bowline_base::sync::{thread_token, yield_now};
use bowline_base::turn::{Call, Role, Turns};

use crate::error::{OpError, WorkerError};
use crate::request::{RequestId, Status};
use crate::wait::{Idle, Stages, Waiter};
use crate::waits::Waits;
use crate::worker::{Worker, WorkerParts};

/// Yields of the one at the turn for those who want the lock.
const COURTESY: u32 = 64;

/// The waiter of a worker whose lock is held while it is used: it never sleeps.
struct Restless;

impl Waiter for Restless {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: u32::MAX }
    }
    fn yield_now(&mut self) {
        yield_now();
    }
    fn sleep(&mut self, _: Idle<'_>) {
        yield_now();
    }
}

/// What a parked thread waits for.
#[derive(Clone, Copy, Debug)]
enum Want {
    /// The end of a request.
    Request(RequestId),
    /// Anything that may change its condition.
    Event,
}

/// What lies under the lock.
#[derive(Debug)]
struct State {
    worker: Worker,
    turns: Turns<Want>,
    /// The one at the turn sleeps, or is about to.
    asleep: bool,
}

impl State {
    /// Rule 3. `events` says whether anything happened at all.
    fn settle(&mut self, events: bool) {
        let Self { worker, turns, .. } = self;
        turns.settle(|want| match *want {
            Want::Request(id) => worker.is_complete(id),
            Want::Event => events,
        });
    }

    fn progress(&mut self) -> u32 {
        let events = self.worker.progress();
        self.settle(events > 0);
        events
    }
}

/// A worker for several threads. See the module's text.
pub struct SharedWorker {
    state: Mutex<State>,
    /// Used only by the one at the turn.
    waiter: Mutex<Box<dyn Waiter>>,
    signal: Signal,
    /// Threads that want the lock.
    wanted: AtomicU32,
    /// Who has the lock; 0 for nobody.
    holder: AtomicUsize,
}

impl std::fmt::Debug for SharedWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedWorker").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

/// The lock, held.
struct Held<'a> {
    shared: &'a SharedWorker,
    state: MutexGuard<'a, State>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Relaxed: only the holder itself compares it with its own token.
        self.shared.holder.store(0, Ordering::Relaxed);
    }
}

impl SharedWorker {
    /// Makes a worker for several threads.
    ///
    /// # Errors
    /// As for [`Worker::new`].
    pub fn new(parts: WorkerParts) -> Result<Self, WorkerError> {
        Ok(Self::of(Worker::new(parts)?))
    }

    /// Shares a worker that one thread had so far.
    pub fn of(worker: Worker) -> Self {
        let waiter = worker.waiter.replace(Box::new(Restless));
        worker.shared.set(true);
        let signal = worker.signal();
        let state = State { worker, turns: Turns::default(), asleep: false };
        Self {
            state: Mutex::new(state),
            waiter: Mutex::new(waiter),
            signal,
            wanted: AtomicU32::new(0),
            holder: AtomicUsize::new(0),
        }
    }

    /// The worker for one thread again.
    ///
    /// # Panics
    /// When a thread panicked with the lock.
    pub fn into_inner(self) -> Worker {
        let state = self.state.into_inner().expect("no thread panicked inside of the worker");
        let waiter = self.waiter.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.worker.waiter.replace(waiter);
        state.worker.shared.set(false);
        state.worker
    }

    #[track_caller]
    fn lock(&self) -> Held<'_> {
        // Relaxed: a thread finds its own token only if it has stored it itself.
        assert!(
            self.holder.load(Ordering::Relaxed) != thread_token(),
            "a handler, or a closure of `with`, uses its shared worker; it is to use the worker that \
             it was given"
        );
        let state = self.state.try_lock().or_else(|refused| match refused {
            std::sync::TryLockError::Poisoned(poisoned) => Err(poisoned),
            std::sync::TryLockError::WouldBlock => {
                // Relaxed: a hint for rule 5.
                self.wanted.fetch_add(1, Ordering::Relaxed);
                let state = self.state.lock();
                self.wanted.fetch_sub(1, Ordering::Relaxed);
                state
            }
        });
        // A handler that panicked has left the worker as it was before or behind its call.
        let state = state.unwrap_or_else(PoisonError::into_inner);
        // Relaxed: as above.
        self.holder.store(thread_token(), Ordering::Relaxed);
        Held { shared: self, state }
    }

    /// Hands the worker to `op`, for any calls that do not wait: those would make the others wait with
    /// them. They keep their promises nevertheless.
    #[track_caller]
    pub fn with<R>(&self, op: impl FnOnce(&Worker) -> R) -> R {
        let mut held = self.lock();
        let result = op(&held.state.worker);
        held.state.settle(true);
        let asleep = std::mem::take(&mut held.state.asleep);
        drop(held);
        if asleep {
            // Rule 4.
            self.signal.raise();
        }
        result
    }

    /// Makes progress once. Returns how many events there were.
    pub fn progress(&self) -> u32 {
        self.lock().state.progress()
    }

    /// Wakes the thread that sleeps for the others, as [`Worker::signal`] does.
    pub fn signal(&self) -> Signal {
        self.signal.clone()
    }

    /// Waits for a request and frees it.
    pub fn wait(&self, id: RequestId) -> Status {
        self.until(Want::Request(id), |worker| worker.is_complete(id));
        let status = self.lock().state.worker.take(id);
        status.unwrap_or_else(|| Status::failed(OpError::Cancelled))
    }

    /// Waits for a request, frees it and returns the bytes that its buffer owned.
    pub fn wait_with_buffer(&self, id: RequestId) -> (Status, Option<Vec<u8>>) {
        self.until(Want::Request(id), |worker| worker.is_complete(id));
        let taken = self.lock().state.worker.take_with_buffer(id);
        taken.unwrap_or_else(|| (Status::failed(OpError::Cancelled), None))
    }

    /// Waits until `done` says so, which is asked, with the lock held, whenever something happened.
    pub fn wait_until(&self, done: impl FnMut(&Worker) -> bool) {
        self.until(Want::Event, done);
    }

    fn until(&self, want: Want, mut done: impl FnMut(&Worker) -> bool) {
        loop {
            let mut held = self.lock();
            held.state.progress();
            if done(&held.state.worker) {
                return;
            }
            let Role::Park(slot) = held.state.turns.enter(want) else {
                drop(held);
                return self.take_the_turn(&mut done);
            };
            let asleep = std::mem::take(&mut held.state.asleep);
            drop(held);
            if asleep {
                self.signal.raise();
            }
            if slot.wait() == Call::Elected {
                return self.take_the_turn(&mut done);
            }
        }
    }

    /// Progress for all, until `done`.
    fn take_the_turn(&self, done: &mut dyn FnMut(&Worker) -> bool) {
        let leaving = Leaving(self);
        let mut waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
        let stages = waiter.stages();
        let mut round = 0_u32;
        loop {
            let mut held = self.lock();
            let events = held.state.progress();
            if done(&held.state.worker) {
                drop(waiter);
                return leaving.now(&mut held);
            }
            round = if events > 0 { 0 } else { round.saturating_add(1) };
            if round > stages.spins.saturating_add(stages.yields) {
                let Some(nap) = held.state.worker.begin_nap() else { continue };
                held.state.asleep = true;
                drop(held);
                waiter.sleep(nap.idle(Waits::NOBODY));
                let mut held = self.lock();
                held.state.asleep = false;
                held.state.worker.end_nap();
                continue;
            }
            drop(held);
            if round > stages.spins {
                waiter.yield_now();
            }
            // Rule 5. Relaxed: a hint.
            let mut courtesy = COURTESY;
            while courtesy > 0 && self.wanted.load(Ordering::Relaxed) > 0 {
                yield_now();
                courtesy -= 1;
            }
        }
    }
}

/// Hands the turn on, also where a handler panics.
struct Leaving<'a>(&'a SharedWorker);

impl Leaving<'_> {
    fn now(self, held: &mut Held<'_>) {
        held.state.turns.leave();
        std::mem::forget(self);
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.lock().state.turns.leave();
    }
}
