//! The launcher: starts the ranks of a job, on this machine or on several hosts, and stays until
//! all have ended.
//!
//! ```text
//!   reserve memory ─► guardian ─► start ranks ─► supervise ─► kill what is left ─► reap ─► report
//! ```
//!
//! **Failure.** A rank fails when it is killed, exits with another code than 0, or ends after it
//! joined the job (attached to the memory, or said `init` by PMI) without leaving it. The first
//! failure decides the job's exit code and is reported in one sentence on the standard error stream.
//! With [`OnFailure::Abort`] everybody else is ended too; with [`OnFailure::Continue`] the dead
//! rank is marked in the job's memory and the others go on.
//!
//! **Nothing left behind.** Each rank leads a process group, and the id of the node's memory is in its
//! environment. When the job ends, what is left of the groups, and whatever else carries the id, is
//! killed. If
//! the launcher itself is killed, the kernel kills the ranks (`PR_SET_PDEATHSIG`) and the guardian,
//! a process that does nothing else, kills what they have started. A program that makes itself a
//! daemon (a session of its own) has left the job and is spared.
//! Ended ranks stay unreaped until the job ends, so that no pid changes its meaning while peers
//! use it.
//!
//! **Several hosts.** An agent on each host (see [`agent`](crate::agent)) does there what the
//! launcher does here for one machine, and reports to the launcher, which decides. Launcher and agent
//! talk over the standard streams of the command that started the agent, `ssh` or any other. A
//! host that closes its connection or is silent for [`RunOptions::host_timeout`] is lost: all its
//! ranks count as dead. An agent that loses its launcher ends its ranks.
//!
//! [`run`] must have the thread that calls it for the whole job: the kernel ties the ranks' lives
//! to that thread. Signals to the launcher are passed on to the ranks meanwhile.

mod connection;
mod end;
pub(crate) mod guardian;
mod hosts;
pub(crate) mod node;
pub(crate) mod output;
mod parts;
mod place;
mod policy;
pub(crate) mod processors;
mod sessions;
pub(crate) mod signals;
pub(crate) mod spawn;
mod stdin;
pub(crate) mod supervise;

pub use end::{Failure, RankEnd};
pub use parts::JobPart;
pub use place::{Host, HostError};

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use bowline_base::job::{JobError, JobMemory, JobSpec};

use crate::bootstrap::env::kvsname;
use crate::bootstrap::secret;
use crate::pmi::Server;

/// Writes a sentence to the standard error stream, which may be closed.
fn say(sentence: &str) {
    let _ = io::stderr().write_all(format!("bowline: {sentence}\n").as_bytes());
}

/// What the failure of a rank means for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The job ends.
    #[default]
    Abort,
    /// The others are notified and go on.
    Continue,
}

/// Which processors a rank may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// All that the launcher may use.
    None,
    /// One each: rank `i` the `i`-th of the launcher's, over again when there are more ranks. With
    /// several hosts, those of each machine are given out once, also where it is several hosts.
    Core,
}

/// What to run and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunOptions {
    /// Number of ranks of `program`.
    pub ranks: u32,
    /// The program: a path, or a name that is searched for in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables to add for these ranks.
    pub env: Vec<(OsString, OsString)>,
    /// The directory to start in. Default: the launcher's.
    pub directory: Option<PathBuf>,
    /// Further programs of the same job, each with ranks of its own, which follow in this order.
    pub more: Vec<JobPart>,
    /// Bytes of each rank's area in the job's memory; what the transport asks for. Default 0.
    pub area_bytes: usize,
    /// Whether each line of output begins with its rank. The ranks then write into pipes, and
    /// programs that test whether they write to a terminal will buffer more. Default no.
    pub label: bool,
    /// What a failure means. Default: the job ends.
    pub on_failure: OnFailure,
    /// Whether the first failure is printed on the standard error stream. Default yes; the report has it
    /// in any case.
    pub prints_failure: bool,
    /// Processors; `None` binds to cores when there are enough of them and not at all otherwise.
    pub bind: Option<Bind>,
    /// Longest duration of the job. Default none.
    pub timeout: Option<Duration>,
    /// Time between asking a rank to end (SIGTERM) and killing it. Default 2 seconds.
    pub grace: Duration,
    /// Where to run. Empty, the default: on this machine, without agents.
    pub hosts: Vec<Host>,
    /// The command that runs a program on a host: words between blanks, in which `{host}` stands
    /// for the host's name; the agent's command line follows. No shell reads it here; ssh gives
    /// it to one over there, so where one of the words is a program of that name (or rsh), the
    /// agent's path is quoted for the shell. Default `ssh -x -o BatchMode=yes {host}`.
    pub agent_command: String,
    /// The program that is the agent when it is started with the argument `agent`, a path on the
    /// hosts; by ssh, `~/` in front of it is the directory of the user there. Default: the launcher's own file.
    pub agent_program: Option<OsString>,
    /// Silence of a host after which its ranks count as dead, and after which an agent whose
    /// launcher is silent ends its ranks. Default 10 seconds; at least 100 milliseconds count.
    pub host_timeout: Duration,
}

impl RunOptions {
    /// `ranks` times `program`, without arguments, everything else as documented.
    pub fn new(ranks: u32, program: impl Into<OsString>) -> Self {
        Self {
            ranks,
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            directory: None,
            more: Vec::new(),
            area_bytes: 0,
            label: false,
            on_failure: OnFailure::Abort,
            prints_failure: true,
            bind: None,
            timeout: None,
            grace: Duration::from_secs(2),
            hosts: Vec::new(),
            agent_command: "ssh -x -o BatchMode=yes {host}".into(),
            agent_program: None,
            host_timeout: Duration::from_secs(10),
        }
    }
}

