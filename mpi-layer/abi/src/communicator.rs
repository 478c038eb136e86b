//! Chapter: communicators.

use std::ffi::c_int;

use crate::arg::Out;
use crate::entry::mpi;
use crate::handle::Comm;

mpi! {
    fn MPI_Comm_rank(comm: Comm, rank: Out<c_int>) on comm |mpi| {
        rank.set(mpi.comm(comm)?.comm.rank())
    }

    fn MPI_Comm_size(comm: Comm, size: Out<c_int>) on comm |mpi| {
        size.set(mpi.comm(comm)?.comm.size())
    }
}
