//! What an algorithm is expected to take: its load, counted, times what messages and memory cost.
//!
//! The counts are closed forms of the number of ranks and of bytes, so that a price is there at once for a million
//! ranks. They hold for ranks that begin together on a network without congestion, as the published model does
//! (thesis, section 4.2); the simulator that runs the very steps is their test. Where ranks share processors, time is
//! also bounded by all the work that the processors have to do, and each time that ranks must run one after the other
//! costs what giving a processor away does.
//!
//! All ranks of a job price with the same [`Costs`], so all find the same cheapest algorithm. Nothing that a rank alone
//! knows enters.

mod algorithms;
mod combining;
mod costs;
mod counts;
mod job;
mod levels;
mod limits;
mod load;
mod multiply;
mod operands;
mod prices;
mod staged;

pub use algorithms::Algorithm;
pub(crate) use algorithms::NODES;
pub use combining::{Combining, CombiningCut, SLOT_BYTES, cell_bytes, slot_share, stride};
pub use costs::{Costs, CostsError, OfSize, OfSizes};
pub use counts::{
    allgather, allgatherv, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter,
    scan, scatter,
};
pub use job::JobCosts;
pub use limits::SizeLimits;
pub use load::Load;
pub use multiply::multiplying;
pub use operands::{OpClass, ReductionOperands};
pub use prices::{Layers, Prices};
pub use staged::{LINE_BYTES, RANKS_MAX, Staged, bcast_piece};

use super::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Form, Reduce, ReduceScatter, Scan, Tree,
};
use super::reduce_scatter::allows;
use crate::choice::{FactorOrder, candidates, choose, choose_under_skew};
use crate::schedule::{Cut, JointStage, Schedule};

/// The ranks of a communicator and what they run on.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "two numbers")]
pub struct Crew {
    /// Ranks, at least 1.
    pub ranks: u32,
    /// How many of them share a processor; 1 where each has its own.
    pub share: f64,
}

/// An algorithm with its price.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "three parts")]
pub struct Priced<F> {
    /// The algorithm.
    pub form: F,
    /// What it is expected to take, in nanoseconds.
    pub time: f64,
    /// How often messages wait for each other, as [`Load::waits`] has it.
    pub waits: f64,
}

impl<F> Priced<F> {
    /// An algorithm that has this load.
    pub fn new(form: F, load: &Load, crew: Crew, costs: &Costs) -> Self {
        Self { form, time: load.time(crew, costs), waits: load.waits(costs) }
    }

    /// The same price of another form.
    pub fn map<G>(self, form: impl FnOnce(F) -> G) -> Priced<G> {
        Priced { form: form(self.form), time: self.time, waits: self.waits }
    }
}

/// An algorithm of allreduces: one of the forms, or a schedule of recursive multiplying.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two kinds")]
pub enum AllreduceForm {
    /// One of the forms.
    Form(Allreduce),
    /// Recursive multiplying.
    Multiplying(Schedule),
}

impl AllreduceForm {
    /// Its name as settings take it.
    pub fn name(&self) -> String {
        match self {
            Self::Form(form) => form.name(),
            // The empty one, of a single rank.
            Self::Multiplying(schedule) if schedule.tokens().is_empty() => "multiplying".to_owned(),
            Self::Multiplying(schedule) => schedule.to_string(),
        }
    }
}

/// Prices that differ by less than this part say nothing: costs are not known better.
const ALIKE: f64 = 0.02;

/// The cheapest first. Of those that cost nearly the same it is one whose messages wait less for each other, if they do by
/// more than that: what such a wait takes is known least. Of equals it is the one that was named first.
fn cheapest_first<F>(mut all: Vec<Priced<F>>) -> Vec<Priced<F>> {
    all.sort_by(|one, other| one.time.total_cmp(&other.time));
    let least = all.first().map_or(0.0, |first| first.time);
    let alike = all.iter().take_while(|one| one.time <= least * (1.0 + ALIKE));
    let waits = alike.map(|one| one.waits).fold(f64::INFINITY, f64::min) + least * ALIKE;
    if let Some(at) = all.iter().position(|one| one.waits <= waits) {
        all[..=at].rotate_right(1);
    }
    all
}

/// Prices algorithms; the cheapest comes first.
fn sorted<F>(
    crew: Crew,
    costs: &Costs,
    forms: impl IntoIterator<Item = (F, Load)>,
) -> Vec<Priced<F>> {
    let price = |(form, load): (F, Load)| Priced::new(form, &load, crew, costs);
    cheapest_first(forms.into_iter().map(price).collect())
}

/// From so many ranks on, allreduces have candidates of two kinds of stages.
const MANY: u32 = 64;

