//! What algorithms take in the simulator, the fixed ones and those that this project would choose.
//!
//! Algorithms of as many rounds as there are ranks are computed instead where that would be too many messages: by closed
//! forms, which tests hold to the simulator at small numbers of ranks.

use super::composed::{self, Composed, OnNodes};
use super::forms::{
    FixedAllgather, FixedAllreduce, FixedAlltoall, FixedBarrier, FixedBcast, FixedReduce,
    FixedReduceScatter,
};
use super::mpich::{self, Composition};
use super::{FixedCall, allgather, allreduce, barrier, bcast, reduce, reduce_scatter};
use crate::coll::blocks::Even;
use crate::coll::forms;
use crate::coll::plan::{Place, Space, Span, Vectors};
use crate::coll::price::{self, AllreduceForm, Costs, Crew, Load};
use crate::coll::{self, multiply};
use crate::fennel::direct::RunOutcome;
use crate::fennel::machine::{Machine, RunError};
use crate::fennel::network::Linear;
use crate::fennel::nodes::TwoLevelNetwork;
use crate::fennel::priced::PricedNetwork;
use crate::fennel::source::{Stated, Stopped, Walk, write_down};

mod layered;

/// Messages beyond which algorithms of a round for each rank are computed.
const MESSAGES_MAX: u64 = 1 << 22;

/// What an algorithm takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// Nanoseconds.
    pub nanoseconds: f64,
    /// Whether they come from the simulator, and not from a closed form.
    pub simulated: bool,
}

/// A simulated network.
#[derive(Clone, Copy, Debug)]
pub struct Simulator {
    costs: Costs,
    network: TwoLevelNetwork,
}

type Ran = Result<Time, RunError>;

impl Simulator {
    /// Of ranks with a node each, between which messages cost so much.
    pub const fn new(costs: Costs) -> Self {
        let network = PricedNetwork(costs);
        Self { costs, network: TwoLevelNetwork { each: 1, inside: network, across: network } }
    }

    /// The same with so many ranks on each node, and other costs inside.
    pub const fn with_nodes(self, each: u32, inside: Costs) -> Self {
        let inside = PricedNetwork(inside);
        Self { network: TwoLevelNetwork { each, inside, ..self.network }, ..self }
    }

    /// Ranks on each node.
    pub const fn each(&self) -> u32 {
        self.network.each
    }

