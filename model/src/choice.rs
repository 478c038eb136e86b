//! Which schedule to take: what one costs, the published heuristic, and an exhaustive search. (Thesis, sections
//! 5.4 to 5.6.)

mod every;
mod skew;

use std::collections::HashMap;

pub use every::every;
pub(crate) use skew::last_of;
pub use skew::{choose_under_skew, time_under_skew};

use crate::cost::{Pipelining, factor_cap};
use crate::schedule::{JointStage, Schedule};

/// How many merged ranks the busiest sender of an inverse merge serves. (Thesis, equation 5.11.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two readings of the published equation")]
pub enum Reading {
    /// Merged ranks are dealt out to the groups, as the algorithm does it: what a schedule costs.
    Groups,
    /// Divided by the size of a group, as the published tables have it. To reproduce those.
    Published,
}

/// What a schedule takes for vectors so short that their length does not matter, all ranks beginning at once.
pub fn time(schedule: &Schedule, cost: Pipelining, reading: Reading) -> f64 {
    schedule.tokens().iter().map(|&token| stage_time(token, cost, reading)).sum()
}

fn stage_time(token: JointStage, cost: Pipelining, reading: Reading) -> f64 {
    match token {
        JointStage::Exchange { factor } => cost.multicast(factor - 1),
        JointStage::Collapse { .. } => cost.message(),
        JointStage::Expand { base, .. } => cost.multicast(base - 1),
        JointStage::Merge(merged) | JointStage::OrderedMerge(merged) => {
            cost.multicast(merged.factor)
        }
        JointStage::Split(cut) | JointStage::Gather(cut) => {
            f64::from(cut.rounds()) * cost.multicast((cut.factor - 1) / cut.rounds())
        }
        JointStage::InverseMerge(merged) => {
            let shared_by = match reading {
                Reading::Groups => merged.groups,
                Reading::Published => merged.factor,
            };
            cost.multicast(merged.factor - 1 + merged.remainder.div_ceil(shared_by))
        }
    }
}

/// The order in which factors are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two published orders")]
pub enum FactorOrder {
    /// By what a schedule of this factor alone takes.
    ByCost,
    /// The greatest first.
    Greatest,
}

/// The published heuristic: takes out one factor after the other; ranks that leave a rest are merged. `None`
/// where it ends with a schedule that cannot be: a single factor with merged ranks. (Thesis, algorithm 7.)
pub fn heuristic(ranks: u32, ratio: f64, order: FactorOrder) -> Option<(Vec<u32>, u32)> {
    let cap = factor_cap(ratio).min(ranks.max(2));
    let mut factors: Vec<u32> = (2..=cap).collect();
    match order {
        FactorOrder::ByCost => {
            let price = |factor: u32| (ratio + f64::from(factor) - 1.0) / f64::from(factor).ln();
            factors.sort_by(|&one, &other| price(one).total_cmp(&price(other)));
        }
        FactorOrder::Greatest => factors.reverse(),
    }
    greedy(ranks, &factors)
}

/// Takes out factors in this order, each as often as it divides; ranks that leave a rest are merged.
fn greedy(ranks: u32, factors: &[u32]) -> Option<(Vec<u32>, u32)> {
    for merged in 0..ranks {
        let count = ranks - merged;
        let (mut rest, mut taken) = (count, Vec::new());
        for &factor in factors.iter().filter(|&&factor| factor > 1) {
            while rest.is_multiple_of(factor) {
                taken.push(factor);
                rest /= factor;
            }
        }
        if rest == 1 {
            // The guard that the published form lacks.
            return (merged == 0 || taken.len() >= 2).then_some((taken, merged));
        }
    }
    None
}

/// The heuristic's schedule; recursive doubling where it has none.
pub fn choose(ranks: u32, ratio: f64, order: FactorOrder) -> Schedule {
    schedule_of(ranks, heuristic(ranks, ratio, order))
}

/// The schedule of the same heuristic where factors are tried in this order; recursive doubling where there is none.
pub fn choose_of(ranks: u32, factors: &[u32]) -> Schedule {
    schedule_of(ranks, greedy(ranks, factors))
}

/// What [`choose`] takes in the order of ranks, for operations that are not commutative.
pub fn choose_in_order(ranks: u32, ratio: f64) -> Schedule {
    let found = heuristic(ranks, ratio, FactorOrder::ByCost);
    let merged = found.as_ref().filter(|(_, merged)| *merged > 1);
    let in_order =
        merged.and_then(|(factors, merged)| Schedule::merged_in_order(factors, *merged).ok());
    in_order.unwrap_or_else(|| schedule_of(ranks, found))
}

