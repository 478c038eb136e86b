//! Workers that were not started together, for tests in which they meet.
#![allow(dead_code, reason = "each program uses a part of it")]

use std::net::{Ipv4Addr, SocketAddr};

use bowline::cm::TcpConnectionManager;
use bowline::stack::{self, RankPlace};
use bowline::ucp::{SpaceOptions, Worker};
use bowline::wait::SystemWaiter;
use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};

const SECRET: [u8; 32] = [9; 32];

/// A port of this machine, whichever is free.
pub(crate) const LOCALHOST: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A worker that is a job of its own.
pub(crate) fn alone(job: u64, transports: &str) -> Outcome<Worker> {
    alone_with(job, &[("BOWLINE_TRANSPORTS", transports)])
}

/// The same with more settings.
pub(crate) fn alone_with(job: u64, settings: &[(&str, &str)]) -> Outcome<Worker> {
    let config = Config::from_pairs(settings.iter().copied(), stack::SETTINGS)?;
    let area_bytes = stack::area_bytes(&config);
    let spec = JobSpec { job_id: job, ranks: 1, first_rank: 0, area_bytes };
    let memory = JobMemory::create_memfd(&spec)?;
    memory.attach(0)?;
    let place =
        RankPlace { job: memory, local: 0, rank: 0, spread: true, shared: true, secret: SECRET };
    let worker = stack::worker(&place, &config, SystemWaiter::new(&config))?;
    worker.open_space(0, SpaceOptions::default())?;
    worker.set_connection_manager(Box::new(TcpConnectionManager::open(&config, SECRET)?));
    Ok(worker)
}
