//! Chapter: inquiries about the ABI, and what a Fortran part of a program sets.
//!
//! They may come before the start of MPI, from any thread, so what is set is behind a lock. Each thing
//! is set once.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arg::Out;
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Aint, Count, Info, Offset};
use crate::library::infos::{self, Pairs};

/// What Fortran's types are like.
#[derive(Debug)]
struct Fortran {
    info: Option<Pairs>,
    booleans: Option<Booleans>,
}

/// The two values of `LOGICAL`, of that many bytes.
#[derive(Clone, Copy, Debug)]
struct Booleans {
    size: usize,
    yes: [u8; BOOLEAN_MAX],
    no: [u8; BOOLEAN_MAX],
}

/// The most bytes of a `LOGICAL`.
const BOOLEAN_MAX: usize = 16;

static FORTRAN: Mutex<Fortran> = Mutex::new(Fortran { info: None, booleans: None });

fn fortran() -> MutexGuard<'static, Fortran> {
    FORTRAN.lock().unwrap_or_else(PoisonError::into_inner)
}

mpi! {
    any fn MPI_Abi_get_version(abi_major: Out<c_int>, abi_minor: Out<c_int>) {
        abi_major.set(MPI_ABI_VERSION)?;
        abi_minor.set(MPI_ABI_SUBVERSION)
    }

    any fn MPI_Abi_get_info(info: Out<Info>) {
        let mut pairs = Pairs::default();
        let sizes = [
            ("mpi_aint_size", size_of::<Aint>()),
            ("mpi_count_size", size_of::<Count>()),
            ("mpi_offset_size", size_of::<Offset>()),
        ];
        for (key, size) in sizes {
            pairs.set(key.as_bytes(), size.to_string().as_bytes());
        }
        infos::give(pairs, info)
    }

    any fn MPI_Abi_get_fortran_info(info: Out<Info>) {
        let reported = fortran().info.clone();
        match reported {
            Some(pairs) => infos::give(pairs, info),
            None => info.set(MPI_INFO_NULL),
        }
    }

    any fn MPI_Abi_set_fortran_info(info: Info) {
        let pairs = infos::pairs(info)?;
        let mut fortran = fortran();
        if fortran.info.is_some() {
            return Err(fault(MPI_ERR_ABI, "what Fortran's types are like was set before"));
        }
        fortran.info = Some(pairs);
        Ok(())
    }

    any fn MPI_Abi_get_fortran_booleans(logical_size: c_int, logical_true: *mut c_void,
                                        logical_false: *mut c_void, is_set: Out<c_int>) {
        let reported = fortran().booleans;
        let size = checked_size(logical_size)?;
        if let Some(booleans) = reported.filter(|booleans| booleans.size == size) {
            store(&booleans.yes[..size], logical_true)?;
            store(&booleans.no[..size], logical_false)?;
            return is_set.set(1);
        }
        is_set.set(0)
    }

    any fn MPI_Abi_set_fortran_booleans(logical_size: c_int, logical_true: *mut c_void,
                                        logical_false: *mut c_void) {
        let size = checked_size(logical_size)?;
        let booleans =
            Booleans { size, yes: load(size, logical_true)?, no: load(size, logical_false)? };
        let mut fortran = fortran();
        if fortran.booleans.is_some() {
            return Err(fault(MPI_ERR_ABI, "the values of LOGICAL were set before"));
        }
        fortran.booleans = Some(booleans);
        Ok(())
    }
}

fn checked_size(size: c_int) -> Result<usize, Fault> {
    match size {
        1 | 2 | 4 | 8 | 16 => Ok(size as usize),
        _ => Err(fault(MPI_ERR_ARG, format!("a LOGICAL of {size} bytes"))),
    }
}

fn load(size: usize, from: *const c_void) -> Result<[u8; BOOLEAN_MAX], Fault> {
    if from.is_null() {
        return Err(fault(MPI_ERR_ARG, "there is no address of a LOGICAL"));
    }
    let mut value = [0; BOOLEAN_MAX];
    // SAFETY: the program has a value of that size there; it is at most as long as the array.
    unsafe { value.as_mut_ptr().copy_from_nonoverlapping(from.cast(), size) };
    Ok(value)
}

fn store(value: &[u8], to: *mut c_void) -> Result<(), Fault> {
    if to.is_null() {
        return Err(fault(MPI_ERR_ARG, "there is no address for a LOGICAL"));
    }
    // SAFETY: the program has space for a value of that size there.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(value.as_ptr(), value.len()) };
    Ok(())
}
