//! Chapter: buffered sends, and the buffers that a program attaches for them.
//!
//! A message takes its room in the buffer of its communicator if that has one, else in that of the
//! communicator's session, else in that of the process. How much room it takes is what the standard says; where the copy lies is the library's affair,
//! so that a buffer that was detached is the program's at once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use bowline_base::buffer::SendBuf;
use bowline_mpi::raw::{Completion, Pool, Request as Raw, SendMode, Started};

use crate::arg::Out;
use crate::buffer::memory;
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::group::library_of_session;
use crate::handle::{Comm, Count, Datatype, Request, Session};
use crate::library::{CommObject, Library};
use crate::p2p::check_room;
use crate::session;

/// Whose a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Process,
    Comm(Comm),
    Session(Session),
}

/// A buffer that is attached.
#[derive(Debug)]
struct Attached {
    address: usize,
    size: i64,
    pool: Rc<Pool>,
}

/// All buffers.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    attached: RefCell<HashMap<Owner, Attached>>,
    /// Of owners that are gone.
    orphans: RefCell<Vec<Rc<Pool>>>,
}

impl Buffers {
    /// Where a communicator's messages go.
    pub(crate) fn pool_of(&self, comm: Option<&CommObject>) -> Result<Rc<Pool>, Fault> {
        let attached = self.attached.borrow();
        let own = comm.map(|comm| Owner::Comm(comm.handle));
        let session = comm.and_then(|comm| comm.session.get()).map(Owner::Session);
        let mut owners = [own, session, Some(Owner::Process)].into_iter().flatten();
        let found = owners.find_map(|owner| attached.get(&owner));
        let none = || fault(MPI_ERR_BUFFER, "no buffer is attached for buffered sends");
        found.map(|attached| Rc::clone(&attached.pool)).ok_or_else(none)
    }

    fn attach(&self, owner: Owner, address: usize, size: i64) -> Result<(), Fault> {
        let room = usize::try_from(size)
            .map_err(|_| fault(MPI_ERR_ARG, format!("the buffer has {size} bytes")))?;
        if address == 0 && room > 0 {
            return Err(fault(MPI_ERR_BUFFER, "the buffer has no address"));
        }
        let mut attached = self.attached.borrow_mut();
        if attached.contains_key(&owner) {
            return Err(fault(MPI_ERR_BUFFER, "a buffer is attached already"));
        }
        let room = (address != MPI_BUFFER_AUTOMATIC).then_some(room);
        attached.insert(owner, Attached { address, size, pool: Rc::new(Pool::new(room)) });
        Ok(())
    }

    fn pool(&self, owner: Owner) -> Option<Rc<Pool>> {
        self.attached.borrow().get(&owner).map(|attached| Rc::clone(&attached.pool))
    }

    /// The owner is gone; its messages go on.
    pub(crate) fn forget(&self, owner: Owner) {
        let mut orphans = self.orphans.borrow_mut();
        orphans.retain(|pool| !pool.is_empty());
        orphans.extend(self.attached.borrow_mut().remove(&owner).map(|attached| attached.pool));
    }

    /// Whether no message of any buffer is under way.
    pub(crate) fn are_empty(&self) -> bool {
        self.orphans.borrow().iter().all(|pool| pool.is_empty())
            && self.attached.borrow().values().all(|attached| attached.pool.is_empty())
    }
}

impl Library {
    /// Waits until the messages of a buffer have left.
    fn flush(&self, owner: Owner) {
        if let Some(pool) = self.buffers.pool(owner) {
            self.world.comm.wait_until(|| pool.is_empty());
        }
    }

    /// A request that ends when the messages that a buffer has now have left.
    fn iflush(&self, owner: Owner, request: Out<Request>) -> Result<(), Fault> {
        check_room(request)?;
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
            // No room is needed, nor a buffer.
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
        check_room(request)?;
        mpi.send_buffered(comm, (buf, count.into(), datatype), dest, tag)?;
        mpi.requests.give(Started::Done(Completion::EMPTY), mpi.comm(comm)?, request)
    }

    fn MPI_Ibsend_c(buf: *const c_void, count: Count, datatype: Datatype, dest: c_int, tag: c_int,
                    comm: Comm, request: Out<Request>) on comm |mpi| {
        check_room(request)?;
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
        session::check(session)?;
        let mpi = library_of_session()?;
        mpi.buffers.attach(Owner::Session(session), buffer.addr(), size.into())
    }

    any fn MPI_Session_attach_buffer_c(session: Session, buffer: *mut c_void, size: Count)
        on session {
        session::check(session)?;
        library_of_session()?.buffers.attach(Owner::Session(session), buffer.addr(), size)
    }

    any fn MPI_Session_detach_buffer(session: Session, buffer_addr: Out<usize>, size: Out<c_int>)
        on session {
        session::check(session)?;
        library_of_session()?.detach(Owner::Session(session), buffer_addr, size)
    }

    any fn MPI_Session_detach_buffer_c(session: Session, buffer_addr: Out<usize>,
                                       size: Out<Count>) on session {
        session::check(session)?;
        library_of_session()?.detach(Owner::Session(session), buffer_addr, size)
    }

    any fn MPI_Session_flush_buffer(session: Session) on session {
        session::check(session)?;
        library_of_session()?.flush(Owner::Session(session));
        Ok(())
    }

    any fn MPI_Session_iflush_buffer(session: Session, request: Out<Request>) on session {
        session::check(session)?;
        library_of_session()?.iflush(Owner::Session(session), request)
    }
}
