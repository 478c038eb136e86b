//! When polls are made, and a poll: rules 5 to 10 of [`super`].

use std::time::Duration;

use bowline_base::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use bowline_ucp::{AsyncProgress, RemoteWorker, WatchedReceive};

use super::Schedule;
use super::absent::Absent;

/// Polls of all workers.
static POLLS: AtomicU64 = AtomicU64::new(0);

/// Times that a timer was set or stopped.
static TIMER_CALLS: AtomicU64 = AtomicU64::new(0);

/// What the handler needs. Written by the thread and by the handler that interrupts it, so all of it
/// is atomic; Relaxed throughout, since a handler and the thread that it interrupts are in order
/// anyway. A timer of another thread is made only after this one's was deleted.
#[derive(Debug)]
pub(super) struct Flow {
    door: RemoteWorker,
    schedule: Schedule,
    /// The timer as an address; null before it was made.
    pub(super) timer: AtomicPtr<libc::c_void>,
    pub(super) armed: AtomicBool,
    /// The last time that the timer was set to, in ns, and when that was.
    wait: AtomicU64,
    set_at: AtomicU64,
    /// What a poll takes of the thread's time beside the copy, in ns: from the timer's end to the
    /// handler's. Zero before the first.
    cost: AtomicU64,
    /// The least of the last polls, which is what a poll takes undisturbed; the least of those since,
    /// and how many.
    least: AtomicU64,
    least_since: AtomicU64,
    since: AtomicU32,
    /// When the last poll ended.
    ended: AtomicU64,
    polls: AtomicU32,
    /// Rule 9: from a receive to the first poll, in ns, and whether that is to come.
    phase: AtomicU64,
    first: AtomicBool,
    /// Rule 8: what moving a byte takes, in 2^-20 ns; what is waited for, in bytes, none if zero; and
    /// since when.
    pace: AtomicU64,
    moving: AtomicU64,
    moving_since: AtomicU64,
    /// A poll has found what was expected.
    met: AtomicBool,
    /// Rule 10.
    absent: Absent,
}

impl Flow {
    /// Rule 11.
    pub(super) fn copies_always(&self) -> bool {
        self.schedule.worth == 0
    }

    pub(super) fn new(door: RemoteWorker, schedule: Schedule) -> Self {
        Self {
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
            polls: AtomicU32::new(0),
            phase: AtomicU64::new(nanos(schedule.phase)),
            first: AtomicBool::new(false),
            pace: AtomicU64::new(FIRST_PACE),
            moving: AtomicU64::new(0),
            moving_since: AtomicU64::new(0),
            met: AtomicBool::new(false),
            absent: Absent::default(),
        }
    }

    /// A handler may come between any two lines of this.
    pub(super) fn begin(&self, what: WatchedReceive) {
        // Relaxed, all: see `Flow`.
        let (phase, cost) =
            (self.phase.load(Ordering::Relaxed), self.least.load(Ordering::Relaxed));
        self.missed();
        let pays = |copy| nanos(copy) >= u64::from(self.schedule.worth) * cost;
        let wait = match what {
            // Its receiver has called, and is about to wait or gains nothing.
            WatchedReceive::Begun { copy } if !pays(copy) => return,
            WatchedReceive::Begun { .. } if self.absent.polls_early() => phase.max(BEGUN),
            WatchedReceive::Awaited { copy: None } => phase,
            WatchedReceive::Awaited { copy: Some(copy) }
                if pays(copy) && self.absent.polls_early() =>
            {
                phase
            }
            // Rules 7 and 10.
            WatchedReceive::Begun { .. } | WatchedReceive::Awaited { .. } => phase.max(LATE * cost),
        };
        self.polls.store(0, Ordering::Relaxed);
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

    /// The timer is off until `resume` or `begin`. A signal that comes nevertheless finds the flag down.
    pub(super) fn pause(&self) {
        // Relaxed, all: see `Flow`.
        if self.armed.swap(false, Ordering::Relaxed) {
            let left = self.left();
            self.start_timer(0);
            self.wait.store(left, Ordering::Relaxed);
        }
    }

    /// As the timer was when it was stopped.
    pub(super) fn resume(&self) {
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
        count_timer_call();
        // Relaxed: see `Flow`.
        let timer = self.timer.load(Ordering::Relaxed);
        let seconds = (wait / 1_000_000_000) as libc::time_t;
        let spec = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec { tv_sec: seconds, tv_nsec: (wait % 1_000_000_000) as _ },
        };
        // SAFETY: the timer is this flow's, or was deleted, which the system reports; the
        // structure outlives the call. Async-signal-safe by POSIX.
        unsafe { libc::timer_settime(timer, 0, &spec, std::ptr::null_mut()) };
    }

