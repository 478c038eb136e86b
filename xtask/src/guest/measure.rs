//! `cargo xtask bench verbs`: what an operation of the verbs transport costs beside perftest, in one
//! boot of the guest.
//!
//! **Counted.** A library of ours (`count_verbs.c`) is preloaded into Debian's `ib_send_lat` and
//! `ib_write_lat` and into our program (`verbs_ops`, an example of the provider). It stands between
//! the program and the driver, so that both are counted by the same lines. Each program runs N and
//! 2N round trips of 8 bytes, and the difference divided by N is what one takes: the start falls
//! out. Counted are the calls of the thread that makes the operations; what Bowline's thread for
//! connections sends is shown beside it. More calls, requests or ringings than perftest's fail the
//! command: by counts, so that one request in all the round trips is one too many.
//!
//! **Instructions** of our side are callgrind's, which runs in the guest, again by the difference of
//! two runs, and divided by the file that they are in. What the kernel does is not among them, and
//! neither are polls in vain: our program waits until there is something to find. perftest has no
//! functions to toggle at and waits by polling, so there is nothing to compare with.
//!
//! **Times** are printed and mean little: the processors are emulated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use super::{Options, Program, Work, boot, programs_of};
use crate::needs;
use crate::workspace::Workspace;

/// Round trips of the shorter run that is counted; a multiple of the batches in which receive
/// buffers are posted and completions asked for.
const COUNT: u64 = 1024;

/// The same under callgrind.
const CALLS: u64 = 128;

/// What callgrind needs of itself in the guest.
const VALGRIND: &[&str] =
    &["callgrind-amd64-linux", "default.supp", "vgpreload_core-amd64-linux.so"];

/// How to measure.
#[derive(clap::Args, Debug)]
pub(crate) struct MeasureOptions {
    /// Pairs of runs of which the medians are taken
    #[arg(long, default_value_t = 5)]
    pairs: u32,
    /// Where to write the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// What one operation costs on one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Cost {
    post_send_calls: f64,
    work_requests: f64,
    /// Of these, the ones that carry nothing: markers and probes.
    empty_requests: f64,
    doorbells: f64,
    post_recv_calls: f64,
    receive_requests: f64,
    polls_with_result: f64,
    completions: f64,
    /// Requests of other threads in the longer run, all together.
    other_requests: u64,
    /// Nanoseconds, half of a round trip; the median of each run's median.
    median_ns: u64,
}

/// Instructions of one operation, by the file that they are in.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Instructions {
    /// The call that posts.
    post: BTreeMap<String, f64>,
    /// The progress that finds what came back, and its share of completions.
    progress: BTreeMap<String, f64>,
}

/// An operation beside its yardstick.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    operation: &'static str,
    yardstick: &'static str,
    bowline: Cost,
    perftest: Cost,
    /// Of each pair, how much longer ours took, in percent; the median of them.
    longer_percent: f64,
    instructions: Instructions,
}

/// The operations: its name, the yardstick, and the call under callgrind that posts it.
const OPERATIONS: [(&str, &str); 2] = [("send", "ib_send_lat"), ("put", "ib_write_lat")];

