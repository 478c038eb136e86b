//! The four-dimensional index beside trees and maps by rank: section 4.5.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use bowline_ucp::matching::{
    CubeIndex, HashIndex, Index, Indexed, MatchEngine, Off, Tally, TreeIndex, Want,
};

use super::jobs::{Job, One, play};
use super::maps::{ByMap, RedBlack};
use super::{memory, published};
use crate::clock::{Contestant, Done, compare};
use crate::table::{Cell, Table};
use crate::{Context, Named};

/// In which order ranks are entered, and in which they are asked for.
const ORDERS: [&str; 6] = ["inc/inc", "inc/dec", "dec/dec", "dec/inc", "ends/ends", "ends/rev"];

/// The `k`th rank of `n` in one of the orders.
fn rank(order: &str, k: u32, n: u32) -> u32 {
    match order {
        "inc" => k,
        "dec" => n - 1 - k,
        "ends" if k.is_multiple_of(2) => k / 2,
        "ends" => n - 1 - k / 2,
        _ => rank("ends", n - 1 - k, n),
    }
}

/// What was published with both tables, beside what is done here.
const STAND_ALONE: &str = "Published was a program of one process without MPI, as ours is, on a node of two quad-core Opteron 2350; \
     our times are of the machine that has printed this.";

/// Pattern 1 (arrivals search the PRQ), 3 (claims search the UMQ) or 5 (probes).
fn job(pattern: u32, order: &str, ranks: u32, messages: u32) -> Job {
    let (fill, drain) = order.split_once('/').expect("two orders");
    let mut job = Job::default();
    let first = pattern == 1;
    for (receive, order) in [(first, fill), (!first, drain)] {
        for tag in 0..messages {
            for k in 0..ranks {
                job.push(receive, false, 0, rank(order, k, ranks), tag);
            }
        }
    }
    job
}

/// Pattern 5: everything arrives, everything is probed, everything is taken.
fn probe(engine: &mut impl MatchEngine, job: &Job) -> Done {
    let (arrivals, receives) = job.events.split_at(job.events.len() / 2);
    let want = |source, tag: u32| Want {
        source,
        source_mask: u32::MAX,
        tag: tag.into(),
        tag_mask: u64::MAX,
    };
    for (event, number) in arrivals.iter().zip(0u64..) {
        if engine.arrive(event.source, event.tag.into()).is_none() {
            engine.add_unexpected(event.source, event.tag.into(), number);
        }
    }
    let mut done = Done::default();
    for event in receives {
        if let Some(value) = engine.find_unexpected(&want(event.source, event.tag)) {
            done.found(value);
        }
    }
    for event in receives {
        done.sum ^= engine.take_unexpected(&want(event.source, event.tag)).unwrap_or(u64::MAX);
    }
    done
}

fn contestant<'a, I: Index + 'a>(
    name: &'static str,
    index: I,
    pattern: u32,
    job: &'a Job,
) -> Contestant<'a> {
    let mut place = One(Indexed::<I, Off>::new(index));
    let run: Box<dyn FnMut() -> Done + 'a> = match pattern {
        5 => Box::new(move || probe(&mut place.0, job)),
        _ => Box::new(move || play(&mut place, job)),
    };
    Contestant { name, run }
}

/// Table 4.6: tree / 4D, with one and with five messages of each rank.
const fn published_ratio(ranks: u32, pattern: u32) -> [f64; 2] {
    match (ranks, pattern) {
        (256, 1) => [56.2, 3.1],
        (256, 3) => [48.7, 3.2],
        (256, _) => [2.69, 1.09],
        (16_384, 1) => [2.96, 1.04],
        (16_384, 3) => [2.90, 1.04],
        (16_384, _) => [1.90, 1.02],
        (_, 1) => [1.98, 1.04],
        (_, 3) => [1.46, 1.02],
        _ => [2.00, 1.04],
    }
}

