//! Gathers and scatters in layers: the blocks of a node go between nodes in one message, to the root or from it.
//!
//! A first rank has the blocks of its node one after the other in the order of its ranks, and those of the nodes below it
//! in the tree behind them. The root puts them where their ranks have them. Nodes may be of different sizes, and their ranks
//! need not follow each other: blocks of a node that do go straight to their places.

use super::super::bcast::reach;
use super::super::blocks::{Blocks, Even};
use super::super::forms::Tree;
use super::super::nodes::{Among, Nodes};
use super::super::plan::{Copies, Place, Plan, Space, Span};
use super::super::{gather as up, scatter as down};
use super::{Layered, OfMembers, PHASES, inside, leader};

/// What a rank knows of its node and the others.
struct Around<'a> {
    nodes: &'a Nodes,
    members: &'a [u32],
    /// The rank among those of its node.
    inner: Place,
    /// The number of the one that deals with other nodes.
    top: u32,
    /// The node among all.
    node: Place,
    root: u32,
    /// Bytes of a block.
    block: usize,
}

impl<'a> Around<'a> {
    fn new(nodes: &'a Nodes, place: Place, root: u32, block: usize) -> Self {
        let (members, inner) = inside(nodes, place.rank);
        let node = Place { rank: nodes.node(place.rank), size: nodes.count() };
        let top = nodes.index(leader(nodes, node.rank, root));
        Self { nodes, members, inner, top, node, root, block }
    }

    fn is_first(&self) -> bool {
        self.inner.rank == self.top
    }

    fn root_node(&self) -> u32 {
        self.nodes.node(self.root)
    }

    /// Bytes of the blocks of a node.
    fn of(&self, node: u32) -> usize {
        self.nodes.members(node).len() * self.block
    }

    /// Bytes of the blocks in front of those of each node, in the order of nodes counted from the root's, and of all. The
    /// blocks of the root's node are not among them: they go no way between nodes.
    fn offsets(&self) -> Vec<usize> {
        let others = (1..self.node.size).scan(0, |sum, relative| {
            *sum += self.of(self.node.absolute(relative, self.root_node()));
            Some(*sum)
        });
        [0, 0].into_iter().chain(others).collect()
    }

    /// Bytes of the blocks that a first rank passes on, its node's among them.
    fn below(&self, among: Tree) -> usize {
        match among {
            Tree::Linear => self.of(self.node.rank),
            Tree::Binomial => {
                let offsets = self.offsets();
                let first = self.node.relative(self.root_node());
                let last = first + reach(first, self.node.size).min(self.node.size - first);
                offsets[last as usize] - offsets[first as usize]
            }
        }
    }

    /// Bytes of scratch.
    fn scratch(&self, how: Layered<Tree>, ranks: u32) -> usize {
        if self.members[self.inner.rank as usize] == self.root {
            return ranks as usize * self.block;
        }
        match how.within {
            _ if self.is_first() => self.below(how.among),
            Tree::Linear => 0,
            Tree::Binomial => self.of(self.node.rank),
        }
    }

    /// Where the blocks of a node lie in a buffer with those of all ranks, if they are one piece of it.
    fn in_one_piece(&self, node: u32, all: Even) -> Option<Span> {
        let members = self.nodes.members(node);
        let (first, last) = (members[0], members[members.len() - 1]);
        let follow = (last - first) as usize + 1 == members.len();
        follow.then(|| Span::new(all.space, first as usize * self.block, self.of(node)))
    }

    /// Where the blocks of the other nodes lie there, if they are one piece in the order of nodes.
    fn others_in_one_piece(&self, all: Even, ranks: u32) -> Option<Span> {
        let own = self.of(self.root_node());
        let follow = self.root_node() == 0 && self.nodes.are_consecutive();
        follow.then(|| Span::new(all.space, own, ranks as usize * self.block - own))
    }
}

/// Blocks that lie one after the other, counted from a rank.
struct Counted {
    at: Span,
    block: usize,
    place: Place,
    first: u32,
}

