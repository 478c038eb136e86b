//! Commands of a step: what they print is kept, and shown when it matters.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::failure::{self, Failed};
use super::skips;
use crate::workspace::Workspace;

/// Lines shown of a command that fails, the last ones: the log has all of them.
const SHOWN_LINES: usize = 300;

/// Lines shown around each line further above that speaks of a failure, and of such lines at most.
const AROUND: usize = 6;
const SHOWN_FAILURES: usize = 25;

/// What is shown of a command that succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// Nothing.
    Nothing,
    /// The closing line of each test program, with the program's name.
    Closing,
}

/// A command to be run.
#[derive(Debug)]
pub(super) struct Run {
    step: String,
    program: OsString,
    arguments: Vec<OsString>,
    directory: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    log: PathBuf,
    skips: PathBuf,
    show: Show,
    hint: &'static str,
}

/// What a command has printed, on both of its streams.
#[derive(Debug)]
pub(super) struct Output(pub(super) Vec<String>);

impl Run {
    /// A program, run in the workspace's root.
    pub(super) fn program(
        workspace: &Workspace,
        step: &str,
        program: impl Into<OsString>,
        arguments: &[&str],
    ) -> Self {
        let logs = workspace.metadata.target_directory.as_std_path().join("xtask");
        Self {
            // A path that cannot be written is noticed by the log, which lies beside it.
            skips: skips::file(workspace, step).unwrap_or_default(),
            step: step.to_owned(),
            program: program.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            directory: workspace.root.clone(),
            environment: Vec::new(),
            log: logs.join(format!("{step}.log")),
            show: Show::Nothing,
            hint: "",
        }
    }

    /// The cargo that started this program.
    pub(super) fn cargo(workspace: &Workspace, step: &str, arguments: &[&str]) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Self::program(workspace, step, cargo, arguments)
    }

    /// Runs in a directory below the root.
    pub(super) fn inside(mut self, directory: &str) -> Self {
        self.directory.push(directory);
        self
    }

    /// Sets a variable.
    pub(super) fn env(mut self, name: &'static str, value: impl AsRef<Path>) -> Self {
        self.environment.push((name, value.as_ref().into()));
        self
    }

    /// What to show of it.
    pub(super) fn show(mut self, show: Show) -> Self {
        self.show = show;
        self
    }

    /// What to do when it fails.
    pub(super) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = hint;
        self
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it cannot be started or does not succeed; its output has been shown then.
    pub(super) fn run(self) -> Result<Output> {
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        let mut command = Command::new(&self.program);
        command.env(skips::VARIABLE, &self.skips);
        command.args(&self.arguments).current_dir(&self.directory);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdout(writer.try_clone().context("cannot make a pipe")?).stderr(writer);
        let mut child =
            command.spawn().with_context(|| format!("cannot start {:?}", self.program))?;
        // The command holds the writing ends; without it the pipe would never end.
        drop(command);
        let logs = self.log.parent().expect("a log lies in a directory");
        std::fs::create_dir_all(logs).with_context(|| format!("cannot make {logs:?}"))?;
        let mut log = File::create(&self.log)
            .with_context(|| format!("cannot write {}", self.log.display()))?;
        let mut lines = Vec::new();
        for line in BufReader::new(reader).split(b'\n') {
            let line = line.context("cannot read what the command prints")?;
            let line = String::from_utf8_lossy(&line).into_owned();
            writeln!(log, "{line}").context("cannot write the log")?;
            if self.show == Show::Closing && is_closing(&line) {
                say(&format!("    {}: {}", self.step, line.trim()));
            }
            lines.push(line);
        }
        let status = child.wait().context("cannot wait for the command")?;
        if status.success() {
            return Ok(Output(lines));
        }
        let hidden = lines.len().saturating_sub(SHOWN_LINES);
        let mut shown = Vec::new();
        if hidden > 0 {
            shown
                .extend(around_failures(&lines[..hidden]).iter().map(|line| format!("    {line}")));
            shown.push(format!("    ... {hidden} lines before are in {}", self.log.display()));
        }
        shown.extend(lines[hidden..].iter().map(|line| format!("    {line}")));
        say(&shown.join("\n"));
        let mut failures = failure::of_output(&self.step, &lines, &self.log, |_| self.shown());
        failures[0].said.push(format!("it ended with {status}"));
        failures[0].said.extend((!self.hint.is_empty()).then(|| self.hint.to_owned()));
        Err(Failed(failures).into())
    }

    fn shown(&self) -> String {
        let name = Path::new(&self.program).file_name().unwrap_or(&self.program);
        let mut shown: String = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}='{}' ", value.to_string_lossy()))
            .collect();
        shown.push_str(&name.to_string_lossy());
        for argument in &self.arguments {
            shown.push(' ');
            shown.push_str(&argument.to_string_lossy());
        }
        shown
    }
}

