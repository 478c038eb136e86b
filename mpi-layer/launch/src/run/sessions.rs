//! Finding and killing what the ranks of a job have left.
//!
//! Each rank leads a process group. Whatever it starts is in that group, or, when it made a group
//! of its own, still carries the id of the node's memory in its environment. (Not the job's: agents of
//! one job may share a machine.) The ranks stay in the launcher's
//! session: Linux schedules sessions against each other (autogroups), and ranks in sessions of
//! their own could not give a shared processor to each other by `sched_yield`; a barrier of 32
//! ranks on two processors took five times as long.
//!
//! It allocates nothing and makes system calls only, since the guardian does it too, a forked
//! child of a program that may have threads.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, RawDir};
use rustix::process::{Pid, Signal};

use crate::bootstrap::env;

/// What identifies a process of a job on one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// The launcher's session, which a process leaves to leave the job. 0 when its leader is
    /// outside of this pid namespace, as for a program that was started inside of a container.
    session: i32,
    /// `NAME=` and the id in 16 digits, as the environment has them.
    words: [u8; MARK],
}

const MARK: usize = env::NODE_ID.len() + 1 + 16;

impl Mark {
    /// Of the ranks that share the memory with this id, which the calling process launches.
    pub(super) fn of(node: u64) -> Self {
        let mut words = [b'='; MARK];
        let (name, id) = words.split_at_mut(env::NODE_ID.len() + 1);
        name[..env::NODE_ID.len()].copy_from_slice(env::NODE_ID.as_bytes());
        for (at, digit) in id.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(node >> (60 - 4 * at)) as usize & 15];
        }
        Self { session: own_session(), words }
    }

    /// Whether the process `pid` has it in its environment. What cannot be read has not.
    fn is_on(&self, proc: &OwnedFd, pid: &CStr) -> bool {
        let Some(file) = open_of(proc, pid, b"/environ\0") else { return false };
        let mut text = [0; 4096];
        // Bytes kept from the last read, in which the mark may have begun.
        let mut kept = 0;
        while let Ok(n @ 1..) = rustix::io::read(&file, &mut text[kept..]) {
            let full = kept + n;
            if text[..full].windows(MARK).any(|window| window == self.words) {
                return true;
            }
            let rest = full.min(MARK - 1);
            text.copy_within(full - rest..full, 0);
            kept = rest;
        }
        false
    }
}

/// The session of this process. Not by `rustix`, which takes 0 for impossible.
fn own_session() -> i32 {
    // SAFETY: asks about this process, which cannot fail, and touches no memory.
    unsafe { libc::getsid(0) }
}

/// Kills every process of the job: the groups that `leaders` lead, and those with its mark. The
/// leaders must not have been reaped, or their numbers may belong to other processes.
pub(super) fn kill_all(leaders: &[Pid], mark: &Mark) {
    for leader in leaders {
        // No such group: nobody is left in it.
        let _ = rustix::process::kill_process_group(*leader, Signal::KILL);
    }
    let Ok(proc) = open_proc() else { return };
    // A process may fork during the search for it; its child is found in the next round.
    for _ in 0..16 {
        if kill_members(&proc, leaders, mark) == 0 {
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
fn kill_members(proc: &OwnedFd, leaders: &[Pid], mark: &Mark) -> u32 {
    let mut found = 0;
    // A directory is read from its start once per descriptor.
    let Ok(listing) = open_proc() else { return 0 };
    let mut space = [MaybeUninit::uninit(); 8192];
    let mut entries = RawDir::new(listing.as_fd(), &mut space);
    while let Some(Ok(entry)) = entries.next() {
        let Some(pid) = parse_pid(entry.file_name()) else {
            continue;
        };
        let Some(stat) = stat(proc, entry.file_name()) else {
            continue;
        };
        let ended = matches!(stat.state, b'Z' | b'X');
        let ours = || {
            leaders.iter().any(|leader| leader.as_raw_pid() == stat.group)
                || stat.session == mark.session
                    && pid != rustix::process::getpid()
                    && mark.is_on(proc, entry.file_name())
        };
        if !ended && ours() {
            found += 1;
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    found
}

fn parse_pid(name: &CStr) -> Option<Pid> {
    Pid::from_raw(std::str::from_utf8(name.to_bytes()).ok()?.parse().ok()?)
}

/// The file `name` of a process, which ends with a zero.
fn open_of(proc: &OwnedFd, pid: &CStr, name: &[u8]) -> Option<OwnedFd> {
    let mut path = [0; 32];
    let pid = pid.to_bytes();
    path.get_mut(..pid.len())?.copy_from_slice(pid);
    path.get_mut(pid.len()..pid.len() + name.len())?.copy_from_slice(name);
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    rustix::fs::openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: u8,
    group: i32,
    session: i32,
}

fn stat(proc: &OwnedFd, pid: &CStr) -> Option<Stat> {
    let file = open_of(proc, pid, b"/stat\0")?;
    // The fields wanted come early; a name has at most 64 bytes in front of them.
    let mut text = [0; 512];
    let n = rustix::io::read(file, &mut text).ok()?;
    parse_stat(&text[..n])
}

/// Reads `/proc/PID/stat`: `pid (name) state ppid pgrp session ...`. The name may hold anything, so
/// the count starts behind the last parenthesis.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let behind_name = text.iter().rposition(|&b| b == b')')? + 1;
    let mut fields = text[behind_name..].split(|&b| b == b' ').filter(|field| !field.is_empty());
    let state = *fields.next()?.first()?;
    let mut number = |at| std::str::from_utf8(fields.nth(at)?).ok()?.parse().ok();
    Some(Stat { state, group: number(1)?, session: number(0)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_read() {
        let stat = |state, group, session| Some(Stat { state, group, session });
        assert_eq!(parse_stat(b"12 (sleep) S 1 12 7 0 -1"), stat(b'S', 12, 7));
        assert_eq!(parse_stat(b"12 (a) b) 9 (c) Z 1 12 8 0 -1"), stat(b'Z', 12, 8));
        assert_eq!(parse_stat(b"12 (sleep) S 1"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn this_process_is_found_in_its_session() {
        let proc = open_proc().unwrap();
        let own = std::ffi::CString::new(std::process::id().to_string()).unwrap();
        let stat = stat(&proc, &own).unwrap();
        assert!(matches!(stat.state, b'R' | b'S'));
        assert_eq!(stat.session, own_session());
        assert!(!Mark::of(7).is_on(&proc, &own));
    }

    #[test]
    fn a_process_is_known_by_its_environment() {
        let proc = open_proc().unwrap();
        let node = 0x0123_4567_89ab_cdef;
        // The mark crosses the end of what is read at once, wherever that is.
        for before in [0, 4000, 4070, 4090, 9000] {
            let mut child = std::process::Command::new("sleep")
                .arg("1000")
                .env_clear()
                .env("A", "x".repeat(before))
                .env(env::NODE_ID, "0123456789abcdef")
                .spawn()
                .unwrap();
            let pid = std::ffi::CString::new(child.id().to_string()).unwrap();
            let (ours, others) =
                (Mark::of(node).is_on(&proc, &pid), Mark::of(1).is_on(&proc, &pid));
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(ours && !others, "{before} bytes before the mark");
        }
    }
}
