//! Proofs at more ranks than those at which all variants are proven: at some numbers always, at every other one in a test
//! that is ignored by default.

use super::*;

/// Numbers of ranks, each of which is proven.
pub(super) const WIDE: std::ops::RangeInclusive<u32> = 34..=512;
/// Numbers beyond, for algorithms whose messages grow little faster than ranks.
pub(super) const SAMPLES: [u32; 5] = [1000, 1024, 4095, 40_000, 65_536];

/// Whether a number is proven always: the next ones, powers of two with their neighbours, primes, and some of many factors.
fn is_often(size: u32) -> bool {
    let beside_power = || (size - 1..=size + 1).any(u32::is_power_of_two);
    let prime = || (2..size).take_while(|d| d * d <= size).all(|d| !size.is_multiple_of(d));
    match size {
        0..=40 => true,
        41..=512 => beside_power() || prime() || size.is_multiple_of(60),
        _ => size < 40_000,
    }
}

/// The numbers that are proven always.
pub(super) fn often() -> impl Iterator<Item = u32> {
    WIDE.chain(SAMPLES).filter(|size| is_often(*size))
}

/// All others.
fn otherwise() -> impl Iterator<Item = u32> + Send {
    WIDE.chain(SAMPLES).filter(|size| !is_often(*size))
}

/// A kind of proof for a number of ranks.
type OfSize = fn(u32);

const ALL: [OfSize; 19] = [
    barriers,
    broadcasts,
    split,
    two_trees,
    reductions,
    chained_reductions,
    allreductions,
    schedules_of_many,
    gathers,
    allgathers,
    reduce_scatters,
    multiplied,
    multiply_blocks,
    ordered_blocks,
    scans,
    pairs::allgathers_of,
    pairs::alltoalls_of,
    pairs::reduce_scatters_of,
    sampled::pairs_of_wide,
];

#[test]
#[ignore = "takes minutes: cargo test -p bowline-model -- --ignored"]
fn every_number_of_ranks() {
    // The longest proofs first.
    let mut sizes: Vec<u32> = otherwise().collect();
    sizes.reverse();
    assert!(!sizes.is_empty());
    let all = sizes.into_iter().flat_map(|size| ALL.map(|proof| (proof, size)));
    on_all_processors(all, |(proof, size)| proof(size));
}

pub(super) fn barriers(size: u32) {
    for how in [Barrier::Dissemination, Barrier::Flat] {
        proven!(barrier(size, how));
    }
    for stages in stages(size) {
        proven!(barrier(size, Barrier::Multiplying(stages)));
    }
}

pub(super) fn broadcasts(size: u32) {
    for root in roots(size) {
        for how in [Bcast::Flat, Bcast::Binomial, Bcast::Chain] {
            proven!(bcast(size, how, root, 1000));
        }
    }
}

pub(super) fn split(size: u32) {
    // Some ranks get nothing.
    let len = 248;
    for root in roots(size) {
        for (stages, split) in splits(size) {
            proven!(bcast(size, Bcast::Split(stages, split), root, len));
            proven!(reduce(size, Reduce::Split(stages, split), root, (len, 8), false));
        }
        // One number of stages, and another one for the next number of ranks.
        let all: Vec<u32> = stages(size).collect();
        let one = Reduce::Multiplying(all[size as usize % all.len()]);
        let proof = proven!(reduce(size, one, root, (16, 8), root == 0));
        assert!(proof.messages() >= u64::from(size - 1), "{size} {one:?}: each rank sends");
    }
}

pub(super) fn two_trees(size: u32) {
    for root in roots(size) {
        proven!(two_trees_bcast(size, root, 50, 9));
        proven!(two_trees_reduce(size, root, (60, 3), 9));
    }
}

pub(super) fn reductions(size: u32) {
    for root in roots(size) {
        for how in REDUCTIONS {
            proven!(reduce(size, how, root, (6 * size as usize + 3, 3), keeps_order(how, root)));
        }
    }
}

