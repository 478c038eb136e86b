//! How much of a message's time is hidden behind a computation on both sides (figure 3.7 of the
//! thesis): the total of each side should not grow with the size.

use std::time::Instant;

use anyhow::Result;
use bowline::mpi::World;

use crate::ranks::{ALONE, Lane, MODES, Scope, Work, median, run};
use crate::table::{Cell, Chart, Table, Unit};

/// Times of one size: total of the receiver and of the sender, who of them computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) sender_first: bool,
    pub(crate) receiver_computes: bool,
    pub(crate) sender_computes: bool,
}

/// What a side has spent, in us: in all, and of that in the call that posts, in the computation and in the wait.
type Spent = [f64; 4];

fn once(world: &World, plan: Plan, work: Work, buffer: &mut [u8]) -> Result<Spent> {
    let us = |since: Instant| since.elapsed().as_secs_f64() * 1e6;
    let mut parts = [0.0; 3];
    world.barrier()?;
    let start = Instant::now();
    if world.rank() == 0 {
        if plan.sender_first {
            world.barrier()?;
        }
        world.scope(|s| {
            let posting = Instant::now();
            let receive = s.irecv(world, buffer, 1, 1)?;
            parts[0] = us(posting);
            if !plan.sender_first {
                world.barrier()?;
            }
            let computing = Instant::now();
            if plan.receiver_computes {
                work.go();
            }
            parts[1] = us(computing);
            let waiting = Instant::now();
            receive.wait()?;
            parts[2] = us(waiting);
            Ok(())
        })?;
    } else {
        if !plan.sender_first {
            world.barrier()?;
        }
        world.scope(|s| {
            let posting = Instant::now();
            let send = s.isend(world, buffer, 0, 1)?;
            parts[0] = us(posting);
            if plan.sender_first {
                world.barrier()?;
            }
            let computing = Instant::now();
            if plan.sender_computes {
                work.go();
            }
            parts[1] = us(computing);
            let waiting = Instant::now();
            send.wait()?;
            parts[2] = us(waiting);
            Ok(())
        })?;
    }
    Ok([us(start), parts[0], parts[1], parts[2]])
}

/// The same without the message.
fn without(world: &World, plan: Plan, work: Work) -> Result<f64> {
    world.barrier()?;
    let start = Instant::now();
    world.barrier()?;
    let computes = if world.rank() == 0 { plan.receiver_computes } else { plan.sender_computes };
    if computes {
        work.go();
    }
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// A side's time in us with messages of one size, and in the same rounds without them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Total {
    pub(crate) with: f64,
    pub(crate) without: f64,
    /// Of the time with messages that in the call that posts, in the computation and in the wait.
    pub(crate) parts: [f64; 3],
}

impl Total {
    /// The medians of each.
    pub(crate) fn median(totals: Vec<Self>) -> Self {
        let of = |time: fn(&Self) -> f64| median(totals.iter().map(time).collect());
        let parts =
            [of(|total| total.parts[0]), of(|total| total.parts[1]), of(|total| total.parts[2])];
        Self { with: of(|total| total.with), without: of(|total| total.without), parts }
    }

    /// What a message takes.
    pub(crate) const fn more(self) -> f64 {
        self.with - self.without
    }

    /// How much of a message that is alone is hidden here.
    pub(crate) const fn hidden(self, alone: Self) -> f64 {
        1.0 - self.more() / alone.more()
    }
}

/// Rounds before those that are measured.
const BEFORE: usize = 5;

/// Messages of each size in [`totals`].
pub(crate) const fn messages(count: usize) -> usize {
    count + BEFORE
}

/// Medians of this side's total, by size. `work` is the computation.
pub(crate) fn totals(
    world: &World,
    plan: Plan,
    work: Work,
    sizes: &[usize],
    count: usize,
) -> Result<Vec<Total>> {
    let mut all = Vec::new();
    for &size in sizes {
        let mut buffer = vec![1u8; size];
        let mut rounds = Vec::new();
        for _ in 0..messages(count) {
            let without = without(world, plan, work)?;
            let [with, posting, computing, waiting] = once(world, plan, work, &mut buffer)?;
            rounds.push(Total { with, without, parts: [posting, computing, waiting] });
        }
        all.push(Total::median(rounds.split_off(BEFORE)));
    }
    Ok(all)
}

