//! Waiting in three stages, and where knowledge of deaths comes from: both are given to a worker
//! at its making, so that ucp itself owns neither clock nor thread.
//!
//! ```text
//!  progress found nothing ──► spin ──(limit)──► yield ──(limit)──► arm, poll again, sleep
//!        ▲                                                               │
//!        └──────────────────── anything happened ◄───────────────────────┘
//! ```
//! Spinning is only for ranks that have a processor each; how often to yield before sleeping is
//! the waiter's to say.

use std::fmt;
use std::time::Duration;

use bowline_base::doorbell::{Doorbell, WakeSet};

/// How many empty progress calls each stage lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Empty calls before the first yield.
    pub spins: u32,
    /// Yields before sleep.
    pub yields: u32,
}

/// Everything that a worker waits for; shown as a list with commas between. It is found out when it is shown.
#[derive(Clone, Copy)]
pub struct Waits<'a>(pub(crate) &'a dyn fmt::Display);

impl fmt::Debug for Waits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Waits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a worker without work waits for.
#[derive(Debug)]
pub struct Idle<'a> {
    /// Rung by peers; `None` when a lane has no wakeup, so that sleeping must be short.
    pub doorbell: Option<&'a Doorbell>,
    /// What becomes readable when something arrives; then the doorbell stays silent. Empty where
    /// the doorbell rings for everything.
    pub descriptors: &'a WakeSet,
    /// Longest sleep, when something must be checked again.
    pub deadline: Option<Duration>,
    /// What is waited for; found out when it is shown.
    pub waits: Waits<'a>,
    /// Whether something has happened since the sleep before. A waiter that finds that nothing does for
    /// long may say so, with `waits`: ucp has no clock to see that by.
    pub first: bool,
}

/// Gives the time since a moment of its own choice; never goes back.
pub type Clock = Box<dyn Fn() -> Duration + Send>;

/// How a worker passes the time. One per worker; called by the thread that waits.
pub trait Waiter: Send {
    /// The stages; asked at the start of a wait and after each yield, since a yield may show that
    /// the next one does not pay.
    fn stages(&self) -> Stages;
    /// A clock, for what is done in intervals and to measure; asked for each of these once. Without one, such things are not done.
    fn clock(&self) -> Option<Clock> {
        None
    }
    /// Polls of shared memory before the first yield.
    fn polls_before_yield(&self) -> u32 {
        2
    }
    /// Whether the rank with this number in the job's world has another processor of this node now, as far as is known.
    fn runs(&self, _rank: u32) -> bool {
        false
    }
    /// Gives the processor to another thread.
    fn yield_now(&mut self);
    /// Sleeps until the doorbell rings or the deadline passes.
    fn sleep(&mut self, idle: Idle<'_>);
}

/// Who knows which ranks of the job are dead.
pub trait FailureSource: Send {
    /// Changes whenever the set of the dead does. One load: it is asked on every progress.
    fn generation(&self) -> u32;
    /// Appends the world ranks that are dead.
    fn dead(&self, out: &mut Vec<u32>);
}
