//! Chapter: the start, the end, and what surrounds a process.

use std::ffi::{c_double, c_int, c_void};

use crate::arg::Out;
use crate::entry::mpi;
use crate::generated::constants::*;
use crate::handle::Comm;
use crate::library;

mpi! {
    any fn MPI_Init(argc: *mut c_void, argv: *mut c_void) {
        // The library takes nothing from a command line, so that both may be anything.
        let _ = (argc, argv);
        library::start(MPI_THREAD_SINGLE)
    }

    any fn MPI_Initialized(flag: Out<c_int>) {
        flag.set(library::was_started().into())
    }

    any fn MPI_Finalized(flag: Out<c_int>) {
        flag.set(library::is_finished().into())
    }

    fn MPI_Finalize() |mpi| {
        library::finish(mpi)
    }

    fn MPI_Abort(comm: Comm, errorcode: c_int) |mpi| {
        let _ = (mpi, comm);
        library::abort(errorcode)
    }

    any fn MPI_Wtime() -> c_double {
        time()
    }
}

/// Seconds of a clock that goes on evenly. Processes of one machine have the same.
fn time() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the address is of a local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}
