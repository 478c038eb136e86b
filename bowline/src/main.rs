//! The `bowline` command: starts jobs, tells of the machine, measures, and runs the demonstration
//! programs. What it does is in [`cli`]; nothing here knows how.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
