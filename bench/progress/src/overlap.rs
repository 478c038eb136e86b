//! How much of a message's time is hidden behind a computation on both sides (experiment 3-2 of the
//! thesis): the total of each side should not grow with the size.

use std::time::{Duration, Instant};

use anyhow::Result;
use bowline::mpi::World;

use crate::ranks::{Lane, MODES, Work, median, run};
use crate::table::{Cell, Chart, Table, Unit};

/// The computation on both sides.
const COMPUTED: Duration = Duration::from_micros(1000);

/// Times of one size: total of the receiver and of the sender, who of them computes.
#[derive(Clone, Copy, Debug)]
struct Plan {
    sender_first: bool,
    receiver_computes: bool,
    sender_computes: bool,
}

fn once(world: &World, plan: Plan, work: Work, buffer: &mut [u8]) -> Result<f64> {
    world.barrier()?;
    let start = Instant::now();
    if world.rank() == 0 {
        if plan.sender_first {
            world.barrier()?;
        }
        world.scope(|s| {
            let receive = s.irecv(world, buffer, 1, 1)?;
            if !plan.sender_first {
                world.barrier()?;
            }
            if plan.receiver_computes {
                work.go();
            }
            receive.wait().map(drop)
        })?;
    } else {
        if !plan.sender_first {
            world.barrier()?;
        }
        world.scope(|s| {
            let send = s.isend(world, buffer, 0, 1)?;
            if plan.sender_first {
                world.barrier()?;
            }
            if plan.sender_computes {
                work.go();
            }
            send.wait()
        })?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

fn totals(world: &World, plan: Plan, sizes: &[usize], count: usize) -> Result<Vec<f64>> {
    let work = Work::of(COMPUTED);
    let mut all = Vec::new();
    for &size in sizes {
        let mut buffer = vec![1u8; size];
        let mut times = Vec::new();
        for _ in 0..count + 5 {
            times.push(once(world, plan, work, &mut buffer)?);
        }
        all.push(median(times.split_off(5)));
    }
    Ok(all)
}

/// Totals of both sides, by mode and size.
fn measure(lane: Lane, plan: Plan, sizes: &[usize], quick: bool) -> Result<Vec<[Vec<f64>; 2]>> {
    let (rounds, count) = if quick { (2, 20) } else { (5, 60) };
    let mut found =
        vec![[vec![Vec::new(); sizes.len()], vec![Vec::new(); sizes.len()]]; MODES.len()];
    for _ in 0..rounds {
        for (mode, found) in MODES.iter().zip(&mut found) {
            let both = run(2, lane, mode, |world| totals(world, plan, sizes, count))?;
            for (side, times) in both.iter().enumerate() {
                for (at, time) in times.iter().enumerate() {
                    found[side][at].push(*time);
                }
            }
        }
    }
    let medians = |side: Vec<Vec<f64>>| side.into_iter().map(median).collect();
    Ok(found.into_iter().map(|sides| sides.map(medians)).collect())
}

/// Up to where a message alone takes some three quarters of the computation: on the card by what it
/// was told to be. Where the processors copy, both do so when nobody computes, and one of them alone
/// takes twice as long and more: up to where that has room in the computation, on this machine.
fn sizes(lane: Lane) -> Result<Vec<usize>> {
    const MOST: usize = 64 << 20;
    if lane == Lane::Carrier {
        return Ok(vec![16 << 10, 64 << 10, 128 << 10, 180 << 10]);
    }
    let alone = Plan { sender_first: true, receiver_computes: false, sender_computes: false };
    let mut longest = 1 << 20;
    while longest < MOST {
        let both = run(2, lane, MODES[0], |world| totals(world, alone, &[longest], 20))?;
        if both[0][0] > 0.15 * COMPUTED.as_secs_f64() * 1e6 {
            break;
        }
        longest *= 2;
    }
    Ok(vec![16 << 10, longest / 16, longest / 4, longest])
}

pub(crate) fn tables(quick: bool) -> Result<Vec<Table>> {
    let mut table = Table::new(
        "overlap",
        "total time in us with 1000 us of computation on both sides; published: pef and thread flat, \
         none grows, in all four panels",
        &["lane", "first", "side", "bytes", "message alone", "none", "pef", "thread"],
    );
    let mut chart =
        Chart::new("length of the message", Unit::Bytes, "total time", Unit::Nanoseconds);
    for lane in Lane::ALL {
        let sizes = &sizes(lane)?;
        for sender_first in [true, false] {
            let plan = Plan { sender_first, receiver_computes: true, sender_computes: true };
            let alone = Plan { receiver_computes: false, sender_computes: false, ..plan };
            let (with, without) =
                (measure(lane, plan, sizes, quick)?, measure(lane, alone, sizes, quick)?);
            for (side, name) in ["receiver", "sender"].into_iter().enumerate() {
                for (at, size) in sizes.iter().enumerate() {
                    let cell = |mode: usize| Cell::number(with[mode][side][at], 1, "");
                    let first = if sender_first { "sender" } else { "receiver" };
                    table.row(vec![
                        lane.name().into(),
                        first.into(),
                        name.into(),
                        Cell::count(*size as u64),
                        Cell::number(without[0][side][at], 1, ""),
                        cell(0),
                        cell(1),
                        cell(2),
                    ]);
                    for (mode, name_of_mode) in MODES.iter().enumerate() {
                        let curve =
                            format!("{} {first} first, {name}: {name_of_mode}", lane.name());
                        chart.point(&curve, *size as f64, with[mode][side][at] * 1000.0);
                    }
                }
                judge(&mut table, lane, sender_first, name, &with, &without, side, sizes.len());
            }
        }
        if lane == Lane::Shm {
            hidden(&mut table, sizes, quick)?;
        }
    }
    table.chart = Some(chart);
    Ok(vec![table])
}

#[expect(clippy::too_many_arguments, reason = "one place of one table")]
fn judge(
    table: &mut Table,
    lane: Lane,
    sender_first: bool,
    name: &str,
    with: &[[Vec<f64>; 2]],
    without: &[[Vec<f64>; 2]],
    side: usize,
    sizes: usize,
) {
    let who = format!(
        "{}, {} first, {name}",
        lane.name(),
        if sender_first { "sender" } else { "receiver" }
    );
    let (least, most) = (with[1][side][0], with[1][side][sizes - 1]);
    match (lane, name) {
        (Lane::Carrier, _) => {
            let grown = (most / least - 1.0) * 100.0;
            table.goal(
                format!("pef flat within 2 % ({who})"),
                format!("{grown:+.2} %"),
                grown < 2.0,
            );
        }
        (Lane::Shm, "receiver") => {
            let sum = COMPUTED.as_secs_f64() * 1e6 + without[0][side][sizes - 1];
            let more = (most / sum - 1.0) * 100.0;
            let what = format!("pef within 5 % of computation and copy ({who})");
            table.goal(what, format!("{more:+.2} %"), more < 5.0);
        }
        (Lane::Shm, _) => {
            let hidden = 1.0 - (most - least) / without[0][side][sizes - 1];
            let what = format!("pef hides the sender's wait ({who})");
            table.goal(what, format!("{:.0} % of it", hidden * 100.0), hidden > 0.8);
        }
    }
}

/// Where the processor copies and one side waits, it copies for the other.
fn hidden(table: &mut Table, sizes: &[usize], quick: bool) -> Result<()> {
    let sizes = &sizes[sizes.len() - 1..];
    for (receiver, name) in [(true, "receiver"), (false, "sender")] {
        let plan =
            Plan { sender_first: false, receiver_computes: receiver, sender_computes: !receiver };
        let alone = Plan { receiver_computes: false, sender_computes: false, ..plan };
        let (with, without) =
            (measure(Lane::Shm, plan, sizes, quick)?, measure(Lane::Shm, alone, sizes, quick)?);
        let side = usize::from(!receiver);
        let computed = COMPUTED.as_secs_f64() * 1e6;
        let part = |mode: usize| 1.0 - (with[mode][side][0] - computed) / without[0][side][0];
        let what = format!(
            "pef hides 80 % of the copy of {} bytes while only the {name} computes",
            sizes[0]
        );
        let said = format!("{:.0} % (none: {:.0} %)", part(1) * 100.0, part(0) * 100.0);
        table.goal(what, said, part(1) >= 0.8);
    }
    Ok(())
}