/// Totals of both sides, by mode and size.
fn measure(lane: Lane, plan: Plan, sizes: &[usize], quick: bool) -> Result<Vec<[Vec<Total>; 2]>> {
    let (rounds, count) = if quick { (2, 20) } else { (5, 60) };
    // Behind the modes, with what they are compared.
    let modes = MODES.into_iter().chain((lane == Lane::Shm).then_some(ALONE));
    let mut found =
        vec![[vec![Vec::new(); sizes.len()], vec![Vec::new(); sizes.len()]]; modes.clone().count()];
    for _ in 0..rounds {
        for (mode, found) in modes.clone().zip(&mut found) {
            let both = run(2, lane, mode, |world| totals(world, plan, lane.work(), sizes, count))?;
            for (side, totals) in both.iter().enumerate() {
                for (at, total) in totals.iter().enumerate() {
                    found[side][at].push(*total);
                }
            }
        }
    }
    let medians = |side: Vec<Vec<Total>>| side.into_iter().map(Total::median).collect();
    Ok(found.into_iter().map(|sides| sides.map(medians)).collect())
}

/// Both compute, or nobody.
const BOTH: Plan = Plan { sender_first: false, receiver_computes: true, sender_computes: true };

/// Up to where a message takes not quite as long as the computation: on the card by what it was asked to
/// be, on an emulated device by what it was seen to be, and where the processors copy, that of its receiver alone, behind a computation. That takes far
/// longer than the next of a row, whose bytes are in caches.
fn sizes(lane: Lane) -> Result<Vec<usize>> {
    const LEAST: usize = 16 << 10;
    const MOST: usize = 64 << 20;
    match lane {
        Lane::Carrier => return Ok(vec![LEAST, 64 << 10, 128 << 10, 180 << 10]),
        Lane::Verbs | Lane::VerbsElsewhere => {
            return Ok(vec![LEAST, 64 << 10, 128 << 10, 256 << 10]);
        }
        Lane::Hosts | Lane::HostsElsewhere => {
            return Ok(vec![LEAST, 64 << 10, 128 << 10, 256 << 10]);
        }
        Lane::Writer | Lane::Shm | Lane::Tcp | Lane::Ofi => {}
    }
    let total = |size| {
        let both = run(2, lane, ALONE, |world| totals(world, BOTH, lane.work(), &[size], 20))?;
        anyhow::Ok(both[0][0].with)
    };
    let computed = total(LEAST)?;
    let mut longest = 1 << 20;
    while longest < MOST && total(2 * longest)? < 1.9 * computed {
        longest *= 2;
    }
    Ok(vec![LEAST, longest / 16, longest / 4, longest])
}

/// How the workload of the first table differs from the published one.
const DIFFERS: &str = "The workload differs: published are two nodes with an InfiniBand card each, that computed 1000 us while the longest \
         message took less than 750; here both ranks are threads on one host, whose computation is a loop, and messages are as long \
         as the lane makes them: where processors copy, a message takes one of those that compute.";

