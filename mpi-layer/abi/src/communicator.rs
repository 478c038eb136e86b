//! Chapter: communicators, of one group each.
//!
//! A new communicator has the error handler of the one that it was made of. Of hints it has those that
//! it is made with, never its parent's.

use std::cell::Cell;
use std::ffi::c_int;
use std::rc::Rc;

use bowline_mpi::Communicator;

use crate::arg::{Out, Text, TextOut};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::group::relation;
use crate::handle::{Comm, Errhandler, Group, Info, Request};
use crate::library::attributes::{self, Bearer};
use crate::library::handlers::{self, Kind};
use crate::library::infos::{self, Pairs};
use crate::library::library_of_session;
use crate::library::object::Common;
use crate::library::sessions::{self, Set};
use crate::library::{self, CommObject, Library};

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

    fn MPI_Comm_get_parent(parent: Out<Comm>) |_mpi| {
        // No process is started by another one.
        parent.set(MPI_COMM_NULL)
    }

    fn MPI_Intercomm_merge(intercomm: Comm, high: c_int, newintracomm: Out<Comm>)
        on intercomm |mpi| {
        let _ = (mpi.comm(intercomm)?, high, newintracomm);
        Err(no_other_group())
    }

    fn MPI_Comm_remote_size(comm: Comm, size: Out<c_int>) on comm |mpi| {
        let _ = (mpi.comm(comm)?, size);
        Err(no_other_group())
    }

    fn MPI_Comm_remote_group(comm: Comm, group: Out<Group>) on comm |mpi| {
        let _ = (mpi.comm(comm)?, group);
        Err(no_other_group())
    }

    fn MPI_Comm_compare(comm1: Comm, comm2: Comm, result: Out<c_int>) on comm1 |mpi| {
        let (one, other) = (mpi.comm(comm1)?, mpi.comm(comm2)?);
        result.set(relation(one.comm.compare(&other.comm)))
    }

    fn MPI_Comm_dup(comm: Comm, newcomm: Out<Comm>) on comm |mpi| {
        duplicate(mpi, &*mpi.comm(comm)?, newcomm, Pairs::default())
    }

    fn MPI_Comm_dup_with_info(comm: Comm, info: Info, newcomm: Out<Comm>) on comm |mpi| {
        let comm = mpi.comm(comm)?;
        duplicate(mpi, &comm, newcomm, infos::pairs_or_none(info)?)
    }

    fn MPI_Comm_idup(comm: Comm, newcomm: Out<Comm>, request: Out<Request>) on comm |mpi| {
        duplicate_later(mpi, mpi.comm(comm)?, (newcomm, request), Pairs::default())
    }

    fn MPI_Comm_idup_with_info(comm: Comm, info: Info, newcomm: Out<Comm>, request: Out<Request>)
        on comm |mpi| {
        let comm = mpi.comm(comm)?;
        let hints = infos::pairs_or_none(info)?;
        duplicate_later(mpi, comm, (newcomm, request), hints)
    }

    fn MPI_Comm_split(comm: Comm, color: c_int, key: c_int, newcomm: Out<Comm>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        check_address(newcomm)?;
        let made = object.comm.split(color, key)?;
        give(mpi, made, &object, newcomm)
    }

    fn MPI_Comm_split_type(comm: Comm, split_type: c_int, key: c_int, info: Info,
                           newcomm: Out<Comm>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let pairs = infos::pairs_or_none(info)?;
        check_address(newcomm)?;
        let color = color_of(&object.comm, split_type, &pairs)?;
        let mut made = object.comm.split_wide(color, key)?;
        if split_type == MPI_COMM_TYPE_HW_UNGUIDED {
            // What is not less than the whole is none of its parts.
            made = made.filter(|part| part.size() < object.comm.size());
            if made.is_some() && info != MPI_INFO_NULL {
                infos::add(info, RESOURCE, NODE)?;
            }
        }
        give(mpi, made, &object, newcomm)
    }

    fn MPI_Comm_create(comm: Comm, group: Group, newcomm: Out<Comm>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let group = mpi.groups.get(group)?;
        check_address(newcomm)?;
        give(mpi, object.comm.create(&group)?, &object, newcomm)
    }

    fn MPI_Comm_create_group(comm: Comm, group: Group, tag: c_int, newcomm: Out<Comm>)
        on comm |mpi| {
        let object = mpi.comm(comm)?;
        let group = mpi.groups.get(group)?;
        check_address(newcomm)?;
        give(mpi, object.comm.create_group(&group, tag)?, &object, newcomm)
    }

    any fn MPI_Comm_create_from_group(group: Group, stringtag: Text, info: Info,
                                      errhandler: Errhandler, newcomm: Out<Comm>) on errhandler {
        handlers::check(errhandler, Kind::Comm)?;
        let mpi = library_of_session()?;
        let session = mpi.groups.session_of(&[group]);
        let group = mpi.groups.get(group)?;
        let tag = stringtag.bytes()?;
        if tag.len() >= MPI_MAX_STRINGTAG_LEN as usize {
            let text = format!("the text has {} bytes, more than {}", tag.len(), MPI_MAX_STRINGTAG_LEN - 1);
            return Err(fault(MPI_ERR_ARG, text));
        }
        let hints = infos::pairs_or_none(info)?;
        check_address(newcomm)?;
        if group.size() == 0 {
            return newcomm.set(MPI_COMM_NULL);
        }
        let made = mpi.own.comm.create_from_group(&group, &tag)?;
        made.set_algorithms(&hints.algorithms())?;
        let new = mpi.add_comm(made, errhandler)?;
        new.session.set(session);
        new.common.add_info(&hints.understood());
        newcomm.set(new.handle)
    }

    fn MPI_Comm_free(comm: Out<Comm>) on comm |mpi| {
        let handle = comm.get()?;
        remove(mpi, handle, |_| Ok(()))?;
        comm.set(MPI_COMM_NULL)
    }

    fn MPI_Comm_disconnect(comm: Out<Comm>) on comm |mpi| {
        let handle = comm.get()?;
        // What its members have sent each other is there when they all have come so far.
        remove(mpi, handle, |object| Ok(object.comm.barrier()?))?;
        comm.set(MPI_COMM_NULL)
    }

    fn MPI_Comm_set_name(comm: Comm, comm_name: Text) on comm |mpi| {
        let name = mpi.of_comm(comm, |_| comm_name.bytes())??;
        mpi.of_comm(comm, |common| common.set_name(name))
    }

    fn MPI_Comm_get_name(comm: Comm, comm_name: TextOut, resultlen: Out<c_int>) on comm |mpi| {
        let name = match comm {
            MPI_COMM_NULL => b"MPI_COMM_NULL".to_vec(),
            _ => mpi.of_comm(comm, Common::name)?,
        };
        let len = comm_name.set(&name, MPI_MAX_OBJECT_NAME as usize)?;
        resultlen.set(len as c_int)
    }

    fn MPI_Comm_set_info(comm: Comm, info: Info) on comm |mpi| {
        let object = mpi.comm(comm)?;
        let hints = infos::pairs(info)?;
        object.comm.set_algorithms(&hints.algorithms())?;
        object.common.add_info(&hints.understood());
        Ok(())
    }

    fn MPI_Comm_get_info(comm: Comm, info_used: Out<Info>) on comm |mpi| {
        let object = mpi.comm(comm)?;
        infos::give(object.common.info(), info_used)
    }
}

