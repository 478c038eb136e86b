//! Recursive multiplying beside the figures published about it: what the model says, what the simulator finds, and what
//! real ranks take. (M. Ruefenacht, "Towards Larger Scale Collective Operations in the Message Passing Interface",
//! thesis, Edinburgh 2020, chapters 4 and 5.)
//!
//! Counts and efficiencies are computed and have to agree to the digit; times of real ranks are those of this machine,
//! where ranks share processors, and only their quotients mean something.

mod choices;
mod correlation;
mod fits;
mod pictures;
mod ranks;
mod tables;

use std::path::PathBuf;

use anyhow::{Context, Result};
use bowline_model::choice::{Order, Reading, Search, choose, choose_of, time};
use bowline_model::coll::prove;
use bowline_model::cost::{Pipelining, best_width, factor_cap};
use bowline_model::fennel::generate::allreduce;
use bowline_model::fennel::instrument::Skew;
use bowline_model::fennel::machine::Machine;
use bowline_model::fennel::network::{Fixed, Pipelined};
use bowline_model::schedule::Schedule;
use serde::Serialize;

use self::pictures::Curve;
use super::output;
use crate::workspace::Workspace;

/// What to take.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    real: ranks::RealOptions,
    /// Where Bowline is installed that real ranks run; by default it is built and installed below target
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
    /// Where to write the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    tables: tables::TableOptions,
}

/// A figure beside the one that was published.
#[derive(Debug, Serialize)]
struct Row {
    experiment: &'static str,
    what: String,
    published: Option<f64>,
    ours: f64,
    unit: &'static str,
}

/// The ratio that chapter 5 computes with.
const RATIO: f64 = 2.911;

/// What was measured on a Cray XC30: ranks, schedule, and how much less time than recursive doubling it took, by the
/// shortest times and by medians. (Table 5.3.)
const MEASURED: [(u32, &str, f64, f64); 11] = [
    (4, "a4", 21.1, 19.7),
    (6, "a6", 40.0, 34.1),
    (8, "a2,a4", 18.9, 23.0),
    (12, "a3,a4", 37.0, 24.4),
    (16, "a4,a4", 27.3, 27.6),
    (24, "a4,a6", 30.8, 14.2),
    (32, "a8,a4", 30.8, 18.4),
    (48, "a8,a6", 33.2, 17.1),
    (64, "a8,a8", 31.9, 15.9),
    (96, "a8,a3,a4", 18.1, 7.96),
    (128, "a8,a4,a4", 28.9, 12.5),
];

/// What was published about a number of ranks: a schedule, and its gains by minima and by medians, percent.
fn published(ranks: u32) -> Option<(&'static str, f64, f64)> {
    let of = MEASURED.iter().find(|(known, ..)| *known == ranks);
    of.map(|&(_, schedule, min, median)| (schedule, min, median))
}

/// Measures with real ranks, if that is asked for; computes and simulates otherwise.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if options.tables.wanted() {
        return tables::run(&options.tables, options.json.as_deref());
    }
    if ranks::wanted(&options.real)? {
        let prefix = match &options.prefix {
            Some(prefix) => prefix.clone(),
            None => {
                let target = workspace.metadata.target_directory.as_std_path();
                let prefix = target.join("xtask/installed");
                crate::install::install_fast(workspace, &prefix)?;
                prefix
            }
        };
        let findings = ranks::run(&prefix, &options.real)?;
        return match &options.json {
            Some(path) => output::write_json(path, &findings),
            None => Ok(()),
        };
    }
    let mut rows = Vec::new();
    widths(&mut rows);
    efficiencies(&mut rows);
    merging(&mut rows)?;
    messages(&mut rows)?;
    let curves = gains(&mut rows)?;
    if let Some(directory) = &options.real.plots {
        let title = "Allreduce of 8 bytes: less time than recursive doubling, %";
        pictures::draw(&directory.join("e6-modelled.png"), title, "ranks", &curves)?;
    }
    great_machines(&mut rows);
    println!("{:<4} {:<68} {:>10} {:>10}", "", "", "published", "here");
    for Row { experiment, what, published, ours, unit } in &rows {
        let published = published.map_or_else(String::new, |value| format!("{value:.2}"));
        println!("{experiment:<4} {what:<68} {published:>10} {ours:>10.2} {unit}");
    }
    match &options.json {
        Some(path) => output::write_json(path, &rows),
        None => Ok(()),
    }
}

/// E4: the best width of a multicast, and the greatest factor that is worth its messages.
fn widths(rows: &mut Vec<Row>) {
    let mut row = |what: String, published, ours| {
        rows.push(Row { experiment: "E4", what, published: Some(published), ours, unit: "" });
    };
    for (ratio, width, cap) in [(RATIO, 3.258, 12.0), (2.316, 2.83, 9.0)] {
        row(format!("best width at ratio {ratio}"), width, best_width(ratio));
        row(format!("greatest factor at ratio {ratio}"), cap, f64::from(factor_cap(ratio)));
    }
}

/// E5: the mean of the least time of all schedules, in that of the one that is chosen, for 2 to 1024 ranks. The published
/// means are those of a ratio of 2.9; with 2.911, the one of the published table, they are 72.0, 92.4 and 97.2.
fn efficiencies(rows: &mut Vec<Row>) {
    const ROUNDED: f64 = 2.9;
    let cost = Pipelining { pipelining: ROUNDED, required: 1.0 };
    let mut search = Search::new(cost, Reading::Published);
    let mut mean = |of: &dyn Fn(u32) -> Schedule| {
        let part = |ranks| search.least(ranks) / time(&of(ranks), cost, Reading::Published);
        (2..=1024).map(part).sum::<f64>() * 100.0 / 1023.0
    };
    let found = [
        ("recursive doubling", 72.1, mean(&Schedule::doubling)),
        ("greatest factors to 12 first", 92.4, mean(&|n| choose(n, ROUNDED, Order::Greatest))),
        // The cap of the ratio that was fitted.
        ("greatest factors to 9 first", 92.4, mean(&|n| choose_of(n, &[9, 8, 7, 6, 5, 4, 3, 2]))),
        ("heuristic, cheapest factors first", 97.1, mean(&|n| choose(n, ROUNDED, Order::ByCost))),
    ];
    for (what, published, ours) in found {
        let what = format!("efficiency to 1024 ranks: {what}");
        rows.push(Row { experiment: "E5", what, published: Some(published), ours, unit: "%" });
    }
}

