//! The parameters as functions of the size of messages.
//!
//! Between measured sizes both are interpolated, on straight pieces from one size to the next. A single line through
//! all sizes is fitted beside it, for its slope and for how well it explains the measurement. Choices do not go by it:
//! least squares over sizes serve the long messages (on the published network the line explains 0.9999 of alpha_r's
//! variance and is 8 % off at 8 bytes), and where a transport changes its protocol there is a step.

use super::SizeFit;
use super::line::{FittedLine, line};
use crate::cost::{CostError, Pipelining};

/// alpha_p(n) and alpha_r(n).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BySize {
    /// Sizes at which the model holds, with the parameters, in order of size; at least one.
    points: Vec<(u64, Pipelining)>,
    /// Sizes at which it does not, with the reason, in order.
    pub rejected: Vec<(u64, CostError)>,
    /// alpha_p as a line over the size; `None` of one size.
    pub pipelining: Option<FittedLine>,
    /// alpha_r as a line over the size: its slope is the cost of a byte. `None` of one size.
    pub required: Option<FittedLine>,
}

impl BySize {
    /// The functions through fits; `None` where the model holds at no size.
    pub fn of(fits: &[SizeFit]) -> Option<Self> {
        let points = fits.iter().filter_map(|fit| Some((fit.size, fit.cost.ok()?)));
        let mut functions = Self::through(points.collect())?;
        functions.rejected = fits.iter().filter_map(|f| Some((f.size, f.cost.err()?))).collect();
        functions.rejected.sort_by_key(|one| one.0);
        Some(functions)
    }

    /// The functions through parameters of sizes, in any order, each size once; `None` through nothing.
    pub fn through(mut points: Vec<(u64, Pipelining)>) -> Option<Self> {
        points.sort_by_key(|point| point.0);
        points.dedup_by_key(|point| point.0);
        let affine = |of: fn(Pipelining) -> f64| {
            let points: Vec<_> = points.iter().map(|&(n, cost)| (n as f64, of(cost))).collect();
            line(&points, "sizes").ok()
        };
        let (pipelining, required) = (affine(|c| c.pipelining), affine(|c| c.required));
        (!points.is_empty()).then_some(Self { points, rejected: Vec::new(), pipelining, required })
    }

    /// Sizes with their parameters, in order.
    pub fn points(&self) -> &[(u64, Pipelining)] {
        &self.points
    }

    /// The parameters at a size. Below the least size they are that one's. Above the greatest, alpha_p is that one's
    /// and alpha_r grows along the last piece. `None` from the least size on that is above all good ones and was
    /// rejected: the model does not hold there.
    pub fn at(&self, size: u64) -> Option<Pipelining> {
        let (last, cost) = *self.points.last()?;
        let bound = self.rejected.iter().map(|one| one.0).find(|&rejected| rejected > last);
        if bound.is_some_and(|bound| size >= bound) {
            return None;
        }
        let after = self.points.partition_point(|point| point.0 < size);
        if after == 0 {
            return Some(self.points[0].1);
        }
        if after == self.points.len() {
            let rise = match self.points[..] {
                [.., (before, low), (end, high)] => {
                    (high.required - low.required).max(0.0) / (end - before) as f64
                }
                _ => 0.0,
            };
            return Some(Pipelining {
                required: cost.required + rise * (size - last) as f64,
                ..cost
            });
        }
        let ((from, low), (to, high)) = (self.points[after - 1], self.points[after]);
        let part = (size - from) as f64 / (to - from) as f64;
        let between = |low: f64, high: f64| low + part * (high - low);
        Some(Pipelining {
            pipelining: between(low.pipelining, high.pipelining),
            required: between(low.required, high.required),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(pipelining: f64, required: f64) -> Pipelining {
        Pipelining::new(pipelining, required).unwrap()
    }

    #[test]
    fn between_sizes_the_parameters_lie_on_straight_pieces() {
        let points = vec![(1000, cost(5.0, 3.0)), (8, cost(1.0, 1.0)), (504, cost(1.0, 2.0))];
        let by_size = BySize::through(points).unwrap();
        let at = |size| by_size.at(size).unwrap();
        assert_eq!((at(0), at(8)), (cost(1.0, 1.0), cost(1.0, 1.0)));
        assert_eq!(at(256), cost(1.0, 1.5));
        assert_eq!(at(752), cost(3.0, 2.5));
        // Beyond: 1 in 496 bytes, as in the last piece.
        assert_eq!(at(1000 + 496), cost(5.0, 4.0));
    }

    #[test]
    fn one_size_holds_for_all_and_none_for_none() {
        let one = BySize::through(vec![(64, cost(2.0, 1.0))]).unwrap();
        assert_eq!((one.at(1), one.at(1 << 20)), (Some(cost(2.0, 1.0)), Some(cost(2.0, 1.0))));
        assert_eq!(one.required, None);
        assert_eq!(BySize::through(Vec::new()), None);
    }
}
