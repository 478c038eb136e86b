//! E8: allreduces of 8 bytes to 4 KB by factored schedules, with real ranks.

use anyhow::Result;
use bowline_bench::Order;

use super::pictures::Curve;
use super::ranks::{Findings, Network, Site, allreduce, factored, note, owned, points};

/// A time is beyond the knee of latency that is so many times that of 8 bytes.
pub(super) const KNEE: f64 = 1.25;

/// The size of the first point beyond the knee, of points of sizes and times.
pub(super) fn knee(points: &[(f64, f64)]) -> Option<f64> {
    let least = points.first()?.1;
    points.iter().find(|(_, time)| *time > KNEE * least).map(|(size, _)| *size)
}

/// The factors of a factored schedule.
fn factors(text: &str) -> Vec<u32> {
    text.split(',').filter_map(|stage| stage.strip_prefix('a')?.parse().ok()).collect()
}

/// The factored schedules whose factors do not grow, the one of greatest factors first, without recursive doubling.
pub(super) fn falling(ranks: u32) -> Vec<String> {
    let mut all = factored(ranks);
    all.retain(|text| {
        let factors = factors(text);
        factors.is_sorted_by(|one, next| one >= next) && factors.iter().any(|factor| *factor > 2)
    });
    all.sort_by_key(|text| std::cmp::Reverse(factors(text)));
    all
}

/// Up to so many ranks every factored schedule is measured.
const ALL_ORDERS: u32 = 16;

/// What is measured beside recursive doubling. Of many ranks only schedules of factors from 4 to 8 that do not grow: a job
/// of all of them exceeds its time limit where 64 ranks share two processors.
fn measured(ranks: u32) -> Vec<String> {
    if ranks <= ALL_ORDERS {
        return factored(ranks);
    }
    let is_moderate = |factor: &u32| (4..=8).contains(factor);
    let mut all = falling(ranks);
    all.retain(|text| factors(text).iter().all(is_moderate));
    all
}

/// E8: 8 bytes to 4 KB.
pub(super) fn measure(site: &mut Site<'_>, findings: &mut Findings) -> Result<()> {
    // A network with delay has no 64 hosts unless they are asked for.
    let usual: &[u32] = if site.network == Network::Shm { &[8, 64] } else { &[8] };
    for ranks in site.ranks(usual) {
        let mut names = owned(&["doubling"]);
        names.extend(measured(ranks));
        let orders: Vec<Order> = (3..=12).map(|bits| allreduce(1 << bits, 10)).collect();
        let figures = site.within_jobs(ranks, &names, &orders)?;
        note(site, findings, "E8", ranks, &names, &figures, None)?;
        let curve = |(place, name): (usize, &String)| Curve {
            name: name.clone(),
            points: points(&figures, place, |order| order.size as f64),
        };
        let curves: Vec<Curve> = names.iter().enumerate().map(curve).collect();
        for Curve { name, points } in &curves {
            let knee = knee(points);
            let knee = knee.map_or_else(|| "beyond 4096".to_owned(), |size| size.to_string());
            println!(
                "E8   {ranks} ranks, {name}: a median above {KNEE} of that of 8 bytes first at {knee} bytes; published: \
                 192 to 256 bytes at 8 ranks, and at 64 ranks multiplying clearly ahead at 4 KB"
            );
        }
        let title = format!("Allreduce of {ranks} ranks, median");
        site.picture(&format!("e8-{ranks}"), &title, ["bytes", "us"], &curves)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_fall_or_stay() {
        assert_eq!(falling(8), ["a8", "a4,a2"]);
        assert_eq!(falling(12), ["a12", "a6,a2", "a4,a3", "a3,a2,a2"]);
        assert_eq!(falling(64).len(), 10);
        assert_eq!((measured(64), measured(8)), (owned(&["a8,a8", "a4,a4,a4"]), factored(8)));
    }

    #[test]
    fn the_knee_is_at_the_first_point_above_it() {
        assert_eq!(knee(&[(8.0, 10.0), (16.0, 12.0), (32.0, 13.0)]), Some(32.0));
        assert_eq!(knee(&[(8.0, 10.0), (16.0, 12.0)]), None);
    }
}
