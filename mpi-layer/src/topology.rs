//! Process topologies: which ranks are neighbours. (MPI: Virtual Topologies for MPI Processes.)
//!
//! How a communicator has one, and what it does with it, is in [`topo`](crate::topo).

mod cart;
mod dims;
mod dist;
mod graph;

pub use self::cart::Cart;
pub use self::dims::dims_create;
pub use self::dist::DistGraph;
pub use self::graph::Graph;

/// Which ranks of a communicator are neighbours. (MPI: Virtual Topologies for MPI Processes.)
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// A grid.
    Cart(Cart),
    /// A graph that every rank knows as a whole.
    Graph(Graph),
    /// A graph of which each rank knows its own edges.
    DistGraph(DistGraph),
}

/// A topology with the neighbours of this rank in it.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) topology: Topology,
    pub(crate) neighbors: Neighbors,
}

/// The neighbours of a rank. Nobody, which is what lies beyond the border of a grid, is `None`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Neighbors {
    /// Those that it receives from, in the order of blocks.
    pub(crate) sources: Vec<Option<u32>>,
    /// Those that it sends to, in the order of blocks.
    pub(crate) destinations: Vec<Option<u32>>,
    /// Whether the two neighbours in a dimension of a grid may be one: what is sent to the first of a pair arrives
    /// there as from the second.
    pub(crate) paired: bool,
}

impl Neighbors {
    /// The numbers of the sources in the order in which messages of one rank are to be received.
    pub(crate) fn receive_order(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.sources.len()).map(|index| if self.paired { index ^ 1 } else { index })
    }
}

impl Topology {
    pub(crate) fn neighbors(&self, rank: u32) -> Neighbors {
        match self {
            Self::Cart(cart) => cart.neighbors_of(rank),
            Self::Graph(graph) => graph.neighbors_of(rank),
            Self::DistGraph(graph) => graph.neighbors(),
        }
    }
}
