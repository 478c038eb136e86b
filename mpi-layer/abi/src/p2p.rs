//! Chapter: messages from one process to another.
//!
//! A ready send is a standard one here: the receive that the program vouches for is not needed.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_mpi::raw::SendMode;

use crate::arg::Out;
use crate::buffer::{incoming, memory, outgoing, plain};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::{MPI_COMM_WORLD, MPI_ERR_ARG};
use crate::handle::{Comm, Count, Datatype, Request};
use crate::library::Library;
use crate::library::requests::{DONE, DONE_NULL_PEER};
use crate::library::status::StatusOut;

/// A buffer to send from, with its count and datatype.
type From = (*const c_void, i64, Datatype);

/// A buffer to receive to.
type To = (*mut c_void, i64, Datatype);

/// Fails where a new request has no place to go. Asked before anything is started.
#[inline]
pub(crate) fn check_address(request: Out<Request>) -> Result<(), Fault> {
    if request.is_null() {
        return Err(fault(MPI_ERR_ARG, "there is no address for the request"));
    }
    Ok(())
}

impl Library {
    /// Sends a short message of elements side by side, where nothing waits before it. Whether it is under way;
    /// else nothing has happened, and an argument may be wrong.
    #[inline(always)]
    fn send_at_once(
        &self,
        (buf, count, datatype): From,
        (dest, tag): (c_int, c_int),
        comm: Comm,
    ) -> bool {
        let Some(len) = plain(buf, count, datatype) else { return false };
        // SAFETY: the standard makes the program answer for the memory until the operation is complete,
        // which it is before the handle ends.
        let buffer = unsafe { SendBuf::borrowed(buf.cast(), len) };
        match comm {
            MPI_COMM_WORLD => self.world.comm.send_at_once(&buffer, dest, tag),
            _ => self.send_at_once_in(comm, &buffer, (dest, tag)),
        }
    }

    #[inline(never)]
    fn send_at_once_in(&self, comm: Comm, buffer: &SendBuf, (dest, tag): (c_int, c_int)) -> bool {
        self.with_comm(comm, |comm| comm.send_at_once(buffer, dest, tag)).unwrap_or(false)
    }

    fn send(
        &self,
        (buf, count, datatype): From,
        (dest, tag): (c_int, c_int),
        comm: Comm,
        mode: SendMode,
    ) -> Result<(), Fault> {
        let comm = self.comm(comm)?;
        let buffer = outgoing(self, buf, count, datatype)?;
        Ok(comm.comm.send_buffer(buffer, dest, tag, mode)?)
    }

    /// Receives a message of elements side by side in the world. Whether it has; else nothing has happened,
    /// and an argument may be wrong. No panic may leave the caller before the memory is free, which its border
    /// sees to.
    #[inline(always)]
    fn receive_plain(
        &self,
        (buf, count, datatype): To,
        (source, tag): (c_int, c_int),
        comm: Comm,
        status: StatusOut,
    ) -> Result<bool, Fault> {
        let Some(len) = plain(buf, count, datatype).filter(|_| comm == MPI_COMM_WORLD) else {
            return Ok(false);
        };
        // SAFETY: as in `send_at_once`.
        let buffer = unsafe { RecvBuf::borrowed(buf.cast(), len) };
        let Some(received) = self.world.comm.recv_in_place(buffer, source, tag) else {
            return Ok(false);
        };
        status.put_received(received.map_err(|cut| status.failed(&cut))?);
        Ok(true)
    }

