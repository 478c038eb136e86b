//! Prices against the simulator, which runs the steps that the prices are of. What they choose is in [`cheapest`].

use std::convert::Infallible;

use super::*;
use crate::coll::blocks::{Blocks, Even, Packed};
use crate::coll::plan::{Place, Space, Span, Vectors};
use crate::coll::record::PlanRecorder;
use crate::coll::verify::record;
use crate::coll::{self, multiply};
use crate::cost::Pipelining;
use crate::fennel::machine::Machine;
use crate::fennel::network::{Compute, Pipelined};

mod cheapest;

/// What the simulator knows: receivers are never busy there.
const COSTS: Costs = Costs {
    pipelining: 500.0,
    required: 100.0,
    receive: 0.0,
    byte: 0.4,
    copy: 0.1,
    reduce: 0.2,
    pairs: 0.2,
    scalar: 0.2,
    function: 0.2,
    switch: 0.0,
    interference: 0.0,
    mark: 0.0,
    slot: 0.0,
    spill: 0.0,
    skew: 0.0,
    rendezvous: 0.0,
    receive_byte: 0.0,
    by_size: OfSizes::NONE,
};

#[derive(Clone, Copy, Debug)]
struct Bytes;

impl Compute for Bytes {
    fn take(&mut self, _: u32, bytes: usize) -> f64 {
        COSTS.reduce * bytes as f64
    }

    fn copy(&mut self, _: u32, bytes: usize) -> f64 {
        COSTS.copy * bytes as f64
    }
}

fn alone(ranks: u32) -> Crew {
    Crew { ranks, share: 1.0 }
}

/// What the simulator finds for an algorithm.
fn simulated(
    ranks: u32,
    algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place) -> Result<(), Infallible>,
) -> (f64, u64) {
    let steps = record(ranks, algorithm).unwrap();
    let cost = Pipelining { pipelining: COSTS.pipelining, required: COSTS.required };
    let network = Pipelined { cost, byte: COSTS.byte };
    let outcome = Machine { network, compute: Bytes }.run_steps(&steps[..], &mut []).unwrap();
    (outcome.end(), outcome.messages)
}

