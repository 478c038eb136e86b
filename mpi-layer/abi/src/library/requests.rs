//! Requests behind handles: how they get them, how they end, and what is reported of that.
//!
//! The chapters around it start operations ([`p2p`](crate::p2p), [`persistent`](crate::persistent),
//! [`probe`](crate::probe), [`general`](crate::general)) and wait for them ([`wait`](crate::wait)).
//!
//! An operation that is complete in the call that starts it has no place in the table: it gets one of two
//! handles that are always there and complete. So a program may have several requests with the same
//! handle: their statuses are equal.
//!
//! A message under way is no more than its number at the communicator, which is all that starting it and
//! waiting for it need. It becomes a [`Raw`] request when something else is asked of it.

use std::cell::RefCell;
use std::ffi::c_int;
use std::rc::Rc;

use bowline_mpi::Status as Received;
use bowline_mpi::raw::{Completion, PostedMessage, RawRequest as Raw, Standing, Started};

use super::buffers::Buffers;
use super::general::{self, Callbacks};
use super::status::Status;
use super::{CommObject, Library};
use crate::arg::{In, Out};
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Request, encode};
use crate::table::Table;

/// The request of every operation that has ended in its call.
pub(crate) const DONE: Request = Request(encode(Request::KIND, 0, 1));

/// The same for operations with `MPI_PROC_NULL`.
pub(crate) const DONE_NULL_PEER: Request = Request(encode(Request::KIND, 1, 1));

/// What is behind a handle.
#[derive(Debug)]
enum Entry {
    Message(Message),
    Other(Box<Other>),
}

/// A message under way. Its error handler is that of the communicator.
#[derive(Debug)]
struct Message {
    comm: Rc<CommObject>,
    posted: PostedMessage,
}

/// A request of any kind.
#[derive(Debug)]
struct Other {
    request: Raw,
    /// Its error handler takes the operation's errors.
    comm: Option<Rc<CommObject>>,
    /// Of a generalised request.
    callbacks: Option<Callbacks>,
}

impl Entry {
    fn done(completion: Completion) -> Self {
        Self::Other(Box::new(Other { request: Raw::done(completion), comm: None, callbacks: None }))
    }

    /// The same as a request of any kind, which it is from now on.
    fn other(&mut self) -> &mut Other {
        if let Self::Message(Message { comm, posted }) = self {
            let (request, comm) = (comm.comm.request(*posted), Some(Rc::clone(comm)));
            *self = Self::Other(Box::new(Other { request, comm, callbacks: None }));
        }
        match self {
            Self::Other(other) => other,
            Self::Message(_) => unreachable!("made another in the lines above"),
        }
    }
}

/// All requests of the library.
#[derive(Debug)]
pub(crate) struct Requests {
    table: RefCell<Table<Entry>>,
    /// Those that the program has freed before they ended.
    detached: RefCell<Vec<Entry>>,
}

/// Where a request stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    /// It is none, or inactive.
    Idle,
    /// It is under way; the message that it waits for, if that is all.
    Busy(Option<PostedMessage>),
    /// It is complete, and that was not reported yet.
    Done,
}

impl Seen {
    /// Where it stands among others.
    pub(crate) const fn standing(self) -> Standing {
        match self {
            Self::Idle => Standing::Idle,
            Self::Busy(_) => Standing::Busy,
            Self::Done => Standing::Done,
        }
    }
}

/// How an operation ended.
#[derive(Debug)]
pub(crate) struct Reported {
    pub(crate) status: Status,
    pub(crate) fault: Option<Fault>,
}

impl Reported {
    /// Whether it has failed because a process is gone.
    pub(crate) fn is_of_lost(&self) -> bool {
        self.fault.as_ref().is_some_and(|fault| fault.code() == MPI_ERR_PROC_ABORTED)
    }

    /// The error as what the function ends with.
    pub(crate) fn outcome(self) -> Result<(), Fault> {
        self.fault.map_or(Ok(()), Err)
    }
}

