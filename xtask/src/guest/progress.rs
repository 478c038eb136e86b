//! `cargo xtask bench progress` over verbs: the program `bench-progress` in a guest that has devices.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use super::{Options, Work, boot, programs_of, quoted};
use crate::needs;
use crate::workspace::Workspace;

/// What the line with the tables begins with.
const MARK: &str = "tables ";

/// Runs `bench-progress` with these arguments. The program, which this machine can run as well, and the tables
/// as it has written them.
///
/// # Errors
/// When something is missing, the guest does not come up, or the program fails in it.
pub(crate) fn tables(workspace: &Workspace, arguments: &[&str]) -> Result<(PathBuf, String)> {
    let missing = needs::missing(needs::OF_GUEST);
    if !missing.is_empty() {
        bail!("{}", needs::explain(&missing));
    }
    let features = ["--features", "bowline-bench-progress/verbs"];
    let what = ["--release", "--bin", "bench-progress"];
    let mut programs = programs_of(workspace, &[], "bowline-bench-progress", &features, &what)?;
    let program = programs.pop().context("the program was not built")?;
    let mut work = Work::default();
    work.bring(&program);
    let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
    work.script = format!(
        "unset BOWLINE_TEST_GUEST BOWLINE_TEST_SECONDS\n\
         ./bench-progress {} --json /tmp/tables || exit 1\n\
         echo \"{MARK}$(tr -d '\\n' </tmp/tables)\"\n",
        words.join(" ")
    );
    let guest = Options { limit: 3600, processors: 2, ..Options::default() };
    let ended = boot(workspace, &work, &guest)?;
    ensure!(ended.status == 0, "the guest's command ended with status {}", ended.status);
    let said = ended.lines.iter().find_map(|line| line.strip_prefix(MARK));
    Ok((program.path, said.context("the guest has printed no tables")?.to_owned()))
}
