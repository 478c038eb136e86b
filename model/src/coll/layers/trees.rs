//! Gathers and scatters in layers: the blocks of a node go between nodes in one message, to the root or from it.
//!
//! A first rank has the blocks of its node one after the other in the order of its ranks, and those of the nodes below it
//! in the tree behind them. The root puts them where their ranks have them. Nodes may be of different sizes, and their ranks
//! need not follow each other: blocks of a node that do go straight to their places.

use super::super::bcast::below;
use super::super::blocks::{Blocks, Even};
use super::super::forms::Tree;
use super::super::nodes::{Among, Nodes};
use super::super::plan::{Copies, Place, Plan, Span};
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
    /// blocks of the root's node are not among them, since they are not sent between nodes.
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
                let last = first + below(first, self.node.size);
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

    /// The other nodes, counted from the root's, each with where the root has its blocks in scratch.
    fn others(&self, offsets: &[usize]) -> impl Iterator<Item = (u32, Span)> {
        (1..self.node.size).map(move |relative| {
            let node = self.node.absolute(relative, self.root_node());
            (node, Span::scratch(offsets[relative as usize], self.of(node)))
        })
    }

    /// The blocks of a node that lie one after the other, that of its first rank in front.
    fn counted(&self, node: u32, at: Span) -> Counted {
        let first = self.nodes.index(leader(self.nodes, node, self.root));
        let size = self.nodes.members(node).len() as u32;
        Counted { at, block: self.block, first, size }
    }

    /// Copies the blocks of a node, which lie one after the other, to their places among those of all ranks.
    fn unpack<P: Plan>(&self, plan: &mut P, (node, from): (u32, Span), all: Even) {
        let members = self.nodes.members(node);
        copy_blocks(plan, &self.counted(node, from), &OfMembers(all, members), members.len());
    }

    /// Copies the blocks of a node from their places among those of all ranks, so that they lie one after the other.
    fn pack<P: Plan>(&self, plan: &mut P, all: Even, (node, into): (u32, Span)) {
        let members = self.nodes.members(node);
        copy_blocks(plan, &OfMembers(all, members), &self.counted(node, into), members.len());
    }

    /// The plan of the ranks of this node, from a phase on.
    fn within<'p, P: Plan>(&self, plan: &'p mut P, phase: u8) -> Among<'p, P, impl Fn(u32) -> u32> {
        let members = self.members;
        Among::new(plan, phase, move |index| members[index as usize])
    }

    /// The plan of the first ranks of all nodes, from a phase on.
    fn among<'p, P: Plan>(&self, plan: &'p mut P, phase: u8) -> Among<'p, P, impl Fn(u32) -> u32> {
        let (nodes, root) = (self.nodes, self.root);
        Among::new(plan, phase, move |node| leader(nodes, node, root))
    }
}

/// Blocks that lie one after the other, of so many ranks counted from one of them.
struct Counted {
    at: Span,
    block: usize,
    first: u32,
    size: u32,
}

impl Blocks for Counted {
    fn span(&self, rank: u32) -> Span {
        let place = Place { rank, size: self.size };
        self.at.part(place.relative(self.first) as usize * self.block, self.block)
    }
}

/// Copies the blocks of some ranks from where they lie to where they belong.
fn copy_blocks<P: Plan>(plan: &mut P, from: &impl Blocks, into: &impl Blocks, ranks: usize) {
    let mut copies = Copies::default();
    for rank in 0..ranks as u32 {
        copies.add(plan, from.span(rank), into.span(rank));
    }
    copies.finish(plan);
}

