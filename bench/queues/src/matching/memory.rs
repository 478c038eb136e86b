//! Bytes that the matching queues hold, as the allocator counts them: figures that do not depend on the machine. Pointers
//! are in `counts.rs`.
//!
//! What is counted is what was asked of the allocator ([`crate::heap`]), with the memory into which a vector may still
//! grow. The engines' own counts are of what is in use, as the thesis counts, and are compared with its formulas by tests.

use anyhow::Result;
use bowline_ucp::matching::{
    ArrayIndex, CubeIndex, Engine, EngineKind, HashIndex, Index, Indexed, ListEngine, MatchEngine,
    Off, TreeIndex, Want,
};

use super::counts::{SCALES, exactly, post_all};
use super::published;
use crate::heap::held_by;
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// Entries for which there is memory with the first one of a hash, whose table is in them.
const FIRST: u32 = 16;

/// From so many entries on, searches for the last one let every engine grow its index.
const DEEP: u32 = 64;

/// Searches for the last entry until the slowest of them has: `auto` grows when such searches have compared twenty
/// times as many entries as were placed.
const SEARCHES: u32 = 32;

/// Bytes of heap that `ours` takes beside those of `list`.
fn beside<A, B>(ours: impl FnOnce() -> A, list: impl FnOnce() -> B) -> u64 {
    let (ours, list) = (held_by(ours), held_by(list));
    assert!(ours >= list, "no entry is smaller than that of a list");
    (ours - list).cast_unsigned()
}

/// Bytes of heap of an index by itself beside the entries, with a receive from each of the first `queued` ranks, which are
/// `stride` apart.
fn alone_apart<I: Index>(index: I, queued: u32, stride: u32) -> u64 {
    let list = || post_all(ListEngine::<Off>::new(), queued, 1);
    beside(|| post_all(Indexed::<_, Off>::new(index), queued, stride), list)
}

/// The same without gaps between the ranks.
pub(super) fn alone<I: Index>(index: I, queued: u32) -> u64 {
    alone_apart(index, queued, 1)
}

/// The same of a hash.
fn alone_by_hash(queued: u32) -> u64 {
    let list = || post_all(ListEngine::<Off>::new(), queued.max(FIRST), 1);
    beside(|| post_all(Indexed::<_, Off>::new(HashIndex::new()), queued, 1), list)
}

/// An engine as a user gets it, with a receive from each of the first `queued` ranks, of which the last was met until
/// there was an index, if so many let it grow.
fn grown(kind: EngineKind, ranks: u32, queued: u32) -> Engine {
    let mut engine = post_all(Engine::new(kind, ranks), queued, 1);
    if kind == EngineKind::List || queued < DEEP {
        return engine;
    }
    let last = queued - 1;
    for _ in 0..SEARCHES {
        if engine.growths() != 0 {
            break;
        }
        assert_eq!(engine.arrive(last, 0), Some(last.into()), "the last receive is there");
        engine.post(exactly(last, 0), last.into());
    }
    assert_eq!(engine.growths(), 1, "{} has grown", kind.name());
    engine
}

/// Bytes of heap of such an engine beside a list with the same entries.
fn held(kind: EngineKind, ranks: u32, queued: u32) -> u64 {
    beside(|| grown(kind, ranks, queued), || grown(EngineKind::List, ranks, queued))
}

/// Bytes of heap of the entries themselves, in any engine.
fn entries(queued: u32) -> u64 {
    beside(|| grown(EngineKind::List, queued, queued), || ())
}

/// Bytes of heap that an engine keeps in which a receive from each rank has waited, and nothing does.
fn kept(kind: EngineKind, ranks: u32) -> u64 {
    let emptied = || {
        let mut engine = grown(kind, ranks, ranks);
        for rank in 0..ranks {
            assert_eq!(engine.arrive(rank, 0), Some(rank.into()), "each is there");
        }
        engine
    };
    beside(emptied, || ())
}

