//! The check values of both tables, and the proofs of the algorithms: at every number of ranks to 64, and at some to
//! 512.

use std::convert::Infallible;

use super::composed::{self, Composed, OnNodes};
use super::forms::{
    FixedAllgather, FixedAllreduce, FixedAlltoall, FixedBarrier, FixedBcast, FixedReduce,
    FixedReduceScatter, FixedTree, Gather,
};
use super::mpich::{self, Composition};
use super::{FixedCall, open_mpi, prove};
use crate::coll::plan::Place;
use crate::coll::prove::{any_allreduce, any_barrier, any_bcast, any_reduce};
use crate::coll::record::PlanRecorder;
use crate::coll::verify::record;

const K: usize = 1 << 10;
const M: usize = 1 << 20;

fn doubles(ranks: u32, bytes: usize) -> FixedCall {
    FixedCall::doubles(ranks, bytes)
}

#[test]
fn mpich_chooses_what_it_is_known_to() {
    let call = doubles(64, M);
    assert_eq!(mpich::composed_allreduce(call, 4), Composition::Levels);
    assert_eq!(mpich::allreduce(call.on(4)), FixedAllreduce::Halving);
    assert_eq!(mpich::reduce_width(mpich::REDUCE_PIECE), 2);
    assert_eq!(M.div_ceil(mpich::REDUCE_PIECE), 128);
    assert_eq!(M.div_ceil(mpich::BCAST_PIECE), 131);
    let call = doubles(64, 16);
    assert_eq!(mpich::composed_allreduce(call, 4), Composition::Levels);
    assert_eq!(mpich::allreduce(call.on(4)), FixedAllreduce::Doubling);
    let call = doubles(6, M);
    assert_eq!(mpich::composed_allreduce(call, 6), Composition::Flat);
    assert_eq!(mpich::allreduce(call), FixedAllreduce::Halving);
    let call = doubles(64, 64 * K);
    assert_eq!(mpich::composed_bcast(call, 4), Composition::AroundRoot);
    assert_eq!(mpich::bcast(call.on(4)), FixedBcast::Binomial);
    let call = doubles(60, 64 * K);
    assert_eq!(mpich::composed_bcast(call, 4), Composition::Flat);
    assert_eq!(mpich::bcast(call), FixedBcast::ScatterRing);
    let call = doubles(60, 12_288);
    assert_eq!(mpich::composed_bcast(call, 4), Composition::Flat);
    assert_eq!(mpich::bcast(call), FixedBcast::Binomial);
    assert_eq!(mpich::alltoall(doubles(8, 100)), FixedAlltoall::Staged(32));
    assert_eq!(mpich::alltoall(doubles(9, 100)), FixedAlltoall::Bruck);
    assert_eq!(mpich::allgather(doubles(60, K)), FixedAllgather::Bruck);
    assert_eq!(mpich::allgather(doubles(60, 2 * K)), FixedAllgather::Ring);
    let scattered = |block: usize| mpich::reduce_scatter(doubles(64, 64 * block), true);
    assert_eq!(scattered(4 * K), FixedReduceScatter::Halving);
    assert_eq!(scattered(16 * K), FixedReduceScatter::Pairwise);
    // Reductions in the order of ranks.
    let ordered = FixedCall { commutative: false, ..doubles(64, M) };
    assert_eq!(mpich::composed_allreduce(ordered, 4), Composition::Flat);
    assert_eq!(mpich::reduce(ordered), FixedReduce::OrderedBinomial);
    assert_eq!(mpich::reduce_scatter(ordered, true), FixedReduceScatter::Ordered);
    assert_eq!(mpich::reduce_scatter(ordered.on(60), true), FixedReduceScatter::Doubling);
}

