//! What is measured in which order, and how long each part may take.

use std::fmt;
use std::time::Duration;

use crate::metric::{Metric, Test, Wire};
use crate::{BenchError, PeersOptions};

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Everything on one machine, over shared memory.
    Peers,
    /// Two ranks over TCP.
    Networks,
    /// The operations of ucp, each at every size, on one machine.
    Grid,
    /// Collectives, over shared memory and over TCP with delay.
    Collectives,
    /// Long messages by every means that can be forced, on one machine.
    Selection,
}

/// Metrics that one start of one source can measure together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Everything between two ranks over one wire.
    Pair(Wire),
    /// One figure between two ranks, so that all sources measure it one soon after the other: the
    /// distance of two processors may change within a run.
    One(Metric),
    /// Start-up of this many ranks.
    Init(u32),
    /// The death of one of this many ranks.
    Death(u32),
    /// Collectives of this many ranks over one wire; last, because they can take the quick run's time.
    Group(u32, Wire),
}

impl Stage {
    fn of(metric: Metric) -> Self {
        match metric.test {
            test if test.is_collective() => Self::Group(metric.ranks, metric.wire),
            Test::Init => Self::Init(metric.ranks),
            test if test.is_death() => Self::Death(metric.ranks),
            _ => Self::Pair(metric.wire),
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(metric) => write!(f, "{metric}"),
            stage => write!(f, "{stage:?}"),
        }
    }
}

/// The plan of one comparison.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The wanted metrics, in the order of the table.
    pub(crate) metrics: Vec<Metric>,
    /// Rounds of the two-rank metrics.
    pub(crate) rounds: usize,
    /// Rounds of collectives, start-up and deaths, at most `rounds`.
    pub(crate) group_rounds: usize,
    /// Timed part of one figure.
    pub(crate) budget: Duration,
    /// Time limit of one start of one source.
    pub(crate) time_limit: Duration,
    /// No start of a source after this time.
    pub(crate) deadline: Option<Duration>,
    /// Whether each figure of two ranks is a stage of its own.
    pub(crate) apart: bool,
    /// Whether the distance of the processors is measured behind each start as well as before it.
    pub(crate) steady: bool,
    /// Whether this is the quick run, which leaves out the start-up of most peers.
    pub(crate) quick: bool,
}

impl Plan {
    /// The plan that `options` ask for.
    pub(crate) fn new(options: &PeersOptions, what: Comparison) -> Result<Self, BenchError> {
        let (all, [quick_budget, budget]) = match what {
            Comparison::Peers => (catalogue(options.quick), [30, 200]),
            Comparison::Networks => (networks(), [60, 400]),
            Comparison::Grid => (grid(), [20, 150]),
            Comparison::Collectives => (collectives(), [10, 60]),
            Comparison::Selection => (selection(options.quick), [30, 200]),
        };
        for filter in &options.only {
            if !all.iter().any(|metric| metric.matches(std::slice::from_ref(filter))) {
                return Err(BenchError::NoMatch {
                    option: "only",
                    pattern: filter.clone(),
                    known: all.iter().map(Metric::to_string).collect::<Vec<_>>().join(", "),
                });
            }
        }
        let metrics = all.into_iter().filter(|metric| metric.matches(&options.only)).collect();
        let usual = match (what, options.quick) {
            // Some hundred starts each.
            (Comparison::Selection, true) => 1,
            (Comparison::Selection, false) => 3,
            (_, true) => 2,
            (_, false) => 7,
        };
        let rounds = options.rounds.unwrap_or(usual);
        if rounds == 0 {
            return Err(BenchError::Option {
                option: "rounds",
                reason: "at least one is needed".to_owned(),
            });
        }
        let of_groups = what == Comparison::Collectives;
        Ok(Self {
            metrics,
            rounds,
            group_rounds: if options.quick && !of_groups { 1 } else { rounds },
            budget: Duration::from_millis(if options.quick { quick_budget } else { budget }),
            time_limit: Duration::from_secs(if options.quick && !of_groups { 8 } else { 60 }),
            deadline: (options.quick && !of_groups).then_some(Duration::from_secs(42)),
            apart: matches!(what, Comparison::Grid | Comparison::Selection),
            steady: what == Comparison::Selection,
            quick: options.quick,
        })
    }

    /// The stages of round `round`, two-rank metrics first.
    pub(crate) fn stages(&self, round: usize) -> Vec<Stage> {
        let stage = |&metric: &Metric| self.stage_of(metric);
        let mut stages: Vec<Stage> = self.metrics.iter().map(stage).collect();
        stages.sort();
        stages.dedup();
        let of_pairs = |stage: &Stage| matches!(stage, Stage::Pair(_) | Stage::One(_));
        stages.retain(|stage| of_pairs(stage) || round < self.group_rounds);
        stages
    }

