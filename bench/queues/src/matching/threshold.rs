//! From how many ranks on an index pays: sensitivity of the threshold of section 4.3.4, for which
//! the thesis has no figures.

use anyhow::Result;
use bowline_ucp::matching::{Engine, EngineKind};

use super::jobs::{Job, One, Order, Queue, play};
use super::published;
use crate::clock::{Contestant, compare};
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// Receives of all ranks, which arrive in an order that meets each place of the queue: as the
/// default adjustment assumes, half of the queue is searched on average.
fn scattered(ranks: u32) -> Job {
    let mut job = Job::default();
    for rank in 0..ranks {
        job.push(true, false, 0, rank, 0);
    }
    // An odd multiplier takes the ranks of a power of two once each; others are passed over.
    let span = ranks.next_power_of_two();
    let scattered = (0..span).map(|k| k.wrapping_mul(0x9e37_79b1) & (span - 1));
    for rank in scattered.filter(|&rank| rank < ranks) {
        job.push(false, false, 0, rank, 0);
    }
    job
}

fn threshold(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "threshold",
        "one receive of each rank: from how many ranks on an index pays",
        &["ranks", "order", "list", "four_d", "nd", "auto", "published choice", "faster here"],
    );
    let mut chart =
        Chart::new("ranks", Unit::None, "time of a match, scattered order", Unit::Nanoseconds);
    let scales: &[u32] = if context.quick {
        &[4, 8, 16, 26, 48, 96, 256, 512]
    } else {
        &[4, 6, 8, 12, 16, 20, 26, 32, 48, 64, 96, 128, 256, 512, 1024]
    };
    let mut rows = Vec::new();
    for order in ["scattered", "reverse", "forward"] {
        rows.extend(scales.iter().map(|&ranks| (order, ranks)));
    }
    let mut crossing: Vec<(&str, u32)> = Vec::new();
    let mut worst = (0.0, String::new());
    for (order, ranks) in context.progress("threshold", rows) {
        let job = match order {
            "scattered" => scattered(ranks),
            "reverse" => Job::one_queue(Queue::Posted, Order::Reverse, ranks, 1, 1, 0),
            _ => Job::one_queue(Queue::Posted, Order::Forward, ranks, 1, 1, 0),
        };
        // All of them are the engine of a space, so that what is around them is the same.
        let mut list = One(Engine::new(EngineKind::List, ranks));
        let mut cubes = One(Engine::without_list(EngineKind::FourD, ranks));
        let mut tree = One(Engine::without_list(EngineKind::Nd, ranks));
        let mut auto = One(Engine::new(EngineKind::Auto, ranks));
        let mut contestants = [
            Contestant { name: "list", run: Box::new(|| play(&mut list, &job)) },
            Contestant { name: "four_d", run: Box::new(|| play(&mut cubes, &job)) },
            Contestant { name: "nd", run: Box::new(|| play(&mut tree, &job)) },
            Contestant { name: "auto", run: Box::new(|| play(&mut auto, &job)) },
        ];
        let times = compare(context.effort, &mut contestants)?;
        let [list, cubes, tree, auto] = &times[..] else {
            unreachable!("as many times as contestants")
        };
        if order == "scattered" {
            for times in [list, cubes, tree, auto] {
                chart.point(times.name, f64::from(ranks), times.median());
            }
        }
        let faster = list.relative_to(cubes) > 1.0;
        if faster && !crossing.iter().any(|(known, _)| *known == order) {
            crossing.push((order, ranks));
        }
        let best = if list.relative_to(tree) > 1.0 { tree } else { list };
        let ratio = auto.relative_to(best);
        if ratio > worst.0 {
            worst = (ratio, format!("{ranks} ranks, {order}"));
        }
        let chosen = if ranks < published::threshold(ranks) { "list" } else { "4D" };
        table.row(vec![
            Cell::count(ranks.into()),
            order.into(),
            Cell::time(list.median()),
            Cell::times(list.relative_to(cubes)),
            Cell::times(list.relative_to(tree)),
            Cell::times(list.relative_to(auto)),
            chosen.into(),
            if faster { "4D" } else { "list" }.into(),
        ]);
    }
    table.note(
        "list: ns for each match; others: how many times as fast. four_d and nd without the list \
         that comes before them in the engines of these names, so that the crossing shows. All four \
         are engines as a communicator has them, with the same way into them.",
    );
    let crossings: Vec<String> = ["scattered", "reverse", "forward"]
        .map(|order| match crossing.iter().find(|(known, _)| *known == order) {
            Some((_, ranks)) => format!("{order} {ranks}"),
            None => format!("{order} never"),
        })
        .to_vec();
    table.note(format!(
        "four_d first beats the list at: {}. Published default (formula 4.5): 26 ranks, whatever the order.",
        crossings.join(", ")
    ));
    table.note(format!(
        "auto does not know the order beforehand: at worst {:.2} of the better of list and nd ({}).",
        worst.0, worst.1
    ));
    table.chart = Some(chart);
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] =
    &[("threshold", "from how many ranks on an index pays", threshold)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_jobs_have_every_rank_once() {
        for ranks in [1, 4, 26, 100, 512] {
            let job = scattered(ranks);
            let mut seen: Vec<u32> = job
                .events
                .iter()
                .filter(|event| !event.receive)
                .map(|event| event.source)
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..ranks).collect::<Vec<_>>());
        }
    }
}
