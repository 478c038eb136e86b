//! Chapter: names of datatypes. Those of communicators are beside the rest of them.

use std::ffi::c_int;

use crate::arg::{Out, Text, TextOut};
use crate::entry::mpi;
use crate::generated::constants::*;
use crate::handle::Datatype;

mpi! {
    fn MPI_Type_set_name(datatype: Datatype, type_name: Text) |mpi| {
        let common = mpi.type_common(datatype)?;
        common.set_name(type_name.bytes()?);
        Ok(())
    }

    fn MPI_Type_get_name(datatype: Datatype, type_name: TextOut, resultlen: Out<c_int>) |mpi| {
        let name = match datatype {
            MPI_DATATYPE_NULL => b"MPI_DATATYPE_NULL".to_vec(),
            _ => mpi.type_common(datatype)?.name(),
        };
        let len = type_name.set(&name, MPI_MAX_OBJECT_NAME as usize)?;
        resultlen.set(len as c_int)
    }
}
