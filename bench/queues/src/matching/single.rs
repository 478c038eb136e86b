//! One communicator and many: the microbenchmarks of section 4.6.2, and shallow queues.

use anyhow::Result;
use bowline_ucp::matching::{ArrayIndex, CubeIndex, EngineKind};

use super::applications::bytes;
use super::jobs::{Job, Order, Queue};
use super::race::{COLUMNS, Race};
use crate::table::{Cell, Table};
use crate::{Context, Named};

fn columns(first: &[&'static str]) -> Vec<&'static str> {
    first.iter().copied().chain(COLUMNS).collect()
}

/// Adds the goal that the automatic choice is near the best one.
fn auto_goal(table: &mut Table, worst: Option<(f64, String)>) {
    if let Some((ratio, row)) = worst {
        table.goal(
            "the automatic choice within 10 % of the best engine on every row",
            format!("at worst {ratio:.2} ({row})"),
            ratio <= 1.10,
        );
    }
}

/// What figures were published of, beside what is timed here.
const PLAYED: &str = "Published were runs of MVAPICH2 on nodes of four Opteron 6276 over QDR InfiniBand, timed at their \
     receivers; here one thread plays orders of receives and messages on the engine, without MPI, ranks or network.";

fn note_times(table: &mut Table) {
    table.note(PLAYED);
    table.note(
        "list: ns for each match (both queues searched, one insertion, one removal); +-: half of \
         the distance of its quartiles; others: how many times as fast as the list. Every engine is \
         a list until its searches are longer than its index takes for one; array* and four_d* are \
         without that list, as they were published; publ.: the thesis's array and 4D beside its \
         list.",
    );
}

/// Queues of up to four entries.
pub(crate) fn shallow(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "shallow",
        "queues of at most 4 entries, a communicator of 512 ranks",
        &columns(&["queue", "order", "depth"]),
    );
    let mut slowest = (f64::INFINITY, String::new());
    let mut worst = None;
    let rows: Vec<_> = combinations(&Queue::BOTH, &Order::BOTH, &[1u32, 2, 4]);
    for (queue, order, depth) in context.progress("shallow", rows) {
        if depth == 1 && order == Order::Reverse {
            continue;
        }
        let job = Job::one_queue(queue, order, depth, 127, 1, 0);
        let race = Race::one(context.effort, 512, &job)?;
        let name = format!("{} {} {depth}", queue.name(), order.name());
        for kind in [EngineKind::FourD, EngineKind::Nd] {
            let speedup = race.speedup(kind);
            if speedup < slowest.0 {
                slowest = (speedup, format!("{}, {name}", kind.name()));
            }
        }
        note_worst(&mut worst, &race, &name);
        let mut cells = vec![queue.name().into(), order.name().into(), Cell::count(depth.into())];
        cells.extend(race.cells("~1, below"));
        table.row(cells);
    }
    note_times(&mut table);
    table.note(
        "Published (section 4.6.3, in words beside tables 4.8 and 4.9): applications with shallow searches, AMG2006 and LU of \
         512 processes, gain nothing and may lose. These are single queues, met in turns. A search \
         of the first entry is all that a list does; an index has its dimensions to go through.",
    );
    table.goal(
        "four_d and nd never slower than list by more than 5 %",
        format!("{:.2} x as fast at worst ({})", slowest.0, slowest.1),
        slowest.0 >= 1.0 / 1.05,
    );
    auto_goal(&mut table, worst);
    Ok(table)
}

fn note_worst(worst: &mut Option<(f64, String)>, race: &Race, row: &str) {
    let ratio = race.auto_to_best();
    if worst.as_ref().is_none_or(|(before, _)| ratio > *before) {
        *worst = Some((ratio, row.to_owned()));
    }
}

/// All combinations.
fn combinations<A: Copy, B: Copy, C: Copy>(a: &[A], b: &[B], c: &[C]) -> Vec<(A, B, C)> {
    let pairs = a.iter().flat_map(|&a| b.iter().map(move |&b| (a, b)));
    pairs.flat_map(|(a, b)| c.iter().map(move |&c| (a, b, c))).collect()
}

/// Ranks of the communicator that are published in words.
const RANKS: u32 = 512;

/// Those of the published machine.
const ALL_RANKS: u32 = 704;

/// One communicator of many ranks.
pub(crate) fn single(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "single",
        "one communicator, everyone's messages pending at one receiver",
        &columns(&["ranks", "queue", "order", "pending", "any"]),
    );
    let mut worst = None;
    let mut deep = Vec::new();
    let mut rows = combinations(&Queue::BOTH, &Order::BOTH, &[1u32, 5, 10])
        .into_iter()
        .map(|(queue, order, pending)| (RANKS, queue, order, pending, 0u32))
        .collect::<Vec<_>>();
    if !context.quick {
        rows.extend_from_within(..);
        rows[12..].iter_mut().for_each(|row| row.0 = ALL_RANKS);
    }
    for queue in Queue::BOTH {
        let fractions: &[u32] = if context.quick { &[1, 4] } else { &[1, 2, 4] };
        rows.extend(fractions.iter().map(|&any| (RANKS, queue, Order::Reverse, 10, any)));
    }
    for (ranks, queue, order, pending, any) in context.progress("single", rows) {
        let job = Job::one_queue(queue, order, ranks, 1, pending, any);
        let race = Race::one(context.effort, ranks, &job)?;
        let name =
            format!("{ranks} {} {} {pending} any {} %", queue.name(), order.name(), any * 25);
        note_worst(&mut worst, &race, &name);
        let published = match (queue, order, pending, any) {
            (_, _, _, 4) => "~1, ~1",
            (_, _, _, 1..) => "> 1, > 1",
            (_, Order::Forward, ..) => "~1, ~1",
            (Queue::Posted, Order::Reverse, 10, _) => "> 40, > 30; 44, 32",
            (Queue::Posted, Order::Reverse, ..) => "1.7 .. 40",
            (Queue::Unexpected, Order::Reverse, 10, _) => "> PRQ; 31, 27",
            (Queue::Unexpected, Order::Reverse, ..) => "> PRQ",
        };
        if ranks == RANKS && order == Order::Reverse && pending == 10 && any == 0 {
            let of = |kind| race.speedup(kind);
            deep.push((of(EngineKind::FourD), of(EngineKind::Nd), queue.name()));
        }
        let any = Cell::number(f64::from(any) * 25.0, 0, "%");
        let mut cells = vec![
            Cell::count(ranks.into()),
            queue.name().into(),
            order.name().into(),
            Cell::count(pending.into()),
            any,
        ];
        cells.extend(race.cells(published));
        table.row(cells);
    }
    note_times(&mut table);
    table.note(
        "publ.: figures 4.12 and 4.13 of the thesis; behind the semicolon the greatest ones of figure 3 of the \
         paper before it (Zounmevo and Afsahi, ICPADS 2012), in which the UMQ gains less than the PRQ, and not \
         more as in the thesis.",
    );
    table.note(
        "forward is the honest limit: the first entry is the one that fits, and every structure has \
         more to read than a list.",
    );
    table.note(
        "any: so many of the senders are received from by MPI_ANY_SOURCE, with tags of their own. \
         At 100 % nothing can be gained by rank (published in words beside figures 4.12 and 4.13, b and c: the gain \
         vanishes; which parts b and c have is in the pictures alone).",
    );
    for (four_d, nd, queue) in deep {
        table.goal(
            format!("four_d or nd at least 30 x as fast, {queue} reverse, 512 ranks x 10"),
            format!("four_d {four_d:.1} x, nd {nd:.1} x"),
            four_d.max(nd) >= 30.0,
        );
    }
    auto_goal(&mut table, worst);
    Ok(table)
}

