//! Mode `pef`: a *parasite execution flow* in the rank's own thread, after the thesis of J. A. Zounmevo
//! (Queen's University, 2014, chapter 3): a timer interrupts the thread, whose signal handler polls
//! for the worker's messages, and goes away again.
//!
//! ```text
//!   watch ── timer set to the phase ──► signal ── poll ──┬─ Idle ───────► off
//!                                         ▲              ├─ Copying ────► set to the period
//!                                         │              ├─ Moving ─────► set to when it is expected
//!                                         └── timer ◄────┴─ Waiting, Closed: set to the last time
//!                                                           x decay, `max_polls` times
//! ```
//! 1. The timer is the thread's (`timer_create`, `SIGEV_THREAD_ID`, `CLOCK_MONOTONIC`), armed only
//!    while receives are watched; the worker decides which are. Each further one begins with the
//!    phase again.
//! 2. The signal is the last real-time signal that has no handler, so that programs keep SIGALRM and
//!    friends. The handler is installed once and stays; `SA_RESTART` lets most system calls go on,
//!    but not those that wait for a time or for descriptors.
//! 3. What the handler calls is async-signal-safe: atomic operations, the poll ([`bowline_ucp::RemoteWorker::progress_signal_safe`],
//!    which allocates nothing and takes no lock), and `timer_settime`. It leaves `errno` as it was.
//! 4. A signal finds its worker by the number of a slot. A slot is emptied before its worker goes, and
//!    the thread that empties it waits until no handler is in it; a signal that comes later finds nothing,
//!    or another worker, whose handle is for any thread.
//! 5. However short the period is, the thread has three quarters of its time: what a poll takes but for
//!    the copy, from the end of the timer to the end of the handler, is measured, and the next one comes
//!    after three times as long at the earliest. Where timers and signals are dear, as in some virtual
//!    machines, a period of some microseconds would leave the thread nothing.
//! 6. A poll copies for some ten times as long as a signal takes, so that signals are a small part of
//!    that; the next one comes after a quarter of it. It is work that the thread would do later, and
//!    the sooner it is done, the sooner the sender has its buffer back.
//! 7. A poll has to be worth its signal. A message that the processors copy in the time of some
//!    signals is polled for late: a rank that computes that long has the time, and a program that waits
//!    soon is not disturbed.
//! 8. What others move is polled for when it should be complete, by what such bytes took before.
//! 9. The first poll comes a phase behind the receive. Where it is in vain again and again, it comes later.
//! 10. Where both ranks compute, a message that both would copy together in their waits is left alone, as the engine says
//!     ([`AsyncProgress::Left`](bowline_ucp::AsyncProgress::Left)); where senders are found to compute again and again, most
//!     messages are polled for late (`pef/absent.rs`).
//! 11. Where ranks share processors nothing is polled for that processors copy, unless polls are worth it always: the engine does
//!     not ask for it ([`ProgressDriver::copies_always`]).
//! 12. Lanes that no handler may poll (sockets, libfabric) have a thread that is asleep but while their long messages are
//!     under way and the rank computes (`pef/lane_thread.rs`).

mod absent;
mod flow;
mod lane_thread;
mod slot;

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bowline_base::sync::atomic::Ordering;
use bowline_base::sync::yield_now;
use bowline_ucp::{LeftToWatch, ProgressDriver, RemoteWorker, WatchedReceive};

use super::ProgressError;

use flow::Flow;
use lane_thread::LaneThread;
pub(super) use lane_thread::Phase;
use slot::{TABLE, TAKEN, signal, take_slot, unblock};

pub(super) use flow::{poll_count, timer_calls};
pub(super) use slot::{SLOTS, in_signal_handler};

/// When polls are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub(super) phase: Duration,
    pub(super) period: Duration,
    pub(super) decay: u32,
    pub(super) max_polls: u32,
    pub(super) worth: u32,
}

