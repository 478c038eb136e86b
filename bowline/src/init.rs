//! Joining a job of processes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_base::config::{Config, ConfigError};
use bowline_launch::bootstrap::{BootError, Bootstrap, Need, bootstrap};
use bowline_launch::pmi::PmiError;
use bowline_mpi::{Directory, DirectoryError, MpiError, World, WorldParts};
use thiserror::Error;

use crate::stack::{self, Place, StackError};
use crate::wait::SystemWaiter;

/// How often a rank whose launcher does not tell of deaths looks itself while it sleeps.
const WATCH_PERIOD: Duration = Duration::from_millis(100);

/// Why a process could not join its job.
#[derive(Debug, Error)]
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
    let mut boot = bootstrap(&Need::area(stack::area_bytes(config)))?;
    let (rank, size) = (boot.rank, boot.size);
    boot.job.add_processors(own_processors());
    let mut waiter = SystemWaiter::new(config);
    let waiting = waiter.policy();
    if let Some(mut watch) = boot.death_watch.take() {
        waiter = waiter.watching(
            Box::new(move || {
                watch.poll();
            }),
            WATCH_PERIOD,
        );
    }
    let place = Place {
        job: boot.job.clone(),
        local: boot.local_rank,
        rank,
        spread: size != boot.local_size,
        secret: boot.secret,
    };
    let worker = stack::worker(&place, config, waiter)?;
    boot.kvs.put(&key(rank), &worker.address())?;
    boot.kvs.barrier()?;
    // Every rank of the node has stated its processors by now.
    let mut shared = boot.local_size > boot.job.processors();
    if size != boot.local_size {
        shared = agree(&mut boot, shared)?;
    }
    waiting.share_processors(shared);
    let node_id = boot.job.node_id();
    let boot = std::sync::Arc::new(Mutex::new(boot));
    let directory = Box::new(Published(std::sync::Arc::clone(&boot)));
    let finalizer = Box::new(move || {
        let mut boot = boot.lock().unwrap_or_else(PoisonError::into_inner);
        if std::thread::panicking() {
            return;
        }
        if let Err(error) = boot.finalize() {
            tracing::warn!(%error, "cannot leave the job in order");
        }
    });
    Ok(World::from_parts(WorldParts {
        worker,
        rank,
        size,
        directory,
        node_id,
        oversubscribed: shared,
        finalizer: Some(finalizer),
    })?)
}

/// Ranks of several nodes agree on what rank 0 found, since they choose algorithms by it.
fn agree(boot: &mut Bootstrap, shared: bool) -> Result<bool, PmiError> {
    if boot.rank == 0 {
        boot.kvs.put("bowline-shared", &[u8::from(shared)])?;
    }
    boot.kvs.barrier()?;
    Ok(boot.kvs.get("bowline-shared")?.first() == Some(&1))
}

fn key(rank: u32) -> String {
    format!("bowline-worker-{rank}")
}

/// Numbers of the processors that this process may run on.
pub(crate) fn own_processors() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU).filter(|&n| set.is_set(n)).collect(),
        Err(error) => {
            tracing::debug!(%error, "the processors of this process are not known");
            Vec::new()
        }
    }
}

/// Addresses that ranks published through the launcher.
#[derive(Debug)]
struct Published(std::sync::Arc<Mutex<Bootstrap>>);

impl Directory for Published {
    fn address(&self, world_rank: u32) -> Result<Vec<u8>, DirectoryError> {
        let mut boot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(boot.kvs.get(&key(world_rank))?)
    }
}
