//! Chapter: what is known of a message.

use std::ffi::c_int;

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
    /// Stores a status but for its error field, which belongs to calls that complete several requests.
    pub(crate) fn put(self, mut status: Status) {
        if let Ok(old) = self.get() {
            status.error = old.error;
            self.set_if_wanted(status);
        }
    }
}
