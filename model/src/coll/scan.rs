//! Prefix reductions, including the own contribution or not.

use super::forms::Scan;
use super::plan::{Place, Plan, Span};

/// Bytes of scratch that `run` needs for vectors of `len` bytes.
#[inline]
pub const fn scratch(how: Scan, len: usize) -> usize {
    match how {
        Scan::Doubling => 2 * len,
        Scan::Chain => len,
    }
}

/// Brings the reduction of the inputs of all ranks up to this one to `output`; when `exclusive`,
/// of those below it, and rank 0's output is left alone.
pub fn run<P: Plan>(
    plan: &mut P,
    place: Place,
    how: Scan,
    exclusive: bool,
    input: Span,
    output: Span,
) -> Result<(), P::Error> {
    match (how, exclusive) {
        (Scan::Doubling, _) => doubling(plan, place, exclusive, input, output),
        (Scan::Chain, false) => chain(plan, place, input, output),
        (Scan::Chain, true) => exclusive_chain(plan, place, input, output),
    }
}

/// In round k, ranks that differ in bit k swap the reduction over their blocks of 2^k ranks.
/// (Hillis and Steele: "Data Parallel Algorithms", 1986, with swaps.)
fn doubling<P: Plan>(
    plan: &mut P,
    place: Place,
    exclusive: bool,
    input: Span,
    output: Span,
) -> Result<(), P::Error> {
    let places = [Span::scratch(0, input.len), Span::scratch(input.len, input.len)];
    // The reduction over the block of ranks around this one; in the input at first.
    let mut block = input;
    let mut started = !exclusive;
    if started {
        plan.copy(input, output);
    }
    let mut bit = 1;
    while bit < place.size {
        let peer = place.rank ^ bit;
        if peer < place.size {
            let (coming, other) =
                if block == places[0] { (places[1], places[0]) } else { (places[0], places[1]) };
            plan.recv(peer, coming)?;
            plan.send(peer, block)?;
            plan.wait()?;
            if peer < place.rank {
                if started {
                    plan.reduce(coming, output);
                } else {
                    plan.copy(coming, output);
                    started = true;
                }
                if block == input {
                    plan.copy(input, other);
                    block = other;
                }
                plan.reduce(coming, block);
            } else {
                plan.reduce(block, coming);
                block = coming;
            }
        }
        bit *= 2;
    }
    Ok(())
}

/// Each rank waits for the one below: the fewest messages.
fn chain<P: Plan>(plan: &mut P, place: Place, input: Span, output: Span) -> Result<(), P::Error> {
    plan.copy(input, output);
    if place.rank > 0 {
        let coming = Span::scratch(0, input.len);
        plan.recv(place.rank - 1, coming)?;
        plan.wait()?;
        plan.reduce(coming, output);
    }
    if place.rank + 1 < place.size {
        plan.send(place.rank + 1, output)?;
    }
    plan.wait()
}

fn exclusive_chain<P: Plan>(
    plan: &mut P,
    place: Place,
    input: Span,
    output: Span,
) -> Result<(), P::Error> {
    let mut next = input;
    if place.rank > 0 {
        plan.recv(place.rank - 1, output)?;
        if place.rank + 1 < place.size {
            // While the other ranks are at work.
            next = Span::scratch(0, input.len);
            plan.copy(input, next);
        }
        plan.wait()?;
        if next != input {
            plan.reduce(output, next);
        }
    }
    if place.rank + 1 < place.size {
        plan.send(place.rank + 1, next)?;
    }
    plan.wait()
}
