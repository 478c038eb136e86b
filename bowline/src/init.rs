//! Joining a job of processes.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bowline_base::config::{Config, ConfigError};
use bowline_launch::bootstrap::{BootError, Bootstrap, Need, StartedBy, bootstrap};
use bowline_launch::pmi::PmiError;
use bowline_mpi::{CollOptions, Directory, DirectoryError, MpiError, World, WorldParts};
use bowline_ucp::Worker;
use rustix::process::Pid;
use thiserror::Error;

use crate::stack::{self, RankPlace, StackError};
use crate::wait::SystemWaiter;

/// How often a rank whose launcher does not report deaths polls for them while it sleeps.
const WATCH_PERIOD: Duration = Duration::from_millis(100);

/// Why a process could not join its job.
#[derive(Error)]
#[non_exhaustive]
pub enum InitError {
    /// A setting has a bad value.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The launcher or the node's memory.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The exchange of addresses.
    #[error("cannot exchange addresses with the other ranks: {0}")]
    Exchange(#[from] PmiError),
    /// Transports or worker.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The world.
    #[error(transparent)]
    World(#[from] MpiError),
}

bowline_base::debug_by_display!(InitError);

/// Joins the job that the launcher started (`bowline run`, or another launcher that speaks
/// PMI-1), or makes a world of one rank. Once per process. (MPI: Process Initialization, "The
/// World Model".)
///
/// # Errors
/// When a setting is bad, the launcher does not answer as it should, or memory does not suffice.
pub fn init() -> Result<World, InitError> {
    init_with(&stack::config_from_env()?)
}

/// [`init`] with settings of the caller's. Sizes of shared memory must be those that the launcher
/// was given.
///
/// # Errors
/// As for [`init`].
pub fn init_with(config: &Config) -> Result<World, InitError> {
    init_in_job(config).map(|(world, _)| world)
}

/// [`init_with`] for callers that ask the launcher for more than a world.
///
/// # Errors
/// As for [`init`].
pub fn init_in_job(config: &Config) -> Result<(World, Launched), InitError> {
    let Entered { worker, rank, size, node_id, shared, share, nodes, boot } = enter(config)?;
    let mut collectives = CollOptions::from_config(config).map_err(StackError::from)?;
    // Rank 0 has published what it has before all ranks met.
    let of_job = boot.lock().unwrap_or_else(PoisonError::into_inner).kvs.get(COLLECTIVES)?;
    collectives.agree(&String::from_utf8_lossy(&of_job), share).map_err(StackError::from)?;
    if let Some(nodes) = nodes {
        collectives.set_nodes(nodes);
    }
    let directory = Box::new(Published(boot.clone()));
    let launched = Launched(boot.clone());
    let world = World::from_parts(WorldParts {
        worker,
        rank,
        size,
        directory,
        node_id,
        oversubscribed: shared,
        collectives,
        finalizer: Some(Box::new(move || leave(&boot))),
    })?;
    crate::record::attend(&world, config)?;
    Ok((world, launched))
}

/// What a rank may ask its launcher while it runs.
#[derive(Clone, Debug)]
pub struct Launched(Booted);

impl Launched {
    /// The number of this rank's program among those that were started together, where the launcher
    /// says it. (MPI: `MPI_APPNUM`)
    pub fn app_number(&self) -> Option<i32> {
        self.boot().kvs.app_number()
    }

    /// How many ranks the launcher could run for the job, where it says so. (MPI:
    /// `MPI_UNIVERSE_SIZE`)
    pub fn universe_size(&self) -> Option<i32> {
        self.boot().kvs.universe_size()
    }

    /// Asks for the end of the whole job, with an exit code and a reason; the caller ends itself.
    /// (MPI: `MPI_Abort`)
    ///
    /// # Errors
    /// When the launcher has gone.
    pub fn abort(&self, code: i32, message: &str) -> Result<(), PmiError> {
        self.boot().kvs.abort(code, message)
    }

    fn boot(&self) -> std::sync::MutexGuard<'_, Bootstrap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the launcher knows and keeps for a rank.
pub(crate) type Booted = std::sync::Arc<Mutex<Bootstrap>>;

/// A rank that has joined its job and knows where the others are.
pub(crate) struct Entered {
    pub(crate) worker: Worker,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) node_id: u64,
    /// Whether ranks share processors.
    pub(crate) shared: bool,
    /// Ranks for each processor, on the node of rank 0.
    pub(crate) share: f64,
    /// The node of each rank, where there are several and it is known.
    pub(crate) nodes: Option<Vec<u32>>,
    pub(crate) boot: Booted,
}

/// Joins the job, puts the transports together and publishes the worker's address.
pub(crate) fn enter(config: &Config) -> Result<Entered, InitError> {
    crate::log::start(config)?;
    let mut boot = bootstrap(&Need::area(stack::area_bytes(config)))?;
    let (rank, size) = (boot.rank, boot.size);
    crate::log::name_rank(rank);
    if rank == 0 && boot.started_by == StartedBy::Foreign {
        stack::warn_of_unknown(config);
    }
    boot.job.add_processors(own_processors());
    let mut waiter = SystemWaiter::new(config).beside(boot.job.clone(), boot.local_rank);
    let waiting = waiter.policy();
    if let Some(mut watch) = boot.death_watch.take() {
        waiter = waiter.watching(
            Box::new(move || {
                watch.poll();
            }),
            WATCH_PERIOD,
        );
    }
    let spread = size != boot.local_size;
    let early = stack::asks_for_processors(spread, config);
    let place = RankPlace {
        job: boot.job.clone(),
        local: boot.local_rank,
        rank,
        spread,
        shared: early && share_processors(&boot),
        secret: boot.secret,
    };
    let worker = stack::worker(&place, config, waiter)?;
    boot.kvs.put(&key(rank), &worker.address())?;
    if spread && boot.locals.iter().min().is_none_or(|first| *first == rank) {
        let locals: Vec<u8> = boot.locals.iter().flat_map(|rank| rank.to_le_bytes()).collect();
        boot.kvs.put(&node_key(rank), &locals)?;
        boot.kvs.put(&machine_key(rank), &machine())?;
    }
    if rank == 0 {
        let mut collectives = CollOptions::from_config(config).map_err(StackError::from)?;
        if let Some((costs, _)) =
            crate::model_file::coll_costs(spread, config).map_err(StackError::from)?
        {
            collectives.assume(&costs).map_err(StackError::from)?;
        }
        collectives.set_table(crate::coll_table::read(config, size)?);
        boot.kvs.put(COLLECTIVES, collectives.of_job().as_bytes())?;
    }
    boot.kvs.barrier()?;
    // Every rank of the node has stated its processors by now.
    let processors = boot.job.processors();
    let mut shared = boot.local_size > processors;
    let mut share = f64::from(boot.local_size) / f64::from(processors.max(1));
    let mut nodes = None;
    if spread {
        (shared, share) = agree(&mut boot, share)?;
        nodes = nodes_of(&boot.kvs.get(NODES)?, size);
    }
    waiting.share_processors(shared);
    waiting.networks_alone(size > 1 && boot.local_size == 1);
    worker.share_processors(shared);
    let node_id = boot.job.node_id();
    let boot = std::sync::Arc::new(Mutex::new(boot));
    Ok(Entered { worker, rank, size, node_id, shared, share, nodes, boot })
}

/// Leaves the job, after everything of this rank is gone, the worker included. A rank that panics
/// has not left but died.
pub(crate) fn leave(boot: &Booted) {
    let mut boot = boot.lock().unwrap_or_else(PoisonError::into_inner);
    if std::thread::panicking() {
        return;
    }
    if let Err(error) = boot.finalize() {
        tracing::warn!(%error, "cannot leave the job in order");
    }
}

/// Ranks of several nodes agree on what rank 0 found, since they choose algorithms by it: whether ranks share
/// processors, and how many share one. `share` is what this node by itself has.
fn agree(boot: &mut Bootstrap, share: f64) -> Result<(bool, f64), PmiError> {
    const NAME: &str = "bowline-shared";
    if boot.rank == 0 {
        let nodes = all_nodes(boot)?;
        let share = share.max(share_of_machine(boot, &nodes)?);
        boot.kvs.put(NAME, &share.to_le_bytes())?;
        let nodes = runs_of(&nodes);
        boot.kvs.put(NODES, if nodes.len() <= NODES_MAX { &nodes } else { &[0] })?;
    }
    boot.kvs.barrier()?;
    let found = boot.kvs.get(NAME)?;
    let share = found.get(..8).and_then(|bytes| bytes.try_into().ok()).map(f64::from_le_bytes);
    let share = share.filter(|share| share.is_finite()).unwrap_or(1.0);
    Ok((share > 1.0, share))
}

/// Ranks for each processor of this machine, where several nodes are containers of it; 0 where this node is alone on
/// it, or the kernel does not say so.
fn share_of_machine(boot: &mut Bootstrap, nodes: &[u32]) -> Result<f64, PmiError> {
    let (own, online) = (machine(), online_processors());
    if own.is_empty() || online == 0 {
        return Ok(0.0);
    }
    let (mut ranks, mut together) = (0, 0);
    for (first, node) in (0..).zip(nodes) {
        if *node == first && boot.kvs.get(&machine_key(first))? == own {
            together += 1;
            ranks += nodes.iter().filter(|node| **node == first).count();
        }
    }
    Ok(if together > 1 { ranks as f64 / online as f64 } else { 0.0 })
}

/// What the first rank of a node publishes its machine as.
fn machine_key(first: u32) -> String {
    format!("bowline-machine-{first}")
}

/// The same for all containers of one machine, and of no other machine; empty where the kernel does not say it.
fn machine() -> Vec<u8> {
    let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim_ascii().to_vec()
}

/// Processors of the whole machine; 0 where the kernel does not say it.
fn online_processors() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    count_of_ranges(text.trim()).unwrap_or(0)
}

/// How many numbers a list such as `0-3,8` has.
fn count_of_ranges(text: &str) -> Option<usize> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    text.split(',').map(count).try_fold(0_usize, |sum, one| sum.checked_add(one?))
}

