//! What is measured: the tests, a metric, one in-run result, and the units of both.
//!
//! Every result is kept as nanoseconds per operation, also for bandwidth and rate; the unit of a
//! metric only says how it is shown. So medians and spreads are taken over one kind of number.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// The tests, named as `bowline perf` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Test {
    /// Two processes and bare cache lines, or what comes closest to it.
    RawLat,
    /// One-way latency of a one-sided put into a polled word.
    PutLat,
    /// Bandwidth of one-sided puts.
    PutBw,
    /// One-sided gets, from the call to the data.
    GetLat,
    /// Bandwidth of one-sided gets.
    GetBw,
    /// Fetch-and-add of 64 bits, from the call to the result.
    FaddLat,
    /// Compare-and-swap of 64 bits, from the call to the result.
    CswapLat,
    /// One-way latency of active messages.
    AmLat,
    /// Bandwidth of active messages.
    AmBw,
    /// One-way latency of bytes on a stream.
    StreamLat,
    /// Bandwidth of a stream.
    StreamBw,
    /// One-way latency of tagged messages below MPI.
    TagLat,
    /// Messages per second, tagged, below MPI.
    TagRate,
    /// Bandwidth, tagged, below MPI.
    TagBw,
    /// One-way latency of tagged messages that are received when they have come.
    TagLateLat,
    /// Bandwidth of such messages.
    TagLateBw,
    /// One-way latency of `MPI_Send` and `MPI_Recv`.
    MpiLat,
    /// Messages per second of `MPI_Isend` and `MPI_Irecv`.
    MpiRate,
    /// Bandwidth of `MPI_Isend` and `MPI_Irecv`, in the manner of osu_bw.
    MpiBw,
    /// One-way latency of `MPI_Send`, and `MPI_Recv` when a probe has found the message.
    MpiLateLat,
    /// Bandwidth of `MPI_Isend` with such receives.
    MpiLateBw,
    /// One-way latency of a message of every second double.
    TypeVector,
    /// The same of 16 doubles of 32.
    TypeBlocks,
    /// The same of a list of pieces, of two doubles each on average.
    TypeIndexed,
    /// The same of a struct with gaps.
    TypeStruct,
    /// `MPI_Barrier`, mostly of more ranks than cores.
    Barrier,
    /// `MPI_Allreduce`, mostly of more ranks than cores.
    Allreduce,
    /// `MPI_Bcast`, from one root after the other.
    Bcast,
    /// `MPI_Reduce`, to one root after the other.
    Reduce,
    /// `MPI_Allgather`; the size is that of one rank's block.
    Allgather,
    /// `MPI_Alltoall`; the size is that of one block.
    Alltoall,
    /// From the start of the launcher to its end, with `MPI_Init` and `MPI_Finalize` between.
    Init,
    /// From the death of a rank to the error of the last one that receives from it.
    DeathRecv,
    /// The same of ranks in a barrier.
    DeathBarrier,
    /// The same of ranks in an allreduce.
    DeathAllreduce,
    /// The same of ranks that fetch a long message from it.
    DeathBulk,
    /// The same of ranks that sleep while they wait.
    DeathAsleep,
}

