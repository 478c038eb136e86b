//! The modes of progress beside published figures: the program `bench-progress`, on this machine or, over verbs, in a
//! guest that has devices.

#[path = "../../../bench/progress/src/chosen.rs"]
mod chosen;

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
    /// Over these lanes: carrier, shm, tcp, hosts (tcp between two network namespaces, with a delay), ofi, of overhead, overlap and
    /// applications [default: carrier, shm]; of schemes carrier alone; or verbs alone, in a guest, by default of overhead, overlap
    /// and schemes. The other tables have lanes of their own
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    lanes: Vec<String>,
    /// Where to write the tables as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Directory for pictures of the tables that have one
    #[arg(long, value_name = "DIRECTORY")]
    plot: Option<PathBuf>,
}

/// What the program is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    arguments: Vec<String>,
    in_guest: bool,
    has_ofi: bool,
}

impl Order {
    /// # Errors
    /// When a table or a lane does not exist, or a table that is named cannot be measured over a lane.
    fn of(options: &Options) -> Result<Self> {
        chosen::tables(&options.only, &options.lanes)?;
        let in_guest = options.lanes.iter().any(|lane| lane == VERBS);
        ensure!(
            !in_guest || options.lanes.len() == 1,
            "{VERBS} is measured in a guest, without other lanes"
        );
        let mut arguments = Vec::new();
        if options.quick {
            arguments.push("--quick".to_owned());
        }
        let only = match options.only.join(",") {
            none if none.is_empty() && in_guest => OVER_VERBS.to_owned(),
            only => only,
        };
        for (name, value) in [("--only", only), ("--lanes", options.lanes.join(","))] {
            if !value.is_empty() {
                arguments.extend([name.to_owned(), value]);
            }
        }
        Ok(Self { arguments, in_guest, has_ofi: options.lanes.iter().any(|lane| lane == OFI) })
    }
}

/// Runs the program.
///
/// # Errors
/// When it cannot do what is asked for, cannot be built, or fails.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let Order { arguments, in_guest, has_ofi } = Order::of(options)?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if in_guest {
        return measure_in_guest(workspace, options, &arguments);
    }
    let features: &[_] = if has_ofi { &["--features", "bowline-bench-progress/ofi"] } else { &[] };
    let packages = [&["-p", "bowline-bench-progress", "-p", "bowline-cli"], features].concat();
    super::build_release(workspace, &packages)?;
    let target = workspace.metadata.target_directory.as_std_path();
    start(&target.join("release/bench-progress"), &arguments, options)
}

fn measure_in_guest(workspace: &Workspace, options: &Options, arguments: &[&str]) -> Result<()> {
    if let Some(path) = &options.json {
        super::output::check_place(path)?;
    }
    let (program, tables) = guest::progress::tables(workspace, arguments)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn order(only: &[&str], lanes: &[&str]) -> Result<Order> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let (only, lanes) = (owned(only), owned(lanes));
        Order::of(&Options { quick: false, only, lanes, json: None, plot: None })
    }

    #[test]
    fn what_cannot_be_measured_is_refused_before_anything_is_built() {
        for lane in ["shm", "tcp", "hosts", "ofi"] {
            let error = order(&["schemes"], &[lane]).unwrap_err().to_string();
            assert!(
                error.contains(lane) && error.contains("its lanes are carrier, verbs"),
                "{error}"
            );
        }
        for (only, lanes) in [
            ("memory", &["shm"][..]),
            ("sorting", &[]),
            ("overlap", &["ucx"]),
            ("", &["verbs", "shm"]),
        ] {
            let only: &[&str] = if only.is_empty() { &[] } else { &[only] };
            assert!(order(only, lanes).is_err(), "{only:?} over {lanes:?}");
        }
    }

    #[test]
    fn what_can_be_measured_is_handed_on() {
        let handed = |only: &[&str], lanes: &[&str]| order(only, lanes).unwrap();
        let here = handed(&["schemes", "overlap"], &["carrier"]);
        assert_eq!(here.arguments, ["--only", "schemes,overlap", "--lanes", "carrier"]);
        assert!(!here.in_guest && !here.has_ofi);
        let guest = handed(&[], &["verbs"]);
        assert_eq!(guest.arguments, ["--only", OVER_VERBS, "--lanes", "verbs"]);
        assert!(guest.in_guest);
        assert!(handed(&["overhead"], &["tcp", "ofi"]).has_ofi);
        assert_eq!(handed(&[], &[]).arguments, Vec::<String>::new());
    }
}
