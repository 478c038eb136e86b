//! The state of MPI in this process, and its life.
//!
//! ```text
//!   not started ── MPI_Init ──► running ── MPI_Finalize ──► finished
//!   no session ── MPI_Session_init ──► sessions ── the last MPI_Session_finalize ──► no session
//! ```
//! 1. While one of the two runs, [`STATE`] has the address of the one [`Library`]; else it is null. A
//!    process joins its job once. So the library is made by whichever comes first; the last to end takes
//!    it away if the world has come and gone, and otherwise the end of the process does, since sessions
//!    and the world may come again until then.
//! 2. The library's thread level is `MPI_THREAD_SERIALIZED` at most: the program sees to it that one
//!    thread at a time is in a function that uses the state. So it needs no lock, as cells do not.
//! 3. What may be called at any time and from any thread does not touch the state: information,
//!    error handlers, and error codes have tables of their own, each behind a lock.
//! 4. A borrow of a cell ends before anything of the program is called: it may call MPI again.

pub(crate) mod attributes;
pub(crate) mod buffers;
pub(crate) mod codes;
pub(crate) mod general;
pub(crate) mod groups;
pub(crate) mod handlers;
pub(crate) mod infos;
pub(crate) mod messages;
pub(crate) mod object;
pub(crate) mod ops;
pub(crate) mod requests;
pub(crate) mod sessions;
pub(crate) mod status;
pub(crate) mod types;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_int;
use std::io::Write as _;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use bowline::Launched;
use bowline_base::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use bowline_mpi::{Communicator, World};

use self::attributes::Attributes;
use self::buffers::{Buffers, Owner};
use self::groups::Groups;
use self::handlers::action_without_object;
use self::messages::Messages;
use self::object::Common;
use self::ops::{Reduced, UserOp};
use self::requests::Requests;
use self::types::Types;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Comm, Errhandler, Op, Session};
use crate::table::Table;

/// A communicator and what MPI hangs on it.
#[derive(Debug)]
pub(crate) struct CommObject {
    pub(crate) comm: Communicator,
    pub(crate) handle: Comm,
    pub(crate) common: Common,
    /// The session that it is of; none where it comes from the world.
    pub(crate) session: Cell<Option<Session>>,
}

impl CommObject {
    /// An error of an operation on it, for its handler. The program may have freed the handle of the
    /// communicator meanwhile.
    #[cold]
    pub(crate) fn blamed(&self, fault: Fault) -> Fault {
        match running().is_some_and(|library| library.comm(self.handle).is_ok()) {
            true => fault.on(self.handle),
            false => fault.with_action(action_without_object(self.common.errhandler())),
        }
    }
}

/// What MPI has while it runs.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) world: Rc<CommObject>,
    pub(crate) own: Rc<CommObject>,
    /// Whether the program has chosen an error handler for `MPI_COMM_SELF`.
    pub(crate) own_handler_chosen: Cell<bool>,
    /// All other communicators.
    comms: RefCell<Table<Rc<CommObject>>>,
    /// What hangs on those that are yet to come, by their handles.
    to_come: RefCell<HashMap<usize, Rc<Common>>>,
    pub(crate) groups: Groups,
    pub(crate) types: Types,
    /// The program's operations.
    pub(crate) ops: RefCell<Table<Rc<UserOp>>>,
    pub(crate) reduced: Cell<Option<Reduced>>,
    pub(crate) requests: Requests,
    pub(crate) messages: Messages,
    pub(crate) buffers: Buffers,
    pub(crate) attributes: Attributes,
    pub(crate) launched: Launched,
    pub(crate) provided: Cell<c_int>,
    /// The thread that has started MPI; the one of the first session as long as none has.
    pub(crate) main_thread: Cell<ThreadId>,
    /// Whether arguments are checked where that takes time.
    pub(crate) checks: bool,
    pid: u32,
}

/// The library while MPI runs. Release and Acquire: a thread that the program lets in later sees what
/// `start` wrote.
static STATE: AtomicPtr<Library> = AtomicPtr::new(std::ptr::null_mut());

/// What has happened in the process.
static STAGE: AtomicU8 = AtomicU8::new(NOT_STARTED);

const NOT_STARTED: u8 = 0;
const STARTED: u8 = 1;
const FINISHED: u8 = 2;

/// Whether MPI was started, be it finished or not.
pub(crate) fn was_started() -> bool {
    // Acquire: pairs with the Release of `start`.
    STAGE.load(Ordering::Acquire) != NOT_STARTED
}

/// Whether MPI was started and has ended.
pub(crate) fn is_finished() -> bool {
    // Acquire: pairs with the Release of `finish`.
    STAGE.load(Ordering::Acquire) == FINISHED
}

