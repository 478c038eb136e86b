//! Chapter: attributes.

use std::ffi::{c_int, c_void};

use crate::arg::Out;
use crate::entry::mpi;
use crate::fault::Fault;
use crate::handle::{Comm, Datatype};
use crate::library::Library;
use crate::library::attributes::{Bearer, Callback, Kind};

/// Stores a value that an attribute may have.
fn answer(value: Option<usize>, out: Out<usize>, flag: Out<c_int>) -> Result<(), Fault> {
    if let Some(value) = value {
        out.set(value)?;
    }
    flag.set(value.is_some().into())
}

fn of_comm(
    mpi: &Library,
    comm: Comm,
    keyval: c_int,
    out: Out<usize>,
    flag: Out<c_int>,
) -> Result<(), Fault> {
    let object = mpi.comm(comm)?;
    if let Some(place) = mpi.attributes.predefined(keyval) {
        return answer(place.map(<*const c_int>::expose_provenance), out, flag);
    }
    mpi.attributes.keyval(Kind::Comm, keyval)?;
    answer(object.bearer().find(keyval), out, flag)
}

mpi! {
    fn MPI_Comm_create_keyval(comm_copy_attr_fn: Callback, comm_delete_attr_fn: Callback,
                              comm_keyval: Out<c_int>, extra_state: *mut c_void) |mpi| {
        let functions = (comm_copy_attr_fn, comm_delete_attr_fn);
        mpi.attributes.create(Kind::Comm, functions, comm_keyval, extra_state)
    }

    fn MPI_Keyval_create(copy_fn: Callback, delete_fn: Callback, keyval: Out<c_int>,
                         extra_state: *mut c_void) |mpi| {
        mpi.attributes.create(Kind::Comm, (copy_fn, delete_fn), keyval, extra_state)
    }

    fn MPI_Type_create_keyval(type_copy_attr_fn: Callback, type_delete_attr_fn: Callback,
                              type_keyval: Out<c_int>, extra_state: *mut c_void) |mpi| {
        let functions = (type_copy_attr_fn, type_delete_attr_fn);
        mpi.attributes.create(Kind::Type, functions, type_keyval, extra_state)
    }

    fn MPI_Win_create_keyval(win_copy_attr_fn: Callback, win_delete_attr_fn: Callback,
                             win_keyval: Out<c_int>, extra_state: *mut c_void) |mpi| {
        let functions = (win_copy_attr_fn, win_delete_attr_fn);
        mpi.attributes.create(Kind::Win, functions, win_keyval, extra_state)
    }

    fn MPI_Comm_free_keyval(comm_keyval: Out<c_int>) |mpi| {
        mpi.attributes.free(Kind::Comm, comm_keyval)
    }

    fn MPI_Keyval_free(keyval: Out<c_int>) |mpi| {
        mpi.attributes.free(Kind::Comm, keyval)
    }

    fn MPI_Type_free_keyval(type_keyval: Out<c_int>) |mpi| {
        mpi.attributes.free(Kind::Type, type_keyval)
    }

    fn MPI_Win_free_keyval(win_keyval: Out<c_int>) |mpi| {
        mpi.attributes.free(Kind::Win, win_keyval)
    }

    fn MPI_Comm_set_attr(comm: Comm, comm_keyval: c_int, attribute_val: *mut c_void) on comm |mpi| {
        let object = mpi.comm(comm)?;
        object.bearer().set(&mpi.attributes, comm_keyval, attribute_val.expose_provenance())
    }

    fn MPI_Attr_put(comm: Comm, keyval: c_int, attribute_val: *mut c_void) on comm |mpi| {
        let object = mpi.comm(comm)?;
        object.bearer().set(&mpi.attributes, keyval, attribute_val.expose_provenance())
    }

    fn MPI_Comm_get_attr(comm: Comm, comm_keyval: c_int, attribute_val: Out<usize>,
                         flag: Out<c_int>) on comm |mpi| {
        of_comm(mpi, comm, comm_keyval, attribute_val, flag)
    }

    fn MPI_Attr_get(comm: Comm, keyval: c_int, attribute_val: Out<usize>, flag: Out<c_int>)
        on comm |mpi| {
        of_comm(mpi, comm, keyval, attribute_val, flag)
    }

    fn MPI_Comm_delete_attr(comm: Comm, comm_keyval: c_int) on comm |mpi| {
        mpi.comm(comm)?.bearer().delete(&mpi.attributes, comm_keyval)
    }

    fn MPI_Attr_delete(comm: Comm, keyval: c_int) on comm |mpi| {
        mpi.comm(comm)?.bearer().delete(&mpi.attributes, keyval)
    }

    fn MPI_Type_set_attr(datatype: Datatype, type_keyval: c_int, attribute_val: *mut c_void) |mpi| {
        let common = mpi.type_common(datatype)?;
        let bearer = Bearer { kind: Kind::Type, handle: datatype.0, common: &common };
        bearer.set(&mpi.attributes, type_keyval, attribute_val.expose_provenance())
    }

    fn MPI_Type_get_attr(datatype: Datatype, type_keyval: c_int, attribute_val: Out<usize>,
                         flag: Out<c_int>) |mpi| {
        let common = mpi.type_common(datatype)?;
        mpi.attributes.keyval(Kind::Type, type_keyval)?;
        let bearer = Bearer { kind: Kind::Type, handle: datatype.0, common: &common };
        answer(bearer.find(type_keyval), attribute_val, flag)
    }

    fn MPI_Type_delete_attr(datatype: Datatype, type_keyval: c_int) |mpi| {
        let common = mpi.type_common(datatype)?;
        let bearer = Bearer { kind: Kind::Type, handle: datatype.0, common: &common };
        bearer.delete(&mpi.attributes, type_keyval)
    }
}