#[test]
fn open_mpi_chooses_what_it_is_known_to() {
    assert_eq!(open_mpi::allreduce(doubles(48, 128)), FixedAllreduce::Linear);
    let call = doubles(64, M);
    assert!(open_mpi::han(call, 4) && !open_mpi::han(call, 1) && !open_mpi::han(call, 64));
    assert!(!open_mpi::han(doubles(62, M), 4), "there are not as many ranks on each node");
    let segment = call.of(open_mpi::SEGMENT);
    assert_eq!(M.div_ceil(open_mpi::SEGMENT), 16);
    assert_eq!(open_mpi::reduce(segment.on(16)), FixedReduce::Binomial);
    assert_eq!(open_mpi::han_reduce(segment.on(4)), FixedReduce::SharedHalving);
    assert_eq!(open_mpi::han_bcast(4), FixedBcast::Linear);
    assert_eq!(open_mpi::bcast(segment.on(16)), FixedBcast::Tree(FixedTree::Highest));
    assert_eq!(open_mpi::bcast(segment.on(4)), FixedBcast::Linear);
    assert_eq!(open_mpi::bcast(doubles(12, M)), FixedBcast::Linear);
    assert_eq!(open_mpi::bcast(doubles(16, M)), FixedBcast::ScatterDoubling);
    assert_eq!(open_mpi::bcast(doubles(64, M)), FixedBcast::Tree(FixedTree::Nomial(4)));
    assert_eq!(open_mpi::gather(doubles(16, K)), Gather::Binomial);
    assert_eq!(open_mpi::allgather(doubles(4, 16 * K)), FixedAllgather::Doubling);
    assert_eq!(open_mpi::bcast(doubles(16, 64 * K)), FixedBcast::Tree(FixedTree::Highest));
    assert_eq!(open_mpi::alltoall(doubles(64, K)), FixedAlltoall::Staged(64));
    let call = doubles(64, 64 * 16 * K);
    assert_eq!(open_mpi::reduce_scatter_block(call), FixedReduceScatter::Butterfly);
    assert_eq!(open_mpi::barrier(16), FixedBarrier::Doubling);
    assert_eq!(open_mpi::barrier(4), FixedBarrier::Linear);
}

#[test]
fn open_mpi_falls_back_where_there_are_too_few_elements() {
    // 64 Ki ranks and 32 KiB: as its users found.
    assert_eq!(open_mpi::allreduce(doubles(1 << 16, 32 * K)), FixedAllreduce::Linear);
    assert_eq!(open_mpi::allreduce(doubles(1 << 20, 8 * M)), FixedAllreduce::SharedHalving);
    assert_eq!(open_mpi::bcast(doubles(1 << 20, M)), FixedBcast::Linear);
    assert_eq!(open_mpi::allreduce(doubles(4096, 4 * K)), FixedAllreduce::Doubling);
    assert_eq!(open_mpi::allreduce(doubles(16, 32)), FixedAllreduce::Doubling);
    assert_eq!(
        open_mpi::allreduce(doubles(1 << 20, 8)),
        FixedAllreduce::ReduceBcast(FixedReduce::Binomial, FixedBcast::Tree(FixedTree::Nomial(4)))
    );
}

/// Numbers of ranks at which algorithms are proven.
fn sizes() -> impl Iterator<Item = u32> {
    (1..=64).chain([65, 96, 100, 127, 128, 129, 255, 256, 333, 511, 512])
}

/// The same for algorithms that take as many rounds as there are ranks.
fn sizes_for_pairs() -> impl Iterator<Item = u32> {
    (1..=64).chain([65, 96, 127, 128])
}

