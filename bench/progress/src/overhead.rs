//! What a mode costs where nobody computes: the latency of three scenarios beside that of mode `none`
//! (figure 3.6 of the thesis).

use std::time::Instant;

use anyhow::Result;
use bowline::mpi::World;

use crate::ranks::{MODES, Scope, median, run};
use crate::table::{Cell, Table};

/// The scenarios, and what was published (figures 3.6a to c): overhead of the parasite flow and of the thread, in us.
const SCENARIOS: [(&str, &str, &str); 3] = [
    ("blocking receive", "about 0", "about 10"),
    ("nonblocking, sender first", "about 0", "about 20"),
    ("nonblocking, receiver first", "about 5", "about 12"),
];

/// Latencies of the scenarios in us, by size.
fn latencies(world: &World, sizes: &[usize], count: usize) -> Result<Vec<[f64; 3]>> {
    let mut all = Vec::new();
    for &size in sizes {
        let mut buffer = vec![1u8; size];
        let mut found = [0.0; 3];
        for (scenario, latency) in found.iter_mut().enumerate() {
            let mut times = Vec::new();
            for _ in 0..count + 10 {
                world.barrier()?;
                times.push(once(world, scenario, &mut buffer)?);
            }
            *latency = median(times.split_off(10));
        }
        all.push(found);
    }
    Ok(all)
}

fn once(world: &World, scenario: usize, buffer: &mut [u8]) -> Result<f64> {
    let start = Instant::now();
    match (world.rank(), scenario) {
        (0, 0) => {
            world.send(buffer, 1, 1)?;
            world.recv(buffer, 1, 1)?;
            return Ok(start.elapsed().as_secs_f64() * 5e5);
        }
        (_, 0) => {
            world.recv(buffer, 0, 1)?;
            world.send(buffer, 0, 1)?;
        }
        (0, 1) => {
            world.barrier()?;
            let start = Instant::now();
            world.scope(|s| s.irecv(world, buffer, 1, 1)?.wait().map(drop))?;
            return Ok(start.elapsed().as_secs_f64() * 1e6);
        }
        (_, 1) => world.scope(|s| {
            let send = s.isend(world, buffer, 0, 1)?;
            world.barrier()?;
            send.wait()
        })?,
        (0, _) => world.scope(|s| {
            let receive = s.irecv(world, buffer, 1, 1)?;
            world.barrier()?;
            receive.wait().map(drop)
        })?,
        _ => {
            world.barrier()?;
            world.send(buffer, 0, 1)?;
        }
    }
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

pub(crate) fn tables(scope: &Scope) -> Result<Vec<Table>> {
    let (rounds, count) = if scope.quick { (2, 50) } else { (5, 300) };
    let mut table = Table::new(
        "overhead",
        "overhead of a mode in us over mode none, nobody computing; the receiver's side",
        &[
            "lane",
            "scenario",
            "bytes",
            "none",
            "pef",
            "thread",
            "published pef",
            "published thread",
        ],
    );
    for lane in scope.lanes_here() {
        let sizes: &[usize] =
            if lane.carries() { &[16 << 10, 64 << 10] } else { &[16 << 10, 64 << 10, 256 << 10] };
        // Modes take turns, so that a disturbance meets all of them.
        let mut found = vec![vec![vec![Vec::new(); 3]; sizes.len()]; MODES.len()];
        for _ in 0..rounds {
            for (mode, found) in MODES.iter().zip(&mut found) {
                let both = run(2, lane, mode, |world| latencies(world, sizes, count))?;
                for (at, scenarios) in both[0].iter().enumerate() {
                    for (scenario, latency) in scenarios.iter().enumerate() {
                        found[at][scenario].push(*latency);
                    }
                }
            }
        }
        for (scenario, (name, pef, thread)) in SCENARIOS.iter().enumerate() {
            for (at, size) in sizes.iter().enumerate() {
                let of = |mode: usize| median(found[mode][at][scenario].clone());
                let none = of(0);
                table.row(vec![
                    lane.name().into(),
                    (*name).into(),
                    Cell::count(*size as u64),
                    Cell::number(none, 2, ""),
                    Cell::number(of(1) - none, 2, ""),
                    Cell::number(of(2) - none, 2, ""),
                    (*pef).into(),
                    (*thread).into(),
                ]);
                if scenario < 2 {
                    let part = (of(1) - none) / none * 100.0;
                    let what = format!("pef adds less than 1 % ({}, {name}, {size})", lane.name());
                    table.goal(what, format!("{part:.2} %"), part < 1.0);
                }
            }
        }
    }
    table.note(
        "published: figure 3.6 (a to c), means of 1000 ping-pongs between nodes of 2007 over InfiniBand, by RDMA reads",
    );
    table.note(format!(
        "The workload differs: both ranks are threads on one host, over the lanes named and no such card; a figure is a \
         median of {count} exchanges, then of {rounds} rounds. Of the published sizes, all above 9180 bytes, the text names 16 KB \
         alone."
    ));
    Ok(vec![table])
}
