//! Broadcasts and reductions along two binary trees at once, in pieces: each tree carries one half of the vector, and a
//! rank that has children in one tree has none in the other. So every rank sends each byte once, while a single tree
//! would have half of the ranks send everything twice and the others nothing. (Sanders, Speck and Träff: "Two-tree
//! algorithms for full bandwidth broadcast, reduction and scan", 2009.)
//!
//! The trees are over all ranks but the root, which exchanges each half with the first rank of its tree. Places in a tree
//! are numbered from 1 in the order of its ranks, so that the place with the most trailing zeros is the first, and odd
//! ones have no children.
//!
//! In each step, a piece of either half goes from one level of its tree to the next. So what a rank waits for in a step
//! depends on the step before only, although its levels in the two trees differ, and both trees are always busy.

use super::nodes::Among;
use super::plan::{Place, Plan, Span, Vectors};

/// A rank's neighbours in a tree: ranks counted from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Neighbours {
    /// Ranks between it and the root, with itself.
    level: usize,
    parent: Option<u32>,
    children: [Option<u32>; 2],
}

/// The neighbours of a place in a tree of so many places.
fn around(place: u32, places: u32) -> (Option<u32>, [Option<u32>; 2]) {
    let width = 1 << place.trailing_zeros();
    // The next level is to the left or to the right of it; where that is beyond the last place, further up to the left.
    let above = (place - width) | (2 * width);
    let parent = match above <= places {
        true => Some(above),
        false => Some(place - width).filter(|&above| above > 0),
    };
    let lower = (width > 1).then(|| place - width / 2);
    let upper = std::iter::successors(Some(width / 2), |step| Some(step / 2))
        .take_while(|&step| step > 0)
        .map(|step| place + step)
        .find(|&child| child <= places);
    (parent, [lower, upper])
}

impl Neighbours {
    /// Of a rank of `size`, counted from the root, in one of the two trees.
    fn of(rank: u32, size: u32, tree: usize) -> Self {
        let places = size - 1;
        // The second tree is the first one from the other end, or moved by one, so that odd places become even.
        let rank_of = |place: u32| match (tree, places % 2) {
            (0, _) => place,
            (_, 0) => places + 1 - place,
            _ => place % places + 1,
        };
        if rank == 0 {
            let first = (places > 0).then(|| rank_of(1 << places.ilog2()));
            return Self { level: 0, parent: None, children: [first, None] };
        }
        let place = match (tree, places % 2) {
            (0, _) => rank,
            (_, 0) => places + 1 - rank,
            _ => (rank + places - 2) % places + 1,
        };
        let (parent, children) = around(place, places);
        let above = |place: &u32| around(*place, places).0;
        Self {
            level: std::iter::successors(Some(place), above).count(),
            // The root is above the first place.
            parent: Some(parent.map_or(0, rank_of)),
            children: children.map(|child| child.map(rank_of)),
        }
    }

    fn children(&self) -> impl Iterator<Item = u32> {
        self.children.into_iter().flatten()
    }
}

/// The half of a vector that a tree carries, in pieces of whole elements.
#[derive(Clone, Copy, Debug)]
struct Half {
    at: usize,
    len: usize,
    piece: usize,
}

impl Half {
    fn of((len, width): (usize, usize), tree: usize, piece: usize) -> Self {
        let width = width.max(1);
        let first = (len / width).div_ceil(2) * width;
        let (at, len) = if tree == 0 { (0, first) } else { (first, len - first) };
        Self { at, len, piece: (piece / width).max(1) * width }
    }

    fn pieces(self) -> usize {
        self.len.div_ceil(self.piece)
    }

    /// The piece that is so many steps behind, if there is one.
    fn number(self, step: usize, behind: usize) -> Option<usize> {
        step.checked_sub(behind).filter(|number| *number < self.pieces())
    }

    /// Where a piece is in the vector, and its length.
    fn piece(self, number: usize) -> (usize, usize) {
        let at = number * self.piece;
        (self.at + at, self.piece.min(self.len - at))
    }
}

/// A rank of `size`, counted from the root, in both trees, with what each carries of a vector of elements of a width.
fn both(rank: u32, size: u32, vector: (usize, usize), piece: usize) -> [(Neighbours, Half); 2] {
    [0, 1].map(|tree| (Neighbours::of(rank, size, tree), Half::of(vector, tree, piece)))
}

