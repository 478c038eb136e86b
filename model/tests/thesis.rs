//! What the thesis has in its tables and figures, from this crate; and proofs of every schedule that it can make.

use bowline_model::check::{check, follow};
use bowline_model::choice::{
    FactorOrder, Reading, Search, choose, choose_in_order, choose_of, choose_under_skew, heuristic,
    time,
};
use bowline_model::cost::Pipelining;
use bowline_model::schedule::{JointStage, Merged, Schedule};

/// The ratio that chapter 5 of the thesis computes with.
const RATIO: f64 = 2.911;
const CHAPTER_5: Pipelining = Pipelining { pipelining: RATIO, required: 1.0 };

#[test]
fn the_heuristic_gives_what_it_gave() {
    let expected: &[(u32, &[u32], u32)] = &[
        (2, &[2], 0),
        (3, &[3], 0),
        (5, &[5], 0),
        (8, &[4, 2], 0),
        (9, &[3, 3], 0),
        (10, &[5, 2], 0),
        (11, &[11], 0),
        (12, &[4, 3], 0),
        (13, &[4, 3], 1),
        (14, &[7, 2], 0),
        (15, &[5, 3], 0),
        (16, &[4, 4], 0),
        (17, &[4, 4], 1),
        (18, &[6, 3], 0),
        (19, &[6, 3], 1),
        (20, &[4, 5], 0),
        (21, &[3, 7], 0),
        (22, &[11, 2], 0),
        (23, &[11, 2], 1),
        (24, &[4, 6], 0),
        (25, &[5, 5], 0),
        (26, &[5, 5], 1),
        (27, &[3, 3, 3], 0),
        (28, &[4, 7], 0),
        (29, &[4, 7], 1),
        (30, &[5, 6], 0),
        (31, &[5, 6], 1),
        (32, &[4, 4, 2], 0),
        (36, &[4, 3, 3], 0),
        (37, &[4, 3, 3], 1),
        (39, &[4, 3, 3], 3),
        (40, &[4, 5, 2], 0),
        (42, &[6, 7], 0),
        (45, &[5, 3, 3], 0),
        (47, &[5, 3, 3], 2),
        (48, &[4, 4, 3], 0),
        (49, &[7, 7], 0),
        (53, &[5, 5, 2], 3),
        (60, &[4, 5, 3], 0),
        (63, &[3, 3, 7], 0),
        (64, &[4, 4, 4], 0),
        (96, &[4, 4, 6], 0),
        (100, &[4, 5, 5], 0),
        (127, &[6, 3, 7], 1),
        (128, &[4, 4, 4, 2], 0),
        (255, &[4, 3, 3, 7], 3),
        (256, &[4, 4, 4, 4], 0),
        (1000, &[4, 5, 5, 5, 2], 0),
        (1023, &[4, 4, 3, 3, 7], 15),
        (1024, &[4, 4, 4, 4, 4], 0),
    ];
    for &(ranks, factors, merged) in expected {
        assert_eq!(
            heuristic(ranks, RATIO, FactorOrder::ByCost),
            Some((factors.to_vec(), merged)),
            "{ranks}"
        );
    }
}

#[test]
fn a_single_factor_takes_in_nobody() {
    // Published, 13 ranks end with 12 in one factor and 1 merged, which is no schedule.
    assert_eq!(heuristic(13, RATIO, FactorOrder::Greatest), None);
    assert_eq!(choose(13, RATIO, FactorOrder::Greatest), Schedule::doubling(13));
}

#[test]
fn table_5_1_has_schedules() {
    let table: &[(u32, &[u32])] = &[
        (10, &[5, 2]),
        (16, &[2; 4]),
        (16, &[4, 4]),
        (36, &[4, 3, 3]),
        (48, &[4, 4, 3]),
        (60, &[5, 4, 3]),
        (80, &[5, 4, 4]),
        (1024, &[2; 10]),
        (1024, &[4; 5]),
        (1024, &[8, 8, 8, 2]),
    ];
    for &(ranks, factors) in table {
        let schedule = Schedule::of_factors(factors).unwrap();
        assert_eq!(schedule.ranks(), ranks);
        let messages = factors.iter().map(|factor| u64::from(ranks * (factor - 1))).sum::<u64>();
        assert_eq!(check(&schedule).unwrap().messages, messages);
    }
}

