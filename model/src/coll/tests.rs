//! Every algorithm at every size up to 33, every root, several lengths: each rank ends with each
//! contribution exactly once, reductions in rank order, without deadlock.

use std::convert::Infallible;

use super::blocks::{Blocks, Even, Packed, Placed};
use super::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree,
};
use super::plan::{Place, Space, Span, Vectors};
use super::simulator::{Byte, Memory, Recorder, Symbol, simulate};
use super::{
    allgather, allreduce, alltoall, barrier, bcast, gather, multiply, reduce, reduce_scatter, scan,
    scatter,
};
use crate::choice::{Order, choose};
use crate::schedule::Schedule;

const SIZES: std::ops::RangeInclusive<u32> = 1..=33;

/// The contribution of a rank to a reduction of vectors.
fn vector(rank: u32, len: usize) -> Vec<Byte> {
    (0..len).map(|element| Some(Symbol::of(element, rank))).collect()
}

fn nothing(len: usize) -> Vec<Byte> {
    vec![None; len]
}

/// Roots worth a test: all of them for small sizes, corners for large ones.
fn roots(size: u32) -> Vec<u32> {
    if size <= 9 { (0..size).collect() } else { vec![0, 1, size / 2, size - 1] }
}

/// Checks a vector that combines the ranks of `range` once each, in order if `ordered`.
fn check(output: &[Byte], offset: usize, range: std::ops::Range<u32>, ordered: bool) {
    for (index, byte) in output.iter().enumerate() {
        let symbol = byte.as_ref().expect("every element has a result");
        assert_eq!(symbol.element, offset + index);
        let mut ranks = symbol.ranks.clone();
        if !ordered {
            ranks.sort_unstable();
        }
        assert_eq!(ranks, range.clone().collect::<Vec<_>>());
    }
}

#[test]
fn barriers_hold_everybody_until_the_last_has_come() {
    for size in SIZES {
        for how in [Barrier::Dissemination, Barrier::Flat] {
            simulate(size, |_| Memory::default(), |plan, place| barrier::run(plan, place, how));
            // Without the messages of any one rank, nobody may get through.
            if size > 1 {
                let absent = size / 2;
                let result = std::panic::catch_unwind(|| {
                    simulate(
                        size,
                        |_| Memory::default(),
                        |plan, place| {
                            if place.rank == absent {
                                return Ok(());
                            }
                            barrier::run(plan, place, how)
                        },
                    )
                });
                assert!(result.is_err());
            }
        }
    }
}

#[test]
fn two_ranks_meet_with_one_message_each() {
    let outcome = simulate(
        2,
        |_| Memory::default(),
        |plan, place| barrier::run(plan, place, Barrier::Dissemination),
    );
    assert_eq!(outcome.sent, [1, 1]);
    let outcome = run_allreduce(2, Allreduce::Doubling, 1, 1, false);
    assert_eq!(outcome, [1, 1]);
}

#[test]
fn a_flat_barrier_has_two_messages_for_each_rank_but_one() {
    let outcome =
        simulate(9, |_| Memory::default(), |plan, place| barrier::run(plan, place, Barrier::Flat));
    assert_eq!(outcome.sent.iter().sum::<usize>(), 2 * 8);
}

#[test]
fn broadcasts_bring_the_root_s_bytes_to_all() {
    for size in SIZES {
        for root in roots(size) {
            for how in [Bcast::Flat, Bcast::Binomial, Bcast::ScatterAllgather, Bcast::Chain] {
                for len in [0, 1, 7, 64] {
                    let outcome = simulate(
                        size,
                        |rank| Memory {
                            output: if rank == root { vector(root, len) } else { nothing(len) },
                            ..Memory::default()
                        },
                        |plan, place| bcast::run(plan, place, how, root, Span::output(len)),
                    );
                    assert!(outcome.outputs.iter().all(|output| *output == vector(root, len)));
                }
            }
        }
    }
}

