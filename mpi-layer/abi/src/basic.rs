//! Bytes of messages of predefined types.

use std::ffi::c_int;

use bowline_mpi::types::dense_size;

use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::Datatype;

/// Bytes of `count` elements.
#[inline]
pub(crate) fn bytes_of(count: c_int, datatype: Datatype) -> Result<usize, Fault> {
    let count = usize::try_from(count)
        .map_err(|_| fault(MPI_ERR_COUNT, format!("the count is {count}")))?;
    match dense_size(datatype.0) {
        0 => Err(fault(MPI_ERR_TYPE, format!("{:#x} is no datatype of plain memory", datatype.0))),
        size => Ok(count * size),
    }
}