/// What the same queues hold (figures 4.14 and 4.15).
pub(crate) fn single_memory(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "single-memory",
        "one communicator, everyone's messages pending at one receiver: bytes of structure in use",
        &[
            "ranks",
            "queue",
            "pending",
            "array",
            "at most",
            "four_d",
            "at most",
            "array/four_d",
            "publ.",
        ],
    );
    let rows = combinations(&[RANKS, ALL_RANKS], &Queue::BOTH, &[1u32, 5, 10]);
    let mut least = f64::INFINITY;
    for (ranks, queue, pending) in context.progress("single-memory", rows) {
        let job = Job::one_queue(queue, Order::Reverse, ranks, 1, pending, 0);
        let (array, cubes) =
            (bytes(ArrayIndex::new(ranks), &job), bytes(CubeIndex::new(ranks), &job));
        let less = array.0 / cubes.0;
        least = least.min(less);
        table.row(vec![
            Cell::count(ranks.into()),
            queue.name().into(),
            Cell::count(pending.into()),
            Cell::number(array.0, 0, " B"),
            Cell::bytes(array.1),
            Cell::number(cubes.0, 0, " B"),
            Cell::bytes(cubes.1),
            Cell::times(less),
            "2 at least".into(),
        ]);
    }
    table.note(
        "publ.: figures 4.14 (PRQ) and 4.15 (UMQ), in words: 4D always adds least, in the worst case about half of what the array adds, on average and at \
         most. Which numbers of ranks they have is in the pictures alone; the text speaks of 512 and 704.",
    );
    table.note(
        "Emptied from the end; average over all operations, beside the entries, by the engines' own count, as the thesis counts it. Either queue has \
         the same structure, and several messages of a rank have no more than one.",
    );
    table.exact(
        "four_d at most half of the array (figures 4.14 and 4.15)",
        format!("{least:.2} times less at least"),
        least >= 2.0,
    );
    Ok(table)
}

