//! Every algorithm is proven: at every number of ranks up to 33 in all its variants, at every one up to 512 in one, and at
//! some beyond ([`many`]). Algorithms with a message for each pair of ranks are in [`pairs`], of many ranks in [`sampled`],
//! and what the proofs refuse in [`rules`].

use std::sync::Mutex;

use super::blocks::Placed;
use super::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree,
};
use super::plan::Space;
use super::prove::{self, PlanProof};
use super::reduce_scatter::allows;
use super::verify::PlanFlaw;
use crate::choice::{FactorOrder, choose};
use crate::schedule::Schedule;

/// Numbers of ranks at which all variants are proven.
const SMALL: std::ops::RangeInclusive<u32> = 1..=33;
/// All roots for small numbers of ranks; the first, a middle one and the last for greater ones.
fn roots(size: u32) -> Vec<u32> {
    match size {
        0..=9 => (0..size).collect(),
        _ => vec![0, size / 2, size - 1],
    }
}

#[track_caller]
fn holds(proof: Result<PlanProof, PlanFlaw>, what: std::fmt::Arguments<'_>) -> PlanProof {
    proof.unwrap_or_else(|flaw| panic!("{what}: {flaw}"))
}

/// Runs a proof, and panics with what it was for.
macro_rules! proven {
    ($($proof:ident)::+($($argument:expr),* $(,)?)) => {
        holds(
            prove::$($proof)::+($($argument),*),
            format_args!("{}{:?}", stringify!($($proof)::+), ($($argument,)*)),
        )
    };
}

/// Runs a proof for each of these, on all processors.
pub(super) fn on_all_processors<T: Send>(
    all: impl IntoIterator<Item = T, IntoIter: Send>,
    proof: impl Fn(T) + Sync,
) {
    let all = Mutex::new(all.into_iter());
    let next = || all.lock().expect("nothing panics while it is locked").next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(one) = next() {
                    proof(one);
                }
            });
        }
    });
}

mod many;
mod pairs;
mod rules;
mod sampled;

#[test]
fn barriers_hold_everybody_until_the_last_has_come() {
    SMALL.chain(many::often()).for_each(many::barriers);
}

#[test]
fn small_cases_have_the_fewest_messages() {
    assert_eq!(proven!(barrier(2, Barrier::Dissemination)).sent, [1, 1]);
    assert_eq!(proven!(barrier(9, Barrier::Flat)).messages(), 2 * 8);
    assert_eq!(proven!(allreduce(2, Allreduce::Doubling, (1, 1), false)).sent, [1, 1]);
}

#[test]
fn broadcasts_bring_the_root_s_bytes_to_all() {
    let all = [Bcast::Flat, Bcast::Binomial, Bcast::ScatterAllgather, Bcast::Chain];
    for size in SMALL {
        for root in roots(size) {
            let splitting =
                splits(size).into_iter().map(|(stages, split)| Bcast::Split(stages, split));
            let all = all.into_iter().chain(splitting).chain([Bcast::TwoTrees(4)]);
            for how in all.chain(stages(size).map(Bcast::Multiplying)) {
                for len in [0, 1, 7, 64] {
                    proven!(bcast(size, how, root, len));
                }
            }
        }
    }
    many::often().for_each(many::broadcasts);
}

/// The stages of algorithms that split vectors, and how many of them do: all, or of more ranks one after the other.
fn splits(size: u32) -> Vec<(u32, u32)> {
    let most = size.next_power_of_two().ilog2();
    match size {
        0..=33 => (1..=most).flat_map(|all| (1..=all).map(move |split| (all, split))).collect(),
        34..=512 => {
            let some = [(most, most), (2, 1), (most / 2, most / 2), (3, 2), (most, 2)];
            vec![some[size as usize % some.len()]]
        }
        _ => vec![(most / 2, 3)],
    }
}

#[test]
fn vectors_that_are_split_come_together_again() {
    many::often().for_each(many::split);
}

#[test]
fn two_trees_carry_a_half_each() {
    for size in SMALL {
        for (root, piece) in roots(size).into_iter().flat_map(|root| [(root, 1), (root, 20)]) {
            for (len, width) in [(0, 1), (1, 1), (12, 3), (40, 1), (99, 33)] {
                proven!(two_trees_bcast(size, root, len, piece));
                proven!(two_trees_reduce(size, root, (len, width), piece));
            }
        }
    }
    many::often().for_each(many::two_trees);
}

#[test]
fn long_chains_go_in_pieces() {
    assert_eq!(proven!(bcast(3, Bcast::Chain, 1, 300 << 10)).sent, [0, 3, 3]);
}