/// Bytes of heap of `auto` beside a list, with a message from each rank, among which receives from any source with one
/// tag have searched until there are chains: of all messages, and by tag.
fn chained(ranks: u32) -> [u64; 2] {
    let fill = |kind| {
        let mut engine = Engine::new(kind, ranks);
        for rank in 0..ranks {
            engine.add_unexpected(rank, 0, u64::from(rank));
        }
        engine
    };
    let other = Want { source: 0, source_mask: 0, tag: 1, tag_mask: u64::MAX };
    [1, 21].map(|searches| {
        let ours = || {
            let mut engine = fill(EngineKind::Auto);
            let search = |engine: &mut Engine| {
                assert_eq!(engine.find_unexpected(&other), None, "all have another tag");
            };
            for _ in 0..SEARCHES {
                if engine.growths() == 0 {
                    search(&mut engine);
                }
            }
            assert_eq!(engine.growths(), 1, "it has grown");
            (0..searches).for_each(|_| search(&mut engine));
            engine
        };
        beside(ours, || fill(EngineKind::List))
    })
}

/// Table 4.5.
fn memory(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "memory",
        "bytes of heap beside the entries, with one entry of each of the first ranks",
        &[
            "ranks",
            "queued",
            "entries",
            "array",
            "publ.",
            "four_d",
            "publ.",
            "array/four_d",
            "publ.",
            "nd",
            "hashed",
            "auto",
        ],
    );
    let mut chart = Chart::new(
        "entries queued, 1048576 ranks",
        Unit::None,
        "memory of the structure",
        Unit::Bytes,
    );
    let mut found = Found::default();
    let rows = SCALES.iter().flat_map(|&(ranks, _)| [1, 100, 1000, ranks].map(|n| (ranks, n)));
    for (ranks, queued) in context.progress("memory", rows.collect()) {
        let n = u64::from(queued);
        let array = alone(ArrayIndex::new(ranks), queued);
        let cubes = alone(CubeIndex::new(ranks), queued);
        let tree = alone(TreeIndex::new(ranks), queued);
        let hashed = alone_by_hash(queued);
        let auto = held(EngineKind::Auto, ranks, queued);
        let (p_array, p_cubes) =
            (published::array_bytes(ranks.into()), published::cube_bytes(ranks, n));
        found.array = found.array.max(array as f64 / p_array as f64);
        found.cubes = found.cubes.max(cubes as f64 / p_cubes as f64);
        found.array_by_formula += ArrayIndex::bytes_for(ranks) as u64;
        found.array_by_heap += array;
        found.hashed += hashed;
        found.auto = found.auto.max(auto);
        if ranks == 1 << 20 {
            let series = [("array", array), ("four_d", cubes), ("nd", tree), ("auto", auto)];
            for (name, bytes) in series {
                chart.point(name, f64::from(queued), bytes as f64);
            }
            chart.point("array published", f64::from(queued), p_array as f64);
            chart.point("4D published", f64::from(queued), p_cubes as f64);
        }
        table.row(vec![
            Cell::count(ranks.into()),
            Cell::count(n),
            Cell::bytes(entries(queued)),
            Cell::bytes(array),
            Cell::bytes(p_array),
            Cell::bytes(cubes),
            Cell::bytes(p_cubes),
            Cell::times(array as f64 / cubes as f64),
            Cell::times(p_array as f64 / p_cubes as f64),
            Cell::bytes(tree),
            Cell::bytes(hashed),
            Cell::bytes(auto),
        ]);
    }
    table.chart = Some(chart);
    note_memory(&mut table);
    found.goals(&mut table);
    let sparse: Vec<[u64; 2]> = SCALES
        .iter()
        .map(|&(ranks, _)| {
            let span = 1u32 << CubeIndex::bits_for(ranks);
            let sparse = alone_apart(CubeIndex::new(ranks), span.pow(3), span);
            [sparse, alone(CubeIndex::new(ranks), ranks)]
        })
        .collect();
    table.exact(
        "worst case of four_d: d^3 ranks that are d apart cost as much as all ranks, by the heap",
        sparse
            .iter()
            .map(|[some, all]| format!("{some} and {all} B"))
            .collect::<Vec<_>>()
            .join(", "),
        sparse.iter().all(|[some, all]| some == all),
    );
    Ok(table)
}

