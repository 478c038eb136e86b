//! How a rank of this machine waits: spinning only while every rank has a processor, then
//! yielding a bounded number of times, then asleep on its doorbell.
//!
//! The numbers are measured: a poll of the queues costs some 20 ns, a yield between two ranks on
//! one processor under a microsecond, a sleep and its wake-up several, and the sleeper's fence
//! interrupts every processor. So a rank with a processor of its own spins for a few milliseconds,
//! longer than a peer takes to copy a long message (with a tenth of that, messages of 4 MiB lost an
//! eighth of their bandwidth to sleepers), and a rank that shares one yields
//! from its first empty polls on: a computing neighbour loses about 2 % beside yielding waiters,
//! and its processor share beside spinning ones.
//!
//! A rank that is alone on its node, so that only networks bring it messages, and that shares its processor with ranks of
//! other nodes sleeps after one more poll, without a yield: a message that is not there yet is further away than a wake-up
//! takes, and of yields among many such ranks each one changes threads for nothing. Ranks of one node yield to each other
//! although they have nothing but sockets: what they wait for is a system call of another rank away.
//!
//! Where programs of others compute on the processor, a yield lasts a time slice of theirs. The waiter
//! notices that and has its rank sleep instead, for a time (module `contention`). Ranks of its own job that
//! copied a long message meanwhile are no such programs (module `siblings`).

