//! The result of a comparison, and how it is collected. Rendering is in `table` and `plot`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::BenchError;
use crate::delayed::{Forwarded, Ping};
use crate::error::file;
use crate::load::RoundLoad;
use crate::metric::{Metric, Sample, Unit, median};
use crate::plan::Plan;
use crate::selection::SelectionCell;

/// A finished comparison.
#[derive(Debug, Clone, Serialize)]
pub struct PeersReport {
    /// When it ended, seconds since 1970.
    pub unix_time: u64,
    /// Where it ran.
    pub machine: Machine,
    /// Whether it was the quick run.
    pub quick: bool,
    /// The sources that could be prepared.
    pub sources: Vec<SourceNote>,
    /// The figures, by metric in the order of the plan, then by source.
    pub rows: Vec<Row>,
    /// What is not there, and why.
    pub missing: Vec<Missing>,
    /// Of a comparison of Bowline's means: its choice beside them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selection: Vec<SelectionCell>,
    /// The background load of every round.
    pub rounds: Vec<RoundLoad>,
    /// What small datagrams took there and back over the network with delay, before the first round.
    pub delay: Option<Ping>,
    /// What the relay of that network had done after the last round.
    pub forwarded: Option<Forwarded>,
}

/// The machine of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// The two CPUs that were used.
    pub cpus: [usize; 2],
}

/// What a source is in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// Bowline itself.
    Ours,
    /// A library that Bowline is compared with.
    Peer,
    /// What the machine allows: bare cache lines and system calls.
    Yardstick,
}

/// A source that took part.
#[derive(Debug, Clone, Serialize)]
pub struct SourceNote {
    /// Its name.
    pub source: String,
    /// What it is in the comparison.
    pub role: Role,
    /// Its version, and the settings it ran with.
    pub note: String,
}

/// One metric of one source. All values are in `unit`.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The metric's name.
    pub name: String,
    /// The metric.
    #[serde(flatten)]
    pub metric: Metric,
    /// The source's name.
    pub source: String,
    /// What the source is in the comparison.
    pub role: Role,
    /// The unit of all values.
    pub unit: Unit,
    /// Median over the rounds of the in-run medians.
    pub median: f64,
    /// Smallest of the in-run medians.
    pub low: f64,
    /// Largest of the in-run medians.
    pub high: f64,
    /// Median over the rounds of the in-run 99th percentiles of the time per operation; for rates
    /// and bandwidth therefore the low end.
    pub p99: Option<f64>,
    /// Best in-run sample of all rounds.
    pub best: Option<f64>,
    /// How many times faster Bowline is than this source; below 1 it is slower.
    pub ours_is_faster: Option<f64>,
    /// The in-run medians.
    pub rounds: Vec<f64>,
    /// For each of `rounds`, what two bare cache lines took just before, ns; where they are measured behind it as well,
    /// the less of both, and nothing if they differ.
    pub line_ns: Vec<Option<f64>>,
}

/// Something that is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The source's name.
    pub source: String,
    /// The metrics' names; empty means all.
    pub metrics: Vec<String>,
    /// Why.
    pub reason: String,
}

impl PeersReport {
    /// The report as JSON, indented.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self)
            .unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
    }

    /// Writes the report as JSON.
    pub fn write_json(&self, path: &Path) -> Result<(), BenchError> {
        fs::write(path, self.to_json()).map_err(file("write", path))
    }
}

/// The results of one metric of one source.
#[derive(Debug, Default)]
struct Cell {
    samples: Vec<(Sample, Option<f64>)>,
    failures: Vec<String>,
}

/// Gathers results while the rounds go by.
#[derive(Debug)]
pub(crate) struct Collector {
    metrics: Vec<Metric>,
    cpus: [usize; 2],
    quick: bool,
    sources: Vec<SourceNote>,
    missing: Vec<Missing>,
    rounds: Vec<RoundLoad>,
    delay: Option<Ping>,
    forwarded: Option<Forwarded>,
    cells: BTreeMap<(Metric, &'static str), Cell>,
}

impl Collector {
    pub(crate) fn new(plan: &Plan, cpus: [usize; 2]) -> Self {
        Self {
            metrics: plan.metrics.clone(),
            cpus,
            quick: plan.quick,
            sources: Vec::new(),
            missing: Vec::new(),
            rounds: Vec::new(),
            delay: None,
            forwarded: None,
            cells: BTreeMap::new(),
        }
    }