impl Test {
    /// The name in metric names, filters and on `bowline perf`'s command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RawLat => "raw_lat",
            Self::PutLat => "put_lat",
            Self::PutBw => "put_bw",
            Self::GetLat => "get_lat",
            Self::GetBw => "get_bw",
            Self::FaddLat => "fadd_lat",
            Self::CswapLat => "cswap_lat",
            Self::AmLat => "am_lat",
            Self::AmBw => "am_bw",
            Self::StreamLat => "stream_lat",
            Self::StreamBw => "stream_bw",
            Self::TagLat => "tag_lat",
            Self::TagRate => "tag_rate",
            Self::TagBw => "tag_bw",
            Self::TagLateLat => "tag_late_lat",
            Self::TagLateBw => "tag_late_bw",
            Self::MpiLat => "mpi_lat",
            Self::MpiRate => "mpi_rate",
            Self::MpiBw => "mpi_bw",
            Self::MpiLateLat => "mpi_late_lat",
            Self::MpiLateBw => "mpi_late_bw",
            Self::TypeVector => "type_vector",
            Self::TypeBlocks => "type_blocks",
            Self::TypeIndexed => "type_indexed",
            Self::TypeStruct => "type_struct",
            Self::Barrier => "barrier",
            Self::Allreduce => "allreduce",
            Self::Bcast => "bcast",
            Self::Reduce => "reduce",
            Self::Allgather => "allgather",
            Self::Alltoall => "alltoall",
            Self::Init => "init",
            Self::DeathRecv => "death_recv",
            Self::DeathBarrier => "death_barrier",
            Self::DeathAllreduce => "death_allreduce",
            Self::DeathBulk => "death_bulk",
            Self::DeathAsleep => "death_asleep",
        }
    }

    /// The tests that kill a rank.
    pub(crate) const DEATHS: [Self; 5] = [
        Self::DeathRecv,
        Self::DeathBarrier,
        Self::DeathAllreduce,
        Self::DeathBulk,
        Self::DeathAsleep,
    ];

    /// Whether the test kills a rank.
    pub(crate) fn is_death(self) -> bool {
        Self::DEATHS.contains(&self)
    }

    /// Operations of all ranks.
    pub(crate) const COLLECTIVES: [Self; 6] = [
        Self::Allreduce,
        Self::Bcast,
        Self::Barrier,
        Self::Allgather,
        Self::Alltoall,
        Self::Reduce,
    ];

    /// Whether all ranks take part in each operation.
    pub(crate) fn is_collective(self) -> bool {
        Self::COLLECTIVES.contains(&self)
    }

    /// Whether messages are of a type that is not in one piece, which the C library alone has.
    pub(crate) fn is_of_types(self) -> bool {
        [Self::TypeVector, Self::TypeBlocks, Self::TypeIndexed, Self::TypeStruct].contains(&self)
    }

    /// Whether no receive is posted before its message has come.
    pub(crate) fn is_late(self) -> bool {
        [Self::TagLateLat, Self::TagLateBw, Self::MpiLateLat, Self::MpiLateBw].contains(&self)
    }

    /// Whether the test fills windows of messages and shows bytes per time.
    pub(crate) fn is_bandwidth(self) -> bool {
        let of_messages = [Self::TagBw, Self::MpiBw, Self::TagLateBw, Self::MpiLateBw, Self::AmBw];
        let others = [Self::StreamBw, Self::PutBw, Self::GetBw];
        of_messages.contains(&self) || others.contains(&self)
    }

    /// How results of this test are shown.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::TagRate | Self::MpiRate => Unit::MillionPerSecond,
            test if test.is_bandwidth() => Unit::MegabytesPerSecond,
            test if test.is_collective() => Unit::Microseconds,
            test if test.is_death() || test.is_of_types() => Unit::Microseconds,
            Self::Init => Unit::Milliseconds,
            _ => Unit::Nanoseconds,
        }
    }
}

/// How a metric is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unit {
    /// ns per operation; one way for latencies.
    Nanoseconds,
    /// us per operation.
    Microseconds,
    /// ms per operation.
    Milliseconds,
    /// Million operations per second.
    MillionPerSecond,
    /// 10^6 bytes per second.
    MegabytesPerSecond,
}

impl Unit {
    /// The unit's sign.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::MillionPerSecond => "M/s",
            Self::MegabytesPerSecond => "MB/s",
        }
    }

    /// Whether a larger number is a better one.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::MillionPerSecond | Self::MegabytesPerSecond)
    }
}

/// What messages cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Wire {
    /// Shared memory.
    Memory,
    /// TCP over the loopback device.
    Loopback,
    /// TCP over a veth pair between two network namespaces.
    Veth,
    /// TCP over a network whose packets take 100 microseconds, each rank in a namespace of its own.
    Delayed,
}

impl Wire {
    /// The device's name, where there is one.
    pub(crate) fn device(self) -> Option<&'static str> {
        match self {
            Self::Memory => None,
            Self::Loopback => Some("lo"),
            Self::Veth | Self::Delayed => Some(crate::hosts::DEVICE),
        }
    }

    /// A guess at the time of one message of `size` bytes, ns, for those who want iterations and
    /// not a time.
    pub(crate) fn message_ns(self, size: u64) -> f64 {
        match self {
            Self::Memory => 300.0 + 0.08 * size as f64,
            Self::Loopback | Self::Veth => 8000.0 + 0.3 * size as f64,
            Self::Delayed => 130_000.0 + 0.3 * size as f64,
        }
    }
}

