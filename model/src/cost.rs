//! The pipelining latency-bandwidth model: what it takes a process to send several short messages one after the
//! other. (Thesis, chapter 4.)
//!
//! It says what the process sees on its own clock, and no more: nothing of the network's insides, nothing of the
//! receiver, no congestion. Only the ratio of its two parameters matters to the choice of an algorithm.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The two parameters, in one unit of time, whatever that is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "the two parameters of the published model")]
pub struct Pipelining {
    /// The part of the start-up cost that overlaps other messages, alpha_p: the way there and the acknowledgement.
    pub pipelining: f64,
    /// The part that the process is busy with, alpha_r: one message after the other.
    pub required: f64,
}

/// Why numbers are no parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum CostError {
    /// Both have to be finite, and at least 0: a fit that says otherwise rejects the model.
    Unphysical {
        /// alpha_p.
        pipelining: f64,
        /// alpha_r.
        required: f64,
    },
}

impl std::fmt::Display for CostError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::Unphysical { pipelining, required } = self;
        write!(
            out,
            "alpha_p = {pipelining:.4} and alpha_r = {required:.4} describe no network: the model does not \
             fit messages of this size"
        )
    }
}

impl std::error::Error for CostError {}

impl Pipelining {
    /// What was measured on a Cray XC30 with messages of 8 bytes, in microseconds. (Thesis, table 4.1.)
    pub const ARCHER: Self = Self { pipelining: 0.88, required: 0.38 };

    /// Parameters that were fitted.
    ///
    /// # Errors
    /// [`CostError::Unphysical`].
    pub fn new(pipelining: f64, required: f64) -> Result<Self, CostError> {
        let fits = |value: f64| value.is_finite() && value >= 0.0;
        if fits(pipelining) && fits(required) {
            return Ok(Self { pipelining, required });
        }
        Err(CostError::Unphysical { pipelining, required })
    }

    /// How long the sender of `width` messages is busy. (Equation 4.4.)
    pub fn sender(self, width: u32) -> f64 {
        f64::from(width) * self.required
    }

    /// How long one message takes, acknowledgement included. (Equation 4.5.)
    pub fn message(self) -> f64 {
        self.multicast(1)
    }

    /// How long `width` messages to different processes take. (Equation 4.6.)
    pub fn multicast(self, width: u32) -> f64 {
        self.pipelining + self.sender(width)
    }

    /// The least time in which what one process has comes to all of `ranks`, where each that has it sends it on to one
    /// after the other. No allreduce of this model takes less: the value of each rank has to come to all others.
    pub fn reach(self, ranks: u32) -> f64 {
        // When the next message of each process that sends is there. The bits of floats that are not negative are
        // in the order of the floats.
        let mut arrivals = BinaryHeap::from([Reverse(self.message().to_bits())]);
        let mut time = 0.0;
        for _ in 1..ranks {
            let Some(Reverse(bits)) = arrivals.pop() else { break };
            time = f64::from_bits(bits);
            arrivals.push(Reverse((time + self.required).to_bits()));
            arrivals.push(Reverse((time + self.message()).to_bits()));
        }
        time
    }

    /// alpha_p / alpha_r: how many messages fit into the latency of one. Infinite where messages cost their sender
    /// nothing.
    pub fn ratio(self) -> f64 {
        self.pipelining / self.required
    }
}

/// The width of multicasts at which recursive multiplying takes least time, for a ratio of the parameters. Below
/// 1 it is recursive doubling that is best. (Equation 5.8.)
pub fn best_width(ratio: f64) -> f64 {
    // The root of (b + 1) ln(b + 1) - b = c, whose left side grows.
    bisect(0.0, |b| (b + 1.0) * (b + 1.0).ln() - b - ratio)
}

/// The width up to which multicasts are no slower than recursive doubling; at least 1. (Equation 5.9.)
pub fn break_even_width(ratio: f64) -> f64 {
    // (c + b) log 2 / log(b + 1) = c + 1 has the root 1 and another one, on the other side of the best width.
    let best = best_width(ratio);
    if best <= 1.0 {
        return 1.0;
    }
    bisect(best, |b| (ratio + b) - (ratio + 1.0) * (b + 1.0).log2())
}

