//! Chapter: probes, and messages that a probe has claimed.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use crate::arg::Out;
use crate::buffer::incoming;
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Comm, Count, Datatype, Message, Request};
use crate::library::status::StatusOut;
use crate::library::{CommObject, Library};
use crate::p2p::check_address;

/// Fails where a result has no place to go. Asked before a message is claimed.
fn places<const N: usize>(missing: [bool; N]) -> Result<(), Fault> {
    if missing.contains(&true) {
        return Err(fault(MPI_ERR_ARG, "a result has no address to go to"));
    }
    Ok(())
}

/// The error for the handler of a message's communicator.
fn on<E: Into<Fault>>(comm: &CommObject) -> impl FnOnce(E) -> Fault {
    move |error| comm.blamed(error.into())
}

impl Library {
    fn receive_claimed(
        &self,
        (buf, count, datatype): (*mut c_void, i64, Datatype),
        message: Out<Message>,
        status: StatusOut,
    ) -> Result<(), Fault> {
        let handle = message.get()?;
        let Some(comm) = self.messages.comm_of(handle)? else {
            status.put(bowline_mpi::raw::Completion::NULL.into());
            return message.set(MPI_MESSAGE_NULL);
        };
        let buffer = incoming(self, buf, count, datatype).map_err(on(&comm))?;
        let claimed = self.messages.take(handle)?;
        message.set(MPI_MESSAGE_NULL)?;
        let received = claimed.message.recv_buffer(buffer);
        status.put(received.map_err(|cut| on(&comm)(status.failed(&cut)))?.into());
        Ok(())
    }

    fn start_receive_claimed(
        &self,
        (buf, count, datatype): (*mut c_void, i64, Datatype),
        message: Out<Message>,
        request: Out<Request>,
    ) -> Result<(), Fault> {
        let handle = message.get()?;
        check_address(request)?;
        let Some(comm) = self.messages.comm_of(handle)? else {
            message.set(MPI_MESSAGE_NULL)?;
            let nobody = bowline_mpi::raw::Started::Done(bowline_mpi::raw::Completion::NULL);
            return self.requests.give(nobody, Rc::clone(&self.own), request);
        };
        let buffer = incoming(self, buf, count, datatype).map_err(on(&comm))?;
        let claimed = self.messages.take(handle)?;
        message.set(MPI_MESSAGE_NULL)?;
        let started = claimed.message.start_recv(buffer).map_err(on(&comm))?;
        self.requests.give(started, claimed.comm, request)
    }
}

mpi! {
    fn MPI_Probe(source: c_int, tag: c_int, comm: Comm, status: StatusOut) on comm |mpi| {
        let found = mpi.comm(comm)?.comm.probe(source, tag)?;
        status.put(found.into());
        Ok(())
    }

    fn MPI_Iprobe(source: c_int, tag: c_int, comm: Comm, flag: Out<c_int>, status: StatusOut)
        on comm |mpi| {
        let comm = mpi.comm(comm)?;
        places([flag.is_null()])?;
        let found = comm.comm.iprobe(source, tag)?;
        if let Some(found) = found {
            status.put(found.into());
        }
        flag.set(found.is_some().into())
    }

    fn MPI_Mprobe(source: c_int, tag: c_int, comm: Comm, message: Out<Message>,
                  status: StatusOut) on comm |mpi| {
        let comm = mpi.comm(comm)?;
        places([message.is_null()])?;
        let claimed = comm.comm.mprobe(source, tag)?;
        mpi.messages.give(comm, claimed, message, status)
    }

    fn MPI_Improbe(source: c_int, tag: c_int, comm: Comm, flag: Out<c_int>, message: Out<Message>,
                   status: StatusOut) on comm |mpi| {
        let comm = mpi.comm(comm)?;
        places([flag.is_null(), message.is_null()])?;
        let claimed = comm.comm.improbe(source, tag)?;
        flag.set(claimed.is_some().into())?;
        match claimed {
            Some(claimed) => mpi.messages.give(comm, claimed, message, status),
            None => Ok(()),
        }
    }

    fn MPI_Mrecv(buf: *mut c_void, count: c_int, datatype: Datatype, message: Out<Message>,
                 status: StatusOut) |mpi| {
        mpi.receive_claimed((buf, count.into(), datatype), message, status)
    }

    fn MPI_Mrecv_c(buf: *mut c_void, count: Count, datatype: Datatype, message: Out<Message>,
                   status: StatusOut) |mpi| {
        mpi.receive_claimed((buf, count, datatype), message, status)
    }

    fn MPI_Imrecv(buf: *mut c_void, count: c_int, datatype: Datatype, message: Out<Message>,
                  request: Out<Request>) |mpi| {
        mpi.start_receive_claimed((buf, count.into(), datatype), message, request)
    }

    fn MPI_Imrecv_c(buf: *mut c_void, count: Count, datatype: Datatype, message: Out<Message>,
                    request: Out<Request>) |mpi| {
        mpi.start_receive_claimed((buf, count, datatype), message, request)
    }
}
