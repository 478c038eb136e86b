//! `bowline run`: the command line of the launcher, which is the crate `bowline-launch`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use bowline_launch::run::{Bind, Host, OnFailure, RunOptions, run};
use clap::ValueEnum;

use super::numbers;

/// Start the ranks of a program and stay until all have ended.
///
/// Every rank is a process that runs PROGRAM with the same arguments. If one of them fails, the
/// others are ended, nothing is left behind, and the exit code is that of the first failure (128
/// and the signal's number for a rank that was killed).
///
/// With --hosts or --hostfile an agent is started on each host, by ssh or another command, and
/// consecutive ranks go to each. Program, directory and Bowline must be there under the same
/// paths; the environment goes along.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bowline run -n 4 ./simulation
  bowline run -n 2 --label -- env --null
  bowline run -n 64 --timeout 60 --on-failure continue ./survivor
  bowline run -n 8 --hosts node1:4,node2:4 ./simulation
  bowline run -n 4 --hosts a,b --agent-command 'ip netns exec {host}' ./simulation")]
pub(crate) struct Args {
    /// Number of ranks.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// Begin each line of output with its rank. Output is then slower, as it passes the launcher.
    #[arg(short, long)]
    label: bool,
    /// What the failure of a rank means for the others.
    #[arg(long, value_enum, default_value_t = Failure::Abort)]
    on_failure: Failure,
    /// Processors of a rank [default: core when there are enough of them, else none].
    #[arg(long, value_enum)]
    bind: Option<Binding>,
    /// End the job after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = numbers::seconds)]
    timeout: Option<Duration>,
    /// Hosts, in the order of ranks, with the number of ranks that each takes. Without numbers the
    /// ranks are spread evenly.
    #[arg(long, value_name = "HOST[:SLOTS],...", value_parser = hosts, group = "places")]
    hosts: Option<Hosts>,
    /// The same from a file: a host per line, as HOST, HOST:SLOTS or HOST slots=N.
    #[arg(long, value_name = "FILE", group = "places")]
    hostfile: Option<PathBuf>,
    /// The command that runs a program on a host [default: ssh -x -o BatchMode=yes {host}]. Its
    /// words are separated by blanks, {host} stands for the name, the agent's command line follows.
    #[arg(long, value_name = "COMMAND", requires = "places")]
    agent_command: Option<String>,
    /// Path of this program on the hosts [default: as here].
    #[arg(long, value_name = "PATH", requires = "places")]
    agent_program: Option<OsString>,
    /// A host that is silent for so many seconds is lost, and its ranks with it [default: 10].
    #[arg(long, value_name = "SECONDS", value_parser = numbers::seconds, requires = "places")]
    host_timeout: Option<Duration>,
    /// The program, a path or a name in PATH, and its arguments.
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// The value of an option.
#[derive(Clone, Debug)]
struct Hosts(Vec<Host>);

fn hosts(text: &str) -> Result<Hosts, String> {
    Host::list(text).map(Hosts).map_err(|error| error.to_string())
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Failure {
    /// The job ends.
    Abort,
    /// The others are notified and go on.
    Continue,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Binding {
    /// All that the launcher may use.
    None,
    /// One each, over again when there are more ranks.
    Core,
}

/// Runs the job.
///
/// # Errors
/// When a setting in the environment or the host file is bad. A job that cannot start is reported here, with the exit
/// code that shells give.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let config = bowline::config_from_env()?;
    // Each rank would say the same again.
    bowline::stack::check_job(&config, args.hosts.is_none() && args.hostfile.is_none())?;
    let (program, rest) = args.program.split_first().expect("the argument is required");
    let mut options = RunOptions::new(args.ranks, program);
    options.args = rest.to_vec();
    options.area_bytes = bowline::stack::area_bytes(&config);
    options.label = args.label;
    options.on_failure = match args.on_failure {
        Failure::Abort => OnFailure::Abort,
        Failure::Continue => OnFailure::Continue,
    };
    options.bind = args.bind.map(|bind| match bind {
        Binding::None => Bind::None,
        Binding::Core => Bind::Core,
    });
    options.timeout = args.timeout;
    options.hosts = match (&args.hosts, &args.hostfile) {
        (Some(Hosts(hosts)), _) => hosts.clone(),
        (None, Some(path)) => read_hosts(path)?,
        (None, None) => Vec::new(),
    };
    if let Some(command) = &args.agent_command {
        options.agent_command = command.clone();
    }
    options.agent_program = args.agent_program.clone();
    if let Some(limit) = args.host_timeout {
        options.host_timeout = limit;
    }
    Ok(launch("bowline", &options))
}

/// Runs a job for the command `name`, and reports why it could not start.
pub(crate) fn launch(name: &str, options: &RunOptions) -> ExitCode {
    match run(options) {
        Ok(report) => exit_code(report.code),
        Err(error) => {
            crate::say(name, &error);
            exit_code(error.code())
        }
    }
}

fn read_hosts(path: &Path) -> anyhow::Result<Vec<Host>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the host file {}", path.display()))?;
    let hosts = Host::file(&text).with_context(|| format!("{}", path.display()))?;
    anyhow::ensure!(!hosts.is_empty(), "the host file {} names no host", path.display());
    Ok(hosts)
}

/// `bowline agent`: starts and watches the ranks of one host for `bowline run --hosts`, which
/// talks to it over its standard streams.
#[derive(Debug, clap::Args)]
pub(crate) struct Agent {}

/// Serves the launcher.
pub(crate) fn agent() -> ExitCode {
    exit_code(bowline_launch::agent::serve())
}

/// The exit code `code`; a failure never becomes a success by losing its upper bits.
pub(crate) fn exit_code(code: i32) -> ExitCode {
    match code {
        0 => ExitCode::SUCCESS,
        other => {
            ExitCode::from(u8::try_from(other & 0xff).ok().filter(|&low| low != 0).unwrap_or(1))
        }
    }
}