/// The lines that speak of a failure, with what stands around them. Tests that come after a failed
/// one may print more than is shown of the end.
fn around_failures(lines: &[String]) -> Vec<&str> {
    let speaks = |line: &String| {
        ["panicked at", "watchdog:", "error: test failed"].iter().any(|word| line.contains(word))
    };
    let mut shown = Vec::new();
    let mut next = 0;
    for (place, _) in lines.iter().enumerate().filter(|(_, line)| speaks(line)).take(SHOWN_FAILURES)
    {
        let start = place.saturating_sub(AROUND).max(next);
        if start > next {
            shown.push("...");
        }
        next = (place + AROUND + 1).min(lines.len()).max(start);
        shown.extend(lines[start..next].iter().map(String::as_str));
    }
    shown
}

/// Whether cargo names a test program here, or the program closes.
fn is_closing(line: &str) -> bool {
    let line = line.trim_start();
    ["Running ", "Doc-tests ", "test result: "].iter().any(|start| line.starts_with(start))
}

/// How many tests programs have had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    ignored: u64,
    programs: u64,
}

impl Counts {
    /// By the closing lines of the programs.
    pub(super) fn of(lines: &[String]) -> Self {
        let mut counts = Self::default();
        for line in lines.iter().filter(|line| line.starts_with("test result: ")) {
            counts.passed += number_before(line, "passed");
            counts.ignored += number_before(line, "ignored");
            counts.programs += 1;
        }
        counts
    }

    pub(super) fn add(&mut self, others: &Self) {
        self.passed += others.passed;
        self.ignored += others.ignored;
        self.programs += others.programs;
    }

    /// # Errors
    /// When there were none: a filter that matches nothing must not pass for success.
    pub(super) fn said(&self) -> Result<String> {
        let Self { passed, ignored, programs } = self;
        if *passed == 0 {
            bail!("no test ran");
        }
        Ok(format!("{passed} tests passed, {ignored} ignored, in {programs} programs"))
    }
}

impl Output {
    /// How many tests there were.
    ///
    /// # Errors
    /// When there were none.
    pub(super) fn counted(&self) -> Result<String> {
        Counts::of(&self.0).said()
    }
}

/// Prints lines, not mixed with those of other steps.
pub(super) fn say(lines: &str) {
    let mut out = std::io::stdout().lock();
    // A terminal that has gone does not make tests fail.
    let _ = writeln!(out, "{lines}");
    let _ = out.flush();
}

fn number_before(line: &str, word: &str) -> u64 {
    let mut before = "";
    for part in line.split_whitespace() {
        if part.trim_end_matches(';') == word {
            return before.parse().unwrap_or(0);
        }
        before = part;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_over_all_programs() {
        let line = "test result: ok. 7 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out";
        let output = Output(vec!["running 9 tests".into(), line.into(), line.into()]);
        let counted = output.counted().expect("tests ran");
        assert_eq!(counted, "14 tests passed, 4 ignored, in 2 programs");
    }

    #[test]
    fn what_failed_is_shown_wherever_it_stands() {
        let mut lines: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        assert!(around_failures(&lines).is_empty());
        lines[3] = "thread 'a' panicked at b.rs:1".into();
        lines[5] = "thread 'c' panicked at d.rs:2".into();
        lines[98] = "watchdog: e".into();
        let shown = around_failures(&lines);
        assert_eq!(shown[..2], ["0", "1"]);
        assert_eq!(shown[11..14], ["11", "...", "92"]);
        assert_eq!(*shown.last().expect("there are some"), "99");
    }

    #[test]
    fn a_run_without_tests_is_a_failure() {
        let line = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 30 filtered out";
        assert!(Output(vec![line.into()]).counted().is_err());
        assert!(Output(vec![]).counted().is_err());
    }

    #[test]
    fn output_and_failure_of_a_command_come_back() {
        let workspace = Workspace::find().expect("tests run inside the workspace");
        let run = |script| Run::program(&workspace, "self-test", "sh", &["-c", script]).run();
        let Output(lines) = run("echo one; echo two >&2").expect("it succeeds");
        assert_eq!(lines, ["one", "two"]);
        let error = run("exit 3").expect_err("it fails");
        let Failed(failures) = error.downcast().expect("a command that fails is a failure");
        assert_eq!(failures[0].said, ["it ended with exit status: 3"]);
        assert_eq!(failures[0].command, "sh -c exit 3");
        assert!(Run::program(&workspace, "self-test", "/no/such", &[]).run().is_err());
    }
}