/// Table 4.6.
fn tree(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "tree",
        "four_d beside a red-black tree and the maps of the standard library",
        &[
            "ranks", "messages", "pattern", "order", "four_d", "rb tree", "publ.", "B-tree",
            "hash map", "hashed", "nd",
        ],
    );
    let scales: &[u32] = if context.quick { &[256, 16_384] } else { &[256, 16_384, 131_072] };
    let orders: &[&str] = if context.quick { &ORDERS[..1] } else { &ORDERS };
    let mut rows = Vec::new();
    for &ranks in scales {
        for (at, messages) in [1u32, 5].into_iter().enumerate() {
            for pattern in [1u32, 3, 5] {
                for order in orders {
                    rows.push((ranks, at, messages, pattern, *order));
                }
            }
        }
    }
    let mut slower = 0;
    for (ranks, at, messages, pattern, order) in context.progress("tree", rows) {
        let job = job(pattern, order, ranks, messages);
        let mut contestants = [
            contestant("four_d", CubeIndex::new(ranks), pattern, &job),
            contestant("rb tree", ByMap::<RedBlack>::default(), pattern, &job),
            contestant("B-tree", ByMap::<BTreeMap<u32, u32>>::default(), pattern, &job),
            contestant("hash map", ByMap::<HashMap<u32, u32>>::default(), pattern, &job),
            contestant("hashed", HashIndex::new(), pattern, &job),
            contestant("nd", TreeIndex::new(ranks), pattern, &job),
        ];
        let times = compare(context.effort, &mut contestants)?;
        let [four_d, tree, btree, map, hashed, nd] = &times[..] else {
            unreachable!("as many times as contestants")
        };
        slower += u32::from(tree.relative_to(four_d) < 1.0);
        table.row(vec![
            Cell::count(ranks.into()),
            Cell::count(messages.into()),
            Cell::count(pattern.into()),
            order.into(),
            Cell::time(four_d.median()),
            Cell::times(tree.relative_to(four_d)),
            Cell::times(published_ratio(ranks, pattern)[at]),
            Cell::times(btree.relative_to(four_d)),
            Cell::times(map.relative_to(four_d)),
            Cell::times(hashed.relative_to(four_d)),
            Cell::times(nd.relative_to(four_d)),
        ]);
    }
    table.note(
        "four_d: ns for each message (entered, found, and after probes taken); others: their time \
         as a multiple of it, so above 1 four_d is faster. Pattern 1: arrivals among receives; 3: \
         claims among messages; 5: probes.",
    );
    table.note(format!(
        "Published (table 4.6): 4D faster in every cell; here the red-black tree is faster in {slower} of {}. \
         The published times grow by operation with the number of ranks (1 us to 889 us), which \
         neither structure explains; the harness had a linear part. All of ours share one engine \
         and differ in the index alone.",
        table.rows.len()
    ));
    table.note(STAND_ALONE);
    Ok(table)
}

/// Bytes of heap of an index when a message of each rank is in it, and bytes in use, by its own count, at the average
/// operation of a run.
fn peak<I: Index>(index: I, counting: I, ranks: u32) -> (u64, f64) {
    let mut engine = Indexed::<I, Tally>::new(counting);
    play_ref(&mut engine, &job(1, "inc/inc", ranks, 1));
    (memory::alone(index, ranks), engine.counted().average_bytes())
}

fn play_ref(engine: &mut impl MatchEngine, job: &Job) {
    let mut done = Done::default();
    for (event, number) in job.events.iter().zip(0u64..) {
        let tag = event.tag.into();
        super::jobs::step(engine, event.receive, event.any, event.source, tag, number, &mut done);
    }
}

/// What table 4.7 has as averages of 4D and of the tree beyond the list, in KB, by the number of ranks.
const AVERAGES: [(u32, [f64; 2]); 3] = [
    (256, [1.695_312, 7.082_031]),
    (16_384, [24.429_69, 448.082]),
    (131_072, [96.742_188, 3_584.082_031]),
];

