//! Tests that passed over something which this machine lacks. They write a line to a file that the
//! environment names (`bowline_uct::conformance::skipped` does it), since the test harness keeps what
//! a test prints that passes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// The variable by which tests know the file.
pub(super) const VARIABLE: &str = "TEST_SKIPS";

/// The files of the steps that have been run.
static FILES: Mutex<Vec<(String, PathBuf)>> = Mutex::new(Vec::new());

/// The file for a step, empty.
pub(super) fn file(workspace: &Workspace, step: &str) -> Result<PathBuf> {
    let directory = workspace.metadata.target_directory.as_std_path().join("xtask");
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {directory:?}"))?;
    let path = directory.join(format!("{step}.skips"));
    std::fs::write(&path, "").with_context(|| format!("cannot write {path:?}"))?;
    FILES.lock().expect("nobody panics with it").push((step.to_owned(), path.clone()));
    Ok(path)
}

/// A line for each reason for which tests of a step were skipped.
pub(super) fn lines() -> Vec<String> {
    let files = FILES.lock().expect("nobody panics with it");
    let all = files.iter().flat_map(|(step, path)| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        summary(&text).into_iter().map(move |line| format!("{step}: {line}"))
    });
    all.collect()
}

/// By reason: how many, and the first of them.
fn summary(text: &str) -> Vec<String> {
    let mut reasons = BTreeMap::<&str, Vec<&str>>::new();
    for line in text.lines() {
        let (test, why) = line.split_once('\t').unwrap_or(("a test", line));
        reasons.entry(why).or_default().push(test);
    }
    let say = |(why, tests): (&str, Vec<&str>)| match &tests[..] {
        [only] => format!("{only} is not run: {why}"),
        [first, others @ ..] => format!("{first} and {} others are not run: {why}", others.len()),
        [] => unreachable!("a reason has a test"),
    };
    reasons.into_iter().map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_put_together_by_their_reasons() {
        let lines = summary("a\tno device\nb\tno root\nc\tno device\n");
        assert_eq!(lines, ["a and 1 others are not run: no device", "b is not run: no root"]);
        assert!(summary("").is_empty());
    }
}
