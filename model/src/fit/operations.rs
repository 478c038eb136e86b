//! What operations on vectors take for each byte, from times of vectors of several lengths: the slope of the line
//! through them.
//!
//! The costs `copy`, `reduce`, `pairs`, `scalar` and `function` of [`Costs`] are such slopes. What a call takes beside
//! its bytes is no cost. The caller says which operation stands for each: this module knows the names only.

use super::Statistic;
use super::line::{FittedLine, line};
use crate::coll::price::Costs;

/// Times of one operation on vectors of one length.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "json",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[expect(clippy::exhaustive_structs, reason = "callers that measure make them")]
pub struct Timed {
    /// The cost that it stands for, one of [`Costs::OPERATIONS`].
    pub cost: String,
    /// Bytes of a vector.
    pub bytes: u64,
    /// Nanoseconds, one time for each repetition.
    pub times: Vec<f64>,
}

/// The lines through the times of each cost, in the order of [`Costs::OPERATIONS`]. Costs of which there are fewer than two
/// lengths are left out, and those whose times do not grow with the length, which were disturbed.
pub fn per_byte(timed: &[Timed], statistic: Statistic) -> Vec<(&'static str, FittedLine)> {
    let of = |name: &'static str| {
        let all = timed.iter().filter(|of| of.cost == name);
        let points: Vec<_> =
            all.filter_map(|of| Some((of.bytes as f64, statistic.of(&of.times)?))).collect();
        let line = line(&points, "lengths").ok().filter(|line| line.slope > 0.0)?;
        Some((name, line))
    };
    Costs::OPERATIONS.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(cost: &str, bytes: u64, times: &[f64]) -> Timed {
        Timed { cost: cost.to_owned(), bytes, times: times.to_vec() }
    }

    #[test]
    fn a_byte_takes_the_slope_over_lengths() {
        let all = [
            timed("pairs", 1000, &[130.0, 120.0, 900.0]),
            timed("pairs", 3000, &[320.0, 330.0, 900.0]),
            timed("reduce", 1000, &[30.0]),
            timed("copy", 1000, &[30.0]),
            timed("copy", 2000, &[20.0]),
        ];
        let found = per_byte(&all, Statistic::Minimum);
        // Of one length there is no slope, and what falls with the length was disturbed.
        assert!(matches!(&found[..], [("pairs", line)] if (line.slope - 0.1).abs() < 1e-12));
        let median = per_byte(&all, Statistic::Median);
        assert!((median[0].1.slope - 0.1).abs() < 1e-12 && median[0].1.intercept > 20.0);
    }
}
