//! Chapter: the start, the end, and what surrounds a process.

use std::ffi::{c_double, c_int, c_void};

use crate::arg::{Out, TextOut};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Aint, Comm, Info};
use crate::library;
use crate::library::infos::{self, host_name};

/// The most that the library gives: one thread at a time.
pub(crate) const LEVEL_MAX: c_int = MPI_THREAD_SERIALIZED;

/// The levels of the standard.
pub(crate) const LEVELS: [c_int; 4] =
    [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE];

mpi! {
    any fn MPI_Init(argc: *mut c_void, argv: *mut c_void) {
        // The library takes nothing from a command line, so that both may be anything.
        let _ = (argc, argv);
        library::start(MPI_THREAD_SINGLE)
    }

    any fn MPI_Init_thread(argc: *mut c_void, argv: *mut c_void, required: c_int,
                           provided: Out<c_int>) {
        let _ = (argc, argv);
        if !LEVELS.contains(&required) {
            return Err(fault(MPI_ERR_ARG, format!("{required} is no level of threads")));
        }
        if provided.is_null() {
            return Err(fault(MPI_ERR_ARG, "there is no address for the level of threads"));
        }
        library::start(required.min(LEVEL_MAX))?;
        provided.set(required.min(LEVEL_MAX))
    }

    any fn MPI_Initialized(flag: Out<c_int>) {
        flag.set(library::was_started().into())
    }

    any fn MPI_Finalized(flag: Out<c_int>) {
        flag.set(library::is_finished().into())
    }

    fn MPI_Query_thread(provided: Out<c_int>) |mpi| {
        provided.set(mpi.provided.get())
    }

    fn MPI_Is_thread_main(flag: Out<c_int>) |mpi| {
        flag.set((std::thread::current().id() == mpi.main_thread.get()).into())
    }

    fn MPI_Finalize() |mpi| {
        library::finish(mpi)
    }

    fn MPI_Abort(comm: Comm, errorcode: c_int) |mpi| {
        // Launchers end whole jobs, so that it does not matter which communicator it is.
        let _ = (mpi, comm);
        library::abort(errorcode)
    }

    any fn MPI_Wtime() -> c_double {
        seconds(time(libc::clock_gettime))
    }

    any fn MPI_Wtick() -> c_double {
        seconds(time(libc::clock_getres))
    }

    any fn MPI_Get_version(version: Out<c_int>, subversion: Out<c_int>) {
        version.set(MPI_VERSION)?;
        subversion.set(MPI_SUBVERSION)
    }

    any fn MPI_Get_library_version(version: TextOut, resultlen: Out<c_int>) {
        let text = concat!("Bowline ", env!("CARGO_PKG_VERSION"), ", MPI 5.0, standard ABI 1.0");
        let len = version.set(text.as_bytes(), MPI_MAX_LIBRARY_VERSION_STRING as usize)?;
        resultlen.set(len as c_int)
    }

    fn MPI_Get_processor_name(name: TextOut, resultlen: Out<c_int>) |_mpi| {
        let len = name.set(&host_name(), MPI_MAX_PROCESSOR_NAME as usize)?;
        resultlen.set(len as c_int)
    }

    any fn MPI_Get_hw_resource_info(hw_info: Out<Info>) {
        // Which kinds of resources are shown is the library's to choose; it knows of none.
        infos::give(infos::Pairs::default(), hw_info)
    }

    any fn MPI_Alloc_mem(size: Aint, info: Info, baseptr: Out<usize>) {
        infos::pairs_or_none(info)?;
        let bytes = usize::try_from(size)
            .map_err(|_| fault(MPI_ERR_ARG, format!("the size is {size}")))?;
        if baseptr.is_null() {
            return Err(fault(MPI_ERR_ARG, "there is no address for the memory's address"));
        }
        baseptr.set(allocate(bytes)?.expose_provenance())
    }

    any fn MPI_Free_mem(base: *mut c_void) {
        // SAFETY: the program gives back what `MPI_Alloc_mem` gave it, once; null is allowed.
        unsafe { libc::free(base) };
        Ok(())
    }

    any fn MPI_Get_address(location: *const c_void, address: Out<Aint>) {
        address.set(location.expose_provenance() as Aint)
    }

    any fn MPI_Aint_add(base: Aint, disp: Aint) -> Aint {
        base.wrapping_add(disp)
    }

    any fn MPI_Aint_diff(addr1: Aint, addr2: Aint) -> Aint {
        addr1.wrapping_sub(addr2)
    }

    any fn MPI_Pcontrol(level: c_int) {
        // It is for tools that are linked in front of the library, which has none in itself.
        let _ = level;
        Ok(())
    }
}

/// Memory for `MPI_Alloc_mem`: ordinary memory, which children of the process have too.
fn allocate(bytes: usize) -> Result<*mut c_void, Fault> {
    const ALIGNMENT: usize = 64;
    let mut memory = std::ptr::null_mut();
    // SAFETY: the address is of a local, and the alignment is a power of two.
    let failed = unsafe { libc::posix_memalign(&mut memory, ALIGNMENT, bytes.max(1)) };
    if failed != 0 {
        return Err(fault(MPI_ERR_NO_MEM, format!("there is no memory for {bytes} bytes")));
    }
    Ok(memory)
}

/// What a clock that goes on evenly says. Processes of one machine have the same.
fn time(
    ask: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int,
) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both functions that are given write a time to the address, which is of a local.
    unsafe { ask(libc::CLOCK_MONOTONIC, &mut now) };
    now
}

fn seconds(time: libc::timespec) -> f64 {
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The name of a level of threads; empty when it is none.
pub(crate) fn level_name(level: c_int) -> &'static str {
    match level {
        MPI_THREAD_SINGLE => "MPI_THREAD_SINGLE",
        MPI_THREAD_FUNNELED => "MPI_THREAD_FUNNELED",
        MPI_THREAD_SERIALIZED => "MPI_THREAD_SERIALIZED",
        MPI_THREAD_MULTIPLE => "MPI_THREAD_MULTIPLE",
        _ => "",
    }
}