#[test]
fn reductions_combine_every_rank_once_and_in_order() {
    for size in SMALL {
        let splitting =
            splits(size).into_iter().map(|(stages, split)| Reduce::Split(stages, split));
        let some: Vec<_> = REDUCTIONS
            .into_iter()
            .chain(splitting)
            .chain(stages(size).map(Reduce::Multiplying))
            .collect();
        for (root, how) in
            roots(size).into_iter().flat_map(|root| some.iter().map(move |how| (root, *how)))
        {
            for vector in [(0, 1), (1, 1), (12, 3), (40, 1)] {
                proven!(reduce(size, how, root, vector, keeps_order(how, root)));
            }
        }
    }
    many::often().for_each(many::reductions);
}

const REDUCTIONS: [Reduce; 5] =
    [Reduce::Flat, Reduce::Binomial, Reduce::Ordered, Reduce::Halving, Reduce::Chain];

fn keeps_order(how: Reduce, root: u32) -> bool {
    let from_the_root = matches!(how, Reduce::Binomial | Reduce::Chain | Reduce::Multiplying(_));
    how.keeps_order() || root == 0 && from_the_root
}

#[test]
fn reductions_along_chains_by_two_tracks_give_the_root_the_whole() {
    for size in SMALL {
        for root in roots(size) {
            for (vector, segment) in
                [((0, 1), 4), ((1, 1), 1), ((12, 3), 4), ((40, 1), 7), ((99, 33), 1)]
            {
                proven!(chained_reduce(size, root, vector, segment, root == 0));
            }
        }
    }
    many::often().for_each(many::chained_reductions);
}

const ALLREDUCTIONS: [Allreduce; 4] =
    [Allreduce::Doubling, Allreduce::Halving, Allreduce::Flat, Allreduce::ReduceBcast];

#[test]
fn allreductions_give_every_rank_the_whole_in_order_and_the_same_bits() {
    for size in SMALL {
        for (how, in_place) in ALLREDUCTIONS.into_iter().flat_map(|how| [(how, false), (how, true)])
        {
            for vector in [(0, 4), (1, 1), (12, 3), (40, 1), (99, 33)] {
                proven!(allreduce(size, how, vector, in_place));
            }
        }
    }
    many::often().for_each(many::allreductions);
}

/// All kinds of schedules of so many ranks: factored, collapsed, merged, the heuristic's.
fn schedules(size: u32) -> Vec<Schedule> {
    let mut all = heuristic_schedules(size);
    for base in 2..=size {
        for blocks in 1..=size / base {
            let (threshold, rest) = (blocks * base, size - blocks * (base - 1));
            let middle = if rest > 1 { format!("a{rest},") } else { String::new() };
            let text = format!("c{threshold}m{base},{middle}e{threshold}m{base}");
            all.push(Schedule::parse(size, &text).unwrap());
        }
    }
    for (first, last) in [(2, 2), (2, 3), (3, 2), (4, 3)] {
        if size > first * last {
            all.push(Schedule::merged(&[first, last], size - first * last).unwrap());
        }
    }
    all
}

/// What the heuristic takes at ratios of costs from the least to one that is rarely met.
fn heuristic_schedules(size: u32) -> Vec<Schedule> {
    let mut all = vec![Schedule::doubling(size)];
    for ratio in [0.4, 1.2, 2.316, 2.911, 5.0, 20.0] {
        for order in [FactorOrder::ByCost, FactorOrder::Greatest] {
            let chosen = choose(size, ratio, order);
            if !all.contains(&chosen) {
                all.push(chosen);
            }
        }
    }
    all
}

#[test]
fn recursive_multiplying_gives_every_rank_the_whole_and_the_same_bits() {
    for size in 1..=24 {
        for schedule in schedules(size) {
            for (vector, in_place) in [((0, 1), false), ((3, 1), false), ((6, 3), true)] {
                proven!(multiplying(&schedule, vector, in_place));
            }
        }
    }
    (25..=33).chain(many::often()).for_each(many::schedules_of_many);
}

/// Lengths of blocks that differ, some of them empty.
fn uneven(rank: u32) -> usize {
    (rank as usize * 5 + 2) % 4
}

/// Blocks in reverse order with a gap between them, and the length of all.
fn scattered(size: u32) -> (Vec<usize>, Vec<usize>, usize) {
    let counts: Vec<_> = (0..size).map(uneven).collect();
    let mut displacements = vec![0; size as usize];
    let mut at = 1;
    for rank in (0..size as usize).rev() {
        displacements[rank] = at;
        at += counts[rank] + 1;
    }
    (counts, displacements, at)
}

