//! Buffers of messages: an address, a count and a datatype, as a program gives them.
//!
//! Counts are 64 bits wide here, so that the functions with large counts share everything. Addresses
//! below [`PREDEFINED`] are no memory: `MPI_BOTTOM`, `MPI_IN_PLACE` and `MPI_BUFFER_AUTOMATIC` are among
//! them. A datatype with absolute addresses may stand on `MPI_BOTTOM`.

use std::ffi::c_void;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_mpi::raw::Memory;
use bowline_mpi::types::dense_size;

use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Datatype, PREDEFINED};
use crate::library::Library;

/// What a send reads, which the program keeps as it is until the operation is complete.
#[inline]
pub(crate) fn outgoing(
    mpi: &Library,
    buf: *const c_void,
    count: i64,
    datatype: Datatype,
) -> Result<SendBuf, Fault> {
    match dense(mpi, buf, count, datatype) {
        Some(0) => Ok(SendBuf::empty()),
        // SAFETY: the standard makes the program answer for the memory until the operation is complete.
        Some(len) => Ok(unsafe { SendBuf::borrowed(buf.cast(), len) }),
        None => other_outgoing(mpi, buf, count, datatype),
    }
}

#[inline(never)]
fn other_outgoing(
    mpi: &Library,
    buf: *const c_void,
    count: i64,
    datatype: Datatype,
) -> Result<SendBuf, Fault> {
    let memory = memory(mpi, buf.cast_mut(), count, datatype)?;
    // SAFETY: as in `outgoing`.
    Ok(unsafe { memory.outgoing() })
}

/// What a receive writes, which the program does not touch until the operation is complete.
#[inline]
pub(crate) fn incoming(
    mpi: &Library,
    buf: *mut c_void,
    count: i64,
    datatype: Datatype,
) -> Result<RecvBuf, Fault> {
    match dense(mpi, buf, count, datatype) {
        Some(0) => Ok(RecvBuf::empty()),
        // SAFETY: as in `outgoing`.
        Some(len) => Ok(unsafe { RecvBuf::borrowed(buf.cast(), len) }),
        None => other_incoming(mpi, buf, count, datatype),
    }
}

#[inline(never)]
fn other_incoming(
    mpi: &Library,
    buf: *mut c_void,
    count: i64,
    datatype: Datatype,
) -> Result<RecvBuf, Fault> {
    let memory = memory(mpi, buf, count, datatype)?;
    // SAFETY: as in `outgoing`.
    Ok(unsafe { memory.incoming() })
}

/// Counts up to this one are short work: no message of any element overflows.
const COUNT_SHORT: u64 = 1 << 48;

/// Bytes of a message whose elements lie side by side, where nothing is wrong with it.
#[inline(always)]
fn dense(mpi: &Library, buf: *const c_void, count: i64, datatype: Datatype) -> Option<usize> {
    let size = dense_size(datatype.0);
    // A negative count is a large one.
    if size == 0 || count as u64 >= COUNT_SHORT {
        return None;
    }
    let len = count as usize * size;
    (buf.addr() >= PREDEFINED || len == 0 || !mpi.checks).then_some(len)
}

/// Bytes of a message at an address that memory may have, whose elements lie side by side; none where that
/// has to be found out.
#[inline(always)]
pub(crate) fn plain(buf: *const c_void, count: i64, datatype: Datatype) -> Option<usize> {
    let size = dense_size(datatype.0);
    // A negative count is a large one.
    if size == 0 || count as u64 >= COUNT_SHORT || buf.addr() < PREDEFINED {
        return None;
    }
    Some(count as usize * size)
}

/// A buffer, checked.
pub(crate) fn memory(
    mpi: &Library,
    buf: *mut c_void,
    count: i64,
    datatype: Datatype,
) -> Result<Memory, Fault> {
    if let Some(len) = dense(mpi, buf, count, datatype) {
        return Memory::plain(buf.cast(), len, 1).ok_or_else(|| wrong_count(count));
    }
    let elements = usize::try_from(count).map_err(|_| wrong_count(count))?;
    match dense_size(datatype.0) {
        0 => of_type(mpi, buf, elements, datatype),
        _ if count as u64 >= COUNT_SHORT => Err(wrong_count(count)),
        _ => Err(nowhere()),
    }
}

#[inline(never)]
fn of_type(
    mpi: &Library,
    buf: *mut c_void,
    count: usize,
    datatype: Datatype,
) -> Result<Memory, Fault> {
    let datatype = mpi.committed(datatype)?;
    let memory = Memory::typed(buf.cast(), count, &datatype);
    let memory = memory.ok_or_else(|| wrong_count(count as i64))?;
    let marks = [MPI_IN_PLACE, MPI_BUFFER_AUTOMATIC];
    if mpi.checks
        && !memory.is_empty()
        && (memory.lowest() < PREDEFINED || marks.contains(&buf.addr()))
    {
        return Err(nowhere());
    }
    Ok(memory)
}

#[cold]
fn wrong_count(count: i64) -> Fault {
    let text = match count {
        ..0 => format!("the count is {count}"),
        _ => format!("{count} elements are more than memory can hold"),
    };
    fault(MPI_ERR_COUNT, text)
}

#[cold]
fn nowhere() -> Fault {
    fault(MPI_ERR_BUFFER, "the buffer has no address, and the count is not 0")
}
