//! Gathers: the blocks of all ranks come to one. Scatters are those of [`coll`](crate::coll::scatter).

use super::forms::{Gather, Scatter};
use crate::coll::blocks::{Blocks, Even};
use crate::coll::plan::{Place, Plan, Span};
use crate::coll::{self, forms};

impl Scatter {
    /// The form that it is here.
    pub const fn ours(self) -> forms::Tree {
        match self {
            Self::Linear => forms::Tree::Linear,
            Self::Binomial => forms::Tree::Binomial,
        }
    }
}

/// Bytes of scratch that `run` needs.
pub const fn scratch(how: Gather, size: u32, block: usize) -> usize {
    match how {
        Gather::Linear | Gather::Asked => 0,
        Gather::Binomial => coll::gather::scratch(forms::Tree::Binomial, size, block),
    }
}

/// Brings blocks of the length of `own` to `output`, which counts at the root only.
///
/// # Errors
/// Those of the plan.
pub fn run<P: Plan>(
    plan: &mut P,
    place: Place,
    how: Gather,
    root: u32,
    own: Span,
    output: Even,
) -> Result<(), P::Error> {
    use forms::Tree as Ours;
    match how {
        Gather::Linear => coll::gather::even(plan, place, Ours::Linear, root, own, output),
        Gather::Binomial => coll::gather::even(plan, place, Ours::Binomial, root, own, output),
        Gather::Asked => asked(plan, place, root, own, output),
    }
}

/// Ranks send when they are asked to, so that blocks that nobody expects do not pile up.
fn asked<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    own: Span,
    output: Even,
) -> Result<(), P::Error> {
    if place.rank != root {
        plan.recv(root, Span::EMPTY)?;
        plan.wait()?;
        plan.send(root, own)?;
        return plan.wait();
    }
    for rank in (0..place.size).filter(|&rank| rank != root) {
        plan.recv(rank, output.span(rank))?;
        plan.send(rank, Span::EMPTY)?;
    }
    plan.copy(own, output.span(root));
    plan.wait()
}