/// Measures, prints the table, and fails when an operation costs more calls than the yardstick.
///
/// # Errors
/// When something is missing, does not run in the guest, or costs more.
pub(crate) fn run(workspace: &Workspace, options: &MeasureOptions) -> Result<()> {
    let needed = [needs::OF_GUEST, needs::OF_INSTRUCTIONS, needs::OF_COUNTED_VERBS].concat();
    let missing = needs::missing(&needed);
    if !missing.is_empty() {
        bail!("{}", needs::explain(&missing));
    }
    let what = ["--release", "--example", "verbs_ops"];
    let mut work = Work::default();
    for program in programs_of(workspace, &[], "bowline-verbs", &[], &what)? {
        work.bring(&program);
    }
    work.bring(&Program { name: "count_verbs.so".to_owned(), path: build_counter(workspace)? });
    work.files.push(needs::find("valgrind.bin").context("valgrind.bin is not installed")?);
    work.files.extend(VALGRIND.iter().map(|name| Path::new("/usr/libexec/valgrind").join(name)));
    let pairs = options.pairs.max(1);
    let script = include_str!("measure.sh");
    work.script = format!("COUNT={COUNT} CALLS={CALLS} PAIRS={pairs}\n{script}");
    let guest = Options { limit: 900, processors: 2, ..Options::default() };
    let ended = boot(workspace, &work, &guest)?;
    ensure!(ended.status == 0, "the guest's command ended with status {}", ended.status);
    let figures = Figures::of(&ended.lines)?;
    let rows = OPERATIONS.map(|(operation, yardstick)| row(&figures, operation, yardstick));
    let rows: Vec<Row> = rows.into_iter().collect::<Result<_>>()?;
    print!("{}", table(&rows));
    if let Some(path) = &options.json {
        let mut text = serde_json::to_string_pretty(&rows).context("cannot write the figures")?;
        text.push('\n');
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("written: {}", path.display());
    }
    let more: Vec<String> = rows.iter().flat_map(dearer).collect();
    ensure!(more.is_empty(), "more than the yardstick takes:\n  {}", more.join("\n  "));
    Ok(())
}

/// Compiles the library that counts.
fn build_counter(workspace: &Workspace) -> Result<PathBuf> {
    let directory = workspace.metadata.target_directory.as_std_path().join("guest");
    std::fs::create_dir_all(&directory).context("cannot make the guest's directory")?;
    let (source, library) = (directory.join("count_verbs.c"), directory.join("count_verbs.so"));
    std::fs::write(&source, include_str!("count_verbs.c")).context("cannot write count_verbs.c")?;
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .output()
        .context("cannot start cc")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "count_verbs.c does not compile:\n{said}");
    Ok(library)
}

/// What the guest has printed: values by operation, program and name, in order.
#[derive(Debug, Default)]
struct Figures(BTreeMap<(String, String, String), Vec<u64>>);

impl Figures {
    fn of(lines: &[String]) -> Result<Self> {
        let mut figures = BTreeMap::<_, Vec<u64>>::new();
        for line in lines {
            let Some(rest) = line.strip_prefix("measured ") else { continue };
            let [operation, program, name, value] = rest.split(' ').collect::<Vec<_>>()[..] else {
                bail!("a damaged line: {line:?}");
            };
            let value = value.parse().with_context(|| format!("a damaged line: {line:?}"))?;
            let key = (operation.to_owned(), program.to_owned(), name.to_owned());
            figures.entry(key).or_default().push(value);
        }
        Ok(Self(figures))
    }

    fn all(&self, operation: &str, program: &str, name: &str) -> &[u64] {
        let key = (operation.to_owned(), program.to_owned(), name.to_owned());
        self.0.get(&key).map_or(&[], Vec::as_slice)
    }

    /// What one operation takes, when `count` and twice as many were run.
    fn each(&self, operation: &str, program: &str, name: &str, count: u64) -> Result<f64> {
        let once = |run| self.once(operation, program, name, run);
        let (short, long) = (once(count)?, once(2 * count)?);
        Ok((long as f64 - short as f64) / count as f64)
    }

    /// What one run has counted.
    fn once(&self, operation: &str, program: &str, name: &str, run: u64) -> Result<u64> {
        match self.all(operation, program, &format!("{name}.{run}")) {
            [value] => Ok(*value),
            others => bail!("{name} of {program} {operation} was shown {} times", others.len()),
        }
    }