/// What rank 0 publishes of which rank is on which node.
const NODES: &str = "bowline-nodes";

/// The most bytes of the run-length encoded table of nodes. A longer one is not published, and no algorithm in layers
/// is used.
const NODES_MAX: usize = 64 << 10;

/// What the first rank of a node publishes the ranks of it as.
fn node_key(first: u32) -> String {
    format!("bowline-node-{first}")
}

/// Decodes 32-bit little-endian integers.
fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
    bytes.chunks_exact(4).map(word)
}

/// The node of each rank, as the first rank of each node has published it. For rank 0.
fn all_nodes(boot: &mut Bootstrap) -> Result<Vec<u32>, PmiError> {
    let mut nodes = vec![u32::MAX; boot.size as usize];
    while let Some(first) = nodes.iter().position(|node| *node == u32::MAX) {
        let locals = boot.kvs.get(&node_key(first as u32))?;
        nodes[first] = first as u32;
        for rank in words(&locals) {
            if let Some(node) = nodes.get_mut(rank as usize) {
                *node = first as u32;
            }
        }
    }
    Ok(nodes)
}

/// Nodes of ranks that follow each other, each with how many there are.
fn runs_of(nodes: &[u32]) -> Vec<u8> {
    let runs = nodes.chunk_by(|one, next| one == next);
    let run = |run: &[u32]| [run[0].to_le_bytes(), (run.len() as u32).to_le_bytes()].concat();
    runs.flat_map(run).collect()
}

