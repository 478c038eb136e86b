//! Trees over ranks, and broadcasts and reductions along them.
//!
//! Ranks are counted from the root. A vector may be cut into segments, which then follow each other through the tree.

use super::forms::FixedTree;
use crate::coll::accumulate::{Accumulator, OperandSide};
use crate::coll::plan::{Place, Plan, Span, Vectors};

/// The width of the level of a binary tree that a rank is on.
const fn level(rank: u32) -> u32 {
    1 << (rank + 1).ilog2()
}

/// The least power of `base` that is more than `size - 1`, and those below it, the greatest first.
fn powers(base: u32, size: u32) -> impl DoubleEndedIterator<Item = u32> {
    let all: Vec<u32> = std::iter::successors(Some(1_u32), |power| {
        power.checked_mul(base).filter(|next| *next < size)
    })
    .collect();
    all.into_iter().rev()
}

impl FixedTree {
    /// Who a rank gets the root's data from; `None` for the root.
    pub fn parent(self, rank: u32, size: u32) -> Option<u32> {
        if rank == 0 {
            return None;
        }
        Some(match self {
            Self::Chain => rank - 1,
            Self::Binary => {
                let above = level(rank) / 2;
                let first = rank - above;
                // Ranks of the level above are from its width less one on, as many as it is wide.
                if first < 2 * above - 1 { first } else { first - above }
            }
            Self::Highest => rank - (1 << rank.ilog2()),
            Self::Nomial(base) => {
                let lowest =
                    powers(base, size).rev().find(|power| !(rank / power).is_multiple_of(base));
                lowest.map_or(0, |power| rank - rank / power % base * power)
            }
            Self::Heap(width) => (rank - 1) / width,
        })
    }

    /// Whom a rank passes it on to, in this order.
    pub fn children(self, rank: u32, size: u32) -> Vec<u32> {
        let all: Vec<u32> = match self {
            Self::Chain => vec![rank + 1],
            Self::Binary => vec![rank + level(rank), rank + 2 * level(rank)],
            Self::Highest => {
                let first = if rank == 0 { 0 } else { rank.ilog2() + 1 };
                (first..size.next_power_of_two().ilog2()).map(|bit| rank + (1 << bit)).collect()
            }
            Self::Nomial(base) => powers(base, size)
                .filter(|&power| rank.is_multiple_of(power) && (rank / power).is_multiple_of(base))
                .flat_map(|power| (1..base).map(move |digit| rank + digit * power))
                .collect(),
            Self::Heap(width) => (1..=width).map(|child| rank * width + child).collect(),
        };
        all.into_iter().filter(|&child| child < size).collect()
    }
}

/// A vector in segments of at most so many bytes; one, where it has none.
fn segments(len: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let most = most.max(1);
    (0..len.div_ceil(most).max(1)).map(move |index| (index * most, most.min(len - index * most)))
}

/// Brings `data` from `root` to all, in segments of at most `segment` bytes.
///
/// # Errors
/// Those of the plan.
pub fn bcast<P: Plan>(
    plan: &mut P,
    place: Place,
    tree: FixedTree,
    root: u32,
    data: Span,
    segment: usize,
) -> Result<(), P::Error> {
    let me = place.relative(root);
    let parent = tree.parent(me, place.size);
    let children = tree.children(me, place.size);
    for (at, len) in segments(data.len, segment) {
        if let Some(parent) = parent {
            plan.recv(place.absolute(parent, root), data.part(at, len))?;
            plan.wait()?;
        }
        for &child in &children {
            plan.send(place.absolute(child, root), data.part(at, len))?;
        }
    }
    plan.wait()
}

/// Reduces to the output of `root`, up a tree, in segments of at most `segment` bytes. For commutative operations.
///
/// # Errors
/// Those of the plan.
pub fn reduce<P: Plan>(
    plan: &mut P,
    place: Place,
    tree: FixedTree,
    root: u32,
    vectors: Vectors,
    segment: usize,
) -> Result<(), P::Error> {
    let me = place.relative(root);
    let parent = tree.parent(me, place.size).map(|parent| place.absolute(parent, root));
    let children: Vec<u32> = tree
        .children(me, place.size)
        .into_iter()
        .map(|child| place.absolute(child, root))
        .collect();
    up(plan, place, (parent, &children), vectors, segment)
}

/// Reduces what the children have, then what this rank has, and passes that on to the parent, or to the output.
fn up<P: Plan>(
    plan: &mut P,
    place: Place,
    (parent, children): (Option<u32>, &[u32]),
    vectors: Vectors,
    segment: usize,
) -> Result<(), P::Error> {
    let result = if parent.is_some() { vectors.place(1) } else { vectors.output };
    for (at, len) in segments(vectors.len(), segment) {
        let part = |span: Span| span.part(at, len);
        let mut sum = Accumulator::new(part(vectors.input), part(result), part(vectors.place(0)));
        for &child in children {
            let side = if child < place.rank { OperandSide::Left } else { OperandSide::Right };
            sum.absorb(plan, child, side)?;
        }
        match parent {
            Some(parent) => plan.send(parent, sum.value())?,
            None => sum.settle(plan, part(result), 0, len),
        }
    }
    plan.wait()
}

/// Reduces to the output of `root` over a binary tree whose root is the last rank: in the order of ranks. The last rank
/// passes the result on.
///
/// # Errors
/// Those of the plan.
pub fn in_order<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    vectors: Vectors,
) -> Result<(), P::Error> {
    // A range of ranks is led by its last one; what is left of it is cut at its middle.
    let (mut low, mut high, mut parent) = (0, place.size - 1, None);
    let middle = |low: u32, high: u32| low + (high - low).div_ceil(2);
    while high != place.rank {
        let cut = middle(low, high);
        parent = Some(high);
        if place.rank < cut {
            high = cut - 1;
        } else {
            (low, high) = (cut, high - 1);
        }
    }
    let cut = middle(low, high);
    let near = (cut < high).then(|| high - 1);
    let far = (low < cut).then(|| cut - 1);
    // Of a range of one rank nothing is left.
    let children: Vec<u32> = near.into_iter().chain(far).filter(|_| low < high).collect();
    let last = place.size - 1;
    if root == last {
        return up(plan, place, (parent, &children), vectors, usize::MAX);
    }
    // The last rank has no use for its output.
    let result = vectors.place(2);
    up(plan, place, (parent, &children), Vectors { output: result, ..vectors }, usize::MAX)?;
    plan.phase(1);
    if place.rank == last {
        plan.send(root, result)?;
    } else if place.rank == root {
        plan.recv(last, vectors.output)?;
    }
    plan.wait()
}