    pub(crate) fn source(&mut self, id: &'static str, role: Role, note: String) {
        self.sources.push(SourceNote { source: id.to_owned(), role, note });
    }

    pub(crate) fn source_missing(&mut self, id: &'static str, error: &BenchError) {
        let reason = error.to_string();
        self.missing.push(Missing { source: id.to_owned(), metrics: Vec::new(), reason });
    }

    pub(crate) fn result(
        &mut self,
        id: &'static str,
        metric: Metric,
        round: usize,
        line_ns: Option<f64>,
        result: Result<Sample, BenchError>,
    ) {
        let cell = self.cells.entry((metric, id)).or_default();
        match result {
            Ok(sample) => cell.samples.push((sample, line_ns)),
            Err(BenchError::LeftOut) => cell.failures.push(BenchError::LeftOut.to_string()),
            Err(error) => cell.failures.push(format!("{error} (round {})", round + 1)),
        }
    }

    /// Notes that the time was over; what has figures of an earlier round is not missing.
    pub(crate) fn out_of_time(&mut self, id: &'static str, metrics: &[Metric]) {
        for &metric in metrics {
            let cell = self.cells.entry((metric, id)).or_default();
            if cell.samples.is_empty() && cell.failures.is_empty() {
                cell.failures.push(BenchError::OutOfTime.to_string());
            }
        }
    }

    pub(crate) fn load(&mut self, load: RoundLoad) {
        self.rounds.push(load);
    }

    pub(crate) fn delay(&mut self, ping: Ping) {
        self.delay = Some(ping);
    }

    pub(crate) fn forwarded(&mut self, forwarded: Forwarded) {
        self.forwarded = Some(forwarded);
    }

