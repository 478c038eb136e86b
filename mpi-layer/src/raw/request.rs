//! Requests that do not know the types of their buffers: one object for every kind of work.
//!
//! ```text
//!   Started::Done ─────────────────────────────────────► reported by the call that started it
//!   Active ──(poll finds the end)──► Done ──(finish)──► gone, or inactive where it is persistent
//! ```
//! Rules. (1) A request owns what its work needs, its communicator first of all, until its end; the
//! memory of messages is the caller's, who keeps it until then. (2) `poll` does not move anything on: the
//! caller's wait does, by [`Communicator::wait_until`] or [`Communicator::poll`]. (3) What `poll` has reported
//! stays as it was until `finish`. (4) A request that is dropped before its end leaves its memory in use:
//! who has no more interest in it keeps it until `poll` reports its end.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use bowline_base::doorbell::Signal;
use bowline_base::sync::atomic::{AtomicBool, Ordering};
use bowline_ucp::{OpError, ReceiveError, RequestId, SendMode};

use super::buffered::Pool;
use super::memory::Memory;
use crate::coll::run::Run;
use crate::comm::Communicator;
use crate::consts::{ANY_SOURCE, ANY_TAG, PROC_NULL};
use crate::error::MpiError;
use crate::later::Duplication;
use crate::status::Status;
use crate::tags;

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The sender's rank; for all but receives `ANY_SOURCE`.
    pub source: i32,
    /// The message's tag; for all but receives `ANY_TAG`.
    pub tag: i32,
    /// Bytes that were received.
    pub bytes: u64,
    /// It was cancelled, and has had no effect.
    pub cancelled: bool,
    /// What went wrong.
    pub error: Option<MpiError>,
}

impl Completion {
    /// Of a send, and of nothing at all. (MPI: the *empty* status.)
    pub const EMPTY: Self =
        Self { source: ANY_SOURCE, tag: ANY_TAG, bytes: 0, cancelled: false, error: None };

    /// Of an operation whose partner is nobody.
    pub const NULL: Self = Self { source: PROC_NULL, ..Self::EMPTY };

    const fn failed(error: MpiError) -> Self {
        Self { error: Some(error), ..Self::EMPTY }
    }

    /// The status of a success; all else as a completion, in one word so that a success is cheap to return.
    #[inline(always)]
    fn status(status: &bowline_ucp::OpStatus, receive: bool) -> Result<Status, Box<Self>> {
        match status.outcome {
            Ok(()) => Ok(success(status, receive)),
            Err(_) => Err(Self::of_failure(status, receive)),
        }
    }

    #[cold]
    #[inline(never)]
    fn of_failure(status: &bowline_ucp::OpStatus, receive: bool) -> Box<Self> {
        Box::new(Self::of(status, receive))
    }

    fn of(status: &bowline_ucp::OpStatus, receive: bool) -> Self {
        let envelope = Self {
            source: status.source as i32,
            tag: tags::user(status.tag),
            bytes: status.length,
            ..Self::EMPTY
        };
        match status.outcome {
            Ok(()) if receive => envelope,
            Ok(()) => Self::EMPTY,
            Err(OpError::Cancelled) => Self { cancelled: true, ..Self::EMPTY },
            Err(error @ OpError::Truncated { capacity, .. }) if receive => {
                Self { bytes: capacity, error: Some(error.into()), ..envelope }
            }
            Err(error) => Self::failed(error.into()),
        }
    }
}

impl From<ReceiveError> for Box<Completion> {
    #[cold]
    #[inline(never)]
    fn from(error: ReceiveError) -> Self {
        Box::new(Completion::of(error.status(), true))
    }
}

impl From<MpiError> for Box<Completion> {
    #[cold]
    #[inline(never)]
    fn from(error: MpiError) -> Self {
        Box::new(Completion::failed(error))
    }
}

impl From<Status> for Completion {
    fn from(status: Status) -> Self {
        Self { source: status.source(), tag: status.tag(), bytes: status.bytes(), ..Self::EMPTY }
    }
}

/// How far an operation came in the call that started it.
#[derive(Debug)]
pub enum Started {
    /// It is complete.
    Done(Completion),
    /// It is under way.
    Active(RawRequest),
}

/// An operation that was started, or can be.
#[derive(Debug)]
pub struct RawRequest(Work);