/// Whether the world is there: MPI was started and has not ended.
fn has_world() -> bool {
    // Acquire: pairs with the Release of `start` and `finish`.
    STAGE.load(Ordering::Acquire) == STARTED
}

/// The library, if MPI runs.
#[inline]
pub(crate) fn running() -> Option<&'static Library> {
    // Acquire: pairs with the Release of `start`.
    let state = STATE.load(Ordering::Acquire);
    // SAFETY: not null means that `start` has made it and `finish` has not taken it (rule 1). Functions
    // of MPI keep the reference no longer than their call, and the program does not call `MPI_Finalize`
    // while another thread is in one. That two threads use it at once is against rule 2.
    unsafe { state.as_ref() }
}

/// The library, for a function that the standard allows while MPI runs only.
#[inline]
pub(crate) fn enter(name: &'static str) -> &'static Library {
    match running() {
        Some(library) => library,
        None => outside(name),
    }
}

/// The library as a function has it that needs a session only: the session keeps it.
pub(crate) fn library_of_session() -> Result<&'static Library, Fault> {
    running().ok_or_else(|| fault(MPI_ERR_SESSION, "there is no session any more"))
}

/// A function was called when MPI does not run: the standard leaves no way to go on.
#[cold]
fn outside(name: &'static str) -> ! {
    let when = if is_finished() { "after MPI_Finalize" } else { "before MPI_Init" };
    say(&format!("bowline: {name} was called {when}; the process ends"));
    exit(1)
}

/// Ends the process at once, with what it has written sent out.
pub(crate) fn exit(code: c_int) -> ! {
    flush();
    // SAFETY: it takes any code. No function that waits for the end of the process is called.
    unsafe { libc::_exit(code) }
}

