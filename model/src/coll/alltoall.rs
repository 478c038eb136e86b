//! All-to-all exchanges: each rank has a block for each.

use super::blocks::{Blocks, Even};
use super::forms::Alltoall;
use super::plan::{Copies, Place, Plan, Span};

/// Bytes of scratch that `even` needs for blocks of `block` bytes.
#[inline]
pub const fn scratch(how: Alltoall, size: u32, block: usize) -> usize {
    match how {
        Alltoall::Bruck => size as usize * block + 2 * packed_max(size) * block,
        Alltoall::Staged(_) => 0,
    }
}

/// Blocks that travel in one round at most.
const fn packed_max(size: u32) -> usize {
    size.div_ceil(2) as usize
}

/// Blocks of one length.
pub fn even<P: Plan>(
    plan: &mut P,
    place: Place,
    how: Alltoall,
    input: Even,
    output: Even,
) -> Result<(), P::Error> {
    match how {
        Alltoall::Bruck => bruck(plan, place, input, output),
        Alltoall::Staged(partners) => staged(plan, place, partners, &input, &output),
    }
}

/// Blocks of any lengths at any places: each rank exchanges with `partners` others at a time, so that
/// the data under way is bounded. Ranks that have processors of their own finish soonest with one
/// partner; ranks that share them have to run once for each stage, so few stages are better.
pub fn staged<P: Plan>(
    plan: &mut P,
    place: Place,
    partners: u32,
    input: &impl Blocks,
    output: &impl Blocks,
) -> Result<(), P::Error> {
    plan.copy(input.span(place.rank), output.span(place.rank));
    // Each rank starts with another partner, so that no partner is everybody's first.
    let pair = |distance| match place.size.is_power_of_two() {
        true => (place.rank ^ distance, place.rank ^ distance),
        false => (place.right(distance), place.left(distance)),
    };
    let mut begun = 1;
    while begun < place.size {
        let end = place.size.min(begun.saturating_add(partners.max(1)));
        for (_, from) in (begun..end).map(pair) {
            plan.recv(from, output.span(from))?;
        }
        for (to, _) in (begun..end).map(pair) {
            plan.send(to, input.span(to))?;
        }
        plan.wait()?;
        begun = end;
    }
    Ok(())
}

/// In round k, all blocks that still have to go a distance with bit k set go 2^k ranks at once:
/// log(size) messages of half the data each. (Bruck and others 1997.)
fn bruck<P: Plan>(plan: &mut P, place: Place, input: Even, output: Even) -> Result<(), P::Error> {
    let (size, block) = (place.size, input.len);
    // Rotated: the block for the rank `i` to the right is at place `i`.
    let rotated = |index: u32| Span::scratch(index as usize * block, block);
    let mut copies = Copies::default();
    for distance in 0..size {
        copies.add(plan, input.span(place.right(distance)), rotated(distance));
    }
    copies.finish(plan);
    let most = packed_max(size) * block;
    let going_at = size as usize * block;
    let coming_at = going_at + most;

    let mut bit = 1;
    while bit < size {
        let moving = || (0..size).filter(|index| index & bit != 0);
        let bytes = moving().count() * block;
        let packed = |at: usize| {
            moving()
                .enumerate()
                .map(move |(n, index)| (index, Span::scratch(at + n * block, block)))
        };
        let mut copies = Copies::default();
        for (index, place) in packed(going_at) {
            copies.add(plan, rotated(index), place);
        }
        copies.finish(plan);
        plan.recv(place.left(bit), Span::scratch(coming_at, bytes))?;
        plan.send(place.right(bit), Span::scratch(going_at, bytes))?;
        plan.wait()?;
        let mut copies = Copies::default();
        for (index, place) in packed(coming_at) {
            copies.add(plan, place, rotated(index));
        }
        copies.finish(plan);
        bit *= 2;
    }
    // What has come the distance `i` came from the rank `i` to the left.
    for distance in 0..size {
        plan.copy(rotated(distance), output.span(place.left(distance)));
    }
    Ok(())
}
