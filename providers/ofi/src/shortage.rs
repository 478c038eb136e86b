//! Failures for want of descriptors or memory: they may pass.

use std::io;

/// Descriptors that a single act of libfabric takes, and a few more.
const ACT_TAKES: usize = 8;

/// Whether a call has failed for want of descriptors or memory, of which there may be some later.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// What the system says where too few descriptors are left for an act of libfabric. libfabric has other
/// words for that: no provider, an error of input or output, no address.
pub(crate) fn shortage() -> Option<io::Error> {
    let null = std::fs::File::open("/dev/null");
    let all = null.and_then(|null| (1..ACT_TAKES).map(|_| null.try_clone()).collect());
    let all: io::Result<Vec<std::fs::File>> = all;
    all.err().filter(is_shortage)
}