#[test]
fn long_chains_go_in_pieces() {
    let len = 300 << 10;
    let outcome = simulate(
        3,
        |rank| Memory {
            output: if rank == 1 { vector(1, len) } else { nothing(len) },
            ..Memory::default()
        },
        |plan, place| bcast::run(plan, place, Bcast::Chain, 1, Span::output(len)),
    );
    assert_eq!(outcome.sent, [0, 3, 3]);
    assert!(outcome.outputs.iter().all(|output| *output == vector(1, len)));
}

#[test]
fn reductions_combine_every_rank_once_and_in_order() {
    for size in SIZES {
        for root in roots(size) {
            for how in [Reduce::Flat, Reduce::Binomial, Reduce::Ordered, Reduce::Halving] {
                for (len, width) in [(0, 1), (1, 1), (12, 3), (40, 1)] {
                    let outcome = simulate(
                        size,
                        |rank| Memory {
                            input: vector(rank, len),
                            output: nothing(if rank == root { len } else { 0 }),
                            scratch: reduce::scratch(how, size, len),
                        },
                        |plan, place| {
                            let (input, output) = (Span::input(len), Span::output(len));
                            let vectors = Vectors { input, output, width, scratch: 0 };
                            reduce::run(plan, place, how, root, vectors)
                        },
                    );
                    let ordered = how != Reduce::Binomial || root == 0;
                    check(&outcome.outputs[root as usize], 0, 0..size, ordered);
                }
            }
        }
    }
}

fn run_allreduce(
    size: u32,
    how: Allreduce,
    len: usize,
    width: usize,
    in_place: bool,
) -> Vec<usize> {
    let outcome = simulate(
        size,
        |rank| Memory {
            input: if in_place { Vec::new() } else { vector(rank, len) },
            output: if in_place { vector(rank, len) } else { nothing(len) },
            scratch: allreduce::scratch(how, size, len),
        },
        |plan, place| {
            let output = Span::output(len);
            let input = if in_place { output } else { Span::input(len) };
            allreduce::run(plan, place, how, Vectors { input, output, width, scratch: 0 })
        },
    );
    for output in &outcome.outputs {
        check(output, 0, 0..size, true);
    }
    outcome.sent
}

#[test]
fn allreductions_give_every_rank_the_whole_in_order() {
    for size in SIZES {
        let all =
            [Allreduce::Doubling, Allreduce::Halving, Allreduce::Flat, Allreduce::ReduceBcast];
        for how in all {
            for (len, width) in [(0, 4), (1, 1), (12, 3), (40, 1), (99, 33)] {
                run_allreduce(size, how, len, width, false);
                run_allreduce(size, how, len, width, true);
            }
        }
    }
}

/// All kinds of schedules of so many ranks: factored, collapsed, merged, the heuristic's.
fn schedules(size: u32) -> Vec<Schedule> {
    let mut all = vec![Schedule::doubling(size)];
    for ratio in [0.4, 2.316, 2.911, 5.0] {
        all.push(choose(size, ratio, Order::ByCost));
        all.push(choose(size, ratio, Order::Greatest));
    }
    if size >= 2 {
        all.push(Schedule::of_factors(&[size]).unwrap());
    }
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
    all.retain(|schedule| schedule.ranks() == size);
    all
}

#[test]
fn recursive_multiplying_gives_every_rank_the_whole_and_the_same() {
    for size in 1..=24 {
        for schedule in schedules(size) {
            for (len, in_place) in [(0, false), (3, false), (3, true)] {
                let stages: Vec<_> = (0..size).map(|rank| schedule.stages(rank)).collect();
                let outcome = simulate(
                    size,
                    |rank| Memory {
                        input: if in_place { Vec::new() } else { vector(rank, len) },
                        output: if in_place { vector(rank, len) } else { nothing(len) },
                        scratch: multiply::places(&stages[rank as usize]) * len,
                    },
                    |plan, place| {
                        let output = Span::output(len);
                        let input = if in_place { output } else { Span::input(len) };
                        let vectors = Vectors { input, output, width: 1, scratch: 0 };
                        multiply::run(plan, &stages[place.rank as usize], vectors)
                    },
                );
                for output in &outcome.outputs {
                    check(output, 0, 0..size, schedule.keeps_order());
                    assert_eq!(*output, outcome.outputs[0], "{schedule} gives different bits");
                }
            }
        }
    }
}

