//! Chapter: handles as numbers of C, which other languages keep.
//!
//! The number of a handle is its low half; the conversion back finds the generation. What is no handle
//! comes back as it was, and is refused where it is used.

use std::ffi::c_int;

use crate::entry::mpi;
use crate::handle::*;
use crate::library::{self, handlers, infos, sessions};

/// The number of a handle.
const fn to_int(value: usize) -> c_int {
    (value & 0x7fff_ffff) as c_int
}

/// What a handle's number is as a handle of no generation: all there is for constants of the ABI.
const fn low(number: c_int) -> usize {
    number as u32 as usize
}

mpi! {
    any fn MPI_Comm_toint(comm: Comm) -> c_int {
        to_int(comm.0)
    }

    any fn MPI_Comm_fromint(comm: c_int) -> Comm {
        let low = low(comm);
        library::running().map_or(Comm(low), |library| library.comm_from_int(low))
    }

    any fn MPI_Errhandler_toint(errhandler: Errhandler) -> c_int {
        to_int(errhandler.0)
    }

    any fn MPI_Errhandler_fromint(errhandler: c_int) -> Errhandler {
        handlers::from_int(low(errhandler))
    }

    any fn MPI_File_toint(file: File) -> c_int {
        to_int(file.0)
    }

    any fn MPI_File_fromint(file: c_int) -> File {
        File(low(file))
    }

    any fn MPI_Group_toint(group: Group) -> c_int {
        to_int(group.0)
    }

    any fn MPI_Group_fromint(group: c_int) -> Group {
        let low = low(group);
        library::running().map_or(Group(low), |library| library.groups.complete(low))
    }

    any fn MPI_Info_toint(info: Info) -> c_int {
        to_int(info.0)
    }

    any fn MPI_Info_fromint(info: c_int) -> Info {
        infos::from_int(low(info))
    }

    any fn MPI_Message_toint(message: Message) -> c_int {
        to_int(message.0)
    }

    any fn MPI_Message_fromint(message: c_int) -> Message {
        let low = low(message);
        library::running().map_or(Message(low), |library| library.messages.complete(low))
    }

    any fn MPI_Op_toint(op: Op) -> c_int {
        to_int(op.0)
    }

    any fn MPI_Op_fromint(op: c_int) -> Op {
        let low = low(op);
        library::running().map_or(Op(low), |library| library.op_from_int(low))
    }

    any fn MPI_Request_toint(request: Request) -> c_int {
        to_int(request.0)
    }

    any fn MPI_Request_fromint(request: c_int) -> Request {
        let low = low(request);
        library::running().map_or(Request(low), |library| library.requests.complete(low))
    }

    any fn MPI_Session_toint(session: Session) -> c_int {
        to_int(session.0)
    }

    any fn MPI_Session_fromint(session: c_int) -> Session {
        sessions::from_int(low(session))
    }

    any fn MPI_Type_toint(datatype: Datatype) -> c_int {
        to_int(datatype.0)
    }

    any fn MPI_Type_fromint(datatype: c_int) -> Datatype {
        let low = low(datatype);
        library::running().map_or(Datatype(low), |library| library.types.complete(low))
    }

    any fn MPI_Win_toint(win: Win) -> c_int {
        to_int(win.0)
    }

    any fn MPI_Win_fromint(win: c_int) -> Win {
        Win(low(win))
    }
}