/// Prices that are not what the simulator finds.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    /// Compares a price with the simulator: the messages of all ranks, and the time within a part of it.
    fn check(
        &mut self,
        what: &dyn std::fmt::Debug,
        (ranks, bytes): (u32, usize),
        load: Load,
        within: f64,
        algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place) -> Result<(), Infallible>,
    ) {
        let (time, messages) = simulated(ranks, algorithm);
        let price = load.time(alone(ranks), &COSTS);
        let as_many = (load.messages - messages as f64).abs() < 0.5;
        if (price - time).abs() > within * time + 1.0 || !as_many {
            self.0.push(format!(
                "{what:?} of {bytes} bytes on {ranks} ranks: priced {price:.0} with {:.0} messages, \
                 simulated {time:.0} with {messages}",
                load.messages
            ));
        }
    }

    /// The same of the time alone: where there are fewer elements than ranks, some messages are not sent.
    fn check_time(
        &mut self,
        what: &str,
        ranks: u32,
        (load, within): (Load, f64),
        algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place) -> Result<(), Infallible>,
    ) {
        let (time, _) = simulated(ranks, algorithm);
        let price = load.time(alone(ranks), &COSTS);
        if (price - time).abs() > within * time + 1.0 {
            self.0.push(format!("{what} on {ranks} ranks: priced {price:.0}, simulated {time:.0}"));
        }
    }

    #[track_caller]
    fn is_empty(&self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

/// How far a price may be off. Of three ranks, one is two messages ahead of the others.
fn within(ranks: u32) -> f64 {
    if ranks == 3 { 0.4 } else { 0.15 }
}

/// The same where ranks are collapsed first: they may meet others that are ahead of them, which the price does not know.
const WITHIN_COLLAPSED: f64 = 0.2;

/// The same of vectors that are cut into pieces, some of which overlap others where chunks or trees are uneven.
fn within_pieces(ranks: u32) -> f64 {
    if ranks == 3 { 0.6 } else { 0.3 }
}

/// Stages of collectives by multiplying.
fn stages(ranks: u32) -> impl Iterator<Item = u32> {
    1..=ranks.next_power_of_two().ilog2()
}

/// Those of algorithms that split vectors, and how many of them do.
fn splits(ranks: u32) -> impl Iterator<Item = (u32, u32)> {
    stages(ranks).flat_map(|stages| (1..=stages).map(move |split| (stages, split)))
}

const RANKS: [u32; 9] = [2, 3, 4, 7, 8, 12, 16, 31, 64];

fn cases() -> impl Iterator<Item = (u32, usize)> {
    RANKS.into_iter().flat_map(|ranks| [8, 1024, 64 << 10].map(|bytes| (ranks, bytes)))
}

fn vectors(bytes: usize) -> Vectors {
    Vectors { input: Span::input(bytes), output: Span::output(bytes), width: 1, scratch: 0 }
}

#[test]
fn barriers_and_broadcasts_cost_what_they_take() {
    let mut wrong = Wrong::default();
    for (ranks, bytes) in cases() {
        for how in [Barrier::Dissemination, Barrier::Flat]
            .into_iter()
            .chain(stages(ranks).map(Barrier::Multiplying))
        {
            wrong.check(&how, (ranks, 0), barrier(ranks, how), 0.01, |plan, place| {
                coll::barrier::run(plan, place, how)
            });
        }
        let all = [Bcast::Flat, Bcast::Binomial, Bcast::Chain, Bcast::ScatterAllgather];
        let splits = splits(ranks).map(|(stages, split)| Bcast::Split(stages, split));
        let trees = alone(ranks).pieces().map(Bcast::TwoTrees);
        let all = all.into_iter().chain(splits).chain(trees);
        for how in all.chain(stages(ranks).map(Bcast::Multiplying)) {
            let parts = matches!(how, Bcast::ScatterAllgather | Bcast::Split(..));
            if parts && bytes < 2 * ranks as usize {
                continue;
            }
            wrong.check(
                &how,
                (ranks, bytes),
                bcast(ranks, how, bytes),
                if matches!(how, Bcast::Split(..) | Bcast::TwoTrees(_)) {
                    within_pieces(ranks)
                } else {
                    within(ranks)
                },
                |plan, place| coll::bcast::run(plan, place, how, 0, Span::output(bytes)),
            );
        }
    }
    wrong.is_empty();
}

#[test]
fn reductions_cost_what_they_take() {
    let mut wrong = Wrong::default();
    for (ranks, bytes) in cases() {
        // Where there are fewer bytes than ranks, prices of what is cut count messages that are not sent.
        let enough = bytes >= ranks as usize;
        let all = [Reduce::Flat, Reduce::Binomial, Reduce::Ordered, Reduce::Chain];
        let splits = splits(ranks).map(|(stages, split)| Reduce::Split(stages, split));
        let cut =
            splits.chain(alone(ranks).pieces().map(Reduce::TwoTrees)).chain([Reduce::Halving]);
        let all = all.into_iter().chain(stages(ranks).map(Reduce::Multiplying));
        for how in all.chain(cut.filter(|_| enough)) {
            wrong.check(
                &how,
                (ranks, bytes),
                reduce(ranks, how, (bytes, 1)),
                if matches!(how, Reduce::Split(..) | Reduce::TwoTrees(_)) {
                    within_pieces(ranks)
                } else {
                    within(ranks)
                },
                |plan, place| coll::reduce::run(plan, place, how, 0, vectors(bytes)),
            );
        }
        let all = [Allreduce::Doubling, Allreduce::Flat, Allreduce::ReduceBcast];
        for how in all.into_iter().chain(enough.then_some(Allreduce::Halving)) {
            let collapsed = how == Allreduce::Doubling && !ranks.is_power_of_two();
            wrong.check(
                &how,
                (ranks, bytes),
                allreduce(ranks, how, (bytes, 1)),
                within(ranks).max(if collapsed { WITHIN_COLLAPSED } else { 0.0 }),
                |plan, place| coll::allreduce::run(plan, place, how, vectors(bytes)),
            );
        }
    }
    wrong.is_empty();
}

/// Pieces of a vector are whole elements.
#[test]
fn few_wide_elements_cost_what_they_take() {
    let mut wrong = Wrong::default();
    for (ranks, count) in RANKS.into_iter().flat_map(|ranks| [1, 3, 40].map(|n| (ranks, n))) {
        for width in [32, 1000, 20_000] {
            let bytes = count * width;
            let of = |what: &str| format!("{what} of {count} elements of {width} bytes");
            let vectors = Vectors { width, ..vectors(bytes) };
            let cut = (bytes, width);
            let load = |load| (load, within_pieces(ranks));
            let how = Allreduce::Halving;
            wrong.check_time(
                &of("allreduce"),
                ranks,
                load(allreduce(ranks, how, cut)),
                |plan, place| coll::allreduce::run(plan, place, how, vectors),
            );
            // Where there are fewer elements than ranks, prices count messages that are not sent. Of two ranks in a chain,
            // one sends while the other one reduces.
            let enough = count >= ranks as usize;
            let splits = splits(ranks).filter(|_| enough);
            let splits = splits.map(|(stages, split)| Reduce::Split(stages, split));
            let chain = (ranks > 2).then_some(Reduce::Chain);
            for how in splits.chain([Reduce::Halving]).chain(chain) {
                let what = of(&how.name());
                wrong.check_time(&what, ranks, load(reduce(ranks, how, cut)), |plan, place| {
                    coll::reduce::run(plan, place, how, 0, vectors)
                });
            }
        }
    }
    wrong.is_empty();
}

const SCHEDULES: [(u32, &str); 9] = [
    (7, "m1g2a3,n1g3a2"),
    (7, "m3g2a2,n3g2a2"),
    (7, "o3g2a2,n3g2a2"),
    (7, "c6m2,a2,a2,e6m2"),
    (12, "s3,a2,g3r,a2"),
    (12, "a2,c4m2,a4,e4m2"),
    (12, "a2,m2g2a2,n2g2a2"),
    (16, "s4,a4,g4"),
    (16, "c16m2,c8m2,s4,g4,e8m2,e16m2"),
];

#[test]
fn schedules_cost_what_they_take() {
    let mut wrong = Wrong::default();
    for (ranks, bytes) in cases() {
        let mut all = candidates(ranks, 5.0, true);
        all.extend(candidates(ranks, 5.0, false));
        for (of, text) in SCHEDULES {
            all.extend((ranks == of).then(|| Schedule::parse(of, text).unwrap()));
        }
        for schedule in all {
            if schedule.splits() && bytes < ranks as usize {
                continue;
            }
            let stages: Vec<_> = (0..ranks).map(|rank| schedule.stages(rank)).collect();
            let load = multiplying(&schedule, (bytes, 1));
            let collapsed = schedule.to_string().starts_with('c');
            let within = within(ranks).max(if collapsed { WITHIN_COLLAPSED } else { 0.0 });
            wrong.check(&schedule, (ranks, bytes), load, within, |plan, place| {
                multiply::run(plan, &stages[place.rank as usize], vectors(bytes))
            });
        }
    }
    wrong.is_empty();
}

#[test]
fn gathers_and_exchanges_cost_what_they_take() {
    let mut wrong = Wrong::default();
    for (ranks, bytes) in cases() {
        let (input, output) =
            (Even { space: Space::Input, len: bytes }, Even { space: Space::Output, len: bytes });
        let doubling = ranks.is_power_of_two().then_some(Allgather::Doubling);
        let all = [Allgather::Bruck, Allgather::Ring, Allgather::Direct, Allgather::GatherBcast];
        for how in all.into_iter().chain(doubling).chain(stages(ranks).map(Allgather::Multiplying))
        {
            wrong.check(
                &how,
                (ranks, bytes),
                allgather(ranks, how, bytes),
                within(ranks),
                |plan, place| coll::allgather::even(plan, place, how, Span::input(bytes), output),
            );
        }
        for how in [Alltoall::Bruck, Alltoall::Staged(1), Alltoall::Staged(64)] {
            wrong.check(
                &how,
                (ranks, bytes),
                alltoall(ranks, how, bytes),
                within(ranks),
                |plan, place| coll::alltoall::even(plan, place, how, input, output),
            );
        }
        let offsets: Vec<_> = (0..=ranks as usize).map(|rank| rank * bytes).collect();
        let blocks = Packed { space: Space::Input, offsets: &offsets };
        let all = [
            ReduceScatter::ViaRoot,
            ReduceScatter::Pairwise,
            ReduceScatter::Direct,
            ReduceScatter::Halving,
        ];
        let all = all.into_iter().chain(stages(ranks).map(ReduceScatter::Multiplying));
        let all = all.chain(stages(ranks).map(ReduceScatter::Ordered));
        for how in all.filter(|&how| coll::reduce_scatter::allows(how, ranks, true)) {
            let total = bytes * ranks as usize;
            let load = reduce_scatter(ranks, how, total);
            wrong.check(&how, (ranks, bytes), load, within(ranks), |plan, place| {
                coll::reduce_scatter::run(plan, place, how, &blocks, Span::output(bytes))
            });
        }
    }
    wrong.is_empty();
}

#[test]
fn trees_of_blocks_cost_what_they_take() {
    let mut wrong = Wrong::default();
    for (ranks, bytes) in cases() {
        let even = |space| Even { space, len: bytes };
        // Rank 0 as a root has less to do: its blocks are in order.
        let root = ranks - 1;
        for how in [Tree::Linear, Tree::Binomial] {
            let load = scatter(ranks, how, bytes);
            wrong.check(&("scatter", how), (ranks, bytes), load, within(ranks), |plan, place| {
                let (input, own) = (even(Space::Input), Span::output(bytes));
                coll::scatter::even(plan, place, how, root, input, own)
            });
            let load = gather(ranks, how, bytes);
            wrong.check(&("gather", how), (ranks, bytes), load, within(ranks), |plan, place| {
                let (own, output) = (Span::input(bytes), even(Space::Output));
                coll::gather::even(plan, place, how, root, own, output)
            });
        }
    }
    wrong.is_empty();
}

#[test]
fn prefix_reductions_cost_what_they_take() {
    let mut wrong = Wrong::default();
    for (ranks, bytes) in cases() {
        for how in [Scan::Doubling, Scan::Chain] {
            for exclusive in [false, true] {
                let load = scan(ranks, how, exclusive, bytes);
                let what = (how, exclusive);
                wrong.check(&what, (ranks, bytes), load, within(ranks), |plan, place| {
                    let (input, output) = (Span::input(bytes), Span::output(bytes));
                    coll::scan::run(plan, place, how, exclusive, input, output)
                });
            }
        }
    }
    wrong.is_empty();
}

#[test]
fn blocks_of_different_lengths_cost_what_they_take() {
    let mut wrong = Wrong::default();
    for (ranks, bytes) in cases() {
        // One block is so many times as long as each other one.
        for times in [1, 4, 64] {
            let longest = bytes * times;
            let offset = |rank: usize| if rank == 0 { 0 } else { longest + (rank - 1) * bytes };
            let offsets: Vec<_> = (0..=ranks as usize).map(offset).collect();
            let blocks = Packed { space: Space::Output, offsets: &offsets };
            let total = offset(ranks as usize);
            for how in [Allgather::Bruck, Allgather::Ring, Allgather::Direct] {
                let load = allgatherv(ranks, how, (total as f64, longest as f64));
                let (what, own) = ((how, times), |rank| blocks.len(rank));
                wrong.check(&what, (ranks, bytes), load, within(ranks), |plan, place| {
                    let own = Span::input(own(place.rank));
                    coll::allgather::any(plan, place, how, own, &blocks)
                });
            }
        }
    }
    wrong.is_empty();
}

#[test]
fn blocks_that_are_passed_on_come_from_memory_again() {
    let spilled = |how, block| counts::allgather(16, how, block).spilled;
    for how in [Allgather::Ring, Allgather::Doubling, Allgather::Multiplying(2)] {
        assert_eq!(spilled(how, 16 << 10), 0.0, "{how:?}: all fits into caches");
        assert!(spilled(how, 1 << 20) > 0.0, "{how:?}");
    }
    for how in [Allgather::Direct, Allgather::Multiplying(1)] {
        assert_eq!(spilled(how, 1 << 20), 0.0, "{how:?}: each block comes from its own rank");
    }
}
