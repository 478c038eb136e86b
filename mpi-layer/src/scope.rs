//! Scopes: nonblocking operations on borrowed buffers. (MPI: Point-to-Point Communication,
//! "Nonblocking Communication".)
//!
//! # Why no operation outlives its buffer
//! [`Communicator::scope`] is built like `std::thread::scope`. The closure gets a
//! `&'scope Scope<'scope, 'env>` for a lifetime `'scope` that it cannot choose, of which it knows
//! only that `'env` outlives it. Hence:
//! 1. A buffer given to an operation is borrowed for all of `'scope`. What the closure itself
//!    owns does not live that long, so the buffer was borrowed before the scope began, and stays
//!    borrowed, until the call of `scope` is over.
//! 2. The numbers of all operations under way are kept by the `Tracker`, a local variable of the
//!    `scope` function, and not by the requests. That function does not return, and does not
//!    unwind, before each of them has completed. Forgetting, moving or dropping a request changes
//!    nothing.
//! 3. A request borrows the scope, and the closure's result may not name `'scope`; so no request
//!    leaves the scope.
//! 4. The elements under a receive are lent back, for the rest of `'scope`, only by the request
//!    that has seen its completion. A request holds no reference to them before.
//!
//! What ends a scope: when the closure succeeds, its operations are waited for; when it fails or
//! panics, unmatched operations are cancelled first, since what they wait for may never come. Collectives are
//! in [`collective`]; the tracker has them as well, and drops those that it gives up.

mod collective;
mod in_place;
mod neighbor;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::slab::{Key, Slab};
use bowline_ucp::{RequestId, SendMode};

use crate::coll::run::Run;
use crate::comm::Communicator;
use crate::datatype::{Datatype, bytes_of, bytes_of_mut};
use crate::error::MpiError;
use crate::handles;
use crate::process::Process;
use crate::request::sealed::Core;
use crate::request::{Request, State};
use crate::status::Status;
use crate::unwinding::without_unwinding;

pub use self::collective::CollectiveRequest;

/// The operations of one scope that are under way.
#[derive(Debug)]
struct Tracker {
    process: Rc<Process>,
    open: RefCell<Slab<RequestId>>,
    /// Collectives, under way or ended.
    runs: RefCell<Vec<Rc<Run>>>,
}

impl Tracker {
    /// Waits for all operations. The first failure of one that nobody waited for, if any.
    fn finish(&self, cancel: bool) -> Option<MpiError> {
        let collective = self.finish_runs(cancel);
        if self.open.borrow().is_empty() {
            return collective;
        }
        let worker = &self.process.worker;
        if cancel {
            self.open.borrow().iter().for_each(|(_, &id)| worker.cancel(id));
        }
        let (mut first, mut place) = (None, 0);
        // Nothing is posted any more, since the closure has ended. The borrow ends before the
        // wait, in which callbacks of the user may run.
        while let Some((next, id)) = { self.open.borrow_mut().remove_from(place) } {
            place = next;
            let status = handles::complete(&self.process, id);
            first = first.or(status.outcome.err());
        }
        first.map(MpiError::from).or(collective)
    }

    /// Waits for all collectives, or gives them up. The first failure.
    fn finish_runs(&self, give_up: bool) -> Option<MpiError> {
        let runs = self.runs.take();
        if give_up {
            // The last references: a run that is dropped takes back what is under way (rule 4 of runs). Requests
            // that the closure has leaked keep one, and such a run is waited for.
            let leaked = runs.into_iter().filter_map(|run| Rc::try_unwrap(run).err());
            leaked.for_each(|run| self.end(&run));
            return None;
        }
        runs.iter().for_each(|run| self.end(run));
        runs.iter().find_map(|run| run.outcome()?.err())
    }

    fn end(&self, run: &Run) {
        without_unwinding(|| self.process.wait_until(|| !run.is_under_way()));
        run.write_end();
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        // Without a panic `finish` has run and nothing is open.
        self.finish(true);
        // The next scope uses the list again.
        self.process.spare_operations.set(self.open.take());
    }
}