/// Levels of a tree of `size` ranks below the root.
const fn levels(size: u32) -> usize {
    if size < 2 { 0 } else { (size - 1).ilog2() as usize + 1 }
}

/// Steps until the last piece has gone through both trees.
fn steps(size: u32, trees: &[(Neighbours, Half); 2]) -> usize {
    trees[0].1.pieces() + levels(size)
}

/// Brings `data` from `root` to all, in pieces of so many bytes.
///
/// # Errors
/// Those of the plan.
pub fn bcast<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    data: Span,
    piece: usize,
) -> Result<(), P::Error> {
    let plan = &mut Among::new(plan, 0, |relative| place.absolute(relative, root));
    let rank = place.relative(root);
    let trees = both(rank, place.size, (data.len, 1), piece);
    let part = |half: Half, number| {
        let (at, len) = half.piece(number);
        data.part(at, len)
    };
    for step in 0..steps(place.size, &trees) {
        for (near, half) in &trees {
            // A piece comes in the step of this rank's level, and goes on in the next one.
            let coming = half.number(step, near.level);
            let going = half.number(step, near.level + 1);
            if let Some((parent, number)) = near.parent.zip(coming) {
                plan.recv(parent, part(*half, number))?;
            }
            for child in near.children() {
                if let Some(number) = going {
                    plan.send(child, part(*half, number))?;
                }
            }
        }
        plan.wait()?;
    }
    Ok(())
}

/// Bytes of scratch that [`reduce`] needs for vectors of `len` bytes in elements of `width`.
pub fn scratch((len, width): (usize, usize), piece: usize) -> usize {
    let half = Half::of((len, width), 0, piece);
    // Of each tree, for each child, two in turn.
    8 * half.piece.min(half.len)
}

/// Reduces to the output of `root`, in pieces of so many bytes. For commutative operations.
///
/// # Errors
/// Those of the plan.
pub fn reduce<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    vectors: Vectors,
    piece: usize,
) -> Result<(), P::Error> {
    let Vectors { input, output, width, scratch } = vectors;
    let plan = &mut Among::new(plan, 0, |relative| place.absolute(relative, root));
    let rank = place.relative(root);
    let trees = both(rank, place.size, (vectors.len(), width), piece);
    let longest = trees[0].1.piece.min(trees[0].1.len);
    // Where a piece of a child arrives. What comes to the root arrives at its place, unless the root's input is there.
    let arrival = |tree: usize, half: Half, number: usize, child: usize| {
        let (at, len) = half.piece(number);
        if rank == 0 && input != output {
            return output.part(at, len);
        }
        let index = 4 * tree + 2 * (number % 2) + child;
        Span::scratch(scratch + index * longest, len)
    };
    let levels = levels(place.size);
    for step in 0..steps(place.size, &trees) {
        for (tree, (near, half)) in trees.iter().enumerate() {
            // What came in the step before is combined and goes on.
            let below = levels - near.level;
            if let Some(number) = half.number(step, below) {
                let (at, len) = half.piece(number);
                let mut sum = input.part(at, len);
                for child in 0..near.children().count() {
                    let coming = arrival(tree, *half, number, child);
                    plan.reduce(sum, coming);
                    sum = coming;
                }
                match near.parent {
                    Some(parent) => plan.send(parent, sum)?,
                    None => plan.copy(sum, output.part(at, len)),
                }
            }
            if let Some(number) = half.number(step + 1, below) {
                for (index, child) in near.children().enumerate() {
                    plan.recv(child, arrival(tree, *half, number, index))?;
                }
            }
        }
        plan.wait()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_one_parent_in_each_tree_and_children_in_one() {
        for size in 2..=513 {
            for tree in [0, 1] {
                let mut parents = vec![None; size as usize];
                for rank in 0..size {
                    for child in Neighbours::of(rank, size, tree).children() {
                        assert_eq!(parents[child as usize].replace(rank), None, "{size} {child}");
                    }
                }
                for rank in 0..size {
                    let near = Neighbours::of(rank, size, tree);
                    assert_eq!(near.parent, parents[rank as usize], "{size} {rank}");
                    let other = Neighbours::of(rank, size, 1 - tree);
                    let both = near.children().count() > 0 && other.children().count() > 0;
                    assert!(rank == 0 || !both, "{size} {rank}");
                }
            }
        }
    }
}
