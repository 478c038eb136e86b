//! E12: ranks beyond a convenient number, merged or collapsed, simulated with the published parameters: the published
//! schedules of seven ranks, and the best schedule of each form for every number of ranks from 5 to 64.
//!
//! A schedule is merged here if its first stage merges ranks: what the heuristic chooses is so only where it ends with
//! a remainder.

use std::path::Path;

use anyhow::{Context, Result};
use bowline_model::choice::{FactorOrder, choose, every};
use bowline_model::fennel::generate::allreduce;
use bowline_model::fennel::instrument::{Skew, TraceRecorder};
use bowline_model::fennel::machine::Machine;
use bowline_model::fennel::network::{Fixed, Pipelined};
use bowline_model::schedule::{JointStage, Schedule};
use serde::Serialize;

use super::Row;
use super::pictures::{self, Curve};

/// Bytes of a vector in the comparison of all numbers of ranks.
const BYTES: usize = 8;

/// A schedule, and what it takes in the simulator.
#[derive(Clone, Debug, Serialize)]
struct Timed {
    schedule: String,
    ns: f64,
}

/// The best schedules of a number of ranks, by form.
#[derive(Debug, Serialize)]
pub(super) struct Forms {
    ranks: u32,
    /// With merged ranks.
    merged: Timed,
    /// With collapsed ranks, in blocks of any base around exchanges of any factors.
    collapsed: Timed,
    /// Recursive doubling: ranks beyond a power of two are collapsed in pairs.
    doubling: Timed,
    /// Exchanges alone.
    factored: Timed,
    /// What the published heuristic chooses at the ratio of the parameters.
    heuristic: Timed,
    /// Whether that is a merged schedule.
    heuristic_merges: bool,
}

impl Forms {
    /// How much less time the merged schedule takes than another one, percent.
    fn less(&self, other: &Timed) -> f64 {
        100.0 * (1.0 - self.merged.ns / other.ns)
    }
}

/// What the simulator finds with the parameters of chapter 5 for vectors of so many bytes.
struct Run {
    ns: f64,
    /// From the first end of a rank to the last.
    apart: f64,
    /// The same without ranks whose last task is to send.
    received_apart: f64,
}

fn simulated(schedule: &Schedule, bytes: usize) -> Result<Run> {
    let mut machine = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };
    let (mut skew, mut recorder) = (Skew::new(schedule.ranks()), TraceRecorder::default());
    let ns = machine.run(&allreduce(schedule, bytes), &mut [&mut skew, &mut recorder])?;
    let mut sends_last = vec![false; skew.ends().len()];
    for ran in recorder.tasks.iter().filter(|ran| ran.local > ran.start) {
        let process = ran.task.process as usize;
        if ran.local >= skew.ends()[process] {
            sends_last[process] = ran.travelled().is_some();
        }
    }
    let ends = skew.ends().iter().zip(sends_last).filter(|(_, sends)| !sends).map(|(end, _)| *end);
    let (first, last) =
        ends.fold((f64::INFINITY, 0.0_f64), |(first, last), end| (first.min(end), last.max(end)));
    let received_apart = if first.is_finite() { last - first } else { 0.0 };
    Ok(Run { ns, apart: skew.spread(), received_apart })
}

fn timed(schedule: &Schedule) -> Result<Timed> {
    let Run { ns, .. } = simulated(schedule, BYTES)?;
    Ok(Timed { schedule: schedule.to_string(), ns })
}

fn merges(schedule: &Schedule) -> bool {
    matches!(schedule.tokens().first(), Some(JointStage::Merge(_)))
}

/// The best schedules of a number of ranks, among all of one level.
fn forms(ranks: u32) -> Result<Forms> {
    let mut best: [Option<Timed>; 3] = [None, None, None];
    for schedule in every(ranks, usize::MAX).context("all schedules")? {
        let form = match schedule.tokens().first() {
            Some(JointStage::Merge(_)) => 0,
            Some(JointStage::Collapse { .. }) => 1,
            Some(JointStage::Exchange { .. }) => 2,
            // Cuts of the vector, which 8 bytes are too short for.
            _ => continue,
        };
        let found = timed(&schedule)?;
        if best[form].as_ref().is_none_or(|known| found.ns < known.ns) {
            best[form] = Some(found);
        }
    }
    let [merged, collapsed, factored] = best.map(|best| best.context("a schedule of each form"));
    let heuristic = choose(ranks, Pipelined::CHAPTER_5.cost.ratio(), FactorOrder::ByCost);
    Ok(Forms {
        ranks,
        merged: merged?,
        collapsed: collapsed?,
        doubling: timed(&Schedule::doubling(ranks))?,
        factored: factored?,
        heuristic: timed(&heuristic)?,
        heuristic_merges: merges(&heuristic),
    })
}

