//! Jobs with the queues of applications: section 4.6.3.
//!
//! The applications themselves need hundreds of cores. Here one thread plays the queues of one rank
//! after the other, with event orders that have the published statistics; the time of a step is
//! that of its slowest rank, with several lengths of computation for each message, of which the publication says
//! nothing. Ranks that do the same are played once.

use anyhow::Result;
use bowline_ucp::matching::{
    ArrayIndex, CubeIndex, Engine, EngineKind, HashIndex, Index, Indexed, ListEngine, MatchEngine,
    Tally, TreeIndex,
};

use super::jobs::{Job, One, Queue, play, step};
use super::race::PUBLISHED;
use crate::clock::{Contestant, Done, Times, compare};
use crate::table::{Cell, Table};
use crate::{Context, Named};

/// MQL, AQL, MASL and ASL of a queue as published; of AMG and LU the last one alone (section 4.6.3). 0 where nothing is said.
type Statistics = [f64; 4];

/// An application.
struct Application {
    name: &'static str,
    ranks: u32,
    /// The rank that has most to do.
    first: Job,
    /// Every other rank.
    others: Job,
    /// Of the PRQ (table 4.8).
    posted: Statistics,
    /// Of the UMQ (table 4.9).
    unexpected: Statistics,
    /// KB of array and 4D beside the entries, on average, as published (table 4.10).
    overhead: Option<[f64; 2]>,
    /// Speed-up of queue time, array and 4D, as published in figures 4.22 and 4.23.
    published: &'static str,
}

/// `0..n` in blocks of `block`, each reversed.
fn blocks(n: u32, block: u32) -> impl Iterator<Item = u32> {
    (0..n).map(move |k| {
        let start = k - k % block;
        start + (block.min(n - start) - 1 - k % block)
    })
}

/// `0..n` in fours, of which the first comes last: each fits the second entry of a list, or the
/// first.
fn almost(n: u32) -> impl Iterator<Item = u32> {
    (0..n).map(move |k| {
        let start = k - k % 4;
        let block = 4.min(n - start);
        start + (k % 4 + 1) % block
    })
}

/// `messages` arrive from `senders` in turn and are received in blocks of `block`, newest first.
fn unexpected(job: &mut Job, messages: u32, senders: u32, block: u32) {
    for k in 0..messages {
        job.push(false, false, 0, 1 + k % senders, k / senders);
    }
    for k in blocks(messages, block) {
        job.push(true, false, 0, 1 + k % senders, k / senders);
    }
}

/// Receives are posted and their messages come almost in this order.
fn expected(job: &mut Job, messages: u32, senders: u32) {
    for k in 0..messages {
        job.push(true, false, 0, 1 + k % senders, k / senders);
    }
    for k in almost(messages) {
        job.push(false, false, 0, 1 + k % senders, k / senders);
    }
}

/// Computation of each rank for each message of its own, in ns.
const COMPUTES: [f64; 3] = [100.0, 1000.0, 10_000.0];

/// Radix sort of 2^`bits` keys: messages pile up at rank 0, which receives them from the end.
fn radix(
    bits: u32,
    longest: u32,
    [posted, umq]: [Statistics; 2],
    overhead: [f64; 2],
) -> Application {
    let [_, _, masl, asl] = umq;
    const RANKS: u32 = 512;
    let (mut first, mut others) = (Job::default(), Job::default());
    expected(&mut first, 4, RANKS - 1);
    unexpected(&mut first, longest, RANKS - 1, longest);
    // Every other rank's queue is as long as makes the job's average what it is.
    let depth = (asl * f64::from(RANKS) - masl) / f64::from(RANKS - 1);
    let block = (2.0 * depth) as u32 + 1;
    for _ in 0..longest / block {
        expected(&mut others, 4, RANKS - 1);
        unexpected(&mut others, block, RANKS - 1, block);
    }
    Application {
        name: match bits {
            28 => "Radix.n28",
            29 => "Radix.n29",
            _ => "Radix.n30",
        },
        ranks: RANKS,
        first,
        others,
        posted,
        unexpected: umq,
        overhead: Some(overhead),
        published: "8.46, 4.99 at most (figure 4.22); 2012: 8.09, whole > 7, > 4",
    }
}

