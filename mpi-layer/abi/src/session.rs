//! Chapter: sessions.
//!
//! They may begin and end at any time and in any thread, so their table is behind a lock. A session has
//! the two sets of processes that the standard names; their groups are in the chapter of groups.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arg::{Out, Text, TextOut};
use crate::buffered::Owner;
use crate::entry::mpi;
use crate::environment::{LEVEL_MAX, LEVELS, level_name};
use crate::errhandler::{self, Kind};
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Errhandler, Info, Session};
use crate::info::{self, Pairs};
use crate::library;
use crate::table::Table;

/// What a session has.
#[derive(Clone, Copy, Debug)]
struct Object {
    errhandler: Errhandler,
    provided: c_int,
}

static SESSIONS: Mutex<Table<Object>> = Mutex::new(Table::new(Session::KIND));

fn sessions() -> MutexGuard<'static, Table<Object>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of the sets of processes.
const SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

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

fn object(session: Session) -> Result<Object, Fault> {
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
fn not_a_session(session: Session) -> Fault {
    let text = match session {
        MPI_SESSION_NULL => "the session is MPI_SESSION_NULL".into(),
        Session(value) => format!("{value:#x} is no session, or one that has ended"),
    };
    fault(MPI_ERR_SESSION, text)
}

mpi! {
    any fn MPI_Session_init(info: Info, errhandler: Errhandler, session: Out<Session>)
        on errhandler {
        errhandler::check(errhandler, Kind::Session)?;
        let hints = info::pairs_or_none(info)?;
        if session.is_null() {
            return Err(fault(MPI_ERR_ARG, "there is no address for the session"));
        }
        let asked = hints.get(b"thread_level").and_then(level_of).unwrap_or(LEVEL_MAX);
        let provided = asked.min(LEVEL_MAX);
        library::begin_session(provided)?;
        errhandler::hold(errhandler);
        let made = sessions().insert(Object { errhandler, provided });
        let Some(made) = made else {
            errhandler::release(errhandler);
            library::end_session();
            return Err(fault(MPI_ERR_OTHER, "there are too many sessions"));
        };
        session.set(Session(made))
    }

    any fn MPI_Session_finalize(session: Out<Session>) on session {
        let ended = session.get()?;
        let object = sessions().remove(ended.0).ok_or_else(|| not_a_session(ended))?;
        errhandler::release(object.errhandler);
        if let Some(mpi) = library::running() {
            mpi.buffers.forget(Owner::Session(ended));
        }
        library::end_session();
        session.set(MPI_SESSION_NULL)
    }

    any fn MPI_Session_get_info(session: Session, info_used: Out<Info>) on session {
        let object = object(session)?;
        let mut pairs = Pairs::default();
        pairs.set(b"thread_level", level_name(object.provided).as_bytes());
        info::give(pairs, info_used)
    }

    any fn MPI_Session_get_num_psets(session: Session, info: Info, npset_names: Out<c_int>)
        on session {
        object(session)?;
        info::pairs_or_none(info)?;
        npset_names.set(SETS.len() as c_int)
    }

    any fn MPI_Session_get_nth_pset(session: Session, info: Info, n: c_int,
                                    pset_len: Out<c_int>, pset_name: TextOut) on session {
        object(session)?;
        info::pairs_or_none(info)?;
        let given = pset_len.get()?;
        let room = usize::try_from(given)
            .map_err(|_| fault(MPI_ERR_ARG, format!("the room for the name is {given}")))?;
        let name = usize::try_from(n).ok().and_then(|n| SETS.get(n)).ok_or_else(|| {
            fault(MPI_ERR_ARG, format!("there is no set {n}; there are {}", SETS.len()))
        })?;
        if room > 0 {
            pset_name.set(name.as_bytes(), room)?;
        }
        pset_len.set(name.len() as c_int + 1)
    }

    any fn MPI_Session_get_pset_info(session: Session, pset_name: Text, info: Out<Info>)
        on session {
        object(session)?;
        let name = pset_name.bytes()?;
        // A session keeps the library.
        let world = library::running().map_or(1, |library| library.world.comm.size());
        let size = match set_of(&name)? {
            Set::World => world,
            Set::Own => 1,
        };
        let mut pairs = Pairs::default();
        pairs.set(b"mpi_size", size.to_string().as_bytes());
        info::give(pairs, info)
    }

    any fn MPI_Session_set_errhandler(session: Session, errhandler: Errhandler) on session {
        object(session)?;
        errhandler::check(errhandler, Kind::Session)?;
        errhandler::hold(errhandler);
        let old = sessions()
            .get_mut(session.0)
            .map(|object| std::mem::replace(&mut object.errhandler, errhandler));
        errhandler::release(old.ok_or_else(|| not_a_session(session))?);
        Ok(())
    }

    any fn MPI_Session_get_errhandler(session: Session, errhandler: Out<Errhandler>) on session {
        errhandler::give(object(session)?.errhandler, errhandler)
    }

    any fn MPI_Session_call_errhandler(session: Session, errorcode: c_int) on session {
        object(session)?;
        Err(fault(errorcode, "the program has called the error handler").asked_for())
    }
}

/// The level of threads of this name.
fn level_of(name: &[u8]) -> Option<c_int> {
    LEVELS.into_iter().find(|&level| level_name(level).as_bytes() == name)
}
