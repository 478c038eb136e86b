//! Broadcasts of one span, which the root has and the others receive.

use super::forms::Bcast;
use super::levels::split;
use super::plan::{Place, Plan, Span};
use super::two_trees;

/// Bytes of a piece that travels along a chain: large enough that the cost of a message is small
/// beside copying it, small enough that pieces stay in the second-level cache between two ranks.
pub const CHAIN_PIECE: usize = 128 << 10;

/// Brings `data` from `root` to all.
pub fn run<P: Plan>(
    plan: &mut P,
    place: Place,
    how: Bcast,
    root: u32,
    data: Span,
) -> Result<(), P::Error> {
    match how {
        Bcast::Flat => flat(plan, place, root, data),
        Bcast::Binomial => binomial(plan, place, root, data),
        Bcast::ScatterAllgather => scatter_allgather(plan, place, root, data),
        Bcast::Chain => chain(plan, place, root, data),
        Bcast::TwoTrees(kilobytes) => {
            two_trees::bcast(plan, place, root, data, (kilobytes as usize) << 10)
        }
        Bcast::Multiplying(stages) => split::bcast(plan, place, (stages, 0), root, data),
        Bcast::Split(stages, split) => split::bcast(plan, place, (stages, split), root, data),
    }
}

/// The root sends to everybody.
fn flat<P: Plan>(plan: &mut P, place: Place, root: u32, data: Span) -> Result<(), P::Error> {
    if place.rank != root {
        plan.recv(root, data)?;
        return plan.wait();
    }
    for distance in 1..place.size {
        plan.send(place.right(distance), data)?;
    }
    plan.wait()
}

/// A binomial tree: who has the data sends it to the far half of its part of the ranks.
fn binomial<P: Plan>(plan: &mut P, place: Place, root: u32, data: Span) -> Result<(), P::Error> {
    let relative = place.relative(root);
    let reach = reach(relative, place.size);
    if relative != 0 {
        plan.recv(place.absolute(relative - reach, root), data)?;
        plan.wait()?;
    }
    for child in children(relative, reach, place.size) {
        plan.send(place.absolute(child, root), data)?;
    }
    plan.wait()
}

/// Distance to the parent in a binomial tree over relative ranks; for the root, beyond the last.
#[inline]
pub const fn reach(relative: u32, size: u32) -> u32 {
    if relative == 0 { size.next_power_of_two() } else { 1 << relative.trailing_zeros() }
}

/// The children in a binomial tree, the farthest first. The child at distance d leads the ranks
/// up to d beyond it.
pub fn children(relative: u32, reach: u32, size: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(reach / 2), |distance| Some(distance / 2))
        .take_while(|&distance| distance > 0)
        .map(move |distance| relative + distance)
        .filter(move |&child| child < size)
}

/// Ranks of a rank's part of a binomial tree: those below a relative rank, and itself.
#[inline]
pub fn below(relative: u32, size: u32) -> u32 {
    reach(relative, size).min(size - relative)
}

/// The children of a rank in a binomial tree along which blocks go, each with the blocks of its part of the tree in
/// `held`, where this rank has those of its own part one after the other. In the order of ranks counted from the root,
/// `before` has the bytes in front of each block, and of all.
pub(super) fn branches(
    place: Place,
    root: u32,
    held: Span,
    before: impl Fn(u32) -> usize,
) -> impl Iterator<Item = (u32, Span)> {
    let relative = place.relative(root);
    children(relative, reach(relative, place.size), place.size).map(move |child| {
        let (at, end) = (before(child), before(child + below(child, place.size)));
        (place.absolute(child, root), held.part(at - before(relative), end - at))
    })
}

/// The parts are scattered down a binomial tree and gathered by all around a ring: every rank
/// sends about twice the data, whatever the number of ranks. (Barnett and others: "Interprocessor
/// Collective Communication Library", 1994, after van de Geijn.)
fn scatter_allgather<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    data: Span,
) -> Result<(), P::Error> {
    let piece = data.len.div_ceil(place.size as usize);
    // The parts of relative ranks `from .. to`; the last ones may be short or empty.
    let parts = |from: u32, to: u32| {
        let start = (from as usize * piece).min(data.len);
        let end = (to as usize * piece).min(data.len);
        data.part(start, end - start)
    };

    let relative = place.relative(root);
    let reach = reach(relative, place.size);
    let last = |first: u32, reach: u32| (first + reach).min(place.size);
    if relative != 0 {
        let own = parts(relative, last(relative, reach));
        if own.len > 0 {
            plan.recv(place.absolute(relative - reach, root), own)?;
            plan.wait()?;
        }
    }
    for child in children(relative, reach, place.size) {
        let theirs = parts(child, last(child, child - relative));
        if theirs.len > 0 {
            plan.send(place.absolute(child, root), theirs)?;
        }
    }
    plan.wait()?;

    plan.phase(1);
    let ring = Place { rank: relative, size: place.size };
    for step in 0..place.size - 1 {
        let (out, into) = (ring.left(step), ring.left(step + 1));
        let (out, into) = (parts(out, out + 1), parts(into, into + 1));
        // The root has everything and leaves what comes around to it unsent.
        if into.len > 0 && relative != 0 {
            plan.recv(place.left(1), into)?;
        }
        if out.len > 0 && ring.right(1) != 0 {
            plan.send(place.right(1), out)?;
        }
        plan.wait()?;
    }
    Ok(())
}

/// Pieces travel from rank to rank; while a rank passes one on, the next one comes in.
fn chain<P: Plan>(plan: &mut P, place: Place, root: u32, data: Span) -> Result<(), P::Error> {
    let relative = place.relative(root);
    let (first, last) = (relative == 0, relative + 1 == place.size);
    let pieces = data.len.div_ceil(CHAIN_PIECE);
    let piece = |index: usize| {
        let at = index * CHAIN_PIECE;
        data.part(at, CHAIN_PIECE.min(data.len - at))
    };
    for step in 0..=pieces {
        if !first && step < pieces {
            plan.recv(place.left(1), piece(step))?;
        }
        if !last && step > 0 {
            plan.send(place.right(1), piece(step - 1))?;
        }
        plan.wait()?;
    }
    Ok(())
}