/// N-body: everyone's message to everyone, half of them expected.
fn nbody(
    name: &'static str,
    ranks: u32,
    [posted, umq]: [Statistics; 2],
    overhead: [f64; 2],
) -> Application {
    let mut job = Job::default();
    expected(&mut job, ranks - 1, ranks - 1);
    unexpected(&mut job, ranks - 1, ranks - 1, 2 * umq[3] as u32 + 1);
    Application {
        name,
        ranks,
        first: job.clone(),
        others: job,
        posted,
        unexpected: umq,
        overhead: Some(overhead),
        published: "< 1, ~2 (figure 4.23)",
    }
}

/// Applications with shallow searches: `depth` entries on average in the UMQ, `block` receives at a
/// time in the PRQ.
fn shallow(name: &'static str, umq: f64, prq: f64) -> Application {
    const RANKS: u32 = 512;
    const NEIGHBOURS: u32 = 26;
    let mut job = Job::default();
    if prq < 1.0 {
        expected(&mut job, NEIGHBOURS, NEIGHBOURS);
    } else {
        for k in 0..NEIGHBOURS {
            job.push(true, false, 0, 1 + k, 0);
        }
        for k in blocks(NEIGHBOURS, 2 * prq as u32 + 2) {
            job.push(false, false, 0, 1 + k, 0);
        }
    }
    unexpected(&mut job, NEIGHBOURS, NEIGHBOURS, 2 * umq as u32 + 1);
    Application {
        name,
        ranks: RANKS,
        first: job.clone(),
        others: job,
        posted: [0.0, 0.0, 0.0, prq],
        unexpected: [0.0, 0.0, 0.0, umq],
        overhead: None,
        published: "no gain (section 4.6.3)",
    }
}

/// The applications with what tables 4.8 to 4.10 say of them.
fn applications(quick: bool) -> Vec<Application> {
    let of = |prq: Statistics, umq: Statistics| [prq, umq];
    let few = of([4.0, 4.0, 0.998, 0.817], [3061.3, 484.905, 1510.058, 46.547]);
    let mut all = vec![radix(28, 3061, few, [14.50, 0.36])];
    if !quick {
        let more = of([4.0, 4.0, 0.998, 0.823], [6110.0, 492.449, 3418.630, 54.468]);
        let most = of([4.0, 4.0, 0.979, 0.832], [13_228.0, 533.837, 7208.657, 74.740]);
        let small = of([255.0, 254.953, 0.981, 0.926], [249.333, 86.863, 27.228, 6.041]);
        all.push(radix(29, 6110, more, [6.53, -1.03]));
        all.push(radix(30, 13_228, most, [-2.44, -3.81]));
        all.push(nbody("Nbody.256", 256, small, [6.35, 1.34]));
    }
    let middle = of([511.0, 508.775, 0.984, 0.867], [498.0, 370.342, 32.363, 17.718]);
    all.push(nbody("Nbody.512", 512, middle, [11.44, 0.76]));
    if !quick {
        let large = of([703.0, 682.646, 0.982, 0.796], [693.667, 551.003, 50.863, 21.876]);
        all.push(nbody("Nbody.704", 704, large, [16.86, 1.53]));
    }
    // Section 4.6.3.
    all.push(shallow("AMG-like", 4.29, 3.56));
    all.push(shallow("LU-like", 4.04, 0.67));
    all
}

/// Times of all kinds on a job.
fn race(context: &Context, ranks: u32, job: &Job) -> Result<Vec<Times>> {
    let all = EngineKind::ALL.iter().map(|&kind| (kind.name(), Engine::new(kind, ranks)));
    let published = PUBLISHED.iter().map(|&(name, kind)| (name, Engine::without_list(kind, ranks)));
    let mut contestants: Vec<Contestant<'_>> = all
        .chain(published)
        .map(|(name, engine)| {
            let mut place = One(engine);
            Contestant { name, run: Box::new(move || play(&mut place, job)) }
        })
        .collect();
    compare(context.effort, &mut contestants)
}

