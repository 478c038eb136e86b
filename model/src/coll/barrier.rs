//! Barriers.

use super::forms::Barrier;
use super::levels;
use super::plan::{Place, Plan, Span};

/// No rank leaves before all have entered.
pub fn run<P: Plan>(plan: &mut P, place: Place, how: Barrier) -> Result<(), P::Error> {
    match how {
        Barrier::Dissemination => dissemination(plan, place),
        Barrier::Flat => flat(plan, place),
        Barrier::Multiplying(stages) => levels::barrier(plan, place, stages),
    }
}

/// In round k, a message to the rank 2^k to the right. (Hensgen, Finkel, Manber: "Two Algorithms
/// for Barrier Synchronization", 1988.) The fewest rounds, but each rank must run in each.
fn dissemination<P: Plan>(plan: &mut P, place: Place) -> Result<(), P::Error> {
    let mut distance = 1;
    while distance < place.size {
        plan.recv(place.left(distance), Span::EMPTY)?;
        plan.send(place.right(distance), Span::EMPTY)?;
        plan.wait()?;
        distance *= 2;
    }
    Ok(())
}

/// All report to rank 0, which releases all. The fewest messages, and each rank needs to run only
/// twice: what ranks that share a processor want.
fn flat<P: Plan>(plan: &mut P, place: Place) -> Result<(), P::Error> {
    if place.rank != 0 {
        plan.recv(0, Span::EMPTY)?;
        plan.send(0, Span::EMPTY)?;
        return plan.wait();
    }
    for rank in 1..place.size {
        plan.recv(rank, Span::EMPTY)?;
    }
    plan.wait()?;
    for rank in 1..place.size {
        plan.send(rank, Span::EMPTY)?;
    }
    plan.wait()
}
