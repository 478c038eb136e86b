//! Communicators with a graph of which each rank knows its own edges.
//!
//! Edges that ranks declare for others are brought to both of their ends. They are in the order of the ranks that
//! have declared them, and of each in the order in which it has: so several edges between two ranks are in one order
//! at both, which is what the collectives between neighbours go by.

use crate::coll::calls::Partition;
use crate::comm::{CommInner, Communicator};
use crate::error::{MpiError, length};
use crate::topology::{DistGraph, Topology};

/// The edge leads from the rank that receives this record.
const FROM: i32 = 0;
/// The edge leads to the rank that receives this record.
const TO: i32 = 1;

/// Success when weights are as many as edges, and not negative.
fn check_weights(edges: usize, weights: Option<&[i32]>) -> Result<(), MpiError> {
    let Some(weights) = weights else { return Ok(()) };
    length("the weights of edges", edges, weights.len())?;
    if weights.iter().any(|&weight| weight < 0) {
        return Err(MpiError::InvalidGraph { why: "the weight of an edge is negative" });
    }
    Ok(())
}

impl Communicator {
    /// A communicator of the same ranks with a graph, each edge of which both of its ends declare: the ranks that this
    /// one receives from, and those that it sends to. Weights of 0 or more are given by all ranks or by none, and
    /// change nothing. Ranks keep their order whether or not `reorder` allows another one. Collective.
    /// (`MPI_Dist_graph_create_adjacent`)
    ///
    /// Whether both ends have declared an edge is not checked: programs make graphs of which they only ask. A
    /// collective between neighbours waits for ever where an edge has one end.
    ///
    /// # Errors
    /// [`MpiError::InvalidRank`], [`MpiError::InvalidLength`] and [`MpiError::InvalidGraph`] for wrong edges and
    /// weights; [`MpiError::TooManyCommunicators`], or a member's failure.
    pub fn dist_graph_create_adjacent(
        &self,
        (sources, source_weights): (&[i32], Option<&[i32]>),
        (destinations, destination_weights): (&[i32], Option<&[i32]>),
        reorder: bool,
    ) -> Result<Self, MpiError> {
        let _ = reorder;
        for (edges, weights) in [(sources, source_weights), (destinations, destination_weights)] {
            edges.iter().try_for_each(|&rank| self.neighbor(rank).map(drop))?;
            check_weights(edges.len(), weights)?;
        }
        let weights = match (source_weights, destination_weights) {
            (Some(of_sources), Some(of_destinations)) => {
                Some((of_sources.to_vec(), of_destinations.to_vec()))
            }
            (None, None) => None,
            _ => {
                let why = "some of the edges of a rank have weights, and some have none";
                return Err(MpiError::InvalidGraph { why });
            }
        };
        let (sources, destinations) = (sources.to_vec(), destinations.to_vec());
        self.with_dist_graph(DistGraph { sources, destinations, weights })
    }

    /// A communicator of the same ranks with a graph, any edges of which any rank declares: `sources` are where some
    /// edges begin, `degrees` says how many begin there, and `destinations` where they lead to, those of the first
    /// source first. Weights as for [`dist_graph_create_adjacent`](Self::dist_graph_create_adjacent), one for each
    /// destination. Collective. (`MPI_Dist_graph_create`)
    ///
    /// # Errors
    /// As for [`dist_graph_create_adjacent`](Self::dist_graph_create_adjacent).
    pub fn dist_graph_create(
        &self,
        sources: &[i32],
        degrees: &[i32],
        (destinations, weights): (&[i32], Option<&[i32]>),
        reorder: bool,
    ) -> Result<Self, MpiError> {
        let _ = reorder;
        length("the degrees of nodes", sources.len(), degrees.len())?;
        if degrees.iter().any(|&degree| degree < 0) {
            return Err(MpiError::InvalidGraph { why: "the degree of a node is negative" });
        }
        let edges = degrees.iter().map(|&degree| degree as usize).sum();
        length("the destinations of edges", edges, destinations.len())?;
        check_weights(edges, weights)?;
        let begin = sources.iter().zip(degrees);
        let begin = begin.flat_map(|(&rank, &degree)| std::iter::repeat_n(rank, degree as usize));
        // The records that each rank receives: which end of an edge it is, the other end, the weight.
        let mut records: Vec<Vec<[i32; 3]>> = vec![Vec::new(); self.inner.size as usize];
        for (index, (from, &to)) in begin.zip(destinations).enumerate() {
            let weight = weights.map_or(1, |weights| weights[index]);
            records[self.neighbor(from)? as usize].push([FROM, to, weight]);
            records[self.neighbor(to)? as usize].push([TO, from, weight]);
        }
        sources.iter().try_for_each(|&rank| self.neighbor(rank).map(drop))?;
        self.with_dist_graph(self.gather_edges(&records, weights.is_some())?)
    }

    /// Brings edges to their ends. Ranks that declare none need not say whether edges have weights.
    fn gather_edges(
        &self,
        records: &[Vec<[i32; 3]>],
        weighted: bool,
    ) -> Result<DistGraph, MpiError> {
        self.compare_choices()?;
        let none = records.iter().all(Vec::is_empty);
        let kind = if none { 0 } else { 1 + u64::from(weighted) };
        let own: Vec<[u64; 2]> = records.iter().map(|edges| [edges.len() as u64, kind]).collect();
        let mut counts = vec![[0; 2]; own.len()];
        self.alltoall(&own, &mut counts)?;
        let kinds = |kind| counts.iter().any(|&[_, other]| other == kind);
        if kinds(1) && kinds(2) {
            let why = "some ranks give weights of edges, and some give none";
            return Err(MpiError::InvalidGraph { why });
        }
        let weighted = if kinds(1) || kinds(2) { kinds(2) } else { weighted };
        let sent: Vec<usize> = records.iter().map(Vec::len).collect();
        let received: Vec<usize> = counts.iter().map(|&[count, _]| count as usize).collect();
        let starts = |counts: &[usize]| -> Vec<usize> {
            let start = |at: &mut usize, count: &usize| Some(std::mem::replace(at, *at + count));
            counts.iter().scan(0, start).collect()
        };
        let mut edges = vec![[0; 3]; received.iter().sum()];
        self.alltoallv(
            &records.concat(),
            Partition::new(&sent, &starts(&sent)),
            &mut edges,
            Partition::new(&received, &starts(&received)),
        )?;
        let ends = |end: i32, field: usize| -> Vec<i32> {
            edges.iter().filter(|edge| edge[0] == end).map(|edge| edge[field]).collect()
        };
        let weights = weighted.then(|| (ends(TO, 2), ends(FROM, 2)));
        Ok(DistGraph { sources: ends(TO, 1), destinations: ends(FROM, 1), weights })
    }

    fn with_dist_graph(&self, graph: DistGraph) -> Result<Self, MpiError> {
        let agreed = self.agree(self.inner.process.collectives.hash())?;
        let made = CommInner::open(&self.inner.process, self.inner.group.clone(), agreed)?;
        made.take_topology(Topology::DistGraph(graph));
        Ok(made)
    }
}
