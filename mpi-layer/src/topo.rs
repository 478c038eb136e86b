//! Process topologies: what a communicator says about which of its ranks are neighbours. (MPI: Virtual Topologies for
//! MPI Processes.)
//!
//! Here is what a topology is and how a communicator has it; below are the kinds of them, and the collectives between
//! neighbours. Rules. (1) A topology is made with its communicator and never changes. A duplicate has the same one;
//! every other communicator that is made of it has none, except a part of a grid. (2) Ranks keep their order: a
//! request to reorder them is taken as the permission that it is. (3) The lists of neighbours are made once, since
//! collectives go by them.

mod cart;
mod dims;
mod dist;
mod exchange;
mod graph;

use std::rc::Rc;

pub use self::cart::Cart;
pub use self::dims::dims_create;
pub use self::dist::DistGraph;
pub(crate) use self::exchange::block_of;
pub use self::graph::Graph;
use crate::comm::{CommInner, Communicator};
use crate::error::MpiError;
use crate::group::Group;

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
    topology: Topology,
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
    fn neighbors(&self, rank: u32) -> Neighbors {
        match self {
            Self::Cart(cart) => cart.neighbors_of(rank),
            Self::Graph(graph) => graph.neighbors_of(rank),
            Self::DistGraph(graph) => graph.neighbors(),
        }
    }
}

impl Communicator {
    /// The topology, if there is one. (`MPI_Topo_test`)
    pub fn topology(&self) -> Option<&Topology> {
        self.placed().map(|placed| &placed.topology)
    }

    /// The grid of a communicator that has one.
    ///
    /// # Errors
    /// [`MpiError::NoTopology`].
    pub fn cart(&self) -> Result<&Cart, MpiError> {
        match self.topology() {
            Some(Topology::Cart(cart)) => Ok(cart),
            _ => Err(MpiError::NoTopology { needed: "Cartesian" }),
        }
    }

    /// The graph of a communicator that has one which every rank knows as a whole.
    ///
    /// # Errors
    /// [`MpiError::NoTopology`].
    pub fn graph(&self) -> Result<&Graph, MpiError> {
        match self.topology() {
            Some(Topology::Graph(graph)) => Ok(graph),
            _ => Err(MpiError::NoTopology { needed: "graph" }),
        }
    }

    /// The edges of this rank in a communicator that has a distributed graph.
    ///
    /// # Errors
    /// [`MpiError::NoTopology`].
    pub fn dist_graph(&self) -> Result<&DistGraph, MpiError> {
        match self.topology() {
            Some(Topology::DistGraph(graph)) => Ok(graph),
            _ => Err(MpiError::NoTopology { needed: "distributed graph" }),
        }
    }

    fn placed(&self) -> Option<&Rc<Placed>> {
        self.inner.placed.get()
    }

    /// The neighbours of this rank in any topology.
    pub(crate) fn neighbors(&self) -> Result<&Neighbors, MpiError> {
        let placed = self.placed().ok_or(MpiError::NoTopology { needed: "process" })?;
        Ok(&placed.neighbors)
    }

    /// Gives a topology to a communicator that was just made.
    fn take_topology(&self, topology: Topology) {
        let neighbors = topology.neighbors(self.inner.rank);
        self.inherit_topology(Some(&Rc::new(Placed { topology, neighbors })));
    }

    /// What a duplicate of this communicator is to have.
    pub(crate) fn inherited_topology(&self) -> Option<Rc<Placed>> {
        self.placed().cloned()
    }

    /// Gives a communicator that was just made the topology of the one that it is a duplicate of.
    pub(crate) fn inherit_topology(&self, placed: Option<&Rc<Placed>>) {
        if let Some(placed) = placed {
            let first = self.inner.placed.set(Rc::clone(placed));
            assert!(first.is_ok(), "a communicator gets a topology once");
        }
    }

    /// The communicator of the first `nodes` ranks with a topology; `None` at all others. Collective.
    fn create_placed(&self, nodes: u32, topology: Topology) -> Result<Option<Self>, MpiError> {
        let inner = &self.inner;
        let agreed = self.agree(inner.process.collectives.hash())?;
        if inner.rank >= nodes {
            return Ok(None);
        }
        let group = if nodes == inner.size {
            inner.group.clone()
        } else {
            Group::from_world_ranks(inner.group.world_ranks().take(nodes as usize).collect())
        };
        let made = CommInner::open(&inner.process, group, agreed)?;
        made.take_topology(topology);
        Ok(Some(made))
    }

    /// The checked rank of a neighbour.
    fn neighbor(&self, rank: i32) -> Result<u32, MpiError> {
        if (rank as u32) < self.inner.size {
            return Ok(rank as u32);
        }
        Err(MpiError::InvalidRank { rank, size: self.inner.size })
    }
}
