//! The `bowline` command: starts jobs, describes the machine, measures, and runs the demonstration
//! programs. This file is the command line and the frame of every command (errors to the standard
//! error stream, an exit code, logging). Called as `mpiexec` or `mpirun` it is
//! a launcher with the options of those.

mod calibrate;
mod collective;
mod demo;
mod explain;
mod fennel;
mod font;
mod info;
mod model;
mod mpiexec;
mod numbers;
mod output;
mod perf;
mod run;
mod start;

use std::error::Error;
use std::fmt::{self, Display};
use std::io::Write as _;
use std::process::ExitCode;

use bowline_base::config::Config;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// Bowline: fast messages between processes, on one machine and between machines.
#[derive(Debug, Parser)]
#[command(
    name = "bowline",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  bowline run -n 4 ./simulation --steps 100   start four ranks of a program
  bowline info                                what this machine offers
  bowline explain                             which transport and protocol is used, and why
  bowline calibrate                           measure what that choice depends on
  bowline model fit --transport tcp           fit the pipelining model to multicasts
  bowline fennel allreduce -n 1024 --size 8   simulate a collective on a modelled network
  bowline perf mpi_lat --size 8,4k            measure
  bowline demo sort words.txt -n 4 -o out.txt sort a file with four ranks

Settings are environment variables; `bowline info --config` lists them. BOWLINE_LOG=debug shows
more of what happens. Each command has a help of its own: `bowline help run`."
)]
struct Cli {
    /// This process is one rank of what the command starts.
    #[arg(long, hide = true)]
    as_rank: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    #[command(hide = true)]
    Agent(run::Agent),
    Info(info::Args),
    Explain(explain::Args),
    Calibrate(calibrate::Args),
    Model(model::Args),
    Fennel(Box<fennel::Args>),
    Perf(perf::Args),
    Demo(demo::Args),
}

/// Reads the command line and does what it says.
fn main() -> ExitCode {
    bowline::stack::restore_signals();
    if let Some((name, words)) = mpiexec::called() {
        return report(start_log().and_then(|()| mpiexec::main(&name, words)), &name);
    }
    let parsed = with_negative_numbers(Cli::command())
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => error.exit(),
        // Help, or the version.
        Err(asked) => {
            let printed = asked.print().and_then(|()| std::io::stdout().flush());
            return report(output::check(printed).map(|()| ExitCode::SUCCESS), "bowline");
        }
    };
    let done = start_log().and_then(|()| match cli.command {
        Command::Run(args) => run::main(&args),
        Command::Agent(_) => Ok(run::agent()),
        Command::Info(args) => info::main(&args),
        Command::Explain(args) => explain::main(&args, cli.as_rank),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::Model(args) => model::main(&args, cli.as_rank),
        Command::Fennel(args) => fennel::main(&args),
        Command::Perf(args) => perf::main(args, cli.as_rank),
        Command::Demo(args) => demo::main(&args, cli.as_rank),
    });
    report(done, "bowline")
}

/// Takes a negative number behind an option for its value, so that the error says what is wrong with it. Without this `-4` is
/// an option that nobody knows.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let is_value = arg.get_action().takes_values() && !arg.is_positional();
        arg.allow_negative_numbers(is_value)
    });
    command.mut_subcommands(with_negative_numbers)
}

/// The exit code, after an error was printed.
fn report(done: anyhow::Result<ExitCode>, name: &str) -> ExitCode {
    done.unwrap_or_else(|error| {
        say(name, Chain(&*error));
        ExitCode::FAILURE
    })
}

/// Writes a line to the standard error stream, which may be closed.
fn say(name: &str, what: impl Display) {
    // In one piece: other ranks may write to the same place.
    let _ = std::io::stderr().write_all(format!("{name}: {what}\n").as_bytes());
}

/// An error with its sources, each of which is shown once.
struct Chain<'a>(&'a (dyn Error + 'static));

impl Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        bowline_base::error::show(self.0, f)
    }
}

/// Starts the log, for commands that read no other setting too.
fn start_log() -> anyhow::Result<()> {
    let config = Config::from_env(&[bowline::log::SETTINGS])?;
    Ok(bowline::log::start(&config)?)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
