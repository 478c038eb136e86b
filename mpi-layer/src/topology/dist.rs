//! Graphs of which each rank knows its own edges.

use super::Neighbors;

/// The edges of a rank in a distributed graph. (MPI: "Distributed Graph Constructor".)
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DistGraph {
    pub(crate) sources: Vec<i32>,
    pub(crate) destinations: Vec<i32>,
    /// Of the sources, and of the destinations.
    pub(crate) weights: Option<(Vec<i32>, Vec<i32>)>,
}

impl DistGraph {
    /// Whom edges to this rank begin at.
    pub fn sources(&self) -> &[i32] {
        &self.sources
    }

    /// Whom edges from this rank lead to.
    pub fn destinations(&self) -> &[i32] {
        &self.destinations
    }

    /// The weights of the edges to this rank, if edges have weights.
    pub fn source_weights(&self) -> Option<&[i32]> {
        self.weights.as_ref().map(|(sources, _)| sources.as_slice())
    }

    /// The weights of the edges from this rank, if edges have weights.
    pub fn destination_weights(&self) -> Option<&[i32]> {
        self.weights.as_ref().map(|(_, destinations)| destinations.as_slice())
    }

    pub(super) fn neighbors(&self) -> Neighbors {
        let ranks = |all: &[i32]| all.iter().map(|&rank| Some(rank as u32)).collect();
        Neighbors {
            sources: ranks(&self.sources),
            destinations: ranks(&self.destinations),
            paired: false,
        }
    }
}
