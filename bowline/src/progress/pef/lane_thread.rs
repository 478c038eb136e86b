//! Rule 11 of [`super`]: a thread for the lanes that no signal handler may poll, since their calls may lock, allocate
//! or sleep. It is not the thread of mode `thread`, which every message of every lane wakes.
//!
//! ```text
//!            begin: the timer is set to the phase       the timer ends
//!   IDLE ─────────────────────────────────► AWAITED ─────────────────────► SERVING ── polls, sleeps on the lanes ──┐
//!    ▲ ▲                                       │                             │  ▲                                  │
//!    │ └── pause ──────────────────────────────┘                             │  └──────────────────────────────────┘
//!    └─── pause, or no request is left, or the rank sleeps ──────────────────┘
//! ```
//! 1. [`Alarm`] has the rules of the two flags. The thread is wanted in AWAITED and SERVING.
//! 2. The timer is the dear part: to set it takes some microseconds in a virtual machine. So `pause` does not stop it, and
//!    `begin` sets none while one runs. The thread that it wakes goes to sleep again, for the rest of a phase
//!    that began later.
//! 3. A phase in vain, after which the rank waits before the thread has come, makes the next one longer; one in which the
//!    thread has served makes it shorter. A program that waits at once wakes the thread once in [`LONGEST`].
//! 4. Where all ranks are on one host, processors carry every message, so that to move one beside a computation on the same
//!    processors takes more than it saves: the first phase is [`LATE`], of which a message's time is a small part. A phase that
//!    the user has set is taken as it is.
//! 5. The timer is a descriptor among those that the thread sleeps on while it serves, so that its end is heard in every
//!    state.
//! 6. The lanes wake the thread when they have something. Each sleep in vain, at the end of which it has polled, is
//!    followed by one twice as long, up to [`LONGEST_SLEEP`]; but not where a lane wakes nobody, and where the program
//!    sleeps on the lanes itself now and then.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bowline_base::alarm::Alarm;
use bowline_base::doorbell::WakeSet;
use bowline_base::helper_thread::without_signals;
use bowline_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use bowline_ucp::RemoteWorker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::super::ProgressError;
use super::super::helper::EndsProcess;
use super::flow::{count_poll, count_timer_call, nanos, now};

/// From a request to the first poll, at least: a program that waits at once has come to that by then. And at most, after
/// phases in vain (rule 3).
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_micros(640);

/// The phase of rule 4. A wake-up takes the rank some tens of microseconds in a virtual machine: one for each 3 ms made
/// computations on one host 3 % longer.
const LATE: Duration = Duration::from_millis(30);

/// Polls before the thread sleeps on the lanes: an answer often comes at once.
const POLLS: u32 = 3;

/// Rule 6.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// When the thread comes.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Phase {
    /// So long after a request was posted, as the user wants it.
    Set(Duration),
    /// Soon, since ranks of the job are on other hosts.
    Hosts,
    /// Late: rule 4.
    OneHost,
}

