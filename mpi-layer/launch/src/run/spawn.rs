//! Starting the ranks: environment, descriptors, process group, processors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};

use bowline_base::job::JobMemory;
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions};
use rustix::thread::CpuSet;

use super::guardian::Guardian;
use super::output::Stream;
use super::signals::Signals;
use super::{LaunchError, RunOptions, sessions, system};
use crate::bootstrap::env;

/// A rank that was started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    /// The manager's end of its PMI connection; does not block.
    pub(super) pmi: OwnedFd,
}

/// Which ranks of a job run on this node, and where their streams go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// World rank of the first.
    pub(crate) first: u32,
    /// How many.
    pub(crate) local: u32,
    /// Ranks of the whole job.
    pub(crate) size: u32,
    /// Whether their output comes by pipes.
    pub(crate) piped: bool,
    /// What rank 0 reads.
    pub(crate) input: Input,
}

/// What rank 0 reads; the others read nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// The standard input of this process, through a pipe if that is a terminal.
    Own,
    /// A pipe.
    Piped,
    /// Nothing.
    Nothing,
}

/// The ranks of a node, started.
#[derive(Debug)]
pub(crate) struct StartedRanks {
    pub(crate) ranks: Vec<Started>,
    pub(crate) guardian: Guardian,
    /// Their output, where it comes by pipes.
    pub(crate) streams: Vec<Stream>,
    /// The input of rank 0, where it goes by a pipe.
    pub(crate) input: Option<ChildStdin>,
}

/// Variables of another process manager, which would mislead a rank.
const FOREIGN: [&str; 7] = [
    "PMI_PORT",
    "PMI_ID",
    "PMI_SPAWNED",
    "HYDI_CONTROL_FD",
    "PMI_APPNUM",
    env::PMIX_NAMESPACE,
    "PMIX_RANK",
];

/// Starts every rank, or none. `cpus` has the processor of each, or nothing where they are not
/// bound.
pub(crate) fn start_all(
    options: &RunOptions,
    share: Share,
    cpus: &[u32],
    job: &JobMemory,
    signals: &Signals,
    mut guardian: Guardian,
) -> Result<StartedRanks, LaunchError> {
    for directory in options.parts().filter_map(|part| part.directory) {
        // Asked here, since a program that is not there gives the same error later.
        let is_dir = std::fs::metadata(directory).map(|found| found.is_dir());
        let failed = |source| LaunchError::Directory { directory: directory.into(), source };
        if !is_dir.map_err(failed)? {
            return Err(failed(io::Error::from_raw_os_error(libc::ENOTDIR)));
        }
    }
    let mut starter = Starter {
        options,
        share,
        job,
        mask: signals.mask_before(),
        limit: raise_descriptor_limit(share.local),
        cpus,
        streams: Vec::new(),
        input: None,
    };
    let mut ranks: Vec<Started> = Vec::with_capacity(share.local as usize);
    let started = (0..share.local).try_for_each(|local| {
        let started = starter.start(local)?;
        guardian.add(started.pid);
        ranks.push(started);
        Ok(())
    });
    match started {
        Ok(()) => {
            let Starter { streams, input, .. } = starter;
            Ok(StartedRanks { ranks, guardian, streams, input })
        }
        Err(error) => {
            let pids: Vec<Pid> = ranks.iter().map(|rank| rank.pid).collect();
            sessions::kill_all(&pids, &sessions::Mark::of(job.node_id()));
            drop(guardian);
            reap(&pids);
            Err(error)
        }
    }
}

/// Waits for processes that have ended or were killed.
pub(super) fn reap(pids: &[Pid]) {
    for pid in pids {
        while let Err(rustix::io::Errno::INTR) =
            rustix::process::waitpid(Some(*pid), WaitOptions::empty())
        {}
    }
}

struct Starter<'a> {
    options: &'a RunOptions,
    share: Share,
    job: &'a JobMemory,
    mask: libc::sigset_t,
    limit: Option<Rlimit>,
    /// The processor of each rank; empty where they are not bound.
    cpus: &'a [u32],
    streams: Vec<Stream>,
    input: Option<ChildStdin>,
}

