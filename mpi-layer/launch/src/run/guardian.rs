//! The guardian: a process that outlives a killed launcher just long enough to end the job.
//!
//! It is forked before the first rank, hears through a pipe of every rank that starts, holds a
//! pidfd of the launcher, and sleeps. If the launcher ends, it kills what the ranks' job has left and
//! ends. At the job's end in order the launcher kills it, so that also one that was stopped goes. It is deaf to the signals of a terminal, holds no
//! descriptor of the launcher but its own two, and is not part of the job.
//!
//! The ranks' pids cannot have changed their meaning when it acts: the launcher reaps no rank
//! before it has reaped the guardian, so at its death all of them are alive or fresh orphans.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::{LaunchError, sessions, system};

/// The launcher's handle.
#[derive(Debug)]
pub(crate) struct Guardian {
    pipe: File,
    pid: Pid,
    pidfd: OwnedFd,
    /// Its end was reported.
    is_gone: bool,
}

impl Guardian {
    /// Forks the guardian of at most `ranks` ranks that share the memory with the id `node`.
    pub(crate) fn start(ranks: u32, node: u64) -> Result<Self, LaunchError> {
        let own = rustix::process::getpid();
        let launcher = rustix::process::pidfd_open(own, PidfdFlags::empty())
            .map_err(system("open a pidfd of the launcher"))?;
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(system("make a pipe"))?;
        // Allocated here: the child of a threaded program must not.
        let mut leaders = Vec::with_capacity(ranks as usize);
        let mark = sessions::Mark::of(node);
        // SAFETY: the child calls `guard` only, which makes system calls, allocates nothing, and
        // leaves by `_exit`.
        match unsafe { libc::fork() } {
            -1 => Err(LaunchError::System {
                act: "fork the guardian",
                source: std::io::Error::last_os_error(),
            }),
            0 => {
                guard(&launcher, &reader, &mut leaders, &mark);
                // SAFETY: `_exit` has no preconditions; no destructor of the launcher's state
                // may run in the child.
                unsafe { libc::_exit(0) }
            }
            pid => {
                let pid = Pid::from_raw(pid).expect("fork returns a positive pid");
                match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
                    Ok(pidfd) => Ok(Self { pipe: writer.into(), pid, pidfd, is_gone: false }),
                    Err(error) => {
                        end(pid);
                        Err(system("open a pidfd of the guardian")(error))
                    }
                }
            }
        }
    }

    /// Reports a rank that has started.
    pub(super) fn add(&mut self, rank: Pid) {
        if self.pipe.write_all(&rank.as_raw_pid().to_ne_bytes()).is_err() {
            self.has_ended();
        }
    }

    /// What becomes readable at its end.
    pub(super) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// It was killed, which is reported once. The job runs on: the kernel still ties the ranks
    /// to the launcher.
    pub(super) fn has_ended(&mut self) {
        if !std::mem::replace(&mut self.is_gone, true) {
            super::say(&format!(
                "the job's guardian (pid {}) was killed, for want of memory perhaps; the job \
                 goes on, but if its launcher is killed, too, what the ranks have started may stay",
                self.pid.as_raw_pid()
            ));
        }
    }
}

/// Ends the guardian and reaps it.
fn end(pid: Pid) {
    // Our child until it is reaped here, so the number is its own; a stopped process ends, too.
    let _ = rustix::process::kill_process(pid, Signal::KILL);
    while let Err(rustix::io::Errno::INTR) =
        rustix::process::waitpid(Some(pid), WaitOptions::empty())
    {}
}

impl Drop for Guardian {
    /// The job has ended in order, or was cleaned up.
    fn drop(&mut self) {
        end(self.pid);
    }
}

fn guard(launcher: &OwnedFd, pipe: &OwnedFd, leaders: &mut Vec<Pid>, mark: &sessions::Mark) {
    leave_the_launcher(launcher, pipe);
    loop {
        let mut fds = [PollFd::new(pipe, PollFlags::IN), PollFd::new(launcher, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let (spoke, died) = (fds[0].revents(), fds[1].revents());
        // What was said before the death counts, so the pipe comes first.
        if !spoke.is_empty() {
            let mut word = [0; 4];
            match rustix::io::read(pipe, &mut word) {
                Ok(4) => {
                    if let Some(rank) = Pid::from_raw(i32::from_ne_bytes(word))
                        && leaders.len() < leaders.capacity()
                    {
                        leaders.push(rank);
                    }
                    continue;
                }
                Err(rustix::io::Errno::INTR) => continue,
                // Closed: the launcher has ended.
                _ => {}
            }
        }
        if !spoke.is_empty() || !died.is_empty() {
            return sessions::kill_all(leaders, mark);
        }
    }
}

/// Lets go of everything that is the launcher's: session, signals, streams, descriptors.
fn leave_the_launcher(launcher: &OwnedFd, pipe: &OwnedFd) {
    let _ = rustix::process::setsid();
    // SAFETY: a set that `sigfillset` has initialised; blocking signals touches no memory. Signals
    // of a terminal or a careless `kill` must not end the guardian before the launcher.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_NAME, c"bowline-guard".as_ptr());
    }
    let null = rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty());
    if let Ok(null) = null {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    // Everything else but the two would keep pipes and files of the launcher's user open.
    let mut keep = [launcher.as_raw_fd(), pipe.as_raw_fd()];
    keep.sort_unstable();
    let mut from = 3;
    for fd in keep {
        close_range(from, fd - 1);
        from = fd + 1;
    }
    close_range(from, i32::MAX);
}

fn close_range(first: i32, last: i32) {
    if first <= last {
        // SAFETY: closes descriptors of this process only, a fresh fork that uses none of them;
        // the handles that name them are never dropped, since the process leaves by `_exit`.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}
