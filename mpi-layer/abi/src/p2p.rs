//! Chapter: blocking messages.

use std::ffi::{c_int, c_void};

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_mpi::raw::SendMode;

use crate::basic::bytes_of;
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::MPI_ERR_BUFFER;
use crate::handle::{Comm, Datatype};
use crate::status::StatusOut;

mpi! {
    fn MPI_Send(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int,
                comm: Comm) on comm |mpi| {
        let comm = mpi.comm(comm)?;
        let len = bytes_of(count, datatype)?;
        check(buf, len)?;
        let buffer = match len {
            0 => SendBuf::empty(),
            // SAFETY: the program answers for the memory, and the call ends after the operation.
            _ => unsafe { SendBuf::borrowed(buf.cast(), len) },
        };
        Ok(comm.comm.send_buffer(buffer, dest, tag, SendMode::Standard)?)
    }

    fn MPI_Recv(buf: *mut c_void, count: c_int, datatype: Datatype, source: c_int, tag: c_int,
                comm: Comm, status: StatusOut) on comm |mpi| {
        let comm = mpi.comm(comm)?;
        let len = bytes_of(count, datatype)?;
        check(buf, len)?;
        let buffer = match len {
            0 => RecvBuf::empty(),
            // SAFETY: as in `MPI_Send`.
            _ => unsafe { RecvBuf::borrowed(buf.cast(), len) },
        };
        let received = comm.comm.recv_buffer(buffer, source, tag)?;
        status.put(received.into());
        Ok(())
    }
}

/// Refuses a buffer at none of the program's addresses.
#[inline]
fn check(buf: *const c_void, len: usize) -> Result<(), Fault> {
    if len > 0 && buf.addr() <= 2 {
        return Err(fault(MPI_ERR_BUFFER, "the buffer has no address, and the count is not 0"));
    }
    Ok(())
}
