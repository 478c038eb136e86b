//! Allgathers: everybody gets the blocks of all.
//!
//! All forms work on the blocks in the output; the caller's own block may come from elsewhere.

use super::blocks::{Blocks, Even};
use super::forms::{Allgather, Bcast};
use super::plan::{Copies, Place, Plan, Span};
use super::{bcast, gather, levels};

/// Bytes of scratch that `run` needs; `total` is the length of all blocks.
#[inline]
pub const fn scratch(how: Allgather, total: usize) -> usize {
    match how {
        Allgather::Bruck => total,
        _ => 0,
    }
}

/// Blocks of one length. `own` may be the own block of the output.
pub fn even<P: Plan>(
    plan: &mut P,
    place: Place,
    how: Allgather,
    own: Span,
    output: Even,
) -> Result<(), P::Error> {
    match how {
        Allgather::Doubling => doubling(plan, place, own, output),
        Allgather::GatherBcast => {
            gather::linear(plan, place, 0, own, &output)?;
            plan.phase(1);
            let all = Span::new(output.space, 0, place.size as usize * output.len);
            bcast::run(plan, place, Bcast::Flat, 0, all)
        }
        Allgather::Multiplying(stages) => levels::allgather(plan, place, stages, own, output),
        _ => any(plan, place, how, own, &output),
    }
}

/// Blocks of any lengths at any places; for the algorithms that can.
pub fn any<P: Plan>(
    plan: &mut P,
    place: Place,
    how: Allgather,
    own: Span,
    blocks: &impl Blocks,
) -> Result<(), P::Error> {
    match how {
        Allgather::Bruck => bruck(plan, place, own, blocks),
        Allgather::Ring => ring(plan, place, own, blocks),
        Allgather::Direct => direct(plan, place, own, blocks),
        Allgather::Doubling | Allgather::GatherBcast | Allgather::Multiplying(_) => {
            unreachable!("{how:?} is chosen for even blocks only")
        }
    }
}

/// In round k, ranks that differ in bit k swap all they have; for powers of two.
fn doubling<P: Plan>(plan: &mut P, place: Place, own: Span, output: Even) -> Result<(), P::Error> {
    plan.copy(own, output.span(place.rank));
    let held = |rank: u32, count: u32| {
        let first = rank & !(count - 1);
        Span::new(output.space, first as usize * output.len, count as usize * output.len)
    };
    let mut count = 1;
    while count < place.size {
        let peer = place.rank ^ count;
        plan.recv(peer, held(peer, count))?;
        plan.send(peer, held(place.rank, count))?;
        plan.wait()?;
        count *= 2;
    }
    Ok(())
}

/// Round k doubles what a rank has, counted from its own rank to the right, for any number of
/// ranks. (Bruck and others: "Efficient Algorithms for All-to-All Communications in Multiport
/// Message-Passing Systems", 1997.)
fn bruck<P: Plan>(
    plan: &mut P,
    place: Place,
    own: Span,
    blocks: &impl Blocks,
) -> Result<(), P::Error> {
    let Place { rank, size } = place;
    // Bytes of the first `count` blocks of what a rank collects.
    let length = |first: u32, count: u32| -> usize {
        (0..count).map(|i| blocks.len((first + i) % size)).sum()
    };
    plan.copy(own, Span::scratch(0, own.len));
    let mut held = 1;
    let mut held_bytes = own.len;
    while held < size {
        let count = held.min(size - held);
        let (from, to) = (place.right(held), place.left(held));
        let coming = length(from, count);
        plan.recv(from, Span::scratch(held_bytes, coming))?;
        plan.send(to, Span::scratch(0, length(rank, count)))?;
        plan.wait()?;
        held += count;
        held_bytes += coming;
    }
    let (mut at, mut copies) = (0, Copies::default());
    for distance in 0..size {
        let target = blocks.span(place.right(distance));
        copies.add(plan, Span::scratch(at, target.len), target);
        at += target.len;
    }
    copies.finish(plan);
    Ok(())
}

/// Blocks go around a ring, one step in each of size - 1 rounds: the least data in flight.
fn ring<P: Plan>(
    plan: &mut P,
    place: Place,
    own: Span,
    blocks: &impl Blocks,
) -> Result<(), P::Error> {
    plan.copy(own, blocks.span(place.rank));
    for step in 0..place.size - 1 {
        plan.recv(place.left(1), blocks.span(place.left(step + 1)))?;
        plan.send(place.right(1), blocks.span(place.left(step)))?;
        plan.wait()?;
    }
    Ok(())
}

/// Everybody sends to everybody in one stage: a rank needs to run once.
fn direct<P: Plan>(
    plan: &mut P,
    place: Place,
    own: Span,
    blocks: &impl Blocks,
) -> Result<(), P::Error> {
    for rank in (0..place.size).filter(|&rank| rank != place.rank) {
        plan.recv(rank, blocks.span(rank))?;
    }
    plan.copy(own, blocks.span(place.rank));
    for distance in 1..place.size {
        plan.send(place.right(distance), blocks.span(place.rank))?;
    }
    plan.wait()
}
