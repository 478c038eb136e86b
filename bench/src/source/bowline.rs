//! Bowline's own command as a source: `bowline perf TEST --size N --ranks N --json`.

use std::path::PathBuf;

use serde::Deserialize;

use super::{Measured, Role, Source};
use crate::BenchError;
use crate::command::{Launch, shorten};
use crate::context::Context;
use crate::metric::{Metric, Sample, Test, Wire};
use crate::plan::Stage;
use crate::selection::{Means, OWN};
use crate::traffic::Meter;

/// Bowline's command.
#[derive(Debug)]
pub(super) struct Bowline {
    program: PathBuf,
    means: Means,
    /// Whether windows are as large as the peers'.
    windows: bool,
}

/// The part of `bowline perf --json` and of the benchmark program's lines that is used here.
#[derive(Debug, Deserialize)]
pub(super) struct Figure {
    /// The test's name.
    pub(super) test: String,
    /// Payload, bytes.
    pub(super) size: u64,
    /// Processes.
    pub(super) ranks: u32,
    /// Round trips of latency, messages of bandwidth; only the benchmark program's are used.
    #[serde(default)]
    pub(super) iterations: u64,
    /// Median, ns per operation.
    median_ns: f64,
    /// 99th percentile, ns per operation.
    p99_ns: Option<f64>,
    /// Minimum, ns per operation.
    min_ns: Option<f64>,
}

impl Figure {
    /// The figures among the lines of `stdout`; other lines are ignored.
    pub(super) fn parse_lines(stdout: &str) -> Vec<Self> {
        stdout
            .lines()
            .filter(|line| line.starts_with('{'))
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The figure as a sample; `None` if its median is not a positive number.
    pub(super) fn sample(&self) -> Option<Sample> {
        (self.median_ns.is_finite() && self.median_ns > 0.0).then_some(Sample {
            median_ns: self.median_ns,
            p99_ns: self.p99_ns,
            min_ns: self.min_ns,
        })
    }
}

impl Bowline {
    pub(super) fn new(program: PathBuf) -> Self {
        Self { program, means: OWN, windows: false }
    }

    /// With messages that come by `means`.
    pub(super) fn by(program: PathBuf, means: Means) -> Self {
        Self { program, means, windows: true }
    }

    fn launch(&self, context: &Context) -> Launch {
        let launch = Launch::new(&self.program, context.time_limit);
        let set = |launch: Launch, &(name, value): &(&str, &str)| launch.env(name, value);
        let variables = self.means.variables.iter();
        variables
            .fold(launch, set)
            .cpus(&context.cpus)
            .remedy("build it with cargo build --release, or name it with --bowline")
    }

    /// The command over TCP up to how much it shall measure, and the number of messages which that
    /// makes. Over a veth pair each host has one of the ranks.
    fn over_tcp(
        &self,
        context: &Context,
        metric: Metric,
        wire: Wire,
    ) -> Result<(Launch, u64), BenchError> {
        let window = u64::from(metric.window());
        // The command counts windows.
        let iterations = metric.iterations(context.budget).div_ceil(window);
        let mut launch = self.launch(context);
        if let Some(hosts) = context.hosts(wire)? {
            let agent = format!("{} {{host}}", hosts.script().display());
            launch = launch
                .args(["run", "-n", "2", "--hosts"])
                .args([hosts.names.join(","), "--agent-command".to_owned(), agent, "--".to_owned()])
                .args([self.program.to_string_lossy()])
                .args(["--as-rank"]);
        }
        let launch = launch
            .args(["perf", "--transport", "tcp", "--iterations"])
            .args([iterations.to_string()]);
        // Only whole samples are timed, of up to 8 round trips.
        let least = if window > 1 { iterations * window } else { 2 * (iterations - 8) };
        Ok((launch, least))
    }

    fn figure(&self, context: &Context, metric: Metric) -> Result<Sample, BenchError> {
        let meter = Meter::start(context, metric.wire)?;
        let (launch, messages) = match metric.wire {
            Wire::Memory => (self.launch(context).args(["perf"]), 0),
            wire => self.over_tcp(context, metric, wire)?,
        };
        let mut launch = launch
            .args([metric.test.name(), "--json"])
            .args(["--size".to_owned(), metric.size.to_string()])
            .args(["--ranks".to_owned(), metric.ranks.to_string()]);
        if self.windows && metric.window() > 1 {
            launch = launch.args(["--window".to_owned(), metric.window().to_string()]);
        }
        if metric.test == Test::Init {
            // One job, as of the peers; by itself the command would start several.
            launch = launch.args(["--iterations", "1", "--warmup", "0"]);
        }
        if metric.test.is_death() && context.quick {
            // Each is a job of its own.
            launch = launch.args(["--iterations", "5", "--warmup", "1"]);
        }
        let output = launch.run()?;
        if let Some(meter) = meter {
            meter.check("bowline perf", [(metric, messages)])?;
        }
        // Start-up is timed from outside, as for the peers.
        if metric.test == Test::Init {
            return Ok(Sample::single(output.wall.as_secs_f64() * 1e9));
        }
        parse(&output.stdout, metric).ok_or_else(|| BenchError::NoFigure {
            program: "bowline perf".to_owned(),
            metric: metric.to_string(),
            output: shorten(output.stdout.trim(), 200),
        })
    }
}

/// The one object that `bowline perf --json` prints, on one line or on several. It must be the
/// figure that was asked for.
fn parse(stdout: &str, metric: Metric) -> Option<Sample> {
    let start = stdout.find('{')?;
    let end = stdout.rfind('}')?;
    let figure: Figure = serde_json::from_str(stdout.get(start..=end)?).ok()?;
    let asked = figure.test == metric.test.name()
        && figure.size == metric.size
        && figure.ranks == metric.ranks;
    figure.sample().filter(|_| asked)
}

impl Source for Bowline {
    fn id(&self) -> &'static str {
        self.means.rust
    }

    fn role(&self) -> Role {
        Role::Ours
    }

    fn prepare(&mut self, context: &Context) -> Result<String, BenchError> {
        let output = self.launch(context).args(["--version"]).run()?;
        let version = output.stdout.lines().next().unwrap_or("bowline");
        let variables = self.means.variables.iter().map(|(name, value)| format!("{name}={value}"));
        Ok(std::iter::once(version.to_owned()).chain(variables).collect::<Vec<_>>().join(" "))
    }

    fn offers(&self, metric: Metric) -> bool {
        // Collectives of several hosts take minutes here, where each figure is a job of its own.
        let here = !metric.test.is_of_types() && metric.wire != Wire::Delayed;
        here && metric.size >= self.means.from
    }

    fn measure(&self, context: &Context, _: Stage, metrics: &[Metric]) -> Measured {
        metrics.iter().map(|&metric| (metric, self.figure(context, metric))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_parses_on_one_line_or_many() {
        let metric = Metric::pair(Test::TagLat, 8);
        let text = "note\n{\"test\":\"tag_lat\",\"transport\":\"shm\",\"size\":8,\"ranks\":2,\n\
                    \"iterations\":10,\"median_ns\":180.5,\"p99_ns\":300,\"min_ns\":170}\n";
        let sample = parse(text, metric).unwrap();
        assert_eq!((sample.median_ns, sample.p99_ns), (180.5, Some(300.0)));
        assert!(parse(text, Metric::pair(Test::TagLat, 16)).is_none());
        assert!(parse("no figure", metric).is_none());
        assert!(parse(&text.replace("180.5", "0"), metric).is_none());
    }
}
