//! E6 in the simulator: how much less time than recursive doubling an allreduce of 8 bytes takes at the published numbers
//! of ranks, beside what was measured there on a Cray XC30.
//!
//! There are two networks: that of the published simulator, and the parameters that were fitted on the Cray (table 4.1).
//! On each, besides the schedule that was quickest on the Cray, stands the one of the heuristic and the quickest of the
//! notation; and what no allreduce can exceed, whatever its messages, as the value of each rank has to come to all. The published
//! equation (5.7, the sum of alpha_p + b alpha_r over the stages) stands beside the simulator, which lets ranks that come
//! early go on.

use std::path::Path;

use anyhow::{Context, Result};
use bowline_model::choice::{FactorOrder, Reading, choose, every, time};
use bowline_model::cost::Pipelining;
use bowline_model::fennel::generate::allreduce;
use bowline_model::fennel::machine::Machine;
use bowline_model::fennel::network::{Fixed, Pipelined};
use bowline_model::schedule::Schedule;
use serde::Serialize;

use super::pictures::{self, Curve};
use super::{MEASURED, Measured, Row};

/// Bytes of a vector.
const BYTES: usize = 8;
/// A schedule is simulated if the equation gives it less than so many times the least: ranks that come early save less
/// than that.
const NEAR: f64 = 1.5;

/// A network, and what a reduction takes on it.
struct On {
    name: &'static str,
    /// In the names of pictures.
    short: &'static str,
    network: Pipelined,
    /// Nanoseconds.
    reduction: f64,
}

fn networks() -> [On; 2] {
    let Pipelining { pipelining, required } = Pipelining::ARCHER;
    let cost = Pipelining { pipelining: pipelining * 1e3, required: required * 1e3 };
    [
        On {
            name: "the published simulator's network",
            short: "chapter-5",
            network: Pipelined::CHAPTER_5,
            reduction: 10.0,
        },
        On {
            name: "the network fitted on the Cray",
            short: "table-4-1",
            network: Pipelined { cost, byte: 0.0 },
            reduction: 0.0,
        },
    ]
}

impl On {
    fn simulated(&self, schedule: &Schedule) -> Result<f64> {
        let mut machine = Machine { network: self.network, compute: Fixed(self.reduction) };
        Ok(machine.run(&allreduce(schedule, BYTES), &mut [])?)
    }

    /// What a message keeps its sender busy for, and what of it overlaps, with its bytes.
    fn cost(&self) -> Pipelining {
        let Pipelined { cost: Pipelining { pipelining, required }, byte } = self.network;
        Pipelining { pipelining, required: required + byte * BYTES as f64 }
    }

    /// The quickest schedule of the notation but for cuts, which 8 bytes are too short for.
    fn quickest(&self, ranks: u32) -> Result<Schedule> {
        let all = every(ranks, usize::MAX).context("all schedules")?;
        let priced = |one: Schedule| (time(&one, self.cost(), Reading::Groups), one);
        let mut all: Vec<_> = all.into_iter().filter(|one| !one.splits()).map(priced).collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        let near = all.first().context("a schedule")?.0 * NEAR;
        let mut best: Option<(f64, Schedule)> = None;
        for (_, schedule) in all.into_iter().take_while(|(time, _)| *time <= near) {
            let ns = self.simulated(&schedule)?;
            if best.as_ref().is_none_or(|(least, _)| ns < *least) {
                best = Some((ns, schedule));
            }
        }
        Ok(best.context("a schedule")?.1)
    }
}

/// A schedule, and what it takes in the simulator.
#[derive(Debug, Serialize)]
struct Contestant {
    schedule: String,
    ns: f64,
    /// Less time than doubling, percent.
    less: f64,
}

/// A number of ranks on a network.
#[derive(Debug, Serialize)]
pub(super) struct Gains {
    network: &'static str,
    ranks: u32,
    /// By minima and by medians, percent.
    published: [f64; 2],
    doubling_ns: f64,
    /// The published schedule, the heuristic's, and the quickest of the notation.
    schedules: [Contestant; 3],
    /// What no allreduce exceeds beside recursive doubling in the simulator, percent.
    most: f64,
    /// Recursive doubling and the published schedule by the equation, ns.
    equation_ns: [f64; 2],
    /// The same as measured, by minima, ns.
    measured_ns: [f64; 2],
}

/// How much less one time is than another one, percent.
fn less(ns: f64, than: f64) -> f64 {
    100.0 * (1.0 - ns / than)
}

impl Gains {
    fn of(on: &On, measured: &Measured) -> Result<Self> {
        let &Measured { ranks, schedule, us, gains } = measured;
        let doubling = Schedule::doubling(ranks);
        let published = Schedule::parse(ranks, schedule).context("a published schedule")?;
        let doubling_ns = on.simulated(&doubling)?;
        let contestant = |schedule: &Schedule| -> Result<Contestant> {
            let ns = on.simulated(schedule)?;
            Ok(Contestant { schedule: schedule.to_string(), ns, less: less(ns, doubling_ns) })
        };
        let heuristic = choose(ranks, on.network.cost.ratio(), FactorOrder::ByCost);
        let equation = |of: &Schedule| time(of, on.cost(), Reading::Groups);
        Ok(Self {
            network: on.short,
            ranks,
            published: gains,
            doubling_ns,
            schedules: [
                contestant(&published)?,
                contestant(&heuristic)?,
                contestant(&on.quickest(ranks)?)?,
            ],
            most: less(on.cost().reach(ranks), doubling_ns),
            equation_ns: [equation(&doubling), equation(&published)],
            measured_ns: us.map(|us| us * 1e3),
        })
    }

    /// By the equation, percent.
    fn by_equation(&self) -> f64 {
        less(self.equation_ns[1], self.equation_ns[0])
    }
}

