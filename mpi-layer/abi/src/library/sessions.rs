//! Sessions.
//!
//! They may begin and end at any time and in any thread, so their table is behind a lock. A session has
//! the two sets of processes that the standard names; their groups are in the chapter of groups.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Errhandler, Session};
use crate::table::Table;

/// What a session has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) errhandler: Errhandler,
    pub(crate) provided: c_int,
}

static SESSIONS: Mutex<Table<Object>> = Mutex::new(Table::new(Session::KIND));

pub(crate) fn sessions() -> MutexGuard<'static, Table<Object>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of the sets of processes.
pub(crate) const SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// A set of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    World,
    Own,
}

/// The set of a name, in which case does not matter (MPI 4.1, section 11.3.2).
pub(crate) fn set_of(name: &[u8]) -> Result<Set, Fault> {
    match SETS.iter().position(|set| set.as_bytes().eq_ignore_ascii_case(name)) {
        Some(0) => Ok(Set::World),
        Some(_) => Ok(Set::Own),
        None => {
            let text = format!("there is no set {:?}", String::from_utf8_lossy(name));
            Err(fault(MPI_ERR_ARG, text))
        }
    }
}

/// Fails unless there is such a session.
pub(crate) fn check(session: Session) -> Result<(), Fault> {
    object(session).map(drop)
}

pub(crate) fn object(session: Session) -> Result<Object, Fault> {
    sessions().get(session.0).copied().ok_or_else(|| not_a_session(session))
}

/// The error handler of a session; `None` when it is none.
pub(crate) fn errhandler_of(session: Session) -> Option<Errhandler> {
    sessions().get(session.0).map(|object| object.errhandler)
}

/// The handle whose number in C is this one.
pub(crate) fn from_int(low: usize) -> Session {
    Session(sessions().complete(low))
}

#[cold]
pub(crate) fn not_a_session(session: Session) -> Fault {
    let text = match session {
        MPI_SESSION_NULL => "the session is MPI_SESSION_NULL".into(),
        Session(value) => format!("{value:#x} is no session, or one that has ended"),
    };
    fault(MPI_ERR_SESSION, text)
}