#[test]
fn messages_are_as_many_as_the_equations_say() {
    // Equations 5.12 and 5.13.
    for (text, messages) in [("a4,a4,a4", 576), ("a2,a2,a2,a2,a2,a2", 384)] {
        let proof = check(&Schedule::parse(64, text).unwrap()).unwrap();
        assert_eq!(proof.messages, messages);
    }
}

#[test]
fn times_are_those_of_the_model() {
    // Microseconds of the schedules of table 5.3 with the parameters of table 4.1, and of recursive doubling.
    let published = [
        (4, "a4", 2.02, 2.52),
        (6, "a6", 2.78, 5.04),
        (8, "a2,a4", 3.28, 3.78),
        (12, "a3,a4", 3.66, 6.30),
        (16, "a4,a4", 4.04, 5.04),
        (24, "a4,a6", 4.80, 7.56),
        (32, "a8,a4", 5.56, 6.30),
        (48, "a8,a6", 6.32, 8.82),
        (64, "a8,a8", 7.08, 7.56),
        (96, "a8,a3,a4", 7.20, 10.08),
        (128, "a8,a4,a4", 7.58, 8.82),
    ];
    for (ranks, text, multiplying, doubling) in published {
        let of = |schedule: &Schedule| time(schedule, Pipelining::ARCHER, Reading::Groups);
        assert!(
            (of(&Schedule::parse(ranks, text).unwrap()) - multiplying).abs() < 0.005,
            "{ranks}"
        );
        assert!((of(&Schedule::doubling(ranks)) - doubling).abs() < 0.005, "{ranks}");
    }
}

/// What is left of the time of a schedule by the best one of all, in per cent.
fn efficiency(search: &mut Search, ranks: u32, schedule: &Schedule) -> f64 {
    100.0 * search.least(ranks) / time(schedule, CHAPTER_5, Reading::Published)
}

#[test]
fn table_5_2_has_the_ranks_for_which_the_heuristic_is_not_the_best() {
    // Row 44 is printed as 95.5, which no reading of the equations gives.
    let table = [
        (11, 91.6),
        (19, 93.3),
        (22, 88.1),
        (23, 78.7),
        (29, 94.1),
        (33, 94.4),
        (34, 84.9),
        (41, 95.1),
        (43, 99.5),
        (44, 99.5),
    ];
    let mut search = Search::new(CHAPTER_5, Reading::Published);
    let mut found = Vec::new();
    for ranks in 2..50 {
        let efficiency = efficiency(&mut search, ranks, &choose(ranks, RATIO, FactorOrder::ByCost));
        if efficiency < 99.95 {
            found.push((ranks, (efficiency * 10.0).round() / 10.0));
        }
    }
    assert_eq!(found, table);
}

/// The mean efficiencies for 2 to 1024 ranks of recursive doubling, and of the heuristic with the greatest factors first
/// and with the cheapest.
///
/// Published (text of figure 5.15): 72.1, 92.4 and 97.1. They come out with a ratio of 2.9. Table 5.2 needs 2.909 to 2.914,
/// with which the means are 72.0, 92.4 and 97.2: neither another range (from 1 or 3, to 1023) nor other schedules where
/// the heuristic has none change the last one by more than 0.01. Greatest first means factors to 9, the cap of the ratio
/// that was fitted: with those to 12, the cap of this one, it is 90.0.
#[test]
fn the_heuristic_is_as_good_as_published() {
    let greatest_first: Vec<u32> = (2..=9).rev().collect();
    let ratio = 2.9;
    let cost = Pipelining { pipelining: ratio, required: 1.0 };
    let mut search = Search::new(cost, Reading::Published);
    let mut all = [0.0; 3];
    for ranks in 2..=1024 {
        let least = search.least(ranks);
        let schedules = [
            Schedule::doubling(ranks),
            choose_of(ranks, &greatest_first),
            choose(ranks, ratio, FactorOrder::ByCost),
        ];
        for (sum, schedule) in all.iter_mut().zip(&schedules) {
            *sum += least / time(schedule, cost, Reading::Published);
        }
    }
    let means = all.map(|sum: f64| (sum * 1000.0 / 1023.0).round() / 10.0);
    assert_eq!(means, [72.1, 92.4, 97.1]);
}