/// The byte `index` of the block that `from` has for `to`.
fn block_byte(from: u32, to: u32, index: usize) -> Byte {
    Some(Symbol::of(to as usize * 1000 + index, from))
}

fn own_block(rank: u32, len: usize) -> Vec<Byte> {
    (0..len).map(|index| block_byte(rank, rank, index)).collect()
}

/// Lengths of blocks that differ, some of them empty.
fn uneven(rank: u32) -> usize {
    (rank as usize * 5 + 2) % 4
}

/// Blocks in reverse order with a gap between them.
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

fn check_gathered(output: &[Byte], blocks: &impl Blocks, size: u32) {
    for rank in 0..size {
        let span = blocks.span(rank);
        assert_eq!(output[span.at..span.at + span.len], own_block(rank, span.len)[..]);
    }
}

#[test]
fn gathers_bring_each_block_to_its_place_at_the_root() {
    for size in SIZES {
        for root in roots(size) {
            for how in [Tree::Linear, Tree::Binomial] {
                for len in [0, 3] {
                    let blocks = Even { space: Space::Output, len };
                    let outcome = simulate(
                        size,
                        |rank| Memory {
                            input: own_block(rank, len),
                            output: nothing(if rank == root { len * size as usize } else { 0 }),
                            scratch: gather::scratch(how, size, len),
                        },
                        |plan, place| {
                            gather::even(plan, place, how, root, Span::input(len), blocks)
                        },
                    );
                    check_gathered(&outcome.outputs[root as usize], &blocks, size);
                }
            }
            let (counts, displacements, total) = scattered(size);
            let blocks = placed(Space::Output, &counts, &displacements);
            let outcome = simulate(
                size,
                |rank| Memory {
                    input: own_block(rank, uneven(rank)),
                    output: nothing(if rank == root { total } else { 0 }),
                    scratch: 0,
                },
                |plan, place| {
                    gather::linear(plan, place, root, Span::input(uneven(place.rank)), &blocks)
                },
            );
            check_gathered(&outcome.outputs[root as usize], &blocks, size);
        }
    }
}

fn placed<'a>(space: Space, counts: &'a [usize], displacements: &'a [usize]) -> Placed<'a> {
    Placed { space, width: 1, counts, displacements }
}

/// A buffer that holds `byte(rank, index)` where the blocks say.
fn filled(
    total: usize,
    size: u32,
    blocks: &impl Blocks,
    byte: impl Fn(u32, usize) -> Byte,
) -> Vec<Byte> {
    let mut buffer = nothing(total);
    for rank in 0..size {
        let span = blocks.span(rank);
        for index in 0..span.len {
            buffer[span.at + index] = byte(rank, index);
        }
    }
    buffer
}