/// What a request stands for.
enum Work {
    /// It has ended so.
    Done(Completion),
    Message(Message),
    /// A send and a receive in one.
    Joint(Box<Joint>),
    /// It ends when these buffered messages have left.
    Flush {
        pool: Rc<Pool>,
        until: u64,
    },
    /// It ends when somebody says so.
    General(Arc<General>),
    /// It can be started again and again.
    Persistent(Box<Persistent>),
    /// A communicator is made.
    Creation(Box<Creation>),
    /// A collective, which may be one that can be started again and again.
    Collective {
        run: Rc<Run>,
        again: bool,
    },
}

/// A communicator that is made in the background, and what is done with it then.
struct Creation {
    work: Duplication,
    made: Option<Made>,
}

/// Takes in a new communicator.
type Made = Box<dyn FnOnce(Communicator)>;

struct Message {
    /// Keeps its context open.
    comm: Communicator,
    id: RequestId,
    receive: bool,
}

struct Joint {
    send: Work,
    receive: Work,
}

/// The end of an operation that the library does not do. Any thread may report it.
#[derive(Debug)]
pub struct General {
    done: AtomicBool,
    signal: Signal,
}

struct Persistent {
    comm: Communicator,
    memory: Memory,
    operation: Operation,
    /// What was started and is not reported yet.
    current: Option<Work>,
}

/// What a persistent request does when it is started.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Send { mode: Mode, dest: i32, tag: i32 },
    Receive { source: i32, tag: i32 },
}

/// How a persistent send sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Complete when its memory is free, or when moreover the receive has been matched.
    Direct(SendMode),
    /// Complete in its start, by a copy.
    Buffered,
}

/// A message under way: a request that keeps nothing. Who has it keeps its communicator and its memory, and
/// asks the communicator for its end.
#[derive(Clone, Copy, Debug)]
pub struct PostedMessage {
    id: RequestId,
    receive: bool,
}

impl PostedMessage {
    #[inline]
    pub(crate) const fn new(id: RequestId, receive: bool) -> Self {
        Self { id, receive }
    }

    #[inline]
    pub(crate) const fn id(self) -> RequestId {
        self.id
    }

    /// What the end of it comes to.
    #[inline]
    pub(crate) fn outcome(self, status: &bowline_ucp::OpStatus) -> Result<Status, MpiError> {
        match status.outcome {
            Ok(()) => Ok(success(status, self.receive)),
            Err(error) => Err(error.into()),
        }
    }
}

/// The status of an operation that has ended well.
#[inline(always)]
fn success(status: &bowline_ucp::OpStatus, receive: bool) -> Status {
    if receive { Status::new(status.source, status.tag, status.length) } else { Status::EMPTY }
}

impl General {
    /// The operation has ended. Wakes the rank where it sleeps.
    pub fn complete(&self) {
        // Release: pairs with the Acquire of `is_complete`.
        self.done.store(true, Ordering::Release);
        self.signal.raise();
    }

    /// Whether the operation has ended.
    pub fn is_complete(&self) -> bool {
        // Acquire: what the completer wrote before is seen after.
        self.done.load(Ordering::Acquire)
    }
}

impl Work {
    fn message(comm: &Communicator, id: RequestId, receive: bool) -> Self {
        Self::Message(Message { comm: comm.clone(), id, receive })
    }

    fn poll(&mut self) -> Option<Completion> {
        let completion = match self {
            Self::Done(completion) => return Some(*completion),
            Self::Message(Message { comm, id, receive }) => {
                let status = comm.inner.process.take(*id)?;
                Completion::of(&status, *receive)
            }
            Self::Joint(joint) => {
                // Both are asked, so that neither waits for the other's end.
                let (sent, received) = (joint.send.poll(), joint.receive.poll());
                let (sent, received) = (sent?, received?);
                Completion { error: received.error.or(sent.error), ..received }
            }
            Self::Flush { pool, until } => {
                if !pool.has_left(*until) {
                    return None;
                }
                Completion::EMPTY
            }
            // The next two stay what they are, since their end is reported elsewhere.
            Self::Collective { run, .. } => {
                return run.outcome().map(|outcome| match outcome {
                    Ok(()) => Completion::EMPTY,
                    Err(error) => Completion::failed(error),
                });
            }
            Self::General(general) => return general.is_complete().then_some(Completion::EMPTY),
            Self::Persistent(persistent) => return persistent.current.as_mut()?.poll(),
            Self::Creation(creation) => match (creation.work.poll()?, creation.made.take()) {
                (Ok(comm), Some(made)) => {
                    made(comm);
                    Completion::EMPTY
                }
                (Ok(_), None) => Completion::EMPTY,
                (Err(error), _) => Completion::failed(error),
            },
        };
        *self = Self::Done(completion);
        Some(completion)
    }

