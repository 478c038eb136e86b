//! Runs and their statistics, shown as a table and as JSON.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use bowline_model::fennel::instrument::{
    Bandwidth, Instrument, Ran, Skew, TraceRecorder, Utilisation,
};
use bowline_model::fennel::latency::LatencyDistribution;
use bowline_model::fennel::random::Streams;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::super::numbers;
use super::network::{AnyMachine, Plan};
use super::programs::Job;
use super::replay::Record;

/// How often, and from which chance.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Measurement")]
pub(super) struct RunOptions {
    /// Ranks come late by a time of their own: a distribution, as for --latency.
    #[arg(long, value_name = "DISTRIBUTION")]
    skew: Option<LatencyDistribution>,
    /// Where chance begins: the same seed gives the same runs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs, each with chance of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
}

/// The distribution of a figure.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) median: f64,
    pub(super) mean: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Of figures, of which there is at least one.
    pub(super) fn of(figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        // The least figure that so many of all do not exceed.
        let at = |part: f64| {
            let rank = (part * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
        };
        let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
        Self { min: at(0.0), median: at(0.5), mean, p90: at(0.9), p99: at(0.99), max: at(1.0) }
    }

    /// The mean of each.
    fn mean(all: &[Self]) -> Self {
        let of =
            |field: fn(&Self) -> f64| all.iter().map(field).sum::<f64>() / all.len().max(1) as f64;
        Self {
            min: of(|s| s.min),
            median: of(|s| s.median),
            mean: of(|s| s.mean),
            p90: of(|s| s.p90),
            p99: of(|s| s.p99),
            max: of(|s| s.max),
        }
    }

    fn row(&self, out: &mut String, name: &str) -> std::fmt::Result {
        let Self { min, median, mean, p90, p99, max } = self;
        writeln!(
            out,
            "{name:<18} {min:>12.1} {median:>12.1} {mean:>12.1} {p90:>12.1} {p99:>12.1} {max:>12.1}"
        )
    }
}

/// Everything that is reported.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    program: String,
    ranks: u32,
    network: String,
    skew: Option<String>,
    seed: u64,
    runs: u32,
    /// When the last rank of a run was done, over the runs.
    time_ns: Spread,
    /// The same from when the last rank came, where ranks come late.
    after_last_ns: Option<Spread>,
    /// From the first end to the last in a run, over the runs.
    spread_ns: Spread,
    /// The ends of the ranks of a run; of many runs, the means.
    ends_ns: Spread,
    /// The part of a run in which ranks were busy, over its ranks; of many runs, the means.
    utilisation: Spread,
    /// Messages of a run, and their bytes.
    messages: u64,
    bytes: u64,
    /// Gigabytes in a second, of all messages of a run, in the mean.
    bandwidth: f64,
    /// What was recorded of the program, if it is a job that was.
    pub(super) recorded: Option<Record>,
}

/// A run.
#[derive(Debug)]
struct Once {
    end: f64,
    last_came: f64,
    spread: f64,
    ends: Spread,
    utilisation: Spread,
    travelled: Bandwidth,
}

