//! Mode `pef`: a *parasite execution flow* in the rank's own thread, after the thesis of J. A. Zounmevo
//! (Queen's University, 2014, chapter 3): a timer interrupts the thread, whose signal handler takes a
//! turn of the worker, and goes away again.
//!
//! ```text
//!   watch ── timer set to the phase ──► signal ── turn ──┬─ Idle ───────► off
//!                                         ▲              ├─ Copying ────► set to the period
//!                                         │              ├─ Moving ─────► set to when it is expected
//!                                         └── timer ◄────┴─ Waiting, Closed: set to the last time
//!                                                           x decay, `max_turns` times
//! ```
//! 1. The timer is the thread's (`timer_create`, `SIGEV_THREAD_ID`, `CLOCK_MONOTONIC`), armed only
//!    while receives are watched; the worker decides which are. Each further one begins with the
//!    phase again.
//! 2. The signal is the last real-time signal that has no handler, so that programs keep SIGALRM and
//!    friends. The handler is installed once and stays; `SA_RESTART` lets most system calls go on,
//!    but not those that wait for a time or for descriptors.
//! 3. What the handler calls is async-signal-safe: atomic operations, the turn ([`bowline_ucp::SideDoor::turn`],
//!    which allocates nothing and takes no lock), and `timer_settime`. It leaves `errno` as it was.
//! 4. A signal finds its worker by the number of a slot. A slot is emptied before its worker goes, and
//!    whoever empties it waits until no handler is in it; a signal that comes later finds nothing,
//!    or another worker, whose side door is for everybody.
//! 5. However short the period is, the thread has three quarters of its time: what a turn takes but for
//!    the copy, from the end of the timer to the end of the handler, is measured, and the next one comes
//!    after three times as long at the earliest. Where timers and signals are dear, as in some virtual
//!    machines, a period of some microseconds would leave the thread nothing.
//! 6. A turn copies for some ten times as long as a signal takes, so that signals are a small part of
//!    that; the next one comes after a quarter of it. It is work that the thread would do later, and
//!    the sooner it is done, the sooner the sender has its buffer back.
//! 7. A turn has to be worth its signal. A message that the processors copy in the time of some
//!    signals is looked for late: whoever computes that long has the time, and a program that waits
//!    soon is not disturbed.
//! 8. What others move is looked at when it should be complete, by what such bytes took before.
//! 9. The first look comes a phase behind the receive. Where it is in vain again and again, it comes later.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bowline_base::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use bowline_base::sync::yield_now;
use bowline_ucp::{Attendant, SideDoor, Turn, Watched};

use super::ProgressError;

/// Workers of one process.
pub(super) const SLOTS: usize = 1024;

/// When turns are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub(super) phase: Duration,
    pub(super) period: Duration,
    pub(super) decay: u32,
    pub(super) max_turns: u32,
    pub(super) worth: u32,
}

/// What the handler needs. Written by the thread and by the handler that interrupts it, so all of it
/// is atomic; Relaxed throughout, since a handler and the thread that it interrupts are in order
/// anyway. A timer of another thread is made only after this one's was deleted.
#[derive(Debug)]
struct Flow {
    door: SideDoor,
    schedule: Schedule,
    /// The timer as an address; null before it was made.
    timer: AtomicPtr<libc::c_void>,
    armed: AtomicBool,
    /// The last time that the timer was set to, in ns, and when that was.
    wait: AtomicU64,
    set_at: AtomicU64,
    /// What a turn takes of the thread's time beside the copy, in ns: from the timer's end to the
    /// handler's. Zero before the first.
    cost: AtomicU64,
    /// The least of the last turns, which is what a turn takes undisturbed; the least of those since,
    /// and how many.
    least: AtomicU64,
    least_since: AtomicU64,
    since: AtomicU32,
    /// When the last turn ended.
    ended: AtomicU64,
    turns: AtomicU32,
    /// Rule 9: from a receive to the first look, in ns, and whether that is to come.
    phase: AtomicU64,
    first: AtomicBool,
    /// Rule 8: what moving a byte takes, in 2^-20 ns; what is waited for, in bytes, none if zero; and
    /// since when.
    pace: AtomicU64,
    moving: AtomicU64,
    moving_since: AtomicU64,
    /// A look has found what was expected.
    met: AtomicBool,
}