    /// The stage that measures `metric`.
    pub(crate) fn stage_of(&self, metric: Metric) -> Stage {
        match Stage::of(metric) {
            Stage::Pair(_) if self.apart => Stage::One(metric),
            stage => stage,
        }
    }
}

fn catalogue(quick: bool) -> Vec<Metric> {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    let mut metrics = vec![Metric::pair(Test::RawLat, 8), Metric::pair(Test::PutLat, 8)];
    for (lat, rate, bw) in
        [(Test::TagLat, Test::TagRate, Test::TagBw), (Test::MpiLat, Test::MpiRate, Test::MpiBw)]
    {
        metrics.extend([8, 4 * KIB, 64 * KIB].map(|size| Metric::pair(lat, size)));
        metrics.push(Metric::pair(rate, 8));
        metrics.extend([8 * KIB, 64 * KIB, MIB, 4 * MIB].map(|size| Metric::pair(bw, size)));
    }
    for (test, sizes) in [
        (Test::TypeVector, &[64 * KIB, MIB][..]),
        (Test::TypeBlocks, &[64 * KIB, MIB]),
        // 100,000 pieces.
        (Test::TypeIndexed, &[1_600_000]),
        // 2048 and 32,768 structs of 29 bytes.
        (Test::TypeStruct, &[58 * KIB, 928 * KIB]),
    ] {
        metrics.extend(sizes.iter().map(|&size| Metric::pair(test, size)));
    }
    let ranks: &[u32] = if quick { &[8, 32] } else { &[2, 4, 8, 16, 32] };
    metrics.extend(ranks.iter().map(|&ranks| Metric::group(Test::Barrier, 0, ranks)));
    metrics.extend(ranks.iter().map(|&ranks| Metric::group(Test::Allreduce, 8, ranks)));
    metrics.push(Metric::group(Test::Init, 0, 64));
    // No peer offers these: they show that survivors learn of a death, and how soon.
    for ranks in [2, 8] {
        metrics.extend(Test::DEATHS.map(|test| Metric::group(test, 0, ranks)));
    }
    metrics
}

fn networks() -> Vec<Metric> {
    const KIB: u64 = 1 << 10;
    let mut metrics = Vec::new();
    for wire in [Wire::Loopback, Wire::Veth] {
        for (lat, bw) in [(Test::TagLat, Test::TagBw), (Test::MpiLat, Test::MpiBw)] {
            metrics.extend([8, 64 * KIB].map(|size| Metric::pair(lat, size).over(wire)));
            metrics.extend([64 * KIB, 1024 * KIB].map(|size| Metric::pair(bw, size).over(wire)));
        }
    }
    metrics
}

fn collectives() -> Vec<Metric> {
    let mut metrics = Vec::new();
    for wire in [Wire::Memory, Wire::Delayed] {
        for ranks in [2, 4, 8, 16] {
            for test in Test::COLLECTIVES {
                let sizes: &[u64] =
                    if test == Test::Barrier { &[0] } else { &[8, 1 << 10, 64 << 10, 1 << 20] };
                let metric = |&size| Metric::group(test, size, ranks).over(wire);
                metrics.extend(sizes.iter().map(metric));
            }
        }
    }
    metrics
}

fn grid() -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (lat, bw) in [
        (Test::TagLat, Test::TagBw),
        (Test::AmLat, Test::AmBw),
        (Test::StreamLat, Test::StreamBw),
        (Test::PutLat, Test::PutBw),
        (Test::GetLat, Test::GetBw),
    ] {
        for test in [lat, bw] {
            let sizes = [8, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20, 4 << 20];
            metrics.extend(sizes.map(|size| Metric::pair(test, size)));
        }
    }
    metrics.extend([Test::FaddLat, Test::CswapLat].map(|test| Metric::pair(test, 8)));
    metrics
}

