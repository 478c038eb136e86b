//! Barriers.

use super::fold::{Fold, Pair};
use super::forms::FixedBarrier;
use crate::coll::bcast::{children, reach};
use crate::coll::plan::{Place, Plan, Span};
use crate::coll::{self, forms};

/// No rank leaves before all have entered.
///
/// # Errors
/// Those of the plan.
pub fn run<P: Plan>(plan: &mut P, place: Place, how: FixedBarrier) -> Result<(), P::Error> {
    use forms::Barrier as Ours;
    match how {
        FixedBarrier::Linear => coll::barrier::run(plan, place, Ours::Flat),
        FixedBarrier::Dissemination => coll::barrier::run(plan, place, Ours::Dissemination),
        FixedBarrier::Doubling => doubling(plan, place),
        FixedBarrier::Tree => tree(plan, place),
    }
}

/// Ranks beyond the last power of two report to those that far below them, which release them at the end.
fn doubling<P: Plan>(plan: &mut P, place: Place) -> Result<(), P::Error> {
    let Fold { parts, .. } = Fold::new(place.size, Pair::ToEven);
    if place.rank >= parts {
        let peer = place.rank - parts;
        plan.send(peer, Span::EMPTY)?;
        plan.recv(peer, Span::EMPTY)?;
        return plan.wait();
    }
    let outside = Some(place.rank + parts).filter(|&peer| peer < place.size);
    if let Some(peer) = outside {
        plan.recv(peer, Span::EMPTY)?;
        plan.wait()?;
    }
    let mut bit = 1;
    while bit < parts {
        plan.recv(place.rank ^ bit, Span::EMPTY)?;
        plan.send(place.rank ^ bit, Span::EMPTY)?;
        plan.wait()?;
        bit *= 2;
    }
    if let Some(peer) = outside {
        plan.send(peer, Span::EMPTY)?;
    }
    plan.wait()
}

fn tree<P: Plan>(plan: &mut P, place: Place) -> Result<(), P::Error> {
    let reach = reach(place.rank, place.size);
    let mut children: Vec<u32> = children(place.rank, reach, place.size).collect();
    children.reverse();
    for &child in &children {
        plan.recv(child, Span::EMPTY)?;
    }
    plan.wait()?;
    if place.rank > 0 {
        plan.send(place.rank - reach, Span::EMPTY)?;
        plan.recv(place.rank - reach, Span::EMPTY)?;
        plan.wait()?;
    }
    for &child in children.iter().rev() {
        plan.send(child, Span::EMPTY)?;
    }
    plan.wait()
}
