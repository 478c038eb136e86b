//! Chapter: generalised requests, whose operations the program does itself.
//!
//! The end of one may be reported by a thread that is in no other function of the library, while the rank
//! sleeps in one. So what is needed for that is apart from the other requests, behind a lock.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_mpi::raw::General;

use crate::arg::Out;
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::Request;
use crate::status::Status;

type Query = unsafe extern "C-unwind" fn(*mut c_void, *mut Status) -> c_int;
type Free = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C-unwind" fn(*mut c_void, c_int) -> c_int;

/// Functions of the program, and what they are called with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callbacks {
    query: Option<Query>,
    free: Option<Free>,
    cancel: Option<Cancel>,
    extra_state: usize,
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
struct Known {
    general: Arc<General>,
    /// Where the program has freed the request already: what is called at the end.
    freed: Option<Callbacks>,
}

/// By handle.
static KNOWN: Mutex<BTreeMap<usize, Known>> = Mutex::new(BTreeMap::new());

fn known() -> MutexGuard<'static, BTreeMap<usize, Known>> {
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

mpi! {
    fn MPI_Grequest_start(query_fn: Option<Query>, free_fn: Option<Free>,
                          cancel_fn: Option<Cancel>, extra_state: *mut c_void,
                          request: Out<Request>) |mpi| {
        if request.is_null() {
            return Err(fault(MPI_ERR_ARG, "there is no address for the request"));
        }
        let (raw, general) = mpi.world.comm.general();
        let extra_state = extra_state.expose_provenance();
        let callbacks =
            Callbacks { query: query_fn, free: free_fn, cancel: cancel_fn, extra_state };
        let handle = mpi.requests.add_general(raw, callbacks, request)?;
        known().insert(handle.0, Known { general, freed: None });
        Ok(())
    }

    fn MPI_Grequest_complete(request: Request) |_mpi| {
        let freed = {
            let mut all = known();
            let one = all.get(&request.0).filter(|known| !known.general.is_complete());
            let none = || fault(MPI_ERR_REQUEST, "it is no generalised request under way");
            let one = one.ok_or_else(none)?;
            one.general.complete();
            let freed = one.freed;
            if freed.is_some() {
                all.remove(&request.0);
            }
            freed
        };
        let code = freed.map_or(MPI_SUCCESS, |callbacks| callbacks.free());
        failed(MPI_SUCCESS, code).map_or(Ok(()), Err)
    }
}