fn selection(quick: bool) -> Vec<Metric> {
    const KIB: u64 = 1 << 10;
    const TESTS: [Test; 8] = [
        Test::TagLat,
        Test::TagBw,
        Test::MpiLat,
        Test::MpiBw,
        Test::TagLateLat,
        Test::TagLateBw,
        Test::MpiLateLat,
        Test::MpiLateBw,
    ];
    let (tests, sizes): (&[Test], &[u64]) = if quick {
        (&TESTS[..4], &[64, 1024])
    } else {
        (&TESTS, &[16, 32, 64, 128, 256, 1024, 4096])
    };
    let of = |&test: &Test| sizes.iter().map(move |&size| Metric::pair(test, size * KIB));
    tests.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_matches_nothing_is_an_error() {
        let options = PeersOptions { only: vec!["mpi_lta".to_owned()], ..Default::default() };
        assert!(matches!(
            Plan::new(&options, Comparison::Peers),
            Err(BenchError::NoMatch { option: "only", .. })
        ));
    }

    #[test]
    fn the_quick_plan_repeats_only_the_pairs() {
        let plan =
            Plan::new(&PeersOptions { quick: true, ..Default::default() }, Comparison::Peers)
                .unwrap();
        assert_eq!(
            plan.stages(0),
            [
                Stage::Pair(Wire::Memory),
                Stage::Init(64),
                Stage::Death(2),
                Stage::Death(8),
                Stage::Group(8, Wire::Memory),
                Stage::Group(32, Wire::Memory)
            ]
        );
        assert_eq!(plan.stages(1), [Stage::Pair(Wire::Memory)]);
    }

    #[test]
    fn full_runs_know_every_metric_once() {
        let plan = Plan::new(&PeersOptions::default(), Comparison::Peers).unwrap();
        let mut names: Vec<String> = plan.metrics.iter().map(Metric::to_string).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), count), (46, 46));
    }

    #[test]
    fn collectives_have_five_crowds_in_full_runs() {
        let plan = Plan::new(&PeersOptions::default(), Comparison::Peers).unwrap();
        let ranks = |test| -> Vec<u32> {
            let of_test = plan.metrics.iter().filter(|metric| metric.test == test);
            of_test.map(|metric| metric.ranks).collect()
        };
        assert_eq!(ranks(Test::Barrier), [2, 4, 8, 16, 32]);
        assert_eq!(ranks(Test::Allreduce), [2, 4, 8, 16, 32]);
    }

    #[test]
    fn the_grid_has_each_operation_at_each_size_once() {
        let plan = Plan::new(&PeersOptions::default(), Comparison::Grid).unwrap();
        let mut names: Vec<String> = plan.metrics.iter().map(Metric::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), plan.metrics.len()), (72, 72));
        assert_eq!(plan.stages(0).len(), 72);
    }

    #[test]
    fn collectives_are_each_of_them_at_each_size_and_number_of_ranks_on_both_networks() {
        let plan = Plan::new(&PeersOptions::default(), Comparison::Collectives).unwrap();
        let mut names: Vec<String> = plan.metrics.iter().map(Metric::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), plan.metrics.len()), (168, 168));
        assert_eq!(plan.stages(0).len(), 8);
    }

    #[test]
    fn the_selection_has_each_test_at_each_size_apart() {
        let plan = Plan::new(&PeersOptions::default(), Comparison::Selection).unwrap();
        assert_eq!((plan.metrics.len(), plan.stages(0).len(), plan.rounds), (56, 56, 3));
        assert_eq!(plan.metrics.iter().filter(|metric| metric.test.is_late()).count(), 28);
        let quick = PeersOptions { quick: true, ..Default::default() };
        let plan = Plan::new(&quick, Comparison::Selection).unwrap();
        assert_eq!((plan.metrics.len(), plan.rounds), (8, 1));
        let only = PeersOptions { only: vec!["mpi_late_bw-4m".to_owned()], ..Default::default() };
        assert_eq!(Plan::new(&only, Comparison::Selection).unwrap().metrics.len(), 1);
        assert!(Plan::new(&only, Comparison::Peers).is_err());
    }

    #[test]
    fn networks_are_two_wires_with_the_same_figures() {
        let plan = Plan::new(&PeersOptions::default(), Comparison::Networks).unwrap();
        let over = |wire| -> Vec<Metric> {
            let of_wire = plan.metrics.iter().filter(|metric| metric.wire == wire);
            of_wire.map(|metric| metric.over(Wire::Memory)).collect()
        };
        assert_eq!(over(Wire::Loopback).len(), 8);
        assert_eq!(over(Wire::Loopback), over(Wire::Veth));
        assert_eq!(plan.stages(3), [Stage::Pair(Wire::Loopback), Stage::Pair(Wire::Veth)]);
        let only = PeersOptions { only: vec!["tag_lat-8-veth".to_owned()], ..Default::default() };
        assert_eq!(Plan::new(&only, Comparison::Networks).unwrap().metrics.len(), 1);
        assert!(Plan::new(&only, Comparison::Peers).is_err());
    }
}
