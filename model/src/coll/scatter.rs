//! Scatters: each rank gets its block from one.

use super::bcast::{children, reach};
use super::blocks::{Blocks, Even};
use super::forms::Tree;
use super::plan::{Place, Plan, Span};

/// The root sends each block to its rank.
pub fn linear<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    blocks: &impl Blocks,
    own: Span,
) -> Result<(), P::Error> {
    if place.rank != root {
        plan.recv(root, own)?;
        return plan.wait();
    }
    for rank in (0..place.size).filter(|&rank| rank != root) {
        plan.send(rank, blocks.span(rank))?;
    }
    plan.copy(blocks.span(root), own);
    plan.wait()
}

/// Bytes of scratch that `even` needs.
#[inline]
pub const fn scratch(how: Tree, size: u32, block: usize) -> usize {
    match how {
        Tree::Linear => 0,
        Tree::Binomial => size as usize * block,
    }
}

/// Blocks of the length of `own`, from `input`, which counts at the root only.
pub fn even<P: Plan>(
    plan: &mut P,
    place: Place,
    how: Tree,
    root: u32,
    input: Even,
    own: Span,
) -> Result<(), P::Error> {
    match how {
        Tree::Linear => linear(plan, place, root, &input, own),
        Tree::Binomial => binomial(plan, place, root, input, own),
    }
}

/// Down a binomial tree; each rank gets the blocks of all ranks below it.
fn binomial<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    input: Even,
    own: Span,
) -> Result<(), P::Error> {
    let relative = place.relative(root);
    let reach = reach(relative, place.size);
    let block = own.len;
    let count = |first: u32, reach: u32| reach.min(place.size - first) as usize;
    let below = count(relative, reach);
    let whole = Span::new(input.space, 0, place.size as usize * block);
    let held = match (relative, root) {
        (0, 0) => whole,
        // A leaf receives where the block belongs.
        (1.., _) if below == 1 => own,
        _ => Span::scratch(0, below * block),
    };
    if relative != 0 {
        plan.recv(place.absolute(relative - reach, root), held)?;
        plan.wait()?;
    } else if root != 0 {
        let (tail, head) = ((place.size - root) as usize * block, root as usize * block);
        plan.copy(whole.part(head, tail), held.part(0, tail));
        plan.copy(whole.part(0, head), held.part(tail, head));
    }
    for child in children(relative, reach, place.size) {
        let distance = child - relative;
        let theirs = held.part(distance as usize * block, count(child, distance) * block);
        plan.send(place.absolute(child, root), theirs)?;
    }
    plan.copy(held.part(0, block), own);
    plan.wait()
}