/// Queue time and whole time of applications.
fn table(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "applications",
        "jobs with the queues of applications: time of queues, of the whole, and of rank 0",
        &[
            "job",
            "engine",
            "rank 0",
            "others",
            "all ranks",
            "all ranks",
            "0.1 us",
            "1 us",
            "10 us",
            "publ.",
        ],
    );
    for application in context.progress("applications", applications(context.quick)) {
        let Application { name, ranks, first, others, published, .. } = &application;
        let matches = |job: &Job| job.events.len() as f64 / 2.0;
        let heavy = race(context, *ranks, first)?;
        let light = race(context, *ranks, others)?;
        let rest = f64::from(ranks - 1);
        let figures = |at: usize| {
            let first_ns = heavy[at].median() * matches(first);
            let other_ns = light[at].median() * matches(others);
            let whole = COMPUTES.map(|compute| {
                (first_ns + compute * matches(first)).max(other_ns + compute * matches(others))
            });
            (first_ns, other_ns, first_ns + rest * other_ns, whole)
        };
        let list = heavy.iter().position(|times| times.name == EngineKind::List.name());
        let list = figures(list.expect("the list takes part"));
        for (at, times) in heavy.iter().enumerate() {
            let (first_ns, other_ns, all, whole) = figures(at);
            let mut cells = vec![
                (*name).into(),
                times.name.into(),
                Cell::time(first_ns),
                Cell::time(other_ns),
                Cell::time(all),
                Cell::times(list.2 / all),
            ];
            cells.extend(list.3.iter().zip(whole).map(|(list, ours)| Cell::times(list / ours)));
            cells.push((*published).into());
            table.row(cells);
        }
    }
    table.note(
        "rank 0 and others: queue time of a step of one rank; all ranks: their sum, and how many times \
         as fast as the list. 0.1, 1 and 10 us: the same of a whole step, in which the slowest rank computes so \
         long for each of its messages; how long the applications did is not published. publ.: speed-up of \
         queue time by array and 4D (figures 4.22 and 4.23; 2012: Zounmevo and Afsahi, ICPADS, with that of the \
         whole run).",
    );
    table.note(
        "Simulated: one thread plays the queues of one rank after the other, by orders of events \
         that have the published statistics (table application-queues); neither network nor \
         application runs. Published: Radix gains nearly as much in whole time, N-body nothing \
         that shows. The published array loses in N-body because it is given back whenever the \
         queues are empty; ours is given back beyond 8192 ranks only. array* and four_d* are without \
         the list that every engine begins with, as they were published.",
    );
    Ok(table)
}

/// How one queue of a list is searched by a job.
struct Searched {
    /// Its greatest length.
    longest: u64,
    /// Pointers followed in the average search that found something.
    depth: f64,
}

/// How a list is searched by a job: its PRQ, and its UMQ.
fn counted(job: &Job) -> [Searched; 2] {
    let mut engine = ListEngine::<Tally>::new();
    let (mut done, mut claims, mut matches) = (Done::default(), 0u32, 0u32);
    for (event, number) in job.events.iter().zip(0u64..) {
        let before = done.work;
        let tag = event.tag.into();
        step(&mut engine, event.receive, event.any, event.source, tag, number, &mut done);
        let found = u32::from(done.work > before);
        if event.receive {
            claims += found;
        } else {
            matches += found;
        }
    }
    debug_assert!(engine.is_empty(), "a job ends with empty queues");
    let Tally { unexpected, posted, .. } = engine.counted();
    [(posted, matches), (unexpected, claims)].map(|(of, found)| Searched {
        longest: of.longest,
        depth: of.visits as f64 / f64::from(found.max(1)),
    })
}

/// MQL, AQL, MASL and ASL of a queue: of rank 0, and of the others, which are all alike.
fn statistics(first: &Searched, others: &Searched, ranks: u32) -> Statistics {
    let mean = |first: f64, other: f64| (first + f64::from(ranks - 1) * other) / f64::from(ranks);
    [
        first.longest.max(others.longest) as f64,
        mean(first.longest as f64, others.longest as f64),
        first.depth.max(others.depth),
        mean(first.depth, others.depth),
    ]
}

/// What an index held: on average and at most.
pub(super) fn bytes<I: Index>(index: I, job: &Job) -> (f64, u64) {
    let mut place = One(Indexed::<I, Tally>::new(index));
    play(&mut place, job);
    let counted = place.0.counted();
    (counted.average_bytes(), counted.peak_bytes)
}

