//! How a rank of this machine waits: spinning only while every rank has a processor, then
//! yielding a bounded number of times, then asleep on its doorbell.
//!
//! The numbers are measured: a look at the queues costs some 20 ns, a yield between two ranks on
//! one processor under a microsecond, a sleep and its wake-up several, and the sleeper's fence
//! interrupts every processor. So a rank with a processor of its own spins for a few milliseconds,
//! longer than a peer takes to copy a long message (with a tenth of that, messages of 4 MiB lost an
//! eighth of their bandwidth to sleepers), and a rank that shares one yields
//! from its first empty looks on: a computing neighbour loses about 2 % beside yielding waiters,
//! and its processor share beside spinning ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_base::config::{Config, Setting};
use bowline_base::doorbell::WakeSet;
use bowline_base::sync::atomic::{AtomicBool, Ordering};
use bowline_ucp::{Clock, Idle, Stages, Waiter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

bowline_base::settings! {
    /// Settings of waiting.
    pub const SETTINGS = [
        /// Looks at the queues before a rank with a processor of its own first yields.
        pub SPINS: u32 = Setting::<u32>::integer("BOWLINE_WAIT_SPINS", 200_000, 0, 1_000_000_000)
            .cost("a processor, busy for so long after each message (about 20 ns per look)")
            .change("raise it where the last microsecond counts and processors are idle anyway");
        /// The same for a rank that shares its processor with others.
        pub SPINS_SHARED: u32 = Setting::<u32>::integer("BOWLINE_WAIT_SPINS_SHARED", 8, 0, 1_000_000)
            .cost("time taken from the rank that is waited for")
            .change("never, unless measured");
        /// Yields of the processor before sleep.
        pub YIELDS: u32 = Setting::<u32>::integer("BOWLINE_WAIT_YIELDS", 400, 0, 1_000_000_000)
            .cost("power, and a little of the neighbours' time")
            .change("lower it where ranks wait long and often, as in a pool of workers");
    ];
}

/// Something to be looked at while asleep, for instance processes that nobody else watches.
pub type Watch = Box<dyn FnMut() + Send>;

/// Waits on this machine's scheduler. It takes processors to be shared until it is told otherwise.
pub struct SystemWaiter {
    policy: Policy,
    spins: u32,
    spins_shared: u32,
    yields: u32,
    watch: Option<(Watch, Duration)>,
}

/// Tells a waiter whether its rank shares its processor, which is known only when all ranks have
/// started.
#[derive(Clone, Debug)]
pub struct Policy(Arc<AtomicBool>);

impl Policy {
    /// Whether the ranks of this machine share processors.
    pub fn share_processors(&self, shared: bool) {
        // Relaxed: a hint, which publishes nothing.
        self.0.store(shared, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for SystemWaiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemWaiter").field("stages", &self.stages()).finish_non_exhaustive()
    }
}

impl SystemWaiter {
    /// A waiter with the values of [`SETTINGS`].
    pub fn new(config: &Config) -> Self {
        Self {
            policy: Policy(Arc::new(AtomicBool::new(true))),
            spins: config.get(SPINS),
            spins_shared: config.get(SPINS_SHARED),
            yields: config.get(YIELDS),
            watch: None,
        }
    }

    /// By which the waiter learns whether processors are shared.
    pub fn policy(&self) -> Policy {
        self.policy.clone()
    }

    /// Has `watch` called before each sleep, and wakes at least every `period` for it.
    #[must_use]
    pub fn watching(mut self, watch: Watch, period: Duration) -> Self {
        self.watch = Some((watch, period));
        self
    }
}

impl Waiter for SystemWaiter {
    fn stages(&self) -> Stages {
        // Relaxed: as the store.
        let shared = self.policy.0.load(Ordering::Relaxed);
        let spins = if shared { self.spins_shared } else { self.spins };
        Stages { spins, yields: self.yields }
    }

    fn clock(&self) -> Option<Clock> {
        let start = Instant::now();
        Some(Box::new(move || start.elapsed()))
    }

    fn yield_now(&mut self) {
        std::thread::yield_now();
    }

    fn sleep(&mut self, idle: Idle<'_>) {
        let mut limit = idle.deadline;
        if let Some((watch, period)) = &mut self.watch {
            watch();
            limit = Some(limit.map_or(*period, |deadline| deadline.min(*period)));
        }
        if !idle.descriptors.is_empty() {
            sleep_on(idle.descriptors, limit);
        } else if let Some(doorbell) = idle.doorbell {
            let _ = doorbell.wait(limit);
        } else {
            std::thread::sleep(limit.unwrap_or(Duration::from_millis(1)));
        }
    }
}

/// Sleeps until one of `descriptors` is readable, or for `limit`.
pub(crate) fn sleep_on(descriptors: &WakeSet, limit: Option<Duration>) {
    let mut fds: Vec<_> =
        descriptors.descriptors().iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let limit = limit.map(|limit| Timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    // A signal ends the sleep as an arrival does: the caller looks, and sleeps again.
    if let Err(error) = poll(&mut fds, limit.as_ref())
        && error != rustix::io::Errno::INTR
    {
        tracing::warn!(%error, "cannot sleep on descriptors");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Processors that this process may run on.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