/// What the simulator finds with the parameters of chapter 5 for vectors of so many bytes, and by how much ranks end
/// apart.
fn simulated(ranks: u32, text: &str, bytes: usize) -> Result<(f64, f64)> {
    let schedule = Schedule::parse(ranks, text).context("a published schedule")?;
    let mut machine = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };
    let mut skew = Skew::new(ranks);
    let time = machine.run(&allreduce(&schedule, bytes), &mut [&mut skew])?;
    Ok((time, skew.spread()))
}

/// E12: seven ranks, merged and collapsed. The published figures are those of vectors of no length.
fn merging(rows: &mut Vec<Row>) -> Result<()> {
    let (split, apart) = simulated(7, "c6m2,a2,a2,e6m2", 0)?;
    let mut row = |what: &str, published, ours, unit| {
        rows.push(Row { experiment: "E12", what: what.to_owned(), published, ours, unit });
    };
    row("7 ranks, collapsed: ends apart", Some(700.0), apart, "ns");
    let merges = [("m1g2a3,n1g3a2", Some(41.8), 100.0), ("m3g2a2,n3g2a2", None, 200.0)];
    for (text, less, published) in merges {
        let (time, apart) = simulated(7, text, 0)?;
        row(&format!("7 ranks, {text}: less time"), less, 100.0 * (1.0 - time / split), "%");
        row(&format!("7 ranks, {text}: ends apart, at most"), Some(published), apart, "ns");
    }
    let (mut better, mut counted) = (0, 0);
    for ranks in (5..=64_u32).filter(|ranks| !ranks.is_power_of_two()) {
        let merged = choose(ranks, 5.0, Order::ByCost);
        let (one, _) = simulated(ranks, &merged.to_string(), 8)?;
        let (other, _) = simulated(ranks, &Schedule::doubling(ranks).to_string(), 8)?;
        counted += 1;
        better += u32::from(one < other);
    }
    let what = format!("of {counted} numbers of ranks to 64, the heuristic beats collapsing at");
    rows.push(Row { experiment: "E12", what, published: None, ours: f64::from(better), unit: "" });
    Ok(())
}

/// E13: messages of 64 ranks.
fn messages(rows: &mut Vec<Row>) -> Result<()> {
    for (text, published) in [("a4,a4,a4", 576.0), ("a2,a2,a2,a2,a2,a2", 384.0)] {
        let proof = prove::multiplying(&Schedule::parse(64, text)?, (8, 8), false)?;
        let what = format!("64 ranks, {text}: messages");
        let ours = proof.messages() as f64;
        rows.push(Row { experiment: "E13", what, published: Some(published), ours, unit: "" });
    }
    Ok(())
}

/// E6 by the simulator with the parameters that were fitted on that machine: what the model leaves of the gains that
/// were measured.
fn gains(rows: &mut Vec<Row>) -> Result<[Curve; 3]> {
    let Pipelining { pipelining, required } = Pipelining::ARCHER;
    let cost = Pipelining { pipelining: pipelining * 1e3, required: required * 1e3 };
    let time = |schedule: &Schedule| {
        let mut machine = Machine { network: Pipelined { cost, byte: 0.0 }, compute: Fixed(0.0) };
        machine.run(&allreduce(schedule, 8), &mut [])
    };
    let curve = |name: &str| Curve { name: name.to_owned(), points: Vec::new() };
    let mut curves = [
        curve("published, minimum"),
        curve("the same schedules, simulated"),
        curve("the heuristic's, simulated"),
    ];
    for (ranks, text, published, _) in MEASURED {
        curves[0].points.push((ranks.into(), published));
        let doubling = time(&Schedule::doubling(ranks))?;
        for (curve, (name, schedule)) in (1..).zip([
            (text.to_owned(), Schedule::parse(ranks, text)?),
            ("the heuristic's".to_owned(), choose(ranks, cost.ratio(), Order::ByCost)),
        ]) {
            let ours = 100.0 * (1.0 - time(&schedule)? / doubling);
            curves[curve].points.push((ranks.into(), ours));
            let what = format!("{ranks} ranks, {name}: less time than doubling, simulated");
            rows.push(Row { experiment: "E6", what, published: Some(published), ours, unit: "%" });
        }
    }
    Ok(curves)
}

/// What a fixed choice of recursive doubling costs on great machines, under the costs of chapter 5's simulations.
fn great_machines(rows: &mut Vec<Row>) {
    let cost = Pipelined::CHAPTER_5.cost;
    for bits in [10, 14, 17, 20] {
        let ranks = 1 << bits;
        let doubling = time(&Schedule::doubling(ranks), cost, Reading::Groups);
        let chosen = time(&choose(ranks, cost.ratio(), Order::ByCost), cost, Reading::Groups);
        let what = format!("2^{bits} ranks, 8 bytes: less time than recursive doubling, modelled");
        let ours = 100.0 * (1.0 - chosen / doubling);
        rows.push(Row { experiment: "E17", what, published: None, ours, unit: "%" });
    }
}
