//! What is known of a message, as C programs have it.

use std::ffi::c_int;

use bowline_mpi::MpiError;
use bowline_mpi::raw::Completion;

use crate::fault::Fault;

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

#[cfg(test)]
mod tests {
    use super::*;

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
