//! What drives the progress of a worker beside its calls, as the worker knows it: whom it notifies of receives, and when
//! that is to pause.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::Worker;

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

    /// A request was posted that a thread may move ([`RemoteWorker::serve_watched`](crate::RemoteWorker::serve_watched)).
    fn serve(&mut self);

    /// Whether its handlers copy messages also where ranks share processors, and a copy takes the processor from a rank. Asked
    /// when it is installed.
    fn copies_always(&self) -> bool;

    /// The thread waits in a call, which progresses: nothing beside before [`resume`](Self::resume), or
    /// before the next request.
    fn pause(&mut self);

    /// The call has ended, and requests are still watched.
    fn resume(&mut self, left: LeftToWatch);
}

/// For whom requests are left when a call that has waited ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftToWatch {
    /// Receives for signal handlers.
    pub handled: bool,
    /// Requests for a thread.
    pub served: bool,
}

/// The driver of a worker, if it has one.
#[derive(Default)]
pub(crate) struct InstalledDriver {
    pub(crate) driver: RefCell<Option<Box<dyn ProgressDriver>>>,
    /// It was notified of a request since it paused.
    pub(crate) watching: Cell<bool>,
    /// It has signal handlers.
    pub(crate) signals: Cell<bool>,
    /// They copy also where ranks share processors.
    pub(crate) copies_always: Cell<bool>,
    /// It has a thread for requests of lanes that handlers may not poll.
    pub(crate) serves: Cell<bool>,
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
        let left = {
            let engine = &mut self.worker.inner.borrow_mut().engine;
            engine.forget_ended();
            let handled = !engine.async_state.watched.is_empty();
            LeftToWatch { handled, served: !engine.async_state.served.is_empty() }
        };
        if !left.handled && !left.served {
            return;
        }
        self.worker.installed.watching.set(true);
        if let Some(driver) = &mut *self.worker.installed.driver.borrow_mut() {
            driver.resume(left);
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