#[test]
fn scatters_bring_each_rank_its_block() {
    for size in SIZES {
        for root in roots(size) {
            for how in [Tree::Linear, Tree::Binomial] {
                for len in [0, 3] {
                    let blocks = Even { space: Space::Input, len };
                    let total = len * size as usize;
                    let outcome = simulate(
                        size,
                        |rank| Memory {
                            input: if rank == root {
                                filled(total, size, &blocks, |to, i| block_byte(to, to, i))
                            } else {
                                Vec::new()
                            },
                            output: nothing(len),
                            scratch: scatter::scratch(how, size, len),
                        },
                        |plan, place| {
                            scatter::even(plan, place, how, root, blocks, Span::output(len))
                        },
                    );
                    for (rank, output) in (0..).zip(&outcome.outputs) {
                        assert_eq!(*output, own_block(rank, len));
                    }
                }
            }
            let (counts, displacements, total) = scattered(size);
            let blocks = placed(Space::Input, &counts, &displacements);
            let outcome = simulate(
                size,
                |rank| Memory {
                    input: if rank == root {
                        filled(total, size, &blocks, |to, i| block_byte(to, to, i))
                    } else {
                        Vec::new()
                    },
                    output: nothing(uneven(rank)),
                    scratch: 0,
                },
                |plan, place| {
                    scatter::linear(plan, place, root, &blocks, Span::output(uneven(place.rank)))
                },
            );
            for (rank, output) in (0..).zip(&outcome.outputs) {
                assert_eq!(*output, own_block(rank, uneven(rank)));
            }
        }
    }
}

#[test]
fn allgathers_bring_all_blocks_to_all() {
    for size in SIZES {
        let mut even = vec![Allgather::Bruck, Allgather::Ring, Allgather::Direct];
        even.push(Allgather::GatherBcast);
        if size.is_power_of_two() {
            even.push(Allgather::Doubling);
        }
        for how in even {
            for len in [0, 3] {
                let blocks = Even { space: Space::Output, len };
                let total = len * size as usize;
                let own = |in_place: bool, rank| {
                    if in_place { blocks.span(rank) } else { Span::input(len) }
                };
                for in_place in [false, true] {
                    let outcome = simulate(
                        size,
                        |rank| {
                            let mut output = nothing(total);
                            if in_place {
                                let at = blocks.span(rank).at;
                                output[at..at + len].clone_from_slice(&own_block(rank, len));
                            }
                            Memory {
                                input: own_block(rank, len),
                                output,
                                scratch: allgather::scratch(how, total),
                            }
                        },
                        |plan, place| {
                            let own = own(in_place, place.rank);
                            allgather::even(plan, place, how, own, blocks)
                        },
                    );
                    for output in &outcome.outputs {
                        check_gathered(output, &blocks, size);
                    }
                }
            }
        }
        for how in [Allgather::Bruck, Allgather::Ring, Allgather::Direct] {
            let (counts, displacements, total) = scattered(size);
            let blocks = placed(Space::Output, &counts, &displacements);
            let outcome = simulate(
                size,
                |rank| Memory {
                    input: own_block(rank, uneven(rank)),
                    output: nothing(total),
                    scratch: allgather::scratch(how, total),
                },
                |plan, place| {
                    allgather::any(plan, place, how, Span::input(uneven(place.rank)), &blocks)
                },
            );
            for output in &outcome.outputs {
                check_gathered(output, &blocks, size);
            }
        }
    }
}

#[test]
fn alltoalls_bring_each_block_to_its_rank() {
    for size in SIZES {
        for how in [Alltoall::Bruck, Alltoall::Staged(64), Alltoall::Staged(3), Alltoall::Staged(1)]
        {
            for len in [0, 2] {
                let (from, into) =
                    (Even { space: Space::Input, len }, Even { space: Space::Output, len });
                let total = len * size as usize;
                let outcome = simulate(
                    size,
                    |rank| Memory {
                        input: filled(total, size, &from, |to, i| block_byte(rank, to, i)),
                        output: nothing(total),
                        scratch: alltoall::scratch(how, size, len),
                    },
                    |plan, place| alltoall::even(plan, place, how, from, into),
                );
                for (rank, output) in (0..).zip(&outcome.outputs) {
                    let wanted = filled(total, size, &into, |from, i| block_byte(from, rank, i));
                    assert_eq!(*output, wanted);
                }
            }
        }
        for partners in [64, 3, 1] {
            check_uneven_alltoall(size, partners);
        }
    }
}