impl From<Completion> for Status {
    fn from(completion: Completion) -> Self {
        let mut status = Self::new(completion.source, completion.tag, completion.bytes);
        status.set_cancelled(completion.cancelled);
        status
    }
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self { table: RefCell::new(new_table()), detached: RefCell::default() }
    }

    /// The handle whose number in C is this one.
    pub(crate) fn complete(&self, low: usize) -> Request {
        Request(self.table.borrow().complete(low))
    }

    /// Gives the program the handle of what was started.
    #[inline]
    pub(crate) fn give(
        &self,
        started: Started,
        comm: Rc<CommObject>,
        request: Out<Request>,
    ) -> Result<(), Fault> {
        match started {
            Started::Done(Completion::EMPTY) => request.set(DONE),
            Started::Done(Completion::NULL) => request.set(DONE_NULL_PEER),
            Started::Done(completion) => self.add(Raw::done(completion), Some(comm), request),
            Started::Active(raw) => self.add(raw, Some(comm), request),
        }
    }

    /// Gives the program the handle of a message that was posted.
    #[inline(always)]
    pub(crate) fn give_message(
        &self,
        posted: PostedMessage,
        comm: &Rc<CommObject>,
        request: Out<Request>,
    ) -> Result<(), Fault> {
        let entry = |_| Entry::Message(Message { comm: Rc::clone(comm), posted });
        let made = self.table.borrow_mut().insert_with(entry);
        request.set(Request(made.ok_or_else(too_many)?))
    }

    /// Gives the program the handle of a request.
    pub(crate) fn add(
        &self,
        raw: Raw,
        comm: Option<Rc<CommObject>>,
        request: Out<Request>,
    ) -> Result<(), Fault> {
        self.insert(Other { request: raw, comm, callbacks: None }, request).map(drop)
    }

    /// The same for a generalised request.
    pub(crate) fn add_general(
        &self,
        raw: Raw,
        callbacks: Callbacks,
        request: Out<Request>,
    ) -> Result<Request, Fault> {
        let callbacks = Some(callbacks);
        self.insert(Other { request: raw, comm: None, callbacks }, request)
    }

    fn insert(&self, other: Other, request: Out<Request>) -> Result<Request, Fault> {
        let made = self.table.borrow_mut().insert(Entry::Other(Box::new(other)));
        let handle = Request(made.ok_or_else(too_many)?);
        request.set(handle)?;
        Ok(handle)
    }

    /// Fails where one of several handles is none.
    pub(crate) fn check(&self, count: usize, requests: In<Request>) -> Result<(), Fault> {
        let table = self.table.borrow();
        for index in 0..count {
            let handle = requests.at(index).get()?;
            if handle != MPI_REQUEST_NULL && table.get(handle.0).is_none() {
                return Err(not_a_request(handle));
            }
        }
        Ok(())
    }

    /// Where a request stands. Moves nothing on.
    #[inline]
    pub(crate) fn see(&self, handle: Request) -> Result<Seen, Fault> {
        if handle == MPI_REQUEST_NULL {
            return Ok(Seen::Idle);
        }
        let mut table = self.table.borrow_mut();
        let other = match table.get_mut(handle.0).ok_or_else(|| not_a_request(handle))? {
            Entry::Message(Message { comm, posted }) => {
                let ended = comm.comm.has_ended(*posted);
                return Ok(if ended { Seen::Done } else { Seen::Busy(Some(*posted)) });
            }
            Entry::Other(other) => other,
        };
        if !other.request.is_active() {
            return Ok(Seen::Idle);
        }
        Ok(match other.request.poll() {
            Some(_) => Seen::Done,
            None => Seen::Busy(other.request.waits_for()),
        })
    }

    /// Takes a message out of the table, if that is what the handle stands for.
    #[inline(always)]
    fn take_message(&self, handle: Request) -> Option<Message> {
        self.table.borrow_mut().remove_part(
            handle.0,
            |entry| matches!(entry, Entry::Message(_)),
            |entry| match entry {
                Entry::Message(message) => message,
                Entry::Other(_) => unreachable!("asked for in the line above"),
            },
        )
    }

    /// Takes in how the message that a request waits for has ended.
    pub(crate) fn arrived(&self, handle: Request, status: &bowline_mpi::raw::MessageEnd) {
        if let Some(entry) = self.table.borrow_mut().get_mut(handle.0) {
            entry.other().request.arrived(status);
        }
    }

    /// Reports the end of a complete request and takes the handle at `place` away, unless it is of a
    /// persistent one.
    pub(crate) fn report(&self, handle: Request, place: Out<Request>) -> Result<Reported, Fault> {
        let (completion, comm, callbacks) = {
            let mut table = self.table.borrow_mut();
            let entry = table.get_mut(handle.0).ok_or_else(|| not_a_request(handle))?.other();
            let completion = entry.request.poll().unwrap_or(Completion::EMPTY);
            if handle == DONE || handle == DONE_NULL_PEER {
                place.set(MPI_REQUEST_NULL)?;
                return Ok(Reported { status: completion.into(), fault: None });
            }
            if entry.request.finish() {
                place.set(MPI_REQUEST_NULL)?;
                match table.remove(handle.0) {
                    Some(Entry::Other(other)) => (completion, other.comm, other.callbacks),
                    _ => return Err(not_a_request(handle)),
                }
            } else {
                (completion, entry.comm.clone(), None)
            }
        };
        let mut reported = reported(completion, comm.as_deref());
        if let Some(callbacks) = callbacks {
            general::forget(handle);
            let code = callbacks.query(&mut reported.status);
            let freed = callbacks.free();
            reported.fault = general::failed(code, freed);
        }
        Ok(reported)
    }

    /// Reports the end of a complete request, which stays as it is.
    pub(crate) fn peek(&self, handle: Request) -> Result<Reported, Fault> {
        let (completion, callbacks) = {
            let mut table = self.table.borrow_mut();
            let entry = table.get_mut(handle.0).ok_or_else(|| not_a_request(handle))?.other();
            (entry.request.poll().unwrap_or(Completion::EMPTY), entry.callbacks)
        };
        let mut reported = reported(completion, None);
        if let Some(callbacks) = callbacks {
            let code = callbacks.query(&mut reported.status);
            reported.fault = general::failed(code, MPI_SUCCESS);
        }
        Ok(reported)
    }

    /// Starts a persistent request.
    pub(crate) fn start(&self, handle: Request, buffers: &Buffers) -> Result<(), Fault> {
        use bowline_mpi::raw::StartError;
        let mut table = self.table.borrow_mut();
        let entry = table.get_mut(handle.0).ok_or_else(|| not_a_request(handle))?.other();
        let comm = entry.comm.as_deref();
        let pool = || buffers.pool_of(comm);
        // SAFETY: the standard makes the program answer for the memory that it has made the request with,
        // until the operation is complete.
        let started = unsafe { entry.request.start(pool) };
        let failed = match started {
            Ok(()) => return Ok(()),
            Err(StartError::Unstartable) => {
                fault(MPI_ERR_REQUEST, "the request is not persistent, or is active")
            }
            Err(StartError::Failed(error)) => error.into(),
            Err(StartError::NoPool(fault)) => fault,
        };
        Err(match comm {
            Some(comm) => comm.blamed(failed),
            None => failed,
        })
    }

    /// Cancels an operation.
    pub(crate) fn cancel(&self, handle: Request) -> Result<(), Fault> {
        let (callbacks, complete) = {
            let mut table = self.table.borrow_mut();
            let entry = table.get_mut(handle.0).ok_or_else(|| not_a_request(handle))?.other();
            match entry.callbacks {
                Some(callbacks) => (callbacks, entry.request.poll().is_some()),
                None => {
                    let cannot =
                        |_| fault(MPI_ERR_REQUEST, "the request has nothing that can be cancelled");
                    return entry.request.cancel().map_err(cannot);
                }
            }
        };
        general::failed(callbacks.cancel(complete), MPI_SUCCESS).map_or(Ok(()), Err)
    }

    fn is_active_collective(&self, handle: Request) -> bool {
        match self.table.borrow().get(handle.0) {
            Some(Entry::Other(other)) => other.request.is_active_collective(),
            _ => false,
        }
    }

    /// Takes the handle of a request away. What is under way goes on.
    pub(crate) fn free(&self, handle: Request) -> Result<(), Fault> {
        if handle == DONE || handle == DONE_NULL_PEER {
            return Ok(());
        }
        if self.is_active_collective(handle) {
            let text = "a collective operation under way cannot be freed: all ranks depend on it";
            return Err(fault(MPI_ERR_REQUEST, text));
        }
        let removed = self.table.borrow_mut().remove(handle.0);
        let mut removed = removed.ok_or_else(|| not_a_request(handle))?;
        let entry = removed.other();
        let ended = !entry.request.is_active() || entry.request.poll().is_some();
        match entry.callbacks {
            Some(callbacks) if ended => {
                general::forget(handle);
                general::failed(MPI_SUCCESS, callbacks.free()).map_or(Ok(()), Err)
            }
            Some(callbacks) => {
                general::free_at_end(handle, callbacks);
                Ok(())
            }
            None if ended => Ok(()),
            None => {
                let mut detached = self.detached.borrow_mut();
                // Testing all of them whenever their number has doubled costs a constant for each.
                if detached.len() == detached.capacity() {
                    detached.retain_mut(|old| old.other().request.poll().is_none());
                }
                detached.push(removed);
                Ok(())
            }
        }
    }

    /// Takes back the receives that the program has freed under way. With `all`, those also that it has
    /// neither freed nor waited for: their memory is not the library's after the end.
    fn withdraw(&self, all: bool) {
        if all {
            let mut left = self.table.replace(new_table()).drain();
            // A send that the program has forgotten may never be matched. A receive that cannot be taken
            // back ends, since its message has come.
            left.retain_mut(|entry| entry.other().request.receives());
            self.detached.borrow_mut().append(&mut left);
            general::forget_all();
        }
        for entry in self.detached.borrow_mut().iter_mut() {
            entry.other().request.withdraw();
        }
    }

    /// Whether all that was freed under way has ended. Moves nothing on.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut detached = self.detached.borrow_mut();
        detached.retain_mut(|entry| entry.other().request.poll().is_none());
        detached.is_empty()
    }
}

