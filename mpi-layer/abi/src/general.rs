//! Chapter: generalised requests, whose operations the program does itself.

use std::ffi::c_void;

use crate::arg::Out;
use crate::entry::mpi;
use crate::fault::fault;
use crate::generated::constants::*;
use crate::handle::Request;
use crate::library::general::{Callbacks, Cancel, Free, Known, Query, failed, known};

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
