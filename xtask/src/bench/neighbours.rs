//! Jobs of ranks that share processors while programs of others compute there: the time of a job with a
//! busy loop for each processor beside it, against the time without.
//!
//! Both are taken in turn, so that what else the machine does meets both. The busy loops are threads of
//! this program, which to a rank are as any other program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::output;
use crate::workspace::Workspace;

/// What to run and where to put it.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Fewer rounds
    #[arg(long)]
    quick: bool,
    /// Another command in place of the one that is built, to compare with
    #[arg(long, value_name = "FILE")]
    bowline: Option<PathBuf>,
    /// Where to write the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Quotient of the times that is aimed at. Four ranks and two loops share the processors fairly at 1.5.
const GOAL: f64 = 3.0;

/// A job that is timed.
struct Job {
    name: &'static str,
    arguments: Vec<String>,
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    job: &'static str,
    /// Median time without busy loops, seconds.
    quiet_s: f64,
    /// Median time beside them, seconds.
    beside_s: f64,
    /// Longest time beside them, seconds.
    beside_longest_s: f64,
    /// Quotient of the medians, and the one that is aimed at.
    quotient: f64,
    goal: f64,
}

/// Runs and shows.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    super::build_release(workspace, &["-p", "bowline-cli", "-p", "bowline-examples"])?;
    let release = workspace.metadata.target_directory.as_std_path().join("release");
    let command = options.bowline.clone().unwrap_or_else(|| release.join("bowline"));
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let kv = release.join("kv").display().to_string();
    let jobs = [
        Job { name: "heat", arguments: words("demo heat -n 4 --steps 2000") },
        Job { name: "kv", arguments: [words("run -n 4"), vec![kv]].concat() },
    ];
    let rounds = if options.quick { 3 } else { 9 };
    println!("{:<6} {:>9} {:>9} {:>9} {:>9}", "job", "quiet s", "beside s", "longest", "quotient");
    let mut rows = Vec::new();
    for job in &jobs {
        let (mut quiet, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            quiet.push(time(&command, job)?);
            beside.push(with_busy_loops(|| time(&command, job))?);
        }
        let row = Row::of(job.name, &mut quiet, &mut beside);
        let Row { quiet_s, beside_s, beside_longest_s, quotient, .. } = row;
        let mark = if quotient <= GOAL { "" } else { "  [missed]" };
        println!(
            "{:<6} {quiet_s:>9.3} {beside_s:>9.3} {beside_longest_s:>9.3} {quotient:>9.2}{mark}",
            job.name
        );
        rows.push(row);
    }
    if let Some(path) = &options.json {
        output::write_json(path, &rows)?;
    }
    Ok(())
}

impl Row {
    fn of(job: &'static str, quiet: &mut [f64], beside: &mut [f64]) -> Self {
        let median = |times: &mut [f64]| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let (quiet_s, beside_s) = (median(quiet), median(beside));
        let beside_longest_s = beside.iter().copied().fold(0.0, f64::max);
        let quotient = beside_s / quiet_s;
        Self { job, quiet_s, beside_s, beside_longest_s, quotient, goal: GOAL }
    }
}

/// Seconds from the start of a job to its end.
fn time(command: &Path, job: &Job) -> Result<f64> {
    let start = Instant::now();
    let output = Command::new(command)
        .args(&job.arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", command.display()))?;
    let took = start.elapsed().as_secs_f64();
    ensure!(
        output.status.success(),
        "{} failed: {}",
        job.name,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(took)
}

/// Does something while a busy loop runs for each processor.
fn with_busy_loops<T>(act: impl FnOnce() -> T) -> T {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for _ in 0..processors {
            let (held, end) = channel::<()>();
            running.push(held);
            scope.spawn(move || while end.try_recv() != Err(TryRecvError::Disconnected) {});
        }
        // The loops end when the other halves are dropped, also by a panic.
        let _running = running;
        act()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_medians_and_their_quotient() {
        let row = Row::of("x", &mut [3.0, 1.0, 2.0], &mut [5.0, 9.0, 4.0]);
        assert_eq!((row.quiet_s, row.beside_s, row.beside_longest_s), (2.0, 5.0, 9.0));
        assert_eq!(row.quotient, 2.5);
    }

    #[test]
    fn busy_loops_end_with_what_runs_beside_them() {
        assert_eq!(with_busy_loops(|| 7), 7);
    }
}
