//! Chapter: what is known of a message.

use std::ffi::c_int;

use bowline_mpi::types::Type;

use crate::arg::{In, Out};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::{MPI_ERR_COUNT, MPI_UNDEFINED};
use crate::handle::{Count, Datatype};
use crate::library::status::{Status, StatusOut};
use crate::library::types;

/// How many elements of `size` bytes a message of `bytes` is; `None` where that is no whole number.
fn whole(bytes: u64, size: usize) -> Option<Count> {
    match size as u64 {
        0 => (bytes == 0).then_some(0),
        size => bytes.is_multiple_of(size).then(|| Count::try_from(bytes / size).ok())?,
    }
}

/// A count where it fits, and `MPI_UNDEFINED` elsewhere.
fn small(count: Option<Count>) -> c_int {
    count.and_then(|count| c_int::try_from(count).ok()).unwrap_or(MPI_UNDEFINED)
}

fn large(count: Option<Count>) -> Count {
    count.unwrap_or_else(|| MPI_UNDEFINED.into())
}

/// Elements of a datatype in a message.
fn count(status: In<Status>, datatype: &Type) -> Result<Option<Count>, Fault> {
    Ok(whole(status.get()?.bytes(), datatype.size()))
}

/// Basic elements in a message of a datatype.
fn elements(status: In<Status>, datatype: &Type) -> Result<Option<Count>, Fault> {
    let (count, rest) = datatype.elements().in_bytes(status.get()?.bytes());
    Ok(if rest == 0 { Count::try_from(count).ok() } else { None })
}

/// Makes a status say that so many basic elements came.
fn set_elements(status: StatusOut, datatype: Datatype, count: Count) -> Result<(), Fault> {
    let mut changed = status.get()?;
    let datatype = types::at_any_time(datatype)?;
    let bytes = u64::try_from(count).ok().and_then(|count| datatype.elements().bytes_of(count));
    let bytes = bytes.ok_or_else(|| fault(MPI_ERR_COUNT, format!("the count is {count}")))?;
    changed.set_bytes(bytes);
    status.set(changed)
}

/// Changes a field of a status.
fn change(status: StatusOut, act: impl FnOnce(&mut Status)) -> Result<(), Fault> {
    let mut changed = status.get()?;
    act(&mut changed);
    status.set(changed)
}

mpi! {
    fn MPI_Get_count(status: In<Status>, datatype: Datatype, count: Out<c_int>) |mpi| {
        count.set(small(self::count(status, &mpi.datatype(datatype)?)?))
    }

    fn MPI_Get_count_c(status: In<Status>, datatype: Datatype, count: Out<Count>) |mpi| {
        count.set(large(self::count(status, &mpi.datatype(datatype)?)?))
    }

    fn MPI_Get_elements(status: In<Status>, datatype: Datatype, count: Out<c_int>) |mpi| {
        count.set(small(elements(status, &mpi.datatype(datatype)?)?))
    }

    fn MPI_Get_elements_c(status: In<Status>, datatype: Datatype, count: Out<Count>) |mpi| {
        count.set(large(elements(status, &mpi.datatype(datatype)?)?))
    }

    fn MPI_Get_elements_x(status: In<Status>, datatype: Datatype, count: Out<Count>) |mpi| {
        count.set(large(elements(status, &mpi.datatype(datatype)?)?))
    }

    any fn MPI_Status_set_elements(status: StatusOut, datatype: Datatype, count: c_int) {
        set_elements(status, datatype, count.into())
    }

    any fn MPI_Status_set_elements_c(status: StatusOut, datatype: Datatype, count: Count) {
        set_elements(status, datatype, count)
    }

    any fn MPI_Status_set_elements_x(status: StatusOut, datatype: Datatype, count: Count) {
        set_elements(status, datatype, count)
    }

    any fn MPI_Status_set_cancelled(status: StatusOut, flag: c_int) {
        change(status, |status| status.set_cancelled(flag != 0))
    }

    fn MPI_Test_cancelled(status: In<Status>, flag: Out<c_int>) |_mpi| {
        flag.set(status.get()?.is_cancelled().into())
    }

    any fn MPI_Status_get_source(status: In<Status>, source: Out<c_int>) {
        source.set(status.get()?.source)
    }

    any fn MPI_Status_get_tag(status: In<Status>, tag: Out<c_int>) {
        tag.set(status.get()?.tag)
    }

    any fn MPI_Status_get_error(status: In<Status>, error: Out<c_int>) {
        error.set(status.get()?.error)
    }

    any fn MPI_Status_set_source(status: StatusOut, source: c_int) {
        change(status, |status| status.source = source)
    }

    any fn MPI_Status_set_tag(status: StatusOut, tag: c_int) {
        change(status, |status| status.tag = tag)
    }

    any fn MPI_Status_set_error(status: StatusOut, error: c_int) {
        change(status, |status| status.error = error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_or_undefined() {
        assert_eq!(whole(12, 4), Some(3));
        assert_eq!(whole(13, 4), None);
        assert_eq!(whole(0, 0), Some(0));
        assert_eq!(whole(1, 0), None);
        assert_eq!(small(whole(1 << 40, 1)), MPI_UNDEFINED);
        assert_eq!(large(whole(1 << 40, 1)), 1 << 40);
    }
}
