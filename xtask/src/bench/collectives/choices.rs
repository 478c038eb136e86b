//! What is chosen beside every algorithm that could have been, measured with real ranks in turns.
//!
//! The algorithms of a collective take turns within jobs, operation by operation. The best of some dozen is picked by one
//! half of the samples, and what it took is read from the other half, as what was chosen took is: the least of many
//! figures is below the truth by what noise there is, and the half that did not pick does not know of that.

use anyhow::{Context, Result, ensure};
use bowline_bench::{Figures, Order, Rounds};
use bowline_model::coll::forms::{Allgather, Allreduce, Bcast, Form, ReduceScatter};
use bowline_model::coll::tuned::{Cell as TableCell, Tuned};
use bowline_model::coll::wanted::STAGED;
use serde::Serialize;

use super::ranks::{Network, Site};

/// A collective whose choice is compared.
struct Collective {
    name: &'static str,
    /// The benchmark program's name of one operation at a time, from the last call to the last return.
    test: &'static str,
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
    let collective = |name, test, candidates| Collective { name, test, candidates };
    [
        collective("allreduce", "allreducelast", allreduce),
        collective("bcast", "bcastlast", names::<Bcast>(network)),
        collective("allgather", "allgatherlast", names::<Allgather>(network)),
        collective("reduce_scatter", "reducescatterlast", names::<ReduceScatter>(network)),
    ]
}

const SIZES: [u64; 4] = [8, 1 << 10, 64 << 10, 1 << 20];
const RANKS: [u32; 5] = [4, 7, 8, 12, 16];

/// One collective at one size and number of ranks.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cell {
    network: &'static str,
    collective: &'static str,
    size: u64,
    ranks: u32,
    /// What was chosen in the time of the best, each as the other half of the samples has it: the mean of both ways.
    quotient: f64,
    /// The quotient of two equals: the two halves of the samples of what was chosen, the greater in the lesser.
    noise: f64,
    /// The best by all samples.
    best: String,
    /// All algorithms with their medians, ns; the first one is what was chosen.
    all: Vec<(String, f64)>,
}

/// The quotient of what is in the first place and the best of all, for `of` that says what a place took by a half.
fn quotient(places: usize, of: &dyn Fn(usize, usize) -> Option<f64>) -> Option<f64> {
    let one_way = |pick: usize| {
        let by = |place: &usize| of(*place, pick).unwrap_or(f64::INFINITY);
        let best = (0..places).min_by(|one, other| by(one).total_cmp(&by(other)))?;
        Some(of(0, 1 - pick)? / of(best, 1 - pick)?)
    };
    Some((one_way(0)? + one_way(1)?) / 2.0)
}

fn cell(
    site: &Site<'_>,
    one: &Collective,
    order: &Order,
    ranks: u32,
    names: &[String],
    figures: &Figures,
) -> Result<Cell> {
    let rounds = |place: usize| figures.get(&(place, order.clone()));
    let half = |place: usize, half: usize| rounds(place)?.half_ns(half);
    let halves = half(0, 0).zip(half(0, 1)).context("a figure of what was chosen")?;
    let median = |place: usize| rounds(place).and_then(Rounds::median_ns).context("a figure");
    let mut all = Vec::new();
    for (place, name) in names.iter().enumerate() {
        all.push((name.clone(), median(place)?));
    }
    let best = all.iter().min_by(|one, other| one.1.total_cmp(&other.1)).context("an algorithm")?;
    Ok(Cell {
        network: site.network.name(),
        collective: one.name,
        size: order.size,
        ranks,
        quotient: quotient(names.len(), &half).context("figures of halves")?,
        noise: (halves.0 / halves.1).max(halves.1 / halves.0),
        best: best.0.clone(),
        all,
    })
}

