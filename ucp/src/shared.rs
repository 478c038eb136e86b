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
//!   thread ── with(op) ──► claim ── op ── settle ── release ── wakes the leader, if it sleeps
//!   thread ── progress ──► claim ── poll ── settle ── release ── the same, if anything happened
//!   thread ── wait(id) ──► claim ── test ── there: done
//!                                   └─ there is no leader: progress, released between two polls,
//!                                   │                      asleep without a claim
//!                                   └─ else: asleep on a word of its own, until done or elected
//! ```
//! Rules. (1) The lock of each worker is the one that its inside has anyway
//! ([`worker_lock`](bowline_base::worker_lock)): a claim makes the thread its owner until the release; no thread sleeps
//! with a claim. (2) One thread at a time, the leader, makes progress and sleeps on the transports; the others sleep on
//! a word each. (3) A thread that polled, and so may have completed the requests of others, calls those before its
//! release. (4) A thread that has posted something, or has taken in what the transports brought, wakes the one that
//! sleeps on them: what a post leaves undone is moved on by progress, and what it sleeps for may be what was taken. That
//! holds for a thread that waits here and for one that sleeps on the worker's descriptor. (5) The leader lets
//! those that want the lock have it between two of its polls. (6) Any thread may complete, wait for or
//! cancel any request; the wait of two threads for one request ends for both, and one of them has the
//! status. The lock, the election and the wake-up are [`bowline_base::worker_lock::SharedLock`], with its models.
//!
//! Handlers of active messages and of errors run in the thread that makes progress, under its claim:
//! they use the [`Worker`] that they are given. A handler that uses the shared worker instead would
//! wait for itself; that is a panic with this explanation.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_base::doorbell::Signal;
use bowline_base::sync::yield_now;
use bowline_base::worker_lock::{Driven, Parker, SharedLock, WorkerLock};

use crate::engine::Inner;
use crate::error::{OpError, WorkerError};
use crate::request::RequestId;
use crate::state::wakeup::ArmedSleep;
use crate::status::OpStatus;
use crate::wait::{Idle, Stages, Waiter, Waits};
use crate::waits;
use crate::worker::{Worker, WorkerParts};

/// The waiter of a worker that is claimed while it is used: it never sleeps.
struct NeverSleeps;

impl Waiter for NeverSleeps {
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
enum ParkedFor {
    /// The end of a request.
    Request(RequestId),
    /// Anything that may change its condition.
    Event,
}

/// What is used under claims.
struct Inside(Worker);

impl Driven for Inside {
    type Value = Inner;
    type Key = ParkedFor;
    type ArmedSleep = ArmedSleep;

    fn lock(&self) -> &WorkerLock<Inner> {
        &self.0.inner
    }

    fn progress(&mut self) -> u32 {
        self.0.progress()
    }

    fn is_there(&mut self, want: &ParkedFor, events: bool) -> bool {
        match *want {
            ParkedFor::Request(id) => self.0.is_complete(id),
            ParkedFor::Event => events,
        }
    }

    fn arm_sleep(&mut self) -> Option<ArmedSleep> {
        self.0.arm_sleep()
    }

    fn end_sleep(&mut self) {
        self.0.end_sleep();
    }

    fn other_sleep(&self) -> Option<u64> {
        self.0.slept_on.get()
    }

    fn end_other_sleep(&mut self) {
        self.0.slept_on.set(None);
    }
}

/// How the leader passes its time.
struct SharedParker<'a> {
    shared: &'a SharedWorker,
    waiter: MutexGuard<'a, Box<dyn Waiter>>,
    stages: Stages,
}

impl Parker<ArmedSleep> for SharedParker<'_> {
    fn should_sleep(&self, round: u32) -> bool {
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

    fn sleep(&mut self, armed: ArmedSleep, round: u32) {
        let before = self.stages.spins.saturating_add(self.stages.yields);
        let first = round == before.saturating_add(1);
        self.waiter.sleep(armed.idle(Waits(&Waiting(self.shared)), first));
    }
}

/// What the threads of a worker wait for, whose lock somebody may have by now.
struct Waiting<'a>(&'a SharedWorker);

impl fmt::Display for Waiting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.0.inside.try_inspect(|inside| waits::text(&inside.0));
        f.write_str(found.as_deref().unwrap_or("what several threads wait for"))
    }
}

/// A worker for several threads. See the module's text.
pub struct SharedWorker {
    inside: SharedLock<Inside, Box<dyn Fn() + Send + Sync>>,
    /// Used only by the leader.
    waiter: Mutex<Box<dyn Waiter>>,
    signal: Signal,
}

impl fmt::Debug for SharedWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        let waiter = Mutex::new(worker.waiter.replace(Box::new(NeverSleeps)));
        let signal = worker.signal();
        let wakes = signal.clone();
        let wake: Box<dyn Fn() + Send + Sync> = Box::new(move || wakes.raise());
        Self { inside: SharedLock::new(Inside(worker), wake), waiter, signal }
    }

    /// The worker for one thread again.
    pub fn into_inner(self) -> Worker {
        let Inside(worker) = self.inside.into_inner();
        let waiter = self.waiter.into_inner().unwrap_or_else(PoisonError::into_inner);
        worker.waiter.replace(waiter);
        worker
    }

    /// Hands the worker to `op`, for any calls that do not wait: those would make the others wait with
    /// them, and a progress thread, too, so that a wait for what its
    /// [background work](Worker::set_background_work) does would not end.
    #[track_caller]
    pub fn with<R>(&self, op: impl FnOnce(&Worker) -> R) -> R {
        self.inside.with(|inside| op(&inside.0))
    }

    /// Makes progress once. Returns how many events there were.
    #[track_caller]
    pub fn progress(&self) -> u32 {
        self.inside.progress()
    }

    /// Wakes the thread that sleeps for the others, as [`Worker::signal`] does.
    pub fn signal(&self) -> Signal {
        self.signal.clone()
    }

    /// Waits for a request and frees it.
    #[track_caller]
    pub fn wait(&self, id: RequestId) -> OpStatus {
        let status = self.ended(id, |worker| worker.take(id));
        status.unwrap_or_else(|| OpStatus::failed(OpError::Cancelled))
    }

    /// Waits for a request, frees it and returns the bytes that its buffer owned.
    #[track_caller]
    pub fn wait_with_buffer(&self, id: RequestId) -> (OpStatus, Option<Vec<u8>>) {
        let taken = self.ended(id, |worker| worker.take_with_buffer(id));
        taken.unwrap_or_else(|| (OpStatus::failed(OpError::Cancelled), None))
    }

    /// Waits for a request and takes it under the claim that finds it complete.
    #[track_caller]
    fn ended<R>(&self, id: RequestId, take: impl Fn(&Worker) -> Option<R>) -> Option<R> {
        let mut taken = None;
        self.until(ParkedFor::Request(id), |worker| {
            let ended = worker.is_complete(id);
            if ended {
                taken = take(worker);
            }
            ended
        });
        taken
    }

    /// Waits until `done` says so, which is asked, under a claim, whenever something happened.
    #[track_caller]
    pub fn wait_until(&self, done: impl FnMut(&Worker) -> bool) {
        self.until(ParkedFor::Event, done);
    }

    #[track_caller]
    fn until(&self, want: ParkedFor, mut done: impl FnMut(&Worker) -> bool) {
        let mut done = |inside: &mut Inside| done(&inside.0);
        self.inside.until(want, &mut done, || {
            let waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
            let stages = waiter.stages();
            SharedParker { shared: self, waiter, stages }
        });
    }
}