impl Starter<'_> {
    fn start(&mut self, local: u32) -> Result<Started, LaunchError> {
        let rank = self.share.first + local;
        let (_, part) = self.options.part_of(rank).expect("every rank of the job has a program");
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(system("make a socket pair for PMI"))?;
        rustix::io::ioctl_fionbio(&ours, true).map_err(system("make a socket not block"))?;
        let job_fd = self.job.region().fd().expect("the job's memory is a memfd");

        let mut command = Command::new(part.program);
        command.args(part.args);
        if let Some(directory) = part.directory {
            command.current_dir(directory);
        }
        self.set_environment(&mut command, local, theirs.as_fd(), job_fd);
        command.envs(part.env.iter().map(|(name, value)| (name, value)));
        let terminal = || rustix::termios::isatty(rustix::stdio::stdin());
        let input = match self.share.input {
            _ if rank != 0 => Input::Nothing,
            Input::Own if terminal() => Input::Piped,
            other => other,
        };
        command.stdin(match input {
            Input::Own => Stdio::inherit(),
            Input::Piped => Stdio::piped(),
            Input::Nothing => Stdio::null(),
        });
        if self.share.piped {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let setup = ChildSetup {
            launcher: rustix::process::getpid(),
            inherited: [theirs.as_raw_fd(), job_fd.as_raw_fd()],
            mask: self.mask,
            limit: self.limit,
            cpus: self.cpu_set(local),
        };
        // SAFETY: the closure runs between fork and exec and makes system calls only.
        unsafe { command.pre_exec(move || setup.apply()) };
        let mut child = command.spawn().map_err(|source| LaunchError::Program {
            program: part.program.to_owned(),
            rank,
            source,
        })?;
        let pid = Pid::from_child(&child);
        if let Some(input) = child.stdin.take() {
            self.input = Some(input);
        }
        let streams = [
            child.stdout.take().map(|fd| Stream::new(rank, false, fd.into())),
            child.stderr.take().map(|fd| Stream::new(rank, true, fd.into())),
        ];
        self.streams.extend(streams.into_iter().flatten());
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Started { pid, pidfd, pmi: ours }),
            Err(error) => {
                sessions::kill_all(&[pid], &sessions::Mark::of(self.job.node_id()));
                reap(&[pid]);
                Err(system("open a pidfd of a rank")(error))
            }
        }
    }

    fn set_environment(
        &self,
        command: &mut Command,
        local: u32,
        pmi: BorrowedFd<'_>,
        job: BorrowedFd<'_>,
    ) {
        let locals = self.share.local.to_string();
        for name in FOREIGN {
            command.env_remove(name);
        }
        command
            .env(env::PMI_FD, pmi.as_raw_fd().to_string())
            .env(env::PMI_RANK, (self.share.first + local).to_string())
            .env(env::PMI_SIZE, self.share.size.to_string())
            .env("MPI_LOCALRANKID", local.to_string())
            .env("MPI_LOCALNRANKS", &locals)
            .env(env::JOB_FD, job.as_raw_fd().to_string())
            .env(env::JOB_ID, format!("{:016x}", self.job.id()))
            .env(env::NODE_ID, format!("{:016x}", self.job.node_id()))
            .env(env::LOCAL_RANK, local.to_string())
            .env(env::LOCAL_SIZE, &locals);
    }

    fn cpu_set(&self, local: u32) -> Option<CpuSet> {
        let mut set = CpuSet::new();
        set.set(*self.cpus.get(local as usize)? as usize);
        Some(set)
    }
}

/// What a child does between fork and exec.
struct ChildSetup {
    launcher: Pid,
    /// Descriptors that the program is to have.
    inherited: [RawFd; 2],
    mask: libc::sigset_t,
    limit: Option<Rlimit>,
    cpus: Option<CpuSet>,
}

impl ChildSetup {
    fn apply(&self) -> io::Result<()> {
        // A group of its own, and not a session: see `sessions`.
        rustix::process::setpgid(None, None)?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The launcher may have died before the line above.
        if rustix::process::getppid() != Some(self.launcher) {
            return Err(io::Error::from_raw_os_error(libc::EOWNERDEAD));
        }
        if let Some(cpus) = &self.cpus {
            rustix::thread::sched_setaffinity(None, cpus)?;
        }
        if let Some(limit) = &self.limit {
            rustix::process::setrlimit(Resource::Nofile, *limit)?;
        }
        for fd in self.inherited {
            // SAFETY: the launcher holds both descriptors while it starts the rank, so they are
            // open in the fork.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
        }
        // SAFETY: the mask is one that the kernel gave.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut()) };
        Ok(())
    }
}

/// Makes space for the descriptors of a large job; returns the limit that the ranks are to have
/// if it was changed.
fn raise_descriptor_limit(ranks: u32) -> Option<Rlimit> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // Per rank a pidfd, a socket and two pipes, and some for the rest of the process.
    let wanted = u64::from(ranks) * 4 + 128;
    if limit.current.is_none_or(|current| current >= wanted) {
        return None;
    }
    let current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
    let raised = Rlimit { current, maximum: limit.maximum };
    rustix::process::setrlimit(Resource::Nofile, raised).ok().map(|()| limit)
}

/// A random number that names a job.
pub(crate) fn random_id() -> Result<u64, LaunchError> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(system("draw a random job id"))?;
    Ok(u64::from_ne_bytes(bytes))
}
