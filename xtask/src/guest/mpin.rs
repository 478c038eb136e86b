//! `cargo xtask bench mpin` over verbs: its measurements in one boot of the guest.

use anyhow::{Context, Result, bail, ensure};

use super::{Options, Work, boot, programs_of};
use crate::needs;
use crate::workspace::Workspace;

/// What a line of figures begins with; the number of its command follows.
const MARK: &str = "figures";

/// What the line behind it begins with.
const REPORT: &str = "report";

/// What stands in place of a line's end in a report.
const END: char = '|';

/// Runs `bowline` once for each of the commands, which are its arguments behind assignments of variables. What
/// each has printed, on one line, and what its job has reported.
///
/// # Errors
/// When something is missing, the guest does not come up, or a command fails in it.
pub(crate) fn figures(
    workspace: &Workspace,
    commands: &[(String, String)],
) -> Result<Vec<[String; 2]>> {
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
    work.script = commands.iter().enumerate().map(|(number, one)| lines_of(number, one)).collect();
    let guest = Options { limit: 1800, processors: 2, ..Options::default() };
    let ended = boot(workspace, &work, &guest)?;
    ensure!(ended.status == 0, "the guest's command ended with status {}", ended.status);
    (0..commands.len()).map(|number| said(number, &ended.lines)).collect()
}

/// The script's part for a command.
fn lines_of(number: usize, (variables, arguments): &(String, String)) -> String {
    let file = "/tmp/report";
    format!(
        "rm -f {file}\n\
         said=$(env {variables} BOWLINE_REPORT={file} ./bowline {arguments}) || exit 1\n\
         echo \"{MARK} {number} $said\"\n\
         echo \"{REPORT} {number} $(tr '\\n' '{END}' <{file})\"\n"
    )
}

/// What a command has printed and reported.
fn said(number: usize, lines: &[String]) -> Result<[String; 2]> {
    let marked = |mark: &str| {
        let mark = format!("{mark} {number} ");
        let found = lines.iter().find_map(|line| line.strip_prefix(&mark));
        found.map(str::to_owned)
    };
    let figures = marked(MARK).with_context(|| format!("command {number} has printed nothing"))?;
    let report = marked(REPORT).with_context(|| format!("command {number} has not reported"))?;
    Ok([figures, report.replace(END, "\n")])
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn figures_and_reports_pass_a_shell() {
        let directory = tempfile::tempdir().unwrap();
        let report = directory.path().join("report");
        let program = "#!/bin/sh\nprintf 'rank 0 nothing\\nrank 1 a; b\\n' >>$BOWLINE_REPORT\necho \"[$A $1]\"\n";
        std::fs::write(directory.path().join("bowline"), program).unwrap();
        let script: String = [("A=5", "x"), ("A=6", "y")]
            .map(|(variables, arguments)| (variables.to_owned(), arguments.to_owned()))
            .iter()
            .enumerate()
            .map(|(number, one)| lines_of(number, one))
            .collect();
        let script = script
            .replace("/tmp/report", report.to_str().unwrap())
            .replace("./bowline", "sh ./bowline");
        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(directory.path())
            .output()
            .expect("a shell");
        let printed = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<String> = printed.lines().map(str::to_owned).collect();
        let expected = "rank 0 nothing\nrank 1 a; b\n".to_owned();
        assert_eq!(said(0, &lines).unwrap(), ["[5 x]".to_owned(), expected.clone()]);
        assert_eq!(said(1, &lines).unwrap(), ["[6 y]".to_owned(), expected]);
        assert!(said(2, &lines).is_err());
        assert!(said(0, &lines[..1]).is_err(), "the report is missing");
    }
}