/// The seven ranks of the thesis. The published figures are those of vectors of no length. How the published skew of
/// the collapsed schedule was counted is not known: about 700 ns lies between the two counts that there are.
fn seven(rows: &mut Vec<Row>) -> Result<()> {
    let run = |text: &str| simulated(&Schedule::parse(7, text).context("a published schedule")?, 0);
    let split = run("c6m2,a2,a2,e6m2")?;
    let published = [
        ("c6m2,a2,a2,e6m2", None, "about", 700.0),
        ("m1g2a3,n1g3a2", Some(41.8), "at most", 100.0),
        ("m3g2a2,n3g2a2", None, "at most", 200.0),
    ];
    for (text, less, bound, skew) in published {
        let found = run(text)?;
        let mut row = |what: String, published, ours, unit| {
            rows.push(Row { experiment: "E12", what, published, ours, unit });
        };
        if found.ns < split.ns {
            let ours = 100.0 * (1.0 - found.ns / split.ns);
            row(format!("7 ranks, {text}: less time than collapsed"), less, ours, "%");
        }
        for (count, ours) in [("all", found.apart), ("but for last sends", found.received_apart)] {
            let what = format!("7 ranks, {text}: ends apart ({bound}), {count}");
            row(what, Some(skew), ours, "ns");
        }
    }
    Ok(())
}

/// Simulates all of it, prints the table of the numbers of ranks and draws it into `plots`.
pub(super) fn measure(rows: &mut Vec<Row>, plots: Option<&Path>) -> Result<Vec<Forms>> {
    seven(rows)?;
    let all = (5..=64).map(forms).collect::<Result<Vec<_>>>()?;
    show(&all);
    let mut row = |what: String, ours, unit| {
        rows.push(Row { experiment: "E12", what, published: None, ours, unit });
    };
    let of = all.len();
    let count = |is: &dyn Fn(&Forms) -> bool| all.iter().filter(|forms| is(forms)).count() as f64;
    let mean = |of: &dyn Fn(&Forms) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    row(
        format!("5 to 64 ranks: the best merge beats the best collapse at, of {of}"),
        count(&|forms| forms.merged.ns < forms.collapsed.ns),
        "",
    );
    row(
        "5 to 64 ranks: less time than the best collapse, in the mean".to_owned(),
        mean(&|forms| forms.less(&forms.collapsed)),
        "%",
    );
    row(
        format!("5 to 64 ranks: the best merge beats doubling at, of {of}"),
        count(&|forms| forms.merged.ns < forms.doubling.ns),
        "",
    );
    row(
        "5 to 64 ranks: less time than doubling, in the mean".to_owned(),
        mean(&|forms| forms.less(&forms.doubling)),
        "%",
    );
    row(
        format!("5 to 64 ranks: the best merge beats exchanges alone at, of {of}"),
        count(&|forms| forms.merged.ns < forms.factored.ns),
        "",
    );
    let merging = count(&|forms| forms.heuristic_merges);
    row(
        format!("5 to 64 ranks: the heuristic merges at {merging}, and is faster than doubling at"),
        count(&|forms| forms.heuristic_merges && forms.heuristic.ns < forms.doubling.ns),
        "",
    );
    if let Some(directory) = plots {
        let title = "Allreduce of 8 bytes, simulated: less time by the best merged schedule";
        pictures::draw(&directory.join("e12.png"), title, ["ranks", "%"], &curves(&all))?;
    }
    Ok(all)
}

fn curves(all: &[Forms]) -> [Curve; 3] {
    let curve = |name: &str, other: &dyn Fn(&Forms) -> &Timed| Curve {
        name: name.to_owned(),
        points: all
            .iter()
            .map(|forms| (f64::from(forms.ranks), forms.less(other(forms))))
            .collect(),
    };
    [
        curve("than the best collapsed one", &|forms| &forms.collapsed),
        curve("than recursive doubling", &|forms| &forms.doubling),
        curve("than exchanges alone", &|forms| &forms.factored),
    ]
}

fn show(all: &[Forms]) {
    println!(
        "E12: the best schedules of each form, simulated, ns (alpha_p 500, alpha_r 100, 0.4 for a byte, 10 for a \
         reduction; {BYTES} bytes)"
    );
    println!(
        "ranks {:<24} {:>5}  {:<20} {:>5} {:>7}  {:>8} {:>7}  {:<12} {:>5}  {:<22} {:>5}",
        "merged",
        "",
        "collapsed",
        "",
        "less %",
        "doubling",
        "less %",
        "factored",
        "",
        "heuristic",
        ""
    );
    for forms in all {
        let Forms { ranks, merged, collapsed, doubling, factored, heuristic, .. } = forms;
        println!(
            "{ranks:>5} {:<24} {:>5.0}  {:<20} {:>5.0} {:>7.1}  {:>8.0} {:>7.1}  {:<12} {:>5.0}  {:<22} {:>5.0}",
            merged.schedule,
            merged.ns,
            collapsed.schedule,
            collapsed.ns,
            forms.less(collapsed),
            doubling.ns,
            forms.less(doubling),
            factored.schedule,
            factored.ns,
            heuristic.schedule,
            heuristic.ns
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_skew_lies_between_the_two_counts() {
        let run = simulated(&Schedule::parse(7, "c6m2,a2,a2,e6m2").unwrap(), 0).unwrap();
        assert_eq!((run.received_apart.round(), run.apart.round()), (610.0, 1010.0));
    }

    #[test]
    fn each_form_has_its_own_best_schedule() {
        let forms = forms(13).unwrap();
        assert!(merges(&Schedule::parse(13, &forms.merged.schedule).unwrap()), "{forms:?}");
        assert!(forms.collapsed.schedule.starts_with('c'), "{forms:?}");
        assert!(forms.factored.schedule.starts_with('a'), "{forms:?}");
        assert!(forms.merged.ns < forms.collapsed.ns && forms.collapsed.ns <= forms.doubling.ns);
        // Factored: what the heuristic chooses is not merged then.
        assert!(!super::forms(12).unwrap().heuristic_merges);
    }
}
