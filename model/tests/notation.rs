//! Schedules of the whole notation: merges in the order of ranks, cuts, and all of them inside each other. Each one is
//! proven stage by stage, and some of them by the steps that an engine carries out.

use std::collections::HashMap;

use bowline_model::check::check;
use bowline_model::choice::candidates;
use bowline_model::coll::price::{AllreduceForm, Costs, Crew};
use bowline_model::coll::prove;
use bowline_model::schedule::{Cut, JointStage, Merged, Schedule};

/// Lists of stages for a number of ranks, with what opens and closes up to so many levels deep.
#[derive(Default)]
struct Grammar {
    known: HashMap<(u32, u32, bool), Vec<Vec<JointStage>>>,
}

impl Grammar {
    /// All of a number of ranks; with collapses and merges if `folds`.
    fn all(&mut self, ranks: u32, levels: u32, folds: bool) -> Vec<Vec<JointStage>> {
        if ranks == 1 {
            return vec![Vec::new()];
        }
        if let Some(known) = self.known.get(&(ranks, levels, folds)) {
            return known.clone();
        }
        let mut all = Vec::new();
        for first in (2..=ranks).filter(|first| ranks.is_multiple_of(*first)) {
            let rest = self.all(ranks / first, levels, folds);
            for section in self.section(first, levels, folds) {
                all.extend(rest.iter().map(|rest| [&*section, rest].concat()));
            }
        }
        self.known.insert((ranks, levels, folds), all.clone());
        all
    }

    /// All allreduces of so many ranks that count as one factor.
    fn section(&mut self, ranks: u32, levels: u32, folds: bool) -> Vec<Vec<JointStage>> {
        let mut all = vec![vec![JointStage::Exchange { factor: ranks }]];
        if levels == 0 {
            return all;
        }
        let mut around = |before: JointStage, inner: &[Vec<JointStage>], after: JointStage| {
            all.extend(inner.iter().map(|inner| [&[before], &**inner, &[after]].concat()));
        };
        for factor in (2..=ranks).filter(|factor| ranks.is_multiple_of(*factor)) {
            let inner = self.all(ranks / factor, levels - 1, folds);
            for ring in [false, true] {
                let cut = Cut { factor, ring };
                around(JointStage::Split(cut), &inner, JointStage::Gather(cut));
            }
        }
        for base in 2..=if folds { ranks } else { 1 } {
            for threshold in (base..=ranks).step_by(base as usize) {
                let left = ranks - threshold / base * (base - 1);
                let inner = self.all(left, levels - 1, folds);
                let ends = (
                    JointStage::Collapse { threshold, base },
                    JointStage::Expand { threshold, base },
                );
                around(ends.0, &inner, ends.1);
            }
        }
        for core in 4..if folds { ranks } else { 0 } {
            let remainder = ranks - core;
            let merged = |factor| Merged { remainder, groups: core / factor, factor };
            for first in (2..=core / 2).filter(|first| core.is_multiple_of(*first)) {
                for last in (2..=core / first).filter(|last| (core / first).is_multiple_of(*last)) {
                    let inner = self.all(core / first / last, levels - 1, folds);
                    for before in [JointStage::Merge, JointStage::OrderedMerge] {
                        around(
                            before(merged(first)),
                            &inner,
                            JointStage::InverseMerge(merged(last)),
                        );
                    }
                }
            }
        }
        all
    }

    fn schedules(&mut self, ranks: u32, levels: u32, folds: bool) -> Vec<Schedule> {
        let all = self.all(ranks, levels, folds).into_iter();
        all.map(|tokens| Schedule::new(ranks, tokens).unwrap()).collect()
    }
}

/// Proves a schedule stage by stage.
fn prove(schedule: &Schedule) {
    let proof = check(schedule).unwrap_or_else(|flaw| panic!("{schedule}: {flaw}"));
    assert!(proof.in_order() || !schedule.keeps_order(), "{schedule}: {:?}", proof.orders);
}

/// Proves the steps of a schedule, on vectors of fewer and of more elements than ranks.
fn prove_steps(schedule: &Schedule) {
    let long = 3 * (2 * schedule.ranks() as usize + 1);
    for (vector, in_place) in
        [((0, 3), false), ((6, 3), true), ((long, 3), false), ((long, 3), true)]
    {
        prove::multiplying(schedule, vector, in_place)
            .unwrap_or_else(|flaw| panic!("{schedule} {vector:?} {in_place}: {flaw}"));
    }
}

#[test]
fn every_schedule_with_cuts_of_up_to_40_ranks_is_an_allreduce() {
    let mut grammar = Grammar::default();
    let mut proven = 0;
    for ranks in 1..=40 {
        for schedule in grammar.schedules(ranks, 3, false) {
            prove(&schedule);
            proven += 1;
        }
    }
    assert_eq!(proven, 23_132);
}

