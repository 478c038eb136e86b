//! How much of a collective's time is hidden behind a computation of all its ranks: an allreduce of a megabyte and an
//! exchange of 64 KB with every rank, in the modes `none`, `pef` and `thread`.
//!
//! Communication time is that from the start of a nonblocking collective to the end of a wait that follows at once. Hidden is what
//! it and the computation take one after the other, less what both take together.
//!
//! A collective takes time in which something is on its way, and time of processors: those of the ranks' node copy
//! and add, on shared memory all of it, on a network of this node most. A rank that computes on its processor cannot
//! hide the second kind by any means. So each is measured behind a computation on the processor, and behind one
//! elsewhere, for which the rank's thread sleeps; and what is hidden is set against the first kind alone as well. Hosts that a
//! network with delay joins have something of that kind; the relay that delays takes time of the two processors, too.

use std::time::{Duration, Instant};

use anyhow::Result;
use bowline::mpi::{Sum, World};
use bowline_bench::{DelayedNetwork, RelayOptions};
use rustix::time::{ClockId, clock_gettime};

use crate::ranks::{Lane, Scope, Work, median, run_with};
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

const RANKS: u32 = 2;

/// Bytes that a rank gives, to all or to each.
const ALLREDUCE: usize = 1 << 20;
const ALLTOALL: usize = 64 << 10;

/// Least wait, in us and as a part of the communication time, of which a hidden part says anything.
const LEAST_WAIT: (f64, f64) = (10.0, 0.1);

/// Runs before those that count.
const WARM: usize = 3;

/// Microseconds from the start of a collective to the end of its wait, with a computation between.
fn totals(world: &World, kind: Kind, place: Place, count: usize) -> Result<Vec<f64>> {
    let len = match kind {
        Kind::Allreduce => ALLREDUCE / 8,
        Kind::Alltoall => ALLTOALL / 8 * world.size() as usize,
    };
    let (input, mut output) = (vec![1u64; len], vec![0u64; len]);
    let mut times = Vec::new();
    for _ in 0..count + WARM {
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
    Ok(times.split_off(WARM))
}

/// Microseconds of the computation alone, while the other ranks compute as well.
fn computed(world: &World, place: Place, count: usize) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..count {
        world.barrier()?;
        let start = Instant::now();
        place.go();
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}

/// A lane, and hosts that it joins where ranks are not on one.
type Net<'a> = (Lane, Option<&'a DelayedNetwork>);

/// The slowest rank's median.
fn slowest(
    net: Net<'_>,
    mode: &str,
    body: impl Fn(&World) -> Result<Vec<f64>> + Sync,
) -> Result<f64> {
    // Threads of one process do not know that they are on two hosts, where `pef` serves from then on.
    let phase = [("BOWLINE_PEF_PHASE", "20us")];
    let settings: &[_] = if net.1.is_some() && mode == "pef" { &phase } else { &[] };
    let medians = run_with(RANKS, net, mode, settings, |world| Ok(median(body(world)?)))?;
    Ok(medians.into_iter().fold(0.0, f64::max))
}

/// Microseconds of a rank's processor that a collective takes: what the process takes where no rank polls on while it waits,
/// less what it takes without the collective.
fn busy(net: Net<'_>, kind: Kind, time: Duration, count: usize) -> Result<f64> {
    let place = Place::Elsewhere(time);
    let used = |with: bool| {
        let settings = [("BOWLINE_WAIT_SPINS", "0"), ("BOWLINE_WAIT_YIELDS", "0")];
        let spent = run_with(RANKS, net, "thread", &settings, |world| {
            world.barrier()?;
            let start = clock_gettime(ClockId::ProcessCPUTime);
            if with {
                totals(world, kind, place, count)?;
            } else {
                computed(world, place, count + WARM)?;
            }
            world.barrier()?;
            let end = clock_gettime(ClockId::ProcessCPUTime);
            let seconds = (end.tv_sec - start.tv_sec) as f64;
            Ok(seconds * 1e6 + (end.tv_nsec - start.tv_nsec) as f64 * 1e-3)
        })?;
        anyhow::Ok(median(spent) / (count + WARM) as f64 / f64::from(RANKS))
    };
    Ok((used(true)? - used(false)?).max(0.0))
}

