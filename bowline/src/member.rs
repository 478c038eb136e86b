//! A rank's place in a job for programs that use [`ucp`](crate::ucp) itself: its worker, its number,
//! and endpoints of the other ranks. [`init`](crate::init()) makes the same into a world of MPI.
//!
//! Nothing here is fast: a job starts with it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::PoisonError;

use bowline_base::config::Config;
use bowline_launch::pmi::PmiError;
use bowline_ucp::{ConnectError, Ep, Worker};
use thiserror::Error;

use crate::init::{Booted, Entered, InitError, enter, key, leave};
use crate::stack;

/// Why ranks could not meet.
#[derive(Error)]
#[non_exhaustive]
pub enum MemberError {
    /// The launcher does not pass on what ranks publish.
    #[error("cannot exchange data with the other ranks through the launcher: {0}")]
    Exchange(#[from] PmiError),
    /// A rank's worker cannot be reached.
    #[error("rank {rank} cannot be reached: {source}")]
    Connect {
        /// Which one.
        rank: u32,
        /// Why.
        source: ConnectError,
    },
    /// The job has fewer ranks.
    #[error("rank {rank} does not exist: the job has {size} ranks, from 0 on")]
    NoSuchRank {
        /// Which one was asked for.
        rank: u32,
        /// Ranks of the job.
        size: u32,
    },
}

bowline_base::debug_by_display!(MemberError);

/// A rank of a job with a worker of its own.
///
/// It leaves the job when it is dropped. By then it must have got the answers that it expects, and
/// given those that others expect: the memory of a rank ends with it.
#[derive(Debug)]
pub struct Member {
    // Fields are dropped in order of declaration: the job is left after the worker is gone. Taken
    // when a forked child drops its copy.
    worker: Option<Worker>,
    rank: u32,
    size: u32,
    endpoints: RefCell<HashMap<u32, Ep>>,
    exchanges: Cell<u32>,
    pid: u32,
    place: InJob,
}

impl Drop for Member {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            // A forked child: what the worker would say or write at its end is its parent's.
            std::mem::forget(self.worker.take());
        }
    }
}

#[derive(Debug)]
struct InJob(Booted);

impl Drop for InJob {
    fn drop(&mut self) {
        leave(&self.0);
    }
}

/// Joins the job that the launcher started (`bowline run`, or another launcher that speaks PMI-1)
/// with a worker, or makes a job of one rank. Once per process, in place of
/// [`init`](crate::init()).
///
/// # Errors
/// As for [`init`](crate::init()).
pub fn join() -> Result<Member, InitError> {
    join_with(&stack::config_from_env()?)
}

/// [`join`] with settings of the caller's. Sizes of shared memory must be those that the launcher
/// was given.
///
/// # Errors
/// As for [`init`](crate::init()).
pub fn join_with(config: &Config) -> Result<Member, InitError> {
    let Entered { worker, rank, size, boot, .. } = enter(config)?;
    let (endpoints, exchanges) = (RefCell::default(), Cell::new(0));
    let (worker, pid) = (Some(worker), std::process::id());
    Ok(Member { worker, rank, size, endpoints, exchanges, pid, place: InJob(boot) })
}

impl Member {
    /// The worker.
    pub const fn worker(&self) -> &Worker {
        self.worker.as_ref().expect("it is there until the member is dropped")
    }

    /// This rank's number in the job.
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks in the job.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The endpoint of a rank's worker, this rank's own included. It is made once.
    ///
    /// # Errors
    /// When there is no such rank or no route to it.
    pub fn connect(&self, rank: u32) -> Result<Ep, MemberError> {
        if rank >= self.size {
            return Err(MemberError::NoSuchRank { rank, size: self.size });
        }
        if let Some(&ep) = self.endpoints.borrow().get(&rank) {
            return Ok(ep);
        }
        let address = if rank == self.rank {
            self.worker().address()
        } else {
            self.place.0.lock().unwrap_or_else(PoisonError::into_inner).kvs.get(&key(rank))?
        };
        let connected = self.worker().connect(&address);
        let ep = connected.map_err(|source| MemberError::Connect { rank, source })?;
        self.endpoints.borrow_mut().insert(rank, ep);
        Ok(ep)
    }

    /// Gives every rank what every rank gives, by rank: for keys of memory and the like, some
    /// hundred bytes each. All ranks must call it, equally often. It goes through the launcher; the
    /// worker makes no progress meanwhile.
    ///
    /// # Errors
    /// When the launcher ends the exchange, for instance since a rank has died.
    pub fn exchange(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, MemberError> {
        let number = self.exchanges.replace(self.exchanges.get() + 1);
        let name = |rank: u32| format!("bowline-member-{number}-{rank}");
        let mut boot = self.place.0.lock().unwrap_or_else(PoisonError::into_inner);
        boot.kvs.put(&name(self.rank), mine)?;
        boot.kvs.barrier()?;
        (0..self.size).map(|rank| Ok(boot.kvs.get(&name(rank))?)).collect()
    }

    /// Waits until all ranks are here. The launcher carries it, and no worker makes progress meanwhile:
    /// it is for the start of a job. It completes nothing: what a rank has sent or put before may still
    /// need its own progress or that of its target, so a rank which waits here for such an operation
    /// waits for ever. After traffic, have it complete first ([`flush`](Worker::flush), the requests'
    /// ends), or meet by messages: each rank sends one to rank 0, which answers all of them, and all
    /// wait by [`wait_until`](Worker::wait_until).
    ///
    /// # Errors
    /// As for [`exchange`](Self::exchange).
    pub fn barrier(&self) -> Result<(), MemberError> {
        let mut boot = self.place.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(boot.kvs.barrier()?)
    }
}
