//! Chapter: communicators.

use std::ffi::c_int;

use crate::arg::{Out, Text, TextOut};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Comm, Info};
use crate::info::{self, Pairs};
use crate::library::{CommObject, Library};

mpi! {
    fn MPI_Comm_rank(comm: Comm, rank: Out<c_int>) on comm |mpi| {
        rank.set(mpi.comm(comm)?.comm.rank())
    }

    fn MPI_Comm_size(comm: Comm, size: Out<c_int>) on comm |mpi| {
        size.set(mpi.comm(comm)?.comm.size())
    }

    fn MPI_Comm_test_inter(comm: Comm, flag: Out<c_int>) on comm |mpi| {
        mpi.comm(comm)?;
        // There is nothing that makes another kind.
        flag.set(0)
    }

    fn MPI_Topo_test(comm: Comm, status: Out<c_int>) on comm |mpi| {
        mpi.comm(comm)?;
        // Nor anything that gives one a topology.
        status.set(MPI_UNDEFINED)
    }

    fn MPI_Comm_get_parent(parent: Out<Comm>) |_mpi| {
        // Nor a process that was started by another one.
        parent.set(MPI_COMM_NULL)
    }

    fn MPI_Comm_dup(comm: Comm, newcomm: Out<Comm>) on comm |mpi| {
        duplicate(mpi, &*mpi.comm(comm)?, newcomm, None)
    }

    fn MPI_Comm_dup_with_info(comm: Comm, info: Info, newcomm: Out<Comm>) on comm |mpi| {
        let comm = mpi.comm(comm)?;
        duplicate(mpi, &comm, newcomm, Some(info::pairs_or_none(info)?))
    }

    fn MPI_Comm_free(comm: Out<Comm>) on comm |mpi| {
        let handle = comm.get()?;
        let object = mpi.comm(handle)?;
        if handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF {
            return Err(fault(MPI_ERR_COMM, "a predefined communicator cannot be freed"));
        }
        // The program's functions still have the handle.
        object.delete_attributes(mpi)?;
        mpi.remove_comm(handle)?;
        comm.set(MPI_COMM_NULL)
    }

    fn MPI_Comm_set_name(comm: Comm, comm_name: Text) on comm |mpi| {
        let object = mpi.comm(comm)?;
        object.common.set_name(comm_name.bytes()?);
        Ok(())
    }

    fn MPI_Comm_get_name(comm: Comm, comm_name: TextOut, resultlen: Out<c_int>) on comm |mpi| {
        let name = match comm {
            MPI_COMM_NULL => b"MPI_COMM_NULL".to_vec(),
            _ => mpi.comm(comm)?.common.name(),
        };
        let len = comm_name.set(&name, MPI_MAX_OBJECT_NAME as usize)?;
        resultlen.set(len as c_int)
    }

    fn MPI_Comm_set_info(comm: Comm, info: Info) on comm |mpi| {
        let object = mpi.comm(comm)?;
        // No hint changes what the library does, so that it keeps none.
        info::pairs(info)?;
        *object.common.info.borrow_mut() = Pairs::default();
        Ok(())
    }

    fn MPI_Comm_get_info(comm: Comm, info_used: Out<Info>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let used = object.common.info.borrow().clone();
        info::give(used, info_used)
    }
}

/// A communicator of the same ranks, with the attributes that want to be copied.
fn duplicate(
    mpi: &Library,
    object: &CommObject,
    newcomm: Out<Comm>,
    info: Option<Pairs>,
) -> Result<(), Fault> {
    if newcomm.is_null() {
        return Err(fault(MPI_ERR_ARG, "there is no address for the communicator"));
    }
    // As with `MPI_Comm_set_info`.
    drop(info);
    let new = mpi.add_comm(object.comm.dup()?, object)?;
    if let Err(fault) = object.bearer().copy_all(&mpi.attributes, &new.bearer()) {
        mpi.remove_comm(new.handle)?;
        return Err(fault);
    }
    newcomm.set(new.handle)
}