/// The rows of one collective over one net.
fn rows(
    table: &mut Table,
    net: Net<'_>,
    (kind, name): (Kind, &str),
    (rounds, count): (usize, usize),
) -> Result<()> {
    const MODES: [&str; 3] = ["none", "pef", "thread"];
    let lane = if net.1.is_some() { "tcp, 100 us" } else { net.0.name() };
    let alone = || slowest(net, "none", |world| totals(world, kind, Place::None, count));
    // Long enough to hide behind, with scheduling and all.
    let time = Duration::from_secs_f64((alone()? * 2.0).max(1000.0) * 1e-6);
    let busy = busy(net, kind, time, count)?;
    for elsewhere in [false, true] {
        let place = || match elsewhere {
            false => Place::Processor(Work::of(time)),
            true => Place::Elsewhere(time),
        };
        let (mut alones, mut bases) = (Vec::new(), Vec::new());
        let mut found = [const { Vec::new() }; MODES.len()];
        for _ in 0..rounds {
            alones.push(alone()?);
            bases.push(slowest(net, "none", |world| computed(world, place(), count))?);
            for (mode, found) in MODES.iter().zip(&mut found) {
                found.push(slowest(net, mode, |world| totals(world, kind, place(), count))?);
            }
        }
        let (alone, base) = (median(alones), median(bases));
        let [none, pef, thread] = found.map(median);
        let (hidden, waits) = (alone + base - thread, alone - busy);
        let percent = |of: f64| hidden / of * 100.0;
        let can_hide = !elsewhere && waits >= LEAST_WAIT.0.max(alone * LEAST_WAIT.1);
        let computation = if elsewhere { "elsewhere" } else { "on the processor" };
        table.row(vec![
            lane.into(),
            name.into(),
            computation.into(),
            Cell::number(alone, 1, ""),
            Cell::number(busy, 1, ""),
            Cell::number(base, 1, ""),
            Cell::number(none, 1, ""),
            Cell::number(pef, 1, ""),
            Cell::number(thread, 1, ""),
            Cell::number(percent(alone), 0, " %"),
            if can_hide { Cell::number(percent(waits), 0, " %") } else { Cell::none() },
        ]);
        // Over shared memory copies are all that there is, and the rank's processor makes them.
        if net.0 != Lane::Shm || elsewhere {
            let what = format!("thread hides 80 % ({lane}, {name}, {computation})");
            table.goal(what, format!("{:.0} %", percent(alone)), percent(alone) >= 80.0);
        }
    }
    Ok(())
}

pub(crate) fn tables(scope: &Scope) -> Result<Vec<Table>> {
    let (rounds, count) = if scope.quick { (2, 20) } else { (5, 60) };
    let mut table = Table::new(
        "collectives",
        "a collective of 2 ranks behind a computation of all, times in us of the slower rank",
        &[
            "lane",
            "collective",
            "computation",
            "alone",
            "of it busy",
            "computed",
            "none",
            "pef",
            "thread",
            "hidden",
            "of what waits",
        ],
    );
    let network = DelayedNetwork::make(RANKS as usize, &[0, 1], &RelayOptions::default());
    if let Err(error) = &network {
        table.note(format!("no rows of tcp with delay: {error}"));
    }
    let delayed = network.as_ref().ok().map(|network| (Lane::Tcp, Some(network)));
    for net in [(Lane::Tcp, None), (Lane::Shm, None)].into_iter().chain(delayed) {
        for (kind, name) in
            [(Kind::Allreduce, "iallreduce 1 MB"), (Kind::Alltoall, "ialltoall 64 KB")]
        {
            rows(&mut table, net, (kind, name), (rounds, count))?;
        }
    }
    table.note(
        "alone: from the start to the end of a wait that follows at once; of it busy: what it takes of the rank's \
         processor, sleeps and wake-ups included; hidden: alone and computed less thread, of alone; of what waits: the same, \
         of alone without what is busy, where the processor computes and there is such a rest",
    );
    Ok(vec![table])
}