impl Crew {
    /// How many stages a collective by multiplying can have: more than one, for which there are other forms.
    fn stages(self) -> impl Iterator<Item = u32> {
        2..=self.ranks.next_power_of_two().ilog2()
    }

    /// The stages each way of what splits a vector, and how many of them split it.
    fn splits(self) -> impl Iterator<Item = (u32, u32)> {
        (1..=self.ranks.next_power_of_two().ilog2())
            .flat_map(|stages| (1..=stages).map(move |split| (stages, split)))
    }

    /// The kilobytes of the pieces that may go along two trees.
    fn pieces(self) -> impl Iterator<Item = u32> {
        [4, 16, 64].into_iter().filter(move |_| self.ranks > 2)
    }

    /// All algorithms of barriers.
    pub fn barriers(self, costs: &Costs) -> Vec<Priced<Barrier>> {
        let all = [Barrier::Dissemination, Barrier::Flat];
        let all = all.into_iter().chain(self.stages().map(Barrier::Multiplying));
        sorted(self, costs, all.map(|how| (how, barrier(self.ranks, how))))
    }

    /// All algorithms of broadcasts of `bytes`.
    pub fn bcasts(self, costs: &Costs, bytes: usize) -> Vec<Priced<Bcast>> {
        let all = [Bcast::Flat, Bcast::Binomial, Bcast::ScatterAllgather, Bcast::Chain];
        let all = all.into_iter().chain(self.stages().map(Bcast::Multiplying));
        let all = all.chain(self.splits().map(|(stages, split)| Bcast::Split(stages, split)));
        let all = all.chain(self.pieces().map(Bcast::TwoTrees));
        sorted(self, costs, all.map(|how| (how, bcast(self.ranks, how, bytes))))
    }

    /// All algorithms of reductions of vectors of `bytes`.
    pub fn reduces(
        self,
        costs: &Costs,
        bytes: usize,
        operands: impl Into<ReductionOperands>,
    ) -> Vec<Priced<Reduce>> {
        let operands = operands.into();
        let (commutative, vector) = (operands.commutative(), (bytes, operands.width()));
        let costs = &costs.combining(operands.class());
        let tree = if commutative { Reduce::Binomial } else { Reduce::Ordered };
        let mut all = vec![Reduce::Flat, tree, Reduce::Halving];
        if commutative {
            all.push(Reduce::Chain);
            all.extend(self.stages().map(Reduce::Multiplying));
            all.extend(self.splits().map(|(stages, split)| Reduce::Split(stages, split)));
            all.extend(self.pieces().map(Reduce::TwoTrees));
        }
        let all = all.into_iter();
        sorted(self, costs, all.map(|how| (how, reduce(self.ranks, how, vector))))
    }

    /// All algorithms of allreduces of vectors of `bytes`: the forms, and the [`candidates`] of recursive multiplying
    /// for these costs.
    pub fn allreduces(
        self,
        costs: &Costs,
        bytes: usize,
        operands: impl Into<ReductionOperands>,
    ) -> Vec<Priced<AllreduceForm>> {
        let operands = operands.into();
        let (commutative, vector) = (operands.commutative(), (bytes, operands.width()));
        let costs = &costs.combining(operands.class());
        let forms =
            [Allreduce::Doubling, Allreduce::Halving, Allreduce::Flat, Allreduce::ReduceBcast];
        let mut all: Vec<_> =
            forms.map(|how| (AllreduceForm::Form(how), allreduce(self.ranks, how, vector))).into();
        let mut schedules = candidates(self.ranks, costs.ratio(bytes), commutative);
        let nested = self.nested(costs, bytes).into_iter();
        schedules.extend(nested.filter(|schedule| commutative || schedule.keeps_order()));
        if costs.skew > 0.0 {
            let (ratio, skew) = (costs.ratio(bytes), costs.skew_ratio(bytes));
            let late = choose_under_skew(self.ranks, ratio, skew);
            let allowed = commutative || late.keeps_order();
            schedules.extend(Some(late).filter(|late| allowed && !schedules.contains(late)));
        }
        all.extend(schedules.into_iter().map(|schedule| {
            let load = multiplying(&schedule, vector);
            (AllreduceForm::Multiplying(schedule), load)
        }));
        sorted(self, costs, all)
    }