    /// In the handler.
    pub(super) fn poll(&self) {
        // Relaxed, all: see `Flow`.
        if !self.armed.load(Ordering::Relaxed) {
            return;
        }
        count_poll();
        let end = self.set_at.load(Ordering::Relaxed) + self.wait.load(Ordering::Relaxed);
        let start = now();
        let (poll, copied) = self.take(start);
        let ended = now();
        // The thread may have waited for its processor in between, which is no cost of the poll.
        let took = (ended.saturating_sub(end).saturating_sub(copied)).min(MOST_COST);
        let before = self.cost.load(Ordering::Relaxed);
        let cost = if before == 0 { took } else { (3 * before + took) / 4 };
        self.cost.store(cost, Ordering::Relaxed);
        self.note_least(took);
        self.ended.store(ended, Ordering::Relaxed);
        self.go_on(poll, copied, ended);
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

    /// The poll, and for how long it has copied.
    fn take(&self, start: u64) -> (AsyncProgress, u64) {
        let mut last = start;
        let most = (COPY * self.least.load(Ordering::Relaxed)).clamp(SHORT_COPY, LONG_COPY);
        let poll = self.door.progress_signal_safe(|| {
            last = now();
            last - start < most
        });
        (poll, if last - start > LONG { last - start } else { 0 })
    }

    /// When the next one is.
    fn go_on(&self, poll: AsyncProgress, copied: u64, time: u64) {
        let period = nanos(self.schedule.period);
        // Relaxed, all: see `Flow`.
        self.learn(poll, time);
        if matches!(poll, AsyncProgress::Idle | AsyncProgress::Moving { .. }) {
            self.absent.note_present();
        }
        match poll {
            AsyncProgress::Idle => self.armed.store(false, Ordering::Relaxed),
            AsyncProgress::Copying => {
                self.polls.store(0, Ordering::Relaxed);
                // Rule 6.
                self.set(period.max(copied / 4));
            }
            AsyncProgress::Left => {
                self.absent.note_absent();
                let polls = self.polls.load(Ordering::Relaxed) + 1;
                self.polls.store(polls, Ordering::Relaxed);
                if polls >= self.schedule.max_polls {
                    return self.armed.store(false, Ordering::Relaxed);
                }
                let last = self.wait.load(Ordering::Relaxed);
                let next = last.saturating_mul(u64::from(self.schedule.decay)).min(MAX_WAIT);
                self.set(next.max(LEFT * self.least.load(Ordering::Relaxed)).max(period));
            }
            AsyncProgress::Moving { bytes } => {
                self.polls.store(0, Ordering::Relaxed);
                let pace = self.pace.load(Ordering::Relaxed);
                let all = ((u128::from(bytes) * u128::from(pace)) >> PACE_BITS) as u64;
                let passed = time.saturating_sub(self.moving_since.load(Ordering::Relaxed));
                self.set(all.saturating_sub(passed).max(all / 8).max(period));
            }
            AsyncProgress::Waiting | AsyncProgress::Closed => {
                let polls = self.polls.load(Ordering::Relaxed) + 1;
                self.polls.store(polls, Ordering::Relaxed);
                if polls >= self.schedule.max_polls {
                    return self.armed.store(false, Ordering::Relaxed);
                }
                let last = self.wait.load(Ordering::Relaxed);
                // A receive that was polled for late is polled for rarely.
                let next = if polls == 1 && last <= FEW * period {
                    period
                } else {
                    last.saturating_mul(u64::from(self.schedule.decay)).max(period)
                };
                self.set(next.min(MAX_WAIT));
            }
        }
    }

    /// Rules 8 and 9. A poll that finds what it was for says that it may come a little earlier, one in
    /// vain that it should come later.
    fn learn(&self, poll: AsyncProgress, time: u64) {
        // Relaxed, all: see `Flow`.
        if self.first.swap(false, Ordering::Relaxed) {
            let phase = self.phase.load(Ordering::Relaxed);
            let cost = self.least.load(Ordering::Relaxed);
            let most = (FIRST * cost).max(nanos(self.schedule.phase));
            let next = match poll {
                // It came when the signal did, which takes its time.
                AsyncProgress::Waiting => phase * 5 / 4 + cost / 4,
                AsyncProgress::Closed => phase,
                _ => phase - phase / 32,
            };
            self.phase.store(next.clamp(nanos(self.schedule.phase), most), Ordering::Relaxed);
        }
        let before = self.moving.load(Ordering::Relaxed);
        let bytes = if let AsyncProgress::Moving { bytes } = poll { bytes } else { 0 };
        let pace = self.pace.load(Ordering::Relaxed);
        if before > 0 && poll != AsyncProgress::Closed {
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
    /// it was polled for.
    fn missed(&self) {
        // Relaxed, all: see `Flow`.
        if self.moving.swap(0, Ordering::Relaxed) > 0 && self.met.load(Ordering::Relaxed) {
            let pace = self.pace.load(Ordering::Relaxed);
            self.pace.store((pace - pace / 8).max(LEAST_PACE), Ordering::Relaxed);
        }
    }
}

/// Rule 6: a poll begins no further piece of a copy after the time of so many signals; within bounds,
/// in ns.
const COPY: u64 = 16;
const SHORT_COPY: u64 = 50_000;
const LONG_COPY: u64 = 500_000;

/// What a poll takes that copies nothing, in ns, at most.
const LONG: u64 = 5_000;

/// Rule 7: after the time of how many signals a message is polled for that is not worth one, so that
/// signals take some hundredths of the thread's time.
const LATE: u64 = 128;

/// Rule 10: a message whose sender does not come is polled for again after the time of so many signals.
const LEFT: u64 = 8;

/// What a signal is taken to cost before one was seen, in ns.
const FIRST_COST: u64 = 10_000;

/// The first wait is followed by the period if it was not longer than so many.
const FEW: u64 = 16;

/// Polls of which the least is taken.
const LAST: u32 = 8;

/// Rule 9: the first poll comes after the time of so many signals at the latest.
const FIRST: u64 = 8;

/// The first poll at a copy that was begun in the call, in ns: a program that waits at once has
/// come to that by then.
const BEGUN: u64 = 20_000;

/// Paces, in 2^-20 ns for each byte: 8 GB/s, and the bounds, 128 and 0.01 GB/s.
const PACE_BITS: u32 = 20;
const FIRST_PACE: u64 = (1 << PACE_BITS) / 8;
const LEAST_PACE: u64 = (1 << PACE_BITS) / 128;
const MOST_PACE: u64 = (1 << PACE_BITS) * 100;

/// Rule 5: how many times as long as a poll the thread has before the next one.
const THREADS_SHARE: u64 = 3;

/// The most that a poll is taken to cost, in ns.
const MOST_COST: u64 = 100_000;

/// Nanoseconds of the clock that the timer goes by.
pub(super) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place outlives the call. Async-signal-safe by POSIX.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The longest time between two polls, in ns.
const MAX_WAIT: u64 = 60_000_000_000;

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(MAX_WAIT)
}

/// A timer is set or stopped.
pub(super) fn count_timer_call() {
    // Relaxed: a count.
    TIMER_CALLS.fetch_add(1, Ordering::Relaxed);
}

/// A poll is made beside a rank.
pub(super) fn count_poll() {
    // Relaxed: a count.
    POLLS.fetch_add(1, Ordering::Relaxed);
}

/// Polls of all workers.
pub(in super::super) fn poll_count() -> u64 {
    // Relaxed: a count.
    POLLS.load(Ordering::Relaxed)
}

/// Times that a timer was set or stopped.
pub(in super::super) fn timer_calls() -> u64 {
    // Relaxed: a count.
    TIMER_CALLS.load(Ordering::Relaxed)
}
