//! Chapter: buffered sends, and the buffers that a program attaches for them.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use bowline_base::buffer::SendBuf;
use bowline_mpi::raw::{Completion, RawRequest as Raw, SendMode, Started};

use crate::arg::Out;
use crate::buffer::memory;
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Comm, Count, Datatype, Request, Session};
use crate::library::buffers::Owner;
use crate::library::{Library, library_of_session, sessions};
use crate::p2p::check_address;

impl Library {
    /// Waits until the messages of a buffer have left.
    fn flush(&self, owner: Owner) {
        if let Some(pool) = self.buffers.pool(owner) {
            self.world.comm.wait_until(|| pool.is_empty());
        }
    }

    /// A request that ends when the messages that a buffer has now have left.
    fn iflush(&self, owner: Owner, request: Out<Request>) -> Result<(), Fault> {
        check_address(request)?;
        let started = match self.buffers.pool(owner) {
            Some(pool) if !pool.is_empty() => Started::Active(Raw::flush(&pool)),
            _ => Started::Done(Completion::EMPTY),
        };
        self.requests.give(started, Rc::clone(&self.own), request)
    }

    /// Waits until the messages of a buffer have left, and takes it away.
    fn detach<T: Copy + TryFrom<i64>>(
        &self,
        owner: Owner,
        buffer_addr: Out<usize>,
        size: Out<T>,
    ) -> Result<(), Fault> {
        if buffer_addr.is_null() || size.is_null() {
            return Err(fault(MPI_ERR_ARG, "there is no address for the buffer's own"));
        }
        let found = self.buffers.attached.borrow().get(&owner).map(|a| (a.address, a.size));
        let none = || fault(MPI_ERR_BUFFER, "no buffer is attached");
        let (address, bytes) = found.ok_or_else(none)?;
        let large = |_| fault(MPI_ERR_VALUE_TOO_LARGE, format!("the buffer has {bytes} bytes"));
        let bytes = T::try_from(bytes).map_err(large)?;
        self.flush(owner);
        self.buffers.attached.borrow_mut().remove(&owner);
        buffer_addr.set(address)?;
        size.set(bytes)
    }

    /// Sends by a copy.
    fn send_buffered(
        &self,
        comm: Comm,
        (buf, count, datatype): (*const c_void, i64, Datatype),
        dest: c_int,
        tag: c_int,
    ) -> Result<(), Fault> {
        let object = self.comm(comm)?;
        let memory = memory(self, buf.cast_mut(), count, datatype)?;
        if dest == MPI_PROC_NULL {
            // No space is needed, nor a buffer.
            return Ok(object.comm.send_buffer(SendBuf::empty(), dest, tag, SendMode::Standard)?);
        }
        let pool = self.buffers.pool_of(Some(&object))?;
        // SAFETY: the standard makes the program answer for the memory while the call lasts.
        Ok(unsafe { pool.send(&object.comm, &memory, dest, tag) }?)
    }
}