/// The greatest factor of a schedule that is worth its messages.
pub fn factor_cap(ratio: f64) -> u32 {
    // A ratio that is infinite makes all of them so.
    break_even_width(ratio).floor().min(f64::from(u32::MAX - 1)) as u32 + 1
}

/// The root of a function that grows from a negative value at `low` on.
fn bisect(low: f64, f: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low, low.max(1.0));
    while f(high) < 0.0 {
        if high > 1e12 {
            return f64::INFINITY;
        }
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..200 {
        let middle = low.midpoint(high);
        if f(middle) < 0.0 { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ratio, best width, break-even width, cap: computed apart from this code from equations 5.8 and 5.9.
    const WIDTHS: &[(f64, f64, f64, u32)] = &[
        (0.4, 1.02, 1.04, 2),
        (1.2, 1.91, 3.74, 4),
        (2.1, 2.67, 7.44, 8),
        (2.316, 2.83, 8.41, 9),
        (2.4, 2.89, 8.79, 9),
        (2.911, 3.258, 11.2, 12),
        (5.0, 4.57, 22.2, 23),
    ];

    #[test]
    fn widths_are_those_of_the_equations() {
        for &(ratio, best, even, cap) in WIDTHS {
            assert!((best_width(ratio) - best).abs() < 0.006, "{ratio}: {}", best_width(ratio));
            assert!((break_even_width(ratio) / even - 1.0).abs() < 0.006, "{ratio}");
            assert_eq!(factor_cap(ratio), cap, "{ratio}");
        }
    }

    #[test]
    fn without_overlap_nothing_beats_doubling() {
        for ratio in [0.0, 0.1, 0.386] {
            assert!(best_width(ratio) <= 1.0);
            assert_eq!((break_even_width(ratio), factor_cap(ratio)), (1.0, 2));
        }
        assert!(best_width(0.387) > 1.0, "2 ln 2 - 1 = 0.3863 is the limit");
    }

    #[test]
    fn a_sender_that_is_never_busy_takes_any_factor() {
        let free = Pipelining::new(1.0, 0.0).unwrap();
        assert_eq!(free.multicast(1000), 1.0);
        assert_eq!(factor_cap(free.ratio()), u32::MAX);
    }

    #[test]
    fn times_are_those_of_the_equations() {
        let archer = Pipelining::ARCHER;
        assert!((archer.sender(3) - 1.14).abs() < 1e-12);
        assert!((archer.message() - 1.26).abs() < 1e-12);
        assert!((archer.multicast(3) - 2.02).abs() < 1e-12);
        assert!((archer.ratio() - 2.316).abs() < 0.001);
    }

    #[test]
    fn what_a_process_has_comes_to_as_many_as_the_postal_model_says() {
        // Nothing overlaps: twice as many in each step. A latency of two sends: the numbers of Fibonacci.
        for (pipelining, ranks) in [(0.0, [1, 2, 4, 8, 16, 32]), (1.0, [1, 1, 2, 3, 5, 8])] {
            let cost = Pipelining::new(pipelining, 1.0).unwrap();
            for (time, ranks) in (0..).zip(ranks).skip(2) {
                assert_eq!(cost.reach(ranks), f64::from(time), "{pipelining} {ranks}");
                assert_eq!(cost.reach(ranks + 1), f64::from(time + 1), "{pipelining} {ranks}");
            }
            assert_eq!(cost.reach(1), 0.0);
        }
        // In a single stage all messages are those of one process; with more ranks others help.
        assert_eq!(Pipelining::ARCHER.reach(4), Pipelining::ARCHER.multicast(3));
        assert!(Pipelining::ARCHER.reach(6) < Pipelining::ARCHER.multicast(5));
    }

    #[test]
    fn a_fit_beyond_the_model_is_refused() {
        // Thesis, table 4.1: 128 KB.
        let error = Pipelining::new(-0.12, 30.1).unwrap_err();
        assert!(error.to_string().contains("alpha_p = -0.12"), "{error}");
        assert!(Pipelining::new(f64::NAN, 1.0).is_err());
    }
}