    fn cost(&self, operation: &str, program: &str) -> Result<Cost> {
        let each = |name| self.each(operation, program, name, COUNT);
        let cost = Cost {
            post_send_calls: each("post_send_calls")?,
            work_requests: each("work_requests")?,
            empty_requests: each("empty_requests")?,
            doorbells: each("doorbells")?,
            post_recv_calls: each("post_recv_calls")?,
            receive_requests: each("receive_requests")?,
            polls_with_result: each("polls_with_result")?,
            completions: each("completions")?,
            other_requests: self.once(operation, program, "other_requests", 2 * COUNT)?,
            median_ns: median(self.all(operation, program, "median_ns"))
                .with_context(|| format!("{program} showed no time of {operation}"))?,
        };
        // A program that goes round the counted functions would seem to cost nothing.
        ensure!(cost.work_requests > 0.9, "{program}'s {operation} was not seen to be posted");
        Ok(cost)
    }

    /// Instructions in calls of `measured_CALL`, by file.
    fn instructions(&self, operation: &str, call: &str) -> Result<BTreeMap<String, f64>> {
        let prefix = format!("instructions.{call}.");
        let suffix = format!(".{}", 2 * CALLS);
        let mut by_file = BTreeMap::new();
        for (of, program, name) in self.0.keys() {
            if of == operation
                && program == "bowline"
                && let Some(file) = name.strip_prefix(&prefix).and_then(|f| f.strip_suffix(&suffix))
            {
                let name = format!("{prefix}{file}");
                let each = match self.each(operation, "bowline", &name, CALLS) {
                    Ok(each) => each,
                    // A file that only the longer run has entered.
                    Err(_) => continue,
                };
                if each > 0.0 {
                    by_file.insert(file.to_owned(), each);
                }
            }
        }
        ensure!(!by_file.is_empty(), "no instruction of `measured_{call}` was counted");
        Ok(by_file)
    }
}

fn median(values: &[u64]) -> Option<u64> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

fn row(figures: &Figures, operation: &'static str, yardstick: &'static str) -> Result<Row> {
    let times = |program| figures.all(operation, program, "median_ns");
    let pairs = times("bowline").iter().zip(times("perftest"));
    let mut longer: Vec<f64> =
        pairs.map(|(ours, theirs)| (*ours as f64 / *theirs as f64 - 1.0) * 100.0).collect();
    longer.sort_by(f64::total_cmp);
    Ok(Row {
        operation,
        yardstick,
        bowline: figures.cost(operation, "bowline")?,
        perftest: figures.cost(operation, "perftest")?,
        longer_percent: longer.get(longer.len() / 2).copied().context("there was no pair")?,
        instructions: Instructions {
            post: figures.instructions(operation, operation)?,
            progress: figures.instructions(operation, "progress")?,
        },
    })
}