/// Every list of factors of a number, in every order.
fn factorings(number: u32) -> Vec<Vec<u32>> {
    if number == 1 {
        return vec![Vec::new()];
    }
    let first = (2..=number).filter(|factor| number.is_multiple_of(*factor));
    first
        .flat_map(|factor| {
            factorings(number / factor).into_iter().map(move |mut rest| {
                rest.insert(0, factor);
                rest
            })
        })
        .collect()
}

#[test]
fn every_schedule_of_up_to_40_ranks_is_an_allreduce() {
    let mut proven = 0;
    let mut prove = |schedule: Schedule| {
        let proof = check(&schedule).unwrap_or_else(|flaw| panic!("{schedule}: {flaw}"));
        let ordered = proof.in_order();
        assert!(ordered || !schedule.keeps_order(), "{schedule}: {:?}", proof.orders);
        assert!(!ordered || schedule.keeps_order() || schedule.ranks() < 2, "{schedule}");
        proven += 1;
    };
    for ranks in 1..=40 {
        for factors in factorings(ranks) {
            prove(Schedule::of_factors(&factors).unwrap());
        }
        for core in 4..ranks {
            for factors in factorings(core).into_iter().filter(|factors| factors.len() >= 2) {
                prove(Schedule::merged(&factors, ranks - core).unwrap());
            }
        }
        for base in 2..=ranks {
            for blocks in 1..=ranks / base {
                let threshold = blocks * base;
                let working = ranks - threshold + blocks;
                for factors in factorings(working) {
                    let exchange = factors.iter().map(|&factor| JointStage::Exchange { factor });
                    let mut tokens = vec![JointStage::Collapse { threshold, base }];
                    tokens.extend(exchange);
                    tokens.push(JointStage::Expand { threshold, base });
                    prove(Schedule::new(ranks, tokens).unwrap());
                }
            }
        }
    }
    // 9,862, one rank alone, and those that collapse all ranks into one.
    assert_eq!(proven, 9_862 + 1 + 39);
}

/// The greatest prime factor.
fn greatest_prime(number: u32) -> u32 {
    let mut rest = number;
    let least = |rest: u32| (2..=rest).find(|factor| rest.is_multiple_of(*factor));
    let mut greatest = 1;
    while let Some(prime) = least(rest) {
        (greatest, rest) = (prime, rest / prime);
    }
    greatest
}

/// Every list of factors up to `most`, each taken as often as it divides what the ones before it have left.
fn taken_out(number: u32, most: u32) -> Vec<Vec<u32>> {
    if number == 1 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for factor in (2..=most.min(number)).filter(|factor| number.is_multiple_of(*factor)) {
        let (mut rest, mut times) = (number, 0);
        while rest.is_multiple_of(factor) {
            (rest, times) = (rest / factor, times + 1);
        }
        for others in taken_out(rest, most) {
            all.push([vec![factor; times], others].concat());
        }
    }
    all
}