/// Where nonblocking operations on borrowed buffers are started; see [`Communicator::scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    tracker: &'scope Tracker,
    // Invariant in both, as in `std::thread::Scope`: neither may shrink, or a buffer could be
    // borrowed for less than the scope.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl Communicator {
    /// Runs `body` with a [`Scope`] in which nonblocking operations borrow their buffers; returns
    /// when all of them are complete.
    ///
    /// ```no_run
    /// # use bowline_mpi::{Communicator, MpiError};
    /// # fn shift(world: &Communicator) -> Result<(), MpiError> {
    /// let right = (world.rank() + 1) % world.size();
    /// let left = (world.rank() + world.size() - 1) % world.size();
    /// let out = [world.rank(); 4];
    /// let mut into = [0; 4];
    /// world.scope(|s| {
    ///     let receive = s.irecv(world, &mut into, left, 0)?;
    ///     let send = s.isend(world, &out, right, 0)?;
    ///     // ... compute here ...
    ///     let received = receive.wait()?;
    ///     assert_eq!(received.items[0], left);
    ///     send.wait()
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `body` returns; else the first failure of an operation that nobody waited for.
    pub fn scope<'env, F, R>(&self, body: F) -> Result<R, MpiError>
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R, MpiError>,
    {
        let process = self.inner.process.clone();
        let open = RefCell::new(process.spare_operations.take());
        let tracker = Tracker { process, open, runs: RefCell::default() };
        let scope = Scope { tracker: &tracker, scope: PhantomData, env: PhantomData };
        let result = body(&scope);
        let failure = tracker.finish(result.is_err());
        match (result, failure) {
            (Ok(_), Some(failure)) => Err(failure),
            (result, _) => result,
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts to send `items` to rank `dest` of `comm`. (`MPI_Isend`)
    ///
    /// # Errors
    /// Those of [`Communicator::send`], and [`MpiError::ForeignCommunicator`].
    #[inline]
    pub fn isend<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope [T],
        dest: i32,
        tag: i32,
    ) -> Result<SendRequest<'scope>, MpiError> {
        self.post_send(comm, bytes_of(items), dest, tag, SendMode::Standard)
    }

    /// Starts to send `items`; complete when a receive has matched the message. (`MPI_Issend`)
    ///
    /// # Errors
    /// As for [`isend`](Self::isend).
    #[inline]
    pub fn issend<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope [T],
        dest: i32,
        tag: i32,
    ) -> Result<SendRequest<'scope>, MpiError> {
        self.post_send(comm, bytes_of(items), dest, tag, SendMode::Synchronous)
    }

    /// Starts to receive into `items`. They are lent back by [`RecvRequest::wait`], or are free
    /// again after the scope. (`MPI_Irecv`)
    ///
    /// # Errors
    /// Those of [`Communicator::recv`], except truncation, and
    /// [`MpiError::ForeignCommunicator`].
    #[inline]
    pub fn irecv<T: Datatype>(
        &'scope self,
        comm: &'scope Communicator,
        items: &'scope mut [T],
        source: i32,
        tag: i32,
    ) -> Result<RecvRequest<'scope, T>, MpiError> {
        self.check(comm)?;
        let count = items.len();
        // The operation writes through this pointer, and `wait` reads through it afterwards: a second
        // one, taken from `items`, would not be valid beside the first.
        let bytes = bytes_of_mut(items);
        let (start, len) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: `items` is borrowed exclusively for `'scope`, and `keep` below enters the operation
        // into the tracker, which waits for it before `'scope` ends (the module's points 1 and 2).
        // Nothing unwinds between the two.
        let buffer = unsafe { RecvBuf::borrowed(start, len) };
        let posted = without_unwinding(|| comm.post_recv(buffer, source, tag))?;
        let scoped = self.keep(State::of(posted, Status::NULL));
        Ok(RecvRequest { scoped, start: start.cast(), count, items: PhantomData })
    }

    fn post_send(
        &'scope self,
        comm: &'scope Communicator,
        bytes: &'scope [u8],
        dest: i32,
        tag: i32,
        mode: SendMode,
    ) -> Result<SendRequest<'scope>, MpiError> {
        self.check(comm)?;
        // SAFETY: `bytes` is borrowed for `'scope`, and `keep` below enters the operation into the
        // tracker, which waits for it before `'scope` ends (the module's points 1 and 2). Nothing
        // unwinds between the two.
        let buffer = unsafe { SendBuf::borrowed(bytes.as_ptr(), bytes.len()) };
        let posted = without_unwinding(|| comm.post_send(buffer, dest, tag, mode))?;
        Ok(SendRequest { scoped: self.keep(State::of(posted, Status::EMPTY)) })
    }

    #[inline]
    fn keep(&'scope self, state: State) -> Scoped<'scope> {
        let key = match state {
            State::Active(posted) => self.tracker.open.borrow_mut().insert(posted.id()),
            _ => Key::NONE,
        };
        Scoped { tracker: self.tracker, key, state }
    }

    #[inline]
    fn check(&self, comm: &Communicator) -> Result<(), MpiError> {
        if Rc::ptr_eq(&self.tracker.process, &comm.inner.process) {
            return Ok(());
        }
        Err(MpiError::ForeignCommunicator)
    }
}