/// Bytes of scratch that [`gather()`] or [`scatter()`] needs on a rank.
pub fn scratch(nodes: &Nodes, how: Layered<Tree>, place: Place, root: u32, block: usize) -> usize {
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
        let mut within = around.within(plan, 0);
        match how.within {
            Tree::Linear if is_root => {
                up::linear(&mut within, inner, top, own, &OfMembers(output, members))?;
            }
            Tree::Linear => {
                up::linear(&mut within, inner, top, own, &around.counted(node.rank, of_node))?;
            }
            Tree::Binomial => {
                up::tree(&mut within, inner, top, own, of_node, |rank| rank as usize * block)?;
                if is_root {
                    around.unpack(&mut within, (node.rank, of_node), output);
                }
            }
        }
    }
    if is_root {
        return receive_from_nodes(plan, &around, how.among, output, place.size);
    }
    if !around.is_first() {
        return Ok(());
    }
    let mut among = around.among(plan, PHASES);
    match how.among {
        Tree::Linear => {
            among.send(around.root_node(), of_node)?;
            among.wait()
        }
        Tree::Binomial => {
            let offsets = around.offsets();
            let held = Span::scratch(0, around.below(how.among));
            let before = |node: u32| offsets[node as usize];
            up::tree(&mut among, node, around.root_node(), of_node, held, before)
        }
    }
}

/// The root's part among nodes: blocks come, and are put in their places where they do not come there.
fn receive_from_nodes<P: Plan>(
    plan: &mut P,
    around: &Around<'_>,
    how: Tree,
    output: Even,
    ranks: u32,
) -> Result<(), P::Error> {
    let node = around.node;
    let offsets = around.offsets();
    let mut among = around.among(plan, PHASES);
    match how {
        Tree::Linear => {
            for (node, packed) in around.others(&offsets) {
                among.recv(node, around.in_one_piece(node, output).unwrap_or(packed))?;
            }
            among.wait()?;
            for (node, packed) in around.others(&offsets) {
                if around.in_one_piece(node, output).is_none() {
                    around.unpack(&mut among, (node, packed), output);
                }
            }
        }
        Tree::Binomial => {
            let straight = around.others_in_one_piece(output, ranks);
            let held = straight.unwrap_or_else(|| Span::scratch(0, offsets[node.size as usize]));
            let (own, before) = (held.part(0, 0), |node: u32| offsets[node as usize]);
            up::tree(&mut among, node, around.root_node(), own, held, before)?;
            for packed in around.others(&offsets).filter(|_| straight.is_none()) {
                around.unpack(&mut among, packed, output);
            }
        }
    }
    Ok(())
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
        let mut among = around.among(plan, 0);
        let held = Span::scratch(0, around.below(how.among));
        let held = if held.len == block { own } else { held };
        match how.among {
            Tree::Linear => {
                among.recv(around.root_node(), held)?;
                among.wait()?;
            }
            Tree::Binomial => {
                let offsets = around.offsets();
                let before = |node: u32| offsets[node as usize];
                down::tree(&mut among, node, around.root_node(), held, before)?;
            }
        }
        of_node = held.part(0, of_node.len);
    }
    let mut within = around.within(plan, PHASES);
    match how.within {
        Tree::Linear if is_root => {
            down::linear(&mut within, inner, top, &OfMembers(input, members), own)
        }
        Tree::Linear => {
            down::linear(&mut within, inner, top, &around.counted(node.rank, of_node), own)
        }
        Tree::Binomial => {
            if is_root {
                around.pack(&mut within, input, (node.rank, of_node));
            }
            let relative = inner.relative(top);
            let leaf = relative != 0 && below(relative, inner.size) == 1;
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
    let node = around.node;
    let offsets = around.offsets();
    let mut among = around.among(plan, 0);
    match how {
        Tree::Linear => {
            for (node, packed) in around.others(&offsets) {
                let straight = around.in_one_piece(node, input);
                if straight.is_none() {
                    around.pack(&mut among, input, (node, packed));
                }
                among.send(node, straight.unwrap_or(packed))?;
            }
            Ok(())
        }
        Tree::Binomial => {
            let straight = around.others_in_one_piece(input, ranks);
            for packed in around.others(&offsets).filter(|_| straight.is_none()) {
                around.pack(&mut among, input, packed);
            }
            let held = straight.unwrap_or_else(|| Span::scratch(0, offsets[node.size as usize]));
            let before = |node: u32| offsets[node as usize];
            down::tree(&mut among, node, around.root_node(), held, before)
        }
    }
}
