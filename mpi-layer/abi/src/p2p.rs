//! Chapter: messages from one process to another.
//!
//! A ready send is a standard one here: the receive that the program vouches for is not needed.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use bowline_base::buffer::SendBuf;
use bowline_mpi::raw::SendMode;

use crate::arg::Out;
use crate::buffer::{incoming, memory, outgoing};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::{MPI_COMM_WORLD, MPI_ERR_ARG};
use crate::handle::{Comm, Count, Datatype, Request};
use crate::library::Library;
use crate::status::StatusOut;

/// A buffer to send from, with its count and datatype.
type From = (*const c_void, i64, Datatype);

/// A buffer to receive to.
type To = (*mut c_void, i64, Datatype);

/// Fails where a new request has no place to go. Asked before anything is started.
#[inline]
pub(crate) fn check_room(request: Out<Request>) -> Result<(), Fault> {
    if request.is_null() {
        return Err(fault(MPI_ERR_ARG, "there is no address for the request"));
    }
    Ok(())
}

impl Library {
    #[inline(always)]
    fn send(
        &self,
        (buf, count, datatype): From,
        (dest, tag): (c_int, c_int),
        comm: Comm,
        mode: SendMode,
    ) -> Result<(), Fault> {
        let other;
        let comm = match comm {
            // The short way counts no reference.
            MPI_COMM_WORLD => &self.world,
            _ => {
                other = self.comm(comm)?;
                &other
            }
        };
        let buffer = outgoing(self, buf, count, datatype)?;
        Ok(comm.comm.send_buffer(buffer, dest, tag, mode)?)
    }

    #[inline(always)]
    fn receive(
        &self,
        (buf, count, datatype): To,
        (source, tag): (c_int, c_int),
        comm: Comm,
        status: StatusOut,
    ) -> Result<(), Fault> {
        let other;
        let comm = match comm {
            // The short way counts no reference.
            MPI_COMM_WORLD => &self.world,
            _ => {
                other = self.comm(comm)?;
                &other
            }
        };
        let buffer = incoming(self, buf, count, datatype)?;
        let received = comm.comm.recv_buffer(buffer, source, tag)?;
        status.put(received.into());
        Ok(())
    }

    #[inline]
    fn start_send(
        &self,
        (buf, count, datatype): From,
        (dest, tag): (c_int, c_int),
        comm: Comm,
        mode: SendMode,
        request: Out<Request>,
    ) -> Result<(), Fault> {
        let comm = self.comm(comm)?;
        let buffer = outgoing(self, buf, count, datatype)?;
        check_room(request)?;
        let started = comm.comm.start_send(buffer, dest, tag, mode)?;
        self.requests.give(started, comm, request)
    }

    #[inline]
    fn start_receive(
        &self,
        (buf, count, datatype): To,
        (source, tag): (c_int, c_int),
        comm: Comm,
        request: Out<Request>,
    ) -> Result<(), Fault> {
        let comm = self.comm(comm)?;
        let buffer = incoming(self, buf, count, datatype)?;
        check_room(request)?;
        let started = comm.comm.start_recv(buffer, source, tag)?;
        self.requests.give(started, comm, request)
    }

    fn exchange(
        &self,
        ((sendbuf, sendcount, sendtype), dest, sendtag): (From, c_int, c_int),
        ((recvbuf, recvcount, recvtype), source, recvtag): (To, c_int, c_int),
        comm: Comm,
        status: StatusOut,
    ) -> Result<(), Fault> {
        let comm = self.comm(comm)?;
        let out = outgoing(self, sendbuf, sendcount, sendtype)?;
        let into = incoming(self, recvbuf, recvcount, recvtype)?;
        let received = comm.comm.exchange_buffers((out, dest, sendtag), (into, source, recvtag))?;
        status.put(received.into());
        Ok(())
    }