/// The schedule of factors and merged ranks; recursive doubling where there are none.
fn schedule_of(ranks: u32, found: Option<(Vec<u32>, u32)>) -> Schedule {
    let made = found.and_then(|(factors, merged)| match merged {
        0 => Schedule::of_factors(&factors).ok(),
        _ => Schedule::merged(&factors, merged).ok(),
    });
    made.unwrap_or_else(|| Schedule::doubling(ranks))
}

/// Most ranks in a group whose parts go around a ring, or from each rank to each other: a rank keeps a stage for each
/// round of a ring.
const MOST_PARTS: u32 = 512;

/// The schedules among which a choice by length is made, each once: what the heuristic finds in both orders, one stage
/// for all, and the same factors as cuts; recursive doubling and halving; a ring. With those only that keep the order
/// of ranks unless operations are commutative.
pub fn candidates(ranks: u32, ratio: f64, commutative: bool) -> Vec<Schedule> {
    let mut all: Vec<Schedule> = Vec::new();
    let mut add = |schedule: Schedule| {
        if (commutative || schedule.keeps_order()) && !all.contains(&schedule) {
            all.push(schedule);
        }
    };
    if ranks < 2 {
        return Schedule::of_factors(&[]).into_iter().collect();
    }
    for order in [FactorOrder::ByCost, FactorOrder::Greatest] {
        add(choose(ranks, ratio, order));
        if let Some((factors, merged)) = heuristic(ranks, ratio, order) {
            if !commutative {
                Schedule::merged_in_order(&factors, merged).into_iter().for_each(&mut add);
            }
            Schedule::split_in_pairs(&factors, merged).into_iter().for_each(&mut add);
        }
    }
    Schedule::of_factors(&[ranks]).into_iter().for_each(&mut add);
    add(Schedule::doubling(ranks));
    add(Schedule::halving(ranks));
    if ranks <= MOST_PARTS {
        for ring in [false, true] {
            Schedule::split(&[ranks], ring).into_iter().for_each(&mut add);
        }
    }
    all
}

/// The least time of all schedules of the notation: factored, collapsed and merged. It keeps what it has found
/// for smaller numbers of ranks.
#[derive(Debug)]
pub struct Search {
    cost: Pipelining,
    reading: Reading,
    factored: HashMap<u32, f64>,
}

impl Search {
    /// A search under these costs.
    pub fn new(cost: Pipelining, reading: Reading) -> Self {
        Self { cost, reading, factored: HashMap::new() }
    }

    /// The least time of exchanges alone.
    pub fn factored(&mut self, ranks: u32) -> f64 {
        if ranks <= 1 {
            return 0.0;
        }
        if let Some(&known) = self.factored.get(&ranks) {
            return known;
        }
        let mut least = self.cost.multicast(ranks - 1);
        for factor in divisors(ranks) {
            least = least.min(self.cost.multicast(factor - 1) + self.factored(ranks / factor));
        }
        self.factored.insert(ranks, least);
        least
    }

    /// The least time of all.
    pub fn least(&mut self, ranks: u32) -> f64 {
        self.factored(ranks).min(self.collapsed(ranks)).min(self.merged(ranks))
    }

    fn collapsed(&mut self, ranks: u32) -> f64 {
        let mut least = f64::INFINITY;
        for base in 2..=ranks {
            let ends = self.cost.message() + self.cost.multicast(base - 1);
            // What more ranks in a block cost only grows.
            if ends >= least {
                break;
            }
            for blocks in 1..=ranks / base {
                least = least.min(ends + self.factored(ranks - blocks * (base - 1)));
            }
        }
        least
    }

    fn merged(&mut self, ranks: u32) -> f64 {
        let (cost, reading) = (self.cost, self.reading);
        let mut least = f64::INFINITY;
        for core in 4..ranks {
            let remainder = ranks - core;
            for first in divisors(core).chain([core]) {
                let rest = core / first;
                for last in divisors(rest).chain([rest]).filter(|&last| last >= 2) {
                    let shared_by = match reading {
                        Reading::Groups => core / last,
                        Reading::Published => last,
                    };
                    let ends = cost.multicast(first)
                        + cost.multicast(last - 1 + remainder.div_ceil(shared_by));
                    if ends < least {
                        least = least.min(ends + self.factored(rest / last));
                    }
                }
            }
        }
        least
    }
}

/// The divisors of a number but for 1 and itself.
fn divisors(number: u32) -> impl Iterator<Item = u32> {
    let small =
        (2_u32..).take_while(move |d| d * d <= number).filter(move |d| number.is_multiple_of(*d));
    small.flat_map(move |d| [d, number / d].into_iter().take(if d * d == number { 1 } else { 2 }))
}