struct Slot {
    flow: AtomicPtr<Flow>,
    /// A handler is in it.
    busy: AtomicU32,
}

static TABLE: [Slot; SLOTS] =
    [const { Slot { flow: AtomicPtr::new(std::ptr::null_mut()), busy: AtomicU32::new(0) } }; SLOTS];

/// Numbers of slots that are taken.
static TAKEN: Mutex<Vec<bool>> = Mutex::new(Vec::new());

/// Turns of all workers.
static TURNS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread is in a handler. Constant and without destructor: reading it runs no code.
    static IN_TURN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

pub(super) fn in_turn() -> bool {
    IN_TURN.get()
}

pub(super) fn turns_taken() -> u64 {
    // Relaxed: a count.
    TURNS.load(Ordering::Relaxed)
}

/// The attendant of one worker.
pub(super) struct Pef {
    slot: usize,
    flow: Arc<Flow>,
    /// The thread that the timer interrupts.
    thread: Option<libc::pid_t>,
    signal: libc::c_int,
}

impl Pef {
    pub(super) fn new(door: SideDoor, schedule: Schedule) -> Result<Self, ProgressError> {
        let signal = signal()?;
        let slot = take_slot().ok_or(ProgressError::TooManyRanks)?;
        let flow = Arc::new(Flow {
            door,
            schedule,
            timer: AtomicPtr::new(std::ptr::null_mut()),
            armed: AtomicBool::new(false),
            wait: AtomicU64::new(0),
            set_at: AtomicU64::new(0),
            cost: AtomicU64::new(0),
            least: AtomicU64::new(FIRST_COST),
            least_since: AtomicU64::new(u64::MAX),
            since: AtomicU32::new(0),
            ended: AtomicU64::new(0),
            turns: AtomicU32::new(0),
            phase: AtomicU64::new(nanos(schedule.phase)),
            first: AtomicBool::new(false),
            pace: AtomicU64::new(FIRST_PACE),
            moving: AtomicU64::new(0),
            moving_since: AtomicU64::new(0),
            met: AtomicBool::new(false),
        });
        // SeqCst: pairs with the load in `Slot::handle`.
        TABLE[slot].flow.store(Arc::as_ptr(&flow).cast_mut(), Ordering::SeqCst);
        let mut pef = Self { slot, flow, thread: None, signal };
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

impl Attendant for Pef {
    fn watch(&mut self, what: Watched) {
        if let Err(error) = self.follow_thread() {
            tracing::warn!(%error, "no turns while this thread computes");
            return;
        }
        self.flow.begin(what);
    }

    fn pause(&mut self) {
        self.flow.pause();
    }

    fn resume(&mut self) {
        if self.follow_thread().is_ok() {
            self.flow.resume();
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

impl Flow {
    /// A handler may come between any two lines of this.
    fn begin(&self, what: Watched) {
        // Relaxed, all: see `Flow`.
        let (phase, cost) =
            (self.phase.load(Ordering::Relaxed), self.least.load(Ordering::Relaxed));
        self.missed();
        let pays = |copy| nanos(copy) >= u64::from(self.schedule.worth) * cost;
        let wait = match what {
            Watched::Begun { copy } if pays(copy) => phase.max(BEGUN),
            // Its receiver has called, and is about to wait or gains nothing.
            Watched::Begun { .. } => return,
            // Rule 7.
            Watched::Awaited { copy: Some(copy) } if !pays(copy) => phase.max(LATE * cost),
            Watched::Awaited { .. } => phase,
        };
        self.turns.store(0, Ordering::Relaxed);
        self.set_if_sooner(wait, wait == phase);
    }

    fn set_if_sooner(&self, wait: u64, first: bool) {
        // Relaxed, all: see `Flow`. A handler that finds nothing to watch puts the flag down; from here
        // on it finds something.
        if self.armed.load(Ordering::Relaxed) && self.left() <= wait {
            return;
        }
        self.armed.store(true, Ordering::Relaxed);
        // In front of the timer: its signal may come before this returns.
        self.first.store(first, Ordering::Relaxed);
        self.set(wait);
    }

    /// Until the timer's end, as it was set last.
    fn left(&self) -> u64 {
        // Relaxed, all: see `Flow`.
        let end = self.set_at.load(Ordering::Relaxed) + self.wait.load(Ordering::Relaxed);
        end.saturating_sub(now())
    }

    /// The timer is off until `resume` or `begin`. A signal that comes all the same finds the flag down.
    fn pause(&self) {
        // Relaxed, all: see `Flow`.
        if self.armed.swap(false, Ordering::Relaxed) {
            let left = self.left();
            self.start_timer(0);
            self.wait.store(left, Ordering::Relaxed);
        }
    }

    /// As the timer was when it was stopped.
    fn resume(&self) {
        // Relaxed: see `Flow`.
        let left = self.wait.load(Ordering::Relaxed);
        self.set_if_sooner(left.max(nanos(self.schedule.phase)), false);
    }

    fn set(&self, wait: u64) {
        // Rule 5. Relaxed, all: see `Flow`.
        let time = now();
        let free =
            self.ended.load(Ordering::Relaxed) + THREADS_SHARE * self.cost.load(Ordering::Relaxed);
        let wait = wait.max(free.saturating_sub(time)).clamp(1, MAX_WAIT);
        self.wait.store(wait, Ordering::Relaxed);
        self.set_at.store(time, Ordering::Relaxed);
        self.start_timer(wait);
    }

    /// Never, if `wait` is zero.
    fn start_timer(&self, wait: u64) {
        // Relaxed: see `Flow`.
        let timer = self.timer.load(Ordering::Relaxed);
        let seconds = (wait / 1_000_000_000) as libc::time_t;
        let spec = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec { tv_sec: seconds, tv_nsec: (wait % 1_000_000_000) as _ },
        };
        // SAFETY: the timer is this flow's, or was deleted, which the system tells; the
        // structure outlives the call. Async-signal-safe by POSIX.
        unsafe { libc::timer_settime(timer, 0, &spec, std::ptr::null_mut()) };
    }

    /// In the handler.
    fn turn(&self) {
        // Relaxed, all: see `Flow`.
        if !self.armed.load(Ordering::Relaxed) {
            return;
        }
        // Relaxed: a count.
        TURNS.fetch_add(1, Ordering::Relaxed);
        let end = self.set_at.load(Ordering::Relaxed) + self.wait.load(Ordering::Relaxed);
        let start = now();
        let (turn, copied) = self.take(start);
        let ended = now();
        // The thread may have waited for its processor in between, which is no cost of the turn.
        let took = (ended.saturating_sub(end).saturating_sub(copied)).min(MOST_COST);
        let before = self.cost.load(Ordering::Relaxed);
        let cost = if before == 0 { took } else { (3 * before + took) / 4 };
        self.cost.store(cost, Ordering::Relaxed);
        self.note_least(took);
        self.ended.store(ended, Ordering::Relaxed);
        self.go_on(turn, copied, ended);
    }

    fn note_least(&self, took: u64) {
        // Relaxed, all: see `Flow`.
        let (least, since) =
            (self.least.load(Ordering::Relaxed), self.least_since.load(Ordering::Relaxed));
        let since = since.min(took);
        let count = self.since.load(Ordering::Relaxed) + 1;
        if count == LAST || since < least {
            self.least.store(since, Ordering::Relaxed);
            self.least_since.store(u64::MAX, Ordering::Relaxed);
            self.since.store(0, Ordering::Relaxed);
        } else {
            self.least_since.store(since, Ordering::Relaxed);
            self.since.store(count, Ordering::Relaxed);
        }
    }

    /// The turn, and for how long it has copied.
    fn take(&self, start: u64) -> (Turn, u64) {
        let mut last = start;
        let most = (COPY * self.least.load(Ordering::Relaxed)).clamp(SHORT_COPY, LONG_COPY);
        let turn = self.door.turn(|| {
            last = now();
            last - start < most
        });
        (turn, if last - start > LONG { last - start } else { 0 })
    }

    /// When the next one is.
    fn go_on(&self, turn: Turn, copied: u64, time: u64) {
        let period = nanos(self.schedule.period);
        // Relaxed, all: see `Flow`.
        self.learn(turn, time);
        match turn {
            Turn::Idle => self.armed.store(false, Ordering::Relaxed),
            Turn::Copying => {
                self.turns.store(0, Ordering::Relaxed);
                // Rule 6.
                self.set(period.max(copied / 4));
            }
            Turn::Moving { bytes } => {
                self.turns.store(0, Ordering::Relaxed);
                let pace = self.pace.load(Ordering::Relaxed);
                let all = ((u128::from(bytes) * u128::from(pace)) >> PACE_BITS) as u64;
                let passed = time.saturating_sub(self.moving_since.load(Ordering::Relaxed));
                self.set(all.saturating_sub(passed).max(all / 8).max(period));
            }
            Turn::Waiting | Turn::Closed => {
                let turns = self.turns.load(Ordering::Relaxed) + 1;
                self.turns.store(turns, Ordering::Relaxed);
                if turns >= self.schedule.max_turns {
                    return self.armed.store(false, Ordering::Relaxed);
                }
                let last = self.wait.load(Ordering::Relaxed);
                // A receive that was looked for late is looked for rarely.
                let next = if turns == 1 && last <= FEW * period {
                    period
                } else {
                    last.saturating_mul(u64::from(self.schedule.decay)).max(period)
                };
                self.set(next.min(MAX_WAIT));
            }
        }
    }

    /// Rules 8 and 9. A look that finds what it was for says that it may come a little earlier, one in
    /// vain that it should come later.
    fn learn(&self, turn: Turn, time: u64) {
        // Relaxed, all: see `Flow`.
        if self.first.swap(false, Ordering::Relaxed) {
            let phase = self.phase.load(Ordering::Relaxed);
            let cost = self.least.load(Ordering::Relaxed);
            let most = (FIRST * cost).max(nanos(self.schedule.phase));
            let next = match turn {
                // It came when the signal did, which takes its time.
                Turn::Waiting => phase * 5 / 4 + cost / 4,
                Turn::Closed => phase,
                _ => phase - phase / 32,
            };
            self.phase.store(next.clamp(nanos(self.schedule.phase), most), Ordering::Relaxed);
        }
        let before = self.moving.load(Ordering::Relaxed);
        let bytes = if let Turn::Moving { bytes } = turn { bytes } else { 0 };
        let pace = self.pace.load(Ordering::Relaxed);
        if before > 0 && turn != Turn::Closed {
            let took = time.saturating_sub(self.moving_since.load(Ordering::Relaxed));
            let pace = if bytes == 0 || bytes > before {
                // Others are complete, or it is.
                self.met.store(true, Ordering::Relaxed);
                pace - pace / 32
            } else if bytes < before {
                // As fast as what has moved.
                (took << PACE_BITS) / (before - bytes) * 9 / 8
            } else if self.met.load(Ordering::Relaxed) {
                pace * 9 / 8
            } else {
                pace * 3 / 2
            };
            self.pace.store(pace.clamp(LEAST_PACE, MOST_PACE), Ordering::Relaxed);
        }
        if bytes != before {
            self.moving.store(bytes, Ordering::Relaxed);
            self.moving_since.store(time, Ordering::Relaxed);
        }
    }

    /// What was moving when the timer stopped has ended in a call: nobody knows when, but before
    /// it was looked for.
    fn missed(&self) {
        // Relaxed, all: see `Flow`.
        if self.moving.swap(0, Ordering::Relaxed) > 0 && self.met.load(Ordering::Relaxed) {
            let pace = self.pace.load(Ordering::Relaxed);
            self.pace.store((pace - pace / 8).max(LEAST_PACE), Ordering::Relaxed);
        }
    }
}

/// Rule 6: a turn begins no further piece of a copy after the time of so many signals; within bounds,
/// in ns.
const COPY: u64 = 16;
const SHORT_COPY: u64 = 50_000;
const LONG_COPY: u64 = 500_000;

/// What a turn takes that copies nothing, in ns, at most.
const LONG: u64 = 5_000;

/// Rule 7: after the time of how many signals a message is looked for that is not worth one, so that
/// signals take some hundredths of the thread's time.
const LATE: u64 = 128;

/// What a signal is taken to cost before one was seen, in ns.
const FIRST_COST: u64 = 10_000;

/// The first wait is followed by the period if it was not longer than so many.
const FEW: u64 = 16;

/// Turns of which the least is taken.
const LAST: u32 = 8;

/// Rule 9: the first look comes after the time of so many signals at the latest.
const FIRST: u64 = 8;

/// The first look at a copy that was begun in the call, in ns: a program that waits at once has
/// come to that by then.
const BEGUN: u64 = 20_000;

/// Paces, in 2^-20 ns for each byte: 8 GB/s, and the bounds, 128 and 0.01 GB/s.
const PACE_BITS: u32 = 20;
const FIRST_PACE: u64 = (1 << PACE_BITS) / 8;
const LEAST_PACE: u64 = (1 << PACE_BITS) / 128;
const MOST_PACE: u64 = (1 << PACE_BITS) * 100;

/// Rule 5: how many times as long as a turn the thread has before the next one.
const THREADS_SHARE: u64 = 3;

/// The most that a turn is taken to cost, in ns.
const MOST_COST: u64 = 100_000;

/// Nanoseconds of the clock that the timer goes by.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place outlives the call. Async-signal-safe by POSIX.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The longest time between two looks, in ns.
const MAX_WAIT: u64 = 60_000_000_000;

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(MAX_WAIT)
}

impl Slot {
    fn handle(&self) {
        // SeqCst, all: pairs with the store and the load in `Pef::drop`: either this handler sees that the slot
        // is empty, or whoever has emptied it sees the handler, and waits.
        self.busy.fetch_add(1, Ordering::SeqCst);
        let flow = self.flow.load(Ordering::SeqCst);
        // SAFETY: null, or the flow of a `Pef`, which lets go of it only after it has emptied the slot and
        // seen that no handler is in it.
        if let Some(flow) = unsafe { flow.as_ref() } {
            let nested = IN_TURN.replace(true);
            flow.turn();
            IN_TURN.set(nested);
        }
        // SeqCst: pairs with the load in `Pef::drop`.
        self.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

extern "C" fn on_signal(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the place of `errno` of this thread, which is valid as long as the thread is.
    let errno = unsafe { &mut *libc::__errno_location() };
    let before = *errno;
    // SAFETY: installed with `SA_SIGINFO`, so that the system passes a structure that is filled in;
    // of a timer's signal the value is the one that the timer was made with.
    let (code, value) = unsafe { ((*info).si_code, (*info).si_value()) };
    if code == libc::SI_TIMER
        && let Some(slot) = TABLE.get(value.sival_ptr.addr())
    {
        slot.handle();
    }
    *errno = before;
}

/// The signal, whose handler is installed at the first call.
fn signal() -> Result<libc::c_int, ProgressError> {
    static SIGNAL: OnceLock<Option<libc::c_int>> = OnceLock::new();
    SIGNAL.get_or_init(install).ok_or(ProgressError::NoSignal)
}

fn install() -> Option<libc::c_int> {
    (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().find(|&signal| {
        // SAFETY: all zeroes is a value of this structure.
        let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: only asks; `old` outlives the call.
        let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) };
        if asked != 0 || old.sa_sigaction != libc::SIG_DFL {
            return false;
        }
        // SAFETY: as above. The mask is empty: turns of several workers may interrupt each other.
        let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
        new.sa_sigaction = on_signal as *const () as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the handler has the form that `SA_SIGINFO` wants, and does only what a handler may.
        unsafe { libc::sigaction(signal, &new, std::ptr::null_mut()) == 0 }
    })
}

/// Lets the signal through to this thread.
fn unblock(signal: libc::c_int) -> Result<(), ProgressError> {
    // SAFETY: all zeroes is a value of a set, which the next call makes an empty one.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` outlives the calls, and the number is a signal's.
    let done = unsafe {
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut())
    };
    if done == 0 {
        return Ok(());
    }
    let source = io::Error::from_raw_os_error(done);
    Err(ProgressError::System { act: "let its signal through", source })
}

fn take_slot() -> Option<usize> {
    let taken = &mut *TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(free) = taken.iter().position(|taken| !taken) {
        taken[free] = true;
        return Some(free);
    }
    (taken.len() < SLOTS).then(|| {
        taken.push(true);
        taken.len() - 1
    })
}
