//! Every algorithm is proven: at every number of ranks up to 33 in all its
//! variants, at every one up to 512 in one, and at some beyond. Those with a message for each pair of ranks, and
//! those by
//! multiplying, are so at all numbers only in tests that are ignored by default.

use std::convert::Infallible;

use super::blocks::Placed;
use super::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree,
};
use super::plan::{Place, Plan, Space, Span};
use super::prove::{self, Proof};
use super::record::Recorder;
use super::verify::{Combined, Contributions, Flaw, Memory, Piece, Spaces, follow, record};
use crate::choice::{Order, choose};
use crate::schedule::Schedule;

/// Numbers of ranks at which all variants are proven.
const SMALL: std::ops::RangeInclusive<u32> = 1..=33;
/// Numbers of ranks at which one is.
const WIDE: std::ops::RangeInclusive<u32> = 34..=512;
/// Numbers of ranks beyond, for algorithms whose messages grow little faster than ranks.
const SAMPLES: [u32; 5] = [1000, 1024, 4095, 40_000, 65_536];

fn wide() -> impl Iterator<Item = u32> {
    WIDE.chain(SAMPLES)
}

/// Numbers of ranks for algorithms in which each pair of ranks has a message, whose proof takes long: all up to 128, and
/// those next to multiples of 64. The others up to 512 have [a test](every_pair_at_every_number) that is not run always.
fn wide_for_pairs() -> impl Iterator<Item = u32> {
    (34..=128).chain((129..=512).filter(|size| matches!(size % 64, 0 | 1 | 63)))
}

/// All roots for small numbers of ranks; the first, a middle one and the last for greater ones; then one.
fn roots(size: u32) -> Vec<u32> {
    match size {
        0..=9 => (0..size).collect(),
        10..=512 => vec![0, size / 2, size - 1],
        _ => vec![size / 2],
    }
}

#[track_caller]
fn holds(proof: Result<Proof, Flaw>, what: std::fmt::Arguments<'_>) -> Proof {
    proof.unwrap_or_else(|flaw| panic!("{what}: {flaw}"))
}

/// Runs a proof, and panics with what it was for.
macro_rules! proven {
    ($proof:ident($($argument:expr),* $(,)?)) => {
        holds(prove::$proof($($argument),*), format_args!("{}{:?}", stringify!($proof), ($($argument,)*)))
    };
}

#[test]
fn barriers_hold_everybody_until_the_last_has_come() {
    for size in SMALL.chain(wide()) {
        let all = [Barrier::Dissemination, Barrier::Flat].into_iter();
        let multiplying = stages(size).filter(|_| !WIDE.contains(&size));
        for how in all.chain(multiplying.map(Barrier::Multiplying)) {
            proven!(barrier(size, how));
        }
    }
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
    for size in wide() {
        for root in roots(size) {
            let all = [Bcast::Flat, Bcast::Binomial, Bcast::Chain].into_iter();
            let multiplying = stages(size).filter(|_| !WIDE.contains(&size));
            for how in all.chain(multiplying.map(Bcast::Multiplying)) {
                proven!(bcast(size, how, root, 1000));
            }
        }
    }
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
    for size in wide() {
        // Some ranks get nothing.
        let len = 248;
        for root in roots(size) {
            for (stages, split) in splits(size) {
                proven!(bcast(size, Bcast::Split(stages, split), root, len));
                proven!(reduce(size, Reduce::Split(stages, split), root, (len, 8), false));
            }
            for stages in stages(size).skip(size as usize % 3).take(1) {
                proven!(reduce(size, Reduce::Multiplying(stages), root, (16, 8), root == 0));
            }
        }
    }
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
    for size in wide() {
        for root in roots(size) {
            proven!(two_trees_bcast(size, root, 50, 9));
            proven!(two_trees_reduce(size, root, (60, 3), 9));
        }
    }
}

#[test]
fn long_chains_go_in_pieces() {
    assert_eq!(proven!(bcast(3, Bcast::Chain, 1, 300 << 10)).sent, [0, 3, 3]);
}