/// Blocks whose lengths depend on both ranks.
fn check_uneven_alltoall(size: u32, partners: u32) {
    let len = |from: u32, to: u32| ((from * 3 + to * 7) % 5) as usize;
    let offsets = |lengths: Vec<usize>| {
        let mut sum = 0;
        let mut offsets = vec![0];
        offsets.extend(lengths.into_iter().map(|len| {
            sum += len;
            sum
        }));
        offsets
    };
    let sent: Vec<_> =
        (0..size).map(|me| offsets((0..size).map(|to| len(me, to)).collect())).collect();
    let got: Vec<_> =
        (0..size).map(|me| offsets((0..size).map(|from| len(from, me)).collect())).collect();
    let from = |me: u32| Packed { space: Space::Input, offsets: &sent[me as usize] };
    let into = |me: u32| Packed { space: Space::Output, offsets: &got[me as usize] };
    let total = |offsets: &[usize]| offsets[size as usize];
    let outcome = simulate(
        size,
        |me| Memory {
            input: filled(total(&sent[me as usize]), size, &from(me), |to, i| {
                block_byte(me, to, i)
            }),
            output: nothing(total(&got[me as usize])),
            scratch: 0,
        },
        |plan, place| alltoall::staged(plan, place, partners, &from(place.rank), &into(place.rank)),
    );
    for (me, output) in (0..).zip(&outcome.outputs) {
        let total = total(&got[me as usize]);
        assert_eq!(*output, filled(total, size, &into(me), |from, i| block_byte(from, me, i)));
    }
}

#[test]
fn reduce_scatters_give_each_rank_its_block_of_the_whole() {
    for size in SIZES {
        let lengths = [vec![2; size as usize], (0..size).map(uneven).collect()];
        for lengths in lengths {
            let mut offsets = vec![0];
            offsets.extend(lengths.iter().scan(0, |sum, len| {
                *sum += len;
                Some(*sum)
            }));
            let total = offsets[size as usize];
            let blocks = Packed { space: Space::Input, offsets: &offsets };
            let mut ways = vec![ReduceScatter::ViaRoot, ReduceScatter::Pairwise];
            ways.push(ReduceScatter::Direct);
            if size.is_power_of_two() {
                ways.push(ReduceScatter::Halving);
            }
            for how in ways {
                let outcome = simulate(
                    size,
                    |rank| Memory {
                        input: vector(rank, total),
                        output: nothing(blocks.len(rank)),
                        scratch: reduce_scatter::scratch(how, size, total, blocks.len(rank)),
                    },
                    |plan, place| {
                        let output = Span::output(blocks.len(place.rank));
                        reduce_scatter::run(plan, place, how, &blocks, output)
                    },
                );
                let ordered = matches!(how, ReduceScatter::ViaRoot | ReduceScatter::Direct);
                for (rank, output) in outcome.outputs.iter().enumerate() {
                    check(output, offsets[rank], 0..size, ordered);
                }
            }
        }
    }
}

#[test]
fn scans_combine_the_ranks_up_to_each_in_order() {
    type Algorithm = fn(&mut Recorder, Place, Scan, bool) -> Result<(), Infallible>;
    let run: Algorithm = |plan, place, how, exclusive| {
        scan::run(plan, place, how, exclusive, Span::input(3), Span::output(3))
    };
    for size in SIZES {
        for how in [Scan::Doubling, Scan::Chain] {
            for exclusive in [false, true] {
                let outcome = simulate(
                    size,
                    |rank| Memory {
                        input: vector(rank, 3),
                        output: nothing(3),
                        scratch: scan::scratch(how, 3),
                    },
                    |plan, place| run(plan, place, how, exclusive),
                );
                for (rank, output) in (0u32..).zip(&outcome.outputs) {
                    match (exclusive, rank) {
                        (true, 0) => assert_eq!(*output, nothing(3), "rank 0 is left alone"),
                        (true, _) => check(output, 0, 0..rank, true),
                        (false, _) => check(output, 0, 0..rank + 1, true),
                    }
                }
            }
        }
    }
}
