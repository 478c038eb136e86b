//! Ranks as threads of one process: the same transports, protocols and layers, with the node's
//! memory private to the process. For tests and for programs that embed a parallel part.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use bowline_base::config::{Config, ConfigError};
use bowline_base::job::{JobError, JobMemory, JobSpec};
use bowline_mpi::{CollOptions, Directory, DirectoryError, MpiError, World, WorldParts};
use thiserror::Error;

use crate::stack::{self, RankPlace, StackError};
use crate::wait::{SystemWaiter, processors};

/// Why ranks could not be run as threads.
#[derive(Error)]
#[non_exhaustive]
pub enum ThreadsError {
    /// A setting has a bad value.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The ranks' memory.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A rank's transports or worker.
    #[error("rank {rank} cannot start: {source}")]
    Stack {
        /// The rank.
        rank: u32,
        /// Why.
        source: StackError,
    },
    /// A rank's world.
    #[error("rank {rank} cannot start: {source}")]
    World {
        /// The rank.
        rank: u32,
        /// Why.
        source: MpiError,
    },
    /// The system has no resources for a rank's thread.
    #[error(
        "cannot start a thread for rank {rank}: {source}; run fewer ranks, or raise the limit of \
         threads (ulimit -u, pids.max of the control group) or of memory (ulimit -v)"
    )]
    Thread {
        /// The rank.
        rank: u32,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another rank could not start, so this one did not either.
    #[error("rank {rank} did not start, because another one could not")]
    Abandoned {
        /// The rank.
        rank: u32,
    },
}

bowline_base::debug_by_display!(ThreadsError);

/// Runs `rank_main` as `n` ranks, one thread each, and returns their results in order of rank.
///
/// A rank that panics counts as dead: what the others wait for from it fails. The panic goes on
/// in the caller after all ranks have ended.
///
/// # Errors
/// When a setting in the environment is bad, memory does not suffice, or a rank cannot start.
///
/// # Panics
/// When a rank panicked.
pub fn threads<R: Send>(
    n: usize,
    rank_main: impl Fn(World) -> R + Sync,
) -> Result<Vec<R>, ThreadsError> {
    threads_with(n, &stack::config_from_env()?, rank_main)
}

/// [`threads`] with settings of the caller's.
///
/// # Errors
/// As for [`threads`].
///
/// # Panics
/// As for [`threads`].
pub fn threads_with<R: Send>(
    n: usize,
    config: &Config,
    rank_main: impl Fn(World) -> R + Sync,
) -> Result<Vec<R>, ThreadsError> {
    let ranks = u32::try_from(n).map_err(|_| JobError::Ranks(u32::MAX))?;
    let spec = JobSpec {
        job_id: u64::from(std::process::id()) << 32 | u64::from(ranks),
        ranks,
        first_rank: 0,
        area_bytes: stack::area_bytes(config),
    };
    let refused = |source: StackError| ThreadsError::Stack { rank: 0, source };
    let costs =
        crate::model_file::coll_costs(false, config).map_err(|error| refused(error.into()))?;
    let mut collectives =
        CollOptions::from_config(config).map_err(|error| refused(error.into()))?;
    if let Some((costs, _)) = costs {
        collectives.assume(&costs).map_err(|error| refused(error.into()))?;
    }
    collectives.set_table(crate::coll_table::read(config, ranks).map_err(refused)?);
    collectives.share_processors(f64::from(ranks) / processors() as f64);
    let collectives = &collectives;
    let job = JobMemory::create_private(&spec)?;
    let addresses = Arc::new(Addresses::new(n));
    let rank_main = &rank_main;
    let run = |rank: u32| {
        let (job, addresses) = (job.clone(), Arc::clone(&addresses));
        move || {
            let result = catch_unwind(AssertUnwindSafe(|| {
                let world = join(&job, (rank, ranks), (config, collectives), &addresses);
                if world.is_err() {
                    addresses.abandon();
                }
                world.map(rank_main)
            }));
            match &result {
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => {
                    addresses.abandon();
                    job.mark_dead(rank);
                }
            }
            result
        }
    };
    let mut failure = None;
    let results: Vec<_> = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(n);
        for rank in 0..ranks {
            let thread = std::thread::Builder::new().name(format!("rank {rank}"));
            match thread.spawn_scoped(scope, run(rank)) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    // The others wait for its address.
                    addresses.abandon();
                    failure = Some(ThreadsError::Thread { rank, source });
                    break;
                }
            }
        }
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(Err)).collect()
    });
    let mut values = Vec::with_capacity(n);
    for result in results {
        match result {
            Ok(Ok(value)) => values.push(value),
            // The rank that could not start says more than those that gave up because of it.
            Ok(Err(error)) => match (&failure, &error) {
                (None, _) => failure = Some(error),
                (Some(ThreadsError::Abandoned { .. }), _) => failure = Some(error),
                _ => {}
            },
            Err(panic) => resume_unwind(panic),
        }
    }
    failure.map_or(Ok(values), Err)
}

fn join(
    job: &JobMemory,
    (rank, ranks): (u32, u32),
    (config, collectives): (&Config, &CollOptions),
    addresses: &Arc<Addresses>,
) -> Result<World, ThreadsError> {
    job.attach(rank)?;
    let shared = ranks as usize > processors();
    let place = RankPlace { shared, ..RankPlace::of_thread(job, rank) };
    let waiter = SystemWaiter::new(config).beside(job.clone(), rank);
    waiter.policy().share_processors(shared);
    let worker = stack::worker(&place, config, waiter)
        .map_err(|source| ThreadsError::Stack { rank, source })?;
    worker.share_processors(shared);
    if !addresses.publish(rank, worker.address()) {
        return Err(ThreadsError::Abandoned { rank });
    }
    let job = job.clone();
    let world = World::from_parts(WorldParts {
        worker,
        rank,
        size: ranks,
        directory: Box::new(Shared(Arc::clone(addresses))),
        node_id: job.node_id(),
        oversubscribed: shared,
        collectives: collectives.clone(),
        finalizer: Some(Box::new(move || job.finalize(rank))),
    })
    .map_err(|source| ThreadsError::World { rank, source })?;
    crate::record::attend(&world, config).map_err(|source| ThreadsError::Stack { rank, source })?;
    Ok(world)
}

/// Addresses of the ranks, complete once every rank has published.
#[derive(Debug)]
struct Addresses {
    table: Mutex<Table>,
    complete: Condvar,
}

#[derive(Debug)]
struct Table {
    addresses: Vec<Vec<u8>>,
    missing: usize,
    abandoned: bool,
}

impl Addresses {
    fn new(n: usize) -> Self {
        let table = Table { addresses: vec![Vec::new(); n], missing: n, abandoned: false };
        Self { table: Mutex::new(table), complete: Condvar::new() }
    }

    /// Publishes one and waits for all. `false` when a rank gave up.
    fn publish(&self, rank: u32, address: Vec<u8>) -> bool {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.addresses[rank as usize] = address;
        table.missing -= 1;
        self.complete.notify_all();
        while table.missing > 0 && !table.abandoned {
            table = self.complete.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        table.missing == 0
    }

    fn abandon(&self) {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).abandoned = true;
        self.complete.notify_all();
    }
}

#[derive(Debug)]
struct Shared(Arc<Addresses>);

impl Directory for Shared {
    fn address(&self, world_rank: u32) -> Result<Vec<u8>, DirectoryError> {
        let table = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        let address = table.addresses.get(world_rank as usize);
        address.cloned().ok_or_else(|| format!("there is no rank {world_rank}").into())
    }
}
