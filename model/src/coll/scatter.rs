//! Scatters: each rank gets its block from one.

use super::bcast::{below, branches, reach};
use super::blocks::{Blocks, Even};
use super::forms::Tree;
use super::plan::{Place, Plan, Span};

// A scatter needs as much as a gather.
pub use super::gather::scratch;

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
    let block = own.len;
    let whole = Span::new(input.space, 0, place.size as usize * block);
    let ranks = below(relative, place.size);
    let held = match (relative, root) {
        (0, 0) => whole,
        // A leaf receives where the block belongs.
        (1.., _) if ranks == 1 => own,
        _ => Span::scratch(0, ranks as usize * block),
    };
    if relative == 0 && root != 0 {
        let (tail, head) = ((place.size - root) as usize * block, root as usize * block);
        plan.copy(whole.part(head, tail), held.part(0, tail));
        plan.copy(whole.part(0, head), held.part(tail, head));
    }
    tree(plan, place, root, held, |relative| relative as usize * block)?;
    plan.copy(held.part(0, block), own);
    plan.wait()
}

/// Down a binomial tree, of blocks of any lengths: in the order of ranks counted from the root, so many bytes are in front
/// of each, and of all. `held` has, or gets, the blocks of this rank and those below it, one after the other. What goes on
/// to others is started only.
pub(super) fn tree<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    held: Span,
    before: impl Fn(u32) -> usize,
) -> Result<(), P::Error> {
    let relative = place.relative(root);
    if relative != 0 {
        let len = before(relative + below(relative, place.size)) - before(relative);
        let parent = place.absolute(relative - reach(relative, place.size), root);
        plan.recv(parent, held.part(0, len))?;
        plan.wait()?;
    }
    for (child, theirs) in branches(place, root, held, &before) {
        plan.send(child, theirs)?;
    }
    Ok(())
}