/// Writes a line to stderr by one call, so that the lines of several ranks do not mix.
pub(crate) fn say(text: &str) {
    let line = format!("{text}\n");
    // Nothing can be done where it cannot be written.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Writes what the streams of C and of Rust keep back.
fn flush() {
    let _ = std::io::stdout().flush();
    // SAFETY: a null stream means all of them.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// Ends the job because of an error, with a sentence.
#[cold]
pub(crate) fn end(code: c_int, text: &str) -> ! {
    let rank = running().map(|library| library.world.comm.rank());
    match rank {
        Some(rank) => say(&format!("bowline: rank {rank}: {text}; the job ends")),
        None => say(&format!("bowline: {text}; the process ends")),
    }
    abort(code)
}

/// Ends the job with a code.
pub(crate) fn abort(code: c_int) -> ! {
    // The launcher may end this process as soon as it knows.
    flush();
    // Launchers have eight bits for it, and 0 would be success.
    let code = if code & 0xff == 0 { 1 } else { code & 0xff };
    if let Some(library) = running()
        && !library.is_forked()
        && let Err(error) = library.launched.abort(code, "")
    {
        tracing::warn!(%error, "the launcher cannot be asked to end the job");
    }
    exit(code)
}

/// What decides when the library comes and goes. The lock is held while it does.
#[derive(Debug)]
struct Life {
    sessions: usize,
    /// Whether the library was made, be it there or not.
    made: bool,
    /// Whether the end of the process is attended to.
    attended: bool,
}

static LIFE: Mutex<Life> = Mutex::new(Life { sessions: 0, made: false, attended: false });

fn life() -> MutexGuard<'static, Life> {
    LIFE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the library unless it is there.
fn open(life: &mut Life, provided: c_int) -> Result<&'static Library, Fault> {
    if let Some(library) = running() {
        return Ok(library);
    }
    if life.made {
        let text = "the process has left its job, and cannot join it again";
        return Err(fault(MPI_ERR_OTHER, text));
    }
    let refused = |why: &dyn std::fmt::Display| fault(MPI_ERR_OTHER, why.to_string());
    let config = bowline::config_from_env().map_err(|why| refused(&why))?;
    let (world, launched) = bowline::init_in_job(&config).map_err(|why| refused(&why))?;
    let checks = bowline::checks::wanted(&config);
    let library = Box::new(Library::new(&world, launched, provided, checks));
    life.made = true;
    // Release: publishes the library to the Acquire of `running`.
    STATE.store(Box::into_raw(library), Ordering::Release);
    running().ok_or_else(|| fault(MPI_ERR_INTERN, "the library is gone"))
}

/// Takes the library away, and with it this rank from its job.
fn close(_life: &mut Life) {
    // AcqRel: takes what `open` published, once; pairs with the Acquire of `running`.
    let state = STATE.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if !state.is_null() {
        // SAFETY: `open` made it by `Box::into_raw`, and the swap gave it to this call alone. No
        // reference is used any more: the callers have ended with theirs, and no other thread is in a
        // function of MPI that has one.
        drop(unsafe { Box::from_raw(state) });
    }
}

/// Starts MPI.
pub(crate) fn start(provided: c_int) -> Result<(), Fault> {
    let mut life = life();
    if was_started() {
        let text = "MPI was started before; it can be started once in a process";
        return Err(fault(MPI_ERR_OTHER, text));
    }
    let library = open(&mut life, provided)?;
    library.provided.set(provided);
    library.main_thread.set(std::thread::current().id());
    // Release: pairs with the Acquire of `was_started`.
    STAGE.store(STARTED, Ordering::Release);
    Ok(())
}

/// Ends MPI, in the standard's order: first the attributes of `MPI_COMM_SELF`, while everything still
/// works; then what is under way; then all ranks leave together.
pub(crate) fn finish(library: &'static Library) -> Result<(), Fault> {
    if library.is_forked() {
        // What there is belongs to the parent.
        return Ok(());
    }
    library.own.delete_attributes(library)?;
    library.world.delete_attributes(library)?;
    // What sessions have under way goes on.
    let alone = life().sessions == 0;
    library.settle(alone);
    // A rank that left early would be missing to those that still send to it.
    let met = library.world.comm.barrier();
    // Its handler is that of now: communicators are gone when it is called.
    let met = met.map_err(|error| {
        Fault::from(error).with_action(action_without_object(library.own_handler()))
    });
    let mut life = life();
    // Release: pairs with the Acquire of `is_finished`.
    STAGE.store(FINISHED, Ordering::Release);
    if life.sessions == 0 {
        close(&mut life);
    }
    met
}

/// A session begins.
pub(crate) fn begin_session(provided: c_int) -> Result<(), Fault> {
    let mut life = life();
    open(&mut life, provided)?;
    life.sessions += 1;
    if !std::mem::replace(&mut life.attended, true) {
        // SAFETY: the function is there as long as the process, since the library is never unloaded.
        unsafe { libc::atexit(leave_at_exit) };
    }
    Ok(())
}

/// A session ends.
pub(crate) fn end_session() {
    let mut life = life();
    life.sessions -= 1;
    if life.sessions > 0 {
        return;
    }
    if let Some(library) = running().filter(|library| !library.is_forked() && !has_world()) {
        library.settle(true);
    }
    if is_finished() {
        close(&mut life);
    }
}

/// The process ends. It has left in order unless the world or a session is there still.
extern "C" fn leave_at_exit() {
    let mut life = life();
    let forked = running().is_some_and(Library::is_forked);
    // Acquire: pairs with the Release of `start` and `finish`.
    let in_world = STAGE.load(Ordering::Acquire) == STARTED;
    if life.sessions == 0 && !in_world && !forked {
        close(&mut life);
    }
}

impl Library {
    fn new(world: &World, launched: Launched, provided: c_int, checks: bool) -> Self {
        let object = |comm: &Communicator, handle: Comm, name: &str| {
            let common = Common::new(MPI_ERRORS_ARE_FATAL, name.as_bytes());
            Rc::new(CommObject { comm: comm.clone(), handle, common, session: Cell::new(None) })
        };
        Self {
            world: object(world.communicator(), MPI_COMM_WORLD, "MPI_COMM_WORLD"),
            own: object(world.own(), MPI_COMM_SELF, "MPI_COMM_SELF"),
            own_handler_chosen: Cell::new(false),
            comms: RefCell::new(Table::new(Comm::KIND)),
            to_come: RefCell::default(),
            groups: Groups::new(),
            types: Types::new(),
            ops: RefCell::new(Table::new(Op::KIND)),
            reduced: Cell::new(None),
            requests: Requests::new(),
            messages: Messages::new(),
            buffers: Buffers::default(),
            attributes: Attributes::new(&launched, world.size()),
            launched,
            provided: Cell::new(provided),
            main_thread: Cell::new(std::thread::current().id()),
            checks,
            pid: std::process::id(),
        }
    }

    /// The error handler of what has no object.
    fn own_handler(&self) -> Errhandler {
        let object = if self.own_handler_chosen.get() { &self.own } else { &self.world };
        object.common.errhandler()
    }

    /// Whether this is a child of the process that started MPI.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.pid
    }

    /// The communicator of a handle.
    #[inline]
    pub(crate) fn comm(&self, handle: Comm) -> Result<Rc<CommObject>, Fault> {
        if handle == MPI_COMM_WORLD {
            return Ok(Rc::clone(&self.world));
        }
        self.other_comm(handle)
    }

    #[inline(never)]
    fn other_comm(&self, handle: Comm) -> Result<Rc<CommObject>, Fault> {
        if handle == MPI_COMM_SELF {
            return Ok(Rc::clone(&self.own));
        }
        self.comms.borrow().get(handle.0).cloned().ok_or_else(|| not_a_comm(handle))
    }

    /// Does something that neither waits nor calls anything of the program's with the communicator of a
    /// handle; none where it is no handle of one.
    #[inline]
    pub(crate) fn with_comm<R>(
        &self,
        handle: Comm,
        act: impl FnOnce(&Communicator) -> R,
    ) -> Option<R> {
        if handle == MPI_COMM_SELF {
            return Some(act(&self.own.comm));
        }
        Some(act(&self.comms.borrow().get(handle.0)?.comm))
    }

    /// Gives a new communicator its handle. It has an error handler, and no attributes.
    pub(crate) fn add_comm(
        &self,
        comm: Communicator,
        errhandler: Errhandler,
    ) -> Result<Rc<CommObject>, Fault> {
        let common = Common::new(errhandler, b"");
        let mut object = None;
        let made = self.comms.borrow_mut().insert_with(|value| {
            let new =
                Rc::new(CommObject { comm, handle: Comm(value), common, session: Cell::new(None) });
            object = Some(Rc::clone(&new));
            new
        });
        let full = || fault(MPI_ERR_OTHER, "there are too many communicators");
        made.and(object).ok_or_else(full)
    }

    /// The handle of a communicator that is yet to come, and what hangs on it by then.
    pub(crate) fn reserve_comm(&self, common: Common) -> Result<(Comm, Rc<Common>), Fault> {
        let reserved = self.comms.borrow_mut().reserve();
        let full = || fault(MPI_ERR_OTHER, "there are too many communicators");
        let (handle, common) = (reserved.ok_or_else(full)?, Rc::new(common));
        self.to_come.borrow_mut().insert(handle, Rc::clone(&common));
        Ok((Comm(handle), common))
    }

    /// The communicator of a reserved handle does not come, unless it has.
    pub(crate) fn give_up_comm(&self, handle: Comm) {
        if self.to_come.borrow_mut().remove(&handle.0).is_some() {
            self.comms.borrow_mut().give_up(handle.0);
        }
    }

    /// The communicator of a reserved handle has come.
    pub(crate) fn fill_comm(
        &self,
        comm: Communicator,
        handle: Comm,
        session: Cell<Option<Session>>,
    ) {
        let Some(common) = self.to_come.borrow_mut().remove(&handle.0) else { return };
        // Functions that read what hangs on it have ended with that.
        if let Some(common) = Rc::into_inner(common) {
            self.comms
                .borrow_mut()
                .fill(handle.0, Rc::new(CommObject { comm, handle, common, session }));
        }
    }

    /// Does something with what hangs on a communicator, which may be one that is yet to come: programs
    /// give it a handler as soon as they have its handle.
    pub(crate) fn of_comm<R>(
        &self,
        handle: Comm,
        act: impl FnOnce(&Common) -> R,
    ) -> Result<R, Fault> {
        let to_come = self.to_come.borrow().get(&handle.0).cloned();
        match to_come {
            Some(common) => Ok(act(&common)),
            None => Ok(act(&self.comm(handle)?.common)),
        }
    }

    /// Takes the handle of a communicator away; the object lives until its last use ends.
    pub(crate) fn remove_comm(&self, handle: Comm) -> Result<Rc<CommObject>, Fault> {
        let removed = self.comms.borrow_mut().remove(handle.0);
        self.buffers.forget(Owner::Comm(handle));
        removed.ok_or_else(|| not_a_comm(handle))
    }

    /// The handle whose number in C is this one.
    pub(crate) fn comm_from_int(&self, low: usize) -> Comm {
        // The table knows no handle of what is yet to come.
        let to_come = self.to_come.borrow();
        match to_come.keys().find(|&&value| value & 0xffff_ffff == low) {
            Some(&value) => Comm(value),
            None => Comm(self.comms.borrow().complete(low)),
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.messages.drain();
        // Communicators that the program never freed would keep this rank in its job.
        let leaked = self.comms.get_mut().drain();
        drop(leaked);
    }
}

#[cold]
fn not_a_comm(handle: Comm) -> Fault {
    let text = match handle {
        MPI_COMM_NULL => "the communicator is MPI_COMM_NULL".into(),
        Comm(value) => format!("{value:#x} is no communicator, or one that was freed"),
    };
    fault(MPI_ERR_COMM, text)
}
