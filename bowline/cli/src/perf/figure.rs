//! Results, as JSON and as a table.

use std::fmt::Write;

use serde::Serialize;

use super::plan::Plan;
use super::stats::Samples;
use super::test::Kind;

/// The result of one size. The names are those of the JSON, which programs read.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    test: String,
    transport: String,
    /// Payload of one message, bytes.
    size: usize,
    ranks: u32,
    /// Whether ranks were threads.
    threads: bool,
    /// Messages in flight at once.
    window: usize,
    /// Operations timed: round trips, windows, collectives or jobs.
    iterations: u64,
    /// Operations per sample.
    batch: u64,
    /// Time of one operation; of one message in window tests, one way in latency tests.
    median_ns: f64,
    mean_ns: f64,
    p99_ns: f64,
    min_ns: f64,
    /// 10^6 bytes per second at the median: of the payload, in alltoall of all that a rank sends.
    mbytes_per_s: f64,
    /// Operations per second at the median.
    messages_per_s: f64,
    /// Another figure of the same run, named by its key.
    #[serde(flatten)]
    beside: Option<Beside>,
    /// Whether it is an event of micro- or milliseconds that moves nothing.
    #[serde(skip)]
    slow: bool,
    /// Whether no transport was measured.
    #[serde(skip)]
    bare: bool,
}

/// What some tests measure beside their figure.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) enum Beside {
    /// One way where both sides write one line in turn, ns.
    #[serde(rename = "one_line_median_ns")]
    OneLine(f64),
    /// Copying from private to private memory on one processor, 10^6 bytes per second.
    #[serde(rename = "memcpy_mbytes_per_s")]
    Memcpy(f64),
}

impl Figure {
    pub(crate) fn new(plan: &Plan, samples: &Samples) -> Self {
        let summary = samples.summary();
        // Times below the clock's resolution are shown as that, never as an infinite rate.
        let median = summary.median.max(0.1);
        Self {
            test: plan.test_name(),
            transport: plan.transport_name(),
            size: plan.size,
            ranks: plan.ranks,
            threads: plan.threads,
            window: plan.window,
            iterations: plan.iterations,
            batch: plan.batch,
            median_ns: median,
            mean_ns: summary.mean,
            p99_ns: summary.p99,
            min_ns: summary.min,
            mbytes_per_s: plan.moved() as f64 * 1e3 / median,
            messages_per_s: 1e9 / median,
            beside: None,
            slow: matches!(plan.kind(), Kind::Jobs | Kind::Deaths),
            bare: plan.test.is_bare_memory(),
        }
    }

    pub(crate) fn beside(mut self, figure: Beside) -> Self {
        self.beside = Some(figure);
        self
    }
}

/// One object, or an array of several.
pub(crate) fn json(figures: &[Figure]) -> String {
    let text = match figures {
        [one] => serde_json::to_string(one),
        all => serde_json::to_string(all),
    };
    text.expect("figures are finite numbers and strings")
}

/// A table for people.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut out = String::new();
    let Some(first) = figures.first() else { return out };
    let how = match (first.threads, first.ranks) {
        (true, 1) => "thread",
        (true, _) => "threads",
        (false, 1) => "process",
        (false, _) => "processes",
    };
    if first.slow {
        return slow_table(figures, how);
    }
    let over = match first.bare {
        true => "memory without a transport".to_owned(),
        false => format!("transport {}", first.transport),
    };
    let _ = writeln!(out, "{}: {} {how}, {over}, ns per operation", first.test, first.ranks);
    let _ = writeln!(
        out,
        "{:>10} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "bytes", "median", "p99", "min", "MB/s", "million/s"
    );
    for figure in figures {
        let _ = writeln!(
            out,
            "{:>10} {:>12.1} {:>12.1} {:>12.1} {:>12.1} {:>12.4}",
            figure.size,
            figure.median_ns,
            figure.p99_ns,
            figure.min_ns,
            figure.mbytes_per_s,
            figure.messages_per_s / 1e6
        );
        let _ = match figure.beside {
            Some(Beside::OneLine(ns)) => {
                writeln!(out, "{:>10} {ns:>12.1}   one line, written by both sides", "")
            }
            Some(Beside::Memcpy(rate)) => {
                writeln!(out, "{:>10} {rate:>51.1}   copy in one process", "")
            }
            None => Ok(()),
        };
    }
    out
}

/// The same of starts and deaths, which move nothing: in one unit, which fits the largest.
fn slow_table(figures: &[Figure], how: &str) -> String {
    let most = figures.iter().map(|figure| figure.p99_ns).fold(0.0, f64::max);
    let (unit, scale) = if most < 1e7 { ("us", 1e3) } else { ("ms", 1e6) };
    let mut out = String::new();
    for Figure { test, ranks, transport, median_ns, p99_ns, min_ns, .. } in figures {
        let _ = writeln!(out, "{test}: {ranks} {how}, transport {transport}, {unit}");
        let _ = writeln!(out, "{:>12} {:>12} {:>12}", "median", "p99", "min");
        let [median, p99, min] = [median_ns, p99_ns, min_ns].map(|ns| ns / scale);
        let _ = writeln!(out, "{median:>12.1} {p99:>12.1} {min:>12.1}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(test: &str, ns: f64, slow: bool) -> Figure {
        Figure {
            test: test.to_owned(),
            transport: "shm".to_owned(),
            size: 0,
            ranks: 4,
            threads: false,
            window: 1,
            iterations: 1,
            batch: 1,
            median_ns: ns,
            mean_ns: ns,
            p99_ns: ns * 2.0,
            min_ns: ns,
            mbytes_per_s: 0.0,
            messages_per_s: 1e9 / ns,
            beside: None,
            slow,
            bare: false,
        }
    }

    #[test]
    fn deaths_are_shown_in_one_unit_without_rates() {
        let text = table(&[figure("death_recv", 64_415_334.3, true)]);
        assert!(text.contains("transport shm, ms") && text.contains(" 64.4 "), "{text}");
        assert!(!text.contains("MB/s") && !text.contains("million"), "{text}");
        assert!(table(&[figure("init", 700_000.0, true)]).contains(", us\n"));
        assert!(table(&[figure("barrier", 700.0, false)]).contains("million/s"));
    }
}
