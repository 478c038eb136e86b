//! Sizes of the predefined datatypes that are plain memory.

use std::ffi::c_int;

use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::Datatype;

/// Bytes of an element, for a predefined type whose elements lie side by side.
pub(crate) fn size_of_basic(datatype: Datatype) -> Option<usize> {
    // The ABI has the size in the bits of these handles.
    if (0x240..0x300).contains(&datatype.0) {
        return DATATYPES
            .iter()
            .any(|&(known, _)| known == datatype)
            .then_some(1 << (datatype.0 >> 3 & 7));
    }
    Some(match datatype {
        MPI_PACKED | MPI_CHARACTER | MPI_C_BOOL | MPI_CXX_BOOL => 1,
        MPI_SHORT | MPI_UNSIGNED_SHORT => 2,
        MPI_INT | MPI_UNSIGNED | MPI_FLOAT | MPI_WCHAR | MPI_LOGICAL | MPI_INTEGER | MPI_REAL => 4,
        MPI_AINT
        | MPI_COUNT
        | MPI_OFFSET
        | MPI_LONG
        | MPI_UNSIGNED_LONG
        | MPI_LONG_LONG
        | MPI_UNSIGNED_LONG_LONG
        | MPI_DOUBLE
        | MPI_C_FLOAT_COMPLEX
        | MPI_CXX_FLOAT_COMPLEX
        | MPI_DOUBLE_PRECISION
        | MPI_COMPLEX
        | MPI_FLOAT_INT
        | MPI_2INT
        | MPI_2INTEGER
        | MPI_2REAL => 8,
        MPI_LONG_DOUBLE
        | MPI_C_DOUBLE_COMPLEX
        | MPI_CXX_DOUBLE_COMPLEX
        | MPI_DOUBLE_COMPLEX
        | MPI_2DOUBLE_PRECISION => 16,
        MPI_C_LONG_DOUBLE_COMPLEX | MPI_CXX_LONG_DOUBLE_COMPLEX => 32,
        _ => return None,
    })
}

/// The name of a datatype that has none of the program's; an error for what is none.
pub(crate) fn name_of(datatype: Datatype) -> Result<&'static str, Fault> {
    let found = DATATYPES.iter().find(|&&(known, _)| known == datatype);
    match found {
        Some(&(known, name)) if known != MPI_DATATYPE_NULL => Ok(name),
        _ => Err(fault(MPI_ERR_TYPE, format!("{:#x} is no datatype", datatype.0))),
    }
}

/// Bytes of `count` elements.
pub(crate) fn bytes_of(count: c_int, datatype: Datatype) -> Result<usize, Fault> {
    let count = usize::try_from(count)
        .map_err(|_| fault(MPI_ERR_COUNT, format!("the count is {count}")))?;
    let size = size_of_basic(datatype).ok_or_else(|| {
        fault(MPI_ERR_TYPE, format!("{:#x} is no datatype that is known here", datatype.0))
    })?;
    Ok(count * size)
}
