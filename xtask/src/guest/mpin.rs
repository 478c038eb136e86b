//! `cargo xtask bench mpin` over verbs: its measurements in one boot of the guest.

use anyhow::{Context, Result, bail, ensure};

use super::{Options, Work, boot, programs_of};
use crate::needs;
use crate::workspace::Workspace;

/// What a line of figures begins with; the number of its command follows.
const MARK: &str = "figures";

/// Runs `bowline` once for each of the commands, which are its arguments behind assignments of variables. What
/// each has printed, on one line.
///
/// # Errors
/// When something is missing, the guest does not come up, or a command fails in it.
pub(crate) fn figures(workspace: &Workspace, commands: &[(String, String)]) -> Result<Vec<String>> {
    let missing = needs::missing(needs::OF_GUEST);
    if !missing.is_empty() {
        bail!("{}", needs::explain(&missing));
    }
    let features = ["--features", "bowline-cli/verbs"];
    let mut work = Work::default();
    let what = ["--release", "--bin", "bowline"];
    for program in programs_of(workspace, &[], "bowline-cli", &features, &what)? {
        work.bring(&program);
    }
    for (number, (variables, arguments)) in commands.iter().enumerate() {
        work.script.push_str(&format!(
            "said=$(env {variables} ./bowline {arguments}) || exit 1\necho \"{MARK} {number} $said\"\n"
        ));
    }
    let guest = Options { limit: 1800, processors: 2, ..Options::default() };
    let ended = boot(workspace, &work, &guest)?;
    ensure!(ended.status == 0, "the guest's command ended with status {}", ended.status);
    let said = |number: usize| {
        let mark = format!("{MARK} {number} ");
        let found = ended.lines.iter().find_map(|line| line.strip_prefix(&mark));
        found.map(str::to_owned).with_context(|| format!("command {number} has printed nothing"))
    };
    (0..commands.len()).map(said).collect()
}
