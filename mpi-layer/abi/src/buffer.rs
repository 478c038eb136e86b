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
    let memory = memory(mpi, buf.cast_mut(), count, datatype)?;
    // SAFETY: the standard makes the program answer for the memory until the operation is complete.
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
    let memory = memory(mpi, buf, count, datatype)?;
    // SAFETY: as in `outgoing`.
    Ok(unsafe { memory.incoming() })
}

/// A buffer, checked.
#[inline]
pub(crate) fn memory(
    mpi: &Library,
    buf: *mut c_void,
    count: i64,
    datatype: Datatype,
) -> Result<Memory, Fault> {
    let elements = usize::try_from(count).map_err(|_| wrong_count(count))?;
    let size = dense_size(datatype.0);
    if size == 0 {
        return of_type(mpi, buf, elements, datatype);
    }
    let memory = Memory::plain(buf.cast(), elements, size).ok_or_else(|| wrong_count(count))?;
    if mpi.checks && elements > 0 && buf.addr() < PREDEFINED {
        return Err(nowhere());
    }
    Ok(memory)
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