mpi! {
    fn MPI_Bsend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int,
                 comm: Comm) on comm |mpi| {
        mpi.send_buffered(comm, (buf, count.into(), datatype), dest, tag)
    }

    fn MPI_Bsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int,
                   comm: Comm) on comm |mpi| {
        mpi.send_buffered(comm, (buf, count, datatype), dest, tag)
    }

    fn MPI_Ibsend(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, tag: c_int,
                  comm: Comm, request: Out<Request>) on comm |mpi| {
        check_address(request)?;
        mpi.send_buffered(comm, (buf, count.into(), datatype), dest, tag)?;
        mpi.requests.give(Started::Done(Completion::EMPTY), mpi.comm(comm)?, request)
    }

    fn MPI_Ibsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int,
                    comm: Comm, request: Out<Request>) on comm |mpi| {
        check_address(request)?;
        mpi.send_buffered(comm, (buf, count, datatype), dest, tag)?;
        mpi.requests.give(Started::Done(Completion::EMPTY), mpi.comm(comm)?, request)
    }

    fn MPI_Buffer_attach(buffer: *mut c_void, size: c_int) |mpi| {
        mpi.buffers.attach(Owner::Process, buffer.addr(), size.into())
    }

    fn MPI_Buffer_attach_c(buffer: *mut c_void, size: Count) |mpi| {
        mpi.buffers.attach(Owner::Process, buffer.addr(), size)
    }

    fn MPI_Buffer_detach(buffer_addr: Out<usize>, size: Out<c_int>) |mpi| {
        mpi.detach(Owner::Process, buffer_addr, size)
    }

    fn MPI_Buffer_detach_c(buffer_addr: Out<usize>, size: Out<Count>) |mpi| {
        mpi.detach(Owner::Process, buffer_addr, size)
    }

    fn MPI_Buffer_flush() |mpi| {
        mpi.flush(Owner::Process);
        Ok(())
    }

    fn MPI_Buffer_iflush(request: Out<Request>) |mpi| {
        mpi.iflush(Owner::Process, request)
    }

    fn MPI_Comm_attach_buffer(comm: Comm, buffer: *mut c_void, size: c_int) on comm |mpi| {
        mpi.comm(comm)?;
        mpi.buffers.attach(Owner::Comm(comm), buffer.addr(), size.into())
    }

    fn MPI_Comm_attach_buffer_c(comm: Comm, buffer: *mut c_void, size: Count) on comm |mpi| {
        mpi.comm(comm)?;
        mpi.buffers.attach(Owner::Comm(comm), buffer.addr(), size)
    }

    fn MPI_Comm_detach_buffer(comm: Comm, buffer_addr: Out<usize>, size: Out<c_int>) on comm |mpi| {
        mpi.comm(comm)?;
        mpi.detach(Owner::Comm(comm), buffer_addr, size)
    }

    fn MPI_Comm_detach_buffer_c(comm: Comm, buffer_addr: Out<usize>, size: Out<Count>)
        on comm |mpi| {
        mpi.comm(comm)?;
        mpi.detach(Owner::Comm(comm), buffer_addr, size)
    }

    fn MPI_Comm_flush_buffer(comm: Comm) on comm |mpi| {
        mpi.comm(comm)?;
        mpi.flush(Owner::Comm(comm));
        Ok(())
    }

    fn MPI_Comm_iflush_buffer(comm: Comm, request: Out<Request>) on comm |mpi| {
        mpi.comm(comm)?;
        mpi.iflush(Owner::Comm(comm), request)
    }

    any fn MPI_Session_attach_buffer(session: Session, buffer: *mut c_void, size: c_int)
        on session {
        sessions::check(session)?;
        let mpi = library_of_session()?;
        mpi.buffers.attach(Owner::Session(session), buffer.addr(), size.into())
    }

    any fn MPI_Session_attach_buffer_c(session: Session, buffer: *mut c_void, size: Count)
        on session {
        sessions::check(session)?;
        library_of_session()?.buffers.attach(Owner::Session(session), buffer.addr(), size)
    }

    any fn MPI_Session_detach_buffer(session: Session, buffer_addr: Out<usize>, size: Out<c_int>)
        on session {
        sessions::check(session)?;
        library_of_session()?.detach(Owner::Session(session), buffer_addr, size)
    }

    any fn MPI_Session_detach_buffer_c(session: Session, buffer_addr: Out<usize>,
                                       size: Out<Count>) on session {
        sessions::check(session)?;
        library_of_session()?.detach(Owner::Session(session), buffer_addr, size)
    }

    any fn MPI_Session_flush_buffer(session: Session) on session {
        sessions::check(session)?;
        library_of_session()?.flush(Owner::Session(session));
        Ok(())
    }

    any fn MPI_Session_iflush_buffer(session: Session, request: Out<Request>) on session {
        sessions::check(session)?;
        library_of_session()?.iflush(Owner::Session(session), request)
    }
}