/// How the job ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExitReport {
    /// Exit code for the launcher: 0, or that of the first failure.
    pub code: i32,
    /// The first failure, which has been printed already unless [`RunOptions::prints_failure`] is off.
    pub failure: Option<Failure>,
    /// How each rank ended, by rank.
    pub ends: Vec<RankEnd>,
}

impl ExitReport {
    fn of(policy: policy::Policy) -> Self {
        let (failure, ends) = policy.verdict();
        Self { code: failure.as_ref().map_or(0, |failure| failure.code), failure, ends }
    }
}

/// Why the job did not start. Ranks that had started have been killed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// No ranks asked for.
    #[error("cannot start a program without ranks; ask for at least one")]
    NoRanks,
    /// More than can be counted.
    #[error("cannot start a job of more than 4294967295 ranks")]
    TooManyRanks,
    /// The hosts.
    #[error(transparent)]
    Hosts(#[from] HostError),
    /// The agent's command line for a host.
    #[error("cannot start {program:?}, which is to start the agent on host {host}: {source}")]
    Agent {
        /// The first word of the command.
        program: String,
        /// The host.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// What a launcher says of the nodes.
    #[error("cannot start the job: {0}")]
    Mapping(String),
    /// The directory.
    #[error("cannot start the job in {directory:?}: {source}")]
    Directory {
        /// Which.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The memory of the job.
    #[error("cannot start the job: {0}")]
    Memory(#[from] JobError),
    /// The program.
    #[error(
        "cannot start {program:?} as rank {rank}: {source}{}{}",
        remedy(source),
        program_remedy(program, source)
    )]
    Program {
        /// Which program.
        program: OsString,
        /// Which rank was to run it.
        rank: u32,
        /// What the system said.
        source: io::Error,
    },
    /// Another system call.
    #[error("cannot {act}: {source}{}", remedy(source))]
    System {
        /// What was tried.
        act: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

bowline_base::debug_by_display!(LaunchError);

impl LaunchError {
    /// The exit code that shells give: 127 for a program that is not there, 126 for one that
    /// cannot be executed, 1 for anything else.
    pub fn code(&self) -> i32 {
        match self {
            Self::Program { source, .. } => match source.raw_os_error() {
                Some(libc::ENOENT) => 127,
                Some(libc::EACCES | libc::ENOEXEC | libc::EISDIR | libc::ENOTDIR) => 126,
                _ => 1,
            },
            _ => 1,
        }
    }
}

/// Runs a job to its end. Failures of ranks are in the report; only a job that could not be
/// started is an error.
///
/// # Errors
/// When the memory cannot be reserved, the program cannot be started, or the system refuses a
/// resource that the launcher needs.
pub fn run(options: &RunOptions) -> Result<ExitReport, LaunchError> {
    let size = options.size()?;
    let secret = secret::draw().map_err(system("draw a random secret"))?;
    let job_id = spawn::random_id()?;
    if !options.hosts.is_empty() {
        return hosts::run(options, size, job_id, &secret);
    }
    let job = JobMemory::create_memfd(&JobSpec {
        job_id,
        ranks: size,
        first_rank: 0,
        area_bytes: options.area_bytes,
    })?;
    let signals = signals::Signals::block()?;
    let guardian = guardian::Guardian::start(size, job.node_id())?;
    let share = spawn::Share {
        first: 0,
        local: size,
        size,
        piped: options.label,
        input: spawn::Input::Own,
    };
    let cpus = processors::of_this_machine(options.bind, size)?;
    let started = spawn::start_all(options, share, &cpus, &job, &signals, guardian)?;
    let mut server = Server::new(size, kvsname(job_id));
    server.programs(options.numbers(0..size));
    server.preset(secret::KEY, &secret);
    let node = node::Node::new(share, job, server, started.ranks, started.guardian)?;
    let output = match options.label {
        true => match output::Output::start(started.streams) {
            Ok(output) => Some(output),
            Err(error) => {
                node.finish();
                return Err(error);
            }
        },
        false => None,
    };
    let terminal = started.input.map(stdin::TerminalInput::new);
    supervise::Supervisor::new(options, node, signals, output, terminal).run()
}

/// What helps where the system says no, if the user can do it.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            "; a launcher keeps two files open for each rank, four with --label, and some more: raise the limit \
             (ulimit -n), or start fewer ranks"
        }
        Some(libc::ENFILE) => "; other processes of this machine have them open",
        Some(libc::EAGAIN) => {
            "; the limit of processes is reached (ulimit -u): raise it, or start fewer ranks"
        }
        _ => "",
    }
}

/// What helps where the system does not find or start a program.
fn program_remedy(program: &OsStr, error: &io::Error) -> &'static str {
    let is_path = program.as_bytes().contains(&b'/');
    match error.raw_os_error() {
        Some(libc::ENOENT) if is_path => {
            "; see that the path is right as seen from the directory of the ranks, and the first line (#!) of a script"
        }
        Some(libc::ENOENT) => {
            "; it is in no directory of PATH: name the path, for example ./program for one of this directory"
        }
        Some(libc::EACCES) => "; see that it is a file that may be executed (chmod +x)",
        Some(libc::ENOEXEC) => {
            "; it is no program of this machine, or a script without a first line (#!)"
        }
        _ => "",
    }
}

pub(crate) fn system(act: &'static str) -> impl FnOnce(rustix::io::Errno) -> LaunchError {
    move |e| LaunchError::System { act, source: e.into() }
}