    fn cancel(&mut self) -> Result<(), Uncancellable> {
        match self {
            Self::Done(_) => Ok(()),
            Self::Message(Message { comm, id, .. }) => {
                comm.inner.process.worker.cancel(*id);
                Ok(())
            }
            Self::Persistent(persistent) => {
                persistent.current.as_mut().ok_or(Uncancellable)?.cancel()
            }
            Self::Joint(_)
            | Self::Flush { .. }
            | Self::General(_)
            | Self::Creation(_)
            | Self::Collective { .. } => Err(Uncancellable),
        }
    }

    fn receives(&self) -> bool {
        match self {
            Self::Message(message) => message.receive,
            Self::Joint(joint) => joint.receive.receives(),
            Self::Persistent(persistent) => persistent.current.as_ref().is_some_and(Self::receives),
            Self::Done(_)
            | Self::Flush { .. }
            | Self::General(_)
            | Self::Creation(_)
            | Self::Collective { .. } => false,
        }
    }

    fn withdraw(&mut self) {
        match self {
            Self::Message(Message { comm, id, receive: true }) => {
                comm.inner.process.worker.cancel(*id);
            }
            Self::Joint(joint) => joint.receive.withdraw(),
            Self::Persistent(persistent) => {
                if let Some(work) = &mut persistent.current {
                    work.withdraw();
                }
            }
            _ => {}
        }
    }
}

impl From<Started> for Work {
    fn from(started: Started) -> Self {
        match started {
            Started::Done(completion) => Self::Done(completion),
            Started::Active(request) => request.0,
        }
    }
}

/// Where one of several requests stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the standard's three: inactive, active, complete")]
pub enum Standing {
    /// There is nothing to be reported of it.
    Idle,
    /// It is under way.
    Busy,
    /// It is complete, and that was not reported yet.
    Done,
}

/// What a search among several requests finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what the standard's calls distinguish")]
pub enum RequestSearch {
    /// None is active.
    Nothing,
    /// None of the active ones is complete.
    Busy,
    /// The one with this number is complete.
    Found(usize),
}

/// Finds the first complete request in some order. Both skins search so: for one, for some, or for all that
/// are not under way.
///
/// # Errors
/// Those of `standing`, at the first that has one.
#[inline]
pub fn search<E>(
    order: impl IntoIterator<Item = usize>,
    mut standing: impl FnMut(usize) -> Result<Standing, E>,
) -> Result<RequestSearch, E> {
    let mut found = RequestSearch::Nothing;
    for index in order {
        match standing(index)? {
            Standing::Idle => {}
            Standing::Busy => found = RequestSearch::Busy,
            Standing::Done => return Ok(RequestSearch::Found(index)),
        }
    }
    Ok(found)
}

/// The request has nothing that can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncancellable;

/// Why a request was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError<E> {
    /// It is no persistent one, or is active.
    Unstartable,
    /// The operation failed.
    Failed(MpiError),
    /// There is no pool for a buffered send.
    NoPool(E),
}

impl RawRequest {
    /// A request that has ended so.
    pub const fn done(completion: Completion) -> Self {
        Self(Work::Done(completion))
    }

    /// A request that ends when these operations, which the pool has now, have ended.
    pub fn flush(pool: &Rc<Pool>) -> Self {
        Self(Work::Flush { pool: Rc::clone(pool), until: pool.last() })
    }

    /// Whether there is an end to be reported.
    #[inline]
    pub fn is_active(&self) -> bool {
        match &self.0 {
            Work::Persistent(persistent) => persistent.current.is_some(),
            Work::Collective { run, .. } => run.is_active(),
            _ => true,
        }
    }

    /// Whether it can be started again and again.
    pub const fn is_persistent(&self) -> bool {
        matches!(self.0, Work::Persistent(_) | Work::Collective { again: true, .. })
    }

    /// How it ended, if it has.
    #[inline]
    pub fn poll(&mut self) -> Option<Completion> {
        self.0.poll()
    }

    /// Whether it receives something.
    pub fn receives(&self) -> bool {
        self.0.receives()
    }

    /// Its end was reported. Whether it is gone; a persistent one is inactive now.
    pub fn finish(&mut self) -> bool {
        match &mut self.0 {
            Work::Persistent(persistent) => {
                persistent.current = None;
                false
            }
            Work::Collective { run, again } => {
                run.finish();
                !*again
            }
            _ => true,
        }
    }

