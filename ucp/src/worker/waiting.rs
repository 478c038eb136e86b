//! Waiting: the one loop of all waits of a worker, and when it polls again, gives the processor away
//! and sleeps.
//!
//! A thread that shares its worker with others waits in [`crate::shared`], whose loop takes the lock
//! in each round; [`Worker::yield_until`] never sleeps.

use std::time::Duration;

use bowline_base::slab::Key;
use bowline_base::worker_lock::OwnerGuard;

use super::Worker;
use super::driver::Pause;
use crate::engine::Inner;
use crate::request::RequestId;
use crate::status::{MessageInfo, OpStatus, ReceiveError};
use crate::wait::Stages;

/// Polls of [`Worker::yield_until`] between two progress calls.
const PROGRESS_EVERY: u32 = 16;

/// Polls for what a rank does that has a processor, before a yield: some 2 us, which is what the yield
/// would cost.
const POLLS_BESIDE: u32 = 64;

/// The stages of one wait.
struct Waiting<'a> {
    worker: &'a Worker,
    round: u32,
    stages: Option<Stages>,
}

impl<'a> Waiting<'a> {
    #[inline(always)]
    const fn new(worker: &'a Worker) -> Self {
        Self { worker, round: 0, stages: None }
    }

    /// Progress found nothing; whether to poll again at once. There is no pause instruction between:
    /// a poll of the queues takes longer than a pause is meant to, and on recent processors a pause
    /// alone costs more than half of a message's latency.
    #[inline]
    fn spins(&mut self) -> bool {
        let worker = self.worker;
        let stages = *self.stages.get_or_insert_with(|| worker.waiter.borrow().stages());
        self.round = self.round.saturating_add(1);
        self.round <= stages.spins
    }

    /// After a poll, and [`Waiting::spins`] if it found nothing: gives the processor away or sleeps
    /// when nothing was found for long.
    #[inline]
    fn rest(&mut self, events: u32) {
        if events > 0 {
            self.round = 0;
        } else if let Some(stages) = self.stages
            && self.round > stages.spins
        {
            self.long(stages);
        }
    }

    #[cold]
    fn long(&mut self, stages: Stages) {
        if self.round <= stages.spins.saturating_add(stages.yields) {
            let mut waiter = self.worker.waiter.borrow_mut();
            waiter.yield_now();
            let asked = waiter.stages();
            // Where yields do not pay any more, the next round is the first that sleeps.
            self.round = self.round.min(asked.spins.saturating_add(asked.yields));
            self.stages = Some(asked);
        } else {
            // The first one since something happened: the count begins anew with that.
            let before = stages.spins.saturating_add(stages.yields);
            if !self.worker.sleep(self.round == before.saturating_add(1)) {
                // Something has happened, which the next poll need not find: a helper may have dealt with it.
                self.round = before;
            }
        }
    }
}