/// What all requests of a scope have.
#[derive(Debug)]
struct Scoped<'scope> {
    tracker: &'scope Tracker,
    key: Key,
    state: State,
}

/// A send in a scope. Dropped, it goes on, and the scope waits for it.
#[derive(Debug)]
#[must_use = "the scope waits for it; wait for it here to learn how it ended"]
pub struct SendRequest<'scope> {
    scoped: Scoped<'scope>,
}

/// A receive in a scope. Dropped, it goes on, and the scope waits for it.
#[derive(Debug)]
#[must_use = "the scope waits for it; wait for it here to use the data inside the scope"]
pub struct RecvRequest<'scope, T: Datatype> {
    scoped: Scoped<'scope>,
    start: *mut T,
    count: usize,
    items: PhantomData<&'scope mut [T]>,
}

/// A send, a receive or a collective of a scope, so that all can stand in one list. Made by `into` from
/// each; the elements of a receive are then free after the scope.
#[derive(Debug)]
#[must_use = "the scope waits for it; wait for it here to learn how it ended"]
pub struct AnyRequest<'scope>(Kind<'scope>);

#[derive(Debug)]
enum Kind<'scope> {
    Message(Scoped<'scope>),
    Collective(CollectiveRequest<'scope>),
}

/// A message that has arrived in a scope.
#[derive(Debug)]
pub struct Received<'scope, T> {
    /// The whole buffer; the message is its first [`Status::count`] elements.
    pub items: &'scope mut [T],
    /// Source, tag and length of the message.
    pub status: Status,
}

impl SendRequest<'_> {
    /// Waits until the buffer is free again. (`MPI_Wait`)
    ///
    /// # Errors
    /// The partner's failure.
    pub fn wait(mut self) -> Result<(), MpiError> {
        self.complete().map(drop)
    }

    /// Cancels the send if no receive has matched it yet; [`wait`](Self::wait) returns which. A send
    /// whose data has left the buffer already is complete. (`MPI_Cancel`)
    ///
    /// A receiver that has found the message by a probe, and not claimed it by
    /// [`mprobe`](crate::Communicator::mprobe), may wait for it in vain then.
    pub fn cancel(&mut self) {
        self.scoped.cancel();
    }
}

