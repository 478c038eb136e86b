//! What is chosen beside every algorithm that could have been, measured with real ranks in turns.

use anyhow::{Context, Result};
use bowline_bench::{Contestant, Order, Rounds};
use bowline_model::coll::forms::{Allgather, Allreduce, Bcast, Form, ReduceScatter};
use bowline_model::coll::wanted::STAGED;
use serde::Serialize;

use super::ranks::{Network, Site};

/// A collective whose choice is looked at.
struct Collective {
    name: &'static str,
    /// The benchmark program's name of one operation at a time, from the last call to the last return.
    test: &'static str,
    setting: &'static str,
    candidates: Vec<String>,
}

/// What can be asked for by name; the memory that ranks share only where they share some.
fn names<F: Form>(network: Network) -> Vec<String> {
    let staged = (network == Network::Shm).then_some(STAGED);
    let names = F::NAMED.iter().map(|(name, _)| *name);
    names.chain(staged).map(ToOwned::to_owned).collect()
}

/// All of them, with what can be asked for by name.
fn collectives(network: Network) -> [Collective; 4] {
    let mut allreduce = names::<Allreduce>(network);
    allreduce.push("multiplying".to_owned());
    allreduce.push("multiplying:12".to_owned());
    let collective =
        |name, test, setting, candidates| Collective { name, test, setting, candidates };
    [
        collective("allreduce", "allreducelast", "BOWLINE_ALLREDUCE", allreduce),
        collective("bcast", "bcastlast", "BOWLINE_BCAST", names::<Bcast>(network)),
        collective("allgather", "allgatherlast", "BOWLINE_ALLGATHER", names::<Allgather>(network)),
        collective(
            "reduce_scatter",
            "reducescatterlast",
            "BOWLINE_REDUCE_SCATTER",
            names::<ReduceScatter>(network),
        ),
    ]
}

const SIZES: [u64; 4] = [8, 1 << 10, 64 << 10, 1 << 20];
const RANKS: [u32; 5] = [4, 7, 8, 12, 16];

/// One collective at one size and number of ranks.
#[derive(Debug, Serialize)]
pub(super) struct Cell {
    network: &'static str,
    collective: &'static str,
    size: u64,
    ranks: u32,
    /// What was chosen took so long, ns.
    chosen_ns: f64,
    /// The best of all: its name, and its time, ns.
    best: String,
    best_ns: f64,
    /// All algorithms with their times, ns.
    all: Vec<(String, f64)>,
}

impl Cell {
    /// What was chosen in the time of the best.
    fn quotient(&self) -> f64 {
        self.chosen_ns / self.best_ns
    }
}

/// Measures every cell of one network.
pub(super) fn measure(site: &mut Site<'_>) -> Result<Vec<Cell>> {
    let collectives = collectives(site.network);
    let longest = collectives.iter().map(|one| one.candidates.len()).max().unwrap_or(0);
    // A job asks for one algorithm of each collective; the first one for none.
    let job = |place: usize| {
        let asked = collectives.iter().filter_map(|one| {
            let candidate = one.candidates.get(place.checked_sub(1)?)?;
            Some((one.setting, candidate.as_str()))
        });
        let asked: Vec<(&str, &str)> = asked.collect();
        Contestant::bowline(format!("algorithms {place}"), &asked)
    };
    let contestants: Vec<Contestant> = (0..=longest).map(job).collect();
    let order = |test: &str, size| Order { test: test.to_owned(), size, block: 1 };
    let orders: Vec<Order> =
        collectives.iter().flat_map(|one| SIZES.map(|size| order(one.test, size))).collect();
    let mut cells = Vec::new();
    for ranks in site.ranks(&RANKS) {
        let figures = site.in_turns(ranks, &contestants, &orders)?;
        for one in &collectives {
            for size in SIZES {
                let time = |place: usize| {
                    let rounds = figures.get(&(place, order(one.test, size)));
                    rounds.and_then(Rounds::median_ns).context("a figure of an algorithm")
                };
                let chosen_ns = time(0)?;
                let mut all = vec![("auto".to_owned(), chosen_ns)];
                for (place, name) in (1..).zip(&one.candidates) {
                    all.push((name.clone(), time(place)?));
                }
                let (best, best_ns) = all
                    .iter()
                    .min_by(|a, b| a.1.total_cmp(&b.1))
                    .cloned()
                    .context("an algorithm")?;
                let network = site.network.name();
                cells.push(Cell {
                    network,
                    collective: one.name,
                    size,
                    ranks,
                    chosen_ns,
                    best,
                    best_ns,
                    all,
                });
            }
        }
    }
    Ok(cells)
}

/// Prints cells, and how many are within 5 % of the best.
pub(super) fn show(cells: &[Cell]) {
    for cell in cells {
        let all: Vec<String> =
            cell.all.iter().map(|(name, ns)| format!("{name} {:.1}", ns / 1e3)).collect();
        println!(
            "choice {:<4} {:<14} {:>7} B {:>3} ranks: {:.3} of the best ({}); us: {}",
            cell.network,
            cell.collective,
            cell.size,
            cell.ranks,
            cell.quotient(),
            cell.best,
            all.join(", ")
        );
    }
    let near = cells.iter().filter(|cell| cell.quotient() <= 1.05).count();
    println!(
        "choice: {near} of {} cells are within 5 % of the best ({:.0} %)",
        cells.len(),
        100.0 * near as f64 / cells.len().max(1) as f64
    );
}