/// What the heap says over all rows of the table `memory`.
#[derive(Default)]
struct Found {
    /// The most by what is published.
    array: f64,
    cubes: f64,
    /// Sums.
    array_by_heap: u64,
    array_by_formula: u64,
    hashed: u64,
    /// The most.
    auto: u64,
}

impl Found {
    fn goals(&self, table: &mut Table) {
        table.exact(
            "array exactly as formula (4.19) with our sizes, all rows, by the heap",
            format!("{} B, by formula {} B", self.array_by_heap, self.array_by_formula),
            self.array_by_heap == self.array_by_formula,
        );
        table.exact(
            "array at most what is published (4.19), any row, by the heap",
            format!("{:.2} of it at most", self.array),
            self.array <= 1.0,
        );
        table.exact(
            "four_d at most what is published (4.20), any row, by the heap",
            format!("{:.2} of it at most", self.cubes),
            self.cubes <= 1.0,
        );
        table.exact(
            "the index of hashed and auto 0 B beside the entries, all rows, by the heap",
            format!("{} B", self.hashed),
            self.hashed == 0,
        );
        table.exact(
            format!("auto, the default, at most {RECORD} B beside a list's entries, any row, by the heap"),
            format!("{} B at most", self.auto),
            self.auto <= RECORD,
        );
    }
}

/// Bytes that an engine with a hash may have beside its entries: its own record, which a list has not.
const RECORD: u64 = 512;

fn note_memory(table: &mut Table) {
    table.note(
        "Bytes that were asked of the allocator, counted by it, beside those of a list with as many entries (entries: those, 40 bytes each and \
         what the vector has for more). array, four_d, nd and hashed: the indexes by themselves, as published; auto: the engine that a space gets, \
         whose last entry was met until it had grown its index, which it does not with one.",
    );
    table.note(
        "publ.: formulas (4.19) and (4.20) with the published sizes of structures (record of a \
         communicator 56, RankHead 32, Cube 16 + 8 d, JumpPoint 48 bytes), which count what is in use. Ours link by 32-bit \
         numbers, and a list is known by its last entry: RankHead 8, cube 12 + 4 d, jump point 16 bytes. A vector of four_d has space for up to twice \
         as many as are in use, one of nd for an eighth more.",
    );
    table.note(
        "nd has a leaf for four ranks, more than four_d when the queue is full of distinct ranks, which is \
         paid for its speed. The rings of hashed begin in the entries, of which each has four bytes for \
         that and is no larger than that of a list; it has 16 of them at least.",
    );
    table.note(
        "array/4D at full queues as published: 5.19, 10.54, 21.19 (table 4.5; 21.22 by its own formulas), and 3.6, 7.91, 16 in the paper of 2012 \
         (table 2), whose structures had other sizes.",
    );
}

