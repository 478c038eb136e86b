//! Starting the ranks: environment, descriptors, session, processors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use bowline_base::job::JobMemory;
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions};
use rustix::thread::CpuSet;

use super::guardian::Guardian;
use super::output::{Output, Stream};
use super::signals::Signals;
use super::stdin::TerminalInput;
use super::{Bind, LaunchError, RunOptions, sessions, system};
use crate::bootstrap::env;

/// A rank that was started.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    /// The manager's end of its PMI connection; does not block.
    pub(super) pmi: OwnedFd,
}

/// A job whose ranks were started.
#[derive(Debug)]
pub(super) struct StartedJob {
    pub(super) ranks: Vec<Started>,
    pub(super) guardian: Guardian,
    pub(super) output: Option<Output>,
    pub(super) terminal: Option<TerminalInput>,
}

/// Variables of another process manager, which would mislead a rank.
const FOREIGN: [&str; 5] = ["PMI_PORT", "PMI_ID", "PMI_SPAWNED", "HYDI_CONTROL_FD", "PMI_APPNUM"];

/// Starts every rank, or none.
pub(super) fn start_all(
    options: &RunOptions,
    job: &JobMemory,
    signals: &Signals,
    mut guardian: Guardian,
) -> Result<StartedJob, LaunchError> {
    let mut starter = Starter {
        options,
        job,
        mask: signals.mask_before(),
        limit: raise_descriptor_limit(options.ranks),
        cpus: cpus(options)?,
        streams: Vec::new(),
        terminal: None,
    };
    let mut ranks: Vec<Started> = Vec::with_capacity(options.ranks as usize);
    let started = (0..options.ranks).try_for_each(|rank| {
        let started = starter.start(rank)?;
        guardian.add(started.pid);
        ranks.push(started);
        Ok(())
    });
    let streams = std::mem::take(&mut starter.streams);
    let output = started.and_then(|()| match options.label {
        true => Output::start(streams).map(Some),
        false => Ok(None),
    });
    match output {
        Ok(output) => Ok(StartedJob { ranks, guardian, output, terminal: starter.terminal }),
        Err(error) => {
            let pids: Vec<Pid> = ranks.iter().map(|rank| rank.pid).collect();
            sessions::kill_all(&pids);
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
    job: &'a JobMemory,
    mask: libc::sigset_t,
    limit: Option<Rlimit>,
    /// Processors to bind to; empty for none.
    cpus: Vec<usize>,
    streams: Vec<Stream>,
    terminal: Option<TerminalInput>,
}

impl Starter<'_> {
    fn start(&mut self, rank: u32) -> Result<Started, LaunchError> {
        let options = self.options;
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(system("make a socket pair for PMI"))?;
        rustix::io::ioctl_fionbio(&ours, true).map_err(system("make a socket not block"))?;
        let job_fd = self.job.region().fd().expect("the job's memory is a memfd");

        let mut command = Command::new(&options.program);
        command.args(&options.args);
        self.set_environment(&mut command, rank, theirs.as_fd(), job_fd);
        let terminal = rank == 0 && rustix::termios::isatty(rustix::stdio::stdin());
        command.stdin(match rank {
            0 if terminal => Stdio::piped(),
            0 => Stdio::inherit(),
            _ => Stdio::null(),
        });
        if options.label {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let setup = ChildSetup {
            launcher: rustix::process::getpid(),
            inherited: [theirs.as_raw_fd(), job_fd.as_raw_fd()],
            mask: self.mask,
            limit: self.limit,
            cpus: self.cpu_set(rank),
        };
        // SAFETY: the closure runs between fork and exec and makes system calls only.
        unsafe { command.pre_exec(move || setup.apply()) };
        let mut child = command.spawn().map_err(|source| LaunchError::Program {
            program: options.program.clone(),
            rank,
            source,
        })?;
        let pid = Pid::from_child(&child);
        if terminal {
            self.terminal = child.stdin.take().map(TerminalInput::new);
        }
        let streams = [
            child.stdout.take().map(|fd| Stream::new(rank, false, fd.into())),
            child.stderr.take().map(|fd| Stream::new(rank, true, fd.into())),
        ];
        self.streams.extend(streams.into_iter().flatten());
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Started { pid, pidfd, pmi: ours }),
            Err(error) => {
                sessions::kill_all(&[pid]);
                reap(&[pid]);
                Err(system("open a pidfd of a rank")(error))
            }
        }
    }

    fn set_environment(
        &self,
        command: &mut Command,
        rank: u32,
        pmi: BorrowedFd<'_>,
        job: BorrowedFd<'_>,
    ) {
        let ranks = self.options.ranks.to_string();
        for name in FOREIGN {
            command.env_remove(name);
        }
        command
            .env(env::PMI_FD, pmi.as_raw_fd().to_string())
            .env(env::PMI_RANK, rank.to_string())
            .env(env::PMI_SIZE, &ranks)
            .env("MPI_LOCALRANKID", rank.to_string())
            .env("MPI_LOCALNRANKS", &ranks)
            .env(env::JOB_FD, job.as_raw_fd().to_string())
            .env(env::JOB_ID, format!("{:016x}", self.job.id()))
            .env(env::LOCAL_RANK, rank.to_string())
            .env(env::LOCAL_SIZE, &ranks)
            .envs(self.options.env.iter().map(|(name, value)| (name, value)));
    }

    fn cpu_set(&self, rank: u32) -> Option<CpuSet> {
        let cpu = *self.cpus.get(rank as usize % self.cpus.len().max(1))?;
        let mut set = CpuSet::new();
        set.set(cpu);
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
        rustix::process::setsid()?;
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

/// The launcher's processors, if ranks are to be bound to them.
fn cpus(options: &RunOptions) -> Result<Vec<usize>, LaunchError> {
    if options.bind == Some(Bind::None) {
        return Ok(Vec::new());
    }
    let allowed = rustix::thread::sched_getaffinity(None)
        .map_err(system("ask which processors may be used"))?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let enough = options.ranks as usize <= cpus.len();
    Ok(if options.bind == Some(Bind::Core) || enough { cpus } else { Vec::new() })
}

/// Makes room for the descriptors of a large job; returns the limit that the ranks are to have
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
pub(super) fn random_id() -> Result<u64, LaunchError> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(system("draw a random job id"))?;
    Ok(u64::from_ne_bytes(bytes))
}
