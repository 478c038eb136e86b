//! Chapter: persistent requests, which start the same operation again and again.

use std::ffi::{c_int, c_void};

use bowline_mpi::raw::{Mode, SendMode};

use crate::arg::Out;
use crate::buffer::memory;
use crate::entry::mpi;
use crate::fault::Fault;
use crate::handle::{Comm, Count, Datatype, Request};
use crate::library::Library;
use crate::library::requests::length;
use crate::p2p::check_address;

impl Library {
    fn send_init(
        &self,
        (buf, count, datatype): (*const c_void, i64, Datatype),
        (dest, tag): (c_int, c_int),
        comm: Comm,
        mode: Mode,
        request: Out<Request>,
    ) -> Result<(), Fault> {
        let comm = self.comm(comm)?;
        let memory = memory(self, buf.cast_mut(), count, datatype)?;
        check_address(request)?;
        let raw = comm.comm.persistent_send(memory, dest, tag, mode)?;
        self.requests.add(raw, Some(comm), request)
    }

    fn receive_init(
        &self,
        (buf, count, datatype): (*mut c_void, i64, Datatype),
        (source, tag): (c_int, c_int),
        comm: Comm,
        request: Out<Request>,
    ) -> Result<(), Fault> {
        let comm = self.comm(comm)?;
        let memory = memory(self, buf, count, datatype)?;
        check_address(request)?;
        let raw = comm.comm.persistent_recv(memory, source, tag)?;
        self.requests.add(raw, Some(comm), request)
    }
}

/// A standard send, and a ready one.
const STANDARD: Mode = Mode::Direct(SendMode::Standard);

const SYNCHRONOUS: Mode = Mode::Direct(SendMode::Synchronous);

mpi! {
    fn MPI_Send_init(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int,
                     tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.send_init((buf, count.into(), datatype), (dest, tag), comm, STANDARD, request)
    }

    fn MPI_Send_init_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int,
                       tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.send_init((buf, count, datatype), (dest, tag), comm, STANDARD, request)
    }

    fn MPI_Bsend_init(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int,
                      tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.send_init((buf, count.into(), datatype), (dest, tag), comm, Mode::Buffered, request)
    }

    fn MPI_Bsend_init_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int,
                        tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.send_init((buf, count, datatype), (dest, tag), comm, Mode::Buffered, request)
    }

    fn MPI_Ssend_init(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int,
                      tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.send_init((buf, count.into(), datatype), (dest, tag), comm, SYNCHRONOUS, request)
    }

    fn MPI_Ssend_init_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int,
                        tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.send_init((buf, count, datatype), (dest, tag), comm, SYNCHRONOUS, request)
    }

    fn MPI_Rsend_init(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int,
                      tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.send_init((buf, count.into(), datatype), (dest, tag), comm, STANDARD, request)
    }

    fn MPI_Rsend_init_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int,
                        tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.send_init((buf, count, datatype), (dest, tag), comm, STANDARD, request)
    }

    fn MPI_Recv_init(buf: *mut c_void, count: c_int, datatype: Datatype, source: c_int,
                     tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.receive_init((buf, count.into(), datatype), (source, tag), comm, request)
    }

    fn MPI_Recv_init_c(buf: *mut c_void, count: Count, datatype: Datatype, source: c_int,
                       tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.receive_init((buf, count, datatype), (source, tag), comm, request)
    }

    fn MPI_Start(request: Out<Request>) |mpi| {
        mpi.requests.start(request.get()?, &mpi.buffers)
    }

    fn MPI_Startall(count: c_int, array_of_requests: Out<Request>) |mpi| {
        for index in 0..length(count)? {
            mpi.requests.start(array_of_requests.at(index).get()?, &mpi.buffers)?;
        }
        Ok(())
    }
}