pub(crate) fn tables(scope: &Scope) -> Result<Vec<Table>> {
    let quick = scope.quick;
    let mut table = Table::new(
        "overlap",
        "total time with 1 ms of computation on both sides, 10 ms over verbs; published (figure 3.7): pef and thread \
         flat, none grows",
        &[
            "lane",
            "first",
            "side",
            "bytes",
            "message alone",
            "computed",
            "none",
            "pef",
            "thread",
            "receiver copies",
            "hidden",
            "parts of none",
            "parts of pef",
        ],
    );
    let mut chart =
        Chart::new("length of the message", Unit::Bytes, "total time", Unit::Nanoseconds);
    for &lane in &scope.lanes {
        let sizes = &sizes(lane)?;
        for sender_first in [true, false] {
            let plan = Plan { sender_first, receiver_computes: true, sender_computes: true };
            let alone = Plan { receiver_computes: false, sender_computes: false, ..plan };
            let (with, without) =
                (measure(lane, plan, sizes, quick)?, measure(lane, alone, sizes, quick)?);
            for (side, name) in ["receiver", "sender"].into_iter().enumerate() {
                for (at, size) in sizes.iter().enumerate() {
                    let cell = |mode: usize| Cell::number(with[mode][side][at].with, 1, " us");
                    let alone = without[0][side][at];
                    let parts = |mode: usize| {
                        let [posting, computing, waiting] = with[mode][side][at].parts;
                        Cell::from(format!("{posting:.0}, {computing:.0}, {waiting:.0} us"))
                    };
                    let hidden = |mode: usize| with[mode][side][at].hidden(alone) * 100.0;
                    let first = if sender_first { "sender" } else { "receiver" };
                    let without = |mode: usize| with[mode][side][at].without;
                    let computed =
                        format!("{:.0}, {:.0}, {:.0} us", without(0), without(1), without(2));
                    table.row(vec![
                        lane.name().into(),
                        first.into(),
                        name.into(),
                        Cell::count(*size as u64),
                        Cell::number(alone.with, 1, " us"),
                        computed.into(),
                        cell(0),
                        cell(1),
                        cell(2),
                        if lane == Lane::Shm { cell(MODES.len()) } else { "-".into() },
                        format!("{:.0}, {:.0}, {:.0} %", hidden(0), hidden(1), hidden(2)).into(),
                        parts(0),
                        parts(1),
                    ]);
                    for (mode, name_of_mode) in MODES.iter().enumerate() {
                        let panel = format!("{}, {first} first: {name}", lane.name());
                        let time = with[mode][side][at].with * 1000.0;
                        chart.point_in(&panel, name_of_mode, *size as f64, time);
                    }
                }
                let last = sizes.len() - 1;
                let hidden = with[1][side][last].hidden(without[0][side][last]) * 100.0;
                judge(&mut table, lane, sender_first, name, &with, side, hidden);
            }
        }
    }
    table.note(
        "computed: the same rounds without the message, in the modes none, pef and thread; hidden: what of the message alone the modes none, pef and \
         thread hide, each beside its own rounds without the message; parts: of the \
         time with the message that in the call that posts it, in the computation and in the wait; elsewhere: the computation takes no processor of the ranks",
    );
    table.note(DIFFERS);
    table.chart = Some(chart);
    Ok(vec![table])
}

fn judge(
    table: &mut Table,
    lane: Lane,
    sender_first: bool,
    name: &str,
    with: &[[Vec<Total>; 2]],
    side: usize,
    hidden: f64,
) {
    let who = format!(
        "{}, {} first, {name}",
        lane.name(),
        if sender_first { "sender" } else { "receiver" }
    );
    if lane == Lane::HostsElsewhere {
        let what = format!("pef hides 80 % of the longest message ({who})");
        return table.goal(what, format!("{hidden:.0} %"), hidden >= 80.0);
    }
    if lane.carries() {
        let most = with[1][side].last().map_or(f64::NAN, |total| total.with);
        let grown = (most / with[1][side][0].with - 1.0) * 100.0;
        let what = format!("pef flat within 2 % ({who})");
        return table.goal(what, format!("{grown:+.2} %"), grown < 2.0);
    }
    // Where the processors copy, both do in their waits, which no signal makes shorter.
    for (at, (none, pef)) in with[0][side].iter().zip(&with[1][side]).enumerate() {
        let more = (pef.with / none.with - 1.0) * 100.0;
        let what = format!("pef no slower than none by 2 % ({who}, size {})", at + 1);
        table.goal(what, format!("{more:+.2} %"), more < 2.0);
    }
}

/// Where the processor copies and one side waits, it copies for the other. How much of the copy is
/// hidden is a part of what both take for it together behind a computation, in mode none.
pub(crate) fn waiting(scope: &Scope) -> Result<Vec<Table>> {
    let quick = scope.quick;
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
        let computed = with[0][side][0].with.min(both[0][side][0].with);
        for (at, size) in sizes.iter().enumerate() {
            let cell = |mode: usize| Cell::number(with[mode][side][at].with, 1, "");
            table.row(vec![
                name.into(),
                Cell::count(*size as u64),
                Cell::number(both[0][side][at].with, 1, ""),
                cell(0),
                cell(1),
                cell(2),
            ]);
        }
        let last = sizes.len() - 1;
        let copy = both[0][side][last].with - computed;
        let part = |mode: usize| 1.0 - (with[mode][side][last].with - computed) / copy;
        let what = format!(
            "pef hides 80 % of the copy of {} bytes while only the {name} computes",
            sizes[last]
        );
        let said = format!("{:.0} % (none: {:.0} %)", part(1) * 100.0, part(0) * 100.0);
        table.goal(what, said, part(1) >= 0.8);
    }
    Ok(vec![table])
}