/// One row group of the comparison: a test at a size with a number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Metric {
    /// The test.
    pub test: Test,
    /// Payload of one message, bytes.
    pub size: u64,
    /// Processes that take part.
    pub ranks: u32,
    /// What the messages cross.
    pub wire: Wire,
}

impl Metric {
    /// A metric of two ranks.
    pub(crate) const fn pair(test: Test, size: u64) -> Self {
        Self { test, size, ranks: 2, wire: Wire::Memory }
    }

    /// A metric of `ranks` ranks.
    pub(crate) const fn group(test: Test, size: u64, ranks: u32) -> Self {
        Self { test, size, ranks, wire: Wire::Memory }
    }

    /// The same over `wire`.
    pub(crate) const fn over(self, wire: Wire) -> Self {
        Self { wire, ..self }
    }

    /// Round trips or messages that fill `budget`, by [`Wire::message_ns`].
    pub(crate) fn iterations(self, budget: Duration) -> u64 {
        let messages = if self.window() > 1 { 1.0 } else { 2.0 };
        let iteration_ns = self.wire.message_ns(self.size) * messages;
        (budget.as_nanos() as f64 / iteration_ns).clamp(100.0, 5e6) as u64
    }

    /// Messages in flight at once: 64, fewer where 64 of them would only measure main memory. Of
    /// collectives, the operations of a sample; 0 leaves that to the program.
    #[must_use]
    pub fn window(self) -> u32 {
        if self.test.is_collective() {
            return 0;
        }
        if !self.test.is_bandwidth() && !matches!(self.test, Test::TagRate | Test::MpiRate) {
            return 1;
        }
        match self.size {
            0..=65_536 => 64,
            65_537..=1_048_576 => 16,
            _ => 8,
        }
    }

    /// `ns` per operation in the metric's unit.
    #[must_use]
    pub fn shown(self, ns: f64) -> f64 {
        match self.test.unit() {
            Unit::Nanoseconds => ns,
            Unit::Microseconds => ns / 1e3,
            Unit::Milliseconds => ns / 1e6,
            Unit::MillionPerSecond => 1e3 / ns,
            Unit::MegabytesPerSecond => self.size as f64 * 1e3 / ns,
        }
    }

    /// Nanoseconds per operation from what is shown in the metric's unit.
    pub(crate) fn ns_of(self, shown: f64) -> f64 {
        match self.test.unit() {
            Unit::Nanoseconds => shown,
            Unit::Microseconds => shown * 1e3,
            Unit::Milliseconds => shown * 1e6,
            Unit::MillionPerSecond => 1e3 / shown,
            Unit::MegabytesPerSecond => self.size as f64 * 1e3 / shown,
        }
    }

    /// Whether a filter means this metric: its name, the beginning of it, or two dots and the end of it.
    pub(crate) fn matches(self, filters: &[String]) -> bool {
        let name = self.to_string();
        let means = |filter: &String| match filter.strip_prefix("..") {
            Some(end) => name.ends_with(end),
            None => name.starts_with(filter.as_str()),
        };
        filters.is_empty() || filters.iter().any(means)
    }
}

/// The name: the test, and what sets it apart, `mpi_bw-64k`, `barrier-16`, `tag_lat-8-veth`,
/// `bcast-64k-16`. An allreduce of 8 bytes is called by its ranks alone.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.test {
            Test::Barrier | Test::Init => write!(f, "{}-{}", self.test.name(), self.ranks),
            Test::Allreduce if self.size == 8 => write!(f, "allreduce-{}", self.ranks),
            test if test.is_collective() => {
                write!(f, "{}-{}-{}", test.name(), short_size(self.size), self.ranks)
            }
            test if test.is_death() => write!(f, "{}-{}", test.name(), self.ranks),
            test => write!(f, "{}-{}", test.name(), short_size(self.size)),
        }?;
        match self.wire {
            Wire::Memory => Ok(()),
            Wire::Loopback => f.write_str("-lo"),
            Wire::Veth => f.write_str("-veth"),
            Wire::Delayed => f.write_str("-delayed"),
        }
    }
}