#[test]
fn reductions_combine_every_rank_once_and_in_order() {
    let ordered = |how: Reduce, root| {
        let from_the_root =
            matches!(how, Reduce::Binomial | Reduce::Chain | Reduce::Multiplying(_));
        how.keeps_order() || root == 0 && from_the_root
    };
    let all = [Reduce::Flat, Reduce::Binomial, Reduce::Ordered, Reduce::Halving, Reduce::Chain];
    for size in SMALL {
        let splitting =
            splits(size).into_iter().map(|(stages, split)| Reduce::Split(stages, split));
        let some: Vec<_> =
            all.into_iter().chain(splitting).chain(stages(size).map(Reduce::Multiplying)).collect();
        for (root, how) in
            roots(size).into_iter().flat_map(|root| some.iter().map(move |how| (root, *how)))
        {
            for vector in [(0, 1), (1, 1), (12, 3), (40, 1)] {
                proven!(reduce(size, how, root, vector, ordered(how, root)));
            }
        }
    }
    for size in wide() {
        for (root, how) in roots(size).into_iter().flat_map(|root| all.map(|how| (root, how))) {
            proven!(reduce(size, how, root, (6 * size as usize + 3, 3), ordered(how, root)));
        }
    }
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
    for size in WIDE {
        for root in roots(size) {
            proven!(chained_reduce(size, root, (60, 3), 9, root == 0));
        }
    }
}

/// What is wrong with two ranks' plans of two tracks each.
fn flaw_of(plan: impl Fn(&mut Recorder<Infallible>, u32) -> Result<(), Infallible>) -> Flaw {
    let steps = record(2, |recorder, place| plan(recorder, place.rank)).unwrap();
    let memory = || Memory::of(&[Piece { len: 16, element: 0, combined: Combined::DATA }]);
    let spaces =
        |_, _: &mut Contributions| Spaces { input: memory(), output: memory(), scratch: 0 };
    follow(steps, spaces).expect_err("there is a flaw")
}

#[test]
fn tracks_that_meet_before_they_are_joined_are_refused() {
    let (front, back) = (Span::output(8), Span::new(Space::Output, 8, 8));
    let two = |first: Span, second: Span, phase: u8, joined: bool| {
        move |plan: &mut Recorder<Infallible>, rank: u32| {
            for (track, phase, span) in [(1, 0, first), (2, phase, second)] {
                plan.track(track)?;
                plan.phase(phase);
                if rank == 0 {
                    plan.send(1, Span::input(8))?;
                } else {
                    plan.recv(0, span)?;
                }
                plan.wait()?;
                if joined {
                    plan.join()?;
                }
            }
            plan.join()
        }
    };
    let last = front.part(4, 4);
    assert_eq!(flaw_of(two(front, last, 1, false)), Flaw::Shared(1, last));
    assert_eq!(flaw_of(two(front, front, 1, false)), Flaw::Shared(1, front));
    assert_eq!(flaw_of(two(front, back, 0, false)), Flaw::SharedPhase(1, 0));
    // With a join between them, one comes after the other.
    let steps = record(2, |plan, place| two(front, front, 0, true)(plan, place.rank)).unwrap();
    let memory = || Memory::of(&[Piece { len: 16, element: 0, combined: Combined::DATA }]);
    let spaces =
        |_, _: &mut Contributions| Spaces { input: memory(), output: memory(), scratch: 0 };
    assert!(follow(steps, spaces).is_ok());
}

/// Tracks that only come to an end in another order than the one in which they were stated are no way for a rank that
/// is in a blocking call.
#[test]
fn tracks_have_to_end_in_the_order_in_which_they_are_stated() {
    let flaw = flaw_of(|plan, rank| {
        for track in [1, 2] {
            plan.track(track)?;
            // Each rank begins with another message.
            let phase = if rank == 0 { track } else { 3 - track };
            plan.phase(phase);
            let span = Span::new(Space::Output, 8 * usize::from(phase - 1), 8);
            if (rank == 0) == (phase == 1) {
                plan.send(1 - rank, Span::input(8))?;
            } else {
                plan.recv(1 - rank, span)?;
            }
            plan.wait()?;
        }
        plan.join()
    });
    assert_eq!(flaw, Flaw::Deadlock { ranks: 2, first: 0 });
}

