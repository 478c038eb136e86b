//! How much of a message's time is hidden behind a computation on both sides (figure 3.7 of the
//! thesis): the total of each side should not grow with the size.

use std::time::{Duration, Instant};

use anyhow::Result;
use bowline::mpi::World;

use crate::ranks::{ALONE, Lane, MODES, Work, median, run};
use crate::table::{Cell, Chart, Table, Unit};

/// The computation on both sides.
pub(crate) const COMPUTED: Duration = Duration::from_micros(1000);

/// Times of one size: total of the receiver and of the sender, who of them computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) sender_first: bool,
    pub(crate) receiver_computes: bool,
    pub(crate) sender_computes: bool,
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

/// Medians of this side's total, by size, in us.
pub(crate) fn totals(world: &World, plan: Plan, sizes: &[usize], count: usize) -> Result<Vec<f64>> {
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
    // Behind the modes, with what they are compared.
    let modes = MODES.into_iter().chain((lane == Lane::Shm).then_some(ALONE));
    let mut found =
        vec![[vec![Vec::new(); sizes.len()], vec![Vec::new(); sizes.len()]]; modes.clone().count()];
    for _ in 0..rounds {
        for (mode, found) in modes.clone().zip(&mut found) {
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

/// Both compute, or nobody.
const BOTH: Plan = Plan { sender_first: false, receiver_computes: true, sender_computes: true };

/// Up to where a message takes not quite as long as the computation: on the card by what it was asked to
/// be, and where the processors copy, that of its receiver alone, behind a computation. That takes far
/// longer than the next of a row, whose bytes are in caches.
fn sizes(lane: Lane) -> Result<Vec<usize>> {
    const LEAST: usize = 16 << 10;
    const MOST: usize = 64 << 20;
    if lane == Lane::Carrier {
        return Ok(vec![LEAST, 64 << 10, 128 << 10, 180 << 10]);
    }
    let total = |size| {
        let both = run(2, lane, ALONE, |world| totals(world, BOTH, &[size], 20))?;
        anyhow::Ok(both[0][0])
    };
    let computed = total(LEAST)?;
    let mut longest = 1 << 20;
    while longest < MOST && total(2 * longest)? < 1.9 * computed {
        longest *= 2;
    }
    Ok(vec![LEAST, longest / 16, longest / 4, longest])
}

pub(crate) fn tables(quick: bool) -> Result<Vec<Table>> {
    let mut table = Table::new(
        "overlap",
        "total time with 1 ms of computation on both sides; published (figure 3.7): pef and thread flat, none grows",
        &[
            "lane",
            "first",
            "side",
            "bytes",
            "message alone",
            "none",
            "pef",
            "thread",
            "receiver copies",
        ],
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
                    let cell = |mode: usize| Cell::number(with[mode][side][at], 1, " us");
                    let first = if sender_first { "sender" } else { "receiver" };
                    table.row(vec![
                        lane.name().into(),
                        first.into(),
                        name.into(),
                        Cell::count(*size as u64),
                        Cell::number(without[0][side][at], 1, " us"),
                        cell(0),
                        cell(1),
                        cell(2),
                        if lane == Lane::Shm { cell(MODES.len()) } else { "-".into() },
                    ]);
                    for (mode, name_of_mode) in MODES.iter().enumerate() {
                        let panel = format!("{}, {first} first: {name}", lane.name());
                        let time = with[mode][side][at] * 1000.0;
                        chart.point_in(&panel, name_of_mode, *size as f64, time);
                    }
                }
                judge(&mut table, lane, sender_first, name, &with, side, sizes.len());
            }
        }
    }
    table.chart = Some(chart);
    Ok(vec![table])
}

fn judge(
    table: &mut Table,
    lane: Lane,
    sender_first: bool,
    name: &str,
    with: &[[Vec<f64>; 2]],
    side: usize,
    sizes: usize,
) {
    let who = format!(
        "{}, {} first, {name}",
        lane.name(),
        if sender_first { "sender" } else { "receiver" }
    );
    let (least, most) = (with[1][side][0], with[1][side][sizes - 1]);
    if lane == Lane::Carrier {
        let grown = (most / least - 1.0) * 100.0;
        let what = format!("pef flat within 2 % ({who})");
        return table.goal(what, format!("{grown:+.2} %"), grown < 2.0);
    }
    // Where the processors copy, both do in their waits, which no signal makes shorter.
    for (at, (none, pef)) in with[0][side].iter().zip(&with[1][side]).enumerate() {
        let more = (pef / none - 1.0) * 100.0;
        let what = format!("pef no slower than none by 2 % ({who}, size {})", at + 1);
        table.goal(what, format!("{more:+.2} %"), more < 2.0);
    }
}

/// Where the processor copies and one side waits, it copies for the other. How much of the copy is
/// hidden is a part of what both take for it together behind a computation, in mode none.
pub(crate) fn waiting(quick: bool) -> Result<Vec<Table>> {
    let mut table = Table::new(
        "waiting",
        "total time in us of the side that computes 1000 us while the other waits, receiver first, shm",
        &["computes", "bytes", "both compute, none", "none", "pef", "thread"],
    );
    let sizes = sizes(Lane::Shm)?;
    let sizes = [sizes[0], sizes[2], sizes[3]];
    let both = measure(Lane::Shm, BOTH, &sizes, quick)?;
    for (side, name) in ["receiver", "sender"].into_iter().enumerate() {
        let plan = Plan { receiver_computes: side == 0, sender_computes: side == 1, ..BOTH };
        let with = measure(Lane::Shm, plan, &sizes, quick)?;
        let computed = with[0][side][0].min(both[0][side][0]);
        for (at, size) in sizes.iter().enumerate() {
            let cell = |mode: usize| Cell::number(with[mode][side][at], 1, "");
            table.row(vec![
                name.into(),
                Cell::count(*size as u64),
                Cell::number(both[0][side][at], 1, ""),
                cell(0),
                cell(1),
                cell(2),
            ]);
        }
        let last = sizes.len() - 1;
        let copy = both[0][side][last] - computed;
        let part = |mode: usize| 1.0 - (with[mode][side][last] - computed) / copy;
        let what = format!(
            "pef hides 80 % of the copy of {} bytes while only the {name} computes",
            sizes[last]
        );
        let said = format!("{:.0} % (none: {:.0} %)", part(1) * 100.0, part(0) * 100.0);
        table.goal(what, said, part(1) >= 0.8);
    }
    Ok(vec![table])
}
