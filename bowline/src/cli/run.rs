//! `bowline run`: the command line of the launcher, which is the crate `bowline-launch`.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use bowline_launch::run::{Bind, OnFailure, RunOptions, run};
use clap::ValueEnum;

use super::numbers;

/// Start the ranks of a program and stay until all have ended.
///
/// Every rank is a process that runs PROGRAM with the same arguments. If one of them fails, the
/// others are ended, nothing is left behind, and the exit code is that of the first failure (128
/// and the signal's number for a rank that was killed).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bowline run -n 4 ./simulation
  bowline run -n 2 --label -- env --null
  bowline run -n 64 --timeout 60 --on-failure continue ./survivor")]
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
    /// The program, a path or a name in PATH, and its arguments.
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Failure {
    /// The job ends.
    Abort,
    /// The others are told and go on.
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
/// When a setting in the environment is bad. A job that cannot start is told here, with the exit
/// code that shells give.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let config = bowline::config_from_env()?;
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
    Ok(match run(&options) {
        Ok(report) => exit_code(report.code),
        Err(error) => {
            eprintln!("bowline: {error}");
            exit_code(error.code())
        }
    })
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