/// A figure: its name, its value in both programs, and whether ours may not be larger.
type Line = (&'static str, f64, f64, bool);

fn lines(row: &Row) -> [Line; 10] {
    let (ours, theirs) = (&row.bowline, &row.perftest);
    let others = |cost: &Cost| cost.other_requests as f64;
    [
        ("calls of post_send", ours.post_send_calls, theirs.post_send_calls, true),
        ("work requests", ours.work_requests, theirs.work_requests, true),
        ("  of them, without data", ours.empty_requests, theirs.empty_requests, true),
        ("doorbells", ours.doorbells, theirs.doorbells, true),
        ("calls of post_recv", ours.post_recv_calls, theirs.post_recv_calls, true),
        ("receive requests", ours.receive_requests, theirs.receive_requests, true),
        ("polls that found something", ours.polls_with_result, theirs.polls_with_result, true),
        ("completions", ours.completions, theirs.completions, true),
        ("for connections, in all", others(ours), others(theirs), false),
        ("median, us", ours.median_ns as f64 / 1e3, theirs.median_ns as f64 / 1e3, false),
    ]
}

fn dearer(row: &Row) -> Vec<String> {
    let counted =
        lines(row).into_iter().filter(|(_, ours, theirs, judged)| *judged && *ours > *theirs);
    counted
        .map(|(what, ours, theirs, _)| {
            format!("{}: {ours:.3} {what} instead of {theirs:.3}", row.operation)
        })
        .collect()
}

fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let Row { operation, yardstick, .. } = row;
        text.push_str(&format!("\n{operation} of 8 bytes {:>22} {yardstick:>13}\n", "Bowline"));
        for (what, ours, theirs, _) in lines(row) {
            text.push_str(&format!("  {what:<28} {ours:>8.3} {theirs:>13.3}\n"));
        }
        let longer = row.longer_percent;
        text.push_str(&format!("  {:<28} {longer:>+7.1}%\n", "in the pairs, ours took"));
        for (call, by_file) in
            [("posting", &row.instructions.post), ("progress", &row.instructions.progress)]
        {
            let total: f64 = by_file.values().sum();
            let parts: Vec<String> =
                by_file.iter().map(|(file, each)| format!("{file} {each:.1}")).collect();
            let what = format!("instructions, {call}");
            text.push_str(&format!("  {what:<28} {total:>8.1}  ({})\n", parts.join(", ")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(extra: &[&str]) -> Vec<String> {
        let mut lines = vec!["something else".to_owned()];
        for (operation, _) in OPERATIONS {
            for program in ["bowline", "perftest"] {
                for name in [
                    "post_send_calls",
                    "work_requests",
                    "empty_requests",
                    "doorbells",
                    "post_recv_calls",
                    "receive_requests",
                    "polls_with_result",
                    "completions",
                ] {
                    for (run, value) in [(COUNT, COUNT + 7), (2 * COUNT, 2 * COUNT + 7)] {
                        lines.push(format!("measured {operation} {program} {name}.{run} {value}"));
                    }
                }
                let run = 2 * COUNT;
                lines.push(format!("measured {operation} {program} other_requests.{run} 3"));
                lines.push(format!("measured {operation} {program} median_ns 1000"));
            }
            for call in [operation, "progress"] {
                for (run, value) in [(CALLS, CALLS * 50 + 9), (2 * CALLS, CALLS * 100 + 9)] {
                    let name = format!("instructions.{call}.verbs_ops.{run}");
                    lines.push(format!("measured {operation} bowline {name} {value}"));
                }
            }
        }
        lines.extend(extra.iter().map(|&line| line.to_owned()));
        lines
    }

    #[test]
    fn what_both_runs_have_falls_out_and_equal_costs_pass() {
        let figures = Figures::of(&printed(&[])).expect("they are figures");
        let row = row(&figures, "put", "ib_write_lat").expect("all is there");
        assert_eq!((row.bowline.work_requests, row.bowline.completions), (1.0, 1.0));
        assert_eq!(row.instructions.post["verbs_ops"], 50.0);
        assert_eq!(row.longer_percent, 0.0);
        assert!(dearer(&row).is_empty());
        let shown = table(std::slice::from_ref(&row));
        assert!(shown.contains("work requests"), "{shown}");
        let doorbells = 1.0 + 1.0 / COUNT as f64;
        let dear = Row { bowline: Cost { doorbells, ..row.bowline.clone() }, ..row };
        assert_eq!(dearer(&dear), ["put: 1.001 doorbells instead of 1.000"]);
    }

    #[test]
    fn figures_that_are_missing_or_damaged_are_errors() {
        assert!(Figures::of(&["measured send bowline".to_owned()]).is_err());
        assert!(Figures::of(&["measured send bowline x y".to_owned()]).is_err());
        let mut lines = printed(&[]);
        lines.retain(|line| !line.contains("doorbells"));
        let figures = Figures::of(&lines).expect("they are figures");
        assert!(row(&figures, "send", "ib_send_lat").is_err());
        let twice = printed(&[&format!("measured send bowline doorbells.{COUNT} 5")]);
        let figures = Figures::of(&twice).expect("they are figures");
        assert!(row(&figures, "send", "ib_send_lat").is_err());
    }
}
