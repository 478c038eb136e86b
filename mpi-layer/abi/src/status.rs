//! Chapter: what is known of a message.

use std::ffi::c_int;

use bowline_mpi::MpiError;
use bowline_mpi::raw::Completion;
use bowline_mpi::types::Type;

use crate::arg::{In, Out};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::{MPI_ERR_COUNT, MPI_UNDEFINED};
use crate::handle::{Count, Datatype};
use crate::types;

/// `MPI_Status`: three fields of the standard, and the library's: bytes of the message in the first two,
/// then whether it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Status {
    pub(crate) source: c_int,
    pub(crate) tag: c_int,
    pub(crate) error: c_int,
    internal: [c_int; 5],
}

const _: () = assert!(size_of::<Status>() == 32, "the ABI says so");

impl Status {
    pub(crate) fn new(source: c_int, tag: c_int, bytes: u64) -> Self {
        let mut status = Self { source, tag, error: 0, internal: [0; 5] };
        status.set_bytes(bytes);
        status
    }

    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        self.internal[0] = bytes as u32 as c_int;
        self.internal[1] = (bytes >> 32) as u32 as c_int;
    }

    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.internal[0] as u32) | u64::from(self.internal[1] as u32) << 32
    }
}

impl From<bowline_mpi::Status> for Status {
    fn from(status: bowline_mpi::Status) -> Self {
        Self::new(status.source(), status.tag(), status.bytes())
    }
}

/// Where a status goes, if the program wants it.
pub(crate) type StatusOut = crate::arg::Out<Status>;

impl StatusOut {
    /// Stores the status of a request that is none or inactive, which says that nothing went wrong.
    pub(crate) fn put_empty(self) {
        self.set_if_wanted(Completion::EMPTY.into());
    }

    /// Stores a status but for its error field, which belongs to calls that complete several requests.
    #[inline]
    pub(crate) fn put(self, mut status: Status) {
        if !self.is_null()
            && let Ok(old) = self.get()
        {
            status.error = old.error;
            self.set_if_wanted(status);
        }
    }

    /// The same of a success.
    #[inline(always)]
    pub(crate) fn put_received(self, status: bowline_mpi::Status) {
        if !self.is_null() {
            self.put(status.into());
        }
    }

    /// The error of a receive that failed. What is known of a message that was cut is stored: its sender,
    /// its tag and the bytes that were received.
    #[cold]
    #[inline(never)]
    pub(crate) fn failed(self, completion: &Completion) -> Fault {
        let error = completion.error.unwrap_or(MpiError::Cancelled);
        if matches!(error, MpiError::Truncated { .. }) {
            self.put((*completion).into());
        }
        error.into()
    }
}

/// Sets the mark of an operation that was cancelled.
const CANCELLED: usize = 2;

impl Status {
    pub(crate) fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[CANCELLED] = cancelled.into();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.internal[CANCELLED] != 0
    }
}

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

    #[test]
    fn a_status_keeps_its_bytes_and_marks() {
        let mut status = Status::new(3, 4, u64::MAX - 7);
        assert_eq!((status.source, status.tag, status.error), (3, 4, 0));
        status.set_cancelled(true);
        assert_eq!((status.bytes(), status.is_cancelled()), (u64::MAX - 7, true));
        status.set_cancelled(false);
        assert!(!status.is_cancelled());
    }
}
