//! Chapter: error handlers.

use std::ffi::c_int;
use std::sync::PoisonError;

use crate::arg::Out;
use crate::entry::mpi;
use crate::fault::{Fault, Function, fault};
use crate::generated::constants::*;
use crate::handle::{Comm, Errhandler, File, Session, Win};
use crate::library::handlers::{
    Kind, OF_FILES, User, check, create, default_of_files, give, handlers, hold, is_predefined,
    not_a_handler, release,
};
use crate::library::object::Common;

mpi! {
    fn MPI_Comm_create_errhandler(comm_errhandler_fn: Option<Function<Comm>>,
                                  errhandler: Out<Errhandler>) |_mpi| {
        create(comm_errhandler_fn, User::Comm, errhandler)
    }

    fn MPI_Win_create_errhandler(win_errhandler_fn: Option<Function<Win>>,
                                 errhandler: Out<Errhandler>) |_mpi| {
        create(win_errhandler_fn, User::Win, errhandler)
    }

    fn MPI_File_create_errhandler(file_errhandler_fn: Option<Function<File>>,
                                  errhandler: Out<Errhandler>) |_mpi| {
        create(file_errhandler_fn, User::File, errhandler)
    }

    any fn MPI_Session_create_errhandler(session_errhandler_fn: Option<Function<Session>>,
                                         errhandler: Out<Errhandler>) {
        create(session_errhandler_fn, User::Session, errhandler)
    }

    fn MPI_Comm_set_errhandler(comm: Comm, errhandler: Errhandler) on comm |mpi| {
        mpi.of_comm(comm, |_| ())?;
        check(errhandler, Kind::Comm)?;
        mpi.of_comm(comm, |common| common.set_errhandler(errhandler))?;
        if comm == MPI_COMM_SELF {
            mpi.own_handler_chosen.set(true);
        }
        Ok(())
    }

    fn MPI_Comm_get_errhandler(comm: Comm, errhandler: Out<Errhandler>) on comm |mpi| {
        give(mpi.of_comm(comm, Common::errhandler)?, errhandler)
    }

    fn MPI_Comm_call_errhandler(comm: Comm, errorcode: c_int) on comm |mpi| {
        mpi.comm(comm)?;
        Err(fault(errorcode, "the program has called the error handler").asked_for())
    }

    fn MPI_File_set_errhandler(file: File, errhandler: Errhandler) on file |_mpi| {
        check_file(file)?;
        check(errhandler, Kind::File)?;
        hold(errhandler);
        let mut of_files = OF_FILES.lock().unwrap_or_else(PoisonError::into_inner);
        release(std::mem::replace(&mut of_files, errhandler));
        Ok(())
    }

    fn MPI_File_get_errhandler(file: File, errhandler: Out<Errhandler>) on file |_mpi| {
        check_file(file)?;
        give(default_of_files(), errhandler)
    }

    fn MPI_File_call_errhandler(fh: File, errorcode: c_int) on fh |_mpi| {
        check_file(fh)?;
        Err(fault(errorcode, "the program has called the error handler").asked_for())
    }

    any fn MPI_Errhandler_free(errhandler: Out<Errhandler>) {
        let freed = errhandler.get()?;
        if !is_predefined(freed) && handlers().get(freed.0).is_none() {
            return Err(not_a_handler(freed));
        }
        release(freed);
        errhandler.set(MPI_ERRHANDLER_NULL)
    }
}

/// No file can be open yet: the null handle stands for all that are opened later.
fn check_file(file: File) -> Result<(), Fault> {
    if file == MPI_FILE_NULL {
        return Ok(());
    }
    Err(fault(MPI_ERR_FILE, format!("{:#x} is no file", file.0)))
}