#[test]
fn allreductions_give_every_rank_the_whole_in_order_and_the_same_bits() {
    let all = [Allreduce::Doubling, Allreduce::Halving, Allreduce::Flat, Allreduce::ReduceBcast];
    for size in SMALL {
        for (how, in_place) in all.into_iter().flat_map(|how| [(how, false), (how, true)]) {
            for vector in [(0, 4), (1, 1), (12, 3), (40, 1), (99, 33)] {
                proven!(allreduce(size, how, vector, in_place));
            }
        }
    }
    for size in wide() {
        for (how, in_place) in all.into_iter().flat_map(|how| [(how, false), (how, true)]) {
            proven!(allreduce(size, how, (6 * size as usize + 3, 3), in_place));
        }
    }
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
        for order in [Order::ByCost, Order::Greatest] {
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
    // The stages of all that the heuristic can give are proven elsewhere; what is done in a stage is always the same.
    for size in 25..=512 {
        proven!(multiplying(&choose(size, 2.316, Order::ByCost), (8, 8), false));
        proven!(multiplying(&Schedule::doubling(size), (8, 8), true));
    }
    for size in SAMPLES {
        proven!(multiplying(&choose(size, 2.316, Order::ByCost), (8, 8), false));
    }
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
            for (how, len) in
                [Tree::Linear, Tree::Binomial].map(|how| [(how, 0), (how, 3)]).concat()
            {
                proven!(gather(size, how, root, len));
                proven!(scatter(size, how, root, len));
            }
            let (counts, displacements, total) = scattered(size);
            proven!(gatherv(&placed(Space::Output, &counts, &displacements), root, total));
            proven!(scatterv(&placed(Space::Input, &counts, &displacements), root, total));
        }
    }
    for size in wide() {
        for root in roots(size) {
            for how in [Tree::Linear, Tree::Binomial] {
                proven!(gather(size, how, root, 3));
                proven!(scatter(size, how, root, 3));
            }
        }
    }
}

#[test]
fn allgathers_bring_all_blocks_to_all() {
    let any = [Allgather::Bruck, Allgather::Ring, Allgather::Direct];
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
        for how in any {
            let (counts, displacements, total) = scattered(size);
            proven!(allgatherv(&placed(Space::Output, &counts, &displacements), how, total));
        }
    }
    for size in wide() {
        proven!(allgather(size, Allgather::GatherBcast, 3, false));
    }
    for size in [1024, 4096, 65_536] {
        proven!(allgather(size, Allgather::Doubling, 3, false));
    }
}

#[test]
fn alltoalls_bring_each_block_to_its_rank() {
    for size in SMALL {
        for how in [Alltoall::Bruck, Alltoall::Staged(64), Alltoall::Staged(3), Alltoall::Staged(1)]
        {
            proven!(alltoall(size, how, 0));
            proven!(alltoall(size, how, 2));
        }
        for partners in [64, 3, 1] {
            let len = |from: u32, to: u32| ((from * 3 + to * 7) % 5) as usize;
            holds(prove::alltoallv(size, partners, len), format_args!("{size} {partners}"));
        }
    }
}

#[test]
fn reduce_scatters_give_each_rank_its_block_of_the_whole() {
    use super::reduce_scatter::allows;
    let offsets = |size: u32, len: fn(u32) -> usize| {
        let sums = (0..size).scan(0, |sum, rank| {
            *sum += len(rank);
            Some(*sum)
        });
        std::iter::once(0).chain(sums).collect::<Vec<_>>()
    };
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
    for size in wide() {
        let offsets = offsets(size, |_| 2);
        proven!(reduce_scatter(&offsets, ReduceScatter::ViaRoot, true));
    }
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
    WIDE.for_each(multiply_at);
}

fn multiply_at(size: u32) {
    let offsets: Vec<_> = (0..=size as usize).map(|rank| 2 * rank).collect();
    for stages in stages(size) {
        proven!(barrier(size, Barrier::Multiplying(stages)));
        for root in [0, size / 2, size - 1] {
            proven!(bcast(size, Bcast::Multiplying(stages), root, 3));
        }
        proven!(allgather(size, Allgather::Multiplying(stages), 3, size.is_multiple_of(2)));
        proven!(reduce_scatter(&offsets, ReduceScatter::Multiplying(stages), false));
        let ordered = ReduceScatter::Ordered(stages);
        if super::reduce_scatter::allows(ordered, size, false) {
            proven!(reduce_scatter(&offsets, ordered, true));
        }
    }
}

/// Proves the algorithms in which each pair of ranks has a message.
fn every_pair(size: u32) {
    // One root after the other: the first, a middle one, the last.
    let root = [0, size / 2, size - 1][size as usize % 3];
    proven!(bcast(size, Bcast::ScatterAllgather, root, 3 * size as usize + 1));
    for how in [Allgather::Bruck, Allgather::Ring, Allgather::Direct] {
        proven!(allgather(size, how, 3, false));
    }
    for how in [Alltoall::Bruck, Alltoall::Staged(64), Alltoall::Staged(1)] {
        proven!(alltoall(size, how, 2));
    }
    let offsets: Vec<_> = (0..=size as usize).map(|rank| 2 * rank).collect();
    proven!(reduce_scatter(&offsets, ReduceScatter::Pairwise, false));
    proven!(reduce_scatter(&offsets, ReduceScatter::Direct, true));
    if size.is_power_of_two() {
        proven!(allgather(size, Allgather::Doubling, 3, false));
        proven!(reduce_scatter(&offsets, ReduceScatter::Halving, false));
    }
}

