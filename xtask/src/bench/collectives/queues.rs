//! E17: merged schedules and those of the heuristic beside recursive doubling, and the published schedules through
//! receive queues, with real ranks. Nothing was published of it.

use anyhow::{Context, Result};
use bowline_bench::{Contestant, Figures, Rounds};
use bowline_model::choice::{FactorOrder, choose};
use bowline_model::cost::Pipelining;
use bowline_model::schedule::Schedule;

use super::pictures::Curve;
use super::published;
use super::ranks::{Findings, Site, allreduce, by, note, owned};

/// Numbers of ranks with what is measured beside recursive doubling and the heuristic's, by form.
const FORMS: [(u32, &[(&str, &str)]); 3] = [
    (
        7,
        &[
            ("merged", "m1g2a3,n1g3a2"),
            ("merged otherwise", "m3g2a2,n3g2a2"),
            ("collapsed", "c6m2,a2,a2,e6m2"),
        ],
    ),
    (11, &[("merged", "m2g3a3,n2g3a3"), ("one stage", "a11")]),
    (13, &[("merged", "m1g3a4,n1g4a3"), ("one stage", "a13")]),
];

/// Receive queues in place of a transport's own messages; over TCP the engine makes their puts and atomics of
/// messages.
const QUEUES: [&str; 3] = ["scmp", "scmp-rings", "ring"];

/// Both parts.
pub(super) fn measure(site: &mut Site<'_>, findings: &mut Findings) -> Result<()> {
    merging(site, findings)?;
    queues(site, findings)
}

/// How much less time than recursive doubling a contestant takes by medians, percent.
fn gain(figures: &Figures, place: usize) -> Option<f64> {
    let median = |place| figures.get(&(place, allreduce(8, 10))).and_then(Rounds::median_ns);
    Some(100.0 * (1.0 - median(place)? / median(0)?))
}

/// Notes a gain in the curve of a name.
fn push(curves: &mut Vec<Curve>, name: &str, ranks: u32, gain: Option<f64>) {
    let point = gain.map(|gain| (f64::from(ranks), gain));
    match curves.iter_mut().find(|curve| curve.name == name) {
        Some(curve) => curve.points.extend(point),
        None => curves.push(Curve { name: name.to_owned(), points: point.into_iter().collect() }),
    }
}

/// The heuristic's schedule with the published parameters.
fn heuristic(ranks: u32) -> String {
    choose(ranks, Pipelining::ARCHER.ratio(), FactorOrder::ByCost).to_string()
}

fn merging(site: &mut Site<'_>, findings: &mut Findings) -> Result<()> {
    let mut curves = Vec::new();
    for (ranks, forms) in FORMS {
        if !site.ranks(&[ranks]).contains(&ranks) {
            continue;
        }
        let picked = heuristic(ranks);
        let mut names = owned(&["doubling"]);
        for schedule in forms.iter().map(|(_, schedule)| *schedule).chain([picked.as_str()]) {
            Schedule::parse(ranks, schedule)
                .with_context(|| format!("{schedule} of {ranks} ranks"))?;
            if !names.iter().any(|name| name == schedule) {
                names.push(schedule.to_owned());
            }
        }
        println!("E17: the heuristic's schedule of {ranks} ranks is {picked}");
        let figures = site.within_jobs(ranks, &names, &[allreduce(8, 10)])?;
        note(site, findings, "E17", ranks, &names, &figures, None)?;
        for (form, schedule) in forms.iter().copied().chain([("the heuristic's", picked.as_str())])
        {
            let place = names.iter().position(|name| name == schedule);
            push(&mut curves, form, ranks, place.and_then(|place| gain(&figures, place)));
        }
    }
    let title = "Allreduce of 8 bytes: less time than recursive doubling by medians";
    site.picture("e17-forms", title, ["ranks", "%"], &curves)
}

fn queues(site: &mut Site<'_>, findings: &mut Findings) -> Result<()> {
    let mut curves = Vec::new();
    for ranks in site.ranks(&[8, 16]) {
        let Some((schedule, ..)) = published(ranks) else { continue };
        let picked = heuristic(ranks);
        let mut contestants = vec![by("doubling"), by(schedule)];
        let mut labels = vec!["doubling", "published schedule"];
        if picked != schedule {
            contestants.push(by(&picked));
            labels.push("the heuristic's");
        }
        for queue in QUEUES {
            let variables = [("BOWLINE_ALLREDUCE", schedule), ("BOWLINE_RECV_QUEUE", queue)];
            contestants.push(Contestant::bowline(format!("{schedule} by {queue}"), &variables));
            labels.push(queue);
        }
        let figures = site.alternately(ranks, &contestants, &[allreduce(8, 10)])?;
        let names: Vec<_> = contestants.into_iter().map(|contestant| contestant.name).collect();
        note(site, findings, "E17", ranks, &names, &figures, None)?;
        for (place, label) in labels.into_iter().enumerate().skip(1) {
            push(&mut curves, label, ranks, gain(&figures, place));
        }
    }
    let title = "The published schedules by receive queues: less time than recursive doubling";
    site.picture("e17-queues", title, ["ranks", "%"], &curves)
}
