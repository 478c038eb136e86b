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
//! 1. `wanted` is up in AWAITED and SERVING. The rank raises it (`begin`) and takes it down (`pause`); the thread takes it
//!    down when no request is left.
//! 2. The timer is the dear part: to set it takes some microseconds in a virtual machine. So `pause` does not stop it, and
//!    `begin` sets none while one runs. The thread that it wakes goes to sleep again, for the rest of a phase
//!    that began later.
//! 3. A phase in vain, after which the rank waits before the thread has come, makes the next one longer; one in which the
//!    thread has served makes it shorter. A program that waits at once wakes the thread once in [`LONGEST`].
//! 4. Where all ranks are on one host, processors carry every message, so that to move one beside a computation on the same
//!    processors takes more than it saves: the first phase is [`LATE`], of which a message's time is a small part.
//! 5. The thread takes `wanted` down before it asks a last time for requests. One that the rank has made watched before
//!    that is found; for one that comes later the rank finds `wanted` down, and begins a phase.
//! 6. The timer is a descriptor among those that the thread sleeps on while it serves, so that its end is heard in every
//!    state.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

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

/// Polls in vain before the thread sleeps on the lanes: an answer often comes at once.
const POLLS: u32 = 3;

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
    /// The timer runs, or its end was not taken yet.
    runs: AtomicBool,
    wanted: AtomicBool,
    /// The thread has served since `begin`.
    served: AtomicBool,
    /// When the phase ends, and how long one is, in ns.
    ends: AtomicU64,
    phase: AtomicU64,
    stop: AtomicBool,
}

impl LaneThread {
    /// `spread`: ranks of the job are on other hosts.
    pub(super) fn start(
        worker: RemoteWorker,
        phase: Duration,
        spread: bool,
    ) -> Result<Self, ProgressError> {
        let system =
            |act| move |source: Errno| ProgressError::System { act, source: source.into() };
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(system("make a timer for the thread"))?;
        let least = phase.max(if spread { SHORTEST } else { LATE });
        let down = || AtomicBool::new(false);
        let shared = Arc::new(Shared {
            timer,
            runs: down(),
            wanted: down(),
            served: down(),
            ends: AtomicU64::new(0),
            phase: AtomicU64::new(nanos(least)),
            stop: down(),
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
        // Relaxed: as below. Only this thread stores it.
        let phase = shared.phase.load(Ordering::Relaxed);
        // Relaxed, both: `wanted` publishes them.
        if !shared.wanted.load(Ordering::Relaxed) {
            shared.served.store(false, Ordering::Relaxed);
            shared.ends.store(now() + phase, Ordering::Relaxed);
        }
        // SeqCst: rule 5; pairs with the store of `serve`, behind which the thread takes the worker's lock. And this store
        // comes before the load of `runs`, as the thread's store of that before its load of `wanted`.
        if !shared.wanted.swap(true, Ordering::SeqCst) && !shared.runs.swap(true, Ordering::SeqCst)
        {
            count_timer_call();
            shared.set(Duration::from_nanos(phase));
        }
    }

    /// The rank waits, and polls itself.
    pub(super) fn pause(&self) {
        let shared = &*self.shared;
        // SeqCst: as in `begin`.
        if !shared.wanted.swap(false, Ordering::SeqCst) {
            return;
        }
        // Rule 3. Relaxed, all: a late value makes a phase that is longer or shorter than it should be.
        let phase = shared.phase.load(Ordering::Relaxed);
        let next = if shared.served.load(Ordering::Relaxed) { phase / 2 } else { 2 * phase };
        let least = nanos(self.least);
        shared.phase.store(next.clamp(least, nanos(LONGEST).max(least)), Ordering::Relaxed);
    }
}

impl Drop for LaneThread {
    fn drop(&mut self) {
        // SeqCst: pairs with the load in `run`, which follows the timer's end.
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
            // SeqCst: pairs with the swap in `begin`; the load of `wanted` follows.
            self.runs.store(false, Ordering::SeqCst);
        }
    }

    /// Whether a phase has ended. Sets the timer to the end of one that goes on.
    fn is_due(&self) -> bool {
        // SeqCst: pairs with the swaps of the rank.
        if !self.wanted.load(Ordering::SeqCst) {
            return false;
        }
        // Relaxed: `wanted` has published it.
        let left = self.ends.load(Ordering::Relaxed).saturating_sub(now());
        // SeqCst: pairs with the swap in `begin`, which has set the timer if it runs.
        if left > 0 && !self.runs.swap(true, Ordering::SeqCst) {
            self.set(Duration::from_nanos(left));
        }
        left == 0
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
    // Relaxed: see `pause`.
    shared.served.store(true, Ordering::Relaxed);
    let mut polls = 0;
    // SeqCst, both: pairs with the swaps of the rank (rule 5), and with the store in `drop`.
    while shared.wanted.load(Ordering::SeqCst) && !shared.stop.load(Ordering::SeqCst) {
        count_poll();
        if !worker.serve_watched() {
            // SeqCst, both: rule 5.
            shared.wanted.store(false, Ordering::SeqCst);
            if worker.has_watched() {
                shared.wanted.store(true, Ordering::SeqCst);
                polls = POLLS;
            }
        }
        polls += 1;
        if polls > POLLS {
            worker.sleep_watched(|lanes, longest| shared.sleep(lanes, Some(longest)));
            shared.take_end();
            polls = 0;
        }
    }
}
