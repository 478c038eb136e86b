//! Descriptors of other processes: how memory is opened without the owner's help, so that a peer
//! which computes need not answer.
//!
//! `pidfd_getfd` (Linux 5.6) first, which names the process for certain; else the link
//! `/proc/PID/fd/N`, after which the start time is compared, so that a recycled pid is noticed.
//! What comes out is a descriptor of unknown contents: whoever maps it verifies its seals and its
//! identity.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{PidfdFlags, PidfdGetfdFlags};

use crate::addr::Process;

/// Opens a pidfd of `process`, which is the process meant and not a later one with its number.
pub(crate) fn watch(process: &Process) -> io::Result<OwnedFd> {
    let pid = process.id().ok_or(io::ErrorKind::InvalidInput)?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    // Asked after the pidfd was opened: if the number belongs to the process now, it did then.
    if !process.runs() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended"));
    }
    Ok(pidfd)
}

/// Copies the descriptor `fd` of `process`.
pub(crate) fn take(process: &Process, fd: u32) -> io::Result<OwnedFd> {
    let number = i32::try_from(fd).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    if process.pid == std::process::id() {
        return by_link(process, number);
    }
    let pidfd = watch(process)?;
    match rustix::process::pidfd_getfd(pidfd.as_fd(), number, PidfdGetfdFlags::empty()) {
        Ok(fd) => Ok(fd),
        // The two ways ask the same permission of the kernel, but a system call filter may know
        // only one of them.
        Err(first) => by_link(process, number).map_err(|_| first.into()),
    }
}

fn by_link(process: &Process, fd: i32) -> io::Result<OwnedFd> {
    let path = format!("/proc/{}/fd/{fd}", process.pid);
    let fd = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    if !process.runs() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended"));
    }
    Ok(fd)
}

/// Says how a refusal can be ended, for messages about `what`.
pub(crate) fn refusal(what: &str, process: &Process, error: &io::Error) -> String {
    let way_out = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "; both must run as one user without extra privileges, and the kernel's ptrace policy \
             (Yama ptrace_scope, a container's seccomp profile) must allow it; or start both \
             under one launcher"
        }
        _ => "",
    };
    format!("cannot open {what} of process {}: {error}{way_out}", process.pid)
}