    pub(crate) fn finish(mut self) -> PeersReport {
        let mut rows = Vec::new();
        let mut missing = Vec::new();
        for &metric in &self.metrics {
            let first = rows.len();
            for source in &self.sources {
                let key = |id: &&(Metric, &'static str)| id.0 == metric && id.1 == source.source;
                let Some(cell) = self.cells.keys().find(key).and_then(|key| self.cells.get(key))
                else {
                    continue;
                };
                rows.extend(row(metric, source, &cell.samples));
                if let Some(reason) = cell.failures.first() {
                    note_missing(&mut missing, &source.source, metric, reason);
                }
            }
            compare(&mut rows[first..]);
        }
        self.missing.extend(missing);
        PeersReport {
            unix_time: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |elapsed| elapsed.as_secs()),
            machine: machine(self.cpus),
            quick: self.quick,
            sources: self.sources,
            rows,
            missing: self.missing,
            selection: Vec::new(),
            rounds: self.rounds,
            delay: self.delay,
            forwarded: self.forwarded,
        }
    }
}

/// Adds a metric to the entry of the same source and reason.
fn note_missing(missing: &mut Vec<Missing>, source: &str, metric: Metric, reason: &str) {
    match missing.iter_mut().find(|entry| entry.source == source && entry.reason == reason) {
        Some(entry) => entry.metrics.push(metric.to_string()),
        None => missing.push(Missing {
            source: source.to_owned(),
            metrics: vec![metric.to_string()],
            reason: reason.to_owned(),
        }),
    }
}

fn row(metric: Metric, source: &SourceNote, samples: &[(Sample, Option<f64>)]) -> Option<Row> {
    let ns: Vec<f64> = samples.iter().map(|(sample, _)| sample.median_ns).collect();
    let p99s: Vec<f64> = samples.iter().filter_map(|(sample, _)| sample.p99_ns).collect();
    let best = samples.iter().filter_map(|(sample, _)| sample.min_ns).min_by(f64::total_cmp);
    let rounds: Vec<f64> = ns.iter().map(|&ns| metric.shown(ns)).collect();
    Some(Row {
        name: metric.to_string(),
        metric,
        source: source.source.clone(),
        role: source.role,
        unit: metric.test.unit(),
        median: metric.shown(median(&ns)?),
        low: rounds.iter().copied().min_by(f64::total_cmp)?,
        high: rounds.iter().copied().max_by(f64::total_cmp)?,
        p99: median(&p99s).map(|ns| metric.shown(ns)),
        best: best.map(|ns| metric.shown(ns)),
        ours_is_faster: None,
        rounds,
        line_ns: samples.iter().map(|&(_, line_ns)| line_ns).collect(),
    })
}

/// Sets every row of one metric in relation to the first row that is ours.
fn compare(rows: &mut [Row]) {
    let Some(ours) = rows.iter().find(|row| row.role == Role::Ours) else {
        return;
    };
    let (ours_median, ours_source) = (ours.median, ours.source.clone());
    for row in rows.iter_mut().filter(|row| row.source != ours_source) {
        let ratio = if row.unit.more_is_better() {
            ours_median / row.median
        } else {
            row.median / ours_median
        };
        row.ours_is_faster = Some(ratio);
    }
}

fn machine(cpus: [usize; 2]) -> Machine {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown", |(_, name)| name.trim());
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    Machine { processor: processor.to_owned(), kernel, cpus }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::metric::Test;
    use crate::options::PeersOptions;
    use crate::plan::Comparison;

    /// A comparison of two sources and a failure, as the renderers' tests use it.
    pub(crate) fn example() -> PeersReport {
        let plan =
            Plan::new(&PeersOptions { quick: true, ..Default::default() }, Comparison::Peers)
                .unwrap();
        let mut collector = Collector::new(&plan, [0, 1]);
        collector.source("bowline", Role::Ours, "bowline 0.1.0".to_owned());
        collector.source("ucx-debian", Role::Peer, "version 1.13.1".to_owned());
        let missing = BenchError::Missing { what: "all".to_owned(), remedy: "get it".to_owned() };
        collector.source_missing("impi-wheel", &missing);
        let lat = Metric::pair(Test::TagLat, 8);
        let bw = Metric::pair(Test::TagBw, 8192);
        for (round, ns) in [100.0, 120.0, 110.0].into_iter().enumerate() {
            let sample = |ns| Ok(Sample { median_ns: ns, p99_ns: Some(2.0 * ns), min_ns: None });
            collector.result("bowline", lat, round, Some(50.0), sample(ns));
            collector.result("ucx-debian", lat, round, None, sample(2.0 * ns));
            collector.result("bowline", bw, round, None, sample(1000.0));
            collector.result("ucx-debian", bw, round, None, sample(800.0));
        }
        for metric in [Metric::group(Test::Barrier, 0, 8), Metric::group(Test::Init, 0, 64)] {
            collector.result("bowline", metric, 0, None, Err(BenchError::LeftOut));
        }
        collector.load(RoundLoad {
            round: 0,
            before_percent: 1.0,
            during_percent: 9.5,
            load_average: 2.0,
        });
        collector.finish()
    }

    #[test]
    fn rows_are_medians_with_spread_and_ratio() {
        let report = example();
        let row = |name: &str, source: &str| {
            report.rows.iter().find(|row| row.name == name && row.source == source).unwrap()
        };
        let ours = row("tag_lat-8", "bowline");
        assert_eq!((ours.median, ours.low, ours.high), (110.0, 100.0, 120.0));
        assert_eq!((ours.p99, ours.ours_is_faster), (Some(220.0), None));
        assert_eq!(ours.line_ns, [Some(50.0); 3]);
        assert_eq!(row("tag_lat-8", "ucx-debian").ours_is_faster, Some(2.0));
        let bw = row("tag_bw-8k", "ucx-debian");
        assert_eq!((bw.median, bw.ours_is_faster), (10_240.0, Some(0.8)));
    }

    #[test]
    fn what_is_missing_is_grouped_by_reason() {
        let report = example();
        assert_eq!(report.missing.len(), 2);
        assert!(report.missing[0].metrics.is_empty());
        assert_eq!(report.missing[1].metrics, ["barrier-8", "init-64"]);
    }

    #[test]
    fn json_names_every_figure() {
        let value: serde_json::Value = serde_json::from_str(&example().to_json()).unwrap();
        assert_eq!(value["rows"].as_array().unwrap().len(), 4);
        assert_eq!(value["rows"][0]["test"], "tag_lat");
        assert_eq!(value["rows"][0]["unit"], "nanoseconds");
        assert_eq!(value["rounds"][0]["during_percent"], 9.5);
    }
}