/// The driver of one worker.
pub(super) struct Pef {
    slot: usize,
    flow: Arc<Flow>,
    /// The thread that the timer interrupts.
    thread: Option<libc::pid_t>,
    signal: libc::c_int,
    /// Rule 12, if the worker has such lanes.
    lane_thread: Option<LaneThread>,
}

impl Pef {
    /// `served`: the worker has lanes that no handler may poll, and when their thread comes.
    pub(super) fn new(
        door: RemoteWorker,
        schedule: Schedule,
        served: Option<Phase>,
    ) -> Result<Self, ProgressError> {
        let signal = signal()?;
        let start = |phase| LaneThread::start(door.clone(), phase);
        let lane_thread = served.map(start).transpose()?;
        let slot = take_slot().ok_or(ProgressError::TooManyRanks)?;
        let flow = Arc::new(Flow::new(door, schedule));
        // SeqCst: pairs with the load in `Slot::handle`.
        TABLE[slot].flow.store(Arc::as_ptr(&flow).cast_mut(), Ordering::SeqCst);
        let mut pef = Self { slot, flow, thread: None, signal, lane_thread };
        // Now, so that a refusal is an error of the start.
        pef.follow_thread()?;
        Ok(pef)
    }

    /// Makes the timer, anew if the worker has come to another thread.
    fn follow_thread(&mut self) -> Result<(), ProgressError> {
        // SAFETY: no arguments, no memory.
        let thread = unsafe { libc::gettid() };
        if self.thread == Some(thread) {
            return Ok(());
        }
        self.delete_timer();
        unblock(self.signal)?;
        // SAFETY: all zeroes is a value of this structure of integers and pointers.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = self.signal;
        event.sigev_notify_thread_id = thread;
        event.sigev_value.sival_ptr = std::ptr::without_provenance_mut(self.slot);
        let mut timer = std::ptr::null_mut();
        // SAFETY: `event` is filled in, and both outlive the call.
        let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) };
        if made != 0 {
            let source = io::Error::last_os_error();
            return Err(ProgressError::System { act: "make a timer", source });
        }
        // Relaxed: see `Flow`.
        self.flow.timer.store(timer, Ordering::Relaxed);
        self.thread = Some(thread);
        Ok(())
    }

    fn delete_timer(&mut self) {
        if self.thread.take().is_some() {
            // Relaxed: see `Flow`. The timers of glibc are numbers, and zero is one of them.
            let timer = self.flow.timer.swap(std::ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: made by `follow_thread`, and deleted once: `thread` was there.
            unsafe { libc::timer_delete(timer) };
            self.flow.armed.store(false, Ordering::Relaxed);
        }
    }
}

impl ProgressDriver for Pef {
    fn watch(&mut self, what: WatchedReceive) {
        if let Err(error) = self.follow_thread() {
            tracing::warn!(%error, "no polls while this thread computes");
            return;
        }
        self.flow.begin(what);
    }

    fn serve(&mut self) {
        if let Some(thread) = &self.lane_thread {
            thread.begin();
        }
    }

    fn copies_always(&self) -> bool {
        self.flow.copies_always()
    }

    fn pause(&mut self) {
        self.flow.pause();
        if let Some(thread) = &self.lane_thread {
            thread.pause();
        }
    }

    fn resume(&mut self, left: LeftToWatch) {
        if left.handled && self.follow_thread().is_ok() {
            self.flow.resume();
        }
        if left.served {
            self.serve();
        }
    }
}

impl Drop for Pef {
    fn drop(&mut self) {
        self.delete_timer();
        let slot = &TABLE[self.slot];
        // SeqCst, both: pairs with those in `Slot::handle`.
        slot.flow.store(std::ptr::null_mut(), Ordering::SeqCst);
        // SeqCst: pairs with the additions in `Slot::handle`.
        while slot.busy.load(Ordering::SeqCst) != 0 {
            yield_now();
        }
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner)[self.slot] = false;
    }
}
