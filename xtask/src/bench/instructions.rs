//! Instructions per operation, counted by callgrind: a figure that does not depend on the
//! machine's load, so that it can be a check.
//!
//! Each mode of the example `instructions`, or of the C program beside this file, runs twice, with N and with 2N operations, and counts
//! only inside `measured_MODE` (`--toggle-collect`). The difference divided by N is what one
//! operation takes once everything is warm: start, first contact and the lazy binding of symbols
//! are in both runs and fall out. Cache misses and stalls are not in it; a smaller count is not
//! always a faster program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::instructions_c::Job;
use super::modes::{MODES, Mode};
use super::output;
use crate::needs;
use crate::workspace::Workspace;

/// The committed figures.
const BASELINE: &str = "bench/instructions.json";

/// Growth that fails, in percent: compilers differ by a few instructions between versions.
const GROWTH_PERCENT: u64 = 5;

/// Operations of the shorter run; a multiple of the example's batches.
const CALLS: u64 = 6400;
const CALLS_QUICK: u64 = 640;

/// How to count.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Options {
    /// Count fewer operations
    #[arg(long)]
    quick: bool,
    /// Take what is counted now as the committed figures
    #[arg(long)]
    update: bool,
    /// Only these operations
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where to write the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One operation's figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    operation: String,
    instructions: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<u64>,
    /// The committed figure, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<u64>,
}

/// Counts and compares.
///
/// # Errors
/// When valgrind is missing, an example fails, or an operation takes more instructions than the
/// committed figure allows.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let missing = needs::missing(needs::OF_INSTRUCTIONS);
    if !missing.is_empty() {
        bail!("{}", needs::explain(&missing));
    }
    if let Some(unknown) = options.only.iter().find(|name| !MODES.iter().any(|m| m.name == **name))
    {
        let known: Vec<&str> = MODES.iter().map(|mode| mode.name).collect();
        bail!("no operation {unknown:?}; there are {}", known.join(", "));
    }
    let wanted =
        |mode: &&Mode| options.only.is_empty() || options.only.iter().any(|n| n == mode.name);
    if MODES.iter().filter(wanted).any(|mode| !mode.of_c) {
        super::build_release(workspace, &["-p", "bowline", "--example", "instructions"])?;
    }
    let of_c = MODES.iter().filter(wanted).any(|mode| mode.of_c);
    let job = if of_c { Some(Job::build(workspace)?) } else { None };
    let baseline = Baseline::read(&workspace.root.join(BASELINE))?;
    let calls = if options.quick { CALLS_QUICK } else { CALLS };
    let target = workspace.metadata.target_directory.as_std_path();
    let mut rows = Vec::new();
    println!("{:<14} {:>12} {:>8} {:>10}", "operation", "instructions", "goal", "committed");
    for mode in MODES.iter().filter(wanted) {
        let row = Row {
            operation: mode.name.to_owned(),
            instructions: per_operation(mode, calls, |calls| match &job {
                Some(job) if mode.of_c => job.collected(mode.name, calls),
                _ => collected(target, mode, calls),
            })?,
            goal: mode.goal,
            before: baseline.0.get(mode.name).copied(),
        };
        let before = row.before.map_or_else(|| "-".to_owned(), |before| before.to_string());
        let Row { operation, instructions, .. } = &row;
        let goal = row.goal.map_or_else(|| "-".to_owned(), |goal| goal.to_string());
        println!("{operation:<14} {instructions:>12} {goal:>8} {before:>10}  {}", mode.what);
        rows.push(row);
    }
    if let Some(path) = &options.json {
        output::write_json(path, &rows)?;
    }
    if options.update {
        return baseline.updated(&rows).write(&workspace.root.join(BASELINE));
    }
    let grown: Vec<String> = rows.iter().filter_map(growth).collect();
    if !grown.is_empty() {
        bail!(
            "more instructions than committed in {BASELINE}:\n  {}\nif that is meant, commit the \
             new figures: cargo xtask bench instructions --update",
            grown.join("\n  ")
        );
    }
    Ok(())
}

/// What is wrong with a row, if it grew by more than the allowed share.
fn growth(row: &Row) -> Option<String> {
    let before = row.before?;
    let most = before + before * GROWTH_PERCENT / 100;
    (row.instructions > most)
        .then(|| format!("{}: {} instead of {before}", row.operation, row.instructions))
}