impl<'scope, T: Datatype> RecvRequest<'scope, T> {
    /// Waits for the message and lends the buffer for the rest of the scope. (`MPI_Wait`)
    ///
    /// # Errors
    /// [`MpiError::Truncated`], [`MpiError::Cancelled`], the partner's failure. The buffer is
    /// free after the scope then.
    pub fn wait(mut self) -> Result<Received<'scope, T>, MpiError> {
        let status = self.complete()?;
        // SAFETY: `start` and `count` are those of a slice that `irecv` was lent exclusively for
        // `'scope`, and the operation's handle was made of the same pointer. The operation is complete, so nobody else uses the elements, and `self`, the
        // only one that could lend them, is consumed. Every bit pattern is a valid `T`.
        let items = unsafe { std::slice::from_raw_parts_mut(self.start, self.count) };
        Ok(Received { items, status })
    }

    /// Cancels the receive if no message has matched it yet; [`wait`](Self::wait) returns which.
    /// (`MPI_Cancel`)
    pub fn cancel(&mut self) {
        self.scoped.cancel();
    }
}

impl AnyRequest<'_> {
    /// Waits for the operation. (`MPI_Wait`)
    ///
    /// # Errors
    /// The operation's.
    pub fn wait(mut self) -> Result<Status, MpiError> {
        self.complete()
    }

    /// Cancels a message if it has not been matched yet; [`wait`](Self::wait) returns which.
    /// A send whose data has left the buffer already is complete. Collectives go on. (`MPI_Cancel`)
    pub fn cancel(&mut self) {
        if let Kind::Message(scoped) = &self.0 {
            scoped.cancel();
        }
    }

    fn core(&self) -> &dyn Core {
        match &self.0 {
            Kind::Message(scoped) => scoped,
            Kind::Collective(collective) => collective,
        }
    }

    fn core_mut(&mut self) -> &mut dyn Core {
        match &mut self.0 {
            Kind::Message(scoped) => scoped,
            Kind::Collective(collective) => collective,
        }
    }
}

impl Scoped<'_> {
    fn cancel(&self) {
        if let State::Active(posted) = self.state {
            self.tracker.process.worker.cancel(posted.id());
        }
    }
}

impl SendRequest<'_> {
    fn core(&self) -> &dyn Core {
        &self.scoped
    }

    fn core_mut(&mut self) -> &mut dyn Core {
        &mut self.scoped
    }
}

impl<T: Datatype> RecvRequest<'_, T> {
    fn core(&self) -> &dyn Core {
        &self.scoped
    }

    fn core_mut(&mut self) -> &mut dyn Core {
        &mut self.scoped
    }
}

impl<'scope> From<SendRequest<'scope>> for AnyRequest<'scope> {
    fn from(request: SendRequest<'scope>) -> Self {
        Self(Kind::Message(request.scoped))
    }
}

impl<'scope, T: Datatype> From<RecvRequest<'scope, T>> for AnyRequest<'scope> {
    fn from(request: RecvRequest<'scope, T>) -> Self {
        Self(Kind::Message(request.scoped))
    }
}

impl<'scope> From<CollectiveRequest<'scope>> for AnyRequest<'scope> {
    fn from(request: CollectiveRequest<'scope>) -> Self {
        Self(Kind::Collective(request))
    }
}

impl Core for Scoped<'_> {
    fn process(&self) -> &Process {
        &self.tracker.process
    }
    fn state(&mut self) -> &mut State {
        &mut self.state
    }
    fn state_now(&self) -> State {
        self.state
    }
    fn released(&mut self) {
        self.tracker.open.borrow_mut().remove(self.key);
    }
}

macro_rules! requests {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        #[expect(private_interfaces, reason = "sealed: nobody outside can name or call it")]
        impl<$($generics)*> Core for $type {
            fn process(&self) -> &Process {
                self.core().process()
            }
            fn state(&mut self) -> &mut State {
                self.core_mut().state()
            }
            fn state_now(&self) -> State {
                self.core().state_now()
            }
            fn released(&mut self) {
                self.core_mut().released();
            }
        }

        impl<$($generics)*> Request for $type {}
    )*};
}

requests! {
    ['scope] SendRequest<'scope>;
    ['scope, T: Datatype] RecvRequest<'scope, T>;
    ['scope] AnyRequest<'scope>;
}