fn short_size(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    match bytes {
        0 => "0".to_owned(),
        _ if bytes.is_multiple_of(MIB) => format!("{}m", bytes / MIB),
        _ if bytes.is_multiple_of(KIB) => format!("{}k", bytes / KIB),
        _ => bytes.to_string(),
    }
}

/// One in-run result of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Median of the in-run samples, ns per operation.
    pub median_ns: f64,
    /// 99th percentile of the in-run samples, ns per operation, where the program shows it.
    pub p99_ns: Option<f64>,
    /// Smallest in-run sample, ns per operation, where the program shows it.
    pub min_ns: Option<f64>,
}

impl Sample {
    /// A sample of which only one number is known.
    pub(crate) fn single(median_ns: f64) -> Self {
        Self { median_ns, p99_ns: None, min_ns: None }
    }

    /// From unsorted in-run samples, ns per operation. `None` when there are none.
    pub(crate) fn from_samples(mut ns: Vec<f64>) -> Option<Self> {
        ns.sort_by(f64::total_cmp);
        let min = *ns.first()?;
        let at = |fraction: f64| ns[((fraction * ns.len() as f64) as usize).min(ns.len() - 1)];
        Some(Self { median_ns: at(0.5), p99_ns: Some(at(0.99)), min_ns: Some(min) })
    }
}

/// Median of `values`, the mean of the middle two when their number is even.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// Three significant digits or all before the point.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_sets_metrics_apart() {
        assert_eq!(Metric::pair(Test::MpiLat, 8).to_string(), "mpi_lat-8");
        assert_eq!(Metric::pair(Test::TagBw, 65_536).to_string(), "tag_bw-64k");
        assert_eq!(Metric::pair(Test::TagBw, 4 << 20).to_string(), "tag_bw-4m");
        assert_eq!(Metric::group(Test::Allreduce, 8, 32).to_string(), "allreduce-32");
        assert_eq!(Metric::group(Test::Bcast, 8, 4).to_string(), "bcast-8-4");
        let far = Metric::group(Test::Allreduce, 64 << 10, 16).over(Wire::Delayed);
        assert_eq!(far.to_string(), "allreduce-64k-16-delayed");
        let lat = Metric::pair(Test::MpiLat, 8);
        assert_eq!(lat.over(Wire::Loopback).to_string(), "mpi_lat-8-lo");
        assert_eq!(lat.over(Wire::Veth).to_string(), "mpi_lat-8-veth");
        assert!(lat.over(Wire::Veth).matches(&["mpi_lat-8".to_owned()]));
        assert_eq!(Metric::group(Test::DeathRecv, 0, 8).to_string(), "death_recv-8");
    }

    #[test]
    fn units_convert() {
        assert_eq!(Metric::pair(Test::MpiBw, 1_000).shown(100.0), 10_000.0);
        assert_eq!(Metric::pair(Test::MpiRate, 8).shown(100.0), 10.0);
        assert_eq!(Metric::group(Test::Init, 0, 64).shown(2e6), 2.0);
        for test in [Test::MpiLat, Test::MpiBw, Test::MpiRate, Test::Barrier, Test::Init] {
            let metric = Metric::group(test, 4096, 2);
            assert!((metric.ns_of(metric.shown(250.0)) - 250.0).abs() < 1e-9, "{metric}");
        }
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        let sample = Sample::from_samples(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((sample.median_ns, sample.min_ns), (2.0, Some(1.0)));
        assert_eq!(Sample::from_samples(Vec::new()), None);
    }

    #[test]
    fn filters_match_beginnings() {
        let metric = Metric::group(Test::Barrier, 0, 8);
        assert!(metric.matches(&[]));
        assert!(metric.matches(&["bar".to_owned()]));
        assert!(!metric.matches(&["barrier-16".to_owned()]));
        assert!(metric.matches(&["..-8".to_owned()]));
        assert!(!metric.matches(&["..-8-delayed".to_owned()]));
    }
}