/// A table of the requests that are always there.
fn new_table() -> Table<Entry> {
    let mut table = Table::new(Request::KIND);
    for (expected, completion) in [(DONE, Completion::EMPTY), (DONE_NULL_PEER, Completion::NULL)] {
        let made = table.insert(Entry::done(completion));
        debug_assert_eq!(made, Some(expected.0), "the first places of a new table");
    }
    table
}

/// What a completion says, with its error for the handler of its communicator.
fn reported(completion: Completion, comm: Option<&CommObject>) -> Reported {
    let fault = completion.error.map(|error| {
        let fault = Fault::from(error);
        match comm {
            Some(comm) => comm.blamed(fault),
            None => fault,
        }
    });
    Reported { status: completion.into(), fault }
}

impl Library {
    /// Waits for a request that is a message, reports its end and takes the handle at `place` away. None: the
    /// request is of another kind, and nothing has happened.
    #[inline(always)]
    pub(crate) fn end_message(
        &self,
        handle: Request,
        place: Out<Request>,
    ) -> Result<Option<Result<Received, Box<Reported>>>, Fault> {
        if handle == DONE {
            place.set(MPI_REQUEST_NULL)?;
            return Ok(Some(Ok(Received::EMPTY)));
        }
        let Some(Message { comm, posted }) = self.requests.take_message(handle) else {
            return Ok(None);
        };
        place.set(MPI_REQUEST_NULL)?;
        let ended = comm.comm.wait_posted(posted);
        Ok(Some(ended.map_err(|completion| Box::new(reported(*completion, Some(&comm))))))
    }

