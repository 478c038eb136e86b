//! Descriptors of other processes: how memory is opened without the owner's help, so that a peer
//! which computes need not answer.
//!
//! `pidfd_getfd` (Linux 5.6) first, which names the process for certain; else the link
//! `/proc/PID/fd/N`, after which the start time is compared, so that a recycled pid is noticed.
//! What comes out is a descriptor of unknown contents: the process that maps it verifies its seals and its
//! identity.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bowline_base::job::JobMemory;
use rustix::fs::{Mode, OFlags};
use rustix::process::{PidfdFlags, PidfdGetfdFlags};

use crate::addr::Process;

/// Another node memory that was opened here.
#[derive(Debug)]
pub(crate) struct Foreign {
    pub(crate) job: JobMemory,
}

/// Opens a pidfd of `process`, which is the process meant and not a later one with its number.
///
/// # Errors
/// `NotFound` when the process has ended, see [`has_ended`]; anything else says nothing of it.
pub(crate) fn watch(process: &Process) -> io::Result<OwnedFd> {
    let pid = process.id().ok_or(io::ErrorKind::InvalidInput)?;
    let pidfd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Err(ended()),
        opened => opened?,
    };
    // Asked after the pidfd was opened: if the number belongs to the process now, it did then.
    if process.has_ended()? { Err(ended()) } else { Ok(pidfd) }
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the process has ended")
}

/// Whether an error of [`watch`] says that the process has ended.
pub(crate) fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Whether an error is one of a process that is out of descriptors, threads or memory, and may be
/// gone when it is tried again.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN))
}

/// Copies the descriptor `fd` of `process`; `me` is the process that calls.
pub(crate) fn take(me: &Process, process: &Process, fd: u32) -> io::Result<OwnedFd> {
    let number = i32::try_from(fd).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    if process.pid_ns != me.pid_ns {
        // The number means somebody else here, or nobody.
        let text = "its process has a number of another pid namespace";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    if process.is(me) {
        return by_link(process, number);
    }
    let pidfd = watch(process)?;
    match rustix::process::pidfd_getfd(pidfd.as_fd(), number, PidfdGetfdFlags::empty()) {
        Ok(fd) => Ok(fd),
        // The two calls ask the same permission of the kernel, but a system call filter may know
        // only one of them.
        Err(first) => by_link(process, number).map_err(|_| first.into()),
    }
}

fn by_link(process: &Process, fd: i32) -> io::Result<OwnedFd> {
    let path = format!("/proc/{}/fd/{fd}", process.pid);
    let fd = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    if process.has_ended()? { Err(ended()) } else { Ok(fd) }
}

/// Says how a refusal can be ended, for messages about `what`.
pub(crate) fn refusal(what: &str, process: &Process, error: &io::Error) -> String {
    let way_out = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "; both must run as one user without extra privileges, and the kernel's ptrace policy \
             (Yama ptrace_scope, a container's seccomp profile) must allow it; or start both \
             under one launcher"
        }
        Some(libc::EMFILE) => "; raise the limit of open files (ulimit -n)",
        _ => "",
    };
    format!("cannot open {what} of process {}: {error}{way_out}", process.pid)
}
