//! Error handlers, and what they do with the errors of an object.
//!
//! They are behind a lock, since those of sessions may be made at any time and in any thread. A handler
//! lives as long as a handle or an object has it. No lock is held while one is called.

use std::sync::{Mutex, PoisonError};

use super::sessions;
use crate::arg::Out;
use crate::fault::{Action, Call, Fault, Function, Object, fault};
use crate::generated::constants::*;
use crate::handle::{Comm, Errhandler, File, Session, Win};
use crate::table::Table;

/// A handler of a program, by the kind of object that it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum User {
    Comm(Function<Comm>),
    Win(Function<Win>),
    File(Function<File>),
    Session(Function<Session>),
}

#[derive(Debug)]
pub(crate) struct Entry {
    user: User,
    /// Handles and objects that have it.
    references: usize,
}

static HANDLERS: Mutex<Table<Entry>> = Mutex::new(Table::new(Errhandler::KIND));

pub(crate) fn handlers() -> std::sync::MutexGuard<'static, Table<Entry>> {
    HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is done with an error of an object; `None` when there is no such object.
pub(crate) fn action_of(object: Object) -> Option<Action> {
    let library = super::running();
    let (errhandler, object) = match object {
        Object::Own => {
            let library = library?;
            // Programs from before MPI 4.0 expect it of MPI_COMM_WORLD.
            match library.own_handler_chosen.get() {
                true => (library.own.common.errhandler(), Object::Comm(MPI_COMM_SELF)),
                false => (library.world.common.errhandler(), Object::Comm(MPI_COMM_WORLD)),
            }
        }
        Object::Comm(comm) => (library?.comm(comm).ok()?.common.errhandler(), object),
        // A file that is none has the handler for files that are not open.
        Object::File(_) => (default_of_files(), object),
        Object::Session(session) => (sessions::errhandler_of(session)?, object),
        Object::Handler(errhandler) => return action_without_object(errhandler),
        // Windows come with their chapter.
        Object::Win(_) => return None,
    };
    Some(action(errhandler, object))
}

/// What a handler does with an error of this object.
fn action(errhandler: Errhandler, object: Object) -> Action {
    match errhandler {
        MPI_ERRORS_RETURN => return Action::Return,
        MPI_ERRORS_ABORT | MPI_ERRORS_ARE_FATAL => return Action::End,
        _ => {}
    }
    let user = handlers().get(errhandler.0).map(|entry| entry.user);
    match (user, object) {
        (Some(User::Comm(function)), Object::Comm(comm)) => {
            Action::Call(Call::Comm(function, comm))
        }
        (Some(User::Win(function)), Object::Win(win)) => Action::Call(Call::Win(function, win)),
        (Some(User::File(function)), Object::File(file)) => {
            Action::Call(Call::File(function, file))
        }
        (Some(User::Session(function)), Object::Session(session)) => {
            Action::Call(Call::Session(function, session))
        }
        _ => Action::End,
    }
}

/// What a handler does with an error of the object that it was meant for, which is not there yet: a
/// program's function gets the null handle. `None` when it is no handler.
pub(crate) fn action_without_object(errhandler: Errhandler) -> Option<Action> {
    if is_predefined(errhandler) {
        return Some(action(errhandler, Object::Own));
    }
    let user = handlers().get(errhandler.0).map(|entry| entry.user)?;
    Some(Action::Call(match user {
        User::Comm(function) => Call::Comm(function, MPI_COMM_NULL),
        User::Win(function) => Call::Win(function, MPI_WIN_NULL),
        User::File(function) => Call::File(function, MPI_FILE_NULL),
        User::Session(function) => Call::Session(function, MPI_SESSION_NULL),
    }))
}

pub(crate) fn is_predefined(errhandler: Errhandler) -> bool {
    matches!(errhandler, MPI_ERRORS_RETURN | MPI_ERRORS_ABORT | MPI_ERRORS_ARE_FATAL)
}

/// What is done with an error where MPI does not run.
pub(crate) fn initial_action() -> Action {
    Action::End
}

/// The handler that files get when they are opened, as a handle's value.
pub(crate) static OF_FILES: Mutex<Errhandler> = Mutex::new(MPI_ERRORS_RETURN);

pub(crate) fn default_of_files() -> Errhandler {
    *OF_FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An object has a handler from now on.
pub(crate) fn hold(errhandler: Errhandler) {
    if let Some(entry) = handlers().get_mut(errhandler.0) {
        entry.references += 1;
    }
}

/// A handle or an object does not have a handler any more.
pub(crate) fn release(errhandler: Errhandler) {
    let mut handlers = handlers();
    let Some(entry) = handlers.get_mut(errhandler.0) else { return };
    entry.references -= 1;
    if entry.references == 0 {
        handlers.remove(errhandler.0);
    }
}

/// Which objects a handler is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Comm,
    Win,
    File,
    Session,
}

impl User {
    fn kind(self) -> Kind {
        match self {
            Self::Comm(_) => Kind::Comm,
            Self::Win(_) => Kind::Win,
            Self::File(_) => Kind::File,
            Self::Session(_) => Kind::Session,
        }
    }
}

/// Fails unless the handler may be set on an object of this kind.
pub(crate) fn check(errhandler: Errhandler, kind: Kind) -> Result<(), Fault> {
    if is_predefined(errhandler) {
        return Ok(());
    }
    match handlers().get(errhandler.0).map(|entry| entry.user.kind()) {
        Some(own) if own == kind => Ok(()),
        Some(own) => {
            let text = format!("the error handler is for objects of kind {own:?}, not {kind:?}");
            Err(fault(MPI_ERR_ERRHANDLER, text))
        }
        None => Err(not_a_handler(errhandler)),
    }
}

/// Makes a handler of a program's function.
pub(crate) fn create<T>(
    function: Option<Function<T>>,
    user: impl FnOnce(Function<T>) -> User,
    errhandler: Out<Errhandler>,
) -> Result<(), Fault> {
    let missing = || fault(MPI_ERR_ARG, "there is no function to call");
    let user = user(function.ok_or_else(missing)?);
    if errhandler.is_null() {
        return Err(fault(MPI_ERR_ARG, "there is no address for the error handler"));
    }
    let made = handlers().insert(Entry { user, references: 1 });
    let full = || fault(MPI_ERR_OTHER, "there are too many error handlers");
    errhandler.set(Errhandler(made.ok_or_else(full)?))
}

/// The handle whose number in C is this one.
pub(crate) fn from_int(low: usize) -> Errhandler {
    Errhandler(handlers().complete(low))
}

#[cold]
pub(crate) fn not_a_handler(errhandler: Errhandler) -> Fault {
    let text = match errhandler {
        MPI_ERRHANDLER_NULL => "the error handler is MPI_ERRHANDLER_NULL".into(),
        Errhandler(value) => format!("{value:#x} is no error handler, or one that was freed"),
    };
    fault(MPI_ERR_ERRHANDLER, text)
}

/// Gives the program a handle of an object's handler, which it frees.
pub(crate) fn give(errhandler: Errhandler, out: Out<Errhandler>) -> Result<(), Fault> {
    out.set(errhandler)?;
    hold(errhandler);
    Ok(())
}
