//! Broadcasts of one span.

use super::fold::swap;
use super::forms::{FixedBcast, FixedTree};
use super::tree;
use crate::coll::plan::{Place, Plan, Span};
use crate::coll::{self, forms};

/// Brings `data` from `root` to all.
///
/// # Errors
/// Those of the plan.
pub fn run<P: Plan>(
    plan: &mut P,
    place: Place,
    how: FixedBcast,
    root: u32,
    data: Span,
) -> Result<(), P::Error> {
    use forms::Bcast as Ours;
    match how {
        FixedBcast::Linear => coll::bcast::run(plan, place, Ours::Flat, root, data),
        FixedBcast::Binomial => coll::bcast::run(plan, place, Ours::Binomial, root, data),
        FixedBcast::ScatterRing => {
            coll::bcast::run(plan, place, Ours::ScatterAllgather, root, data)
        }
        FixedBcast::Tree(tree) => tree::bcast(plan, place, tree, root, data, usize::MAX),
        FixedBcast::SplitBinary => split_binary(plan, place, root, data),
        FixedBcast::ScatterDoubling => scatter_doubling(plan, place, root, data),
    }
}

/// In a binary tree, odd ranks are below the first child of the root and even ones below the second. So each half of
/// the data goes to every other rank, and neighbours have what the other lacks.
fn split_binary<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    data: Span,
) -> Result<(), P::Error> {
    let me = place.relative(root);
    let first = data.len.div_ceil(2);
    let half = |of: u32| {
        if of % 2 == 1 { data.part(0, first) } else { data.part(first, data.len - first) }
    };
    if let Some(parent) = FixedTree::Binary.parent(me, place.size) {
        swap(plan, place.absolute(parent, root), Span::EMPTY, half(me))?;
    }
    for child in FixedTree::Binary.children(me, place.size) {
        swap(plan, place.absolute(child, root), half(child), Span::EMPTY)?;
    }
    plan.phase(1);
    // An odd rank's neighbour is the next one. The last one may have none, and turns to the root.
    let alone = place.size.is_multiple_of(2);
    if me == 0 {
        if alone {
            swap(plan, place.absolute(place.size - 1, root), half(0), Span::EMPTY)?;
        }
        return Ok(());
    }
    if me % 2 == 1 && me + 1 == place.size {
        return swap(plan, root, Span::EMPTY, half(0));
    }
    let neighbour = if me % 2 == 1 { me + 1 } else { me - 1 };
    swap(plan, place.absolute(neighbour, root), half(me), half(neighbour))
}

/// What a rank does for others of its half that have no partner in the other half, or is done for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serve {
    /// It passes on what it got.
    To(u32),
    /// It gets that.
    From(u32),
}

/// Of `size` ranks in a row, a power of two, the first `have` ones have something: how a rank of them passes it on, or
/// gets it, so that all have it after the fewest rounds.
pub(super) fn serve(rank: u32, have: u32, size: u32) -> Vec<Serve> {
    let (mut base, mut have, mut size) = (0, have, size);
    let mut all = Vec::new();
    while size > 1 && have < size {
        let far = size / 2;
        let own = rank - base;
        if have <= far {
            if own < have {
                all.push(Serve::To(rank + far));
            } else if (far..far + have).contains(&own) {
                all.push(Serve::From(rank - far));
            }
            base += if own < far { 0 } else { far };
        } else if own < far {
            break;
        } else {
            (base, have) = (base + far, have - far);
        }
        size = far;
    }
    all
}

/// Parts go down a binomial tree. Then groups that are next to each other swap what they have. Where the upper group
/// lacks ranks, those of the lower one that have no partner are served by the others.
fn scatter_doubling<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    data: Span,
) -> Result<(), P::Error> {
    use coll::bcast::{children, reach};
    let (me, size) = (place.relative(root), place.size);
    let piece = data.len.div_ceil(size as usize);
    let parts = |from: u32, to: u32| {
        let at = |index: u32| (index.min(size) as usize * piece).min(data.len);
        data.part(at(from), at(to) - at(from))
    };
    let reach = reach(me, size);
    if me != 0 {
        let own = parts(me, me.saturating_add(reach));
        swap(plan, place.absolute(me - reach, root), Span::EMPTY, own)?;
    }
    for child in children(me, reach, size) {
        let theirs = parts(child, child + (child - me));
        swap(plan, place.absolute(child, root), theirs, Span::EMPTY)?;
    }
    plan.phase(1);
    let mut width = 1;
    while width < size {
        let low = me / (2 * width) * (2 * width);
        let (lower, upper) = (parts(low, low + width), parts(low + width, low + 2 * width));
        // Ranks of the upper group.
        let there = size.saturating_sub(low + width).min(width);
        let rank = |index: u32| place.absolute(index, root);
        if me >= low + width {
            swap(plan, rank(me - width), upper, lower)?;
        } else {
            if me - low < there {
                swap(plan, rank(me + width), lower, upper)?;
            }
            if there > 0 {
                for step in serve(me - low, there, width) {
                    match step {
                        Serve::To(to) => swap(plan, rank(low + to), upper, Span::EMPTY)?,
                        Serve::From(from) => swap(plan, rank(low + from), Span::EMPTY, upper)?,
                    }
                }
            }
        }
        width *= 2;
    }
    Ok(())
}
