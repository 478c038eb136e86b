//! Blocking collectives of `MPI_COMM_WORLD` whose buffers are in one piece each: what most calls are.
//!
//! Each function does the whole call, or says that it has not begun: then the caller checks everything, and
//! says what is wrong. So nothing here is an error of an argument.

use std::ffi::{c_int, c_void};

use bowline_mpi::raw::ReduceOp;

use crate::buffer::plain;
use crate::fault::Fault;
use crate::generated::constants::MPI_COMM_WORLD;
use crate::handle::{Comm, Datatype, Op, PREDEFINED};
use crate::library::Library;
use crate::library::ops::Reduced;

/// Whether two pieces of memory have no byte in common.
#[inline(always)]
fn are_apart(one: (*const c_void, usize), other: (*const c_void, usize)) -> bool {
    let (low, high) = if one.0.addr() <= other.0.addr() { (one, other) } else { (other, one) };
    high.0.addr() - low.0.addr() >= low.1
}

/// The operation of a reduction, and bytes of a vector.
#[inline(always)]
fn reduction(
    mpi: &Library,
    sendbuf: *const c_void,
    (count, datatype): (i64, Datatype),
    op: Op,
) -> Option<(ReduceOp, usize)> {
    let Reduced { kernel, size, commutative, class, .. } = mpi.reduced_before(op, datatype)?;
    let len = plain(sendbuf, count, datatype)?;
    // SAFETY: the kernel is one for elements of this size.
    Some((unsafe { ReduceOp::of_kernel(kernel, size, commutative, class) }, len))
}

/// Bytes of a block, and of a block for each rank, where those that are sent and received have one length.
#[inline(always)]
fn blocks(
    mpi: &Library,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, Datatype),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, Datatype),
) -> Option<(usize, usize)> {
    let len = plain(sendbuf, sendcount, sendtype)?;
    let received = plain(recvbuf, recvcount, recvtype)?;
    let all = len.checked_mul(mpi.world.comm.size() as usize)?;
    (received == len && isize::try_from(all).is_ok()).then_some((len, all))
}

#[inline(always)]
pub(super) fn bcast(
    mpi: &Library,
    buffer: *mut c_void,
    count: i64,
    datatype: Datatype,
    root: c_int,
    comm: Comm,
) -> Result<bool, Fault> {
    let world = &mpi.world.comm;
    if comm == MPI_COMM_WORLD
        && (0..world.size()).contains(&root)
        && let Some(len) = plain(buffer, count, datatype)
    {
        // SAFETY: the program answers for the memory.
        unsafe { world.bcast_dense(buffer.cast(), len, root) }?;
        return Ok(true);
    }
    Ok(false)
}

#[inline(always)]
pub(super) fn reduce(
    mpi: &Library,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    elements: (i64, Datatype),
    (op, root): (Op, c_int),
    comm: Comm,
) -> Result<bool, Fault> {
    let world = &mpi.world.comm;
    if comm == MPI_COMM_WORLD
        && (0..world.size()).contains(&root)
        && let Some((op, len)) = reduction(mpi, sendbuf, elements, op)
        && (world.rank() != root
            || recvbuf.addr() >= PREDEFINED && are_apart((sendbuf, len), (recvbuf, len)))
    {
        // SAFETY: the program answers for the memory, which does not overlap.
        unsafe { world.reduce_dense(sendbuf.cast(), recvbuf.cast(), len, &op, root) }?;
        return Ok(true);
    }
    Ok(false)
}

#[inline(always)]
pub(super) fn allreduce(
    mpi: &Library,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    elements: (i64, Datatype),
    op: Op,
    comm: Comm,
) -> Result<bool, Fault> {
    if comm == MPI_COMM_WORLD
        && let Some((op, len)) = reduction(mpi, sendbuf, elements, op)
        && recvbuf.addr() >= PREDEFINED
        && are_apart((sendbuf, len), (recvbuf, len))
    {
        // SAFETY: the program answers for the memory, which does not overlap.
        unsafe { mpi.world.comm.allreduce_dense(sendbuf.cast(), recvbuf.cast(), len, &op) }?;
        return Ok(true);
    }
    Ok(false)
}

#[inline(always)]
pub(super) fn allgather(
    mpi: &Library,
    sent: (*const c_void, i64, Datatype),
    received: (*mut c_void, i64, Datatype),
    comm: Comm,
) -> Result<bool, Fault> {
    if comm == MPI_COMM_WORLD
        && let Some((len, all)) = blocks(mpi, sent, received)
        && are_apart((sent.0, len), (received.0, all))
    {
        // SAFETY: the program answers for the memory, which does not overlap; all blocks can be counted.
        unsafe { mpi.world.comm.allgather_dense(sent.0.cast(), received.0.cast(), len) }?;
        return Ok(true);
    }
    Ok(false)
}

#[inline(always)]
pub(super) fn alltoall(
    mpi: &Library,
    sent: (*const c_void, i64, Datatype),
    received: (*mut c_void, i64, Datatype),
    comm: Comm,
) -> Result<bool, Fault> {
    if comm == MPI_COMM_WORLD
        && let Some((len, all)) = blocks(mpi, sent, received)
        && are_apart((sent.0, all), (received.0, all))
    {
        // SAFETY: the program answers for the memory, which does not overlap; all blocks can be counted.
        unsafe { mpi.world.comm.alltoall_dense(sent.0.cast(), received.0.cast(), len) }?;
        return Ok(true);
    }
    Ok(false)
}
