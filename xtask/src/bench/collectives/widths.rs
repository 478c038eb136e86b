//! E4 and E5: the widths of multicasts that the model finds best, and how near the schedules of the heuristic come to
//! the least time of all.

use std::path::Path;

use anyhow::Result;
use bowline_model::choice::{FactorOrder, Reading, Search, choose, choose_of, time};
use bowline_model::cost::{Pipelining, best_width, break_even_width, factor_cap};
use bowline_model::schedule::Schedule;

use super::Row;
use super::pictures::{self, Curve};

/// The ratio that chapter 5 computes with.
const RATIO: f64 = 2.911;

/// The ratio, its best width and its greatest useful factor, as published (chapter 5) or computed from its table 4.1.
const PUBLISHED: [(f64, f64, f64); 2] = [(2.316, 2.83, 9.0), (RATIO, 3.258, 12.0)];

/// E4: the best width of a multicast, and the greatest factor that is worth its messages.
pub(super) fn best(rows: &mut Vec<Row>, plots: Option<&Path>) -> Result<()> {
    let mut row = |what: String, published, ours| {
        rows.push(Row { experiment: "E4", what, published: Some(published), ours, unit: "" });
    };
    for (ratio, width, cap) in PUBLISHED {
        row(format!("best width at ratio {ratio}"), width, best_width(ratio));
        row(format!("greatest factor at ratio {ratio}"), cap, f64::from(factor_cap(ratio)));
    }
    let Some(directory) = plots else { return Ok(()) };
    let ratios = || (0..=46).map(|step| 0.25 * 2_f64.powf(f64::from(step) / 10.0));
    let curve = |name: &str, of: &dyn Fn(f64) -> f64| Curve {
        name: name.to_owned(),
        points: ratios().map(|ratio| (ratio, of(ratio))).collect(),
    };
    let published = |name: &str, of: &dyn Fn(f64, f64) -> f64| Curve {
        name: name.to_owned(),
        points: PUBLISHED.iter().map(|&(ratio, width, cap)| (ratio, of(width, cap))).collect(),
    };
    let curves = [
        curve("best width", &best_width),
        curve("as dear as doubling", &break_even_width),
        curve("greatest useful factor", &|ratio| f64::from(factor_cap(ratio))),
        published("published best width", &|width, _| width),
        published("published factor", &|_, cap| cap),
    ];
    let axes = ["alpha_p / alpha_r", "receivers"];
    pictures::draw(&directory.join("e4.png"), "Widths of multicasts", axes, &curves)
}

/// Numbers of ranks over which efficiencies are averaged: from 2 to this one.
const MOST: u32 = 1024;

/// E5: the mean of the least time of all schedules, in that of the one that is chosen, for 2 to 1024 ranks, and the ranks
/// below 50 at which the heuristic's is not the best (table 5.2). The published means are those of a ratio of 2.9; with
/// 2.911, the one of the published table, they are 72.0, 92.4 and 97.2.
pub(super) fn efficiencies(rows: &mut Vec<Row>, plots: Option<&Path>) -> Result<()> {
    const ROUNDED: f64 = 2.9;
    let cost = Pipelining { pipelining: ROUNDED, required: 1.0 };
    let mut search = Search::new(cost, Reading::Published);
    let least: Vec<f64> = (2..=MOST).map(|ranks| search.least(ranks)).collect();
    // Means to each number of ranks; the last is that of all.
    let means = |of: &dyn Fn(u32) -> Schedule| -> Vec<(f64, f64)> {
        let mut sum = 0.0;
        let mean = |(ranks, least): (u32, &f64)| {
            sum += 100.0 * least / time(&of(ranks), cost, Reading::Published);
            (f64::from(ranks), sum / f64::from(ranks - 1))
        };
        (2..).zip(&least).map(mean).collect()
    };
    let found = [
        ("recursive doubling", 72.1, means(&Schedule::doubling)),
        (
            "greatest factors to 12 first",
            92.4,
            means(&|n| choose(n, ROUNDED, FactorOrder::Greatest)),
        ),
        // The cap of the ratio that was fitted.
        ("greatest factors to 9 first", 92.4, means(&|n| choose_of(n, &[9, 8, 7, 6, 5, 4, 3, 2]))),
        ("heuristic, cheapest first", 97.1, means(&|n| choose(n, ROUNDED, FactorOrder::ByCost))),
    ];
    for (what, published, means) in &found {
        let what = format!("efficiency to {MOST} ranks: {what}");
        let ours = means.last().map_or(f64::NAN, |mean| mean.1);
        rows.push(Row { experiment: "E5", what, published: Some(*published), ours, unit: "%" });
    }
    single_ranks(rows);
    let Some(directory) = plots else { return Ok(()) };
    let published = Curve {
        name: "published".to_owned(),
        points: [72.1, 92.4, 97.1].map(|mean| (f64::from(MOST), mean)).to_vec(),
    };
    let curve = |(name, _, points): (&str, f64, _)| Curve { name: name.to_owned(), points };
    let curves: Vec<Curve> = found.into_iter().map(curve).chain([published]).collect();
    let title = "Mean efficiency from 2 ranks on, in that of the best schedule";
    pictures::draw(&directory.join("e5.png"), title, ["ranks", "%"], &curves)
}

/// The ranks at which the heuristic's schedule was published not to be the best, and how near it comes (table 5.2). Row
/// 44 is printed as 95.5, which no reading of the equations gives.
const TABLE_5_2: [(u32, f64); 10] = [
    (11, 91.6),
    (19, 93.3),
    (22, 88.1),
    (23, 78.7),
    (29, 94.1),
    (33, 94.4),
    (34, 84.9),
    (41, 95.1),
    (43, 99.5),
    (44, 95.5),
];

fn single_ranks(rows: &mut Vec<Row>) {
    let cost = Pipelining { pipelining: RATIO, required: 1.0 };
    let mut search = Search::new(cost, Reading::Published);
    for ranks in 2..50 {
        let schedule = choose(ranks, RATIO, FactorOrder::ByCost);
        let ours = 100.0 * search.least(ranks) / time(&schedule, cost, Reading::Published);
        let published = TABLE_5_2.iter().find(|(of, _)| *of == ranks).map(|(_, of)| *of);
        if published.is_some() || ours < 99.95 {
            let what = format!("efficiency at {ranks} ranks: {schedule}");
            rows.push(Row { experiment: "E5", what, published, ours, unit: "%" });
        }
    }
}
