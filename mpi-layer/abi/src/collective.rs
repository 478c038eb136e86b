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

use crate::elements::{Blocks, Buffer};
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

/// The ranks of a communicator.
#[inline]
fn ranks(comm: &CommObject) -> u32 {
    comm.comm.size().unsigned_abs()
}

/// Refuses two buffers that share bytes. (MPI 4.1, section 2.3: what a call writes is aliased by none of its
/// other arguments.)
#[inline]
fn apart(one: Option<&Buffer>, other: Option<&Buffer>) -> Result<(), Fault> {
    apart_each(one.zip(Some(1)), other.zip(Some(1)))
}

/// The same for so many of each, one behind the other.
#[inline]
fn apart_each(one: Option<(&Buffer, u32)>, other: Option<(&Buffer, u32)>) -> Result<(), Fault> {
    match (one, other) {
        (Some((one, ones)), Some((other, others))) => {
            Buffer::apart((one, ones as usize), (other, others as usize))
        }
        _ => Ok(()),
    }
}

/// The same for a buffer and blocks.
fn apart_from_blocks(one: Option<&Buffer>, other: Option<&Blocks>) -> Result<(), Fault> {
    match (one, other) {
        (Some(one), Some(other)) => other.apart_from(one),
        _ => Ok(()),
    }
}
