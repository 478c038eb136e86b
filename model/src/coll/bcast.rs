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
    scatter_parts(plan, place, root, data)?;
    plan.phase(1);
    gather_parts(plan, place, root, data)
}

/// The parts of ranks counted from the root; the last ones may be short or empty.
pub(super) struct Parts {
    data: Span,
    piece: usize,
}

impl Parts {
    #[inline]
    pub(super) fn new(data: Span, size: u32) -> Self {
        Self { data, piece: data.len.div_ceil(size as usize) }
    }

    /// Those of ranks `from .. to`.
    #[inline]
    pub(super) fn of(&self, from: u32, to: u32) -> Span {
        let start = (from as usize * self.piece).min(self.data.len);
        let end = (to as usize * self.piece).min(self.data.len);
        self.data.part(start, end - start)
    }
}

/// Each rank gets its own part from the root, and those of the ranks behind it in the tree.
pub(super) fn scatter_parts<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    data: Span,
) -> Result<(), P::Error> {
    let parts = Parts::new(data, place.size);
    let relative = place.relative(root);
    let reach = reach(relative, place.size);
    let last = |first: u32, reach: u32| (first + reach).min(place.size);
    if relative != 0 {
        let own = parts.of(relative, last(relative, reach));
        if own.len > 0 {
            plan.recv(place.absolute(relative - reach, root), own)?;
            plan.wait()?;
        }
    }
    for child in children(relative, reach, place.size) {
        let theirs = parts.of(child, last(child, child - relative));
        if theirs.len > 0 {
            plan.send(place.absolute(child, root), theirs)?;
        }
    }
    plan.wait()
}

/// The parts go around a ring, one step in each of size - 1 rounds. The root has everything and leaves what comes around
/// to it unsent.
pub(super) fn gather_parts<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    data: Span,
) -> Result<(), P::Error> {
    let parts = Parts::new(data, place.size);
    let ring = Place { rank: place.relative(root), size: place.size };
    for step in 0..place.size - 1 {
        let (out, into) = (ring.left(step), ring.left(step + 1));
        let (out, into) = (parts.of(out, out + 1), parts.of(into, into + 1));
        if into.len > 0 && ring.rank != 0 {
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