/// The hint that names a kind of hardware, and the one kind that is known: what shares memory.
const RESOURCE: &[u8] = b"mpi_hw_resource_type";
const NODE: &[u8] = b"mpi_shared_memory";

/// The hint that names a set of processes.
const SET: &[u8] = b"mpi_pset_name";

/// In which part of a communicator this rank is, if in any.
fn color_of(comm: &Communicator, split_type: c_int, info: &Pairs) -> Result<Option<u64>, Fault> {
    let of_resource = || info.get(RESOURCE).filter(|kind| *kind == NODE).map(|_| comm.node());
    match split_type {
        MPI_UNDEFINED => Ok(None),
        MPI_COMM_TYPE_SHARED | MPI_COMM_TYPE_HW_UNGUIDED => Ok(Some(comm.node())),
        MPI_COMM_TYPE_HW_GUIDED => Ok(of_resource()),
        MPI_COMM_TYPE_RESOURCE_GUIDED => match info.get(SET) {
            Some(_) if info.get(RESOURCE).is_some() => Err(fault(
                MPI_ERR_INFO,
                "the information names both a resource and a set of processes",
            )),
            // A set that is none leads to no communicator, as a resource does.
            Some(name) => Ok(sessions::set_of(name).ok().map(|set| match set {
                Set::World => 0,
                // A rank of its own is reported by its number, beyond all others.
                Set::Own => 1 + comm.rank() as u64,
            })),
            None => Ok(of_resource()),
        },
        _ => Err(fault(MPI_ERR_ARG, format!("{split_type} is no type of a split"))),
    }
}