/// 10 and 50 communicators.
pub(crate) fn communicators(context: &Context) -> Result<Table> {
    let (ranks, pending) = if context.quick { (64u32, 5u32) } else { (256, 5) };
    let mut table = Table::new(
        "communicators",
        format!("10 and 50 communicators of {ranks} ranks, {pending} messages of each pending"),
        &columns(&["queue", "comms", "across", "within", "lists"]),
    );
    let mut worst = None;
    let rows: Vec<_> = combinations(&Queue::BOTH, &[10u16, 50], &Order::BOTH)
        .into_iter()
        .flat_map(|(queue, comms, across)| Order::BOTH.map(|order| (queue, comms, across, order)))
        .collect();
    for (queue, comms, across, order) in context.progress("communicators", rows) {
        let job = Job::communicators(queue, comms, across, order, ranks, pending);
        let race = Race::many(context.effort, comms, ranks, &job)?;
        let name =
            format!("{} {comms} across {} within {}", queue.name(), across.name(), order.name());
        note_worst(&mut worst, &race, &name);
        let published = match (queue, comms, order) {
            (Queue::Posted, 10, Order::Reverse) => "42 .. 176",
            (Queue::Posted, 50, Order::Reverse) => "100 .. 556",
            _ => "-",
        };
        let mut cells = vec![
            queue.name().into(),
            Cell::count(comms.into()),
            across.name().into(),
            order.name().into(),
            race.lists(),
        ];
        cells.extend(race.cells(published));
        table.row(cells);
    }
    note_times(&mut table);
    table.note(
        "list is one queue for all communicators, as published; the others have an engine for each \
         communicator, found through a table: lists a list.",
    );
    table.note(
        "publ.: figure 4.17. Misses of caches (figures 4.19 to 4.21) are in the table cache-misses of `cargo \
         xtask bench queues`, by callgrind's simulation.",
    );
    table.note(
        "Published with 256 ranks; which of its two figures for each number of communicators is \
         the forward traversal is not said.",
    );
    auto_goal(&mut table, worst);
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] = &[
    ("shallow", "queues of at most 4 entries", shallow),
    ("single", "one communicator: forward, reverse, receives from anyone", single),
    ("single-memory", "what its queues hold", single_memory),
    ("communicators", "10 and 50 communicators", communicators),
];