impl Blocks for Counted {
    fn span(&self, rank: u32) -> Span {
        let place = Place { rank, size: self.place.size };
        self.at.part(place.relative(self.first) as usize * self.block, self.block)
    }
}

/// Bytes of scratch that [`gather()`] needs on a rank.
pub fn gather_scratch(
    nodes: &Nodes,
    how: Layered<Tree>,
    place: Place,
    root: u32,
    block: usize,
) -> usize {
    Around::new(nodes, place, root, block).scratch(how, place.size)
}

/// Brings blocks of the length of `own` to `output`, which counts at the root only. `own` may be the root's block there.
///
/// # Errors
/// Those of the plan.
pub fn gather<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    how: Layered<Tree>,
    root: u32,
    own: Span,
    output: Even,
) -> Result<(), P::Error> {
    let block = own.len;
    let around = Around::new(nodes, place, root, block);
    let Around { members, inner, top, node, .. } = around;
    let is_root = place.rank == root;
    let alone = inner.size == 1 && !is_root;
    let of_node = if alone { own } else { Span::scratch(0, around.of(node.rank)) };
    if !alone {
        let mut within = Among::new(plan, 0, |index| members[index as usize]);
        let counted = Counted { at: of_node, block, place: inner, first: top };
        match how.within {
            Tree::Linear if is_root => {
                up::linear(&mut within, inner, top, own, &OfMembers(output, members))?;
            }
            Tree::Linear => up::linear(&mut within, inner, top, own, &counted)?,
            Tree::Binomial => {
                up::tree(&mut within, inner, top, own, of_node, |rank| rank as usize * block)?;
                if is_root {
                    place_all(plan, &counted, &OfMembers(output, members), inner.size);
                }
            }
        }
    }
    if !around.is_first() {
        return Ok(());
    }
    let offsets = around.offsets();
    let root_node = around.root_node();
    let mut among = Among::new(plan, PHASES, |node| leader(nodes, node, root));
    if !is_root {
        return match how.among {
            Tree::Linear => {
                among.send(root_node, of_node)?;
                among.wait()
            }
            Tree::Binomial => {
                let held = Span::scratch(0, around.below(how.among));
                up::tree(&mut among, node, root_node, of_node, held, |rank| offsets[rank as usize])
            }
        };
    }
    let others = || (1..node.size).map(|relative| (relative, node.absolute(relative, root_node)));
    let packed = |relative: u32, node| Span::scratch(offsets[relative as usize], around.of(node));
    // The nodes whose blocks have to be put in their places.
    let straight = match how.among {
        Tree::Linear => {
            for (relative, node) in others() {
                let straight = around.in_one_piece(node, output);
                among.recv(node, straight.unwrap_or_else(|| packed(relative, node)))?;
            }
            among.wait()?;
            false
        }
        Tree::Binomial => {
            let straight = around.others_in_one_piece(output, place.size);
            let held = straight.unwrap_or_else(|| Span::scratch(0, offsets[node.size as usize]));
            let own = held.part(0, 0);
            up::tree(&mut among, node, root_node, own, held, |rank| offsets[rank as usize])?;
            straight.is_some()
        }
    };
    for (relative, node) in others().filter(|_| !straight) {
        if how.among == Tree::Linear && around.in_one_piece(node, output).is_some() {
            continue;
        }
        let members = nodes.members(node);
        let (size, at) = (members.len() as u32, packed(relative, node));
        let from = Counted { at, block, place: Place { rank: 0, size }, first: 0 };
        place_all(plan, &from, &OfMembers(output, members), size);
    }
    Ok(())
}

/// Copies the blocks of some ranks from where they lie to where they belong.
fn place_all<P: Plan>(plan: &mut P, from: &impl Blocks, into: &impl Blocks, ranks: u32) {
    let mut copies = Copies::default();
    for rank in 0..ranks {
        copies.add(plan, from.span(rank), into.span(rank));
    }
    copies.finish(plan);
}

