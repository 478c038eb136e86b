//! E10: every factored schedule of a number of ranks, in the order of the model and in that of measurement.

use anyhow::{Context, Result};
use bowline_model::choice::{Reading, time};
use bowline_model::schedule::Schedule;

use super::loaded::fitted;
use super::pictures::Curve;
use super::ranks::{Site, allreduce, factored};

/// E10: every factored schedule, measured, and modelled with parameters of the same network. Where the model does not hold there,
/// nothing is measured.
pub(super) fn measure(site: &mut Site<'_>, correlations: &mut Vec<String>) -> Result<()> {
    let Some(costs) = fitted(site, "E10")? else { return Ok(()) };
    for ranks in site.ranks(&[12, 16]) {
        let schedules = factored(ranks);
        let order = allreduce(8, 10);
        let figures = site.within_jobs(ranks, &schedules, std::slice::from_ref(&order))?;
        // By minima, and by medians.
        let mut modelled = [Vec::new(), Vec::new()];
        let mut measured = [Vec::new(), Vec::new()];
        for (place, text) in schedules.iter().enumerate() {
            let rounds = figures.get(&(place, order.clone())).context("a figure")?;
            let schedule = Schedule::parse(ranks, text).context("a factored schedule")?;
            for (times, cost) in modelled.iter_mut().zip(costs) {
                times.push(time(&schedule, cost, Reading::Groups));
            }
            measured[0].push(rounds.min_ns().context("a round")?);
            measured[1].push(rounds.median_ns().context("a round")?);
            println!(
                "E10  {:<4} {ranks:>3} ranks {text:<22} modelled {:>8.1} us min {:>8.1} us median, measured {:>8.1} us min \
                 {:>8.1} us median",
                site.network.name(),
                modelled[0][place] / 1e3,
                modelled[1][place] / 1e3,
                measured[0][place] / 1e3,
                measured[1][place] / 1e3
            );
        }
        let curve = |name: &str, (modelled, of): (&[f64], &[f64])| {
            let points = modelled.iter().zip(of).map(|(model, time)| (model / 1e3, time / 1e3));
            let mut points: Vec<(f64, f64)> = points.collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Curve { name: name.to_owned(), points }
        };
        let curves = [
            curve("measured, minimum", (&modelled[0], &measured[0])),
            curve("measured, median", (&modelled[1], &measured[1])),
            curve("as modelled", (&modelled[0], &modelled[0])),
        ];
        let title = format!("Allreduce of 8 bytes by every factored schedule, {ranks} ranks");
        let axes = ["modelled, us", "us"];
        site.picture(&format!("e10-{ranks}"), &title, axes, &curves)?;
        let [min, median] = [0, 1].map(|by| rank_correlation(&modelled[by], &measured[by]));
        let line = format!(
            "E10: {}, {ranks} ranks, {} schedules: rank correlation of model and measurement {min:.2} by minima (alpha_p {:.0} ns, \
             alpha_r {:.0} ns), {median:.2} by medians ({:.0} ns, {:.0} ns); published: values off, good and bad \
             schedules apart",
            site.network.name(),
            schedules.len(),
            costs[0].pipelining,
            costs[0].required,
            costs[1].pipelining,
            costs[1].required
        );
        println!("{line}");
        correlations.push(line);
    }
    Ok(())
}

/// Spearman's: the correlation of the places that values have among their like.
fn rank_correlation(one: &[f64], other: &[f64]) -> f64 {
    let places = |values: &[f64]| -> Vec<f64> {
        let place = |value: &f64| {
            let below = values.iter().filter(|other| *other < value).count() as f64;
            let alike = values.iter().filter(|other| *other == value).count() as f64;
            below + (alike - 1.0) / 2.0
        };
        values.iter().map(place).collect()
    };
    let (one, other) = (places(one), places(other));
    let mean = (one.len() as f64 - 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    sum(&one, &other) / (sum(&one, &one) * sum(&other, &other)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlations_see_order_and_nothing_else() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(close(rank_correlation(&[1.0, 2.0, 9.0], &[10.0, 11.0, 12.0]), 1.0));
        assert!(close(rank_correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), -1.0));
        assert!(close(rank_correlation(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0]), 0.8));
    }
}
