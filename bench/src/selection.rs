//! Whether Bowline's choice among the means by which a long message may come is a good one: its own choice
//! beside every means that a setting can force, and beside the peers.
//!
//! What it is: the means as settings, and what a cell of the table is. Cells are computed from the rows of a comparison
//! by [`crate::choices`]. It starts nothing.
//!
//! Rules:
//! 1. Figures of different distances of the two processors are never compared: a sample belongs to the distance
//!    that two bare lines showed before and after it, and to none where the two differ.
//! 2. A cell is there only if its own choice and at least one forced means have samples at its distance.
//! 3. The best of several noisy figures is too low. So a cell's quotient is one of medians, and the limit is
//!    [`CLOSE`], not 1.

use serde::Serialize;

use crate::metric::Metric;

/// A choice is good if it takes at most this many times as long as the best forced means.
pub(crate) const CLOSE: f64 = 1.1;

/// Distances are two if the larger one is this many times the smaller one.
pub(crate) const APART: f64 = 2.0;

/// How messages come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Means {
    /// The name in the table.
    pub(crate) name: &'static str,
    /// What the Rust interface with it is called as a source.
    pub(crate) rust: &'static str,
    /// What the C library with it is called as a source.
    pub(crate) c: &'static str,
    /// The settings that force it.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// The shortest message that it can carry, bytes.
    pub(crate) from: u64,
}

/// The choice that is judged.
pub(crate) const OWN: Means =
    Means { name: "own", rust: "bowline", c: "bowline-abi", variables: &[], from: 0 };

/// The choice by costs that are known before; shown, and not counted as forced.
pub(crate) const STATIC: Means = Means {
    name: "static",
    rust: "bowline-static",
    c: "bowline-abi-static",
    variables: &[("BOWLINE_SELECT", "static")],
    from: 0,
};

/// The means that settings force.
pub(crate) const FORCED: [Means; 4] = [
    // Without credit for all of them, long messages that come before their receives would be offered.
    Means {
        name: "pieces",
        rust: "bowline-pieces",
        c: "bowline-abi-pieces",
        variables: &[("BOWLINE_RNDV_THRESHOLD", "1g"), ("BOWLINE_EAGER_SHARE_FIRST", "1g")],
        from: 0,
    },
    Means {
        name: "fragments",
        rust: "bowline-fragments",
        c: "bowline-abi-fragments",
        variables: &[("BOWLINE_RNDV_THRESHOLD", "8k"), ("BOWLINE_RNDV_SCHEME", "copy")],
        from: 0,
    },
    Means {
        name: "read",
        rust: "bowline-read",
        c: "bowline-abi-read",
        variables: &[
            ("BOWLINE_RNDV_THRESHOLD", "8k"),
            ("BOWLINE_RNDV_SCHEME", "get"),
            ("BOWLINE_COOPERATE", "1g"),
        ],
        from: 0,
    },
    Means {
        name: "shared",
        rust: "bowline-shared",
        c: "bowline-abi-shared",
        variables: &[
            ("BOWLINE_RNDV_THRESHOLD", "8k"),
            ("BOWLINE_RNDV_SCHEME", "get"),
            ("BOWLINE_COOPERATE", "64k"),
        ],
        from: 64 << 10,
    },
];

/// All means beside [`OWN`], in the order of the table.
pub(crate) fn others() -> impl Iterator<Item = Means> {
    std::iter::once(STATIC).chain(FORCED)
}

/// One figure of one source within a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measure {
    /// The means, or the peer's name as a source.
    pub name: String,
    /// Median over the rounds at this distance, ns per message.
    pub median_ns: f64,
    /// Least and largest of the rounds.
    pub spread_ns: [f64; 2],
    /// Rounds at this distance.
    pub rounds: usize,
}

/// A test at a size through one interface at one distance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SelectionCell {
    /// The metric's name.
    pub name: String,
    /// The metric.
    #[serde(flatten)]
    pub metric: Metric,
    /// Whether it is the C library; the Rust interface otherwise.
    pub c: bool,
    /// Least and largest time between two bare lines at this distance, ns.
    pub line_ns: [f64; 2],
    /// Whether this is the larger one of two distances.
    pub far: bool,
    /// Bowline's own choice.
    pub own: Measure,
    /// The choice by known costs.
    pub by_costs: Option<Measure>,
    /// What was forced.
    pub forced: Vec<Measure>,
    /// The best peer.
    pub peer: Option<Measure>,
}

impl SelectionCell {
    /// The quickest forced means.
    pub(crate) fn best_forced(&self) -> Option<&Measure> {
        self.forced.iter().min_by(|a, b| a.median_ns.total_cmp(&b.median_ns))
    }

    /// The time of `measure` in that of the quickest forced means.
    pub(crate) fn to_best(&self, measure: &Measure) -> Option<f64> {
        Some(measure.median_ns / self.best_forced()?.median_ns)
    }

    /// How many times faster than the best peer the own choice is.
    pub(crate) fn to_peer(&self) -> Option<f64> {
        Some(self.peer.as_ref()?.median_ns / self.own.median_ns)
    }
}

/// What two bare lines say of a sample, by what they took before it and after it: nothing, if the processors moved.
pub(crate) fn steady(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let (before, after) = (before?, after?);
    let (low, high) = (before.min(after), before.max(after));
    (high <= APART * low).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_in_which_processors_moved_have_no_distance() {
        assert_eq!(steady(Some(55.0), Some(60.0)), Some(55.0));
        assert_eq!(steady(Some(55.0), Some(270.0)), None);
        assert_eq!(steady(None, Some(270.0)), None);
    }

    #[test]
    fn means_have_names_of_their_own() {
        let mut names: Vec<&str> =
            others().chain([OWN]).flat_map(|means| [means.rust, means.c, means.name]).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count), (18, 18));
    }
}