fn per_operation(mode: &Mode, calls: u64, collected: impl Fn(u64) -> Result<u64>) -> Result<u64> {
    let one = collected(calls)?;
    let two = collected(2 * calls)?;
    difference(one, two, calls)
        .with_context(|| format!("`measured_{}` was not seen to run {calls} times", mode.name))
}

/// Instructions of one operation, rounded, when `calls` took `one` and twice as many took `two`.
pub(super) fn difference(one: u64, two: u64, calls: u64) -> Option<u64> {
    let more = two.checked_sub(one)?;
    (more >= calls).then(|| (more + calls / 2) / calls)
}

fn collected(target: &Path, mode: &Mode, calls: u64) -> Result<u64> {
    let program = target.join("release/examples/instructions");
    callgrind(target, mode.name, &program, &[mode.name, &calls.to_string()])
}

/// Instructions inside `measured_NAME` of a program.
pub(super) fn callgrind(
    target: &Path,
    name: &str,
    program: &Path,
    arguments: &[&str],
) -> Result<u64> {
    let directory = target.join("xtask");
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let out = directory.join(format!("callgrind.{name}"));
    let mut file = std::ffi::OsString::from("--callgrind-out-file=");
    file.push(&out);
    let output = Command::new("valgrind")
        .args(callgrind_options(name))
        .arg(file)
        .arg(program)
        .args(arguments)
        .output()
        .context("cannot start valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{} failed in mode {name}: {}\n{said}", program.display(), output.status);
    }
    total_of(&out).with_context(|| said.into_owned())
}

/// The arguments of callgrind, to count inside `measured_NAME`.
pub(super) fn callgrind_options(name: &str) -> [String; 4] {
    let toggle = format!("--toggle-collect=*measured_{name}*");
    ["--tool=callgrind".into(), "--dump-instr=no".into(), "--collect-jumps=no".into(), toggle]
}

/// The total of a file that callgrind has left.
pub(super) fn total_of(out: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(out)
        .with_context(|| format!("callgrind left no {}", out.display()))?;
    total(&text).with_context(|| format!("no total in {}", out.display()))
}

/// The total of a callgrind file: its line `totals:` (or `summary:` where that is missing).
fn total(text: &str) -> Option<u64> {
    let find = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    find("totals:").or_else(|| find("summary:"))?.split_whitespace().next()?.parse().ok()
}

/// The committed figures, by operation.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Baseline(BTreeMap<String, u64>);

impl Baseline {
    /// Nothing committed yet is an empty baseline; a damaged one is an error.
    fn read(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// With the new rows; operations that were not counted keep their figures.
    fn updated(mut self, rows: &[Row]) -> Self {
        self.0.extend(rows.iter().map(|row| (row.operation.clone(), row.instructions)));
        self.0.retain(|name, _| MODES.iter().any(|mode| mode.name == name));
        self
    }

    fn write(&self, path: &Path) -> Result<()> {
        output::write_json(path, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_runs_have_falls_out() {
        assert_eq!(difference(1_000 + 640 * 50, 1_000 + 1280 * 50, 640), Some(50));
        assert_eq!(difference(10, 10, 640), None, "nothing was collected");
        assert_eq!(difference(10, 5, 640), None);
    }

    #[test]
    fn the_total_of_a_callgrind_file() {
        assert_eq!(total("version: 1\nsummary: 3\n\ntotals: 1234\n"), Some(1234));
        assert_eq!(total("events: Ir\nsummary: 77 1\n"), Some(77));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn growth_beyond_five_percent_fails() {
        let row = |instructions, before| Row {
            operation: "tag_send".into(),
            instructions,
            goal: Some(1),
            before,
        };
        assert_eq!(growth(&row(105, Some(100))), None);
        assert!(growth(&row(106, Some(100))).is_some_and(|why| why.contains("tag_send: 106")));
        assert_eq!(growth(&row(50, Some(100))), None);
        assert_eq!(growth(&row(5000, None)), None);
    }

    #[test]
    fn a_baseline_keeps_what_was_not_counted_and_drops_what_is_gone() {
        let text = r#"{ "tag_send": 9, "tag_recv": 8, "gone": 1 }"#;
        let baseline: Baseline = serde_json::from_str(text).expect("it is one");
        let row =
            Row { operation: "tag_send".into(), instructions: 7, goal: Some(1), before: Some(9) };
        let updated = baseline.updated(&[row]);
        let entries: Vec<_> = updated.0.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(entries, [("tag_recv", 8), ("tag_send", 7)]);
    }
}