#[cold]
fn no_other_group() -> Fault {
    fault(
        MPI_ERR_COMM,
        "the communicator has one group; only an intercommunicator has a remote one",
    )
}

pub(crate) fn check_address(newcomm: Out<Comm>) -> Result<(), Fault> {
    if newcomm.is_null() {
        return Err(fault(MPI_ERR_ARG, "newcomm is a null pointer"));
    }
    Ok(())
}

/// Gives the program a communicator made of another one, or none.
pub(crate) fn give(
    mpi: &Library,
    made: Option<Communicator>,
    parent: &CommObject,
    newcomm: Out<Comm>,
) -> Result<(), Fault> {
    let Some(made) = made else { return newcomm.set(MPI_COMM_NULL) };
    let new = mpi.add_comm(made, parent.common.errhandler())?;
    new.session.set(parent.session.get());
    newcomm.set(new.handle)
}

/// Takes a communicator away, after its attributes and after what is to be done with it. The object
/// lives until the last operation on it ends.
fn remove(
    mpi: &Library,
    handle: Comm,
    last: impl FnOnce(&CommObject) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let object = mpi.comm(handle)?;
    if handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF {
        return Err(fault(MPI_ERR_COMM, "a predefined communicator cannot be freed"));
    }
    // The program's functions still have the handle.
    object.delete_attributes(mpi)?;
    last(&object)?;
    mpi.remove_comm(handle)?;
    Ok(())
}

/// A communicator of the same ranks, with the attributes that want to be copied.
fn duplicate(
    mpi: &Library,
    object: &CommObject,
    newcomm: Out<Comm>,
    hints: Pairs,
) -> Result<(), Fault> {
    check_address(newcomm)?;
    let new = mpi.add_comm(
        object.comm.dup_with_algorithms(&hints.algorithms())?,
        object.common.errhandler(),
    )?;
    new.session.set(object.session.get());
    new.common.add_info(&hints.understood());
    if let Err(fault) = object.bearer().copy_all(&mpi.attributes, &new.bearer()) {
        mpi.remove_comm(new.handle)?;
        newcomm.set(MPI_COMM_NULL)?;
        return Err(fault);
    }
    newcomm.set(new.handle)
}

/// The same in the background. The program has the handle from now on; it finds nothing before the
/// request is complete.
fn duplicate_later(
    mpi: &Library,
    object: Rc<CommObject>,
    (newcomm, request): (Out<Comm>, Out<Request>),
    hints: Pairs,
) -> Result<(), Fault> {
    check_address(newcomm)?;
    if request.is_null() {
        return Err(fault(MPI_ERR_ARG, "request is a null pointer"));
    }
    // A member that fails before its part takes it back: the others get an error and do not wait for it, and later
    // collectives have the same number at all.
    let give_up = |fault| {
        if let Err(error) = object.comm.start_dup(&hints.algorithms(), drop) {
            tracing::debug!(%error, "a part in a duplicate cannot be taken back");
        }
        fault
    };
    let common = Common::new(object.common.errhandler(), b"");
    common.add_info(&hints.clone().understood());
    let (handle, common) = mpi.reserve_comm(common).map_err(give_up)?;
    let reserved = Reserved(handle);
    let bearer = Bearer { kind: attributes::Kind::Comm, handle: handle.0, common: &common };
    object.bearer().copy_all(&mpi.attributes, &bearer).map_err(give_up)?;
    let session = Cell::new(object.session.get());
    let made = move |comm| {
        // All of it belongs to what waits here, its end included.
        let reserved: Reserved = reserved;
        // It is made while a function of MPI tests requests.
        if let Some(library) = library::running() {
            library.fill_comm(comm, reserved.0, session);
        }
    };
    let begun = match object.comm.start_dup(&hints.algorithms(), made) {
        Ok(begun) => begun,
        Err(error) => {
            // The error is reported; the copies go anyway.
            let _ = bearer.delete_all(&mpi.attributes);
            return Err(error.into());
        }
    };
    // It is the handle's alone when the communicator comes, which is not before the request is tested.
    drop(common);
    newcomm.set(handle)?;
    mpi.requests.add(begun, Some(object), request)
}

/// The handle of a communicator that is to come. When it is dropped before, it is given up.
struct Reserved(Comm);

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(library) = library::running() {
            library.give_up_comm(self.0);
        }
    }
}
