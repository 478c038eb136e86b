//! Broadcasts and reductions in layers that do not wait for each other: the first rank of each node stands in a chain of
//! nodes, and each piece of the vector goes into the node, or comes out of it, while others are on their way along the chain.
//!
//! ```text
//!   first rank of a node, broadcast:
//!   track 1   recv 0 ─ wait ─ send 0 to the next node and into this one ─ wait ─ recv 2 ...
//!   track 2            recv 1 ──────────── wait ─ send 1 to the next node and into this one ...
//! ```
//! All ranks together are one tree with the root on top, down which (a broadcast) or up which (a reduction) each piece goes
//! by itself. Contributions stand in no order of ranks.

use super::super::bcast::{CHAIN_PIECE, children, reach};
use super::super::chain::by_two_tracks;
use super::super::forms::Tree;
use super::super::nodes::Nodes;
use super::super::plan::{Place, Plan, Span, Vectors};
use super::{inside, leader};

/// The neighbours of a rank in the tree.
struct Neighbours {
    /// None at the root.
    above: Option<u32>,
    /// The first rank of the next node.
    next: Option<u32>,
    /// Ranks of the same node.
    members: Vec<u32>,
}

impl Neighbours {
    fn new(place: Place, nodes: &Nodes, within: Tree, root: u32) -> Self {
        let (members, own) = inside(nodes, place.rank);
        let node = Place { rank: nodes.node(place.rank), size: nodes.count() };
        let first = leader(nodes, node.rank, root);
        let top = nodes.index(first);
        let relative = own.relative(top);
        let member = |relative: u32| members[own.absolute(relative, top) as usize];
        let (above, next) = if relative > 0 {
            let above = match within {
                Tree::Linear => 0,
                Tree::Binomial => relative - reach(relative, own.size),
            };
            (Some(member(above)), None)
        } else {
            let from_root = node.relative(nodes.node(root));
            let leader_at =
                |relative| leader(nodes, node.absolute(relative, nodes.node(root)), root);
            (
                (from_root > 0).then(|| leader_at(from_root - 1)),
                (from_root + 1 < node.size).then(|| leader_at(from_root + 1)),
            )
        };
        let members = match within {
            Tree::Linear if relative > 0 => Vec::new(),
            Tree::Linear => (1..own.size).map(member).collect(),
            Tree::Binomial => {
                children(relative, reach(relative, own.size), own.size).map(member).collect()
            }
        };
        Self { above, next, members }
    }
}

/// Most ranks from which one receives in a reduction.
fn most_below(nodes: &Nodes, within: Tree) -> usize {
    let most = nodes.most();
    let members = match within {
        Tree::Linear => most.saturating_sub(1),
        Tree::Binomial => most.next_power_of_two().ilog2(),
    };
    1 + members as usize
}

/// Brings `data` from `root` to all.
///
/// # Errors
/// Those of the plan.
pub(super) fn bcast<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    within: Tree,
    (root, data): (u32, Span),
) -> Result<(), P::Error> {
    let Neighbours { above, next, members } = Neighbours::new(place, nodes, within, root);
    let pieces = data.len.div_ceil(CHAIN_PIECE);
    let piece = |number: usize| {
        let at = number * CHAIN_PIECE;
        data.part(at, CHAIN_PIECE.min(data.len - at))
    };
    let receive =
        above.map(|rank| move |plan: &mut P, number: usize| plan.recv(rank, piece(number)));
    by_two_tracks(plan, pieces, receive, |plan, number| {
        let mut below = next.iter().chain(&members);
        below.try_for_each(|&rank| plan.send(rank, piece(number)))
    })
}

/// Bytes of a piece of a reduction, whole elements, and how many there are of a vector of `len`.
fn cut((len, width): (usize, usize)) -> (usize, usize) {
    let piece = (CHAIN_PIECE / width.max(1)).max(1) * width.max(1);
    (piece, len.div_ceil(piece))
}

/// Bytes of scratch that [`reduce()`] needs for vectors of `len` bytes in elements of `width`.
pub(super) fn reduce_scratch(nodes: &Nodes, within: Tree, vector: (usize, usize)) -> usize {
    2 * most_below(nodes, within) * cut(vector).0.min(vector.0)
}

/// Brings the reduction of all inputs to the output at `root`, which elsewhere is not touched.
///
/// # Errors
/// Those of the plan.
pub(super) fn reduce<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    within: Tree,
    (root, vectors): (u32, Vectors),
) -> Result<(), P::Error> {
    let Neighbours { above, next, members } = Neighbours::new(place, nodes, within, root);
    let Vectors { input, output, width, scratch } = vectors;
    let (piece, pieces) = cut((vectors.len(), width));
    let part = |number: usize| {
        let at = number * piece;
        (at, piece.min(vectors.len() - at))
    };
    // The buffers of a track follow each other: one for each rank of the node below, and one for the next node.
    let buffer = |number: usize, from: usize| {
        let place = number % 2 * (members.len() + 1) + from;
        Span::scratch(scratch + place * piece.min(vectors.len()), part(number).1)
    };
    let receive = (!members.is_empty()).then_some(|plan: &mut P, number: usize| {
        let mut all = members.iter().enumerate();
        all.try_for_each(|(from, &rank)| plan.recv(rank, buffer(number, from)))
    });
    by_two_tracks(plan, pieces, receive, |plan, number| {
        let (at, len) = part(number);
        let mut sum = input.part(at, len);
        let mut add = |plan: &mut P, from| {
            plan.reduce(sum, buffer(number, from));
            sum = buffer(number, from);
        };
        (0..members.len()).for_each(|from| add(plan, from));
        // All nodes combine what is theirs at once, before the chain comes.
        if let Some(rank) = next {
            plan.recv(rank, buffer(number, members.len()))?;
            plan.wait()?;
            add(plan, members.len());
        }
        match above {
            Some(rank) => plan.send(rank, sum)?,
            None => plan.copy(sum, output.part(at, len)),
        }
        Ok(())
    })
}
