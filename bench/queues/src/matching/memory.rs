//! Bytes that the matching queues hold: figures that do not depend on the machine. Pointers are in `counts.rs`.

use anyhow::Result;
use bowline_ucp::matching::{
    ArrayIndex, CubeIndex, EngineKind, HashIndex, Indexed, ListEngine, MatchEngine, Off, Tally,
    TreeIndex, TreeShape, Want,
};

use super::counts::{SCALES, filled, post_all};
use super::published;
use crate::heap::held_by;
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// Entries for which there is memory with the first one of a hash, whose table is in them.
const FIRST: u32 = 16;

/// Bytes of heap that `make` takes beside those of a list with as many entries.
fn beside_a_list<E>(make: impl FnOnce() -> E, entries: u32) -> u64 {
    let list = || post_all(ListEngine::<Off>::new(), entries, 1);
    let (ours, list) = (held_by(make), held_by(list));
    debug_assert!(ours >= list, "no entry is smaller than that of a list");
    (ours - list).max(0).cast_unsigned()
}

/// What a hash takes beside its entries with a receive from each of the first `queued` ranks, by the heap.
fn held_by_hash(queued: u32) -> u64 {
    let hash = || post_all(Indexed::<_, Off>::new(HashIndex::new()), queued, 1);
    beside_a_list(hash, queued.max(FIRST))
}

/// Bytes of the four-dimensional index for `filled` ranks from 0 on, by formula (4.20) with our
/// sizes and without the communicator's own record.
pub(super) fn cube_bytes(ranks: u32, filled: u64) -> u64 {
    let span = 1u64 << CubeIndex::bits_for(ranks);
    filled.div_ceil(span.pow(3)) * CubeIndex::cube_bytes(span as usize) as u64
        + filled.div_ceil(span) * CubeIndex::JUMP_BYTES as u64
}

/// Bytes of the index of `nd` for `filled` ranks from 0 on.
pub(super) fn tree_bytes(ranks: u32, filled: u64) -> u64 {
    let index = TreeIndex::new(ranks);
    let shape = index.shape();
    let (node, leaf) = index.bytes();
    let leaves = filled.div_ceil(TreeShape::LEAF_RANKS.into());
    let nodes: u64 = (1..=shape.dimensions).map(|k| leaves.div_ceil(1 << (k * shape.bits))).sum();
    nodes * node as u64 + leaves * leaf as u64
}

/// Table 4.5.
fn memory(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "memory",
        "bytes of structure beside the entries, with one entry of each of the first ranks",
        &[
            "ranks",
            "queued",
            "array",
            "publ.",
            "four_d",
            "publ.",
            "array/four_d",
            "publ.",
            "nd",
            "hashed",
            "list",
        ],
    );
    let mut chart = Chart::new(
        "entries queued, 1048576 ranks",
        Unit::None,
        "memory of the structure",
        Unit::Bytes,
    );
    let mut exact = true;
    let mut hash_bytes = 0;
    let rows = SCALES.iter().flat_map(|&(ranks, _)| [1, 100, 1000, ranks].map(|n| (ranks, n)));
    for (ranks, queued) in context.progress("memory", rows.collect()) {
        let n = u64::from(queued);
        let array = filled(ArrayIndex::new(ranks), queued, 1).counted().bytes;
        let cubes = filled(CubeIndex::new(ranks), queued, 1).counted().bytes;
        let tree = filled(TreeIndex::new(ranks), queued, 1).counted().bytes;
        let hashed = held_by_hash(queued);
        hash_bytes += hashed;
        exact &= array == ArrayIndex::bytes_for(ranks) as u64
            && cubes == cube_bytes(ranks, n)
            && tree == tree_bytes(ranks, n);
        let (p_array, p_cubes) =
            (published::array_bytes(n.max(ranks.into())), published::cube_bytes(ranks, n));
        let ratio = p_array as f64 / p_cubes as f64;
        if ranks == 1 << 20 {
            let series = [("array", array), ("four_d", cubes), ("nd", tree), ("hashed", hashed)];
            for (name, bytes) in series {
                chart.point(name, f64::from(queued), bytes as f64);
            }
            chart.point("array published", f64::from(queued), p_array as f64);
            chart.point("4D published", f64::from(queued), p_cubes as f64);
        }
        table.row(vec![
            Cell::count(ranks.into()),
            Cell::count(n),
            Cell::bytes(array),
            Cell::bytes(p_array),
            Cell::bytes(cubes),
            Cell::bytes(p_cubes),
            Cell::times(array as f64 / cubes as f64),
            Cell::times(ratio),
            Cell::bytes(tree),
            Cell::bytes(hashed),
            Cell::bytes(0),
        ]);
    }
    table.note(
        "publ.: formulas (4.19) and (4.20) with the published sizes of structures (record of a \
         communicator 56, RankHead 32, Cube 16 + 8 d, JumpPoint 48 bytes). Ours link by 32-bit \
         numbers, and a list is known by its last entry: RankHead 8, cube 12 + 4 d, jump point 16 bytes.",
    );
    table.note(
        "nd has a leaf for four ranks, more than four_d when the queue is full of distinct ranks, which is \
         paid for its speed. The rings of hashed begin in the entries, of which each has four bytes for \
         that and is no larger than that of a list; it has 16 of them at least. Its bytes are those of the heap, as \
         the allocator counts them, beside those of a list with as many entries.",
    );
    table.chart = Some(chart);
    table.exact(
        "array, four_d and nd hold what the formulas say, to the byte",
        if exact { "so it is" } else { "they differ" },
        exact,
    );
    table.exact(
        "hashed holds nothing beside the entries, by the heap",
        format!("{hash_bytes} B"),
        hash_bytes == 0,
    );
    table.note(
        "array/4D at full queues as published: 5.19, 10.54, 21.19 (table 4.5; 21.22 by its own formulas), and 3.6, 7.91, 16 in the paper of 2012 \
         (table 2), whose structures had other sizes.",
    );
    let sparse_exact = SCALES.iter().all(|&(ranks, _)| {
        let span = 1u32 << CubeIndex::bits_for(ranks);
        let sparse = filled(CubeIndex::new(ranks), span.pow(3), span);
        sparse.counted().bytes == cube_bytes(ranks, ranks.into())
    });
    table.exact(
        "worst case of four_d: d^3 ranks that are d apart cost as much as all ranks",
        if sparse_exact { "so it is" } else { "they differ" },
        sparse_exact,
    );
    Ok(table)
}

