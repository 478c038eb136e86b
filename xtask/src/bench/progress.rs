//! The modes of progress beside published figures: the program `bench-progress`, on this machine or, over verbs, in a
//! guest that has devices.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::guest;
use crate::workspace::Workspace;

/// The lane that this machine may lack devices for.
const VERBS: &str = "verbs";

/// The lane that not every machine has the library of.
const OFI: &str = "ofi";

/// The tables that it is measured for.
const OVER_VERBS: &str = "overhead,overlap,schemes";

/// What to measure and where to put it.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Fewer rounds and sizes: minutes in all
    #[arg(long)]
    quick: bool,
    /// Only these tables: overhead, overlap, waiting, schemes, collectives, applications, memory, locks
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    only: Vec<String>,
    /// Over these lanes, of overhead, overlap, schemes and applications: carrier, shm, tcp, hosts (tcp between two network
    /// namespaces, with a delay), ofi; or verbs alone, in a guest, by default of overhead, overlap and schemes [default:
    /// carrier, shm]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    lanes: Vec<String>,
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
    let only = options.only.join(",");
    if options.lanes.iter().any(|lane| lane == VERBS) {
        ensure!(options.lanes.len() == 1, "{VERBS} is measured in a guest, without other lanes");
        return in_guest(workspace, options, &only);
    }
    let ofi = options.lanes.iter().any(|lane| lane == OFI);
    let features: &[_] = if ofi { &["--features", "bowline-bench-progress/ofi"] } else { &[] };
    let packages = [&["-p", "bowline-bench-progress", "-p", "bowline-cli"], features].concat();
    super::build_release(workspace, &packages)?;
    let target = workspace.metadata.target_directory.as_std_path();
    let mut arguments = Vec::new();
    if options.quick {
        arguments.push("--quick");
    }
    let lanes = options.lanes.join(",");
    for (name, value) in [("--only", &only), ("--lanes", &lanes)] {
        if !value.is_empty() {
            arguments.extend([name, value.as_str()]);
        }
    }
    start(&target.join("release/bench-progress"), &arguments, options)
}

fn in_guest(workspace: &Workspace, options: &Options, only: &str) -> Result<()> {
    if let Some(path) = &options.json {
        super::output::check_place(path)?;
    }
    let only = if only.is_empty() { OVER_VERBS } else { only };
    let mut arguments = vec!["--lanes", VERBS, "--only", only];
    if options.quick {
        arguments.push("--quick");
    }
    let (program, tables) = guest::progress::tables(workspace, &arguments)?;
    if options.json.is_none() && options.plot.is_none() {
        return Ok(());
    }
    let file = workspace.metadata.target_directory.as_std_path().join("guest/progress.json");
    std::fs::write(&file, tables).with_context(|| format!("cannot write {}", file.display()))?;
    let from = file.to_str().context("the path of the target directory is no text")?;
    start(&program, &["--from", from], options)
}

/// Starts the program, which writes and draws what is asked for.
fn start(program: &Path, arguments: &[&str], options: &Options) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments);
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
