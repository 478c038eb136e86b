//! Chapter: sessions.

use std::ffi::c_int;

use crate::arg::{Out, Text, TextOut};
use crate::entry::mpi;
use crate::environment::{LEVEL_MAX, LEVELS, level_name};
use crate::fault::fault;
use crate::generated::constants::*;
use crate::handle::{Errhandler, Info, Session};
use crate::library;
use crate::library::buffers::Owner;
use crate::library::handlers::{self, Kind};
use crate::library::infos::{self, Pairs};
use crate::library::sessions::{Object, SETS, Set, not_a_session, object, sessions, set_of};

mpi! {
    any fn MPI_Session_init(info: Info, errhandler: Errhandler, session: Out<Session>)
        on errhandler {
        handlers::check(errhandler, Kind::Session)?;
        let hints = infos::pairs_or_none(info)?;
        if session.is_null() {
            return Err(fault(MPI_ERR_ARG, "there is no address for the session"));
        }
        let asked = hints.get(b"thread_level").and_then(level_of).unwrap_or(LEVEL_MAX);
        let provided = asked.min(LEVEL_MAX);
        library::begin_session(provided)?;
        handlers::hold(errhandler);
        let made = sessions().insert(Object { errhandler, provided });
        let Some(made) = made else {
            handlers::release(errhandler);
            library::end_session();
            return Err(fault(MPI_ERR_OTHER, "there are too many sessions"));
        };
        session.set(Session(made))
    }

    any fn MPI_Session_finalize(session: Out<Session>) on session {
        let ended = session.get()?;
        let object = sessions().remove(ended.0).ok_or_else(|| not_a_session(ended))?;
        handlers::release(object.errhandler);
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
        infos::give(pairs, info_used)
    }

    any fn MPI_Session_get_num_psets(session: Session, info: Info, npset_names: Out<c_int>)
        on session {
        object(session)?;
        infos::pairs_or_none(info)?;
        npset_names.set(SETS.len() as c_int)
    }

    any fn MPI_Session_get_nth_pset(session: Session, info: Info, n: c_int,
                                    pset_len: Out<c_int>, pset_name: TextOut) on session {
        object(session)?;
        infos::pairs_or_none(info)?;
        let given = pset_len.get()?;
        let space = usize::try_from(given)
            .map_err(|_| fault(MPI_ERR_ARG, format!("the capacity for the name is {given}")))?;
        let name = usize::try_from(n).ok().and_then(|n| SETS.get(n)).ok_or_else(|| {
            fault(MPI_ERR_ARG, format!("there is no set {n}; there are {}", SETS.len()))
        })?;
        if space > 0 {
            pset_name.set(name.as_bytes(), space)?;
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
        infos::give(pairs, info)
    }

    any fn MPI_Session_set_errhandler(session: Session, errhandler: Errhandler) on session {
        object(session)?;
        handlers::check(errhandler, Kind::Session)?;
        handlers::hold(errhandler);
        let old = sessions()
            .get_mut(session.0)
            .map(|object| std::mem::replace(&mut object.errhandler, errhandler));
        handlers::release(old.ok_or_else(|| not_a_session(session))?);
        Ok(())
    }

    any fn MPI_Session_get_errhandler(session: Session, errhandler: Out<Errhandler>) on session {
        handlers::give(object(session)?.errhandler, errhandler)
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