mod contention;
mod siblings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_base::config::{Config, Setting};
use bowline_base::doorbell::WakeSet;
use bowline_base::job::JobMemory;
use bowline_base::short_clock::ShortClock;
use bowline_base::sync::atomic::{AtomicBool, Ordering};
use bowline_ucp::{Clock, Idle, Stages, Waiter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::contention::Contention;
use self::siblings::Siblings;

bowline_base::settings! {
    /// Settings of waiting.
    pub const SETTINGS = [
        /// Polls of the queues before a rank with a processor of its own first yields.
        pub SPINS: u32 = Setting::<u32>::integer("BOWLINE_WAIT_SPINS", 200_000, 0, 1_000_000_000)
            .cost("a processor, busy for so long after each message (about 20 ns per poll)")
            .change("raise it where the last microsecond counts and processors are idle anyway");
        /// The same for a rank that shares its processor with others.
        pub SPINS_SHARED: u32 = Setting::<u32>::integer("BOWLINE_WAIT_SPINS_SHARED", 8, 0, 1_000_000)
            .cost("time taken from the rank that is waited for")
            .change("never, unless measured");
        /// Yields of the processor before sleep. A yield that lasts a time slice of another program
        /// ends them, for 8 ms to 1 s.
        pub YIELDS: u32 = Setting::<u32>::integer("BOWLINE_WAIT_YIELDS", 400, 0, 1_000_000_000)
            .cost("power, a little of the neighbours' time, and now and then a time slice of the rank's own where other programs compute on its processor")
            .change("lower it where ranks wait long and often, as in a pool of workers");
        /// The same for a rank that is alone on its node: a poll of sockets costs system calls, and what
        /// others do on its processor brings no message nearer.
        pub YIELDS_NETWORK: u32 = Setting::<u32>::integer("BOWLINE_WAIT_YIELDS_NETWORK", 0, 0, 1_000_000_000)
            .cost("processor time, about two microseconds for each, which ranks and programs beside do not have")
            .change("raise it where ranks share no processor and a message takes less time than a wake-up");
        /// After which a rank for which nothing happens logs what it waits for, once for each wait.
        pub REPORT: Duration = Setting::<Duration>::time("BOWLINE_WAIT_REPORT", Duration::from_secs(10), Duration::ZERO, Duration::from_secs(1 << 22))
            .cost("a wake-up of a rank that sleeps so long")
            .change("raise it where ranks wait for each other for long by design; 0 for never");
    ];
}

/// No sleep is longer. Every event rings; but the word that a rank sleeps on lies in memory that all
/// ranks of the node can write, and one that overwrites it by mistake takes the ring away. A poll per
/// second costs nothing.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Polls of shared memory before the first yield of a rank that shares its processor.
const POLLS_SHARED: u32 = 2;

/// Polls of sockets before the first yield, or the sleep, of a rank that shares its processor and is alone on its node:
/// behind a message there may be another one.
const POLLS_NETWORK: u32 = 1;

/// Something to be polled while asleep, for instance processes that nobody else watches.
pub type Watch = Box<dyn FnMut() + Send>;

/// Waits on this machine's scheduler. It takes processors to be shared until it gets to know otherwise.
pub struct SystemWaiter {
    policy: Policy,
    spins: u32,
    spins_shared: u32,
    yields: u32,
    yields_network: u32,
    contention: Contention,
    siblings: Option<Siblings>,
    watch: Option<(Watch, Duration)>,
    report: Report,
}

/// Says once what a rank waits for, when it has slept for long and nothing has happened.
#[derive(Debug)]
struct Report {
    /// After so long; 0 for never.
    after: Duration,
    /// Since when nothing has happened.
    since: Option<Instant>,
    said: bool,
}

impl Report {
    const fn new(after: Duration) -> Self {
        Self { after, since: None, said: false }
    }

    /// A sleep begins, at `now`: how long until something has to be said, if it has.
    fn begin(
        &mut self,
        first: bool,
        now: Instant,
        waits: &dyn std::fmt::Display,
    ) -> Option<Duration> {
        if self.after.is_zero() {
            return None;
        }
        if first {
            (self.since, self.said) = (Some(now), false);
        }
        let slept = now.saturating_duration_since(*self.since.get_or_insert(now));
        if self.said {
            return None;
        }
        if slept < self.after {
            return Some(self.after - slept);
        }
        self.said = true;
        let seconds = slept.as_secs();
        tracing::warn!("nothing has happened here for {seconds} s; this rank waits for: {waits}");
        None
    }
}

/// Gives a waiter the facts that are known only when all ranks have started.
#[derive(Clone, Debug)]
pub struct Policy(Arc<Facts>);

#[derive(Debug)]
struct Facts {
    /// Whether the rank shares its processor with others.
    shared: AtomicBool,
    /// Whether only networks bring it messages.
    networks: AtomicBool,
}

impl Policy {
    /// Whether the ranks of this machine share processors.
    pub fn share_processors(&self, shared: bool) {
        // Relaxed: a hint, which publishes nothing.
        self.0.shared.store(shared, Ordering::Relaxed);
    }

    /// Whether only networks bring the rank messages: no other rank of its job is on this node.
    pub fn networks_alone(&self, alone: bool) {
        // Relaxed: a hint, which publishes nothing.
        self.0.networks.store(alone, Ordering::Relaxed);
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
            policy: Policy(Arc::new(Facts {
                shared: AtomicBool::new(true),
                networks: AtomicBool::new(false),
            })),
            spins: config.get(SPINS),
            spins_shared: config.get(SPINS_SHARED),
            yields: config.get(YIELDS),
            yields_network: config.get(YIELDS_NETWORK),
            contention: Contention::default(),
            siblings: None,
            watch: None,
            report: Report::new(config.get(REPORT)),
        }
    }

    /// By which the waiter learns whether processors are shared.
    pub fn policy(&self) -> Policy {
        self.policy.clone()
    }

    /// Waits beside the other ranks of a job on this node: `local` is the own index among them.
    #[must_use]
    pub fn beside(mut self, job: JobMemory, local: u32) -> Self {
        self.siblings = Some(Siblings::new(job, local));
        self
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
        // Relaxed: as the stores.
        let shared = self.policy.0.shared.load(Ordering::Relaxed);
        let networks = self.policy.0.networks.load(Ordering::Relaxed);
        let spins = match shared {
            true if networks => self.spins_shared.min(POLLS_NETWORK),
            true => self.spins_shared,
            false => self.spins,
        };
        let yields = match self.contention.may_yield(Instant::now) {
            true if networks => self.yields_network.min(self.yields),
            true => self.yields,
            false => 0,
        };
        Stages { spins, yields }
    }

    fn clock(&self) -> Option<Clock> {
        let clock = ShortClock::new();
        Some(Box::new(move || Duration::from_nanos(clock.nanoseconds())))
    }

    fn polls_before_yield(&self) -> u32 {
        // Relaxed: as the store.
        if self.policy.0.shared.load(Ordering::Relaxed) { POLLS_SHARED } else { self.spins }
    }

    fn runs(&self, rank: u32) -> bool {
        self.siblings.as_ref().is_some_and(|siblings| siblings.runs(rank))
    }

    fn yield_now(&mut self) {
        let begin = Instant::now();
        if let Some(siblings) = &mut self.siblings {
            siblings.ran_until(begin);
        }
        std::thread::yield_now();
        let end = Instant::now();
        let siblings = &mut self.siblings;
        self.contention.yielded(begin, end, || {
            siblings.as_ref().is_some_and(|siblings| siblings.took(begin, end))
        });
        if let Some(siblings) = siblings {
            siblings.runs_since(end);
        }
    }

    fn sleep(&mut self, idle: Idle<'_>) {
        if let Some(siblings) = &self.siblings {
            siblings.ran_until(Instant::now());
        }
        let mut asked = idle.deadline;
        if let Some(left) = self.report.begin(idle.first, Instant::now(), &idle.waits) {
            asked = Some(asked.map_or(left, |deadline| deadline.min(left)));
        }
        if let Some((watch, period)) = &mut self.watch {
            watch();
            asked = Some(asked.map_or(*period, |deadline| deadline.min(*period)));
        }
        let limit = Some(asked.map_or(LONGEST_SLEEP, |asked| asked.min(LONGEST_SLEEP)));
        if !idle.descriptors.is_empty() {
            sleep_on(idle.descriptors, limit);
        } else if let Some(doorbell) = idle.doorbell {
            let _ = doorbell.wait(limit);
        } else {
            std::thread::sleep(asked.unwrap_or(Duration::from_millis(1)));
        }
        if let Some(siblings) = &mut self.siblings {
            siblings.runs_since(Instant::now());
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
    // A signal ends the sleep as an arrival does: the caller polls, and sleeps again.
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Counts how often it is shown.
    struct Shown(Cell<u32>);

    impl std::fmt::Display for Shown {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.set(self.0.get() + 1);
            f.write_str("a message")
        }
    }

    /// What is logged is shown to a subscriber that takes everything.
    struct Everything;

    impl tracing::Subscriber for Everything {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            event.record(&mut |_: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                let _ = format!("{value:?}");
            });
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn waits_for_networks_alone_yield_less() {
        let waiter = |pairs: &[(&'static str, &'static str)]| {
            let config = Config::from_pairs(pairs.to_vec(), &[SETTINGS]).unwrap();
            SystemWaiter::new(&config)
        };
        let usual = waiter(&[]);
        usual.policy().networks_alone(true);
        assert_eq!(usual.stages(), Stages { spins: 1, yields: 0 });
        usual.policy().share_processors(false);
        assert_eq!(usual.stages().spins, 200_000);
        let asked = waiter(&[("BOWLINE_WAIT_YIELDS_NETWORK", "9"), ("BOWLINE_WAIT_YIELDS", "12")]);
        assert_eq!(asked.stages().yields, 12);
        asked.policy().networks_alone(true);
        assert_eq!(asked.stages().yields, 9);
        let never = waiter(&[("BOWLINE_WAIT_YIELDS", "0")]);
        never.policy().networks_alone(true);
        assert_eq!(never.stages().yields, 0);
    }

    #[test]
    fn a_long_wait_is_reported_once_and_anew_after_something_happened() {
        tracing::subscriber::with_default(Everything, || {
            let second = Duration::from_secs(1);
            let mut report = Report::new(10 * second);
            let shown = Shown(Cell::new(0));
            let start = Instant::now();
            assert_eq!(report.begin(true, start, &shown), Some(10 * second));
            // It was woken for nothing.
            assert_eq!(report.begin(false, start + 4 * second, &shown), Some(6 * second));
            assert_eq!(shown.0.get(), 0);
            assert_eq!(report.begin(false, start + 10 * second, &shown), None);
            assert_eq!(shown.0.get(), 1);
            assert_eq!(report.begin(false, start + 50 * second, &shown), None);
            assert_eq!(shown.0.get(), 1, "it was said already");
            let again = start + 60 * second;
            assert_eq!(report.begin(true, again, &shown), Some(10 * second));
            assert_eq!(report.begin(false, again + 11 * second, &shown), None);
            assert_eq!(shown.0.get(), 2);
            assert_eq!(Report::new(Duration::ZERO).begin(true, start, &shown), None);
        });
    }
}
