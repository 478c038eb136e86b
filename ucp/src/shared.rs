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
//!   thread ── with(op) ──► lock ── op ── settle ── unlock ── wakes the one that sleeps, if there is one
//!   thread ── progress ──► lock ── look ── settle ── unlock ── the same, if anything happened
//!   thread ── wait(id) ──► lock ── look ── there: done
//!                                  └─ nobody has the turn: progress, unlocked between two looks,
//!                                  │                       asleep without the lock
//!                                  └─ else: asleep on a word of its own, until done or at the turn
//! ```
//! Rules. (1) One lock for each worker; nobody sleeps with it. (2) One thread at a time makes progress
//! and sleeps on the transports; the others sleep on a word each. (3) Whoever looked, and so may have
//! completed the requests of others, calls those before the lock is free again. (4) Whoever has posted
//! something, or has taken in what the transports brought, wakes the thread that sleeps on them: what a
//! post leaves undone is moved on by progress, and what it sleeps for may be what was taken. That holds for
//! a thread that waits here and for one that sleeps on the worker's descriptor. (5) The elected thread lets
//! those who want the lock have it between two of its looks. (6) Any thread may complete, wait for or
//! cancel any request; the wait of two threads for one request ends for both, and one of them has the
//! status. The lock, the election and the wake-up are [`bowline_base::turn::Shared`], with its models.
//!
//! Handlers of active messages and of errors run in whichever thread makes progress, with the lock:
//! they use the [`Worker`] that they are given. A handler that uses the shared worker instead would
//! wait for itself; that is a panic with this explanation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_base::doorbell::Signal;
use bowline_base::sync::atomic::{AtomicUsize, Ordering};
use bowline_base::sync::{thread_token, yield_now};
use bowline_base::turn::{Bed, Driven, Shared};

use crate::error::{OpError, WorkerError};
use crate::request::{RequestId, Status};
use crate::wait::{Idle, Stages, Waiter};
use crate::waits::Waits;
use crate::wakeup::Nap;
use crate::worker::{Worker, WorkerParts};

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

/// Which thread runs code of the program with the lock; 0 for none.
#[derive(Debug, Default)]
struct Holder(AtomicUsize);

impl Holder {
    /// The calling thread runs code of the program until the end of `op`.
    fn during<R>(&self, op: impl FnOnce() -> R) -> R {
        struct Until<'a>(&'a Holder);
        impl Drop for Until<'_> {
            fn drop(&mut self) {
                // Relaxed: only the holder itself compares it with its own token.
                self.0.0.store(0, Ordering::Relaxed);
            }
        }
        // Relaxed: as above.
        self.0.store(thread_token(), Ordering::Relaxed);
        let _until = Until(self);
        op()
    }

    fn is_caller(&self) -> bool {
        // Relaxed: a thread finds its own token only if it has stored it itself.
        self.0.load(Ordering::Relaxed) == thread_token()
    }
}

/// What lies under the lock.
struct Inside {
    worker: Worker,
    holder: Arc<Holder>,
}

impl Driven for Inside {
    type Key = Want;
    type Nap = Nap;

    fn progress(&mut self) -> u32 {
        self.holder.during(|| self.worker.progress())
    }

    fn is_there(&mut self, want: &Want, events: bool) -> bool {
        match *want {
            Want::Request(id) => self.worker.is_complete(id),
            Want::Event => events,
        }
    }

    fn begin_nap(&mut self) -> Option<Nap> {
        self.worker.begin_nap()
    }

    fn end_nap(&mut self) {
        self.worker.end_nap();
    }

    fn other_sleep(&self) -> Option<u64> {
        self.worker.slept_on()
    }

    fn end_other_sleep(&mut self) {
        self.worker.forget_sleeper();
    }
}

/// How the elected thread passes its time.
struct Resting<'a> {
    shared: &'a SharedWorker,
    waiter: MutexGuard<'a, Box<dyn Waiter>>,
    stages: Stages,
}

