//! Chapter: blocking collective operations.
//!
//! Arguments that the standard gives a meaning at the root only are not looked at elsewhere. An error of
//! an argument is reported before anything is sent.

mod allgather;
mod alltoall;
mod gather;
mod reduce;
mod scatter;

use std::ffi::{c_int, c_void};

use crate::elements::Buffer;
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Comm, Count, Datatype};
use crate::library::{CommObject, Library};

mpi! {
    fn MPI_Barrier(comm: Comm) on comm |mpi| {
        Ok(mpi.comm(comm)?.comm.barrier()?)
    }

    fn MPI_Bcast(buffer: *mut c_void, count: c_int, datatype: Datatype, root: c_int, comm: Comm)
        on comm |mpi| {
        bcast(mpi, buffer, count.into(), datatype, root, comm)
    }

    fn MPI_Bcast_c(buffer: *mut c_void, count: Count, datatype: Datatype, root: c_int, comm: Comm)
        on comm |mpi| {
        bcast(mpi, buffer, count, datatype, root, comm)
    }
}

fn bcast(
    mpi: &Library,
    buffer: *mut c_void,
    count: i64,
    datatype: Datatype,
    root: c_int,
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    is_root(&comm, root)?;
    let buffer = mpi.buffer(buffer, count, datatype)?;
    // SAFETY: the program answers for the memory.
    Ok(unsafe { comm.comm.bcast_data(buffer.data(), root) }?)
}

/// Whether this rank is the root, which is a rank.
fn is_root(comm: &CommObject, root: c_int) -> Result<bool, Fault> {
    if root < 0 || root >= comm.comm.size() {
        let text = format!("root {root} is not in a communicator of {} ranks", comm.comm.size());
        return Err(fault(MPI_ERR_ROOT, text));
    }
    Ok(comm.comm.rank() == root)
}

/// Refuses two buffers whose elements lie at one address.
fn apart(one: Option<&Buffer>, other: Option<&Buffer>) -> Result<(), Fault> {
    match (one, other) {
        (Some(one), Some(other)) => one.apart_from(other),
        _ => Ok(()),
    }
}
