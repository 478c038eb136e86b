//! Gathers: the blocks of all ranks come to one.

use super::bcast::{below, branches, reach};
use super::blocks::Blocks;
use super::forms::Tree;
use super::plan::{Place, Plan, Span};

/// Every rank sends its block to the root, where all receives are posted at once.
pub fn linear<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    own: Span,
    blocks: &impl Blocks,
) -> Result<(), P::Error> {
    if place.rank != root {
        plan.send(root, own)?;
        return plan.wait();
    }
    for rank in (0..place.size).filter(|&rank| rank != root) {
        plan.recv(rank, blocks.span(rank))?;
    }
    plan.copy(own, blocks.span(root));
    plan.wait()
}

/// Bytes of scratch that `even` needs, here or in a scatter.
#[inline]
pub const fn scratch(how: Tree, size: u32, block: usize) -> usize {
    match how {
        Tree::Linear => 0,
        Tree::Binomial => size as usize * block,
    }
}

/// Blocks of the length of `own`, to `output`, which counts at the root only.
pub fn even<P: Plan>(
    plan: &mut P,
    place: Place,
    how: Tree,
    root: u32,
    own: Span,
    output: super::blocks::Even,
) -> Result<(), P::Error> {
    match how {
        Tree::Linear => linear(plan, place, root, own, &output),
        Tree::Binomial => binomial(plan, place, root, own, output),
    }
}

/// Up a binomial tree; each rank passes on the blocks of all ranks below it.
fn binomial<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    own: Span,
    output: super::blocks::Even,
) -> Result<(), P::Error> {
    let block = own.len;
    let all = place.size as usize * block;
    // Blocks by relative rank; for root 0 that is the order of the output.
    let in_order = place.rank == root && root == 0;
    let gathered = if in_order { Span::output(all) } else { Span::scratch(0, all) };
    tree(plan, place, root, own, gathered, |relative| relative as usize * block)?;
    if place.rank == root && root != 0 {
        // Two pieces: from the root to the end, and from the start to the root.
        let whole = Span::new(output.space, 0, all);
        let (tail, head) = ((place.size - root) as usize * block, root as usize * block);
        plan.copy(gathered.part(0, tail), whole.part(head, tail));
        plan.copy(gathered.part(tail, head), whole.part(0, head));
    }
    Ok(())
}

/// Up a binomial tree, of blocks of any lengths: in the order of ranks counted from the root, so many bytes are in front of
/// each, and of all. `gathered` gets the blocks of this rank and those below it, one after the other; `own` may be the
/// first of them.
pub(super) fn tree<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    own: Span,
    gathered: Span,
    before: impl Fn(u32) -> usize,
) -> Result<(), P::Error> {
    for (child, theirs) in branches(place, root, gathered, &before) {
        plan.recv(child, theirs)?;
    }
    let relative = place.relative(root);
    let ranks = below(relative, place.size);
    let is_leaf = ranks == 1;
    if relative == 0 || !is_leaf {
        plan.copy(own, gathered.part(0, own.len));
        plan.wait()?;
    }
    if relative != 0 {
        let len = before(relative + ranks) - before(relative);
        let all = if is_leaf { own } else { gathered.part(0, len) };
        plan.send(place.absolute(relative - reach(relative, place.size), root), all)?;
        return plan.wait();
    }
    Ok(())
}