#[test]
fn every_schedule_of_up_to_40_ranks_with_one_level_or_16_with_three_is_an_allreduce() {
    let mut grammar = Grammar::default();
    let mut proven = 0;
    for (levels, most) in [(1, 40), (3, 16)] {
        for ranks in 1..=most {
            for schedule in grammar.schedules(ranks, levels, true) {
                prove(&schedule);
                proven += 1;
            }
        }
    }
    assert_eq!(proven, 62_401 + 123_945);
}

#[test]
fn the_steps_of_every_schedule_of_a_few_ranks_are_an_allreduce() {
    let mut grammar = Grammar::default();
    for (levels, ranks) in [(1, 1..=12), (3, 1..=6)] {
        for ranks in ranks {
            grammar.schedules(ranks, levels, true).iter().for_each(prove_steps);
        }
    }
    for ranks in [16, 24] {
        grammar.schedules(ranks, 2, false).iter().for_each(prove_steps);
    }
}

#[test]
fn merges_in_order_keep_the_order_of_all_that_the_heuristic_gives() {
    for ratio in [1.2, 2.316, 5.0, 40.0] {
        for ranks in 1..=512 {
            for schedule in candidates(ranks, ratio, false) {
                assert!(schedule.keeps_order(), "{schedule}");
            }
        }
    }
}

/// The costs by which allreduces are offered here: those that are assumed of shared memory and of tcp; behind them the same
/// of ranks that come late.
const COSTS: [&str; 4] = ["shm", "tcp", "shm,skew=9000", "tcp,skew=100000"];

/// The lengths of vectors for which they are offered.
const BYTES: [usize; 6] = [8, 256, 2000, 20_000, 131_072, 1 << 20];

/// The schedules of allreduces that prices offer for so many ranks under some costs, each once.
fn offered(ranks: u32, costs: &[&str]) -> Vec<Schedule> {
    let (crew, mut all) = (Crew { ranks, share: 1.0 }, Vec::new());
    for costs in costs.iter().map(|text| text.parse::<Costs>().unwrap()) {
        for (bytes, commutative) in BYTES.iter().flat_map(|&bytes| [(bytes, true), (bytes, false)])
        {
            for priced in crew.allreduces(&costs, bytes, commutative) {
                let AllreduceForm::Multiplying(schedule) = priced.form else { continue };
                assert!(commutative || schedule.keeps_order(), "{schedule}");
                if !all.contains(&schedule) {
                    all.push(schedule);
                }
            }
        }
    }
    all
}

/// Whether a schedule cuts vectors around exchanges of their parts.
fn is_nested(schedule: &Schedule) -> bool {
    let exchanges = |token: &JointStage| matches!(token, JointStage::Exchange { .. });
    let tokens = schedule.tokens();
    matches!(tokens.first(), Some(JointStage::Split(_))) && tokens.iter().any(exchanges)
}

/// Proves what may be chosen for each of these numbers of ranks by the steps that it is: the schedules that prices offer,
/// and the candidates at other ratios of costs.
fn prove_offered(ranks: impl Iterator<Item = u32>) {
    let (mut nested, mut late) = (0, 0);
    for ranks in ranks {
        let (mut all, together) = (offered(ranks, &COSTS), offered(ranks, &COSTS[..2]));
        nested += all.iter().filter(|schedule| is_nested(schedule)).count();
        late += all.iter().filter(|schedule| !together.contains(schedule)).count();
        for (ratio, commutative) in [(1.2, true), (2.316, false), (5.0, true), (40.0, false)] {
            for schedule in candidates(ranks, ratio, commutative) {
                if !all.contains(&schedule) {
                    all.push(schedule);
                }
            }
        }
        for schedule in all {
            // Some parts of the first one are empty.
            let long = schedule.splits().then_some(3 * (ranks as usize + 5));
            for vector in [6].into_iter().chain(long) {
                prove::multiplying(&schedule, (vector, 3), ranks % 2 == 0)
                    .unwrap_or_else(|flaw| panic!("{schedule} of {vector} bytes: {flaw}"));
            }
        }
    }
    assert!(nested > 0 && late > 0, "{nested} cuts around exchanges, {late} for late ranks alone");
}

#[test]
fn all_that_is_offered_is_an_allreduce() {
    prove_offered((1..=64).chain([100, 127, 128]));
}

#[test]
#[ignore = "takes five minutes of a processor: cargo test -p bowline-model -- --ignored"]
fn all_that_is_offered_of_up_to_512_ranks_is_an_allreduce() {
    prove_offered(1..=512);
}
