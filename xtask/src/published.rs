//! `cargo xtask published`: programs that others have published, built with our compiler wrappers against our
//! C library and run under our launcher.
//!
//! ```text
//!   target/published/  prefix   launcher, library, header and wrappers, as `install` lays them out
//!                      python   an environment with numpy and mpi4py, built against the prefix
//!                      source   mpi4py's source, which has its tests
//!                      results  how each test ended, by module, number of ranks and rank
//! ```
//!
//! What is not expected to pass stands in `tests/published/mpi4py.txt` ([`list`]). Where the packages cannot
//! be had, the step is left out with that reason; what fails after they are there is a failure.

mod list;
mod mpi4py;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::install;
use crate::workspace::Workspace;

/// What to run.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Options {
    /// Only the modules whose names have this in them; the list is not held against the rest
    #[arg(long, default_value = "")]
    only: String,
    /// Numbers of ranks
    #[arg(short = 'n', value_name = "LIST", value_delimiter = ',', default_values_t = RANKS)]
    ranks: Vec<u32>,
    /// Write the list anew from what fails because a function is not there
    #[arg(long, conflicts_with = "only")]
    update: bool,
}

const RANKS: [u32; 3] = [1, 2, 4];

/// How it went.
pub(crate) enum Outcome {
    /// With the numbers.
    Passed(String),
    /// Nothing was run, for this reason.
    Skipped(String),
}

/// The directories.
#[derive(Debug)]
struct Places {
    /// Of the workspace.
    root: PathBuf,
    made: PathBuf,
}

impl Places {
    fn new(workspace: &Workspace) -> Self {
        let made = workspace.metadata.target_directory.as_std_path().join("published");
        Self { root: workspace.root.clone(), made }
    }

    fn prefix(&self) -> PathBuf {
        self.made.join("prefix")
    }

    fn python(&self) -> PathBuf {
        self.made.join("python/bin/python")
    }

    /// Where the file is that names what does not pass.
    fn list(&self) -> PathBuf {
        self.root.join("tests/published/mpi4py.txt")
    }
}

/// Runs the task, with what cargo builds for that.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let places = Places::new(workspace);
    install::install(workspace, &places.prefix())?;
    match programs(&places, options)? {
        Outcome::Passed(numbers) => println!("published: {numbers}"),
        Outcome::Skipped(why) => bail!("{why}"),
    }
    Ok(())
}

/// The step of the ladder, with what that has built.
pub(crate) fn step(workspace: &Workspace) -> Result<Outcome> {
    let places = Places::new(workspace);
    install::install_tested(workspace, &places.prefix())?;
    programs(&places, &Options { ranks: RANKS.to_vec(), ..Options::default() })
}

fn programs(places: &Places, options: &Options) -> Result<Outcome> {
    mpi4py::run(places, options)
}

/// Runs a command to its end; the error has the last line that it printed.
fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(20)..];
    bail!("{program} ended with {}:\n{}", output.status, last.join("\n"))
}