    /// The message that it waits for, if it is for one only.
    #[inline]
    pub const fn waits_for(&self) -> Option<PostedMessage> {
        let work = match &self.0 {
            Work::Persistent(persistent) => match &persistent.current {
                Some(work) => work,
                None => return None,
            },
            work => work,
        };
        match work {
            Work::Message(message) => Some(PostedMessage::new(message.id, message.receive)),
            _ => None,
        }
    }

    /// Takes in how the message that it waits for has ended.
    pub fn arrived(&mut self, status: &bowline_ucp::OpStatus) {
        let work = match &mut self.0 {
            Work::Persistent(persistent) => match &mut persistent.current {
                Some(work) => work,
                None => return,
            },
            work => work,
        };
        if let Work::Message(Message { receive, .. }) = work {
            *work = Work::Done(Completion::of(status, *receive));
        }
    }

    /// Takes the operation back if nothing has matched it. It ends in either case.
    ///
    /// # Errors
    /// When it is inactive, or of a kind that cannot be taken back.
    pub fn cancel(&mut self) -> Result<(), Uncancellable> {
        self.0.cancel()
    }

    /// Takes its receive back, if it has one that nothing has matched.
    pub fn withdraw(&mut self) {
        self.0.withdraw();
    }

    /// A collective, which is started now.
    ///
    /// # Safety
    /// The memory that the run was made with is what was promised for it until the request has ended.
    pub unsafe fn collective(run: Rc<Run>) -> Self {
        // SAFETY: promised by the caller.
        let started = unsafe { run.start() };
        debug_assert!(started, "a run is started once");
        Self(Work::Collective { run, again: false })
    }

    /// A collective that can be started again and again.
    pub const fn persistent_collective(run: Rc<Run>) -> Self {
        Self(Work::Collective { run, again: true })
    }

    /// Whether it is a collective under way, which a program cannot give up.
    pub fn is_active_collective(&self) -> bool {
        match &self.0 {
            Work::Collective { run, .. } => run.is_active(),
            Work::Creation(_) => true,
            _ => false,
        }
    }

    /// Starts a persistent request. `pool` is asked where it is a buffered send.
    ///
    /// # Errors
    /// See [`StartError`].
    ///
    /// # Safety
    /// As for [`start_send`](Communicator::start_send) or [`start_recv`](Communicator::start_recv), or for a
    /// collective's [`Later`](super::Later), for the memory that the request was made with.
    pub unsafe fn start<E>(
        &mut self,
        pool: impl FnOnce() -> Result<Rc<Pool>, E>,
    ) -> Result<(), StartError<E>> {
        let persistent = match &mut self.0 {
            Work::Persistent(persistent) => persistent,
            Work::Collective { run, again: true } => {
                // SAFETY: promised by the caller.
                let started = unsafe { run.start() };
                return if started { Ok(()) } else { Err(StartError::Unstartable) };
            }
            _ => return Err(StartError::Unstartable),
        };
        let Persistent { comm, memory, operation, current: current @ None } = &mut **persistent
        else {
            return Err(StartError::Unstartable);
        };
        let started = match *operation {
            Operation::Send { mode: Mode::Direct(mode), dest, tag } => {
                // SAFETY: promised by the caller.
                comm.start_send(unsafe { memory.outgoing() }, dest, tag, mode)
            }
            Operation::Send { mode: Mode::Buffered, dest, tag } => {
                let pool = pool().map_err(StartError::NoPool)?;
                // SAFETY: promised by the caller.
                let sent = unsafe { pool.send(comm, memory, dest, tag) };
                sent.map(|()| Started::Done(Completion::EMPTY))
            }
            Operation::Receive { source, tag } => {
                // SAFETY: promised by the caller.
                comm.start_recv(unsafe { memory.incoming() }, source, tag)
            }
        };
        *current = Some(started.map_err(StartError::Failed)?.into());
        Ok(())
    }
}

impl Communicator {
    /// A request that sends to `dest` whenever it is started.
    ///
    /// # Errors
    /// Those of [`send`](Self::send) for arguments.
    pub fn persistent_send(
        &self,
        memory: Memory,
        dest: i32,
        tag: i32,
        mode: Mode,
    ) -> Result<RawRequest, MpiError> {
        self.destination(dest, tag)?;
        Ok(self.persistent(memory, Operation::Send { mode, dest, tag }))
    }