impl Phase {
    const fn least(self) -> Duration {
        match self {
            Self::Set(phase) => phase,
            Self::Hosts => SHORTEST,
            Self::OneHost => LATE,
        }
    }
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct LaneThread {
    shared: Arc<Shared>,
    /// The phase as it was asked for.
    least: Duration,
    thread: Option<JoinHandle<()>>,
}

/// What the rank and the thread share.
#[derive(Debug)]
struct Shared {
    timer: OwnedFd,
    alarm: Alarm,
    /// The thread has served since this was last asked.
    served: AtomicBool,
    /// When the phase ends, and how long one is, in ns.
    ends: AtomicU64,
    phase: AtomicU64,
    stop: AtomicBool,
}

impl LaneThread {
    pub(super) fn start(worker: RemoteWorker, phase: Phase) -> Result<Self, ProgressError> {
        let system =
            |act| move |source: Errno| ProgressError::System { act, source: source.into() };
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(system("make a timer for the thread"))?;
        let least = phase.least();
        let shared = Arc::new(Shared {
            timer,
            alarm: Alarm::new(),
            served: AtomicBool::new(false),
            ends: AtomicU64::new(0),
            phase: AtomicU64::new(nanos(least)),
            stop: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        let body = move || {
            bowline_base::short_slice::request();
            let guard = EndsProcess;
            run(&worker, &theirs);
            std::mem::forget(guard);
        };
        let builder = std::thread::Builder::new().name("bowline lanes".to_owned());
        let thread = without_signals(|| builder.spawn(body))
            .map_err(|source| ProgressError::System { act: "start the thread", source })?;
        Ok(Self { shared, least, thread: Some(thread) })
    }

    /// A request is watched for the thread.
    pub(super) fn begin(&self) {
        let shared = &*self.shared;
        if shared.alarm.is_wanted() {
            return;
        }
        if shared.has_served() {
            self.learn(false);
        }
        // Relaxed, both: this thread alone stores them, and the alarm publishes them.
        let phase = shared.phase.load(Ordering::Relaxed);
        shared.ends.store(now() + phase, Ordering::Relaxed);
        if shared.alarm.request() {
            count_timer_call();
            shared.set(Duration::from_nanos(phase));
        }
    }

    /// The rank waits, and polls itself.
    pub(super) fn pause(&self) {
        if self.shared.alarm.take_back() {
            self.learn(!self.shared.has_served());
        }
    }

    /// Rule 3.
    fn learn(&self, in_vain: bool) {
        let least = nanos(self.least);
        // Relaxed, both: as in `begin`.
        let phase = self.shared.phase.load(Ordering::Relaxed);
        let next = if in_vain { phase.saturating_mul(2) } else { phase / 2 };
        let next = next.clamp(least, nanos(LONGEST).max(least));
        self.shared.phase.store(next, Ordering::Relaxed);
    }
}

impl Drop for LaneThread {
    fn drop(&mut self) {
        // SeqCst: pairs with the loads in `run` and `serve`, which follow the timer's end.
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.set(Duration::from_nanos(1));
        if let Some(thread) = self.thread.take() {
            // It ends the process if it panics.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Sets the timer.
    fn set(&self, after: Duration) {
        let spec = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: after.as_secs() as i64,
                tv_nsec: i64::from(after.subsec_nanos()),
            },
        };
        // Neither the descriptor nor the times can be refused.
        let set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec);
        debug_assert!(set.is_ok(), "{set:?}");
    }

    /// Takes the timer's end, if it has ended.
    fn take_end(&self) {
        if rustix::io::read(&self.timer, &mut [0; 8]).is_ok() {
            self.alarm.end_timer();
        }
    }

    /// Whether a phase has ended. Sets the timer to the end of one that goes on.
    fn is_due(&self) -> bool {
        if !self.alarm.is_wanted() {
            return false;
        }
        // Relaxed: the alarm has published it.
        let left = self.ends.load(Ordering::Relaxed).saturating_sub(now());
        if left > 0 && self.alarm.restart() {
            self.set(Duration::from_nanos(left));
        }
        left == 0
    }

    fn has_served(&self) -> bool {
        // Relaxed: a late value makes a phase that is longer or shorter than it should be.
        self.served.swap(false, Ordering::Relaxed)
    }

    /// Sleeps until the timer ends, one of the lanes has something, or so much time has passed.
    fn sleep(&self, lanes: &WakeSet, longest: Option<Duration>) {
        let timer = PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN);
        let lanes = lanes.descriptors().iter();
        let mut all: Vec<_> = lanes.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        all.push(timer);
        let longest = longest.map(|time| Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        if let Err(error) = poll(&mut all, longest.as_ref())
            && error != Errno::INTR
        {
            // It has no memory for the call: the thread polls more often than it should.
            tracing::warn!(%error, "the thread of the lanes cannot sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn run(worker: &RemoteWorker, shared: &Shared) {
    let nothing = WakeSet::default();
    // SeqCst: pairs with the store in `drop`, in front of its timer, whose end wakes each sleep that begins later.
    while !shared.stop.load(Ordering::SeqCst) {
        shared.sleep(&nothing, None);
        shared.take_end();
        if shared.is_due() {
            serve(worker, shared);
        }
    }
}

/// The state SERVING.
fn serve(worker: &RemoteWorker, shared: &Shared) {
    // Relaxed: see `has_served`.
    shared.served.store(true, Ordering::Relaxed);
    let (mut polls, mut longest) = (0, SHORTEST_SLEEP);
    // SeqCst: pairs with the store in `drop`.
    while shared.alarm.is_wanted() && !shared.stop.load(Ordering::SeqCst) {
        count_poll();
        let served = worker.serve_watched();
        if !served.left && !shared.alarm.leave(|| worker.has_watched()) {
            return;
        }
        if served.events > 0 {
            (polls, longest) = (0, SHORTEST_SLEEP);
        }
        polls += 1;
        if polls > POLLS {
            worker.sleep_watched(|lanes, short| {
                longest = if short { SHORTEST_SLEEP } else { longest };
                shared.sleep(lanes, Some(longest));
            });
            shared.take_end();
            longest = (2 * longest).min(LONGEST_SLEEP);
            polls = POLLS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learns(least: Duration, outcomes: &[bool]) -> u64 {
        let (timer, down) = (
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).expect("a timer"),
            || AtomicBool::new(false),
        );
        let shared = Arc::new(Shared {
            timer,
            alarm: Alarm::new(),
            served: down(),
            ends: AtomicU64::new(0),
            phase: AtomicU64::new(nanos(least)),
            stop: down(),
        });
        let thread = LaneThread { shared, least, thread: None };
        for &served in outcomes {
            thread.begin();
            if served {
                // As the thread does that has completed all.
                thread.shared.served.store(true, Ordering::Relaxed);
                assert!(!thread.shared.alarm.leave(|| false));
            }
            thread.pause();
        }
        // What the last one was is learned at the next.
        thread.begin();
        thread.shared.phase.load(Ordering::Relaxed)
    }

    #[test]
    fn phases_in_vain_become_longer_and_those_that_serve_shorter() {
        assert_eq!(learns(SHORTEST, &[]), nanos(SHORTEST));
        assert_eq!(learns(SHORTEST, &[false; 3]), 8 * nanos(SHORTEST));
        assert_eq!(learns(SHORTEST, &[false; 20]), nanos(LONGEST));
        assert_eq!(learns(SHORTEST, &[false, false, false, true]), 4 * nanos(SHORTEST));
        assert_eq!(learns(SHORTEST, &[true; 20]), nanos(SHORTEST));
        assert_eq!(learns(LATE, &[false, true, false]), nanos(LATE), "longer than the longest");
    }
}