#[test]
fn every_pair_of_ranks_has_its_message() {
    wide_for_pairs().for_each(every_pair);
}

#[test]
#[ignore = "takes ten minutes of a processor: cargo test -p bowline-model -- --ignored"]
fn every_pair_at_every_number() {
    let done = wide_for_pairs().collect::<std::collections::HashSet<_>>();
    let left: Vec<u32> = WIDE.filter(|size| !done.contains(size)).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                // Relaxed: threads share nothing but this number.
                while let Some(&size) =
                    left.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    every_pair(size);
                }
            });
        }
    });
}

#[test]
fn scans_combine_the_ranks_up_to_each_in_order() {
    for size in SMALL.chain(wide()) {
        for how in [Scan::Doubling, Scan::Chain] {
            proven!(scan(size, how, false, 3));
            proven!(scan(size, how, true, 3));
        }
    }
}

/// Follows plans of two ranks that swap their vectors of 4 bytes, which `change` makes wrong for rank 0.
fn two_ranks(
    change: impl Fn(&mut Recorder<Infallible>) -> Result<(), Infallible>,
) -> Result<(), Flaw> {
    let steps = record(2, |plan, place: Place| {
        if place.rank == 0 {
            return change(plan);
        }
        plan.recv(0, Span::output(4))?;
        plan.send(0, Span::input(4))?;
        plan.wait()
    })?;
    let outcome = follow(steps, |rank, contributions| Spaces {
        input: Memory::of(&[Piece { len: 4, element: 0, combined: contributions.of(rank) }]),
        output: Memory::new(4),
        scratch: 8,
    });
    outcome.map(drop)
}

#[test]
fn what_breaks_a_rule_is_found() {
    let (input, output, scratch) = (Span::input(4), Span::output(4), Span::scratch(0, 4));
    let swap = |plan: &mut Recorder<Infallible>, into| {
        plan.send(1, input)?;
        plan.recv(1, into)?;
        plan.wait()
    };
    assert_eq!(two_ranks(|plan| swap(plan, output)), Ok(()));
    assert_eq!(two_ranks(|plan| swap(plan, input)), Err(Flaw::InputWritten(0, input)));
    let outside = Span::scratch(5, 4);
    assert_eq!(two_ranks(|plan| swap(plan, outside)), Err(Flaw::Outside(0, outside)));
    let short = Span::output(3);
    let lengths = Flaw::Lengths { from: 1, to: 0, sent: 4, received: 3 };
    assert_eq!(two_ranks(|plan| swap(plan, short)), Err(lengths));
    assert_eq!(two_ranks(|plan| plan.wait()), Err(Flaw::Deadlock { ranks: 1, first: 1 }));
    let silent = two_ranks(|plan| {
        plan.send(1, input)?;
        plan.recv(1, output)
    });
    assert_eq!(silent, Err(Flaw::NotAwaited(0)));
    let unmatched = two_ranks(|plan| {
        swap(plan, output)?;
        plan.send(1, input)
    });
    assert_eq!(unmatched, Err(Flaw::NotAwaited(0)));
    let touched = two_ranks(|plan| {
        plan.recv(1, output)?;
        plan.copy(output, scratch);
        plan.wait()
    });
    assert_eq!(touched, Err(Flaw::InUse(0, output)));
    let overwritten = two_ranks(|plan| {
        plan.copy(input, scratch);
        plan.recv(1, output)?;
        plan.send(1, Span::scratch(0, 4))?;
        plan.copy(input, Span::scratch(2, 4));
        plan.wait()
    });
    assert_eq!(overwritten, Err(Flaw::InUse(0, Span::scratch(2, 4))));
    let empty = two_ranks(|plan| {
        plan.copy(output, scratch);
        plan.wait()
    });
    assert_eq!(empty, Err(Flaw::Unwritten(0, output)));
    let mixed = two_ranks(|plan| {
        plan.copy(input.part(1, 3), scratch.part(0, 3));
        plan.reduce(input.part(0, 3), scratch.part(0, 3));
        plan.wait()
    });
    assert_eq!(mixed, Err(Flaw::Mixed(0, input.part(0, 3), scratch.part(0, 3))));
    let overlap = two_ranks(|plan| {
        plan.copy(output.part(0, 3), output.part(1, 3));
        plan.wait()
    });
    assert_eq!(overlap, Err(Flaw::Overlap(0, output.part(0, 3), output.part(1, 3))));
    for peer in [0, 2] {
        assert_eq!(two_ranks(|plan| plan.send(peer, input)), Err(Flaw::NoPeer(0, peer)));
    }
}