/// The nodes of `size` ranks by such runs; `None` where they are of another number.
fn nodes_of(runs: &[u8], size: u32) -> Option<Vec<u32>> {
    let words: Vec<u32> = words(runs).collect();
    let (mut nodes, size) = (Vec::new(), size as usize);
    for run in words.chunks_exact(2) {
        let left = size - nodes.len();
        nodes.resize(nodes.len() + left.min(run[1] as usize), run[0]);
    }
    (nodes.len() == size).then_some(nodes)
}

/// What rank 0 publishes its costs of messages as, and the algorithms that it is asked for.
const COLLECTIVES: &str = "bowline-collectives";

/// How long a rank waits for those of its node to have started, before it opens transports that
/// depend on how many processors they have together; and how often it polls.
const OTHERS_START: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Whether the ranks of this node share processors, asked before any of them has met the others.
/// It is not done by a meeting through the launcher, since ranks may have chosen different
/// transports and not all of them ask. Ranks that have not started in time count as bound to
/// processors of their own, if this one is bound.
fn share_processors(boot: &Bootstrap) -> bool {
    let ranks = boot.local_size;
    let own = own_processors();
    if own.len() >= ranks as usize {
        return false;
    }
    let end = Instant::now() + OTHERS_START;
    let known = |local| boot.job.control(local).and_then(|control| control.identity());
    while !(0..ranks).all(|local| known(local).is_some()) && Instant::now() < end {
        std::thread::sleep(POLL_INTERVAL);
    }
    let mut all: BTreeSet<usize> = own.into_iter().collect();
    let mut unknown = 0;
    for local in (0..ranks).filter(|&local| local != boot.local_rank) {
        let pid = known(local).and_then(|other| Pid::from_raw(other.pid as i32));
        match pid.map(|pid| processors_of(Some(pid))) {
            Some(processors) if !processors.is_empty() => all.extend(processors),
            _ => unknown += 1,
        }
    }
    ranks as usize > all.len() + unknown
}

