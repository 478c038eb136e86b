//! The modes of progress beside published figures: the program `bench-progress`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// What to measure and where to put it.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Fewer rounds and sizes: minutes in all
    #[arg(long)]
    quick: bool,
    /// Only these tables: overhead, overlap, waiting, schemes, collectives, applications, memory, locks
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    only: Vec<String>,
    /// Where to write the tables as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Directory for pictures of the tables that have one
    #[arg(long, value_name = "DIRECTORY")]
    plot: Option<PathBuf>,
}

/// Runs the program.
///
/// # Errors
/// When it cannot be built, or fails.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    super::build_release(workspace, &["-p", "bowline-bench-progress", "-p", "bowline-cli"])?;
    let target = workspace.metadata.target_directory.as_std_path();
    let program = target.join("release/bench-progress");
    let mut command = Command::new(&program);
    if options.quick {
        command.arg("--quick");
    }
    if !options.only.is_empty() {
        command.arg("--only").arg(options.only.join(","));
    }
    for (name, path) in [("--json", &options.json), ("--plot", &options.plot)] {
        if let Some(path) = path {
            command.arg(name).arg(path);
        }
    }
    let status = command.status().with_context(|| format!("cannot start {}", program.display()))?;
    if !status.success() {
        bail!("{} failed: {status}", program.display());
    }
    Ok(())
}
