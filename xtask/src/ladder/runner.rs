//! Runs test programs, several at a time: some compute, others wait for time-outs and processes.
//!
//! What a program prints is in a file of its own. Its closing line is shown when it ends, under its
//! name with the time that it took, and what failed is handed back.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Outcome;
use super::command::{Counts, say};
use super::failure::{self, Failed, Failure};
use super::skips;
use crate::programs::{Kind, Program};
use crate::workspace::Workspace;

/// A program that runs longer hangs. Those that can have watchdogs of their own.
const HANGS: Duration = Duration::from_secs(2400);

/// A test program and how to run it.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) program: &'a Program,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(&'static str, String)>,
}

/// How a job ended.
struct Ended {
    counts: Counts,
    failures: Vec<Failure>,
}

/// What all jobs of a step share.
struct Stage<'a> {
    step: &'a str,
    logs: PathBuf,
    skips: PathBuf,
    libraries: String,
}

/// Runs all jobs of a step.
///
/// # Errors
/// [`Failed`], after all have ended, and when none had a test to run.
pub(super) fn run(workspace: &Workspace, step: &str, mut jobs: Vec<Job<'_>>) -> Result<Outcome> {
    let target = workspace.metadata.target_directory.as_std_path();
    let logs = target.join("xtask").join(step);
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {logs:?}"))?;
    let stage =
        Stage { step, logs, skips: skips::file(workspace, step)?, libraries: libraries(target)? };
    // The longest first, so that none of them is left to run alone.
    let times_file = stage.logs.join("times.json");
    let mut times = read_times(&times_file);
    let expected = |job: &Job<'_>| times.get(&job.program.name()).copied().unwrap_or(1.0);
    jobs.sort_by(|a, b| expected(b).total_cmp(&expected(a)));
    let lanes = std::thread::available_parallelism().map_or(2, |n| n.get()).clamp(2, 8);
    let (next, ended) = (Mutex::new(jobs.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    // A statement of its own: the lock is not held while the program runs.
                    let job = next.lock().expect("nobody panics with it").next();
                    let Some(job) = job else { break };
                    let began = Instant::now();
                    let outcome = stage.run(job);
                    let took = began.elapsed().as_secs_f64();
                    let name = job.program.name();
                    ended.lock().expect("nobody panics with it").push((name, took, outcome));
                }
            });
        }
    });
    let (mut counts, mut failures) = (Counts::default(), Vec::new());
    for (name, took, outcome) in ended.into_inner().expect("nobody panics with it") {
        let ended = outcome?;
        times.insert(name, took);
        counts.add(&ended.counts);
        failures.extend(ended.failures);
    }
    let text = serde_json::to_string_pretty(&times).context("times are numbers")?;
    std::fs::write(&times_file, text).with_context(|| format!("cannot write {times_file:?}"))?;
    if !failures.is_empty() {
        return Err(Failed(failures).into());
    }
    Ok(Outcome::Passed(counts.said()?))
}

/// What each program took when it was run before; empty where there is nothing to read.
fn read_times(file: &Path) -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_else(|_| {
        let long = LONG.iter().rev().zip(2..);
        long.map(|(name, place)| ((*name).to_owned(), f64::from(place))).collect()
    })
}

/// Programs that take longest, for a clone in which nothing has been measured.
const LONG: &[&str] = &[
    "bowline-receive-queue main",
    "bowline-ucp main",
    "bowline-ofi main",
    "bowline-tests chaos",
    "bowline-tests jobs",
    "bowline-mpi main",
    "bowline-tests processes",
    "bowline-tests progress",
    "bowline-tests layers",
];

/// Where test programs find the compiler's libraries: those of procedural macros want them.
fn libraries(target: &Path) -> Result<String> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let output = rustc.args(["--print", "target-libdir"]).output().context("cannot start rustc")?;
    ensure!(output.status.success(), "rustc does not say where its libraries are");
    let libraries = String::from_utf8(output.stdout).context("a path that is no text")?;
    let deps = target.join("debug/deps");
    let before = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    Ok(format!("{}:{}:{before}", deps.display(), libraries.trim()))
}

impl Stage<'_> {
    fn run(&self, job: &Job<'_>) -> Result<Ended> {
        let Job { program, arguments, environment } = job;
        let name = program.name();
        let log = self.logs.join(format!("{}.log", name.replace(' ', ".")));
        let file = File::create(&log).with_context(|| format!("cannot write {log:?}"))?;
        let began = Instant::now();
        let mut child = Command::new(&program.path)
            .args(arguments)
            .current_dir(&program.directory)
            .env("CARGO_MANIFEST_DIR", &program.directory)
            .env("LD_LIBRARY_PATH", &self.libraries)
            .env(skips::VARIABLE, &self.skips)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file.try_clone().context("cannot share a file")?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", program.path.display()))?;
        let mut hung = false;
        let status = loop {
            if let Some(status) = child.try_wait().context("cannot wait for a program")? {
                break status;
            }
            if !hung && began.elapsed() > HANGS {
                hung = true;
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let bytes = std::fs::read(&log).with_context(|| format!("cannot read {log:?}"))?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let counts = Counts::of(&lines);
        let closing = lines.iter().rev().find(|line| line.starts_with("test result: "));
        let word = closing.cloned().unwrap_or_else(|| format!("ended with {status}"));
        // Programs without a test say nothing of interest.
        if !status.success() || counts.passed > 0 {
            say(&format!(
                "    Running {name} ({:.1} s)\n    {word}",
                began.elapsed().as_secs_f64()
            ));
        }
        let mut failures = Vec::new();
        if !status.success() {
            let whole = format!("{}: {name}", self.step);
            failures = failure::of_output(&whole, &lines, &log, |test| self.command(job, test));
            if hung {
                failures[0].said.push(format!("it was ended after {} s", HANGS.as_secs()));
            } else if closing.is_none() {
                failures[0].said.push(format!("it ended with {status}"));
            }
        }
        Ok(Ended { counts, failures })
    }

    /// The command by which people repeat a job, or a test of it.
    fn command(&self, job: &Job<'_>, test: Option<&str>) -> String {
        let set = |(name, value): &(&str, String)| format!("{name}='{value}' ");
        let environment: String = job.environment.iter().map(set).collect();
        let words = match test {
            Some(test) => format!("--exact '{test}'"),
            None => job.arguments.join(" "),
        };
        let dashes = if words.is_empty() { "" } else { " -- " };
        format!("{environment}cargo test {}{dashes}{words}", job.program.selection())
    }
}

/// Whether a program has tests.
pub(super) fn is_test(program: &&Program) -> bool {
    program.kind != Kind::Program
}