    /// A request that receives from `source` whenever it is started.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv) for arguments.
    pub fn persistent_recv(
        &self,
        memory: Memory,
        source: i32,
        tag: i32,
    ) -> Result<RawRequest, MpiError> {
        self.wanted(source, tag)?;
        Ok(self.persistent(memory, Operation::Receive { source, tag }))
    }

    fn persistent(&self, memory: Memory, operation: Operation) -> RawRequest {
        let comm = self.clone();
        RawRequest(Work::Persistent(Box::new(Persistent {
            comm,
            memory,
            operation,
            current: None,
        })))
    }

    /// An operation of the program's own, with the object by which it reports its end.
    pub fn general(&self) -> (RawRequest, Arc<General>) {
        let signal = self.inner.process.worker.signal();
        let general = Arc::new(General { done: AtomicBool::new(false), signal });
        (RawRequest(Work::General(Arc::clone(&general))), general)
    }

    /// Begins to make a duplicate that asks for [algorithms](Self::set_algorithms), which `made` takes in when it is there: inside of
    /// [`RawRequest::poll`], and not at all when it fails. A request that is dropped before its end takes back this rank's
    /// part, as that of any collective does: the other members get an error. (`MPI_Comm_idup`)
    ///
    /// # Errors
    /// [`MpiError::TooManyCommunicators`], or a member's failure.
    pub fn start_dup(
        &self,
        asked: &[(&str, &str)],
        made: impl FnOnce(Self) + 'static,
    ) -> Result<RawRequest, MpiError> {
        let creation = Creation { work: self.begin_dup(asked)?, made: Some(Box::new(made)) };
        Ok(RawRequest(Work::Creation(Box::new(creation))))
    }

    /// A request for a message that was posted; without one it has ended as `ended` says.
    #[inline]
    pub(super) fn started(&self, posted: Option<PostedMessage>, ended: Completion) -> Started {
        match posted {
            Some(posted) => Started::Active(self.request(posted)),
            None => Started::Done(ended),
        }
    }

    /// A request for a message that was posted.
    pub fn request(&self, PostedMessage { id, receive }: PostedMessage) -> RawRequest {
        RawRequest(Work::message(self, id, receive))
    }

    /// A request for a send and a receive that were started together.
    pub(super) fn joint(&self, send: Started, receive: Result<Started, MpiError>) -> Started {
        let receive = receive.unwrap_or_else(|error| Started::Done(Completion::failed(error)));
        let joint = Joint { send: send.into(), receive: receive.into() };
        let mut work = Work::Joint(Box::new(joint));
        match work.poll() {
            Some(completion) => Started::Done(completion),
            None => Started::Active(RawRequest(work)),
        }
    }

    /// Waits for the message of a request; see [`RawRequest::arrived`].
    #[inline]
    pub fn wait_message(&self, posted: PostedMessage) -> bowline_ucp::OpStatus {
        self.inner.process.wait(posted.id)
    }

    /// Waits for the end of a message, which is forgotten.
    ///
    /// # Errors
    /// What is not a success is reported as a completion.
    #[inline(always)]
    pub fn wait_posted(&self, posted: PostedMessage) -> Result<Status, Box<Completion>> {
        Completion::status(&self.inner.process.wait(posted.id), posted.receive)
    }

    /// Whether a message has ended. Moves nothing on.
    #[inline]
    pub fn has_ended(&self, posted: PostedMessage) -> bool {
        self.inner.process.worker.is_complete(posted.id)
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(completion) => out.debug_tuple("Done").field(completion).finish(),
            Self::Message(Message { comm, id, receive }) => out
                .debug_struct("Message")
                .field("comm", comm)
                .field("id", id)
                .field("receive", receive)
                .finish(),
            Self::Joint(joint) => {
                let Joint { send, receive } = &**joint;
                out.debug_struct("Joint").field("send", send).field("receive", receive).finish()
            }
            Self::Flush { until, .. } => out.debug_struct("Flush").field("until", until).finish(),
            Self::General(general) => out.debug_tuple("General").field(general).finish(),
            Self::Creation(creation) => out.debug_tuple("Creation").field(&creation.work).finish(),
            Self::Collective { run, .. } => out.debug_tuple("Collective").field(run).finish(),
            Self::Persistent(persistent) => out
                .debug_struct("Persistent")
                .field("operation", &persistent.operation)
                .field("memory", &persistent.memory)
                .field("current", &persistent.current)
                .finish_non_exhaustive(),
        }
    }
}