/// Runs a job, and what was run in the first one if that is wanted.
///
/// # Errors
/// When the job does not end, a fit does not hold for its messages, or all runs would be the same.
pub(super) fn measure(
    program: String,
    job: &Job,
    plan: &Plan,
    options: &RunOptions,
    recorder: Option<&mut TraceRecorder>,
) -> Result<Report> {
    ensure!(
        options.runs == 1 || plan.by_chance() || options.skew.is_some(),
        "--runs {}: all of them would be the same; --noise, --latency and --skew bring chance",
        options.runs
    );
    let ranks = job.ranks();
    let bar = bar(options.runs, job.tasks());
    let all = job.tasks().map(|tasks| tasks.saturating_mul(u64::from(options.runs)));
    if let Some(all) = all.filter(|all| *all > LONG) {
        let millions = all.div_ceil(MILLION);
        crate::say("bowline", format!("simulating about {millions} million tasks"));
    }
    let lines = (bar.is_hidden() && all.is_none_or(|all| all > LONG)).then_some(SELDOM);
    let begun = Instant::now();
    let mut shown = Shown { bar: &bar, of_tasks: options.runs == 1, lines, all, tasks: 0, begun };
    let mut recorder = recorder;
    let mut runs = Vec::new();
    for run in 0..options.runs {
        // The seeds of one run differ in their last bits only.
        let seed = options.seed.wrapping_add(u64::from(run) << 8);
        let keep = recorder.take();
        let (machine, beyond) = plan.machine(ranks, seed);
        runs.push(once(job, machine, options, seed, keep, &mut shown)?);
        if let Some(bytes) = beyond.least() {
            bail!(
                "the fit does not hold for messages of {bytes} bytes, which this program sends; take smaller ones, or \
                 another --network"
            );
        }
        if options.runs > 1 {
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let over = |of: fn(&Once) -> f64| Spread::of(&runs.iter().map(of).collect::<Vec<_>>());
    let mean = |of: fn(&Once) -> Spread| Spread::mean(&runs.iter().map(of).collect::<Vec<_>>());
    let Bandwidth { messages, bytes, .. } = runs[0].travelled;
    Ok(Report {
        program,
        ranks,
        network: plan.to_string(),
        skew: options.skew.as_ref().map(ToString::to_string),
        seed: options.seed,
        runs: options.runs,
        time_ns: over(|run| run.end),
        after_last_ns: options.skew.as_ref().map(|_| over(|run| run.end - run.last_came)),
        spread_ns: over(|run| run.spread),
        ends_ns: mean(|run| run.ends),
        utilisation: mean(|run| run.utilisation),
        messages,
        bytes,
        recorded: None,
        bandwidth: runs.iter().map(|run| run.travelled.mean()).sum::<f64>() / runs.len() as f64,
    })
}

fn once(
    job: &Job,
    mut machine: AnyMachine,
    options: &RunOptions,
    seed: u64,
    recorder: Option<&mut TraceRecorder>,
    shown: &mut Shown<'_>,
) -> Result<Once> {
    let ranks = job.ranks();
    let late: Vec<f64> = options.skew.as_ref().map_or(Vec::new(), |skew| {
        let mut streams = Streams::new(seed ^ 4);
        (0..ranks).map(|rank| skew.draw(&mut streams, rank)).collect()
    });
    let (mut skew, mut busy) = (Skew::new(ranks), Utilisation::new(ranks));
    let mut travelled = Bandwidth::default();
    let mut instruments: Vec<&mut dyn Instrument> =
        vec![&mut skew, &mut busy, &mut travelled, shown];
    if let Some(recorder) = recorder {
        instruments.push(recorder);
    }
    let end = match job {
        Job::Graph(program) => machine.run_late(program, &late, &mut instruments)?,
        Job::Steps(of) => machine.run_steps_late(&*of.source, &late, &mut instruments)?.end(),
    };
    ensure!(
        end.is_finite(),
        "the times of this run add up to more than can be counted; take shorter ones"
    );
    let part = |busy: &f64| if end > 0.0 { busy / end } else { 0.0 };
    let parts: Vec<f64> = busy.busy().iter().map(part).collect();
    Ok(Once {
        end,
        last_came: late.iter().copied().fold(0.0, f64::max),
        spread: skew.spread(),
        ends: Spread::of(skew.ends()),
        utilisation: Spread::of(&parts),
        travelled,
    })
}

/// A bar of the runs, or of one run the tasks that were run; hidden where the error stream is no terminal, where there are
/// [lines](Shown).
fn bar(runs: u32, tasks: Option<u64>) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(5);
    let (length, template) = match (runs, tasks) {
        (1, None) => (None, "{spinner} {pos} tasks, {elapsed}"),
        (1, tasks) => (tasks, "tasks {bar:40} {pos} of about {len}, {eta} left"),
        (runs, _) => (Some(u64::from(runs)), "runs {bar:40} {pos} of {len}, {eta} left"),
    };
    let style = ProgressStyle::with_template(template);
    ProgressBar::with_draw_target(length, target)
        .with_style(style.expect("the template is a constant and its test has passed"))
}

/// Shows how far the runs are: by the bar, or where the error stream is no terminal by lines that are far apart.
struct Shown<'a> {
    bar: &'a ProgressBar,
    /// Whether the bar is one of tasks, not of runs.
    of_tasks: bool,
    /// Tasks between two lines, where there are lines.
    lines: Option<u64>,
    /// About how many tasks all runs have, if that is known.
    all: Option<u64>,
    /// Those that were run.
    tasks: u64,
    begun: Instant,
}

const MILLION: u64 = 1_000_000;

/// Tasks from which on it is said at the beginning how many there are: they take more than some seconds.
const LONG: u64 = 1 << 28;

/// Tasks between two updates of the bar.
const OFTEN: u64 = 1 << 16;

/// Tasks between two lines: some ten to twenty seconds.
const SELDOM: u64 = 50 * MILLION;