    fn start_exchange(
        &self,
        ((sendbuf, sendcount, sendtype), dest, sendtag): (From, c_int, c_int),
        ((recvbuf, recvcount, recvtype), source, recvtag): (To, c_int, c_int),
        comm: Comm,
        request: Out<Request>,
    ) -> Result<(), Fault> {
        let comm = self.comm(comm)?;
        let out = outgoing(self, sendbuf, sendcount, sendtype)?;
        let into = incoming(self, recvbuf, recvcount, recvtype)?;
        check_room(request)?;
        let started = comm.comm.start_exchange((out, dest, sendtag), (into, source, recvtag))?;
        self.requests.give(started, comm, request)
    }

    fn replace(
        &self,
        (buf, count, datatype): To,
        (dest, sendtag): (c_int, c_int),
        (source, recvtag): (c_int, c_int),
        comm: Comm,
        status: StatusOut,
    ) -> Result<(), Fault> {
        let comm = self.comm(comm)?;
        let memory = memory(self, buf, count, datatype)?;
        // SAFETY: the standard makes the program answer for the memory until the operation is complete;
        // the message is packed before anything is received.
        let (out, into) = unsafe { (SendBuf::owned(memory.packed()), memory.incoming()) };
        let received = comm.comm.exchange_buffers((out, dest, sendtag), (into, source, recvtag))?;
        status.put(received.into());
        Ok(())
    }

    fn start_replace(
        &self,
        (buf, count, datatype): To,
        (dest, sendtag): (c_int, c_int),
        (source, recvtag): (c_int, c_int),
        comm: Comm,
        request: Out<Request>,
    ) -> Result<(), Fault> {
        let comm = self.comm(comm)?;
        let memory = memory(self, buf, count, datatype)?;
        check_room(request)?;
        // SAFETY: as in `replace`.
        let (out, into) = unsafe { (SendBuf::owned(memory.packed()), memory.incoming()) };
        let started = comm.comm.start_exchange((out, dest, sendtag), (into, source, recvtag))?;
        self.requests.give(started, Rc::clone(&comm), request)
    }
}

