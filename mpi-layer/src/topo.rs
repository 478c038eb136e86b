//! Process topologies: what a communicator says about which of its ranks are neighbours. (MPI: Virtual Topologies for
//! MPI Processes.)
//!
//! Here is how a communicator has a topology; below is how those of each kind are made, and the collectives between
//! neighbours. What a topology is, is in [`topology`](crate::topology). Rules. (1) A topology is made with its communicator and never changes. A duplicate has the same one;
//! every other communicator that is made of it has none, except a part of a grid. (2) Ranks keep their order: a
//! request to reorder them is taken as the permission that it is. (3) The lists of neighbours are made once, since
//! collectives go by them.

mod cart;
mod dist;
mod exchange;
mod graph;

use std::rc::Rc;

pub(crate) use self::exchange::block_of;
use crate::comm::{CommInner, Communicator};
use crate::error::MpiError;
use crate::group::Group;
use crate::topology::{Cart, DistGraph, Graph, Neighbors, Placed, Topology};

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