impl Worker {
    /// The loop of every wait. It is entered with the worker borrowed, polls the lanes, calls handlers
    /// of the user, and rests, until one of two conditions holds. `inside` is asked about the worker after
    /// each poll that found something and the first one after entering, once the handlers of what came have been
    /// called, except of messages that wait for the end of a running handler. `outside` is code of the user and may
    /// call the worker. With `stays`, polls that find nothing follow each other inside of the worker,
    /// which is the shortest loop for a message; `outside` is then asked only between such rows.
    #[inline(always)]
    pub(crate) fn wait_loop<'a, R>(
        &'a self,
        inner: OwnerGuard<'a, Inner>,
        stays: bool,
        mut inside: impl FnMut(&mut Inner) -> Option<R>,
        mut outside: impl FnMut() -> Option<R>,
    ) -> R {
        let mut waiting = Waiting::new(self);
        let mut pause = Pause::new(self);
        // Declared behind the pause, so that the worker is left first: the end of a pause enters it.
        let mut inner = inner;
        // Since then others may have been inside.
        let mut entered = true;
        loop {
            let events = inner.progress();
            let deliver = !inner.engine.inbox.is_empty();
            if !deliver {
                if (events > 0 || entered)
                    && let Some(result) = inside(&mut inner)
                {
                    return result;
                }
                entered = false;
                if events == 0 && waiting.spins() && stays && !pause.is_wanted() {
                    continue;
                }
            }
            self.between_polls(inner, events, deliver, &mut waiting, &mut pause);
            if let Some(result) = outside() {
                return result;
            }
            inner = self.inner.borrow_mut();
            // The handlers of what came before have run, though the inbox need not be empty: a
            // message waits there while the handler of its id runs, which may be what called here.
            if deliver && let Some(result) = inside(&mut inner) {
                return result;
            }
            entered = true;
        }
    }

    /// What a wait does out of the worker when a poll brought something else, or nothing for long.
    #[inline(never)]
    fn between_polls(
        &self,
        inner: OwnerGuard<'_, Inner>,
        mut events: u32,
        deliver: bool,
        waiting: &mut Waiting<'_>,
        pause: &mut Pause<'_>,
    ) {
        drop(inner);
        if deliver {
            events = events.saturating_add(self.deliver());
            if events == 0 {
                waiting.spins();
            }
        }
        pause.begin();
        waiting.rest(events);
    }

    /// Waits for a request and frees it.
    #[inline]
    pub fn wait(&self, id: RequestId) -> OpStatus {
        let mut inner = self.inner.borrow_mut();
        match inner.engine.take_message(id.0) {
            Some(ended) => OpStatus::of(ended),
            None => self.wait_long(inner, id),
        }
    }

    /// The same for a request that is not complete.
    #[inline(never)]
    fn wait_long(&self, inner: OwnerGuard<'_, Inner>, id: RequestId) -> OpStatus {
        OpStatus::of(self.wait_loop(inner, true, |inner| inner.engine.take_message(id.0), || None))
    }

    /// Waits for a receive whose message was there when it was posted.
    #[inline(never)]
    pub(crate) fn wait_known(
        &self,
        mut inner: OwnerGuard<'_, Inner>,
        key: Key,
    ) -> Result<MessageInfo, ReceiveError> {
        if let Some(message) = inner.engine.take_message(key) {
            return message;
        }
        self.wait_long(inner, RequestId(key)).message()
    }

    /// Waits until `done` says so, which is asked after every progress.
    #[inline]
    pub fn wait_until(&self, mut done: impl FnMut() -> bool) {
        if !done() {
            self.wait_loop(self.inner.borrow_mut(), false, |_| None, || done().then_some(()));
        }
    }

    /// The same for something that may come without waking this worker: no sleep is longer than
    /// `period`.
    pub fn wait_until_within(&self, period: Duration, done: impl FnMut() -> bool) {
        let before = self.inner.borrow_mut().wakeup.poll_after.replace(period);
        self.wait_until(done);
        self.inner.borrow_mut().wakeup.poll_after = before;
    }

    /// Waits for something that no message announces, without sleeping: asks `done` before each
    /// yield of the processor, and progresses now and then. `false` when it is time to sleep. What is waited for is
    /// the part of a rank of the job, if `of` names one: while that rank has a processor, a yield
    /// would come too early.
    #[inline]
    pub fn yield_until(&self, of: Option<u32>, mut done: impl FnMut() -> bool) -> bool {
        let mut stages = self.waiter.borrow().stages();
        let (mut round, before) = (0, self.waiter.borrow().polls_before_yield().min(stages.spins));
        while round < stages.yields.saturating_add(stages.spins) {
            if done() {
                return true;
            }
            if round % PROGRESS_EVERY == PROGRESS_EVERY - 1 {
                self.progress();
            }
            if round >= before {
                let runs = || of.is_some_and(|rank| self.waiter.borrow().runs(rank));
                let mut polls = 0;
                while polls < POLLS_BESIDE && runs() {
                    std::hint::spin_loop();
                    if done() {
                        return true;
                    }
                    polls += 1;
                }
                let mut waiter = self.waiter.borrow_mut();
                waiter.yield_now();
                stages = waiter.stages();
            }
            round += 1;
        }
        done()
    }
}
