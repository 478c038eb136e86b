//! Gathers: the blocks of all ranks come to one.

use super::bcast::{children, reach};
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

/// Bytes of scratch that `even` needs.
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
    let relative = place.relative(root);
    let reach = reach(relative, place.size);
    let block = own.len;
    let count = |first: u32, reach: u32| reach.min(place.size - first) as usize;
    let below = count(relative, reach);
    // Blocks by relative rank; for root 0 that is the order of the output.
    let all = place.size as usize * block;
    let gathered = if relative == 0 && root == 0 {
        Span::output(all)
    } else {
        Span::scratch(0, below * block)
    };
    for child in children(relative, reach, place.size) {
        let distance = child - relative;
        let theirs = gathered.part(distance as usize * block, count(child, distance) * block);
        plan.recv(place.absolute(child, root), theirs)?;
    }
    if below > 1 || relative == 0 {
        plan.copy(own, gathered.part(0, block));
        plan.wait()?;
    }
    if relative != 0 {
        let parent = place.absolute(relative - reach, root);
        plan.send(parent, if below > 1 { gathered } else { own })?;
        return plan.wait();
    }
    if root != 0 {
        // Two pieces: from the root to the end, and from the start to the root.
        let whole = Span::new(output.space, 0, all);
        let (tail, head) = ((place.size - root) as usize * block, root as usize * block);
        plan.copy(gathered.part(0, tail), whole.part(head, tail));
        plan.copy(gathered.part(tail, head), whole.part(0, head));
    }
    Ok(())
}