/// Table 4.11.
fn extreme(context: &Context) -> Result<Table> {
    const GB: f64 = (1u64 << 30) as f64;
    /// Three communicators of all ranks, of two contexts each.
    const CONTEXTS: u64 = 6;
    let ours = EngineKind::ALL.iter().map(|kind| kind.name());
    let one = ["array, 1 queued", "nd, 1 queued", "auto, any", "auto, any more", "entries"];
    let mut table = Table::new(
        "extreme",
        "6 full queues of all ranks: GB as published, and percent of a core's memory, ours by the heap",
        &["system", "ranks", "GB/core", "array publ.", "%", "4D publ.", "%"]
            .into_iter()
            .chain(ours)
            .chain(one)
            .collect::<Vec<_>>(),
    );
    let systems =
        [("704 cores", 704u32, 2.0), ("Titan", 560_640, 1.27), ("Sequoia", 1_572_864, 1.0)];
    let mut largest = Vec::new();
    for (system, ranks, memory) in context.progress("extreme", systems.to_vec()) {
        let n = u64::from(ranks);
        let percent = |bytes: u64| (CONTEXTS * bytes) as f64 / GB * 100.0 / memory;
        let digits = if ranks == 704 { 4 } else { 2 };
        let mut cells = vec![system.into(), Cell::count(n), Cell::number(memory, 2, "")];
        for bytes in [published::array_bytes(n), published::cube_bytes(ranks, n)] {
            cells.push(Cell::number((CONTEXTS * bytes) as f64 / GB, 6, ""));
            cells.push(Cell::number(percent(bytes), digits, ""));
        }
        largest = EngineKind::ALL.iter().map(|&kind| percent(held(kind, ranks, ranks))).collect();
        cells.extend(largest.iter().map(|&percent| Cell::number(percent, digits, "")));
        cells.push(Cell::bytes(CONTEXTS * alone(ArrayIndex::new(ranks), 1)));
        cells.push(Cell::bytes(CONTEXTS * alone(TreeIndex::new(ranks), 1)));
        cells.extend(chained(ranks).map(|bytes| Cell::number(percent(bytes), digits, "")));
        cells.push(Cell::number(percent(entries(ranks)), digits, ""));
        table.row(cells);
    }
    note_extreme(&mut table);
    let of = |kind: EngineKind| largest[kind as usize];
    for (kind, what) in [(EngineKind::Auto, "auto, the default,"), (EngineKind::FourD, "four_d")] {
        table.exact(
            format!("{what} at most the 0.66 % of 4D on Sequoia (table 4.11), by the heap"),
            format!("{:.2} %", of(kind)),
            of(kind) <= 0.66,
        );
    }
    let (array, nd) = (of(EngineKind::Array), of(EngineKind::Nd));
    table.exact(
        "nd below the array at full queues, by the heap",
        format!("{nd:.2} % and {array:.2} %"),
        nd < array,
    );
    let (_, ranks, _) = systems[2];
    let left: Vec<(&str, u64)> =
        EngineKind::ALL.iter().map(|&kind| (kind.name(), kept(kind, ranks))).collect();
    table.exact(
        format!("below 1 MB kept in an engine whose queue of {ranks} has emptied, entries and all, by the heap"),
        left.iter().map(|(name, bytes)| format!("{name} {bytes} B")).collect::<Vec<_>>().join(", "),
        left.iter().all(|&(_, bytes)| bytes < 1 << 20),
    );
    Ok(table)
}

fn note_extreme(table: &mut Table) {
    table.note(
        "publ.: A_H of table 4.11, by formulas (4.19) and (4.20). Printed there: Titan 7.89 % and \
         0.37 %, Sequoia 28.10 % (28.13 by its own formula) and 0.66 %. Ours: engines as a space gets them, that have grown their \
         indexes, beside a list with as many entries, as the allocator counts them (table memory); auto is the default. \
         1 queued: the index by itself, which an engine makes at the first long search only.",
    );
    table.note(
        "entries: percent of the entries themselves, which any engine has, 40 bytes each and what their vector has for more; they are left out as in the \
         thesis. any: percent where all of it are messages, and a receive from any source has searched them: they \
         are chained up until the queue is empty (8 bytes each), in hashed and nd as well. any more: after 20 more such \
         receives with one tag, there are chains by tag too. The thesis counts no such receives, and its structure \
         is searched through by them.",
    );
    table.note(
        "Published for the measured N-body, its array's 16.86 KB with 704 ranks (table 4.10) made larger with the ranks: \
         Titan 1.01 %, Sequoia 3.59 % (table 4.11); nothing for 4D there.",
    );
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] = &[
    ("memory", "bytes of structure, by the heap", memory),
    ("extreme", "memory on the largest machines, by the heap", extreme),
];

#[cfg(test)]
mod tests {
    use bowline_ucp::matching::{Tally, TreeShape};

    use super::*;
    use crate::matching::counts::filled;

    /// Bytes of the four-dimensional index for `filled` ranks from 0 on, by formula (4.20) with our
    /// sizes and without the communicator's own record.
    fn cube_bytes(ranks: u32, filled: u64) -> u64 {
        let span = 1u64 << CubeIndex::bits_for(ranks);
        filled.div_ceil(span.pow(3)) * CubeIndex::cube_bytes(span as usize) as u64
            + filled.div_ceil(span) * CubeIndex::JUMP_BYTES as u64
    }

