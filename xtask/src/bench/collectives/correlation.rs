//! E10: every factored schedule of a number of ranks, in the order of the model and in that of measurement.

use anyhow::{Context, Result};
use bowline_model::choice::{Reading, time};
use bowline_model::cost::Pipelining;
use bowline_model::schedule::Schedule;

use super::pictures::Curve;
use super::ranks::{Site, allreduce, factored};

/// E10: every factored schedule, measured and modelled.
pub(super) fn measure(site: &mut Site<'_>, correlations: &mut Vec<String>) -> Result<()> {
    // What a message takes: over the network half of what goes there and back; over shared memory what is
    // assumed of it. Only the ratio decides on the order.
    let cost = match site.jobs.ping()? {
        Some(ping) => {
            Pipelining { pipelining: ping.min_ns / 2.0, required: site.options.required * 1e3 }
        }
        None => Pipelining { pipelining: 880.0, required: 380.0 },
    };
    for ranks in site.ranks(&[12, 16]) {
        let schedules = factored(ranks);
        let order = allreduce(8, 10);
        let figures = site.within_jobs(ranks, &schedules, std::slice::from_ref(&order))?;
        let mut modelled = Vec::new();
        let mut measured = [Vec::new(), Vec::new()];
        for (place, text) in schedules.iter().enumerate() {
            let rounds = figures.get(&(place, order.clone())).context("a figure")?;
            let schedule = Schedule::parse(ranks, text).context("a factored schedule")?;
            modelled.push(time(&schedule, cost, Reading::Groups));
            measured[0].push(rounds.min_ns().context("a round")?);
            measured[1].push(rounds.median_ns().context("a round")?);
            println!(
                "E10  {:<4} {ranks:>3} ranks {text:<22} modelled {:>8.1} us, measured {:>8.1} us min {:>8.1} us median",
                site.network.name(),
                modelled[place] / 1e3,
                measured[0][place] / 1e3,
                measured[1][place] / 1e3
            );
        }
        let curve = |name: &str, of: &[f64]| {
            let points = modelled.iter().zip(of).map(|(model, time)| (model / 1e3, time / 1e3));
            let mut points: Vec<(f64, f64)> = points.collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Curve { name: name.to_owned(), points }
        };
        let curves = [
            curve("measured, minimum", &measured[0]),
            curve("measured, median", &measured[1]),
            curve("as modelled", &modelled),
        ];
        let title = format!("Allreduce of 8 bytes by every factored schedule, {ranks} ranks, us");
        site.picture(&format!("e10-{ranks}"), &title, "modelled, us", &curves)?;
        let [min, median] = measured.map(|times| rank_correlation(&modelled, &times));
        let line = format!(
            "E10: {}, {ranks} ranks, {} schedules: rank correlation of model (alpha_p {:.0} ns, alpha_r {:.0} ns) \
             and measurement {min:.2} by minima, {median:.2} by medians; published: values off, good and bad \
             schedules apart",
            site.network.name(),
            schedules.len(),
            cost.pipelining,
            cost.required
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
