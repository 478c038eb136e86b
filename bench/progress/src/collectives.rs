//! How much of a collective's time is hidden behind a computation of all its ranks: an allreduce of a megabyte and an
//! exchange of 64 KB with every rank, in the modes `none` and `thread`.
//!
//! A collective takes time in which something is on its way, and time of processors: those of the ranks' node copy
//! and add, on shared memory all of it, on a network of this node most. Behind a computation that has all processors
//! the second kind is not hidden by any means. So each is measured twice: behind a computation on the processor, and
//! behind one elsewhere, for which the rank's thread sleeps.

use std::time::{Duration, Instant};

use anyhow::Result;
use bowline::mpi::{Sum, World};

use crate::ranks::{Lane, Work, median, run};
use crate::table::{Cell, Table};

/// What runs in the background.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Allreduce,
    Alltoall,
}

/// Where the rank's computation is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Nowhere: the rank waits at once.
    None,
    Processor(Work),
    Elsewhere(Duration),
}

impl Place {
    fn go(self) {
        match self {
            Self::None => {}
            Self::Processor(work) => work.go(),
            Self::Elsewhere(time) => std::thread::sleep(time),
        }
    }
}

/// Bytes that a rank gives, to all or to each.
const ALLREDUCE: usize = 1 << 20;
const ALLTOALL: usize = 64 << 10;

/// Median microseconds from the start of a collective to the end of its wait, with a computation between.
fn total(world: &World, kind: Kind, place: Place, count: usize) -> Result<f64> {
    let len = match kind {
        Kind::Allreduce => ALLREDUCE / 8,
        Kind::Alltoall => ALLTOALL / 8 * world.size() as usize,
    };
    let (input, mut output) = (vec![1u64; len], vec![0u64; len]);
    let mut times = Vec::new();
    for _ in 0..count + 3 {
        world.barrier()?;
        let start = Instant::now();
        world.scope(|s| {
            let request = match kind {
                Kind::Allreduce => s.iallreduce(world, &input, &mut output, Sum),
                Kind::Alltoall => s.ialltoall(world, &input, &mut output),
            }?;
            place.go();
            request.wait()
        })?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times.split_off(3)))
}

/// Median microseconds of the computation alone, while the other ranks compute as well.
fn computed(world: &World, place: Place, count: usize) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..count {
        world.barrier()?;
        let start = Instant::now();
        place.go();
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times))
}

pub(crate) fn tables(quick: bool) -> Result<Vec<Table>> {
    const MODES: [&str; 2] = ["none", "thread"];
    let (rounds, count) = if quick { (2, 20) } else { (5, 60) };
    let mut table = Table::new(
        "collectives",
        "a collective of 2 ranks behind a computation of all, times in us of the slower rank",
        &["lane", "collective", "computation", "alone", "computed", "none", "thread", "hidden"],
    );
    for lane in [Lane::Tcp, Lane::Shm] {
        for (kind, name) in
            [(Kind::Allreduce, "iallreduce 1 MB"), (Kind::Alltoall, "ialltoall 64 KB")]
        {
            let slowest = |mode, body: &(dyn Fn(&World) -> Result<f64> + Sync)| {
                anyhow::Ok(run(2, lane, mode, body)?.into_iter().fold(0.0, f64::max))
            };
            let alone = slowest("none", &|world| total(world, kind, Place::None, count))?;
            // Long enough to hide behind, with scheduling and all.
            let time = Duration::from_secs_f64((alone * 2.0).max(1000.0) * 1e-6);
            for elsewhere in [false, true] {
                let place = || match elsewhere {
                    false => Place::Processor(Work::of(time)),
                    true => Place::Elsewhere(time),
                };
                let (mut alones, mut bases) = (Vec::new(), Vec::new());
                let mut found = [Vec::new(), Vec::new()];
                for _ in 0..rounds {
                    alones.push(slowest("none", &|world| total(world, kind, Place::None, count))?);
                    bases.push(slowest("none", &|world| computed(world, place(), count))?);
                    for (mode, found) in MODES.iter().zip(&mut found) {
                        found.push(slowest(mode, &|world| total(world, kind, place(), count))?);
                    }
                }
                let (alone, base) = (median(alones), median(bases));
                let [none, thread] = found.map(median);
                let hidden = (1.0 - (thread - base) / alone) * 100.0;
                let computation = if elsewhere { "elsewhere" } else { "on the processor" };
                table.row(vec![
                    lane.name().into(),
                    name.into(),
                    computation.into(),
                    Cell::number(alone, 1, ""),
                    Cell::number(base, 1, ""),
                    Cell::number(none, 1, ""),
                    Cell::number(thread, 1, ""),
                    Cell::number(hidden, 0, " %"),
                ]);
                if lane == Lane::Tcp || elsewhere {
                    let what =
                        format!("thread hides 80 % ({}, {name}, {computation})", lane.name());
                    table.goal(what, format!("{hidden:.0} %"), hidden >= 80.0);
                }
            }
        }
    }
    table.note(
        "over tcp on one machine, and over shared memory, a collective is work of the processors: behind a \
         computation that has both of them only its waits can be hidden",
    );
    Ok(vec![table])
}
