//! Runs and their statistics, shown as a table and as JSON.

use std::fmt::Write as _;

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
        let millions = all.div_ceil(1_000_000);
        crate::say("bowline", format!("simulating about {millions} million tasks"));
    }
    let mut recorder = recorder;
    let mut runs = Vec::new();
    for run in 0..options.runs {
        // The seeds of one run differ in their last bits only.
        let seed = options.seed.wrapping_add(u64::from(run) << 8);
        let keep = recorder.take();
        let (machine, beyond) = plan.machine(ranks, seed);
        runs.push(once(job, machine, options, seed, keep, &bar)?);
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
    bar: &ProgressBar,
) -> Result<Once> {
    let ranks = job.ranks();
    let late: Vec<f64> = options.skew.as_ref().map_or(Vec::new(), |skew| {
        let mut streams = Streams::new(seed ^ 4);
        (0..ranks).map(|rank| skew.draw(&mut streams, rank)).collect()
    });
    let (mut skew, mut busy) = (Skew::new(ranks), Utilisation::new(ranks));
    let mut travelled = Bandwidth::default();
    let mut shown = Shown { bar, tasks: 0 };
    let mut instruments: Vec<&mut dyn Instrument> = vec![&mut skew, &mut busy, &mut travelled];
    if options.runs == 1 {
        instruments.push(&mut shown);
    }
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

/// A bar of the runs, or of one run the tasks that were run; hidden where the error stream is no terminal.
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

/// Shows how far a run is.
struct Shown<'a> {
    bar: &'a ProgressBar,
    tasks: u64,
}

/// Tasks from which on it is said at the beginning how many there are: they take more than some seconds.
const LONG: u64 = 1 << 28;

/// Tasks between two updates of the bar.
const OFTEN: u64 = 1 << 16;

impl Instrument for Shown<'_> {
    fn ran(&mut self, _: &Ran) {
        self.tasks += 1;
        if self.tasks.is_multiple_of(OFTEN) {
            self.bar.inc(OFTEN);
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
    fn the_templates_are_valid() {
        for runs in [1, 2] {
            bar(runs, None).finish_and_clear();
            bar(runs, Some(9)).finish_and_clear();
        }
    }
}
