//! Finding and killing what is left in the ranks' sessions.
//!
//! It allocates nothing and makes system calls only, since the guardian does it too, a forked
//! child of a program that may have threads.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, RawDir};
use rustix::process::{Pid, Signal};

/// Kills every process in the sessions that `leaders` lead, and in their process groups. The
/// leaders must not have been reaped, or their numbers may belong to strangers.
pub(super) fn kill_all(leaders: &[Pid]) {
    for leader in leaders {
        // No such group: nobody is left in it.
        let _ = rustix::process::kill_process_group(*leader, Signal::KILL);
    }
    let Ok(proc) = open_proc() else { return };
    // A process may fork while it is looked for; its child is found in the next round.
    for _ in 0..16 {
        if kill_members(&proc, leaders) == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

fn open_proc() -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(c"/proc", flags, Mode::empty())
}

/// Kills the members once; returns how many there were.
fn kill_members(proc: &OwnedFd, leaders: &[Pid]) -> u32 {
    let mut found = 0;
    // A directory is read from its start once per descriptor.
    let Ok(listing) = open_proc() else { return 0 };
    let mut space = [MaybeUninit::uninit(); 8192];
    let mut entries = RawDir::new(listing.as_fd(), &mut space);
    while let Some(Ok(entry)) = entries.next() {
        let Some(pid) = parse_pid(entry.file_name()) else {
            continue;
        };
        let Some((state, session)) = state_and_session(proc, entry.file_name()) else {
            continue;
        };
        let ended = matches!(state, b'Z' | b'X');
        if !ended && leaders.iter().any(|leader| leader.as_raw_pid() == session) {
            found += 1;
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    found
}

fn parse_pid(name: &CStr) -> Option<Pid> {
    Pid::from_raw(std::str::from_utf8(name.to_bytes()).ok()?.parse().ok()?)
}

fn state_and_session(proc: &OwnedFd, pid: &CStr) -> Option<(u8, i32)> {
    const NAME: &[u8] = b"/stat\0";
    let mut path = [0; 32];
    let pid = pid.to_bytes();
    path.get_mut(..pid.len())?.copy_from_slice(pid);
    path.get_mut(pid.len()..pid.len() + NAME.len())?.copy_from_slice(NAME);
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let file = rustix::fs::openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    // The fields wanted come early; a name has at most 64 bytes in front of them.
    let mut text = [0; 512];
    let n = rustix::io::read(file.ok()?, &mut text).ok()?;
    parse_stat(&text[..n])
}

/// State and session of `/proc/PID/stat`: `pid (name) state ppid pgrp session ...`. The name may
/// hold anything, so the count starts behind the last parenthesis.
fn parse_stat(text: &[u8]) -> Option<(u8, i32)> {
    let behind_name = text.iter().rposition(|&b| b == b')')? + 1;
    let mut fields = text[behind_name..].split(|&b| b == b' ').filter(|field| !field.is_empty());
    let state = *fields.next()?.first()?;
    let session = std::str::from_utf8(fields.nth(2)?).ok()?.parse().ok()?;
    Some((state, session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_read() {
        assert_eq!(parse_stat(b"12 (sleep) S 1 12 7 0 -1"), Some((b'S', 7)));
        assert_eq!(parse_stat(b"12 (a) b) 9 (c) Z 1 12 8 0 -1"), Some((b'Z', 8)));
        assert_eq!(parse_stat(b"12 (sleep) S 1"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn this_process_is_found_in_its_session() {
        let proc = open_proc().unwrap();
        let own = std::ffi::CString::new(std::process::id().to_string()).unwrap();
        let (state, session) = state_and_session(&proc, &own).unwrap();
        assert!(matches!(state, b'R' | b'S'));
        // SAFETY: getsid asks about this process and touches no memory.
        assert_eq!(session, unsafe { libc::getsid(0) });
    }
}
