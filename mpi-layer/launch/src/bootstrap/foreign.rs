//! Joining a job that another manager started, by PMI-1 or by PMIx.
//!
//! ```text
//!   rank 0 puts id and secret ─┐
//!   (every rank its host)      ├─ barrier ─► lowest rank of each node makes the memory, puts an
//!                              │             offer ─ barrier ─► others open it ─► all attach
//!                              │             ─ barrier ─► watch each other
//! ```
//!
//! Ranks of a node that are in different pid namespaces give each other their pidfds after the last
//! barrier ([`pidfds`](super::pidfds)).
//!
//! Which ranks share a node is known from the manager (`PMI_process_mapping`, or the local peers of PMIx);
//! where it does not say, by host name and boot id, which every rank then publishes.

use crate::pmi::{Client, NodeMapping, PmiError};

use bowline_base::job::{JobMemory, JobSpec, pid_namespace};

use super::check_area;
use super::env::{self, Environment};
use super::pidfds::Exchange;
use super::pmix::Pmix;
use super::secret;
use super::share::{self, Giver, Offer};
use super::{BootError, Bootstrap, DeathWatch, Kvs, Need, Parts, StartedBy};

const JOB_KEY: &str = "bowline-job";

fn host_key(rank: u32) -> String {
    format!("bowline-host-{rank}")
}

fn node_key(leader: u32) -> String {
    format!("bowline-node-{leader}")
}

/// Joins by the connection that a PMI-1 manager has passed.
pub(super) fn join(
    env: &Environment,
    mut client: Client,
    need: &Need,
) -> Result<Bootstrap, BootError> {
    let rank: u32 = env.number(env::PMI_RANK)?;
    let size: u32 = env.number(env::PMI_SIZE)?;
    if rank >= size {
        let value = rank.to_string();
        let expected = "which should be below PMI_SIZE";
        return Err(BootError::Environment { name: env::PMI_RANK, value, expected });
    }
    let locals = mapping(&mut client)?.map(|mapping| mapping.neighbours(rank, size));
    join_by(Manager { rank, size, locals, kvs: Box::new(client) }, need)
}

/// Joins by the server that a PMIx manager runs on this node.
pub(super) fn join_pmix(need: &Need) -> Result<Bootstrap, BootError> {
    let pmix = Pmix::connect()?;
    let (rank, size, locals) = (pmix.rank(), pmix.size(), pmix.neighbours());
    if rank >= size {
        return Err(BootError::Unsupported("PMIx gives this rank a number beyond the job's size"));
    }
    join_by(Manager { rank, size, locals, kvs: Box::new(pmix) }, need)
}

/// What is known from a manager.
struct Manager {
    rank: u32,
    size: u32,
    /// The ranks on this node, with this one.
    locals: Option<Vec<u32>>,
    kvs: Box<dyn Kvs>,
}

fn join_by(manager: Manager, need: &Need) -> Result<Bootstrap, BootError> {
    let Manager { rank, size, locals, mut kvs } = manager;
    if rank == 0 {
        let mut id = [0; 8];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| BootError::System { act: "draw a random job id", source: e.into() })?;
        kvs.put(JOB_KEY, &id)?;
        let secret = secret::draw()
            .map_err(|e| BootError::System { act: "draw a random secret", source: e.into() })?;
        kvs.put(secret::KEY, &secret)?;
    }
    if locals.is_none() {
        kvs.put(&host_key(rank), &share::host()?)?;
    }
    kvs.barrier()?;
    let id = job_id(&mut *kvs)?;
    let secret = secret::received(&mut *kvs)?;
    let locals = match locals {
        Some(locals) => locals,
        None => same_host(&mut *kvs, rank, size)?,
    };
    let local_rank = locals.iter().position(|&r| r == rank).expect("a rank is its own neighbour");
    let local_rank = local_rank as u32;
    let leader = locals[0];

    let mut giver = None;
    let mut leaders = pid_namespace();
    let made = if local_rank == 0 {
        let job = JobMemory::create_memfd(&JobSpec {
            job_id: id,
            ranks: locals.len() as u32,
            first_rank: rank,
            area_bytes: need.area_bytes,
        })?;
        giver = Some(Giver::start(&job)?);
        kvs.put(&node_key(rank), &Offer::of(&job)?.to_bytes())?;
        Some(job)
    } else {
        None
    };
    kvs.barrier()?;
    let job = match made {
        Some(job) => job,
        None => {
            let offer = kvs.get(&node_key(leader))?;
            leaders = Offer::namespace_in(&offer);
            share::take(&offer, leader, need.route)?
        }
    };
    if job.id() != id || job.ranks() as usize != locals.len() {
        return Err(BootError::WrongMemory(format!(
            "rank {leader} offers memory of job {:016x} with {} ranks, this is job {id:016x} with \
             {} ranks on this node",
            job.id(),
            job.ranks(),
            locals.len()
        )));
    }
    check_area(&job, need)?;
    let started_by = StartedBy::Foreign;
    let mut boot =
        Bootstrap::attach(Parts { rank, size, local_rank, locals, job, secret, kvs, started_by })?;
    let exchange = Exchange::start(&boot.job, local_rank, leaders)?;
    boot.kvs.barrier()?;
    // Everybody on this node has the memory.
    drop(giver);
    boot.death_watch = Some(DeathWatch::new(&boot.job, local_rank, exchange.finish()));
    Ok(boot)
}

fn job_id(kvs: &mut dyn Kvs) -> Result<u64, BootError> {
    let bytes = kvs.get(JOB_KEY)?;
    let bytes = bytes.try_into().map_err(|_| {
        BootError::WrongMemory("rank 0 published a job id of another length than 8 bytes".into())
    })?;
    Ok(u64::from_ne_bytes(bytes))
}

/// The manager's mapping, if it has one.
fn mapping(client: &mut Client) -> Result<Option<NodeMapping>, BootError> {
    match client.get("PMI_process_mapping") {
        Ok(text) => Ok(Some(NodeMapping::parse(&text)?)),
        Err(PmiError::Refused { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn same_host(kvs: &mut dyn Kvs, rank: u32, size: u32) -> Result<Vec<u32>, BootError> {
    let own = share::host()?;
    let mut locals = Vec::new();
    for other in 0..size {
        if other == rank || kvs.get(&host_key(other))? == own {
            locals.push(other);
        }
    }
    Ok(locals)
}