impl Shown<'_> {
    /// Counts a task; gives the line that is due with it.
    fn count(&mut self) -> Option<String> {
        self.tasks += 1;
        if self.of_tasks && self.tasks.is_multiple_of(OFTEN) {
            self.bar.inc(OFTEN);
        }
        let due = self.lines.is_some_and(|between| self.tasks.is_multiple_of(between));
        due.then(|| self.words())
    }

    /// How far the runs are, in words.
    fn words(&self) -> String {
        let (millions, seconds) = (self.tasks / MILLION, self.begun.elapsed().as_secs());
        match self.all {
            // The number of all is an estimate, which may be a little too low.
            Some(all) => {
                let percent = (self.tasks as f64 / all.max(1) as f64 * 100.0).min(100.0);
                let all = all.div_ceil(MILLION);
                format!(
                    "{millions} of about {all} million tasks, {percent:.0} %, after {seconds} s"
                )
            }
            None => format!("{millions} million tasks, after {seconds} s"),
        }
    }
}

impl Instrument for Shown<'_> {
    fn ran(&mut self, _: &Ran) {
        if let Some(line) = self.count() {
            crate::say("bowline", line);
        }
    }
}

impl Job {
    /// Ranks, or processes.
    pub(super) fn ranks(&self) -> u32 {
        match self {
            Self::Graph(program) => program.processes(),
            Self::Steps(of) => of.source.ranks(),
        }
    }

    /// About how many tasks a run has, if that is known.
    fn tasks(&self) -> Option<u64> {
        match self {
            Self::Graph(_) => None,
            Self::Steps(of) => Some(of.steps),
        }
    }
}

impl Report {
    /// For people.
    pub(super) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        let Self { program, ranks, network, runs, seed, .. } = self;
        writeln!(out, "{program}, {}", numbers::ranks(*ranks))?;
        writeln!(out, "network {network}")?;
        if let Some(skew) = &self.skew {
            writeln!(out, "ranks come late by {skew}")?;
        }
        if *runs > 1 {
            writeln!(out, "{runs} runs from seed {seed}")?;
        }
        let names = ["least", "median", "mean", "90 %", "99 %", "most"];
        write!(out, "{:<18}", "")?;
        names.iter().try_for_each(|name| write!(out, " {name:>12}"))?;
        writeln!(out)?;
        self.time_ns.row(&mut out, "time, ns")?;
        if let Some(after) = &self.after_last_ns {
            after.row(&mut out, "after the last, ns")?;
        }
        self.spread_ns.row(&mut out, "spread of ends, ns")?;
        self.ends_ns.row(&mut out, "ends of ranks, ns")?;
        let Spread { min, median, mean, p90, p99, max } = self.utilisation;
        let percent = [min, median, mean, p90, p99, max].map(|part| part * 100.0);
        let [min, median, mean, p90, p99, max] = percent;
        Spread { min, median, mean, p90, p99, max }.row(&mut out, "busy ranks, %")?;
        let Self { messages, bytes, bandwidth, .. } = self;
        writeln!(out, "{messages} messages of {bytes} bytes in all, {bandwidth:.4} GB/s")?;
        if let Some(recorded) = &self.recorded {
            out.push_str(&recorded.text(self.time_ns.median));
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_ranked() {
        let figures: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let Spread { min, median, mean, p90, p99, max } = Spread::of(&figures);
        assert_eq!([min, median, mean, p90, p99, max], [1.0, 50.0, 50.5, 90.0, 99.0, 100.0]);
        let one = Spread::of(&[7.0]);
        assert_eq!([one.min, one.median, one.p99, one.max], [7.0; 4]);
    }

    #[test]
    fn how_far_the_runs_are_is_said_in_millions() {
        let bar = ProgressBar::hidden();
        let all = Some(400 * MILLION - 1);
        let begun = Instant::now();
        let tasks = 100 * MILLION - 2;
        let mut some = Shown { bar: &bar, of_tasks: true, lines: Some(MILLION), all, tasks, begun };
        let said = |shown: &mut Shown<'_>| {
            let lines: Vec<_> = (0..4).filter_map(|_| shown.count()).collect();
            let [line] = &lines[..] else { panic!("one of four tasks is due: {lines:?}") };
            line.split(", after").next().unwrap().to_owned()
        };
        assert_eq!(said(&mut some), "100 of about 400 million tasks, 25 %");
        some.tasks = 500 * MILLION - 1;
        assert_eq!(said(&mut some), "500 of about 400 million tasks, 100 %");
        (some.all, some.tasks) = (None, 50 * MILLION - 1);
        assert_eq!(said(&mut some), "50 million tasks");
        (some.lines, some.tasks) = (None, 50 * MILLION - 1);
        assert_eq!(some.count(), None);
    }

    #[test]
    fn the_templates_are_valid() {
        for runs in [1, 2] {
            bar(runs, None).finish_and_clear();
            bar(runs, Some(9)).finish_and_clear();
        }
    }
}
