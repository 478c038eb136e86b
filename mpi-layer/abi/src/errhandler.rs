//! Chapter: error handlers.
//!
//! They are behind a lock, since those of sessions may be made at any time and in any thread. A handler
//! lives as long as a handle or an object has it. No lock is held while one is called.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use crate::fault::Object;
use crate::generated::constants::*;
use crate::handle::{Comm, Errhandler, File, Session, Win};
use crate::library;
use crate::table::Table;

/// A handler of a program. The arguments behind the two are the library's to choose; it gives none.
pub(crate) type Function<T> = unsafe extern "C-unwind" fn(*mut T, *mut c_int, ...);

/// A handler of a program, by the kind of object that it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum User {
    Comm(Function<Comm>),
    Win(Function<Win>),
    File(Function<File>),
    Session(Function<Session>),
}

#[derive(Debug)]
struct Entry {
    user: User,
    /// Handles and objects that have it.
    references: usize,
}

static HANDLERS: Mutex<Table<Entry>> = Mutex::new(Table::new(Errhandler::KIND));

fn handlers() -> std::sync::MutexGuard<'static, Table<Entry>> {
    HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is done with an error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// The function returns its code.
    Return,
    /// The job ends: all that is connected, or the processes of the communicator.
    End { everything: bool },
    /// A function of the program is called.
    Call(Call),
}

/// A call of a program's handler.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Comm(Function<Comm>, Comm),
    Win(Function<Win>, Win),
    File(Function<File>, File),
    Session(Function<Session>, Session),
}

impl Call {
    /// Calls it. The caller holds nothing that must be given back.
    pub(crate) fn run(self, mut code: c_int) {
        // SAFETY: the program gave these as handlers of this kind of object; the two addresses are of
        // locals, which outlive the call.
        unsafe {
            match self {
                Self::Comm(function, mut handle) => function(&mut handle, &mut code),
                Self::Win(function, mut handle) => function(&mut handle, &mut code),
                Self::File(function, mut handle) => function(&mut handle, &mut code),
                Self::Session(function, mut handle) => function(&mut handle, &mut code),
            }
        }
    }
}

/// What is done with an error of an object; `None` when there is no such object.
pub(crate) fn action_of(object: Object) -> Option<Action> {
    let library = library::running();
    let (errhandler, object) = match object {
        Object::Own => (library?.own.common.errhandler(), Object::Comm(MPI_COMM_SELF)),
        Object::Comm(comm) => (library?.comm(comm).ok()?.common.errhandler(), object),
        // Windows, files and sessions come with their chapters.
        Object::Win(_) | Object::File(_) | Object::Session(_) => return None,
    };
    Some(action(errhandler, object))
}

/// What a handler does with an error of this object.
fn action(errhandler: Errhandler, object: Object) -> Action {
    match errhandler {
        MPI_ERRORS_RETURN => return Action::Return,
        MPI_ERRORS_ABORT => return Action::End { everything: false },
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
        _ => Action::End { everything: true },
    }
}

/// What is done with an error where MPI does not run.
pub(crate) fn initial_action() -> Action {
    Action::End { everything: true }
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