mpi! {
    fn MPI_Send(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int,
                comm: Comm) on comm |mpi| {
        mpi.send((buf, count.into(), datatype), (dest, tag), comm, SendMode::Standard)
    }

    fn MPI_Send_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int,
                  comm: Comm) on comm |mpi| {
        mpi.send((buf, count, datatype), (dest, tag), comm, SendMode::Standard)
    }

    fn MPI_Ssend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int,
                 comm: Comm) on comm |mpi| {
        mpi.send((buf, count.into(), datatype), (dest, tag), comm, SendMode::Synchronous)
    }

    fn MPI_Ssend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int,
                   tag: c_int, comm: Comm) on comm |mpi| {
        mpi.send((buf, count, datatype), (dest, tag), comm, SendMode::Synchronous)
    }

    fn MPI_Rsend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int,
                 comm: Comm) on comm |mpi| {
        mpi.send((buf, count.into(), datatype), (dest, tag), comm, SendMode::Standard)
    }

    fn MPI_Rsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int,
                   tag: c_int, comm: Comm) on comm |mpi| {
        mpi.send((buf, count, datatype), (dest, tag), comm, SendMode::Standard)
    }

    fn MPI_Recv(buf: *mut c_void, count: c_int, datatype: Datatype, source: c_int, tag: c_int,
                comm: Comm, status: StatusOut) on comm |mpi| {
        mpi.receive((buf, count.into(), datatype), (source, tag), comm, status)
    }

    fn MPI_Recv_c(buf: *mut c_void, count: Count, datatype: Datatype, source: c_int, tag: c_int,
                  comm: Comm, status: StatusOut) on comm |mpi| {
        mpi.receive((buf, count, datatype), (source, tag), comm, status)
    }

    fn MPI_Isend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int,
                 comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.start_send(
            (buf, count.into(), datatype),
            (dest, tag),
            comm,
            SendMode::Standard,
            request,
        )
    }

    fn MPI_Isend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int,
                   tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.start_send((buf, count, datatype), (dest, tag), comm, SendMode::Standard, request)
    }

    fn MPI_Issend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int,
                  comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.start_send(
            (buf, count.into(), datatype),
            (dest, tag),
            comm,
            SendMode::Synchronous,
            request,
        )
    }

    fn MPI_Issend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int,
                    tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.start_send((buf, count, datatype), (dest, tag), comm, SendMode::Synchronous, request)
    }

    fn MPI_Irsend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int,
                  comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.start_send(
            (buf, count.into(), datatype),
            (dest, tag),
            comm,
            SendMode::Standard,
            request,
        )
    }

    fn MPI_Irsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int,
                    tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.start_send((buf, count, datatype), (dest, tag), comm, SendMode::Standard, request)
    }

    fn MPI_Irecv(buf: *mut c_void, count: c_int, datatype: Datatype, source: c_int, tag: c_int,
                 comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.start_receive((buf, count.into(), datatype), (source, tag), comm, request)
    }

    fn MPI_Irecv_c(buf: *mut c_void, count: Count, datatype: Datatype, source: c_int,
                   tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.start_receive((buf, count, datatype), (source, tag), comm, request)
    }

    fn MPI_Sendrecv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, dest: c_int,
                    sendtag: c_int, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype,
                    source: c_int, recvtag: c_int, comm: Comm,
                    status: StatusOut) on comm |mpi| {
        mpi.exchange(
            ((sendbuf, sendcount.into(), sendtype), dest, sendtag),
            ((recvbuf, recvcount.into(), recvtype), source, recvtag),
            comm,
            status,
        )
    }

    fn MPI_Sendrecv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype, dest: c_int,
                      sendtag: c_int, recvbuf: *mut c_void, recvcount: Count,
                      recvtype: Datatype, source: c_int, recvtag: c_int, comm: Comm,
                      status: StatusOut) on comm |mpi| {
        mpi.exchange(
            ((sendbuf, sendcount, sendtype), dest, sendtag),
            ((recvbuf, recvcount, recvtype), source, recvtag),
            comm,
            status,
        )
    }

    fn MPI_Isendrecv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype, dest: c_int,
                     sendtag: c_int, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype,
                     source: c_int, recvtag: c_int, comm: Comm,
                     request: Out<Request>) on comm |mpi| {
        mpi.start_exchange(
            ((sendbuf, sendcount.into(), sendtype), dest, sendtag),
            ((recvbuf, recvcount.into(), recvtype), source, recvtag),
            comm,
            request,
        )
    }

    fn MPI_Isendrecv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                       dest: c_int, sendtag: c_int, recvbuf: *mut c_void, recvcount: Count,
                       recvtype: Datatype, source: c_int, recvtag: c_int, comm: Comm,
                       request: Out<Request>) on comm |mpi| {
        mpi.start_exchange(
            ((sendbuf, sendcount, sendtype), dest, sendtag),
            ((recvbuf, recvcount, recvtype), source, recvtag),
            comm,
            request,
        )
    }

    fn MPI_Sendrecv_replace(buf: *mut c_void, count: c_int, datatype: Datatype, dest: c_int,
                            sendtag: c_int, source: c_int, recvtag: c_int, comm: Comm,
                            status: StatusOut) on comm |mpi| {
        mpi.replace((buf, count.into(), datatype), (dest, sendtag), (source, recvtag), comm, status)
    }

    fn MPI_Sendrecv_replace_c(buf: *mut c_void, count: Count, datatype: Datatype, dest: c_int,
                              sendtag: c_int, source: c_int, recvtag: c_int, comm: Comm,
                              status: StatusOut) on comm |mpi| {
        mpi.replace((buf, count, datatype), (dest, sendtag), (source, recvtag), comm, status)
    }

    fn MPI_Isendrecv_replace(buf: *mut c_void, count: c_int, datatype: Datatype, dest: c_int,
                             sendtag: c_int, source: c_int, recvtag: c_int, comm: Comm,
                             request: Out<Request>) on comm |mpi| {
        mpi.start_replace(
            (buf, count.into(), datatype),
            (dest, sendtag),
            (source, recvtag),
            comm,
            request,
        )
    }

    fn MPI_Isendrecv_replace_c(buf: *mut c_void, count: Count, datatype: Datatype, dest: c_int,
                               sendtag: c_int, source: c_int, recvtag: c_int, comm: Comm,
                               request: Out<Request>) on comm |mpi| {
        mpi.start_replace((buf, count, datatype), (dest, sendtag), (source, recvtag), comm, request)
    }
}