#[test]
fn the_heuristic_ends_at_numbers_whose_products_with_a_factor_are_beyond_a_word() {
    for ranks in [131_072, 1 << 20, 1_000_003, (1 << 31) + 2] {
        for ratio in [1000.0, 10_000.0] {
            let found = heuristic(ranks, ratio, FactorOrder::ByCost);
            let (factors, merged) = found.expect("factors and merged ranks");
            let product: u64 = factors.iter().map(|&factor| u64::from(factor)).product();
            assert_eq!(product + u64::from(merged), u64::from(ranks), "{ratio}");
        }
    }
}

/// Every schedule that the heuristic can give for so many ranks, in whatever order it tries the factors from 2 to whatever
/// cap: so those of any ratio and any skew, sorted or not.
///
/// All factors up to a cap take a number apart if none of its primes is above the cap. So the ranks that are not merged are
/// the most of which that holds, which has each cap below the primes of all greater numbers.
fn given_by_heuristic(ranks: u32) -> Vec<Schedule> {
    let mut all = vec![Schedule::doubling(ranks)];
    let mut most = ranks;
    for core in (2..=ranks).rev() {
        let prime = greatest_prime(core);
        if prime > most {
            continue;
        }
        for factors in taken_out(core, most) {
            if core == ranks {
                all.push(Schedule::of_factors(&factors).unwrap());
            } else if factors.len() >= 2 {
                all.push(Schedule::merged(&factors, ranks - core).unwrap());
                // For operations that are not commutative.
                let in_order =
                    (ranks - core > 1).then(|| Schedule::merged_in_order(&factors, ranks - core));
                all.extend(in_order.map(Result::unwrap));
            }
        }
        most = prime - 1;
    }
    all
}

/// Proves all of them; how many there are.
fn prove_heuristic(ranks: impl Iterator<Item = u32>) -> usize {
    let mut proven = 0;
    for ranks in ranks {
        for schedule in given_by_heuristic(ranks) {
            let proof = check(&schedule).unwrap_or_else(|flaw| panic!("{schedule}: {flaw}"));
            assert!(proof.in_order() || !schedule.keeps_order(), "{schedule}");
            proven += 1;
        }
    }
    proven
}

#[test]
fn whatever_the_heuristic_gives_is_an_allreduce() {
    assert!(prove_heuristic((2..=256).chain((257..=512).step_by(16))) > 10_000);
}

#[test]
#[ignore = "takes half a minute: cargo test -p bowline-model -- --ignored"]
fn whatever_the_heuristic_gives_up_to_512_ranks_is_an_allreduce() {
    prove_heuristic(257..=512);
}

#[test]
fn what_the_heuristic_gives_is_among_the_schedules_that_are_proven() {
    for ranks in (2..=512).step_by(3) {
        let all = given_by_heuristic(ranks);
        for ratio in [0.2, 1.2, 2.316, RATIO, 5.0, 40.0, 1000.0] {
            let orders = [FactorOrder::ByCost, FactorOrder::Greatest];
            let chosen = orders.map(|order| choose(ranks, ratio, order)).into_iter();
            let late = [0.1, 2.0, 30.0].map(|skew| choose_under_skew(ranks, ratio, skew));
            for schedule in chosen.chain(late).chain([choose_in_order(ranks, ratio)]) {
                assert!(all.contains(&schedule), "{ranks} ranks, ratio {ratio}: {schedule}");
            }
        }
    }
}

#[test]
fn a_rank_of_a_million_is_there_at_once() {
    let schedule = Schedule::of_factors(&[4; 10]).unwrap();
    let stages = schedule.stages(777_777);
    assert_eq!(stages.iter().map(|stage| stage.sends.len()).sum::<usize>(), 30);
}

#[test]
fn merged_ranks_that_all_go_to_one_group_are_still_right() {
    // What the published text warns of for its cost, and not for its result.
    let merged = Merged { remainder: 3, groups: 1, factor: 4 };
    assert!(
        Schedule::new(7, vec![JointStage::Merge(merged), JointStage::InverseMerge(merged)])
            .is_err()
    );
    assert!(follow(Vec::new()).is_ok());
}
