//! Programs on a simulated network: blocking MPI programs with one thread for each rank, of which
//! one runs at a time, and workers of [`ucp`](crate::ucp) by the thousand in one thread.
//!
//! Time is virtual and everything random comes from one seed, so a run is repeated exactly by
//! repeating its seed: [`Report::trace_hash`] of both is the same.
//!
//! ```
//! use bowline::simulate::{self, SimulatedJob};
//!
//! let job = SimulatedJob::new(4, 42);
//! let report = simulate::run(&job, |world| {
//!     let mut sum = [0];
//!     world.allreduce(&[world.rank()], &mut sum, bowline::mpi::Sum).expect("all ranks live");
//!     sum[0]
//! })
//! .expect("four ranks can start");
//! assert!(report.ends.iter().all(|end| end.value() == Some(&6)));
//! assert_eq!(report.stuck, None);
//! ```
//!
//! # Which rank runs
//! A rank runs until it would sleep, or has polled in vain a few times. Then the next one
//! is drawn among those that have something to do. When all wait, virtual time moves on to the
//! next event; now and then it does so earlier, as if ranks were slow. When all wait and nothing
//! is under way, the program is in a deadlock: the report says what every rank waits for, and all
//! calls end with errors, so that the run ends.
//!
//! # How ranks die
//! A rank that the network kills sees every one of its peers as failed: all its calls end with
//! errors from there on, and it reaches its end, or panics on an error that it did not expect.
//! The others learn of the death after the network's time-out. A rank that panics by itself dies
//! in the same way. Nothing is unwound by force, since buffers are in use below.
//!
//! # Which memory ranks share
//! None: each is a host of its own, so that every message goes over the network. [`SimulatedJob::nodes`] has collectives treat
//! some ranks as if they were on one node, so that they go in layers.

mod scheduler;
mod waiter;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bowline_base::config::Config;
use bowline_mpi::{CollOptions, Directory, DirectoryError, MpiError, World, WorldParts};
use bowline_receive_queue::{QueueError, with_messages};
use bowline_self::{SelfConfig, SelfIface};
use bowline_sim::{Ended, SimCounters, SimIface};
use bowline_ucp::{FailureSource, Waiter, Worker, WorkerError, WorkerParts};
use bowline_uct::{Iface, OpenError};
use thiserror::Error;

pub use bowline_sim::{
    Death, Drive, Faults, LinkMode, Moment, Network, NetworkOptions, NetworkPartition, Random,
    TimesOfSize,
};
pub use scheduler::{Stuck, Why};
pub use waiter::NetworkWaiter;

use scheduler::Scheduler;
use waiter::{Deaths, SimulatedWaiter};

/// The number of every simulated job.
const JOB: u64 = 1;

/// A simulated job.
#[derive(Clone, Debug)]
pub struct SimulatedJob {
    /// What is printed of it if it has to be given up: how to repeat it, for instance.
    pub label: String,
    /// Ranks.
    pub ranks: u32,
    /// The network, whose seed is also that of the schedule.
    pub network: NetworkOptions,
    /// Virtual time, in ns, after which the program counts as stuck.
    pub limit_ns: u64,
    /// Whether ranks choose their algorithms as if they shared processors.
    pub oversubscribed: bool,
    /// The node of each rank, by any numbers, as algorithms of collectives take it; empty for one node.
    pub nodes: Vec<u32>,
    /// Settings, as [`stack::SETTINGS`](crate::stack::SETTINGS) has them.
    pub config: Config,
}

impl SimulatedJob {
    /// A job on a network without faults, with the default settings.
    pub fn new(ranks: u32, seed: u64) -> Self {
        Self {
            label: format!("a job of {ranks} ranks with seed {seed}"),
            ranks,
            network: NetworkOptions { seed, ..NetworkOptions::default() },
            limit_ns: 3_600_000_000_000,
            oversubscribed: false,
            nodes: Vec::new(),
            config: Config::defaults(crate::stack::SETTINGS),
        }
    }
}