    /// Waits until a request is complete. Says whether there was anything to wait for.
    #[inline]
    pub(crate) fn wait_for(&self, handle: Request) -> Result<bool, Fault> {
        match self.requests.see(handle)? {
            Seen::Idle => Ok(false),
            Seen::Done => Ok(true),
            Seen::Busy(Some(message)) => {
                let status = self.world.comm.wait_message(message);
                self.requests.arrived(handle, &status);
                Ok(true)
            }
            Seen::Busy(None) => {
                let busy = || matches!(self.requests.see(handle), Ok(Seen::Busy(_)));
                self.world.comm.wait_until(|| !busy());
                Ok(true)
            }
        }
    }

    /// [`Requests::see`], after moving everything on where the request is not complete.
    pub(crate) fn progress_and_see(&self, handle: Request) -> Result<Seen, Fault> {
        match self.requests.see(handle)? {
            Seen::Busy(_) => {
                self.world.comm.poll();
                self.requests.see(handle)
            }
            seen => Ok(seen),
        }
    }

    /// Ends what the program has left under way, so that nothing uses its memory any more; with `all`,
    /// what it still has handles of as well.
    pub(crate) fn settle(&self, all: bool) {
        self.requests.withdraw(all);
        self.world.comm.wait_until(|| self.requests.is_quiet() && self.buffers.are_empty());
    }
}

#[cold]
fn too_many() -> Fault {
    fault(MPI_ERR_OTHER, "there are too many requests")
}

#[cold]
fn not_a_request(handle: Request) -> Fault {
    let text = match handle {
        MPI_REQUEST_NULL => "the request is MPI_REQUEST_NULL".into(),
        Request(value) => format!("{value:#x} is no request, or one that has ended"),
    };
    fault(MPI_ERR_REQUEST, text)
}

/// The number of elements of an array.
pub(crate) fn length(count: c_int) -> Result<usize, Fault> {
    usize::try_from(count).map_err(|_| fault(MPI_ERR_COUNT, format!("the count is {count}")))
}