/// Table 4.7.
fn tree_memory(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "tree-memory",
        "bytes of structure at one message of each rank: by the heap, and average over a run",
        &[
            "ranks",
            "four_d",
            "4D publ.",
            "average",
            "publ.",
            "rb tree",
            "tree publ.",
            "average",
            "publ.",
            "tree/four_d",
            "publ.",
        ],
    );
    let mut most = 0_f64;
    for (ranks, [cubes_publ, tree_publ]) in context.progress("tree-memory", AVERAGES.to_vec()) {
        let n = u64::from(ranks);
        let (cubes, cubes_average) = peak(CubeIndex::new(ranks), CubeIndex::new(ranks), ranks);
        let by_map = ByMap::<RedBlack>::default;
        let (tree, tree_average) = peak(by_map(), by_map(), ranks);
        let published = [published::cube_bytes(ranks, n), published::tree_bytes(n)];
        most = most.max(cubes as f64 / published[0] as f64);
        table.row(vec![
            Cell::count(n),
            Cell::bytes(cubes),
            Cell::bytes(published[0]),
            Cell::number(cubes_average, 0, " B"),
            Cell::number(cubes_publ * 1024.0, 0, " B"),
            Cell::bytes(tree),
            Cell::bytes(published[1]),
            Cell::number(tree_average, 0, " B"),
            Cell::number(tree_publ * 1024.0, 0, " B"),
            Cell::times(tree as f64 / cubes as f64),
            Cell::times(published[1] as f64 / published[0] as f64),
        ]);
    }
    table.note(
        "publ.: table 4.7, its peaks by formulas (4.20) and (4.21), which give them to the byte, its averages as printed, in units of \
         1024 bytes. Ours: bytes of heap beside the entries when every rank has one, which is the most; averages are of what is in \
         use, by the engines' own count. Bytes do not depend on the machine.",
    );
    table.note(STAND_ALONE);
    table.note(
        "A node of ours has three pointers, rank and number of its leaf (32 bytes), and a leaf of \
         8; the published one has 56. The heap's own record of each node is not counted.",
    );
    table.exact(
        "four_d at most the published peak (table 4.7) at any number of ranks, by the heap",
        format!("{most:.2} of it at most"),
        most <= 1.0,
    );
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] = &[
    ("tree", "the four-dimensional index beside trees and maps", tree),
    ("tree-memory", "what they hold", tree_memory),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_has_every_rank_once() {
        for order in ORDERS.iter().flat_map(|order| order.split('/')) {
            for n in [1, 2, 7, 256] {
                let mut ranks: Vec<u32> = (0..n).map(|k| rank(order, k, n)).collect();
                ranks.sort_unstable();
                assert_eq!(ranks, (0..n).collect::<Vec<_>>(), "{order}");
            }
        }
        let ends: Vec<u32> = (0..6).map(|k| rank("ends", k, 6)).collect();
        assert_eq!(ends, [0, 5, 1, 4, 2, 3]);
    }

    /// Entries are made and taken at the same pace, so that the average is half of the peak, and some entries of the first and last ones.
    #[test]
    fn published_averages_are_half_of_the_peaks() {
        for (ranks, averages) in AVERAGES {
            let peaks =
                [published::cube_bytes(ranks, ranks.into()), published::tree_bytes(ranks.into())];
            for (average, peak) in averages.into_iter().zip(peaks) {
                let part = average * 1024.0 / peak as f64;
                assert!((0.5..0.53).contains(&part), "{ranks} ranks: {part}");
            }
        }
    }

    #[test]
    fn maps_find_what_the_index_finds() {
        for pattern in [1, 3, 5] {
            for order in ORDERS {
                let job = job(pattern, order, 64, 2);
                let run = |mut contestant: Contestant<'_>| (contestant.run)();
                let expected = run(contestant("four_d", CubeIndex::new(64), pattern, &job));
                assert_eq!(expected.work, 128);
                let tree = ByMap::<RedBlack>::default();
                assert_eq!(run(contestant("rb", tree, pattern, &job)), expected, "{order}");
                let map = ByMap::<HashMap<u32, u32>>::default();
                assert_eq!(run(contestant("map", map, pattern, &job)), expected, "{order}");
                let map = ByMap::<BTreeMap<u32, u32>>::default();
                assert_eq!(run(contestant("map", map, pattern, &job)), expected, "{order}");
            }
        }
    }
}