/// Why a simulated job could not start.
#[derive(Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// A rank's loopback.
    #[error("rank {rank} cannot open its loopback: {source}")]
    Transport {
        /// The rank.
        rank: u32,
        /// Why.
        source: OpenError,
    },
    /// A rank's receive queue.
    #[error("rank {rank} cannot carry messages: {source}")]
    Queue {
        /// The rank.
        rank: u32,
        /// Why.
        source: QueueError,
    },
    /// A rank's worker.
    #[error("rank {rank} has no worker: {source}")]
    Worker {
        /// The rank.
        rank: u32,
        /// Why.
        source: WorkerError,
    },
    /// A rank's world.
    #[error("rank {rank} cannot start: {source}")]
    World {
        /// The rank.
        rank: u32,
        /// Why.
        source: MpiError,
    },
    /// An algorithm of collectives does not exist.
    #[error(transparent)]
    Collectives(#[from] bowline_mpi::CollOptionsError),
    /// The system has no resources for a thread.
    #[error("cannot start the thread of rank {rank}: {source}")]
    Thread {
        /// The rank.
        rank: u32,
        /// Why.
        source: std::io::Error,
    },
}

bowline_base::debug_by_display!(SimulateError);

/// How a rank ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End<R> {
    /// Its program returned.
    Returned(R),
    /// The network killed it; what its program did with the errors does not count.
    Killed,
    /// It panicked, with this message.
    Panicked(String),
}

impl<R> End<R> {
    /// What the program returned.
    pub const fn value(&self) -> Option<&R> {
        match self {
            Self::Returned(value) => Some(value),
            _ => None,
        }
    }
}

/// What came of a simulated job.
#[derive(Clone, Debug)]
pub struct Report<R> {
    /// The end of each rank.
    pub ends: Vec<End<R>>,
    /// Why the program did not go on by itself, if it did not.
    pub stuck: Option<Stuck>,
    /// The same for equal runs, and hardly for others.
    pub trace_hash: u64,
    /// The virtual time at the end, in ns.
    pub now_ns: u64,
    /// What the network counted.
    pub counters: SimCounters,
    /// The last entries of the trace, as many as [`NetworkOptions::log`] says.
    pub log: Vec<String>,
}

/// Runs `rank_main` as the ranks of `job`, and returns when all have ended.
///
/// # Errors
/// When a rank cannot start.
pub fn run<R: Send>(
    job: &SimulatedJob,
    rank_main: impl Fn(World) -> R + Sync,
) -> Result<Report<R>, SimulateError> {
    let network = Network::new(job.network.clone());
    let scheduler = Arc::new(Scheduler::new(&network, job));
    let mut workers = Vec::new();
    for rank in 0..job.ranks {
        let mut iface = network.open();
        let schedule = Arc::clone(&scheduler);
        iface.on_idle(Arc::new(move || schedule.polled_in_vain(rank)));
        let itself = SelfIface::open(SelfConfig::of(&job.config))
            .map_err(|source| SimulateError::Transport { rank, source })?;
        let lanes: Vec<Box<dyn Iface>> = vec![Box::new(itself), Box::new(iface)];
        let waiter = SimulatedWaiter::new(Arc::clone(&scheduler), rank);
        workers.push(worker(&network, rank, lanes, Box::new(waiter), &job.config)?);
    }
    let addresses: Arc<[Vec<u8>]> = workers.iter().map(Worker::address).collect();
    let rank_main = &rank_main;
    let ends = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (rank, worker) in (0..).zip(workers) {
            let start = Start { job, rank, addresses: Arc::clone(&addresses), worker };
            let (network, schedule) = (network.clone(), Arc::clone(&scheduler));
            let body = move || {
                schedule.begin(rank);
                SELF.set(Some((network.clone(), rank)));
                let end = catch_unwind(AssertUnwindSafe(|| start.world().map(rank_main)));
                let end = ended(&network, rank, end);
                schedule.finish(rank);
                end
            };
            let name = format!("rank {rank}");
            match std::thread::Builder::new().name(name).spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    // The others have not begun; they run to their ends without this one.
                    scheduler.without(rank..job.ranks);
                    scheduler.start();
                    return Err(SimulateError::Thread { rank, source });
                }
            }
        }
        scheduler.start();
        let ends = threads.into_iter().map(|thread| thread.join().expect("panics are caught"));
        ends.collect()
    })?;
    Ok(Report {
        ends,
        stuck: scheduler.stuck(),
        trace_hash: network.trace_hash(),
        now_ns: network.now(),
        counters: network.counters(),
        log: network.log(),
    })
}

