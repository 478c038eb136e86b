//! The cells as a text table, and how many of them are as they should be.

use std::fmt::Write;

use crate::metric::{Metric, Unit, number};
use crate::selection::{CLOSE, Measure, SelectionCell, others};

/// The table, near cells first, with a summary of each distance.
pub(crate) fn render(cells: &[SelectionCell]) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail, so that the results are dropped.
    for far in [false, true] {
        let here: Vec<&SelectionCell> = cells.iter().filter(|cell| cell.far == far).collect();
        if !here.is_empty() {
            let _ = write_distance(&mut text, &here);
        }
    }
    let _ = writeln!(
        text,
        "own: what Bowline chooses; static: by known costs (BOWLINE_SELECT=static). The means that settings force: \
         pieces (eager),\nfragments (asked for, through the ring), read (by the kernel), shared (sender and receiver \
         read). to best: the time of the own choice in\nthat of the best forced means; + is above {CLOSE}. Latencies \
         in us, of windows GB/s. late: no receive is posted before its message is there.",
    );
    text
}

fn write_distance(text: &mut String, cells: &[&SelectionCell]) -> std::fmt::Result {
    let low = cells.iter().map(|cell| cell.line_ns[0]).fold(f64::INFINITY, f64::min);
    let high = cells.iter().map(|cell| cell.line_ns[1]).fold(0.0, f64::max);
    writeln!(text, "{} .. {} ns between two bare lines", number(low), number(high))?;
    write!(text, "{:<18} {:<4} {:>6} {:>7}", "cell", "", "rounds", "own")?;
    for means in others() {
        write!(text, " {:>9}", means.name)?;
    }
    writeln!(text, "  {:<16} {:>7}  best peer", "to best", "ours is")?;
    for cell in cells {
        let metric = cell.metric;
        let interface = if cell.c { "C" } else { "Rust" };
        let own = shown(metric, &cell.own);
        write!(text, "{:<18} {interface:<4} {:>6} {own:>7}", cell.name, cell.own.rounds)?;
        for means in others() {
            let all = cell.by_costs.iter().chain(&cell.forced);
            let found = all.into_iter().find(|measure| measure.name == means.name);
            let found = found.map_or_else(|| "-".to_owned(), |found| shown(metric, found));
            write!(text, " {found:>9}")?;
        }
        let quotient = cell.to_best(&cell.own).unwrap_or(f64::NAN);
        let mark = if quotient > CLOSE { '+' } else { ' ' };
        let best = cell.best_forced().map_or("", |best| best.name.as_str());
        write!(text, "  {:<16}", format!("{quotient:.2}{mark} {best}"))?;
        match (&cell.peer, cell.to_peer()) {
            (Some(peer), Some(faster)) => {
                writeln!(text, " {faster:>5.2} x  {} {}", shown(metric, peer), peer.name)?;
            }
            _ => writeln!(text, " {:>7}", "-")?,
        }
    }
    writeln!(text)?;
    for late in [false, true] {
        for (c, interface) in [(false, "Rust"), (true, "C")] {
            let is_of = |cell: &&&SelectionCell| cell.c == c && cell.metric.test.is_late() == late;
            let of: Vec<&SelectionCell> = cells.iter().filter(is_of).copied().collect();
            let name = format!("{interface}{}", if late { ", late" } else { "" });
            write_summary(text, &name, &of)?;
        }
    }
    write_summary(text, "all", cells)?;
    writeln!(text)
}

/// How many cells are close to the best forced means, and how many reach the best peer.
fn write_summary(text: &mut String, name: &str, cells: &[&SelectionCell]) -> std::fmt::Result {
    if cells.is_empty() {
        return Ok(());
    }
    let close = |quotients: &[f64]| quotients.iter().filter(|&&q| q <= CLOSE).count();
    let own: Vec<f64> = cells.iter().filter_map(|cell| cell.to_best(&cell.own)).collect();
    let by_costs: Vec<f64> =
        cells.iter().filter_map(|cell| cell.to_best(cell.by_costs.as_ref()?)).collect();
    write!(
        text,
        "{name}: {} of {} cells within {:.0} % of the best forced means, geometric mean {:.2}",
        close(&own),
        own.len(),
        (CLOSE - 1.0) * 100.0,
        geometric_mean(&own)
    )?;
    if !by_costs.is_empty() {
        let (all, mean) = (by_costs.len(), geometric_mean(&by_costs));
        write!(text, " (static: {} of {all}, {mean:.2})", close(&by_costs))?;
    }
    let peers: Vec<f64> = cells.iter().filter_map(|cell| cell.to_peer()).collect();
    if peers.is_empty() {
        return writeln!(text);
    }
    let reached = peers.iter().filter(|&&faster| faster >= 1.0).count();
    let mean = geometric_mean(&peers);
    writeln!(text, "; {reached} of {} reach the best peer, {mean:.2} x", peers.len())
}

fn geometric_mean(values: &[f64]) -> f64 {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    (logs / values.len() as f64).exp()
}

/// Latencies in us, bandwidths in GB/s.
fn shown(metric: Metric, measure: &Measure) -> String {
    let value = metric.shown(measure.median_ns);
    number(match metric.test.unit() {
        Unit::Nanoseconds | Unit::MegabytesPerSecond => value / 1e3,
        _ => value,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{cells, tests::example};
    use super::*;

    #[test]
    fn cells_are_lines_and_each_distance_is_counted() {
        let text = render(&cells(&example()));
        let line = |start: &str, nth: usize| {
            let found = text.lines().filter(|line| line.starts_with(start)).nth(nth);
            let found = found.unwrap_or_else(|| panic!("no line {start} in\n{text}"));
            found.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let near = "tag_lat-64k Rust 2 1.05 1.00 1.00 - 2.00 - 1.05 pieces 2.00 x 2.10 ucx-debian";
        assert_eq!(line("tag_lat-64k", 0), near);
        assert!(line("tag_bw-64k", 1).contains("1.20+ read 0.80 x"), "{text}");
        let all = "all: 2 of 2 cells within 10 % of the best forced means, geometric mean 1.05 (static: 2 of 2, \
                   1.00); 2 of 2 reach the best peer, 2.00 x";
        assert_eq!(line("all:", 0), all);
        assert!(line("all:", 1).contains("0 of 2 cells") && line("all:", 1).contains("0.80 x"));
    }

    #[test]
    fn means_are_geometric() {
        assert!((geometric_mean(&[2.0, 8.0]) - 4.0).abs() < 1e-9);
    }
}