/// Up to 512 ranks.
pub(super) fn chained_reductions(size: u32) {
    for root in roots(size).into_iter().filter(|_| WIDE.contains(&size)) {
        proven!(chained_reduce(size, root, (60, 3), 9, root == 0));
    }
}

pub(super) fn allreductions(size: u32) {
    for how in ALLREDUCTIONS {
        for in_place in [false, true] {
            proven!(allreduce(size, how, (6 * size as usize + 3, 3), in_place));
        }
    }
}

/// The stages of all that the heuristic can give are proven elsewhere; what is done in a stage is always the same.
pub(super) fn schedules_of_many(size: u32) {
    proven!(multiplying(&choose(size, 2.316, FactorOrder::ByCost), (8, 8), false));
    if size <= 512 {
        proven!(multiplying(&Schedule::doubling(size), (8, 8), true));
    }
}

pub(super) fn gathers(size: u32) {
    let (counts, displacements, total) = scattered(size);
    let placed = |space| placed(space, &counts, &displacements);
    for root in roots(size) {
        for how in [Tree::Linear, Tree::Binomial] {
            proven!(gather(size, how, root, 3, false));
            proven!(scatter(size, how, root, 3, false));
        }
        let proof = prove::gatherv(&placed(Space::Output), root, total, false);
        holds(proof, format_args!("{size} {root}"));
        let proof = prove::scatterv(&placed(Space::Input), root, total, false);
        holds(proof, format_args!("{size} {root}"));
    }
}

pub(super) fn allgathers(size: u32) {
    proven!(allgather(size, Allgather::GatherBcast, 3, false));
    if size.is_power_of_two() {
        proven!(allgather(size, Allgather::Doubling, 3, false));
    }
}

pub(super) fn reduce_scatters(size: u32) {
    for offsets in [offsets(size, |_| 2), offsets(size, uneven)] {
        proven!(reduce_scatter(&offsets, ReduceScatter::ViaRoot, true));
        if size.is_power_of_two() {
            proven!(reduce_scatter(&offsets, ReduceScatter::Halving, false));
        }
    }
}

pub(super) fn multiplied(size: u32) {
    for (root, stages) in
        roots(size).into_iter().flat_map(|root| stages(size).map(move |stages| (root, stages)))
    {
        proven!(bcast(size, Bcast::Multiplying(stages), root, 3));
    }
}

/// Up to 1024 ranks.
pub(super) fn multiply_blocks(size: u32) {
    if size <= 1024 {
        multiply_any_blocks(size);
    }
}

/// Blocks of one length for even numbers of ranks, and of several for odd ones.
fn blocks_of(size: u32) -> Vec<usize> {
    if size.is_multiple_of(2) { offsets(size, |_| 2) } else { offsets(size, uneven) }
}

fn multiply_any_blocks(size: u32) {
    let offsets = blocks_of(size);
    for stages in stages(size) {
        proven!(allgather(size, Allgather::Multiplying(stages), 3, size.is_multiple_of(2)));
        proven!(reduce_scatter(&offsets, ReduceScatter::Multiplying(stages), false));
    }
}

/// Scattered reductions in the order of ranks, with each number of stages whose factors divide that of ranks.
pub(super) fn ordered(size: u32) -> impl Iterator<Item = ReduceScatter> {
    let stages = 2..=size.next_power_of_two().ilog2();
    stages.map(ReduceScatter::Ordered).filter(move |&how| allows(how, size, false))
}

/// Up to 1024 ranks: each rank puts the blocks of all in order.
pub(super) fn ordered_blocks(size: u32) {
    if size <= 1024 {
        let offsets = blocks_of(size);
        ordered(size).for_each(|how| drop(proven!(reduce_scatter(&offsets, how, true))));
    }
}

#[test]
#[ignore = "takes a minute: cargo test -p bowline-model -- --ignored"]
fn blocks_of_many_ranks() {
    SAMPLES.into_iter().filter(|size| *size > 1024).for_each(multiply_any_blocks);
}

pub(super) fn scans(size: u32) {
    for how in [Scan::Doubling, Scan::Chain] {
        proven!(scan(size, how, false, 3));
        proven!(scan(size, how, true, 3));
    }
}
