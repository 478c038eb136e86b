//! Graphs that every rank knows as a whole.

use super::Neighbors;
use crate::error::MpiError;

/// A graph of ranks. (MPI: "Graph Constructor".)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    index: Vec<i32>,
    edges: Vec<i32>,
}

impl Graph {
    /// The graph of which rank r has the neighbours `edges[index[r - 1]..index[r]]`, the first one from 0 on.
    ///
    /// # Errors
    /// [`MpiError::InvalidGraph`].
    pub fn new(index: &[i32], edges: &[i32]) -> Result<Self, MpiError> {
        let ordered = index.first().is_none_or(|&first| first >= 0) && index.is_sorted();
        if !ordered {
            return Err(MpiError::InvalidGraph {
                why: "the index of a node is below the last one",
            });
        }
        if index.last().copied().unwrap_or(0) as usize != edges.len() {
            let why = "the index of the last node is not the number of edges";
            return Err(MpiError::InvalidGraph { why });
        }
        if edges.iter().any(|&rank| rank < 0 || rank as usize >= index.len()) {
            return Err(MpiError::InvalidGraph { why: "an edge leads to what is no node" });
        }
        Ok(Self { index: index.to_vec(), edges: edges.to_vec() })
    }

    /// Where the edges of each node end.
    pub fn index(&self) -> &[i32] {
        &self.index
    }

    /// The edges of all nodes, one after the other.
    pub fn edges(&self) -> &[i32] {
        &self.edges
    }

    /// Nodes.
    pub fn size(&self) -> usize {
        self.index.len()
    }

    /// The neighbours of a rank. (`MPI_Graph_neighbors`)
    ///
    /// # Errors
    /// [`MpiError::InvalidRank`].
    pub fn neighbors(&self, rank: i32) -> Result<&[i32], MpiError> {
        let size = self.index.len();
        if rank < 0 || rank as usize >= size {
            return Err(MpiError::InvalidRank { rank, size: size as u32 });
        }
        let rank = rank as usize;
        let from = rank.checked_sub(1).map_or(0, |before| self.index[before]);
        Ok(&self.edges[from as usize..self.index[rank] as usize])
    }

    pub(super) fn neighbors_of(&self, rank: u32) -> Neighbors {
        let all = self.neighbors(rank as i32).unwrap_or_default();
        let all: Vec<_> = all.iter().map(|&rank| Some(rank as u32)).collect();
        Neighbors { sources: all.clone(), destinations: all, paired: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_checked_and_has_its_neighbours() {
        let graph = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2]).unwrap();
        let found: Vec<&[i32]> = (0..4).map(|rank| graph.neighbors(rank).unwrap()).collect();
        assert_eq!(found, [&[1, 3][..], &[0], &[3], &[0, 2]]);
        assert!(graph.neighbors(4).is_err() && graph.neighbors(-1).is_err());
        let empty = Graph::new(&[], &[]).unwrap();
        assert_eq!((empty.size(), empty.neighbors(0).is_err()), (0, true));
        for (index, edges) in [
            (&[2, 1][..], &[0, 1][..]),
            (&[-1, 2], &[0, 1]),
            (&[1, 2], &[0]),
            (&[1, 2], &[0, 2]),
            (&[1, 2], &[0, -1]),
        ] {
            assert!(matches!(Graph::new(index, edges), Err(MpiError::InvalidGraph { .. })));
        }
    }
}