/// Statistics of the same jobs.
fn queues(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "application-queues",
        "the same jobs: lengths of queues and of searches",
        &["job", "queue", "MQL", "publ.", "AQL", "publ.", "MASL", "publ.", "ASL", "publ."],
    );
    for application in context.progress("application-queues", applications(context.quick)) {
        let Application { name, ranks, first, others, posted, unexpected, .. } = application;
        let ([prq, umq], [light_prq, light_umq]) = (counted(&first), counted(&others));
        for (queue, first, others, published) in [
            (Queue::Posted, prq, light_prq, posted),
            (Queue::Unexpected, umq, light_umq, unexpected),
        ] {
            let mut cells = vec![name.into(), queue.name().into()];
            for (ours, publ) in statistics(&first, &others, ranks).into_iter().zip(published) {
                let shown = if publ == 0.0 { Cell::none() } else { Cell::number(publ, 3, "") };
                cells.extend([Cell::number(ours, 3, ""), shown]);
            }
            table.row(cells);
        }
    }
    table.note(
        "publ.: tables 4.8 (PRQ) and 4.9 (UMQ), of AMG and LU section 4.6.3. MQL: greatest length; AQL: average length; MASL: average \
         search of the rank with the longest ones; ASL: of all ranks. Only searches that found something count. Published means of several \
         runs are rounded to jobs of whole messages, which are made to have the MQL of Radix's UMQ, its MASL and each UMQ's ASL. The others follow from \
         that and differ: so are N-body's ranks all alike here, and not there.",
    );
    table.note(
        "AQL: over what it is an average is not said. That of Radix's PRQ is 4 where 4 is the greatest length, which no average over a \
         run can be that begins and ends with an empty queue: so it is taken, and ours is, as the mean of the ranks' greatest lengths.",
    );
    Ok(table)
}

/// Memory of the same jobs.
fn structures(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "application-memory",
        "the same jobs: bytes of structure of rank 0",
        &["job", "array", "publ.", "four_d", "publ.", "nd", "hashed"],
    );
    for application in context.progress("application-memory", applications(context.quick)) {
        let Application { name, ranks, first, overhead, .. } = application;
        let memory = |(average, peak): (f64, u64)| Cell::Text(format!("{average:.0} / {peak} B"));
        let kilobytes =
            |of: usize| overhead.map_or_else(Cell::none, |kb| Cell::number(kb[of], 2, " KB"));
        table.row(vec![
            name.into(),
            memory(bytes(ArrayIndex::new(ranks), &first)),
            kilobytes(0),
            memory(bytes(CubeIndex::new(ranks), &first)),
            kilobytes(1),
            memory(bytes(TreeIndex::new(ranks), &first)),
            memory(bytes(HashIndex::new(), &first)),
        ]);
    }
    table.note(
        "Bytes: average over all operations / at most, of what is in use by the engines' own count, as the thesis counts it. \
         publ.: what array and 4D took on average more than the list (table 4.10), mean of all ranks. Below \
         zero because faster consumption kept fewer entries queued, which a fixed order of events cannot show.",
    );
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] = &[
    ("applications", "jobs with the queues of Radix, N-body, AMG and LU", table),
    ("application-queues", "lengths and searches of these jobs", queues),
    ("application-memory", "what their queues hold", structures),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_take_everything_once() {
        for n in [1, 3, 4, 9, 26, 511] {
            for block in [1, 2, 9, 36] {
                let mut all: Vec<u32> = blocks(n, block).collect();
                all.sort_unstable();
                assert_eq!(all, (0..n).collect::<Vec<_>>());
            }
            let mut all: Vec<u32> = almost(n).collect();
            all.sort_unstable();
            assert_eq!(all, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn jobs_have_the_published_statistics() {
        for Application { name, first, posted, unexpected, .. } in applications(false) {
            let [prq, umq] = counted(&first);
            let near = |ours: f64, published: f64| {
                let ratio = ours / published;
                assert!((0.85..1.15).contains(&ratio), "{name}: {ours} for {published}");
            };
            let [mql, _, masl, asl] = unexpected;
            if name.starts_with("Radix") {
                near(umq.longest as f64, mql);
                near(umq.depth, masl);
            } else {
                near(umq.depth, asl);
            }
            if posted[0] > 0.0 {
                near(prq.longest as f64, posted[0]);
            }
        }
    }

    #[test]
    fn means_are_of_all_ranks() {
        let first = Searched { longest: 100, depth: 10.0 };
        let others = Searched { longest: 20, depth: 2.0 };
        assert_eq!(statistics(&first, &others, 4), [100.0, 40.0, 10.0, 4.0]);
    }
}