thread_local! {
    /// The network and the rank of the thread of a rank.
    static SELF: RefCell<Option<(Network, u32)>> = const { RefCell::new(None) };
}

/// Ends the calling rank as a crash would: what it waits for, and all that it calls from here on,
/// fails, and the others learn of its death. Gives whether it was alive; does nothing in a thread that is no
/// simulated rank.
///
/// A program that gives up calls it before it leaves a scope with sends under way: those wait for
/// their receivers, who may have given up as well.
pub fn die() -> bool {
    SELF.with_borrow(|place| {
        let Some((network, rank)) = place else { return false };
        let alive = network.is_alive(*rank);
        network.kill(*rank);
        alive
    })
}

/// `count` workers on `network`, whose next interfaces must be theirs, each reachable by the
/// addresses of the others. They have no loopback. Their user calls their progress and
/// [`Network::advance`]; a blocking call of one of them moves time by itself.
///
/// # Errors
/// When a worker cannot be made.
pub fn workers(
    network: &Network,
    count: u32,
    config: &Config,
) -> Result<Vec<Worker>, SimulateError> {
    let make = |rank| {
        let lanes: Vec<Box<dyn Iface>> = vec![Box::new(network.open())];
        worker(network, rank, lanes, Box::new(NetworkWaiter::new(network.clone())), config)
    };
    (0..count).map(make).collect()
}

fn worker(
    network: &Network,
    rank: u32,
    lanes: Vec<Box<dyn Iface>>,
    waiter: Box<dyn Waiter>,
    config: &Config,
) -> Result<Worker, SimulateError> {
    let failures: Box<dyn FailureSource> = Box::new(Deaths::new(network.clone(), rank));
    // Workers of one network differ by rank, and others cannot be reached.
    let uid = Random::new(u64::from(rank)).word();
    let lanes = lanes.into_iter().map(|lane| with_messages(lane, config, uid));
    let lanes = lanes.collect::<Result<_, _>>();
    let lanes = lanes.map_err(|source| SimulateError::Queue { rank, source })?;
    Worker::new(WorkerParts {
        job: JOB,
        rank,
        incarnation: 0,
        uid,
        lanes,
        waiter,
        failures: Some(failures),
        config: config.clone(),
    })
    .map_err(|source| SimulateError::Worker { rank, source })
}

/// What the thread of a rank starts with.
struct Start<'a> {
    job: &'a SimulatedJob,
    rank: u32,
    addresses: Arc<[Vec<u8>]>,
    worker: Worker,
}

impl Start<'_> {
    fn world(self) -> Result<World, SimulateError> {
        let rank = self.rank;
        let mut collectives = CollOptions::from_config(&self.job.config)?;
        if !self.job.nodes.is_empty() {
            collectives.set_nodes(self.job.nodes.as_slice());
        }
        World::from_parts(WorldParts {
            worker: self.worker,
            rank,
            size: self.job.ranks,
            directory: Box::new(Addresses(self.addresses)),
            node_id: u64::from(rank) + 1,
            oversubscribed: self.job.oversubscribed,
            collectives,
            finalizer: None,
        })
        .map_err(|source| SimulateError::World { rank, source })
    }
}

/// What the end of a rank's thread means.
fn ended<R>(
    network: &Network,
    rank: u32,
    end: std::thread::Result<Result<R, SimulateError>>,
) -> Result<End<R>, SimulateError> {
    let killed = network.ended(rank) == Some(Ended::Died);
    match end {
        Ok(Err(error)) => {
            network.kill(rank);
            Err(error)
        }
        Ok(Ok(_)) if killed => Ok(End::Killed),
        Ok(Ok(value)) => Ok(End::Returned(value)),
        Err(_) if killed => Ok(End::Killed),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            Ok(End::Panicked(text.unwrap_or_else(|| "a panic without a message".to_owned())))
        }
    }
}

#[derive(Debug)]
struct Addresses(Arc<[Vec<u8>]>);

impl Directory for Addresses {
    fn address(&self, world_rank: u32) -> Result<Vec<u8>, DirectoryError> {
        let address = self.0.get(world_rank as usize);
        address.cloned().ok_or_else(|| format!("there is no rank {world_rank}").into())
    }
}

/// The interface of a simulated network, for those who put their own stack together.
pub type Interface = SimIface;