    /// What is charged across nodes.
    pub const fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Runs what an algorithm states.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run(
        &self,
        ranks: u32,
        algorithm: impl Fn(&mut Walk<'_>, Place) -> Result<(), Stopped>,
    ) -> Result<RunOutcome, RunError> {
        self.machine().run_steps(&Stated::new(ranks, algorithm), &mut [])
    }

    /// The same of steps that are written down: ranks wait too often to state them again and again.
    fn time_of_pieces(
        &self,
        ranks: u32,
        algorithm: impl Fn(&mut Walk<'_>, Place) -> Result<(), Stopped>,
    ) -> Ran {
        let steps = write_down(&Stated::new(ranks, algorithm));
        let steps = steps.expect("no span of a simulated vector reaches beyond a terabyte");
        let nanoseconds = self.machine().run_steps(&steps[..], &mut [])?.end();
        Ok(Time { nanoseconds, simulated: true })
    }

    fn machine(&self) -> Machine<TwoLevelNetwork, Linear> {
        let compute = Linear { each: 0.0, byte: self.costs.reduce, copied: self.costs.copy };
        Machine { network: self.network, compute }
    }

    fn time(
        &self,
        ranks: u32,
        algorithm: impl Fn(&mut Walk<'_>, Place) -> Result<(), Stopped>,
    ) -> Ran {
        let outcome = self.run(ranks, algorithm)?;
        Ok(Time { nanoseconds: outcome.end(), simulated: true })
    }

    fn computed(&self, ranks: u32, load: Load) -> Ran {
        let nanoseconds = load.time(Crew { ranks, share: 1.0 }, &self.costs);
        Ok(Time { nanoseconds, simulated: false })
    }

    /// An algorithm whose ranks send pieces of a vector: simulated, unless that is too many messages.
    fn in_pieces(
        &self,
        ranks: u32,
        load: Load,
        algorithm: impl Fn(&mut Walk<'_>, Place) -> Result<(), Stopped>,
    ) -> Ran {
        match load.messages > MESSAGES_MAX as f64 {
            true => self.computed(ranks, load),
            false => self.time_of_pieces(ranks, algorithm),
        }
    }

    /// A barrier.
    ///
    /// # Errors
    /// [`RunError`], as of all that follow.
    pub fn barrier(&self, ranks: u32, how: FixedBarrier) -> Ran {
        self.time(ranks, |plan, place| barrier::run(plan, place, how))
    }

    /// A broadcast.
    pub fn bcast(&self, call: FixedCall, how: FixedBcast) -> Ran {
        if how == FixedBcast::ScatterRing && each_to_each(call.ranks) {
            let how = forms::Bcast::ScatterAllgather;
            return self.computed(call.ranks, price::bcast(call.ranks, how, call.bytes));
        }
        let data = Span::output(call.bytes);
        self.time(call.ranks, |plan, place| bcast::run(plan, place, how, 0, data))
    }

    /// A reduction.
    pub fn reduce(&self, call: FixedCall, how: FixedReduce) -> Ran {
        self.time(call.ranks, |plan, place| reduce::run(plan, place, how, 0, vectors(call)))
    }

    /// An allreduce.
    pub fn allreduce(&self, call: FixedCall, how: FixedAllreduce) -> Ran {
        if how == FixedAllreduce::Ring && each_to_each(call.ranks) {
            return self.computed(call.ranks, ring(call));
        }
        self.time(call.ranks, |plan, place| allreduce::run(plan, place, how, vectors(call)))
    }

    /// An allgather.
    pub fn allgather(&self, call: FixedCall, how: FixedAllgather) -> Ran {
        let ours = match how {
            FixedAllgather::Doubling => forms::Allgather::Doubling,
            FixedAllgather::Bruck => forms::Allgather::Bruck,
            FixedAllgather::Ring => forms::Allgather::Ring,
            FixedAllgather::Neighbours if each_to_each(call.ranks) => {
                return self.computed(call.ranks, neighbours(call));
            }
            FixedAllgather::Neighbours => {
                let output = Even { space: Space::Output, len: call.bytes };
                let own = Span::input(call.bytes);
                return self
                    .time(call.ranks, |plan, place| allgather::run(plan, place, how, own, output));
            }
        };
        self.our_allgather(call, ours)
    }

    /// An all-to-all.
    pub fn alltoall(&self, call: FixedCall, how: FixedAlltoall) -> Ran {
        let ours = match how {
            FixedAlltoall::Bruck => forms::Alltoall::Bruck,
            FixedAlltoall::Staged(partners) => forms::Alltoall::Staged(partners),
        };
        self.our_alltoall(call, ours)
    }

    /// A reduction of which each rank gets as much. What does not divide is left away.
    pub fn reduce_scatter(&self, call: FixedCall, how: FixedReduceScatter) -> Ran {
        let long = each_to_each(call.ranks);
        match how {
            FixedReduceScatter::Pairwise if long => {
                let how = forms::ReduceScatter::Pairwise;
                self.computed(call.ranks, price::reduce_scatter(call.ranks, how, call.bytes))
            }
            FixedReduceScatter::Ring if long => self.computed(call.ranks, scattering_ring(call)),
            _ => {
                let (blocks, own) = scattered(call);
                self.time(call.ranks, |plan, place| {
                    reduce_scatter::run(plan, place, how, &blocks, own)
                })
            }
        }
    }

    /// What MPICH composes on these nodes, or chooses for all ranks.
    pub fn mpich(&self, what: Composed, call: FixedCall) -> Ran {
        let on = self.on_nodes();
        let nodes = on.nodes(call.ranks);
        if what == Composed::Bcast && mpich::composed_bcast(call, nodes) == Composition::Flat {
            return self.bcast(call, mpich::bcast(call));
        }
        self.time(call.ranks, |plan, place| composed::mpich(plan, place, on, (what, call)))
    }

    /// What HAN composes on these nodes, of which there are several with several ranks.
    pub fn han(&self, what: Composed, call: FixedCall) -> Ran {
        let on = self.on_nodes();
        self.time(call.ranks, |plan, place| composed::han(plan, place, on, (what, call)))
    }

    const fn on_nodes(&self) -> OnNodes {
        OnNodes { each: self.network.each }
    }

    /// A barrier of this project's.
    pub fn our_barrier(&self, ranks: u32, how: forms::Barrier) -> Ran {
        self.time(ranks, |plan, place| coll::barrier::run(plan, place, how))
    }

    /// A broadcast of this project's.
    pub fn our_bcast(&self, call: FixedCall, how: forms::Bcast) -> Ran {
        if how == forms::Bcast::ScatterAllgather && each_to_each(call.ranks) {
            return self.computed(call.ranks, price::bcast(call.ranks, how, call.bytes));
        }
        let data = Span::output(call.bytes);
        if let forms::Bcast::TwoTrees(_) = how {
            let load = price::bcast(call.ranks, how, call.bytes);
            return self.in_pieces(call.ranks, load, |plan, place| {
                coll::bcast::run(plan, place, how, 0, data)
            });
        }
        self.time(call.ranks, |plan, place| coll::bcast::run(plan, place, how, 0, data))
    }

    /// A reduction of this project's.
    pub fn our_reduce(&self, call: FixedCall, how: forms::Reduce) -> Ran {
        if let forms::Reduce::TwoTrees(_) = how {
            let load = price::reduce(call.ranks, how, (call.bytes, call.width));
            return self.in_pieces(call.ranks, load, |plan, place| {
                coll::reduce::run(plan, place, how, 0, vectors(call))
            });
        }
        self.time(call.ranks, |plan, place| coll::reduce::run(plan, place, how, 0, vectors(call)))
    }

    /// An allreduce of this project's.
    pub fn our_allreduce(&self, call: FixedCall, how: &AllreduceForm) -> Ran {
        self.time(call.ranks, |plan, place| match how {
            AllreduceForm::Form(how) => coll::allreduce::run(plan, place, *how, vectors(call)),
            AllreduceForm::Multiplying(schedule) => {
                multiply::run(plan, &schedule.stages(place.rank), vectors(call))
            }
        })
    }

    /// A gather of this project's.
    pub fn our_gather(&self, call: FixedCall, how: forms::Tree) -> Ran {
        let (own, output) = (Span::input(call.bytes), even(Space::Output, call.bytes));
        self.time(call.ranks, |plan, place| coll::gather::even(plan, place, how, 0, own, output))
    }

    /// A scatter of this project's.
    pub fn our_scatter(&self, call: FixedCall, how: forms::Tree) -> Ran {
        let (input, own) = (even(Space::Input, call.bytes), Span::output(call.bytes));
        self.time(call.ranks, |plan, place| coll::scatter::even(plan, place, how, 0, input, own))
    }

    /// A prefix reduction of this project's, with the own vector.
    pub fn our_scan(&self, call: FixedCall, how: forms::Scan) -> Ran {
        let (input, output) = (Span::input(call.bytes), Span::output(call.bytes));
        self.time(call.ranks, |plan, place| coll::scan::run(plan, place, how, false, input, output))
    }

    /// An allgather of this project's.
    pub fn our_allgather(&self, call: FixedCall, how: forms::Allgather) -> Ran {
        if how != forms::Allgather::Doubling && each_to_each(call.ranks) {
            return self.computed(call.ranks, price::allgather(call.ranks, how, call.bytes));
        }
        let output = Even { space: Space::Output, len: call.bytes };
        let own = Span::input(call.bytes);
        self.time(call.ranks, |plan, place| coll::allgather::even(plan, place, how, own, output))
    }

    /// An all-to-all of this project's.
    pub fn our_alltoall(&self, call: FixedCall, how: forms::Alltoall) -> Ran {
        if each_to_each(call.ranks) {
            return self.computed(call.ranks, price::alltoall(call.ranks, how, call.bytes));
        }
        let [input, output] =
            [Space::Input, Space::Output].map(|space| Even { space, len: call.bytes });
        self.time(call.ranks, |plan, place| coll::alltoall::even(plan, place, how, input, output))
    }

    /// A reduction of this project's of which each rank gets as much.
    pub fn our_reduce_scatter(&self, call: FixedCall, how: forms::ReduceScatter) -> Ran {
        use forms::ReduceScatter::{Direct, Pairwise};
        if matches!(how, Direct | Pairwise) && each_to_each(call.ranks) {
            return self.computed(call.ranks, price::reduce_scatter(call.ranks, how, call.bytes));
        }
        let (blocks, own) = scattered(call);
        self.time(call.ranks, |plan, place| {
            coll::reduce_scatter::run(plan, place, how, &blocks, own)
        })
    }
}

const fn even(space: Space, len: usize) -> Even {
    Even { space, len }
}

/// Whether a message from each rank to each, or each round of a ring, is too much to be simulated.
fn each_to_each(ranks: u32) -> bool {
    u64::from(ranks) * u64::from(ranks) > MESSAGES_MAX
}

const fn vectors(call: FixedCall) -> Vectors {
    let (input, output) = (Span::input(call.bytes), Span::output(call.bytes));
    Vectors { input, output, width: call.width, scratch: 0 }
}

const fn scattered(call: FixedCall) -> (Even, Span) {
    let len = call.bytes / call.ranks as usize;
    (Even { space: Space::Input, len }, Span::output(len))
}

/// So many rounds, in each of which a rank sends and receives, with so many bytes in all.
fn rounds(count: f64, bytes: f64) -> Load {
    Load { hops: count, sends: count, receives: count, bytes, ..Load::default() }
}

fn ring(call: FixedCall) -> Load {
    let (others, len) = (f64::from(call.ranks - 1), call.bytes as f64);
    let around = len * others / f64::from(call.ranks);
    Load { reduced: around, copied: len, ..rounds(2.0 * others, 2.0 * around) }
}

fn scattering_ring(call: FixedCall) -> Load {
    let (others, len) = (f64::from(call.ranks - 1), call.bytes as f64);
    let (around, block) = (len * others / f64::from(call.ranks), len / f64::from(call.ranks));
    Load { reduced: around, copied: len + block, ..rounds(others, around) }
}

fn neighbours(call: FixedCall) -> Load {
    let len = call.bytes as f64;
    let bytes = f64::from(call.ranks - 1) * len;
    Load { copied: len, ..rounds(f64::from(call.ranks / 2), bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        pipelining: 500.0,
        required: 100.0,
        receive: 80.0,
        byte: 0.4,
        copy: 0.1,
        reduce: 0.15,
        pairs: 0.3,
        scalar: 0.6,
        function: 0.3,
        switch: 0.0,
        interference: 0.0,
        mark: 0.0,
        slot: 0.0,
        spill: 0.0,
        skew: 0.0,
        rendezvous: 0.0,
        receive_byte: 0.0,
        by_size: crate::coll::price::OfSizes::NONE,
    };

    /// A closed form is what the simulator says, within 2 %.
    fn agree(what: &str, call: FixedCall, load: Load, simulated: Ran) {
        near(what, call, (load, 0.02), simulated);
    }

    /// The same within a part of it.
    fn near(what: &str, call: FixedCall, (load, within): (Load, f64), simulated: Ran) {
        let simulator = Simulator::new(COSTS);
        let computed = simulator.computed(call.ranks, load).unwrap().nanoseconds;
        let Time { nanoseconds, simulated } = simulated.unwrap();
        assert!(simulated);
        assert!(
            (computed - nanoseconds).abs() <= within * nanoseconds,
            "{what} of {call:?}: {computed} and {nanoseconds}"
        );
    }

    #[test]
    fn closed_forms_are_what_the_simulator_says() {
        let simulator = Simulator::new(COSTS);
        for ranks in [2, 4, 8, 16, 64, 256] {
            for bytes in [8, 1024, 64 << 10] {
                let block = FixedCall::doubles(ranks, bytes);
                let call = block.of(bytes * ranks as usize);
                let run = simulator.allreduce(call, FixedAllreduce::Ring);
                agree("ring", call, ring(call), run);
                let run = simulator.reduce_scatter(call, FixedReduceScatter::Ring);
                agree("scattering ring", call, scattering_ring(call), run);
                let run = simulator.allgather(block, FixedAllgather::Neighbours);
                agree("neighbours", block, neighbours(block), run);
            }
        }
    }

    #[test]
    fn two_trees_take_what_they_are_computed_to() {
        let simulator = Simulator::new(COSTS);
        for ranks in [4, 33, 64, 1000] {
            let call = FixedCall::doubles(ranks, 1 << 20);
            for kilobytes in [4, 16, 64] {
                let how = forms::Bcast::TwoTrees(kilobytes);
                let load = price::bcast(ranks, how, call.bytes);
                near("bcast", call, (load, 0.15), simulator.our_bcast(call, how));
                let how = forms::Reduce::TwoTrees(kilobytes);
                let load = price::reduce(ranks, how, (call.bytes, call.width));
                near("reduce", call, (load, 0.15), simulator.our_reduce(call, how));
            }
        }
    }

    #[test]
    fn rings_of_many_ranks_are_computed() {
        let simulator = Simulator::new(COSTS);
        let call = FixedCall::doubles(1 << 20, 8 << 20);
        let ring = simulator.allreduce(call, FixedAllreduce::Ring).unwrap();
        assert!(!ring.simulated && ring.nanoseconds > 2.0 * 680.0 * f64::from((1 << 20) - 1));
        assert!(simulator.barrier(1 << 12, FixedBarrier::Tree).unwrap().simulated);
    }

    /// Ranks of a node are near: what is composed of trees is quicker.
    #[test]
    fn nodes_make_near_messages_cheaper() {
        let flat = Simulator::new(Costs { receive: 0.0, ..COSTS });
        let nodes = flat.with_nodes(16, Costs::SHARED_MEMORY);
        let call = FixedCall::doubles(256, 8);
        let time = |simulator: Simulator| {
            simulator.allreduce(call, FixedAllreduce::Doubling).unwrap().nanoseconds
        };
        // Four of eight rounds stay inside.
        assert!(time(nodes) < 0.8 * time(flat));
    }
}
