//! Mode `pef`: a *parasite execution flow* in the rank's own thread, after the thesis of J. A. Zounmevo
//! (Queen's University, 2014, chapter 3): a timer interrupts the thread, whose signal handler takes a
//! turn of the worker, and goes away again.
//!
//! ```text
//!   watch ── timer set to the phase ──► signal ── turn ──┬─ Idle ───────► off
//!                                         ▲              ├─ Copying ────► set to the period
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
//! 5. However short the period is, the thread has three quarters of its time: what a turn takes, from
//!    the end of the timer to the end of the handler, is measured, and the next one comes after three
//!    times as long at the earliest. Where timers and signals are dear, as in some virtual machines,
//!    a period of some microseconds would leave the thread nothing.
//! 6. What a turn copies is chosen by what the turn before took, so that it takes some 20 to 50 us: less
//!    would be spent on signals, more is an interruption that the program feels.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bowline_base::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use bowline_base::sync::yield_now;
use bowline_ucp::{Attendant, SideDoor, Turn};

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
    /// What a turn takes of the thread's time, in ns: from the timer's end to the handler's.
    cost: AtomicU64,
    turns: AtomicU32,
    /// Pieces of a copy that a turn takes.
    pieces: AtomicU32,
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
            turns: AtomicU32::new(0),
            pieces: AtomicU32::new(1),
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
    fn watch(&mut self) {
        if let Err(error) = self.follow_thread() {
            tracing::warn!(%error, "no turns while this thread computes");
            return;
        }
        self.flow.begin();
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
    /// From the phase on. A handler may come between any two of these.
    fn begin(&self) {
        let period = nanos(self.schedule.period);
        // Relaxed, all: see `Flow`.
        self.turns.store(0, Ordering::Relaxed);
        let soon = self.wait.load(Ordering::Relaxed) <= period;
        // A handler that finds nothing to watch puts the flag down; from here on it finds something.
        if self.armed.load(Ordering::Relaxed) && soon {
            return;
        }
        self.armed.store(true, Ordering::Relaxed);
        self.set(nanos(self.schedule.phase));
    }

    fn set(&self, wait: u64) {
        // Rule 5. Relaxed, all: see `Flow`.
        let wait = wait.max(THREADS_SHARE * self.cost.load(Ordering::Relaxed));
        self.wait.store(wait, Ordering::Relaxed);
        self.set_at.store(now(), Ordering::Relaxed);
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
        // Relaxed: a count.
        TURNS.fetch_add(1, Ordering::Relaxed);
        // Relaxed, all: see `Flow`.
        let end = self.set_at.load(Ordering::Relaxed) + self.wait.load(Ordering::Relaxed);
        self.take();
        // The thread may have waited for its processor in between, which is no cost of the turn.
        let took = now().saturating_sub(end).min(MOST_COST);
        let before = self.cost.load(Ordering::Relaxed);
        self.cost.store((3 * before + took) / 4, Ordering::Relaxed);
    }

    fn take(&self) {
        let period = nanos(self.schedule.period);
        // Relaxed, all: see `Flow`.
        let (pieces, start) = (self.pieces.load(Ordering::Relaxed), now());
        let turn = self.door.turn(pieces);
        if turn == Turn::Copying {
            // Rule 6.
            let pieces = match now().saturating_sub(start) {
                ..SHORT_COPY => (pieces * 2).min(MOST_PIECES),
                LONG_COPY.. => (pieces / 2).max(1),
                _ => pieces,
            };
            self.pieces.store(pieces, Ordering::Relaxed);
        }
        match turn {
            Turn::Idle => self.armed.store(false, Ordering::Relaxed),
            Turn::Copying => {
                self.turns.store(0, Ordering::Relaxed);
                self.set(period);
            }
            Turn::Waiting | Turn::Closed => {
                let turns = self.turns.load(Ordering::Relaxed) + 1;
                self.turns.store(turns, Ordering::Relaxed);
                if turns >= self.schedule.max_turns {
                    return self.armed.store(false, Ordering::Relaxed);
                }
                let last = self.wait.load(Ordering::Relaxed);
                let next = if turns == 1 {
                    period
                } else {
                    last.saturating_mul(u64::from(self.schedule.decay)).max(period)
                };
                self.set(next.min(MAX_WAIT));
            }
        }
    }
}

/// Rule 6: a copy in a turn that took less, in ns, is followed by one of twice as many pieces; one that
/// took more, by one of half.
const SHORT_COPY: u64 = 20_000;
const LONG_COPY: u64 = 50_000;

/// Pieces in a turn at most.
const MOST_PIECES: u32 = 64;

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