/// Bytes of scratch that [`scatter()`] needs on a rank.
pub fn scatter_scratch(
    nodes: &Nodes,
    how: Layered<Tree>,
    place: Place,
    root: u32,
    block: usize,
) -> usize {
    Around::new(nodes, place, root, block).scratch(how, place.size)
}

/// Brings each rank its block, of the length of `own`, from `input`, which counts at the root only.
///
/// # Errors
/// Those of the plan.
pub fn scatter<P: Plan>(
    plan: &mut P,
    place: Place,
    nodes: &Nodes,
    how: Layered<Tree>,
    root: u32,
    input: Even,
    own: Span,
) -> Result<(), P::Error> {
    let block = own.len;
    let around = Around::new(nodes, place, root, block);
    let Around { members, inner, top, node, .. } = around;
    let is_root = place.rank == root;
    // The blocks of the own node where a first rank that is no root has them, and of the nodes below it.
    let mut of_node = Span::scratch(0, around.of(node.rank));
    if is_root {
        // Messages to other nodes set out first, since they are the longest under way.
        send_to_nodes(plan, &around, how.among, input, place.size)?;
        of_node.at = place.size as usize * block - of_node.len;
    } else if around.is_first() {
        let root_node = around.root_node();
        let mut among = Among::new(plan, 0, |node| leader(nodes, node, root));
        let held = Span::scratch(0, around.below(how.among));
        let held = if held.len == block { own } else { held };
        match how.among {
            Tree::Linear => {
                among.recv(root_node, held)?;
                among.wait()?;
            }
            Tree::Binomial => {
                let offsets = around.offsets();
                down::tree(&mut among, node, root_node, held, |rank| offsets[rank as usize])?;
            }
        }
        of_node = held.part(0, of_node.len);
    }
    let mut within = Among::new(plan, PHASES, |index| members[index as usize]);
    let counted = Counted { at: of_node, block, place: inner, first: top };
    match how.within {
        Tree::Linear if is_root => {
            down::linear(&mut within, inner, top, &OfMembers(input, members), own)
        }
        Tree::Linear => down::linear(&mut within, inner, top, &counted, own),
        Tree::Binomial => {
            if is_root {
                place_all(&mut within, &OfMembers(input, members), &counted, inner.size);
            }
            let relative = inner.relative(top);
            let leaf = relative != 0 && reach(relative, inner.size).min(inner.size - relative) == 1;
            let held = if leaf { own } else { of_node };
            down::tree(&mut within, inner, top, held, |rank| rank as usize * block)?;
            within.copy(held.part(0, block), own);
            within.wait()
        }
    }
}

/// The root's part among nodes: messages are started.
fn send_to_nodes<P: Plan>(
    plan: &mut P,
    around: &Around<'_>,
    how: Tree,
    input: Even,
    ranks: u32,
) -> Result<(), P::Error> {
    let &Around { nodes, node, root, block, .. } = around;
    let root_node = around.root_node();
    let offsets = around.offsets();
    let mut among = Among::new(plan, 0, |node| leader(nodes, node, root));
    let others = || (1..node.size).map(|relative| (relative, node.absolute(relative, root_node)));
    let pack = |plan: &mut Among<'_, P, _>, relative: u32, node| {
        let members = nodes.members(node);
        let (size, len) = (members.len() as u32, around.of(node));
        let at = Span::scratch(offsets[relative as usize], len);
        let into = Counted { at, block, place: Place { rank: 0, size }, first: 0 };
        place_all(plan, &OfMembers(input, members), &into, size);
        at
    };
    match how {
        Tree::Linear => {
            for (relative, node) in others() {
                let from = match around.in_one_piece(node, input) {
                    Some(straight) => straight,
                    None => pack(&mut among, relative, node),
                };
                among.send(node, from)?;
            }
            Ok(())
        }
        Tree::Binomial => {
            let held = around.others_in_one_piece(input, ranks).unwrap_or_else(|| {
                for (relative, node) in others() {
                    pack(&mut among, relative, node);
                }
                Span::new(Space::Scratch, 0, offsets[node.size as usize])
            });
            down::tree(&mut among, node, root_node, held, |rank| offsets[rank as usize])
        }
    }
}