/// Bytes of structure of an engine whose queue has an entry of each of the first `filled` ranks, counted: by the heap where
/// there should be none.
fn counted(kind: EngineKind, ranks: u32, filled_ranks: u32) -> u64 {
    match kind {
        EngineKind::Auto | EngineKind::Hashed => held_by_hash(filled_ranks),
        EngineKind::List => 0,
        EngineKind::Array => filled(ArrayIndex::new(ranks), filled_ranks, 1).counted().bytes,
        EngineKind::FourD => filled(CubeIndex::new(ranks), filled_ranks, 1).counted().bytes,
        EngineKind::Nd => filled(TreeIndex::new(ranks), filled_ranks, 1).counted().bytes,
    }
}

/// The same of `auto`, with messages among which receives from any source with one tag have searched until there
/// are chains: of all messages, and by tag.
fn chained(ranks: u32) -> [u64; 2] {
    let mut engine = Indexed::<_, Tally>::new(HashIndex::new());
    for rank in 0..ranks {
        engine.add_unexpected(rank, 0, u64::from(rank));
    }
    let other = Want { source: 0, source_mask: 0, tag: 1, tag_mask: u64::MAX };
    [1, 20].map(|searches| {
        for _ in 0..searches {
            let found = engine.find_unexpected(&other);
            debug_assert!(found.is_none(), "all have another tag");
        }
        engine.counted().bytes
    })
}

/// Table 4.11.
fn extreme(context: &Context) -> Result<Table> {
    const GB: f64 = (1u64 << 30) as f64;
    /// Three communicators of all ranks, of two contexts each.
    const CONTEXTS: u64 = 6;
    let ours = EngineKind::ALL.iter().map(|kind| kind.name());
    let one = ["auto, 1 queued", "array, 1 queued", "nd, 1 queued", "auto, any", "auto, any more"];
    let mut table = Table::new(
        "extreme",
        "6 full queues of all ranks: GB as published, and percent of a core's memory",
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
        largest =
            EngineKind::ALL.iter().map(|&kind| percent(counted(kind, ranks, ranks))).collect();
        cells.extend(largest.iter().map(|&percent| Cell::number(percent, digits, "")));
        for kind in [EngineKind::Auto, EngineKind::Array, EngineKind::Nd] {
            cells.push(Cell::bytes(CONTEXTS * counted(kind, ranks, 1)));
        }
        cells.extend(chained(ranks).map(|bytes| Cell::number(percent(bytes), digits, "")));
        table.row(cells);
    }
    table.note(
        "publ.: A_H of table 4.11, by formulas (4.19) and (4.20). Printed there: Titan 7.89 % and \
         0.37 %, Sequoia 28.10 % (28.13 by its own formula) and 0.66 %. Ours are counted in queues \
         of this length; auto is the default and its index that of hashed, whose rings begin in the \
         entries. Both are by the heap, as the allocator counts it, beside a list with as many entries.",
    );
    table.note(
        "The entries themselves, 40 bytes each whatever the engine, take more and are left out, as in the \
         thesis. any: percent where all of it are messages, and a receive from any source has searched them: they \
         are chained up until the queue is empty (8 bytes each), in hashed and nd as well. any more: after 20 such \
         receives with one tag, there are chains by tag too. The thesis counts no such receives, and its structure \
         is searched through by them.",
    );
    table.note(
        "Published for the measured N-body, its array's 16.86 KB with 704 ranks (table 4.10) made larger with the ranks: \
         Titan 1.01 %, Sequoia 3.59 % (table 4.11); nothing for 4D there.",
    );
    let of = |kind: EngineKind| largest[kind as usize];
    let default = of(EngineKind::Auto);
    table.exact(
        "the default at most the 0.66 % of 4D on Sequoia (table 4.11), by the heap",
        format!("{default:.2} %"),
        default <= 0.66,
    );
    let (array, nd) = (of(EngineKind::Array), of(EngineKind::Nd));
    table.exact(
        "nd below the array at full queues",
        format!("{nd:.2} % and {array:.2} %"),
        nd < array,
    );
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] = &[
    ("memory", "bytes of structure", memory),
    ("extreme", "memory on the largest machines", extreme),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A table that an index has beside its entries is found, whether it is counted or not.
    #[test]
    fn a_hash_takes_no_heap_beside_the_entries() {
        for queued in [1, 15, 16, 17, 1000, 100_000] {
            assert_eq!(held_by_hash(queued), 0, "{queued} queued");
        }
        let tree = || post_all(Indexed::<_, Off>::new(TreeIndex::new(1000)), 1000, 1);
        assert!(beside_a_list(tree, 1000) >= tree_bytes(1000, 1000));
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
