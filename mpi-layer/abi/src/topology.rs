//! Chapter: process topologies, of which grids are here.
//!
//! A communicator with a topology has the error handler of the one that it was made of, and none of its attributes,
//! its name or its hints.

mod graph;

use std::ffi::c_int;

use bowline_mpi::{Topology, dims_create};

use crate::arg::{In, Out};
use crate::communicator::{check_address, give};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::Comm;

mpi! {
    fn MPI_Topo_test(comm: Comm, status: Out<c_int>) on comm |mpi| {
        status.set(match mpi.comm(comm)?.comm.topology() {
            Some(Topology::Cart(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::DistGraph(_)) => MPI_DIST_GRAPH,
            _ => MPI_UNDEFINED,
        })
    }

    fn MPI_Dims_create(nnodes: c_int, ndims: c_int, dims: Out<c_int>) |_mpi| {
        let mut found = dims.input().array(dimensions(ndims)?)?;
        dims_create(nnodes, &mut found)?;
        store(&found, dims)
    }

    fn MPI_Cart_create(comm_old: Comm, ndims: c_int, dims: In<c_int>, periods: In<c_int>,
                       reorder: c_int, comm_cart: Out<Comm>) on comm_old |mpi| {
        let object = mpi.comm(comm_old)?;
        let (dims, periods) = grid(ndims, dims, periods)?;
        check_address(comm_cart)?;
        let made = object.comm.cart_create(&dims, &periods, reorder != 0)?;
        give(mpi, made, &object, comm_cart)
    }

    fn MPI_Cart_map(comm: Comm, ndims: c_int, dims: In<c_int>, periods: In<c_int>,
                    newrank: Out<c_int>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let (dims, periods) = grid(ndims, dims, periods)?;
        newrank.set(object.comm.cart_map(&dims, &periods)?.unwrap_or(MPI_UNDEFINED))
    }

    fn MPI_Cart_sub(comm: Comm, remain_dims: In<c_int>, newcomm: Out<Comm>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let kept = booleans(remain_dims, object.comm.cart()?.dims().len())?;
        check_address(newcomm)?;
        give(mpi, Some(object.comm.cart_sub(&kept)?), &object, newcomm)
    }

    fn MPI_Cartdim_get(comm: Comm, ndims: Out<c_int>) on comm |mpi| {
        ndims.set(mpi.comm(comm)?.comm.cart()?.dims().len() as c_int)
    }

    fn MPI_Cart_get(comm: Comm, maxdims: c_int, dims: Out<c_int>, periods: Out<c_int>,
                    coords: Out<c_int>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let cart = object.comm.cart()?;
        dimensions_fit(cart.dims().len(), maxdims)?;
        store(cart.dims(), dims)?;
        let rings: Vec<c_int> = cart.periods().iter().map(|&ring| ring.into()).collect();
        store(&rings, periods)?;
        store(&cart.coords(object.comm.rank())?, coords)
    }

    fn MPI_Cart_rank(comm: Comm, coords: In<c_int>, rank: Out<c_int>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let cart = object.comm.cart()?;
        rank.set(cart.rank(&coords.array(cart.dims().len())?)?)
    }

    fn MPI_Cart_coords(comm: Comm, rank: c_int, maxdims: c_int, coords: Out<c_int>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let cart = object.comm.cart()?;
        let found = cart.coords(rank)?;
        dimensions_fit(found.len(), maxdims)?;
        store(&found, coords)
    }

    fn MPI_Cart_shift(comm: Comm, direction: c_int, disp: c_int, rank_source: Out<c_int>,
                      rank_dest: Out<c_int>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        object.comm.cart()?;
        let direction = usize::try_from(direction);
        let direction = direction.map_err(|_| fault(MPI_ERR_DIMS, "the direction is negative"))?;
        let (source, dest) = object.comm.cart_shift(direction, disp)?;
        rank_source.set(source)?;
        rank_dest.set(dest)
    }
}

/// A number of dimensions.
fn dimensions(ndims: c_int) -> Result<usize, Fault> {
    let wrong = |_| fault(MPI_ERR_DIMS, format!("the number of dimensions is {ndims}"));
    usize::try_from(ndims).map_err(wrong)
}

fn booleans(list: In<c_int>, count: usize) -> Result<Vec<bool>, Fault> {
    Ok(list.array(count)?.into_iter().map(|value| value != 0).collect())
}

/// The dimensions of a grid, and which of them are rings.
fn grid(
    ndims: c_int,
    dims: In<c_int>,
    periods: In<c_int>,
) -> Result<(Vec<c_int>, Vec<bool>), Fault> {
    let count = dimensions(ndims)?;
    Ok((dims.array(count)?, booleans(periods, count)?))
}

fn dimensions_fit(count: usize, maxdims: c_int) -> Result<(), Fault> {
    if dimensions(maxdims)? >= count {
        return Ok(());
    }
    Err(fault(MPI_ERR_DIMS, format!("there is space for {maxdims} of {count} dimensions")))
}

/// Stores a list where the program has space for it.
fn store(list: &[c_int], to: Out<c_int>) -> Result<(), Fault> {
    list.iter().enumerate().try_for_each(|(index, &one)| to.at(index).set(one))
}
