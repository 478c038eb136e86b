//! Graphs, those that every rank knows as a whole and those of which each knows its own edges.

use std::ffi::c_int;

use super::store;
use crate::arg::{In, Out};
use crate::communicator::{check_address, give};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Comm, Info};
use crate::library::infos;

mpi! {
    fn MPI_Graph_create(comm_old: Comm, nnodes: c_int, indx: In<c_int>, edges: In<c_int>,
                        reorder: c_int, comm_graph: Out<Comm>) on comm_old |mpi| {
        let object = mpi.comm(comm_old)?;
        let (index, edges) = graph(nnodes, indx, edges)?;
        check_address(comm_graph)?;
        let made = object.comm.graph_create(&index, &edges, reorder != 0)?;
        give(mpi, made, &object, comm_graph)
    }

    fn MPI_Graph_map(comm: Comm, nnodes: c_int, indx: In<c_int>, edges: In<c_int>,
                     newrank: Out<c_int>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let (index, edges) = graph(nnodes, indx, edges)?;
        newrank.set(object.comm.graph_map(&index, &edges)?.unwrap_or(MPI_UNDEFINED))
    }

    fn MPI_Graphdims_get(comm: Comm, nnodes: Out<c_int>, nedges: Out<c_int>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let graph = object.comm.graph()?;
        nnodes.set(graph.size() as c_int)?;
        nedges.set(graph.edges().len() as c_int)
    }

    fn MPI_Graph_get(comm: Comm, maxindex: c_int, maxedges: c_int, indx: Out<c_int>,
                     edges: Out<c_int>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let graph = object.comm.graph()?;
        space(graph.size(), maxindex, "nodes")?;
        space(graph.edges().len(), maxedges, "edges")?;
        store(graph.index(), indx)?;
        store(graph.edges(), edges)
    }

    fn MPI_Graph_neighbors_count(comm: Comm, rank: c_int, nneighbors: Out<c_int>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        nneighbors.set(object.comm.graph()?.neighbors(rank)?.len() as c_int)
    }

    fn MPI_Graph_neighbors(comm: Comm, rank: c_int, maxneighbors: c_int, neighbors: Out<c_int>)
        on comm |mpi| {
        let object = mpi.comm(comm)?;
        let found = object.comm.graph()?.neighbors(rank)?;
        space(found.len(), maxneighbors, "neighbours")?;
        store(found, neighbors)
    }

    fn MPI_Dist_graph_create_adjacent(comm_old: Comm, indegree: c_int, sources: In<c_int>,
                                      sourceweights: In<c_int>, outdegree: c_int,
                                      destinations: In<c_int>, destweights: In<c_int>, info: Info,
                                      reorder: c_int, comm_dist_graph: Out<Comm>) on comm_old |mpi| {
        let object = mpi.comm(comm_old)?;
        let (ins, outs) = (number(indegree, "indegree")?, number(outdegree, "outdegree")?);
        let (sources, destinations) = (sources.array(ins)?, destinations.array(outs)?);
        let of_sources = weights(sourceweights, ins)?;
        let of_destinations = weights(destweights, outs)?;
        infos::pairs_or_none(info)?;
        check_address(comm_dist_graph)?;
        let made = object.comm.dist_graph_create_adjacent(
            (&sources, of_sources.as_deref()), (&destinations, of_destinations.as_deref()), reorder != 0,
        )?;
        give(mpi, Some(made), &object, comm_dist_graph)
    }

    fn MPI_Dist_graph_create(comm_old: Comm, n: c_int, sources: In<c_int>, degrees: In<c_int>,
                             destinations: In<c_int>, weights: In<c_int>, info: Info,
                             reorder: c_int, comm_dist_graph: Out<Comm>) on comm_old |mpi| {
        let object = mpi.comm(comm_old)?;
        let nodes = number(n, "n")?;
        let (sources, degrees) = (sources.array(nodes)?, degrees.array(nodes)?);
        let mut edges = 0;
        for &degree in &degrees {
            edges += number(degree, "a degree")?;
        }
        let destinations = destinations.array(edges)?;
        let weights = self::weights(weights, edges)?;
        infos::pairs_or_none(info)?;
        check_address(comm_dist_graph)?;
        let made = object.comm.dist_graph_create(
            &sources, &degrees, (&destinations, weights.as_deref()), reorder != 0,
        )?;
        give(mpi, Some(made), &object, comm_dist_graph)
    }

    fn MPI_Dist_graph_neighbors_count(comm: Comm, indegree: Out<c_int>, outdegree: Out<c_int>,
                                      weighted: Out<c_int>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let graph = object.comm.dist_graph()?;
        indegree.set(graph.sources().len() as c_int)?;
        outdegree.set(graph.destinations().len() as c_int)?;
        weighted.set(graph.source_weights().is_some().into())
    }

    fn MPI_Dist_graph_neighbors(comm: Comm, maxindegree: c_int, sources: Out<c_int>,
                                sourceweights: Out<c_int>, maxoutdegree: c_int,
                                destinations: Out<c_int>, destweights: Out<c_int>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let graph = object.comm.dist_graph()?;
        let ins = number(maxindegree, "maxindegree")?;
        let outs = number(maxoutdegree, "maxoutdegree")?;
        let of_sources = (sources, sourceweights);
        store_edges((graph.sources(), graph.source_weights()), ins, of_sources)?;
        let of_destinations = (destinations, destweights);
        store_edges((graph.destinations(), graph.destination_weights()), outs, of_destinations)
    }
}

/// A number of nodes or edges.
fn number(number: c_int, what: &str) -> Result<usize, Fault> {
    usize::try_from(number).map_err(|_| fault(MPI_ERR_ARG, format!("{what} is {number}")))
}

/// The index and the edges of a graph.
fn graph(
    nnodes: c_int,
    indx: In<c_int>,
    edges: In<c_int>,
) -> Result<(Vec<c_int>, Vec<c_int>), Fault> {
    let index = indx.array(number(nnodes, "nnodes")?)?;
    // The core sees whether the others are in order.
    let count = number(index.last().copied().unwrap_or(0), "the last index")?;
    Ok((index, edges.array(count)?))
}

/// The weights of so many edges; none where edges have no weights.
fn weights(list: In<c_int>, count: usize) -> Result<Option<Vec<c_int>>, Fault> {
    match list.address().addr() {
        MPI_UNWEIGHTED => Ok(None),
        MPI_WEIGHTS_EMPTY if count == 0 => Ok(Some(Vec::new())),
        MPI_WEIGHTS_EMPTY => {
            let text = format!("MPI_WEIGHTS_EMPTY stands for the weights of {count} edges");
            Err(fault(MPI_ERR_ARG, text))
        }
        _ => list.array(count).map(Some),
    }
}

fn space(count: usize, max: c_int, what: &str) -> Result<(), Fault> {
    if number(max, "the capacity")? >= count {
        return Ok(());
    }
    Err(fault(MPI_ERR_ARG, format!("there is space for {max} of {count} {what}")))
}

/// Stores as many edges as there is space for, with their weights if they have any and the program wants them.
fn store_edges(
    (ranks, weights): (&[c_int], Option<&[c_int]>),
    max: usize,
    (to, weights_to): (Out<c_int>, Out<c_int>),
) -> Result<(), Fault> {
    let count = ranks.len().min(max);
    store(&ranks[..count], to)?;
    match (weights, weights_to.address().addr()) {
        (None, _) | (_, MPI_UNWEIGHTED | MPI_WEIGHTS_EMPTY) => Ok(()),
        (Some(weights), _) => store(&weights[..count], weights_to),
    }
}
