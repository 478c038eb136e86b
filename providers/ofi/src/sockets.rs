//! The sockets of this process, libfabric's among them, and their ends.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use rustix::net::{getpeername, getsockname};

/// The two ends of a connection, ours first.
pub(crate) type Ends = (SocketAddr, SocketAddr);

/// The two ends of a socket, where it is one of the internet's and has both.
pub(crate) fn ends(fd: BorrowedFd<'_>) -> Option<Ends> {
    let remote = SocketAddr::try_from(getpeername(fd).ok()??).ok()?;
    let local = SocketAddr::try_from(getsockname(fd).ok()?).ok()?;
    Some((local, remote))
}

/// The open descriptors of this process, by number.
///
/// # Errors
/// When they cannot be listed, which takes a descriptor itself.
pub(crate) fn descriptors() -> io::Result<impl Iterator<Item = i32>> {
    let entries = std::fs::read_dir("/proc/self/fd")?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}
