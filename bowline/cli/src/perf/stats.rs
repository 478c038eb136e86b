//! Samples of time and what is shown of them.

use hdrhistogram::Histogram;

/// Times of single operations. Kept in tenths of a nanosecond with four digits.
#[derive(Clone, Debug)]
pub(crate) struct Samples(Histogram<u64>);

/// What is shown, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) mean: f64,
    pub(crate) p99: f64,
    pub(crate) min: f64,
}

/// Units of the histogram in a nanosecond.
const SCALE: f64 = 10.0;

impl Samples {
    pub(crate) fn new() -> Self {
        Self(Histogram::new(4).expect("four digits are within the histogram's limits"))
    }

    /// Notes that an operation took `ns`.
    pub(crate) fn record(&mut self, ns: f64) {
        let value = (ns * SCALE).round() as u64;
        self.0.record(value).expect("a histogram of any range grows as needed");
    }

    pub(crate) fn summary(&self) -> Summary {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / SCALE;
        Summary {
            median: at(0.5),
            mean: self.0.mean() / SCALE,
            p99: at(0.99),
            min: self.0.min() as f64 / SCALE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_known_samples() {
        let mut samples = Samples::new();
        for ns in 1..=1000 {
            samples.record(f64::from(ns));
        }
        let summary = samples.summary();
        let near = |a: f64, b: f64| (a - b).abs() <= b * 1e-3;
        assert!(near(summary.median, 500.0), "{summary:?}");
        assert!(near(summary.p99, 990.0), "{summary:?}");
        assert!(near(summary.mean, 500.5), "{summary:?}");
        assert_eq!(summary.min, 1.0);
    }

    #[test]
    fn long_and_short_times_fit() {
        let mut samples = Samples::new();
        samples.record(0.04);
        samples.record(63.7);
        samples.record(3.6e12);
        let summary = samples.summary();
        assert_eq!(summary.min, 0.0);
        assert_eq!(summary.median, 63.7);
        assert!(summary.p99 >= 3.59e12);
    }
}
