//! Chapter: blocking messages.

use std::ffi::{c_int, c_void};

use bowline_mpi::raw::SendMode;

use crate::buffer::{incoming, outgoing};
use crate::entry::mpi;
use crate::handle::{Comm, Datatype};
use crate::status::StatusOut;

mpi! {
    fn MPI_Send(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int,
                comm: Comm) on comm |mpi| {
        let comm = mpi.comm(comm)?;
        let buffer = outgoing(mpi, buf, count.into(), datatype)?;
        Ok(comm.comm.send_buffer(buffer, dest, tag, SendMode::Standard)?)
    }

    fn MPI_Recv(buf: *mut c_void, count: c_int, datatype: Datatype, source: c_int, tag: c_int,
                comm: Comm, status: StatusOut) on comm |mpi| {
        let comm = mpi.comm(comm)?;
        let buffer = incoming(mpi, buf, count.into(), datatype)?;
        let received = comm.comm.recv_buffer(buffer, source, tag)?;
        status.put(received.into());
        Ok(())
    }
}
