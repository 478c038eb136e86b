//! The comparison as one text table with footnotes.

use std::fmt::Write;

use crate::choices;
use crate::metric::{Wire, number};
use crate::report::Role;
use crate::report::{PeersReport, Row};

/// Background load above this is worth a mark, percent.
const NOISY_PERCENT: f64 = 8.0;

impl PeersReport {
    /// The report as a text table.
    #[must_use]
    pub fn table(&self) -> String {
        render(self)
    }
}

/// Renders the table, one block of rows per metric, then what is missing, the sources and the
/// rounds.
fn render(report: &PeersReport) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail, so that the results are dropped here and below.
    if report.selection.is_empty() {
        let _ = write_rows(&mut text, &report.rows);
        let _ = write_quotients(&mut text, &report.rows);
    } else {
        text.push_str(&choices::render(&report.selection));
    }
    let _ = write_missing(&mut text, report);
    let _ = write_sources(&mut text, report);
    let _ = write_rounds(&mut text, report);
    text
}

fn write_rows(text: &mut String, rows: &[Row]) -> std::fmt::Result {
    writeln!(
        text,
        "{:<17} {:<18} {:>10} {:<4} {:>19} {:>9} {:>8}",
        "metric", "source", "median", "unit", "spread over rounds", "p99", "ours is"
    )?;
    let mut name = "";
    for row in rows {
        let first = row.name != name;
        if first {
            writeln!(text)?;
            name = &row.name;
        }
        let mark = if is_best_peer(row, rows) { "*" } else { "" };
        writeln!(
            text,
            "{:<17} {:<18} {:>10} {:<4} {:>19} {:>9} {:>8}",
            if first { name } else { "" },
            format!("{}{mark}", row.source),
            number(row.median),
            row.unit.sign(),
            format!("{} .. {}", number(row.low), number(row.high)),
            row.p99.map_or_else(|| "-".to_owned(), number),
            row.ours_is_faster
                .map_or_else(|| "-".to_owned(), |ratio| format!("{} x", number(ratio))),
        )?;
    }
    writeln!(
        text,
        "\n* the best peer. ours is: how many times faster Bowline is; below 1 it is slower. p99: of \
         the time\n  per operation, converted; - where the program does not show it."
    )
}

/// In a comparison of collectives: the best peer's time in that of our C library, for each metric, and the
/// geometric mean of each wire.
fn write_quotients(text: &mut String, rows: &[Row]) -> std::fmt::Result {
    if !rows.iter().all(|row| row.metric.test.is_collective()) {
        return Ok(());
    }
    for delayed in [false, true] {
        let here = |row: &&Row| (row.metric.wire == Wire::Delayed) == delayed;
        let ours = |row: &&Row| row.role == Role::Ours && row.source.starts_with("bowline-abi");
        let quotients: Vec<(&Row, f64)> = rows
            .iter()
            .filter(here)
            .filter(ours)
            .filter_map(|ours| {
                let peers =
                    rows.iter().filter(|row| row.name == ours.name && row.role == Role::Peer);
                let best = peers.map(|row| row.median).min_by(f64::total_cmp)?;
                Some((ours, best / ours.median))
            })
            .collect();
        if quotients.is_empty() {
            continue;
        }
        let logs: f64 = quotients.iter().map(|(_, quotient)| quotient.ln()).sum();
        let ahead = quotients.iter().filter(|(_, quotient)| *quotient > 1.0).count();
        writeln!(
            text,
            "\n{}: the best peer's time in that of our C library: {} x in the geometric mean, ahead in {ahead} of {} \
             metrics; behind in:",
            if delayed { "TCP with delay" } else { "shared memory" },
            number((logs / quotients.len() as f64).exp()),
            quotients.len()
        )?;
        for (row, quotient) in quotients.iter().filter(|(_, quotient)| *quotient <= 1.0) {
            writeln!(text, "  {:<24} {} x", row.name, number(*quotient))?;
        }
    }
    Ok(())
}

/// Whether `row` is the best of the peers in its metric.
fn is_best_peer(row: &Row, rows: &[Row]) -> bool {
    let better = |a: &Row, b: &Row| {
        if a.unit.more_is_better() { a.median > b.median } else { a.median < b.median }
    };
    row.role == Role::Peer
        && !rows
            .iter()
            .any(|other| other.name == row.name && other.role == Role::Peer && better(other, row))
}

fn write_missing(text: &mut String, report: &PeersReport) -> std::fmt::Result {
    if report.missing.is_empty() {
        return Ok(());
    }
    writeln!(text, "\nmissing")?;
    for missing in &report.missing {
        let metrics = match missing.metrics.as_slice() {
            [] => "everything".to_owned(),
            metrics => metrics.join(", "),
        };
        writeln!(text, "  {}: {metrics}: {}", missing.source, missing.reason)?;
    }
    Ok(())
}

fn write_sources(text: &mut String, report: &PeersReport) -> std::fmt::Result {
    writeln!(text, "\nsources")?;
    for source in &report.sources {
        writeln!(text, "  {}: {}", source.source, source.note)?;
    }
    Ok(())
}

fn write_rounds(text: &mut String, report: &PeersReport) -> std::fmt::Result {
    let machine = &report.machine;
    let [first, second] = machine.cpus;
    writeln!(
        text,
        "\nmachine: {}, Linux {}, pinned to CPUs {first} and {second}",
        machine.processor, machine.kernel
    )?;
    let lines = || report.rows.iter().flat_map(|row| row.line_ns.iter().copied().flatten());
    if let (Some(low), Some(high)) =
        (lines().min_by(f64::total_cmp), lines().max_by(f64::total_cmp))
    {
        writeln!(
            text,
            "distance of the two CPUs during the run: {} .. {} ns between two bare lines{}",
            number(low),
            number(high),
            if high > 1.5 * low { "; it changed: trust only what the rounds agree on" } else { "" }
        )?;
    }
    if let (Some(ping), Some(forwarded)) = (report.delay, report.forwarded) {
        writeln!(
            text,
            "network with delay: a datagram there and back {} us at least, {} us in the median; the relay \
             (real-time: {}) forwarded {} packets and dropped {}",
            number(ping.min_ns / 1e3),
            number(ping.median_ns / 1e3),
            forwarded.real_time,
            forwarded.packets,
            forwarded.dropped
        )?;
    }
    for round in &report.rounds {
        let noisy = round.before_percent.max(round.during_percent) > NOISY_PERCENT;
        writeln!(
            text,
            "round {}: background load {:.0} % before, {:.0} % during, load average {:.1}{}",
            round.round + 1,
            round.before_percent,
            round.during_percent,
            round.load_average,
            if noisy { "  (noisy)" } else { "" }
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(number(1.234), "1.23");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(12_345.6), "12346");
    }

    #[test]
    fn the_table_shows_rows_missing_and_rounds() {
        let text = render(&example());
        let line = |start: &str| {
            text.lines()
                .find(|line| line.trim_start().starts_with(start))
                .unwrap_or_else(|| panic!("no line {start} in\n{text}"))
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(line("tag_lat-8"), "tag_lat-8 bowline 110 ns 100 .. 120 220 -");
        assert_eq!(line("ucx-debian*"), "ucx-debian* 220 ns 200 .. 240 440 2.00 x");
        assert_eq!(line("impi-wheel"), "impi-wheel: everything: all is missing; get it");
        assert!(line("bowline: barrier-8, init-64: ").contains("--quick"));
        assert!(line("round 1:").ends_with("(noisy)"));
    }
}
