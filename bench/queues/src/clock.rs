//! Times of programs that are compared with each other on a machine that is not quiet.
//!
//! The contestants of a row run one after the other in each round, every round starts with another one, and each
//! runs long enough for the clock. A figure is the median over the rounds; a ratio of two
//! contestants is the median over the rounds of their ratio within a round, since what disturbs the
//! machine lasts longer than a round.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// What a run did: that much work, and a sum that is the same for all that did the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Matches, or whatever a row counts.
    pub(crate) work: u64,
    /// What was found, in order.
    pub(crate) sum: u64,
}

impl Done {
    /// Notes that `value` was found.
    #[inline(always)]
    pub(crate) fn found(&mut self, value: u64) {
        self.work += 1;
        self.sum = self.sum.wrapping_mul(31).wrapping_add(value);
    }
}

/// One of those that are compared.
pub(crate) struct Contestant<'a> {
    /// Its name.
    pub(crate) name: &'static str,
    /// One run; the state after it is as before it.
    pub(crate) run: Box<dyn FnMut() -> Done + 'a>,
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Rounds.
    pub(crate) rounds: usize,
    /// How long a contestant runs in a round at least.
    pub(crate) slice: Duration,
    /// A run that takes longer than this is measured in fewer rounds.
    pub(crate) patience: Duration,
}

/// Times of one contestant, in nanoseconds for each unit of work.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// Whose.
    pub(crate) name: &'static str,
    /// By round.
    rounds: Vec<f64>,
}

impl Times {
    /// How many rounds there were.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// The median.
    pub(crate) fn median(&self) -> f64 {
        median(&self.rounds)
    }

    /// The median of `self / other`, round by round.
    pub(crate) fn relative_to(&self, other: &Self) -> f64 {
        let ratios: Vec<f64> = self.rounds.iter().zip(&other.rounds).map(|(a, b)| a / b).collect();
        median(&ratios)
    }

    /// Half of the distance between the quartiles, as a part of the median.
    pub(crate) fn spread(&self) -> f64 {
        let mut sorted = self.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part).round() as usize];
        (at(0.75) - at(0.25)) / 2.0 / at(0.5)
    }
}

/// Adds the rounds of another comparison of the same contestants.
pub(crate) fn append(times: &mut [Times], more: Vec<Times>) {
    for (times, more) in times.iter_mut().zip(more) {
        debug_assert_eq!(times.name, more.name, "the same contestants in the same order");
        times.rounds.extend(more.rounds);
    }
}

/// The median of some numbers.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Most runs before the clock is read.
const SETTLING: u32 = 20;

/// Rounds of runs that are longer than patience: an engine that now and then tries something else
/// does so in fewer than half of them.
const LEAST: u128 = 5;

/// Runs the contestants, one after the other in each round.
///
/// # Errors
/// When they do not all do the same.
pub(crate) fn compare(effort: Effort, contestants: &mut [Contestant<'_>]) -> Result<Vec<Times>> {
    let mut runs = Vec::new();
    let mut expected: Option<(&str, Done)> = None;
    let mut slowest = Duration::ZERO;
    for Contestant { name, run } in contestants.iter_mut() {
        // The first runs make structures and say what is found; what adapts has time to do so.
        let warm = Instant::now();
        for settled in 0..SETTLING {
            let done = run();
            let &mut (first, expected) = expected.get_or_insert((name, done));
            if done != expected {
                bail!("{name} found {done:?} where {first} found {expected:?}");
            }
            if settled > 0 && warm.elapsed() > effort.patience / 10 {
                break;
            }
        }
        let start = Instant::now();
        run();
        let once = start.elapsed().max(Duration::from_nanos(20));
        slowest = slowest.max(once);
        runs.push((effort.slice.as_nanos() / once.as_nanos()).max(1) as u32);
    }
    let most = (effort.patience.as_nanos() / slowest.as_nanos().max(1)).max(LEAST);
    let rounds = effort.rounds.min(usize::try_from(most).unwrap_or(usize::MAX));
    let mut times: Vec<Times> = contestants
        .iter()
        .map(|contestant| Times { name: contestant.name, rounds: Vec::new() })
        .collect();
    for round in 0..rounds {
        for nth in 0..contestants.len() {
            let at = (round + nth) % contestants.len();
            let run = &mut contestants[at].run;
            let mut work = 0;
            let start = Instant::now();
            for _ in 0..runs[at] {
                work += run().work;
            }
            let ns = start.elapsed().as_nanos() as f64;
            times[at].rounds.push(ns / work.max(1) as f64);
        }
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFFORT: Effort =
        Effort { rounds: 3, slice: Duration::from_micros(1), patience: Duration::from_secs(1) };

    #[test]
    fn who_finds_something_else_is_an_error() {
        let contestant = |name, value| {
            let run = Box::new(move || {
                let mut done = Done::default();
                done.found(value);
                done
            });
            Contestant { name, run }
        };
        assert_eq!(
            compare(EFFORT, &mut [contestant("a", 1), contestant("b", 1)]).unwrap().len(),
            2
        );
        let error = compare(EFFORT, &mut [contestant("a", 1), contestant("b", 2)]).unwrap_err();
        assert!(error.to_string().starts_with("b found"), "{error}");
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let times = |rounds: &[f64]| Times { name: "t", rounds: rounds.to_vec() };
        let (a, b) = (times(&[2.0, 20.0, 200.0]), times(&[1.0, 10.0, 100.0]));
        assert_eq!(a.relative_to(&b), 2.0);
        assert_eq!(a.median(), 20.0);
        assert_eq!(times(&[1.0, 2.0, 3.0, 4.0, 5.0]).spread(), 1.0 / 3.0);
    }
}