fn roots(size: u32) -> Vec<u32> {
    let mut all = vec![0, size / 2, size - 1];
    if size <= 12 {
        all.extend(0..size);
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn trees_have_one_parent_for_each_child() {
    let trees = [
        FixedTree::Chain,
        FixedTree::Binary,
        FixedTree::Highest,
        FixedTree::Nomial(2),
        FixedTree::Nomial(4),
        FixedTree::Nomial(5),
        FixedTree::Heap(2),
        FixedTree::Heap(64),
    ];
    for (tree, size) in trees.into_iter().flat_map(|tree| sizes().map(move |size| (tree, size))) {
        let mut parents = vec![None; size as usize];
        for rank in 0..size {
            for child in tree.children(rank, size) {
                assert_eq!(parents[child as usize].replace(rank), None, "{tree:?} {size} {child}");
            }
        }
        for rank in 0..size {
            assert_eq!(parents[rank as usize], tree.parent(rank, size), "{tree:?} {size} {rank}");
        }
    }
    assert_eq!(FixedTree::Binary.children(1, 9), [3, 5]);
    assert_eq!(FixedTree::Nomial(4).children(0, 64), [16, 32, 48, 4, 8, 12, 1, 2, 3]);
    assert_eq!(FixedTree::Highest.children(1, 16), [3, 5, 9]);
}

#[test]
fn broadcasts_are_proven() {
    let all = [
        FixedBcast::Linear,
        FixedBcast::Binomial,
        FixedBcast::Tree(FixedTree::Chain),
        FixedBcast::Tree(FixedTree::Binary),
        FixedBcast::Tree(FixedTree::Highest),
        FixedBcast::Tree(FixedTree::Nomial(4)),
        FixedBcast::Tree(FixedTree::Heap(64)),
        FixedBcast::SplitBinary,
        FixedBcast::ScatterDoubling,
        FixedBcast::ScatterRing,
    ];
    for (how, size) in all.into_iter().flat_map(|how| sizes().map(move |size| (how, size))) {
        if how == FixedBcast::ScatterRing && size > 128 {
            continue;
        }
        for root in roots(size) {
            for len in [1, 40, 1000] {
                let proof = prove::bcast(size, how, root, len);
                assert!(proof.is_ok(), "{how:?} on {size} from {root}, {len}: {proof:?}");
            }
        }
    }
}

#[test]
fn reductions_are_proven() {
    let all = [
        (FixedReduce::Linear, true),
        (FixedReduce::Binomial, false),
        (FixedReduce::OrderedBinomial, true),
        (FixedReduce::Tree(FixedTree::Chain), false),
        (FixedReduce::Tree(FixedTree::Binary), false),
        (FixedReduce::Tree(FixedTree::Heap(4)), false),
        (FixedReduce::InOrder, true),
        (FixedReduce::Halving, false),
        (FixedReduce::SharedHalving, false),
    ];
    for ((how, ordered), size) in all.into_iter().flat_map(|how| sizes().map(move |n| (how, n))) {
        for root in roots(size) {
            for len in [8, 1000] {
                let proof = prove::reduce(size, how, root, (len, 8), ordered);
                assert!(proof.is_ok(), "{how:?} on {size} to {root}, {len}: {proof:?}");
            }
        }
    }
}

#[test]
fn allreduces_are_proven() {
    let all = [
        (FixedAllreduce::Doubling, true),
        (FixedAllreduce::Halving, true),
        (FixedAllreduce::SharedHalving, false),
        (FixedAllreduce::Linear, true),
        (
            FixedAllreduce::ReduceBcast(
                FixedReduce::Binomial,
                FixedBcast::Tree(FixedTree::Nomial(4)),
            ),
            true,
        ),
        (
            FixedAllreduce::ReduceBcast(
                FixedReduce::InOrder,
                FixedBcast::Tree(FixedTree::Nomial(4)),
            ),
            true,
        ),
        (
            FixedAllreduce::ReduceBcast(
                FixedReduce::Tree(FixedTree::Binary),
                FixedBcast::SplitBinary,
            ),
            false,
        ),
    ];
    for ((how, ordered), size) in all.into_iter().flat_map(|how| sizes().map(move |n| (how, n))) {
        for (len, in_place) in [(8, false), (1000, false), (1000, true)] {
            let proof = prove::allreduce(size, how, (len, 8), in_place, ordered);
            assert!(proof.is_ok(), "{how:?} on {size}, {len} {in_place}: {proof:?}");
        }
    }
    for size in sizes_for_pairs() {
        for (len, in_place) in [(8, false), (1032, false), (1032, true)] {
            let proof = prove::allreduce(size, FixedAllreduce::Ring, (len, 8), in_place, false);
            assert!(proof.is_ok(), "ring of {size}, {len} {in_place}: {proof:?}");
        }
    }
}

#[test]
fn allgathers_and_gathers_are_proven() {
    for size in sizes_for_pairs() {
        let doubling = size.is_power_of_two().then_some(FixedAllgather::Doubling);
        let neighbours = size.is_multiple_of(2).then_some(FixedAllgather::Neighbours);
        let all = [FixedAllgather::Bruck, FixedAllgather::Ring]
            .into_iter()
            .chain(doubling)
            .chain(neighbours);
        for how in all {
            for in_place in [false, true] {
                let proof = prove::allgather(size, how, 10, in_place);
                assert!(proof.is_ok(), "{how:?} on {size}: {proof:?}");
            }
        }
        for how in [Gather::Linear, Gather::Asked, Gather::Binomial] {
            for root in roots(size) {
                let proof = prove::gather(size, how, root, 10);
                assert!(proof.is_ok(), "{how:?} on {size} to {root}: {proof:?}");
            }
        }
    }
}

#[test]
fn barriers_are_proven() {
    for size in sizes() {
        for how in [
            FixedBarrier::Linear,
            FixedBarrier::Doubling,
            FixedBarrier::Dissemination,
            FixedBarrier::Tree,
        ] {
            let proof = prove::barrier(size, how);
            assert!(proof.is_ok(), "{how:?} of {size}: {proof:?}");
        }
    }
}

#[test]
fn reductions_that_are_scattered_are_proven() {
    let offsets = |lengths: &mut dyn Iterator<Item = usize>| -> Vec<usize> {
        let sums = lengths.scan(0, |sum, len| {
            *sum += len;
            Some(*sum)
        });
        std::iter::once(0).chain(sums).collect()
    };
    for size in sizes_for_pairs() {
        let even = offsets(&mut (0..size).map(|_| 16));
        let uneven = offsets(&mut (0..size).map(|rank| rank as usize * 7 % 5 * 8));
        let all = [
            (FixedReduceScatter::ViaRoot(FixedReduce::InOrder), true),
            (FixedReduceScatter::ViaRoot(FixedReduce::Binomial), true),
            (FixedReduceScatter::Halving, false),
            (FixedReduceScatter::Pairwise, false),
            (FixedReduceScatter::Ring, false),
            (FixedReduceScatter::Butterfly, false),
            (FixedReduceScatter::Doubling, true),
        ];
        for (how, ordered) in all {
            for offsets in [&even, &uneven] {
                let proof = prove::reduce_scatter(offsets, how, ordered);
                assert!(proof.is_ok(), "{how:?} on {size}: {proof:?}");
            }
        }
        if size.is_power_of_two() {
            let proof = prove::reduce_scatter(&even, FixedReduceScatter::Ordered, true);
            assert!(proof.is_ok(), "ordered on {size}: {proof:?}");
        }
    }
}

/// Of some numbers of ranks on a node and of nodes.
#[test]
fn what_is_composed_of_layers_is_proven() {
    for (each, nodes) in [(2, 2), (3, 4), (5, 7), (8, 6), (70, 3)] {
        let on = OnNodes { each };
        let size = each * nodes;
        for bytes in [8, 1000, 6 * K, 40 * K, 200 * K] {
            let call = doubles(size, bytes);
            for is_han in [false, true] {
                let scratch = |_| 8 * bytes;
                let run = |plan: &mut PlanRecorder<Infallible>, place: Place, what| {
                    let of = (what, call);
                    if is_han {
                        composed::han(plan, place, on, of)
                    } else {
                        composed::mpich(plan, place, on, of)
                    }
                };
                let vector = (bytes, 8);
                any_allreduce(size, vector, false, false, scratch, |plan, place, _| {
                    run(plan, place, Composed::Allreduce)
                })
                .unwrap();
                any_bcast(size, 0, bytes, |plan, place| run(plan, place, Composed::Bcast)).unwrap();
                any_reduce(size, 0, vector, (8 * bytes, false), |plan, place, _| {
                    run(plan, place, Composed::Reduce)
                })
                .unwrap();
                let plans = record(size, |plan, place| run(plan, place, Composed::Barrier));
                any_barrier(plans.unwrap()).unwrap();
            }
        }
    }
}