fn placed<'a>(space: Space, counts: &'a [usize], displacements: &'a [usize]) -> Placed<'a> {
    Placed { space, width: 1, counts, displacements }
}

#[test]
fn gathers_and_scatters_bring_each_block_to_its_place() {
    for size in SMALL {
        for root in roots(size) {
            for (len, in_place) in [(0, false), (3, false), (3, true)] {
                for how in [Tree::Linear, Tree::Binomial] {
                    proven!(gather(size, how, root, len, in_place));
                    // A tree writes the root's block.
                    if !in_place || how == Tree::Linear {
                        proven!(scatter(size, how, root, len, in_place));
                    }
                }
            }
            let (counts, displacements, total) = scattered(size);
            let placed = |space| placed(space, &counts, &displacements);
            for in_place in [false, true] {
                proven!(gatherv(&placed(Space::Output), root, total, in_place));
                proven!(scatterv(&placed(Space::Input), root, total, in_place));
            }
        }
    }
    many::often().for_each(many::gathers);
}

#[test]
fn allgathers_bring_all_blocks_to_all() {
    let even = |size: u32| {
        let doubling = size.is_power_of_two().then_some(Allgather::Doubling);
        [Allgather::Bruck, Allgather::GatherBcast].into_iter().chain(doubling)
    };
    for size in SMALL {
        let some = even(size).chain([Allgather::Ring, Allgather::Direct]);
        for how in some.chain(stages(size).map(Allgather::Multiplying)) {
            for (len, in_place) in [(0, false), (3, false), (3, true)] {
                proven!(allgather(size, how, len, in_place));
            }
        }
        for how in [Allgather::Bruck, Allgather::Ring, Allgather::Direct] {
            let (counts, displacements, total) = scattered(size);
            proven!(allgatherv(&placed(Space::Output, &counts, &displacements), how, total));
        }
    }
    many::often().chain([4096]).for_each(many::allgathers);
}

/// Partners at a time of all-to-alls: two that are offered, and one that a user may name.
const PARTNERS: [u32; 3] = [1, 3, 64];

#[test]
fn alltoalls_bring_each_block_to_its_rank() {
    for size in SMALL {
        for how in PARTNERS.map(Alltoall::Staged).into_iter().chain([Alltoall::Bruck]) {
            proven!(alltoall(size, how, 0));
            proven!(alltoall(size, how, 2));
        }
        for partners in PARTNERS {
            let len = |from: u32, to: u32| ((from * 3 + to * 7) % 5) as usize;
            holds(prove::alltoallv(size, partners, len), format_args!("{size} {partners}"));
        }
    }
}

/// Where blocks of these lengths begin, and their end.
fn offsets(size: u32, len: impl Fn(u32) -> usize) -> Vec<usize> {
    let sums = (0..size).scan(0, |sum, rank| {
        *sum += len(rank);
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

#[test]
fn reduce_scatters_give_each_rank_its_block_of_the_whole() {
    for size in SMALL {
        for offsets in [offsets(size, |_| 2), offsets(size, uneven)] {
            let all = [
                ReduceScatter::ViaRoot,
                ReduceScatter::Pairwise,
                ReduceScatter::Direct,
                ReduceScatter::Halving,
            ];
            let all = all.into_iter().chain(stages(size).map(ReduceScatter::Multiplying));
            let all = all.chain(stages(size).map(ReduceScatter::Ordered));
            for how in all.filter(|&how| allows(how, size, true)) {
                proven!(reduce_scatter(&offsets, how, allows(how, size, false)));
            }
        }
    }
    many::often().chain([4096]).for_each(many::reduce_scatters);
}

/// How many stages collectives by multiplying can have; of many ranks, some of them.
fn stages(size: u32) -> impl Iterator<Item = u32> {
    let most = size.next_power_of_two().ilog2();
    let some = move |stages: &u32| match size {
        0..=33 => true,
        34..=512 => [2, 3, most].contains(stages),
        _ => *stages == most / 2,
    };
    (1..=most).filter(some)
}

#[test]
fn multiplying_is_right_for_every_number() {
    many::often().for_each(many::multiplied);
    many::often().for_each(many::multiply_blocks);
}

#[test]
fn reductions_in_order_are_right_with_all_stages_that_divide() {
    many::often().for_each(many::ordered_blocks);
    // Of most numbers none divide; of these some do.
    for size in [64, 240, 512, 1000, 1024] {
        assert!(many::ordered(size).next().is_some(), "{size}");
    }
}

#[test]
fn scans_combine_the_ranks_up_to_each_in_order() {
    SMALL.chain(many::often()).for_each(many::scans);
}