    /// Cuts of the vector around the schedule that the heuristic finds for the length of their parts: for vectors that
    /// are too short to be cut among all. Of few ranks, that saves too little for communicators to be made slower by it.
    fn nested(self, costs: &Costs, bytes: usize) -> Vec<Schedule> {
        let mut all = Vec::new();
        if self.ranks < MANY {
            return all;
        }
        for factor in [2, 4, 8] {
            let (mut inner, mut part, mut cuts) = (self.ranks, bytes, Vec::new());
            while inner.is_multiple_of(factor) && inner > factor && part > 0 {
                (inner, part) = (inner / factor, part / factor as usize);
                cuts.push(Cut { factor, ring: false });
                let within = choose(inner, costs.ratio(part), FactorOrder::ByCost);
                let tokens = cuts.iter().copied().map(JointStage::Split);
                let tokens = tokens.chain(within.tokens().iter().copied());
                let tokens = tokens.chain(cuts.iter().copied().map(JointStage::Gather));
                all.extend(Schedule::new(self.ranks, tokens.collect()));
            }
        }
        all
    }

    /// All algorithms of gathers of blocks of `block` bytes.
    pub fn gathers(self, costs: &Costs, block: usize) -> Vec<Priced<Tree>> {
        let all = [Tree::Linear, Tree::Binomial];
        sorted(self, costs, all.map(|how| (how, gather(self.ranks, how, block))))
    }

    /// All algorithms of scatters of blocks of `block` bytes.
    pub fn scatters(self, costs: &Costs, block: usize) -> Vec<Priced<Tree>> {
        let all = [Tree::Linear, Tree::Binomial];
        sorted(self, costs, all.map(|how| (how, scatter(self.ranks, how, block))))
    }

    /// All algorithms of allgathers of blocks of different lengths: `total` bytes together, and none of more than
    /// `longest`.
    pub fn allgathervs(
        self,
        costs: &Costs,
        (total, longest): (f64, f64),
    ) -> Vec<Priced<Allgather>> {
        let all = [Allgather::Bruck, Allgather::Ring, Allgather::Direct];
        let load = |how| allgatherv(self.ranks, how, (total, longest));
        sorted(self, costs, all.map(|how| (how, load(how))))
    }

    /// All algorithms of all-to-alls of blocks of different lengths. A rank knows those of its own blocks only, so they are
    /// priced for empty ones: each rank sends the same bytes in all of them.
    pub fn alltoallvs(self, costs: &Costs) -> Vec<Priced<Alltoall>> {
        let all = [Alltoall::Staged(1), Alltoall::Staged(64)];
        sorted(self, costs, all.map(|how| (how, alltoall(self.ranks, how, 0))))
    }

    /// All algorithms of prefix reductions of vectors of `bytes`, with the own vector or without it. Both keep order.
    pub fn scans(
        self,
        costs: &Costs,
        bytes: usize,
        exclusive: bool,
        class: OpClass,
    ) -> Vec<Priced<Scan>> {
        let all = [Scan::Doubling, Scan::Chain];
        let costs = &costs.combining(class);
        sorted(self, costs, all.map(|how| (how, scan(self.ranks, how, exclusive, bytes))))
    }

    /// All algorithms of allgathers of blocks of `block` bytes.
    pub fn allgathers(self, costs: &Costs, block: usize) -> Vec<Priced<Allgather>> {
        let doubling = self.ranks.is_power_of_two().then_some(Allgather::Doubling);
        let all = [Allgather::Bruck, Allgather::Ring, Allgather::Direct, Allgather::GatherBcast];
        let all = doubling.into_iter().chain(all);
        let all = all.chain(self.stages().map(Allgather::Multiplying));
        sorted(self, costs, all.map(|how| (how, allgather(self.ranks, how, block))))
    }

    /// All algorithms of all-to-alls of blocks of `block` bytes.
    pub fn alltoalls(self, costs: &Costs, block: usize) -> Vec<Priced<Alltoall>> {
        let all = [Alltoall::Staged(1), Alltoall::Staged(64), Alltoall::Bruck];
        sorted(self, costs, all.map(|how| (how, alltoall(self.ranks, how, block))))
    }

    /// All algorithms of reductions whose result, `total` bytes, is cut among all.
    pub fn reduce_scatters(
        self,
        costs: &Costs,
        total: usize,
        operands: impl Into<ReductionOperands>,
    ) -> Vec<Priced<ReduceScatter>> {
        let operands = operands.into();
        let commutative = operands.commutative();
        let costs = &costs.combining(operands.class());
        use ReduceScatter::{Direct, Halving, Multiplying, Ordered, Pairwise, ViaRoot};
        let all = [Direct, ViaRoot, Pairwise, Halving].into_iter();
        let all =
            all.chain(self.stages().flat_map(|stages| [Multiplying(stages), Ordered(stages)]));
        let all = all.filter(|&how| allows(how, self.ranks, commutative));
        let loads = all.map(|how| (how, reduce_scatter(self.ranks, how, total)));
        sorted(self, costs, loads)
    }
}

#[cfg(test)]
mod tests;
