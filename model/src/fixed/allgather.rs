//! Allgathers: everybody gets the blocks of all, which have one length.

use super::forms::FixedAllgather;
use crate::coll::blocks::{Blocks, Even};
use crate::coll::plan::{Place, Plan, Span};
use crate::coll::{self, forms};

/// Bytes of scratch that `run` needs; `total` is the length of all blocks.
pub const fn scratch(how: FixedAllgather, total: usize) -> usize {
    match how {
        FixedAllgather::Bruck => total,
        _ => 0,
    }
}

/// Brings the own block of each rank to all. `own` may be the own block of the output.
///
/// # Errors
/// Those of the plan.
pub fn run<P: Plan>(
    plan: &mut P,
    place: Place,
    how: FixedAllgather,
    own: Span,
    output: Even,
) -> Result<(), P::Error> {
    use forms::Allgather as Ours;
    match how {
        FixedAllgather::Doubling => coll::allgather::even(plan, place, Ours::Doubling, own, output),
        FixedAllgather::Bruck => coll::allgather::even(plan, place, Ours::Bruck, own, output),
        FixedAllgather::Ring => coll::allgather::even(plan, place, Ours::Ring, own, output),
        FixedAllgather::Neighbours => neighbours(plan, place, own, output),
    }
}

/// The pair of blocks that a rank has got last after so many steps. Pairs are ranks that differ in the last bit.
const fn last_pair(rank: u32, step: u32, pairs: u32) -> u32 {
    let away = step.div_ceil(2);
    // Even ranks begin with the left one, odd ones with the right one.
    let left = rank.is_multiple_of(2) == (step % 2 == 1);
    (rank / 2 + if left { pairs - away } else { away }) % pairs
}

fn neighbours<P: Plan>(
    plan: &mut P,
    place: Place,
    own: Span,
    output: Even,
) -> Result<(), P::Error> {
    plan.copy(own, output.span(place.rank));
    let pairs = place.size / 2;
    let pair = |index: u32| {
        let first = output.span(2 * index);
        Span::new(first.space, first.at, 2 * output.len)
    };
    for step in 0..pairs {
        let right = place.rank.is_multiple_of(2) == step.is_multiple_of(2);
        let peer = if right { place.right(1) } else { place.left(1) };
        let (into, out) = match step {
            0 => (output.span(peer), output.span(place.rank)),
            _ => (
                pair(last_pair(peer, step - 1, pairs)),
                pair(last_pair(place.rank, step - 1, pairs)),
            ),
        };
        plan.recv(peer, into)?;
        plan.send(peer, out)?;
        plan.wait()?;
    }
    Ok(())
}
