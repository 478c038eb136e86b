//! Algorithms with a message for each pair of ranks whose plans are not alike, at more ranks than can all be followed: some
//! ranks are, and what they send each other is compared. [`Sample`] says what that proves.

use super::*;
use crate::coll::verify::Sample;

/// The first ranks, those in the middle and the last one; and of many ranks those at distances of powers of two on both
/// sides of the middle, which algorithms with few rounds have as partners.
fn chosen(size: u32, many: bool) -> Vec<u32> {
    let middle = size / 2;
    let mut all = vec![0, 1, middle, middle + 1, size - 1];
    if many {
        all.extend((1..16).flat_map(|bit| [middle + (1 << bit), middle.wrapping_sub(1 << bit)]));
    }
    all.retain(|rank| *rank < size);
    all.sort_unstable();
    all.dedup();
    all
}

/// Runs a proof; some of its messages must be between chosen ranks.
#[track_caller]
fn holds_at_some(proof: Result<u64, PlanFlaw>, what: std::fmt::Arguments<'_>) {
    let compared = proof.unwrap_or_else(|flaw| panic!("{what}: {flaw}"));
    assert!(compared > 0, "{what}: nothing was compared");
}

fn broadcasts(sample: Sample<'_>) {
    let size = sample.size;
    for root in [0, size / 2, size - 1] {
        // Parts of one length, or some that are empty.
        let len = 3 * size as usize + root as usize % 2;
        let proof = prove::sampled::scatter_allgather(sample, root, len);
        holds_at_some(proof, format_args!("broadcast to {size} from {root}"));
    }
}

fn allgathers(sample: Sample<'_>) {
    let (counts, displacements, total) = scattered(sample.size);
    let blocks = placed(Space::Output, &counts, &displacements);
    for how in [Allgather::Bruck, Allgather::Ring, Allgather::Direct] {
        let proof = prove::sampled::allgatherv(sample, &blocks, how, total);
        holds_at_some(proof, format_args!("{how:?} of {}", sample.size));
    }
}

fn alltoalls(sample: Sample<'_>, partners: u32) {
    let len = |from: u32, to: u32| ((from * 3 + to * 7) % 5) as usize;
    let proof = prove::sampled::alltoallv(sample, partners, len);
    holds_at_some(proof, format_args!("{partners} partners of {}", sample.size));
}

/// With the blocks of one length and of several.
fn reductions(sample: Sample<'_>) {
    let size = sample.size;
    for offsets in [offsets(size, |_| 2), offsets(size, uneven)] {
        for how in [ReduceScatter::Direct, ReduceScatter::Pairwise] {
            let proof = prove::sampled::reduce_scatter(sample, &offsets, how);
            holds_at_some(proof, format_args!("{how:?} of {size}"));
        }
    }
}

#[test]
fn some_numbers_of_ranks() {
    many::often().for_each(pairs_of_wide);
}

/// Up to 512 ranks.
pub(super) fn pairs_of_wide(size: u32) {
    if many::WIDE.contains(&size) {
        let all = chosen(size, false);
        let sample = Sample { size, chosen: &all };
        broadcasts(sample);
        allgathers(sample);
        PARTNERS.into_iter().for_each(|partners| alltoalls(sample, partners));
        reductions(sample);
    }
}

#[test]
fn many_ranks() {
    for size in [1000, 1024, 4095] {
        pairs_of(size);
    }
    [1000, 1024, 4096].into_iter().for_each(in_order);
}

#[test]
#[ignore = "takes a minute: cargo test -p bowline-model -- --ignored"]
fn most_ranks() {
    for size in many::SAMPLES.into_iter().filter(|size| *size >= 40_000) {
        pairs_of(size);
        in_order(size);
    }
}

fn pairs_of(size: u32) {
    let all = chosen(size, true);
    let sample = Sample { size, chosen: &all };
    broadcasts(sample);
    allgathers(sample);
    PARTNERS.into_iter().for_each(|partners| alltoalls(sample, partners));
    reductions(sample);
}

/// Each rank puts the blocks of all in order, which is why they are not all followed.
fn in_order(size: u32) {
    let mut all = chosen(size, true);
    // The partners of the first rank in factors of ten.
    all.extend([10, 20, 90, 100, 200, 900, 2000].iter().filter(|rank| **rank < size));
    all.sort_unstable();
    all.dedup();
    let sample = Sample { size, chosen: &all };
    let forms: Vec<_> = many::ordered(size).collect();
    assert!(!forms.is_empty(), "no factors divide {size}");
    for how in forms {
        for offsets in [offsets(size, |_| 2), offsets(size, uneven)] {
            let proof = prove::sampled::reduce_scatter(sample, &offsets, how);
            holds_at_some(proof, format_args!("{how:?} of {size}"));
        }
    }
}

/// With all ranks chosen, all messages are compared.
#[test]
fn all_messages_are_compared_where_all_ranks_are_chosen() {
    for size in [2, 5, 8, 12, 16_u32] {
        let all: Vec<u32> = (0..size).collect();
        let sample = Sample { size, chosen: &all };
        let messages = |proof: PlanProof| proof.messages();
        let (counts, displacements, total) = scattered(size);
        let blocks = placed(Space::Output, &counts, &displacements);
        for how in [Allgather::Bruck, Allgather::Ring, Allgather::Direct] {
            assert_eq!(
                prove::sampled::allgatherv(sample, &blocks, how, total),
                prove::allgatherv(&blocks, how, total).map(messages)
            );
        }
        let len = |from: u32, to: u32| ((from * 3 + to * 7) % 5) as usize;
        for partners in PARTNERS {
            assert_eq!(
                prove::sampled::alltoallv(sample, partners, len),
                prove::alltoallv(size, partners, len).map(messages)
            );
        }
        let stages = 2..=size.next_power_of_two().ilog2();
        let ordered = stages.map(ReduceScatter::Ordered);
        let all = [ReduceScatter::Direct, ReduceScatter::Pairwise].into_iter().chain(ordered);
        for how in all.filter(|&how| allows(how, size, true)) {
            let offsets = offsets(size, uneven);
            let ordered = how != ReduceScatter::Pairwise;
            assert_eq!(
                prove::sampled::reduce_scatter(sample, &offsets, how),
                prove::reduce_scatter(&offsets, how, ordered).map(messages)
            );
        }
        // The messages of the tree are not among those that are compared.
        let len = 3 * size as usize;
        for root in [0, size / 2, size - 1] {
            let tree = u64::from(size - 1);
            assert_eq!(
                prove::sampled::scatter_allgather(sample, root, len).map(|ring| ring + tree),
                prove::bcast(size, Bcast::ScatterAllgather, root, len).map(messages)
            );
        }
    }
}
