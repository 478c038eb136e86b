//! Choices for ranks that do not enter stages at once: they compute in between, other jobs disturb them, the network is
//! not as quick for all.
//!
//! The published model has all ranks begin together, and its best schedules have more stages than those that were
//! measured to be the quickest. (Thesis, section 5.8.) Here each rank is late for each stage by an exponential time of
//! its own. A group of F waits for its last one, which is late by `1 + 1/2 + .. + 1/F` times the mean: great groups pay
//! somewhat more for a stage, and schedules with few stages pay less often. Lateness that is left over from the stage
//! before is not counted, so a time is no prediction; the order of times is what the simulator finds too.

use super::{Reading, greedy, schedule_of, stage_time};
use crate::cost::{Pipelining, factor_cap};
use crate::schedule::{Cut, JointStage, Schedule};

/// What the last of so many ranks is late by, when the mean is 1.
pub(crate) fn last_of(ranks: u32) -> f64 {
    // The sum grows as the logarithm, and 0.5772 is the limit of their difference.
    match ranks {
        0..=256 => (1..=ranks).map(|rank| 1.0 / f64::from(rank)).sum(),
        _ => f64::from(ranks).ln() + 0.577_215_664_9 + 0.5 / f64::from(ranks),
    }
}

/// What a schedule takes when each rank is late for each stage, by `skew` in the mean: in the unit of the costs.
pub fn time_under_skew(schedule: &Schedule, cost: Pipelining, reading: Reading, skew: f64) -> f64 {
    let stage = |&token: &JointStage| stage_time(token, cost, reading) + skew * lateness(token);
    schedule.tokens().iter().map(stage).sum()
}

/// How late the last one is of those that a rank waits for in a stage.
fn lateness(token: JointStage) -> f64 {
    match token {
        JointStage::Exchange { factor } => last_of(factor),
        JointStage::Collapse { base, .. } => last_of(base),
        // Only the one that has the result.
        JointStage::Expand { .. } => last_of(1),
        JointStage::Merge(merged) | JointStage::OrderedMerge(merged) => {
            last_of(merged.factor + merged.remainder.div_ceil(merged.groups))
        }
        JointStage::InverseMerge(merged) => last_of(merged.factor),
        JointStage::Split(Cut { factor, ring: true })
        | JointStage::Gather(Cut { factor, ring: true }) => f64::from(factor - 1) * last_of(2),
        JointStage::Split(cut) | JointStage::Gather(cut) => last_of(cut.factor),
    }
}

/// The published heuristic with factors in the order of what a schedule of one alone takes under skew. Both `ratio` and
/// `skew` are in what a message keeps its sender busy. Recursive doubling where it has no schedule.
pub fn choose_under_skew(ranks: u32, ratio: f64, skew: f64) -> Schedule {
    let price = |factor: u32| {
        (ratio + f64::from(factor) - 1.0 + skew * last_of(factor)) / f64::from(factor).ln()
    };
    // Factors that take less than doubling does: without skew the published ones, with it more.
    let mut cap = factor_cap(ratio).min(ranks.max(2));
    while cap < ranks && price(cap + 1) <= price(2) {
        cap += 1;
    }
    let mut factors: Vec<u32> = (2..=cap).collect();
    factors.sort_by(|&one, &other| price(one).total_cmp(&price(other)));
    schedule_of(ranks, greedy(ranks, &factors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{FactorOrder, choose, time};

    #[test]
    fn without_skew_nothing_changes() {
        for ranks in 1..=200 {
            assert_eq!(
                choose_under_skew(ranks, 2.911, 0.0),
                choose(ranks, 2.911, FactorOrder::ByCost)
            );
        }
        let schedule = Schedule::parse(7, "c6m2,s4r,g4,e6m2").unwrap();
        let cost = Pipelining::ARCHER;
        let without = time(&schedule, cost, Reading::Groups);
        assert_eq!(time_under_skew(&schedule, cost, Reading::Groups, 0.0), without);
        let with = time_under_skew(&schedule, cost, Reading::Groups, 1.0);
        assert!((with - without - (1.5 + 3.0 * 1.5 + 25.0 / 12.0 + 1.0)).abs() < 1e-9);
    }

    #[test]
    fn the_last_of_many_is_late_by_the_logarithm() {
        assert!((last_of(4) - 25.0 / 12.0).abs() < 1e-12);
        assert!((last_of(257) - last_of(256) - 1.0 / 257.0).abs() < 1e-5);
    }
}