/// Measures every cell of one network.
pub(super) fn measure(site: &mut Site<'_>) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for ranks in site.ranks(&RANKS) {
        for one in &collectives(site.network) {
            let orders = SIZES.map(|size| Order { test: one.test.to_owned(), size, block: 1 });
            let mut names = vec!["auto".to_owned()];
            names.extend(one.candidates.iter().cloned());
            let figures = site.within_jobs(ranks, &names, &orders)?;
            for order in &orders {
                let cell = cell(site, one, order, ranks, &names, &figures)?;
                show_one(&cell);
                cells.push(cell);
            }
        }
    }
    Ok(cells)
}

fn show_one(cell: &Cell) {
    let all: Vec<String> =
        cell.all.iter().map(|(name, ns)| format!("{name} {:.1}", ns / 1e3)).collect();
    println!(
        "choice {:<4} {:<14} {:>7} B {:>3} ranks: {:.3} of the best ({}; equals differ by {:.3}); us: {}",
        cell.network,
        cell.collective,
        cell.size,
        cell.ranks,
        cell.quotient,
        cell.best,
        cell.noise,
        all.join(", ")
    );
}

/// The quickest algorithms of all samples as a table, which has one network's cells.
pub(super) fn table(cells: &[Cell]) -> Result<Tuned> {
    ensure!(!cells.is_empty(), "--learn wants choice among the experiments");
    let network = cells[0].network;
    ensure!(cells.iter().all(|cell| cell.network == network), "--learn wants one network");
    let mut table = Tuned::default();
    for cell in cells {
        let nodes = if network == Network::Tcp.name() { cell.ranks } else { 1 };
        // The table has the bytes of all blocks there.
        let blocks = if cell.collective == "reduce_scatter" { u64::from(cell.ranks) } else { 1 };
        let upto = usize::try_from((cell.size * blocks).next_power_of_two())?;
        let note = format!("measured over {network}");
        let crew = (cell.ranks, nodes);
        table.learn([TableCell::new(
            cell.collective,
            crew,
            (upto / 2 + 1, upto),
            &cell.best,
            &note,
        )?]);
    }
    Ok(table)
}

/// Prints how many cells are within 5 % of the best.
pub(super) fn show(cells: &[Cell]) {
    let count = |of: &dyn Fn(&Cell) -> bool| cells.iter().filter(|cell| of(cell)).count();
    let near = count(&|cell| cell.quotient <= 1.05);
    let noisy = count(&|cell| cell.noise > 1.05);
    println!(
        "choice: {near} of {} cells are within 5 % of the best ({:.0} %); in {noisy} of them the two halves of one \
         algorithm's samples differ by more than that",
        cells.len(),
        100.0 * near as f64 / cells.len().max(1) as f64
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_quickest_is_a_table() {
        let cell = |collective, ranks, size, best: &str| Cell {
            network: "tcp",
            collective,
            size,
            ranks,
            quotient: 1.0,
            noise: 1.0,
            best: best.to_owned(),
            all: Vec::new(),
        };
        let cells = [cell("bcast", 8, 1024, "flat"), cell("reduce_scatter", 7, 8, "ordered:2")];
        let text = table(&cells).unwrap().to_string();
        assert!(text.contains("bcast 8 8 513-1024 flat"), "{text}");
        assert!(text.contains("reduce_scatter 7 7 33-64 ordered:2"), "{text}");
        let mixed = [cell("bcast", 8, 8, "flat"), Cell { network: "shm", ..cells[1].clone() }];
        table(&mixed).unwrap_err();
        table(&[]).unwrap_err();
    }

    #[test]
    fn the_best_is_picked_by_one_half_and_compared_by_the_other() {
        // The second place has good luck in one half only.
        let samples = [[10.0, 10.0], [5.0, 12.0]];
        let of = |place: usize, half: usize| Some(samples[place][half]);
        assert_eq!(quotient(2, &of), Some((10.0 / 12.0 + 1.0) / 2.0));
        assert_eq!(quotient(1, &of), Some(1.0));
        assert_eq!(quotient(2, &|_, _| None), None);
    }
}
