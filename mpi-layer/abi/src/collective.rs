//! Chapter: collective operations, blocking, nonblocking and persistent.
//!
//! Arguments that the standard gives a meaning at the root only are not read elsewhere. An error of
//! an argument is reported before anything is sent.

mod again;
mod allgather;
mod alltoall;
mod dense;
mod gather;
mod later;
mod neighbor;
mod reduce;
mod scatter;

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use bowline_mpi::raw::{self, Call, Run};

use crate::arg::Out;
use crate::elements::{Blocks, Buffer};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Comm, Count, Datatype, Request};
use crate::library::{CommObject, Library};

/// When a collective is done, and what becomes of it.
trait When: Copy {
    type Call: Call<Output = Self::Made>;
    type Made;
    const CALL: Self::Call;

    /// Ends the function.
    fn end(self, mpi: &Library, comm: Rc<CommObject>, made: Self::Made) -> Result<(), Fault>;
}

/// In the call.
#[derive(Clone, Copy)]
struct Now;

impl When for Now {
    type Call = raw::Now;
    type Made = ();
    const CALL: raw::Now = raw::Now;

    #[inline]
    fn end(self, _: &Library, _: Rc<CommObject>, (): ()) -> Result<(), Fault> {
        Ok(())
    }
}

/// It is started, and ends with a request.
#[derive(Clone, Copy)]
struct Started(Out<Request>);

impl When for Started {
    type Call = raw::Later;
    type Made = Rc<Run>;
    const CALL: raw::Later = raw::Later;

    fn end(self, mpi: &Library, comm: Rc<CommObject>, made: Rc<Run>) -> Result<(), Fault> {
        // SAFETY: the program answers for the memory until the request has ended.
        let request = unsafe { raw::RawRequest::collective(made) };
        mpi.requests.add(request, Some(comm), self.0)
    }
}

/// It is started by a request, again and again.
#[derive(Clone, Copy)]
struct Prepared(Out<Request>);

impl When for Prepared {
    type Call = raw::Again;
    type Made = Rc<Run>;
    const CALL: raw::Again = raw::Again;

    fn end(self, mpi: &Library, comm: Rc<CommObject>, made: Rc<Run>) -> Result<(), Fault> {
        mpi.requests.add(raw::RawRequest::persistent_collective(made), Some(comm), self.0)
    }
}

mpi! {
    fn MPI_Barrier(comm: Comm) on comm |mpi| {
        barrier(mpi, Now, comm)
    }

    fn MPI_Bcast(buffer: *mut c_void, count: c_int, datatype: Datatype, root: c_int, comm: Comm)
        on comm |mpi| {
        match dense::bcast(mpi, buffer, count.into(), datatype, root, comm)? {
            true => Ok(()),
            false => bcast(mpi, Now, buffer, count.into(), datatype, root, comm),
        }
    }

    fn MPI_Bcast_c(buffer: *mut c_void, count: Count, datatype: Datatype, root: c_int, comm: Comm)
        on comm |mpi| {
        match dense::bcast(mpi, buffer, count, datatype, root, comm)? {
            true => Ok(()),
            false => bcast(mpi, Now, buffer, count, datatype, root, comm),
        }
    }
}

#[inline]
fn barrier<W: When>(mpi: &Library, when: W, comm: Comm) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let made = comm.comm.barrier_data(W::CALL)?;
    when.end(mpi, comm, made)
}

#[inline(never)]
fn bcast<W: When>(
    mpi: &Library,
    when: W,
    buffer: *mut c_void,
    count: i64,
    datatype: Datatype,
    root: c_int,
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    is_root(&comm, root)?;
    let buffer = mpi.buffer(buffer, count, datatype)?;
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.bcast_data(W::CALL, buffer.data(), root) }?;
    when.end(mpi, comm, made)
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