/// Simulates all of it, prints the tables and draws them into `plots`.
pub(super) fn measure(rows: &mut Vec<Row>, plots: Option<&Path>) -> Result<Vec<Gains>> {
    let mut all = Vec::new();
    for on in networks() {
        let of = MEASURED.iter().map(|measured| Gains::of(&on, measured));
        let gains = of.collect::<Result<Vec<_>>>()?;
        show(&on, &gains);
        summary(rows, &on, &gains);
        if let Some(directory) = plots {
            let path = directory.join(format!("e6-{}.png", on.short));
            let title = format!("Less time than doubling by {}", on.name);
            pictures::draw(&path, &title, ["ranks", "%"], &curves(&gains))?;
        }
        all.push(gains);
    }
    // The second network is that of the machine.
    all.last().into_iter().for_each(|gains| explain(gains));
    Ok(all.into_iter().flatten().collect())
}

/// At how many numbers of ranks the published gain is reached.
fn summary(rows: &mut Vec<Row>, on: &On, gains: &[Gains]) {
    let mut row = |who: &str, of: &dyn Fn(&Gains) -> f64| {
        for (by, statistic) in ["minima", "medians"].into_iter().enumerate() {
            let reached = gains.iter().filter(|gains| of(gains) >= gains.published[by]).count();
            rows.push(Row {
                experiment: "E6",
                what: format!(
                    "{}, {who}: gain by {statistic} reached at, of {}",
                    on.short,
                    gains.len()
                ),
                published: None,
                ours: reached as f64,
                unit: "",
            });
        }
    };
    row("published schedules", &|gains| gains.schedules[0].less);
    row("heuristic's", &|gains| gains.schedules[1].less);
    row("quickest of the notation", &|gains| gains.schedules[2].less);
    row("the most that an allreduce can gain", &|gains| gains.most);
    row("published schedules by equation 5.7", &Gains::by_equation);
}

fn show(on: &On, gains: &[Gains]) {
    let Pipelining { pipelining, required } = on.network.cost;
    println!(
        "E6: less time than recursive doubling on {}, simulated (alpha_p {pipelining:.0}, alpha_r {required:.0} ns, {} for a \
         byte, {:.0} ns for a reduction; {BYTES} bytes); times in us, gains in %; published gains are measured ones",
        on.name, on.network.byte, on.reduction
    );
    println!(
        "ranks  published  doubling  {:<20} {:>5} {:>6}  {:<20} {:>5} {:>6}  {:<20} {:>5} {:>6}   most   equation 5.7: us, % \
           measured: us",
        "published schedule", "", "less", "heuristic", "", "less", "quickest", "", "less"
    );
    for of in gains {
        let [min, median] = of.published;
        let one =
            |of: &Contestant| format!("{:<20} {:>5.2} {:>6.1}", of.schedule, of.ns / 1e3, of.less);
        let [published, heuristic, quickest] = of.schedules.each_ref().map(one);
        let two =
            |[doubling, other]: [f64; 2]| format!("{:>5.2} {:>5.2}", doubling / 1e3, other / 1e3);
        println!(
            "{:>5} {min:>5.1} {median:>5.1}  {:>7.2}  {published}  {heuristic}  {quickest}  {:>5.1}    {} {:>6.1}   {}",
            of.ranks,
            of.doubling_ns / 1e3,
            of.most,
            two(of.equation_ns),
            of.by_equation(),
            two(of.measured_ns)
        );
    }
}

/// How measured times stand to the equation with the parameters that were fitted beside them.
fn explain(gains: &[Gains]) {
    let range = |of: usize| {
        let parts = || gains.iter().map(|gains| gains.measured_ns[of] / gains.equation_ns[of]);
        (parts().fold(f64::INFINITY, f64::min), parts().fold(0.0, f64::max))
    };
    let ((least, most), (others_least, others_most)) = (range(0), range(1));
    println!(
        "E6: what was measured is {least:.1} to {most:.1} times the equation for doubling and {others_least:.1} to \
         {others_most:.1} times for the schedules: each stage took longer there than the fit says, and doubling has the most"
    );
}

fn curves(gains: &[Gains]) -> [Curve; 6] {
    let curve = |name: &str, of: &dyn Fn(&Gains) -> f64| Curve {
        name: name.to_owned(),
        points: gains.iter().map(|gains| (f64::from(gains.ranks), of(gains))).collect(),
    };
    [
        curve("published, minimum", &|gains| gains.published[0]),
        curve("published, median", &|gains| gains.published[1]),
        curve("the same schedules, simulated", &|gains| gains.schedules[0].less),
        curve("the heuristic's, simulated", &|gains| gains.schedules[1].less),
        curve("the quickest, simulated", &|gains| gains.schedules[2].less),
        curve("no allreduce gains more", &|gains| gains.most),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_schedules_gain_what_was_published_in_the_published_simulator() {
        let [simulator, fitted] = networks();
        for measured in MEASURED.iter().filter(|measured| measured.ranks <= 16) {
            let gains = Gains::of(&simulator, measured).unwrap();
            let [published, _, quickest] = &gains.schedules;
            assert!(published.less >= gains.published[0], "{gains:?}");
            assert!(quickest.less >= published.less && gains.most >= quickest.less, "{gains:?}");
        }
        // With the parameters of the Cray no allreduce of four ranks can: three messages from each rank at least.
        let four = Gains::of(&fitted, &MEASURED[0]).unwrap();
        assert!(four.most < four.published[0], "{four:?}");
        assert_eq!(four.schedules[2].schedule, "a4");
        assert_eq!(four.equation_ns.map(f64::round), [2520.0, 2020.0]);
    }
}
