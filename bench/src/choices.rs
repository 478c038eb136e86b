//! The cells of a comparison of means, from its rows, and their table.

use crate::metric::{Metric, median};
use crate::report::{Role, Row};
use crate::selection::{APART, FORCED, Means, Measure, OWN, STATIC, SelectionCell};

mod table;

pub(crate) use table::render;

/// The distances of a run: one, or a near and a far one.
#[derive(Debug, Clone, Copy)]
struct Distances {
    /// Lines below are near.
    limit: f64,
    /// Whether there are two.
    two: bool,
}

impl Distances {
    fn of(rows: &[Row]) -> Self {
        let lines = || rows.iter().flat_map(|row| row.line_ns.iter().copied().flatten());
        let low = lines().min_by(f64::total_cmp).unwrap_or(0.0);
        let high = lines().max_by(f64::total_cmp).unwrap_or(0.0);
        let two = high > APART * low;
        Self { limit: if two { (low * high).sqrt() } else { f64::INFINITY }, two }
    }

    fn is_far(self, line_ns: f64) -> bool {
        line_ns >= self.limit
    }
}

/// The cells of a comparison, near ones first, in the order of its metrics.
pub(crate) fn cells(rows: &[Row]) -> Vec<SelectionCell> {
    let distances = Distances::of(rows);
    let mut metrics: Vec<Metric> = rows.iter().map(|row| row.metric).collect();
    metrics.dedup();
    let mut cells = Vec::new();
    for far in [false, true] {
        if far && !distances.two {
            continue;
        }
        for &metric in &metrics {
            let here: Vec<&Row> = rows.iter().filter(|row| row.metric == metric).collect();
            cells.extend([false, true].iter().filter_map(|&c| cell(&here, c, distances, far)));
        }
    }
    cells
}

/// One cell from the rows of one metric.
fn cell(rows: &[&Row], c: bool, distances: Distances, far: bool) -> Option<SelectionCell> {
    let of = |means: Means| {
        let id = if c { means.c } else { means.rust };
        let row = rows.iter().find(|row| row.source == id)?;
        measure(row, means.name, distances, far)
    };
    let own = of(OWN)?;
    let forced: Vec<Measure> = FORCED.into_iter().filter_map(of).collect();
    let first = rows.first().filter(|_| !forced.is_empty())?;
    let peers = rows.iter().filter(|row| row.role == Role::Peer);
    let peers = peers.filter_map(|row| measure(row, &row.source, distances, far));
    let lines = rows.iter().flat_map(|row| row.line_ns.iter().copied().flatten());
    let lines: Vec<f64> = lines.filter(|&line| distances.is_far(line) == far).collect();
    Some(SelectionCell {
        name: first.name.clone(),
        metric: first.metric,
        c,
        line_ns: ends(&lines)?,
        far,
        own,
        by_costs: of(STATIC),
        forced,
        peer: peers.min_by(|a, b| a.median_ns.total_cmp(&b.median_ns)),
    })
}

/// The samples of a row at one distance.
fn measure(row: &Row, name: &str, distances: Distances, far: bool) -> Option<Measure> {
    let samples = row.rounds.iter().zip(&row.line_ns);
    let here = samples.filter(|(_, line)| line.is_some_and(|ns| distances.is_far(ns) == far));
    let ns: Vec<f64> = here.map(|(&shown, _)| row.metric.ns_of(shown)).collect();
    let spread_ns = ends(&ns)?;
    Some(Measure { name: name.to_owned(), median_ns: median(&ns)?, spread_ns, rounds: ns.len() })
}

fn ends(values: &[f64]) -> Option<[f64; 2]> {
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    Some([low, values.iter().copied().max_by(f64::total_cmp)?])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::metric::Test;

    fn row(source: &str, role: Role, metric: Metric, samples: &[(f64, Option<f64>)]) -> Row {
        let rounds: Vec<f64> = samples.iter().map(|&(ns, _)| metric.shown(ns)).collect();
        Row {
            name: metric.to_string(),
            metric,
            source: source.to_owned(),
            role,
            unit: metric.test.unit(),
            median: median(&rounds).unwrap(),
            low: rounds[0],
            high: rounds[0],
            p99: None,
            best: None,
            ours_is_faster: None,
            rounds,
            line_ns: samples.iter().map(|&(_, line)| line).collect(),
        }
    }

    /// A latency and a bandwidth, each near in two rounds and far in one.
    pub(crate) fn example() -> Vec<Row> {
        let (near, far) = (Some(55.0), Some(270.0));
        let mut rows = Vec::new();
        for metric in [Metric::pair(Test::TagLat, 65_536), Metric::pair(Test::TagBw, 65_536)] {
            let mut add = |source, role, near_ns, far_ns| {
                let samples =
                    [(near_ns - 1.0, near), (near_ns + 1.0, near), (far_ns, far), (9e9, None)];
                rows.push(row(source, role, metric, &samples));
            };
            add("bowline", Role::Ours, 1050.0, 3000.0);
            add("bowline-static", Role::Ours, 1000.0, 4000.0);
            add("bowline-pieces", Role::Ours, 1000.0, 4000.0);
            add("bowline-read", Role::Ours, 2000.0, 2500.0);
            add("ucx-debian", Role::Peer, 2100.0, 2400.0);
            add("ucx-wheel", Role::Peer, 2200.0, 2700.0);
        }
        rows
    }

    #[test]
    fn each_distance_has_cells_of_its_own_samples() {
        let cells = cells(&example());
        let seen: Vec<(&str, bool)> = cells.iter().map(|c| (c.name.as_str(), c.far)).collect();
        let (lat, bw) = ("tag_lat-64k", "tag_bw-64k");
        assert_eq!(seen, [(lat, false), (bw, false), (lat, true), (bw, true)]);
        for cell in &cells {
            let near = !cell.far;
            let best = cell.best_forced().unwrap();
            assert_eq!(best.name, if near { "pieces" } else { "read" });
            assert_eq!(cell.own.rounds, if near { 2 } else { 1 });
            let quotient = cell.to_best(&cell.own).unwrap();
            assert!((quotient - if near { 1.05 } else { 1.2 }).abs() < 1e-9, "{quotient}");
            let faster = cell.to_peer().unwrap();
            assert!((faster - if near { 2.0 } else { 0.8 }).abs() < 1e-9, "{faster}");
            assert_eq!(cell.peer.as_ref().unwrap().name, "ucx-debian");
            assert!(!cell.c);
        }
    }

    #[test]
    fn one_distance_is_not_split() {
        let mut rows = example();
        for row in &mut rows {
            row.line_ns = vec![Some(55.0), Some(60.0), Some(80.0), None];
        }
        let cells = cells(&rows);
        assert_eq!(cells.len(), 2);
        assert!(cells.iter().all(|cell| !cell.far && cell.own.rounds == 3));
    }

    #[test]
    fn a_choice_without_anything_forced_is_no_cell() {
        let mut rows = example();
        rows.retain(|row| !["bowline-pieces", "bowline-read"].contains(&row.source.as_str()));
        assert!(cells(&rows).is_empty());
    }
}