impl Bed<Nap> for Resting<'_> {
    fn is_tired(&self, round: u32) -> bool {
        round > self.stages.spins.saturating_add(self.stages.yields)
    }

    fn rest(&mut self, round: u32) {
        if round > self.stages.spins {
            self.waiter.yield_now();
            let Stages { spins, yields } = self.waiter.stages();
            if round > spins.saturating_add(yields) {
                // Yields do not pay any more: the next round is the first that sleeps.
                self.stages.yields = round.saturating_sub(self.stages.spins);
            }
        }
    }

    fn sleep(&mut self, nap: Nap, round: u32) {
        let before = self.stages.spins.saturating_add(self.stages.yields);
        let first = round == before.saturating_add(1);
        self.waiter.sleep(nap.idle(Waits::of_shared(self.shared), first));
    }
}

/// A worker for several threads. See the module's text.
pub struct SharedWorker {
    inside: Shared<Inside, Box<dyn Fn() + Send + Sync>>,
    /// Used only by the elected thread.
    waiter: Mutex<Box<dyn Waiter>>,
    signal: Signal,
    holder: Arc<Holder>,
}

impl std::fmt::Debug for SharedWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedWorker").field("inside", &self.inside).finish_non_exhaustive()
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
        let waiter = Mutex::new(worker.waiter.replace(Box::new(Restless)));
        worker.shared.set(true);
        let signal = worker.signal();
        let holder = Arc::new(Holder::default());
        let inside = Inside { worker, holder: Arc::clone(&holder) };
        let wakes = signal.clone();
        let wake: Box<dyn Fn() + Send + Sync> = Box::new(move || wakes.raise());
        Self { inside: Shared::new(inside, wake), waiter, signal, holder }
    }

    /// The worker for one thread again.
    ///
    /// # Panics
    /// When a thread panicked with the lock.
    pub fn into_inner(self) -> Worker {
        let worker = self.inside.into_inner().worker;
        let waiter = self.waiter.into_inner().unwrap_or_else(PoisonError::into_inner);
        worker.waiter.replace(waiter);
        worker.shared.set(false);
        worker
    }

    #[track_caller]
    fn enter(&self) {
        assert!(
            !self.holder.is_caller(),
            "a handler, or a closure of `with`, uses its shared worker; it is to use the worker that \
             it was given"
        );
    }

    /// Hands the worker to `op`, for any calls that do not wait: those would make the others wait with
    /// them. They keep their promises nevertheless.
    #[track_caller]
    pub fn with<R>(&self, op: impl FnOnce(&Worker) -> R) -> R {
        self.enter();
        self.inside.with(|inside| inside.holder.during(|| op(&inside.worker)))
    }

    /// Makes progress once. Returns how many events there were.
    #[track_caller]
    pub fn progress(&self) -> u32 {
        self.enter();
        self.inside.progress()
    }

    /// Wakes the thread that sleeps for the others, as [`Worker::signal`] does.
    pub fn signal(&self) -> Signal {
        self.signal.clone()
    }

    /// Waits for a request and frees it.
    #[track_caller]
    pub fn wait(&self, id: RequestId) -> Status {
        self.until(Want::Request(id), |worker| worker.is_complete(id));
        let status = self.inside.look(|inside| inside.worker.take(id));
        status.unwrap_or_else(|| Status::failed(OpError::Cancelled))
    }

    /// Waits for a request, frees it and returns the bytes that its buffer owned.
    #[track_caller]
    pub fn wait_with_buffer(&self, id: RequestId) -> (Status, Option<Vec<u8>>) {
        self.until(Want::Request(id), |worker| worker.is_complete(id));
        let taken = self.inside.look(|inside| inside.worker.take_with_buffer(id));
        taken.unwrap_or_else(|| (Status::failed(OpError::Cancelled), None))
    }

    /// Waits until `done` says so, which is asked, with the lock held, whenever something happened.
    #[track_caller]
    pub fn wait_until(&self, done: impl FnMut(&Worker) -> bool) {
        self.until(Want::Event, done);
    }

    #[track_caller]
    fn until(&self, want: Want, mut done: impl FnMut(&Worker) -> bool) {
        self.enter();
        let mut done = |inside: &mut Inside| inside.holder.during(|| done(&inside.worker));
        self.inside.until(want, &mut done, || {
            let waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
            let stages = waiter.stages();
            Resting { shared: self, waiter, stages }
        });
    }

    /// Hands the worker to `look`, which changes nothing, if nobody has it.
    pub(crate) fn try_look<R>(&self, look: impl FnOnce(&Worker) -> R) -> Option<R> {
        if self.holder.is_caller() {
            return None;
        }
        self.inside.try_look(|inside| look(&inside.worker))
    }
}
