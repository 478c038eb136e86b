//! Generalised requests, whose operations the program does itself.
//!
//! The end of one may be reported by a thread that is in no other function of the library, while the rank
//! sleeps in one. So what is needed for that is apart from the other requests, behind a lock.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_mpi::raw::General;

use super::status::Status;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::Request;

pub(crate) type Query = unsafe extern "C-unwind" fn(*mut c_void, *mut Status) -> c_int;
pub(crate) type Free = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
pub(crate) type Cancel = unsafe extern "C-unwind" fn(*mut c_void, c_int) -> c_int;

/// Functions of the program, and what they are called with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callbacks {
    pub(crate) query: Option<Query>,
    pub(crate) free: Option<Free>,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) extra_state: usize,
}

impl Callbacks {
    /// Asks the program for the status. Nothing may be borrowed: it may call MPI.
    pub(crate) fn query(&self, status: &mut Status) -> c_int {
        let state = std::ptr::with_exposed_provenance_mut(self.extra_state);
        // SAFETY: a function of this type, as the program has said, with what it wants to have; the
        // status is there for the call.
        self.query.map_or(MPI_SUCCESS, |query| unsafe { query(state, status) })
    }

    /// Lets the program free what it has. Nothing may be borrowed.
    pub(crate) fn free(&self) -> c_int {
        let state = std::ptr::with_exposed_provenance_mut(self.extra_state);
        // SAFETY: as in `query`; it is called once, since the request is gone.
        self.free.map_or(MPI_SUCCESS, |free| unsafe { free(state) })
    }

    /// Asks the program to cancel. Nothing may be borrowed.
    pub(crate) fn cancel(&self, complete: bool) -> c_int {
        let state = std::ptr::with_exposed_provenance_mut(self.extra_state);
        // SAFETY: as in `query`.
        self.cancel.map_or(MPI_SUCCESS, |cancel| unsafe { cancel(state, complete.into()) })
    }
}

/// The error of functions of the program: that of the first that gave one.
pub(crate) fn failed(first: c_int, second: c_int) -> Option<Fault> {
    let code = if first == MPI_SUCCESS { second } else { first };
    let text = "a function of a generalised request has failed";
    (code != MPI_SUCCESS).then(|| fault(code, text))
}

/// A request whose end may be reported.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) general: Arc<General>,
    /// Where the program has freed the request already: what is called at the end.
    pub(crate) freed: Option<Callbacks>,
}

/// By handle.
static KNOWN: Mutex<BTreeMap<usize, Known>> = Mutex::new(BTreeMap::new());

pub(crate) fn known() -> MutexGuard<'static, BTreeMap<usize, Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The request is gone.
pub(crate) fn forget(handle: Request) {
    known().remove(&handle.0);
}

/// All requests are gone, with MPI.
pub(crate) fn forget_all() {
    known().clear();
}

/// The program has freed the request before its end.
pub(crate) fn free_at_end(handle: Request, callbacks: Callbacks) {
    if let Some(known) = known().get_mut(&handle.0) {
        known.freed = Some(callbacks);
    }
}