    /// Bytes of the index of `nd` for `filled` ranks from 0 on.
    fn tree_bytes(ranks: u32, filled: u64) -> u64 {
        let index = TreeIndex::new(ranks);
        let shape = index.shape();
        let (node, leaf) = index.bytes();
        let leaves = filled.div_ceil(TreeShape::LEAF_RANKS.into());
        let nodes: u64 =
            (1..=shape.dimensions).map(|k| leaves.div_ceil(1 << (k * shape.bits))).sum();
        nodes * node as u64 + leaves * leaf as u64
    }

    /// A table that an index has beside its entries is found, whether it is counted or not.
    #[test]
    fn a_hash_takes_no_heap_beside_the_entries() {
        for queued in [1, 15, 16, 17, 1000, 100_000] {
            assert_eq!(alone_by_hash(queued), 0, "{queued} queued");
        }
        assert!(alone(TreeIndex::new(1000), 1000) >= tree_bytes(1000, 1000));
    }

    /// The default is measured with its index, and as a list where it is one.
    #[test]
    fn the_default_takes_its_record_and_nothing_for_each_entry() {
        assert_eq!(held(EngineKind::Auto, 4096, 1), 0, "a list");
        let of = |queued| held(EngineKind::Auto, 4096, queued);
        assert!((1..=RECORD).contains(&of(100)), "{} B", of(100));
        assert_eq!(of(100), of(4096));
        let [any, more] = chained(4096);
        assert!(any >= of(4096) + 8 * 4096 && more >= any + 8 * 4096, "{any} B, {more} B");
    }

    #[test]
    fn every_engine_grows_and_gives_back_what_it_took() {
        for &kind in EngineKind::ALL {
            let (full, left) = (held(kind, 20_000, 20_000) + entries(20_000), kept(kind, 20_000));
            assert!(left < 1 << 19 && left < full, "{}: {left} of {full} B", kind.name());
        }
    }

    /// What the array counts is what it has from the allocator; the others have space for more.
    #[test]
    fn own_counts_agree_with_the_heap() {
        for ranks in [100u32, 512, 4096] {
            for queued in [1, 50, ranks] {
                let count = |counted: &Tally| counted.bytes;
                let array = count(filled(ArrayIndex::new(ranks), queued, 1).counted());
                assert_eq!(array, ArrayIndex::bytes_for(ranks) as u64);
                assert_eq!(array, alone(ArrayIndex::new(ranks), queued), "{queued} of {ranks}");
                let cubes = count(filled(CubeIndex::new(ranks), queued, 1).counted());
                let range = cubes..=2 * cubes + 256;
                let heap = alone(CubeIndex::new(ranks), queued);
                assert!(range.contains(&heap), "{queued} of {ranks}: {heap} B");
                let tree = count(filled(TreeIndex::new(ranks), queued, 1).counted());
                let range = tree..=3 * tree + 256;
                let heap = alone(TreeIndex::new(ranks), queued);
                assert!(range.contains(&heap), "{queued} of {ranks}: {heap} B");
            }
        }
    }

    /// Whatever the number of ranks, which may lie behind a power of two.
    #[test]
    fn nd_takes_less_than_the_array_at_full_queues() {
        for ranks in [256u32, 257, 700, 4096, 4097, 20_000, 65_537, 262_145] {
            let (nd, array) = (alone(TreeIndex::new(ranks), ranks), ArrayIndex::bytes_for(ranks));
            assert!(nd < array as u64, "{ranks} ranks: {nd} and {array} B");
        }
    }

    #[test]
    fn formulas_hold_for_every_filling() {
        for ranks in [100u32, 256, 512, 4096] {
            for queued in (1..=ranks).step_by(37) {
                let cubes = filled(CubeIndex::new(ranks), queued, 1).counted().bytes;
                assert_eq!(cubes, cube_bytes(ranks, queued.into()), "{queued} of {ranks}");
                let tree = filled(TreeIndex::new(ranks), queued, 1).counted().bytes;
                assert_eq!(tree, tree_bytes(ranks, queued.into()), "{queued} of {ranks}");
            }
        }
    }
}