pub(crate) fn key(rank: u32) -> String {
    format!("bowline-worker-{rank}")
}

/// Numbers of the processors that this process may run on.
pub(crate) fn own_processors() -> Vec<usize> {
    processors_of(None)
}

/// Numbers of the processors that a process may run on; none where it is not there.
fn processors_of(pid: Option<Pid>) -> Vec<usize> {
    match rustix::thread::sched_getaffinity(pid) {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU).filter(|&n| set.is_set(n)).collect(),
        Err(error) => {
            tracing::debug!(%error, "the processors of a process are not known");
            Vec::new()
        }
    }
}

/// Addresses that ranks published through the launcher.
#[derive(Debug)]
struct Published(Booted);

impl Directory for Published {
    fn address(&self, world_rank: u32) -> Result<Vec<u8>, DirectoryError> {
        let mut boot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(boot.kvs.get(&key(world_rank))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_out_of_runs_as_they_went_in() {
        for nodes in [vec![0, 0, 0, 3, 3, 5], vec![0, 1, 0, 1], vec![0], (0..1000).collect()] {
            assert_eq!(nodes_of(&runs_of(&nodes), nodes.len() as u32), Some(nodes));
        }
        for damaged in [&[][..], &[0], &runs_of(&[0, 0])] {
            assert_eq!(nodes_of(damaged, 3), None);
        }
        // Too many are cut.
        assert_eq!(nodes_of(&runs_of(&[7; 9]), 3), Some(vec![7; 3]));
    }

    #[test]
    fn lists_of_processors_are_counted() {
        for (text, count) in [("0", 1), ("0-1", 2), ("0-3,8,10-11", 7)] {
            assert_eq!(count_of_ranges(text), Some(count));
        }
        for wrong in ["", "x", "3-1", "0-", "0-18446744073709551615"] {
            assert_eq!(count_of_ranges(wrong), None);
        }
        assert!(online_processors() >= 1);
    }
}
