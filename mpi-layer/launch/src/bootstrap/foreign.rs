//! Joining a job that another PMI-1 manager started.
//!
//! ```text
//!   rank 0 puts id and secret ─┐
//!   (every rank its host)      ├─ barrier ─► lowest rank of each node makes the memory, puts an
//!                              │             offer ─ barrier ─► others open it ─► all attach
//!                              │             ─ barrier ─► watch each other
//! ```
//!
//! Who shares a node is told by `PMI_process_mapping`; where the manager has none, by host name
//! and boot id, which every rank then publishes.

use crate::pmi::{Client, NodeMapping, PmiError};

use bowline_base::job::{JobMemory, JobSpec};

use super::check_area;
use super::env::{self, Environment};
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
    let mapping = mapping(&mut client)?;
    if rank == 0 {
        let mut id = [0; 8];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| BootError::System { act: "draw a random job id", source: e.into() })?;
        Kvs::put(&mut client, JOB_KEY, &id)?;
        let secret = secret::draw()
            .map_err(|e| BootError::System { act: "draw a random secret", source: e.into() })?;
        Kvs::put(&mut client, secret::KEY, &secret)?;
    }
    if mapping.is_none() {
        Kvs::put(&mut client, &host_key(rank), &share::host()?)?;
    }
    client.barrier()?;
    let id = job_id(&mut client)?;
    let secret = secret::received(&mut client)?;
    let locals = match mapping {
        Some(mapping) => mapping.neighbours(rank, size),
        None => same_host(&mut client, rank, size)?,
    };
    let local_rank = locals.iter().position(|&r| r == rank).expect("a rank is its own neighbour");
    let local_rank = local_rank as u32;
    let leader = locals[0];

    let mut giver = None;
    let made = if local_rank == 0 {
        let job = JobMemory::create_memfd(&JobSpec {
            job_id: id,
            ranks: locals.len() as u32,
            first_rank: rank,
            area_bytes: need.area_bytes,
        })?;
        giver = Some(Giver::start(&job)?);
        Kvs::put(&mut client, &node_key(rank), &Offer::of(&job)?.to_bytes())?;
        Some(job)
    } else {
        None
    };
    client.barrier()?;
    let job = match made {
        Some(job) => job,
        None => {
            let offer = Kvs::get(&mut client, &node_key(leader))?;
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
    let kvs = Box::new(client);
    let started_by = StartedBy::Foreign;
    let mut boot =
        Bootstrap::attach(Parts { rank, size, local_rank, locals, job, secret, kvs, started_by })?;
    boot.kvs.barrier()?;
    // Everybody on this node has the memory.
    drop(giver);
    boot.death_watch = Some(DeathWatch::new(&boot.job, local_rank));
    Ok(boot)
}

fn job_id(client: &mut Client) -> Result<u64, BootError> {
    let bytes = Kvs::get(client, JOB_KEY)?;
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

fn same_host(client: &mut Client, rank: u32, size: u32) -> Result<Vec<u32>, BootError> {
    let own = share::host()?;
    let mut locals = Vec::new();
    for other in 0..size {
        if other == rank || Kvs::get(client, &host_key(other))? == own {
            locals.push(other);
        }
    }
    Ok(locals)
}
