//! All schedules of one level: what an exhaustive search goes through.

use crate::schedule::{JointStage, Schedule};

/// Every list of factors of a number, in every order.
fn factorings(number: u32) -> Vec<Vec<u32>> {
    if number <= 1 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in (2..=number).filter(|factor| number.is_multiple_of(*factor)) {
        all.extend(factorings(number / first).into_iter().map(|rest| {
            let mut factors = vec![first];
            factors.extend(rest);
            factors
        }));
    }
    all
}

/// Every allreduce of exchanges, of merged ranks around exchanges, of collapsed ranks around exchanges, and of cuts of the
/// vector, with factors in every order. `None` where there are more than `most`. Parts that stand inside of others are
/// not among them: none takes less [`time`](super::time) (a test has it for up to 128 ranks).
pub fn every(ranks: u32, most: usize) -> Option<Vec<Schedule>> {
    let mut all = Vec::new();
    let mut add = |made: Option<Schedule>| {
        all.extend(made);
        (all.len() <= most).then_some(())
    };
    for factors in factorings(ranks) {
        add(Schedule::of_factors(&factors).ok())?;
        if ranks > 1 {
            add(Schedule::split(&factors, false).ok())?;
            add(Schedule::split(&factors, true).ok())?;
        }
    }
    for core in 4..ranks {
        for factors in factorings(core).into_iter().filter(|factors| factors.len() >= 2) {
            add(Schedule::merged(&factors, ranks - core).ok())?;
        }
    }
    for base in 2..=ranks {
        for blocks in 1..=ranks / base {
            let threshold = blocks * base;
            for factors in factorings(ranks - threshold + blocks) {
                let mut tokens = vec![JointStage::Collapse { threshold, base }];
                tokens.extend(factors.into_iter().map(|factor| JointStage::Exchange { factor }));
                tokens.push(JointStage::Expand { threshold, base });
                add(Schedule::new(ranks, tokens).ok())?;
            }
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{Reading, Search, time};
    use crate::cost::Pipelining;

    #[test]
    fn the_least_time_of_all_is_what_the_search_finds() {
        for ranks in 2..=40 {
            let mut search = Search::new(Pipelining::ARCHER, Reading::Groups);
            let all = every(ranks, 1 << 20).unwrap();
            let times = all.iter().map(|one| time(one, Pipelining::ARCHER, Reading::Groups));
            let least = times.fold(f64::INFINITY, f64::min);
            assert!((least - search.least(ranks)).abs() < 1e-9, "{ranks}");
        }
        assert_eq!(every(1, 10).unwrap().len(), 1);
        assert_eq!(every(60, 100), None);
    }

    /// The least time of what is one factor, where the best of fewer ranks may stand between what opens and what closes.
    fn part(count: u32, cost: Pipelining, best: &[f64]) -> f64 {
        let mut least = cost.multicast(count - 1);
        for base in 2..=count {
            for blocks in 1..=count / base {
                let inner = best[(count - blocks * (base - 1)) as usize];
                least = least.min(cost.message() + inner + cost.multicast(base - 1));
            }
        }
        for first in 2..=count / 2 {
            for last in 2..=count / first {
                for inner in 1..=(count - 1) / (first * last) {
                    let served = (count - first * last * inner).div_ceil(first * inner);
                    let ends = cost.multicast(first) + cost.multicast(last - 1 + served);
                    least = least.min(ends + best[inner as usize]);
                }
            }
        }
        least
    }

    #[test]
    fn parts_inside_of_others_take_no_less() {
        for cost in [Pipelining::ARCHER, Pipelining { pipelining: 5.0, required: 1.0 }] {
            let mut search = Search::new(cost, Reading::Groups);
            let (mut best, mut parts) = (vec![0.0; 2], vec![0.0; 2]);
            for count in 2..=128 {
                parts.push(part(count, cost, &best));
                let factors = (2..=count).filter(|factor| count.is_multiple_of(*factor));
                let times = factors.map(|f| parts[f as usize] + best[(count / f) as usize]);
                best.push(times.fold(f64::INFINITY, f64::min));
                let (one, all) = (search.least(count), best[count as usize]);
                assert!((one - all).abs() < 1e-9, "{count}: {all} instead of {one}");
            }
        }
    }
}
