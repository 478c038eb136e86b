//! E7: a quiet machine, and one with loops of other programs on its processors: how far measured times are from the
//! model over the number of ranks.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use bowline_bench::Rounds;
use bowline_model::choice::{Reading, time};
use bowline_model::cost::Pipelining;
use bowline_model::schedule::Schedule;
use serde::Serialize;
use serde_json::Value;

use super::pictures::{Curve, Values};
use super::published;
use super::ranks::{Findings, Site, allreduce, note, owned};

/// Ranks of the fit whose parameters the model takes.
const FITTED_RANKS: u32 = 8;
/// Multicasts of each width of that fit.
const REPETITIONS: u32 = 400;
/// Loops of others on the processors, and what the figures are called.
const LOADS: [(usize, &str); 2] = [(0, "E7"), (2, "E7b")];

/// Loops that keep the processors busy until they are dropped.
struct Load(Vec<Child>);

impl Load {
    fn start(count: usize) -> Result<Self> {
        let mut load = Self(Vec::new());
        for _ in 0..count {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            load.0.push(command.spawn().context("cannot start a loop")?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What was measured beside what the model says.
#[derive(Debug, Serialize)]
pub(super) struct ModelError {
    network: &'static str,
    ranks: u32,
    /// Loops of others on the processors.
    loops: usize,
    schedule: String,
    /// By the fit of minima and by that of medians, ns.
    modelled_ns: [f64; 2],
    /// Minimum and median, ns.
    measured_ns: [f64; 2],
    /// How much more was measured than modelled, in terms of the model: by minima, by medians.
    error: [f64; 2],
}

/// The parameters of 8 bytes by minima and by medians, ns, of a fit over the same network. `None` where the model does not
/// hold, which is printed with the name of the experiment.
pub(super) fn fitted(site: &mut Site<'_>, experiment: &str) -> Result<Option<[Pipelining; 2]>> {
    let transport = site.network.transport();
    let found = site.jobs.fit(transport, FITTED_RANKS, REPETITIONS, &[8], false, None)?;
    let of = |statistic: &str| -> Result<Option<Pipelining>> {
        let mut fits = found["fits"].as_array().into_iter().flatten();
        let fit = fits.find(|fit| fit["statistic"] == statistic);
        let size = &fit.with_context(|| format!("a fit by {statistic}"))?["sizes"][0];
        if let Some(why) = size["rejected"].as_str() {
            println!(
                "{experiment}: the model does not hold for multicasts of 8 bytes by {statistic}: {why}"
            );
            return Ok(None);
        }
        let number = |value: &Value| value.as_f64().context("a parameter");
        let pipelining = number(&size["alpha_p_ns"])?;
        Ok(Some(Pipelining { pipelining, required: number(&size["alpha_r_ns"])? }))
    };
    Ok(of("minimum")?.zip(of("median")?).map(|(min, median)| [min, median]))
}

/// E7: what other programs on the processors do to recursive doubling and to the published schedules.
pub(super) fn measure(site: &mut Site<'_>, findings: &mut Findings) -> Result<()> {
    let costs = fitted(site, "E7")?;
    let mut errors = Vec::new();
    for ranks in site.ranks(&[4, 6, 8, 12, 16]) {
        let (schedule, min, median) = published(ranks)
            .with_context(|| format!("--ranks {ranks}: nothing was published for it"))?;
        let names = owned(&["doubling", schedule]);
        for (loops, experiment) in LOADS {
            println!("{experiment}: {loops} loops of others on the processors");
            let _load = Load::start(loops)?;
            let figures = site.within_jobs(ranks, &names, &[allreduce(8, 10)])?;
            let beside = Some((1, [min, median]));
            note(site, findings, experiment, ranks, &names, &figures, beside)?;
            for (place, name) in names.iter().enumerate() {
                let Some(rounds) = figures.get(&(place, allreduce(8, 10))) else { continue };
                let measured = both(rounds)?;
                println!(
                    "{experiment:<4} {ranks} ranks, {name}: median in the minimum {:.2}; published: on a quiet machine lower \
                     minima and a smaller spread",
                    measured[1] / measured[0]
                );
                if let Some(costs) = costs {
                    let schedule = match place {
                        0 => Schedule::doubling(ranks),
                        _ => Schedule::parse(ranks, schedule).context("a published schedule")?,
                    };
                    errors.push(model_error(site, loops, name, &schedule, costs, measured));
                }
            }
        }
    }
    errors.iter().for_each(show);
    let curves = curves(&errors);
    if !errors.is_empty() {
        let title = "Allreduce of 8 bytes, beside what is modelled";
        let axes = ["ranks", "measured / modelled"];
        site.picture_with("e7-error", title, axes, &curves, Values::Logarithmic)?;
    }
    findings.errors.extend(errors);
    Ok(())
}

fn both(rounds: &Rounds) -> Result<[f64; 2]> {
    let (min, median) = rounds.min_ns().zip(rounds.median_ns()).context("a round")?;
    Ok([min, median])
}

fn model_error(
    site: &Site<'_>,
    loops: usize,
    name: &str,
    schedule: &Schedule,
    costs: [Pipelining; 2],
    measured_ns: [f64; 2],
) -> ModelError {
    let modelled_ns = costs.map(|cost| time(schedule, cost, Reading::Groups));
    let error = [0, 1].map(|of| measured_ns[of] / modelled_ns[of] - 1.0);
    let (network, ranks) = (site.network.name(), schedule.ranks());
    ModelError { network, ranks, loops, schedule: name.to_owned(), modelled_ns, measured_ns, error }
}

fn show(of: &ModelError) {
    let us = |ns: [f64; 2]| format!("{:.2} min {:.2} median us", ns[0] / 1e3, ns[1] / 1e3);
    println!(
        "E7   {:<4} {:>3} ranks {:<10} beside {} loops: modelled {}, measured {}: (measured - modelled) / modelled {:.1} min \
         {:.1} median; published: flat on a quiet machine by minima, growing from 16 to 24 ranks on a busy one",
        of.network,
        of.ranks,
        of.schedule,
        of.loops,
        us(of.modelled_ns),
        us(of.measured_ns),
        of.error[0],
        of.error[1]
    );
}

/// Doubling and the published schedules, with and without loops, by minima and by medians.
fn curves(errors: &[ModelError]) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (name, is_doubling) in [("doubling", true), ("published", false)] {
        for (loops, _) in LOADS {
            for (by, statistic) in ["minima", "medians"].iter().enumerate() {
                let of = errors.iter().filter(|error| {
                    error.loops == loops && (error.schedule == "doubling") == is_doubling
                });
                let points = of.map(|of| (f64::from(of.ranks), of.error[by] + 1.0)).collect();
                curves.push(Curve { name: format!("{name}, {loops} loops, {statistic}"), points });
            }
        }
    }
    curves
}
