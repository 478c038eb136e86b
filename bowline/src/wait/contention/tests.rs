//! The rules with a clock that stands still until it is set.

use super::*;

const SLICE: Duration = Duration::from_millis(4);
const SHORT: Duration = Duration::from_micros(1);

/// A waiter's knowledge and a clock.
struct Rank {
    contention: Contention,
    now: Instant,
}

impl Rank {
    fn new() -> Self {
        Self { contention: Contention::default(), now: Instant::now() }
    }

    fn may_yield(&self) -> bool {
        self.contention.may_yield(|| self.now)
    }

    fn yields(&mut self, lasting: Duration) {
        let begin = self.now;
        self.now += lasting;
        self.contention.yielded(begin, self.now, || false);
    }

    /// Two long yields with a short one between them.
    fn meets_a_program(&mut self, slice: Duration) {
        self.yields(slice);
        assert!(self.may_yield(), "rule 1: one alone");
        self.yields(SHORT);
        self.yields(slice);
    }

    /// How long it may not yield from now on.
    fn sleeps_for(&mut self) -> Duration {
        let begin = self.now;
        while !self.may_yield() {
            self.now += Duration::from_micros(100);
        }
        self.now - begin
    }
}

#[test]
fn short_yields_go_on_and_the_clock_is_not_read_between_them() {
    let mut rank = Rank::new();
    for _ in 0..10_000 {
        assert!(rank.contention.may_yield(|| panic!("rule 6: the clock was read")));
        rank.yields(SHORT);
    }
    rank.yields(LONG - SHORT);
    assert!(rank.may_yield(), "shorter than a slice");
}

#[test]
fn a_program_that_computes_ends_yields_for_a_period() {
    let mut rank = Rank::new();
    rank.meets_a_program(LONG);
    assert!(!rank.may_yield());
    rank.now += LONG * TIMES - SHORT;
    assert!(!rank.may_yield(), "the period is not over");
    rank.now += SHORT;
    assert!(rank.may_yield());
    assert!(rank.contention.may_yield(|| panic!("rule 6: the clock was read")));
}

#[test]
fn periods_double_while_the_other_program_stays() {
    let mut rank = Rank::new();
    let mut expected = SLICE * TIMES;
    for _ in 0..12 {
        rank.meets_a_program(SLICE);
        assert_eq!(rank.sleeps_for(), expected);
        expected = (expected * 2).min(LAST);
    }
    assert_eq!(expected, LAST);
}

#[test]
fn the_more_is_lost_the_longer_is_the_period() {
    let mut rank = Rank::new();
    // Ten programs that compute, one slice each.
    rank.meets_a_program(SLICE * 10);
    assert_eq!(rank.sleeps_for(), SLICE * 10 * TIMES);
    // A rank that was stopped for a minute is not slow for a quarter of an hour.
    rank.meets_a_program(Duration::from_secs(60));
    assert_eq!(rank.sleeps_for(), LAST);
}

#[test]
fn a_slice_after_a_quiet_time_begins_with_the_first_period_again() {
    let mut rank = Rank::new();
    for _ in 0..4 {
        rank.meets_a_program(SLICE);
        rank.sleeps_for();
    }
    let quiet_since = rank.now;
    while rank.now < quiet_since + SLICE * TIMES * 8 {
        rank.yields(SHORT);
        assert!(rank.may_yield());
    }
    rank.meets_a_program(SLICE);
    assert_eq!(rank.sleeps_for(), SLICE * TIMES);
}

#[test]
fn a_program_that_computes_now_and_then_does_not_end_yields() {
    let mut rank = Rank::new();
    for _ in 0..1000 {
        rank.yields(SLICE);
        rank.now += SLICE * (2 * SHARE);
        assert!(rank.may_yield());
    }
}

#[test]
fn little_time_is_lost_to_a_program_that_stays() {
    let mut rank = Rank::new();
    let (begin, mut lost) = (rank.now, Duration::ZERO);
    while rank.now < begin + Duration::from_secs(20) {
        if rank.may_yield() {
            rank.yields(SLICE);
            lost += SLICE;
        } else {
            rank.now += Duration::from_micros(50);
        }
    }
    let (all, slices) = (rank.now - begin, lost.as_millis() / SLICE.as_millis());
    assert!(slices < 60, "{slices} slices were lost in {all:?}");
}

#[test]
fn yields_to_ranks_of_the_own_job_do_not_count() {
    let mut rank = Rank::new();
    for _ in 0..100 {
        let begin = rank.now;
        rank.now += SLICE;
        rank.contention.yielded(begin, rank.now, || true);
        assert!(rank.may_yield());
    }
    rank.yields(SLICE);
    let begin = rank.now;
    rank.now += SLICE;
    rank.contention.yielded(begin, rank.now, || true);
    assert!(rank.may_yield(), "the second one did not go to somebody else");
    rank.yields(SLICE);
    assert!(!rank.may_yield());
}
