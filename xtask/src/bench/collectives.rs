//! Recursive multiplying beside the figures published about it: what the model says, what the simulator finds, and what
//! real ranks take. (M. Ruefenacht, "Towards Larger Scale Collective Operations in the Message Passing Interface",
//! thesis, Edinburgh 2020, chapters 4 and 5.)
//!
//! Counts and efficiencies are computed and have to agree to the digit; times of real ranks are those of this machine,
//! where ranks share processors, and only their quotients mean something.

mod choices;
mod correlation;
mod fits;
mod gains;
mod loaded;
mod merging;
mod pictures;
mod queues;
mod ranks;
mod simulated;
mod sizes;
mod tables;
mod widths;

use std::path::PathBuf;

use anyhow::Result;
use bowline_model::choice::{FactorOrder, Reading, choose, time};
use bowline_model::coll::prove;
use bowline_model::fennel::network::Pipelined;
use bowline_model::schedule::Schedule;
use serde::Serialize;

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

/// What is computed and simulated.
#[derive(Debug, Serialize)]
struct Computed {
    rows: Vec<Row>,
    /// E12: the best schedules of each form.
    merging: Vec<merging::Forms>,
    /// E6: schedules beside recursive doubling on two networks.
    gains: Vec<gains::Gains>,
}

/// What was measured on a Cray XC30 with 8 bytes. (Table 5.3.)
struct Measured {
    ranks: u32,
    schedule: &'static str,
    /// The shortest times of recursive doubling and of the schedule, us.
    us: [f64; 2],
    /// How much less time the schedule took, percent: by the shortest times, and by medians.
    gains: [f64; 2],
}

const fn measured(ranks: u32, schedule: &'static str, us: [f64; 2], gains: [f64; 2]) -> Measured {
    Measured { ranks, schedule, us, gains }
}

const MEASURED: [Measured; 11] = [
    measured(4, "a4", [2.36, 1.87], [21.1, 19.7]),
    measured(6, "a6", [4.76, 2.87], [40.0, 34.1]),
    measured(8, "a2,a4", [4.37, 3.54], [18.9, 23.0]),
    measured(12, "a3,a4", [7.03, 4.43], [37.0, 24.4]),
    measured(16, "a4,a4", [6.85, 4.98], [27.3, 27.6]),
    measured(24, "a4,a6", [9.99, 6.91], [30.8, 14.2]),
    measured(32, "a8,a4", [12.9, 8.95], [30.8, 18.4]),
    measured(48, "a8,a6", [19.8, 13.3], [33.2, 17.1]),
    measured(64, "a8,a8", [24.2, 16.5], [31.9, 15.9]),
    measured(96, "a8,a3,a4", [25.3, 20.7], [18.1, 7.96]),
    measured(128, "a8,a4,a4", [25.1, 17.9], [28.9, 12.5]),
];

/// What was published about a number of ranks: a schedule, and its gains by minima and by medians, percent.
fn published(ranks: u32) -> Option<(&'static str, f64, f64)> {
    let of = MEASURED.iter().find(|known| known.ranks == ranks);
    of.map(|&Measured { schedule, gains: [min, median], .. }| (schedule, min, median))
}

/// Measures with real ranks, if that is asked for; computes and simulates otherwise.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let files = [&options.json, &options.real.learn, &options.tables.plot];
    files.into_iter().flatten().try_for_each(|path| output::check_place(path))?;
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
    let plots = options.real.plots.as_deref();
    widths::best(&mut rows, plots)?;
    widths::efficiencies(&mut rows, plots)?;
    let merging = merging::measure(&mut rows, plots)?;
    messages(&mut rows)?;
    let gains = gains::measure(&mut rows, plots)?;
    simulated::sizes(&mut rows, plots)?;
    great_machines(&mut rows);
    println!("{:<4} {:<68} {:>10} {:>10}", "", "", "published", "here");
    for Row { experiment, what, published, ours, unit } in &rows {
        let published = published.map_or_else(String::new, |value| format!("{value:.2}"));
        println!("{experiment:<4} {what:<68} {published:>10} {ours:>10.2} {unit}");
    }
    match &options.json {
        Some(path) => output::write_json(path, &Computed { rows, merging, gains }),
        None => Ok(()),
    }
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

/// What a fixed choice of recursive doubling costs on great machines, under the costs of chapter 5's simulations.
fn great_machines(rows: &mut Vec<Row>) {
    let cost = Pipelined::CHAPTER_5.cost;
    for bits in [10, 14, 17, 20] {
        let ranks = 1 << bits;
        let doubling = time(&Schedule::doubling(ranks), cost, Reading::Groups);
        let chosen = time(&choose(ranks, cost.ratio(), FactorOrder::ByCost), cost, Reading::Groups);
        let what = format!("2^{bits} ranks, 8 bytes: less time than recursive doubling, modelled");
        let ours = 100.0 * (1.0 - chosen / doubling);
        rows.push(Row { experiment: "E17", what, published: None, ours, unit: "%" });
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parsed(line: &str) -> Result<Options> {
        let line = Line::try_parse_from(["collectives"].into_iter().chain(line.split_whitespace()));
        Ok(line?.options)
    }

    #[test]
    fn what_cannot_be_done_is_refused_before_anything_is_built() {
        let refused = |line: &str| -> Result<()> {
            let options = parsed(line)?;
            ranks::wanted(&options.real)?;
            options.tables.check()
        };
        for (line, wanted) in [
            ("--ranks 8", "--real"),
            ("--real e5", "e17"),
            ("--real e8 --ranks 1", "2 to"),
            ("--real e8 --ranks 65", "2 to 64 are possible over tcp"),
            ("--real e6 --ranks 5", "E6 runs published schedules"),
            ("--real e8 --rounds 0", "at least 1"),
            ("--real e8 --seconds 0", "--seconds"),
            ("--real e8 --delay 9999999", "--delay"),
            ("--real e8 --learn table", "choice"),
            ("--real choice --learn table", "one network"),
            ("--tables --real e8", "cannot be used"),
            ("--bits 4", "--tables"),
            ("--tables --bits 25", "1 to 24"),
            ("--tables --each 3", "powers of two"),
            ("--tables --modelled slow", "chapter-5"),
            ("--tables --only gossip", "reduce_scatter_block"),
            ("--tables --each 4 --only alltoall", "on nodes of several ranks"),
        ] {
            let error = refused(line).expect_err(line).to_string();
            assert!(error.contains(wanted), "{line}: {error}");
        }
        for line in [
            "",
            "--plots plots",
            "--real e8 --ranks 64",
            "--real choice --networks shm --ranks 128 --learn table",
            "--tables --bits 4 --each 4 --only barrier",
        ] {
            refused(line).expect(line);
        }
    }

    #[test]
    fn figures_have_a_place() {
        assert!(output::check_place(std::path::Path::new("figures.json")).is_ok());
        let error = output::check_place(std::path::Path::new("no/such/figures.json"));
        assert!(error.unwrap_err().to_string().contains("no/such"));
    }
}