    fn receive(
        &self,
        (buf, count, datatype): To,
        (source, tag): (c_int, c_int),
        comm: Comm,
        status: StatusOut,
    ) -> Result<(), Fault> {
        let comm = self.comm(comm)?;
        let buffer = incoming(self, buf, count, datatype)?;
        let received = comm.comm.recv_buffer(buffer, source, tag);
        status.put_received(received.map_err(|cut| status.failed(&cut))?);
        Ok(())
    }

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
        check_address(request)?;
        match comm.comm.post_send(buffer, dest, tag, mode)? {
            Some(posted) => self.requests.give_message(posted, &comm, request),
            None => request.set(DONE),
        }
    }

    #[inline(always)]
    fn start_receive(
        &self,
        (buf, count, datatype): To,
        (source, tag): (c_int, c_int),
        comm: Comm,
        request: Out<Request>,
    ) -> Result<(), Fault> {
        if comm == MPI_COMM_WORLD
            && !request.is_null()
            && let Some(len) = plain(buf, count, datatype)
        {
            // SAFETY: as in `send_at_once`.
            let buffer = unsafe { RecvBuf::borrowed(buf.cast(), len) };
            if let Some(posted) = self.world.comm.post_recv_in_place(buffer, source, tag) {
                return self.requests.give_message(posted?, &self.world, request);
            }
        }
        self.start_receive_other(buf, count, datatype, source, tag, comm, request)
    }

    #[expect(clippy::too_many_arguments, reason = "those of MPI_Irecv, as in `receive_other`")]
    #[inline(never)]
    fn start_receive_other(
        &self,
        buf: *mut c_void,
        count: i64,
        datatype: Datatype,
        source: c_int,
        tag: c_int,
        comm: Comm,
        request: Out<Request>,
    ) -> Result<(), Fault> {
        let comm = self.comm(comm)?;
        let buffer = incoming(self, buf, count, datatype)?;
        check_address(request)?;
        match comm.comm.post_recv(buffer, source, tag)? {
            Some(posted) => self.requests.give_message(posted, &comm, request),
            None => request.set(DONE_NULL_PEER),
        }
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
        let received = comm.comm.exchange_buffers((out, dest, sendtag), (into, source, recvtag));
        status.put(received.map_err(|cut| status.failed(&cut))?.into());
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
        check_address(request)?;
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
        let received = comm.comm.exchange_buffers((out, dest, sendtag), (into, source, recvtag));
        status.put(received.map_err(|cut| status.failed(&cut))?.into());
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
        check_address(request)?;
        // SAFETY: as in `replace`.
        let (out, into) = unsafe { (SendBuf::owned(memory.packed()), memory.incoming()) };
        let started = comm.comm.start_exchange((out, dest, sendtag), (into, source, recvtag))?;
        self.requests.give(started, Rc::clone(&comm), request)
    }
}

mpi! {
    fn MPI_Send(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int,
                comm: Comm) on comm |mpi| short {
        Ok(mpi.send_at_once((buf, count.into(), datatype), (dest, tag), comm))
    } {
        mpi.send((buf, count.into(), datatype), (dest, tag), comm, SendMode::Standard)
    }

    fn MPI_Send_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int,
                  comm: Comm) on comm |mpi| short {
        Ok(mpi.send_at_once((buf, count, datatype), (dest, tag), comm))
    } {
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
                 comm: Comm) on comm |mpi| short {
        Ok(mpi.send_at_once((buf, count.into(), datatype), (dest, tag), comm))
    } {
        mpi.send((buf, count.into(), datatype), (dest, tag), comm, SendMode::Standard)
    }

    fn MPI_Rsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int,
                   tag: c_int, comm: Comm) on comm |mpi| short {
        Ok(mpi.send_at_once((buf, count, datatype), (dest, tag), comm))
    } {
        mpi.send((buf, count, datatype), (dest, tag), comm, SendMode::Standard)
    }

    fn MPI_Recv(buf: *mut c_void, count: c_int, datatype: Datatype, source: c_int, tag: c_int,
                comm: Comm, status: StatusOut) on comm |mpi| short {
        mpi.receive_plain((buf, count.into(), datatype), (source, tag), comm, status)
    } {
        mpi.receive((buf, count.into(), datatype), (source, tag), comm, status)
    }

    fn MPI_Recv_c(buf: *mut c_void, count: Count, datatype: Datatype, source: c_int, tag: c_int,
                  comm: Comm, status: StatusOut) on comm |mpi| short {
        mpi.receive_plain((buf, count, datatype), (source, tag), comm, status)
    } {
        mpi.receive((buf, count, datatype), (source, tag), comm, status)
    }

    fn MPI_Isend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int,
                 comm: Comm, request: Out<Request>) on comm |mpi| short {
        if request.is_null() || !mpi.send_at_once((buf, count.into(), datatype), (dest, tag), comm) {
            return Ok(false);
        }
        request.set(DONE)?;
        Ok(true)
    } {
        mpi.start_send(
            (buf, count.into(), datatype),
            (dest, tag),
            comm,
            SendMode::Standard,
            request,
        )
    }

    fn MPI_Isend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int,
                   tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| short {
        if request.is_null() || !mpi.send_at_once((buf, count, datatype), (dest, tag), comm) {
            return Ok(false);
        }
        request.set(DONE)?;
        Ok(true)
    } {
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
                  comm: Comm, request: Out<Request>) on comm |mpi| short {
        if request.is_null() || !mpi.send_at_once((buf, count.into(), datatype), (dest, tag), comm) {
            return Ok(false);
        }
        request.set(DONE)?;
        Ok(true)
    } {
        mpi.start_send(
            (buf, count.into(), datatype),
            (dest, tag),
            comm,
            SendMode::Standard,
            request,
        )
    }

    fn MPI_Irsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int,
                    tag: c_int, comm: Comm, request: Out<Request>) on comm |mpi| short {
        if request.is_null() || !mpi.send_at_once((buf, count, datatype), (dest, tag), comm) {
            return Ok(false);
        }
        request.set(DONE)?;
        Ok(true)
    } {
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
