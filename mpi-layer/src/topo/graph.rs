//! Communicators with a graph that every rank knows as a whole.

use crate::comm::Communicator;
use crate::error::MpiError;
use crate::topology::{Graph, Topology};

impl Communicator {
    /// A communicator of the first ranks of this one with a graph, of which `index` and `edges` say what
    /// [`Graph::new`] says; `None` at the ranks that the graph has no node for. Ranks keep their order whether or not
    /// `reorder` allows another one. Collective, with the same arguments at all ranks. (`MPI_Graph_create`)
    ///
    /// # Errors
    /// [`MpiError::InvalidGraph`], also when there are more nodes than ranks; [`MpiError::TooManyCommunicators`], or a
    /// member's failure.
    pub fn graph_create(
        &self,
        index: &[i32],
        edges: &[i32],
        reorder: bool,
    ) -> Result<Option<Self>, MpiError> {
        let _ = reorder;
        let graph = self.fitting_graph(index, edges)?;
        self.create_placed(graph.size() as u32, Topology::Graph(graph))
    }

    /// A graph for which there are enough ranks.
    fn fitting_graph(&self, index: &[i32], edges: &[i32]) -> Result<Graph, MpiError> {
        if index.len() > self.inner.size as usize {
            return Err(MpiError::InvalidGraph { why: "it has more nodes than there are ranks" });
        }
        Graph::new(index, edges)
    }

    /// The rank that this one would have in a graph; `None` where it would have none. (`MPI_Graph_map`)
    ///
    /// # Errors
    /// Those of the arguments of [`graph_create`](Self::graph_create).
    pub fn graph_map(&self, index: &[i32], edges: &[i32]) -> Result<Option<i32>, MpiError> {
        let graph = self.fitting_graph(index, edges)?;
        Ok(Some(self.rank()).filter(|&rank| (rank as usize) < graph.size()))
    }
}
