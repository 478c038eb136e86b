//! All algorithms that a communicator can take with their prices, those in layers among them.
//!
//! Ranks of one node have other costs among them than those of different nodes. An algorithm on all ranks is priced as
//! if each of its messages left its node, unless all ranks are on one. An algorithm in layers is priced by layers.

use super::{
    Algorithm, AllreduceForm, Costs, Crew, JobCosts, Load, OpClass, Priced, ReductionOperands,
    Staged, barrier, bcast, cheapest_first, gather, multiplying, reduce, scan, scatter, slot_share,
};
use crate::coll::bcast::CHAIN_PIECE;
use crate::coll::forms::{Allgather, Alltoall, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree};
use crate::coll::layers::{Layered, bcast_within, reduce_within, scan_within};
use crate::coll::nodes::Nodes;
use crate::schedule::Schedule;

/// Algorithms with their prices, the cheapest first.
type Algorithms<F> = Vec<Priced<Algorithm<F>>>;

/// Nodes, as prices know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "three numbers")]
pub struct Layers {
    /// How many there are.
    pub nodes: u32,
    /// Ranks of the one that has the most.
    pub most: u32,
    /// Whether ranks of a node follow each other.
    pub consecutive: bool,
}

impl From<&Nodes> for Layers {
    fn from(nodes: &Nodes) -> Self {
        Self { nodes: nodes.count(), most: nodes.most(), consecutive: nodes.are_consecutive() }
    }
}

/// What prices are made of, for one communicator.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "three parts")]
pub struct Prices {
    /// Its ranks.
    pub crew: Crew,
    /// What messages cost.
    pub costs: JobCosts,
    /// Its nodes, where there are several; without them all ranks are on one.
    pub layers: Option<Layers>,
}

const TREES: [Tree; 2] = [Tree::Linear, Tree::Binomial];

impl Prices {
    /// What messages cost that go anywhere.
    pub fn anywhere(&self) -> &Costs {
        if self.layers.is_some() { &self.costs.far } else { &self.costs.near }
    }

    /// The nodes, where some have several ranks.
    fn parts(&self) -> Option<Layers> {
        self.layers.filter(|layers| layers.nodes > 1 && layers.most > 1)
    }

    /// The nodes, where an algorithm in layers may be asked for: some have several ranks, which follow each other if the
    /// algorithm needs that.
    pub fn layers_for(&self, in_order: bool) -> Option<Layers> {
        self.parts().filter(|layers| !in_order || layers.consecutive)
    }

    /// The price of a layer within nodes by the better kind of tree, whose load `load` gives for so many ranks.
    fn within(&self, most: u32, costs: &Costs, load: impl Fn(Tree, u32) -> Load) -> Priced<Tree> {
        let crew = Crew { ranks: most, share: self.crew.share };
        let of = |form| Priced::new(form, &load(form, most), crew, costs);
        let [linear, binomial] = TREES.map(of);
        if linear.time <= binomial.time { linear } else { binomial }
    }

    /// The time that a layer within nodes adds to a chain among them. The first piece takes its whole way; each further
    /// piece adds the time that ranks spend on its messages. `load` gives the load of a vector of some bytes, `costs` what
    /// it takes.
    fn in_pieces(
        &self,
        most: u32,
        (bytes, costs): (usize, &Costs),
        load: impl Fn(Tree, u32, usize) -> Load,
    ) -> Priced<Tree> {
        let pieces = bytes.div_ceil(CHAIN_PIECE).max(1);
        self.within(most, costs, |tree, ranks| {
            let piece = load(tree, ranks, bytes / pieces);
            piece.then(Load { hops: 0.0, ..piece }.times(pieces as f64 - 1.0))
        })
    }

    /// The same layer within nodes for each of the algorithms among them.
    fn each<F>(within: Priced<Tree>, among: Vec<Priced<F>>) -> Vec<(Priced<Tree>, Priced<F>)> {
        among.into_iter().map(|among| (within, among)).collect()
    }

    /// All algorithms, the cheapest first.
    fn all<F>(
        forms: Vec<Priced<F>>,
        layered: Option<Vec<(Priced<Tree>, Priced<F>)>>,
    ) -> Algorithms<F> {
        let mut all: Vec<_> = forms.into_iter().map(|one| one.map(Algorithm::Form)).collect();
        let layers = |(within, among): (Priced<Tree>, Priced<F>)| Priced {
            form: Algorithm::Layered(Layered { within: within.form, among: among.form }),
            time: within.time + among.time,
            waits: within.waits + among.waits,
        };
        all.extend(layered.into_iter().flatten().map(layers));
        cheapest_first(all)
    }

    /// One rank of each node.
    fn leaders(layers: Layers) -> Crew {
        Crew { ranks: layers.nodes, share: 1.0 }
    }

    /// All algorithms of barriers.
    pub fn barriers(&self) -> Algorithms<Barrier> {
        let layered = self.layers_for(false).map(|layers| {
            let near = &self.costs.near;
            let within = self.within(layers.most, near, |_, ranks| barrier(ranks, Barrier::Flat));
            Self::each(within, Self::leaders(layers).barriers(&self.costs.far))
        });
        Self::all(self.crew.barriers(self.anywhere()), layered)
    }

    /// All algorithms of broadcasts of `bytes`.
    pub fn bcasts(&self, bytes: usize) -> Algorithms<Bcast> {
        let layered = self.layers_for(false).map(|layers| {
            let load = |tree, ranks, bytes| bcast(ranks, bcast_within(tree), bytes);
            let near = &self.costs.near;
            let within = self.within(layers.most, near, |tree, ranks| load(tree, ranks, bytes));
            let in_pieces = self.in_pieces(layers.most, (bytes, near), load);
            let among = Self::leaders(layers).bcasts(&self.costs.far, bytes).into_iter();
            let of = |form: &Bcast| if *form == Bcast::Chain { in_pieces } else { within };
            among.map(|among| (of(&among.form), among)).collect()
        });
        Self::all(self.crew.bcasts(self.anywhere(), bytes), layered)
    }

    /// All algorithms of reductions of vectors of `bytes`.
    pub fn reduces(
        &self,
        bytes: usize,
        operands: impl Into<ReductionOperands>,
    ) -> Algorithms<Reduce> {
        let operands = operands.into();
        let near = &self.costs.near.combining(operands.class());
        let parts = self.layers_for(!operands.commutative());
        let layered = parts.map(|layers| {
            // Nothing is cut within nodes, so the width does not count.
            let load = |tree, ranks, bytes| reduce(ranks, reduce_within(tree), (bytes, 1));
            let within = self.within(layers.most, near, |tree, ranks| load(tree, ranks, bytes));
            let in_pieces = self.in_pieces(layers.most, (bytes, near), load);
            let among = Self::leaders(layers).reduces(&self.costs.far, bytes, operands);
            let of = |form: &Reduce| if *form == Reduce::Chain { in_pieces } else { within };
            among.into_iter().map(|among| (of(&among.form), among)).collect()
        });
        Self::all(self.crew.reduces(self.anywhere(), bytes, operands), layered)
    }

    /// All algorithms of allreduces of vectors of `bytes`.
    pub fn allreduces(
        &self,
        bytes: usize,
        operands: impl Into<ReductionOperands>,
    ) -> Algorithms<AllreduceForm> {
        let operands = operands.into();
        let parts = self.layers_for(!operands.commutative());
        let layered = parts.map(|layers| {
            let within = self.allreduce_within(layers, bytes, operands);
            Self::each(within, Self::leaders(layers).allreduces(&self.costs.far, bytes, operands))
        });
        Self::all(self.crew.allreduces(self.anywhere(), bytes, operands), layered)
    }

    fn allreduce_within(
        &self,
        layers: Layers,
        bytes: usize,
        operands: ReductionOperands,
    ) -> Priced<Tree> {
        let near = &self.costs.near.combining(operands.class());
        self.within(layers.most, near, |tree, ranks| {
            let reduce = reduce(ranks, reduce_within(tree), (bytes, 1));
            reduce.then(bcast(ranks, bcast_within(tree), bytes))
        })
    }

    /// Allreduces in layers by these schedules of as many ranks as there are nodes, which keep order if the operation needs
    /// that; nothing where there are no layers.
    pub fn schedules_in_layers(
        &self,
        schedules: impl IntoIterator<Item = Schedule>,
        bytes: usize,
        operands: impl Into<ReductionOperands>,
    ) -> Algorithms<AllreduceForm> {
        let operands = operands.into();
        let Some(layers) = self.layers_for(!operands.commutative()) else { return Vec::new() };
        let far = &self.costs.far.combining(operands.class());
        let priced = |schedule: Schedule| {
            let load = multiplying(&schedule, (bytes, operands.width()));
            let form = AllreduceForm::Multiplying(schedule);
            Priced::new(form, &load, Self::leaders(layers), far)
        };
        let among = schedules.into_iter().map(priced).collect();
        let within = self.allreduce_within(layers, bytes, operands);
        Self::all(Vec::new(), Some(Self::each(within, among)))
    }

    /// All algorithms of allgathers of blocks of `block` bytes.
    pub fn allgathers(&self, block: usize) -> Algorithms<Allgather> {
        let layered = self.layers_for(true).map(|layers| {
            let total = block.saturating_mul(self.crew.ranks as usize);
            let within = self.within(layers.most, &self.costs.near, |tree, ranks| {
                let gather = gather(ranks, Tree::Linear, block);
                gather.then(bcast(ranks, bcast_within(tree), total))
            });
            let among =
                Self::leaders(layers).allgathers(&self.costs.far, block * layers.most as usize);
            // Nodes may have blocks of different lengths together.
            Self::each(
                within,
                among.into_iter().filter(|one| one.form.takes_any_blocks()).collect(),
            )
        });
        Self::all(self.crew.allgathers(self.anywhere(), block), layered)
    }

    /// What shared memory takes for a collective, where ranks have some, are all on one node, it allows so many, and their
    /// elements fit in their part of a slot.
    pub fn staged(
        &self,
        what: Staged,
        bytes: usize,
        operands: impl Into<ReductionOperands>,
    ) -> Option<f64> {
        let operands = operands.into();
        let Self { crew, costs, layers } = self;
        let fits = !what.combines() || operands.width() <= slot_share(crew.ranks);
        let can =
            costs.near.mark > 0.0 && layers.is_none() && what.allows(crew.ranks, bytes) && fits;
        let costs = costs.near.combining(operands.class());
        can.then(|| what.load(*crew, bytes, operands).time(*crew, &costs))
    }

    /// Whether shared memory is chosen for a collective that takes `messages` by messages: where it is cheaper.
    pub fn chooses_staged(
        &self,
        what: Staged,
        bytes: usize,
        operands: impl Into<ReductionOperands>,
        messages: f64,
    ) -> bool {
        self.staged(what, bytes, operands).is_some_and(|time| time < messages)
    }

    /// The load of the longest blocks of nodes, and of a root that sorts those of all.
    fn trees(
        &self,
        block: usize,
        load: impl Fn(u32, Tree, usize) -> Load,
    ) -> Option<Vec<(Priced<Tree>, Priced<Tree>)>> {
        self.layers_for(false).map(|layers| {
            let within = self.within(layers.most, &self.costs.near, |tree, ranks| {
                let total = block as f64 * f64::from(self.crew.ranks);
                let sorted = if layers.consecutive { 0.0 } else { total };
                load(ranks, tree, block).copying(sorted)
            });
            let leaders = Self::leaders(layers);
            let of_node = block.saturating_mul(layers.most as usize);
            let among = TREES.map(|form| {
                Priced::new(form, &load(layers.nodes, form, of_node), leaders, &self.costs.far)
            });
            Self::each(within, among.into())
        })
    }

    /// All algorithms of gathers of blocks of `block` bytes.
    pub fn gathers(&self, block: usize) -> Algorithms<Tree> {
        Self::all(self.crew.gathers(self.anywhere(), block), self.trees(block, gather))
    }

    /// All algorithms of scatters of blocks of `block` bytes.
    pub fn scatters(&self, block: usize) -> Algorithms<Tree> {
        Self::all(self.crew.scatters(self.anywhere(), block), self.trees(block, scatter))
    }

    /// What gathers of blocks of different lengths go by, priced for blocks of one length. There is one algorithm: a rank
    /// between the root and others would pass on blocks whose lengths the root alone knows, and a plan states the lengths
    /// of all messages.
    pub fn gathervs(&self, block: usize) -> Priced<Tree> {
        let load = gather(self.crew.ranks, Tree::Linear, block);
        Priced::new(Tree::Linear, &load, self.crew, self.anywhere())
    }

    /// The same of scatters.
    pub fn scattervs(&self, block: usize) -> Priced<Tree> {
        let load = scatter(self.crew.ranks, Tree::Linear, block);
        Priced::new(Tree::Linear, &load, self.crew, self.anywhere())
    }

    /// All algorithms of allgathers of blocks of different lengths, as [`Crew::allgathervs`]. In layers the blocks of no
    /// node are longer together than if it had as many of the longest as it has ranks.
    pub fn allgathervs(&self, (total, longest): (f64, f64)) -> Algorithms<Allgather> {
        let layered = self.layers_for(true).map(|layers| {
            let of_node = total.min(longest * f64::from(layers.most));
            let within = self.within(layers.most, &self.costs.near, |tree, ranks| {
                let (others, block) = (f64::from(ranks - 1), of_node / f64::from(ranks));
                let gather = Load::fan_in(others, block);
                gather.then(bcast(ranks, bcast_within(tree), total as usize))
            });
            let among = Self::leaders(layers).allgathervs(&self.costs.far, (total, of_node));
            Self::each(within, among)
        });
        Self::all(self.crew.allgathervs(self.anywhere(), (total, longest)), layered)
    }

    /// As [`Crew::alltoallvs`].
    pub fn alltoallvs(&self) -> Vec<Priced<Alltoall>> {
        self.crew.alltoallvs(self.anywhere())
    }

    /// All algorithms of prefix reductions of vectors of `bytes`, as [`Crew::scans`].
    pub fn scans(&self, bytes: usize, exclusive: bool, class: OpClass) -> Algorithms<Scan> {
        let near = &self.costs.near.combining(class);
        let layered = self.layers_for(true).map(|layers| {
            let within = self.within(layers.most, near, |tree, ranks| {
                let inside = scan(ranks, scan_within(tree), exclusive, bytes);
                inside.then(bcast(ranks, bcast_within(tree), bytes).reducing(bytes as f64))
            });
            Self::each(within, Self::leaders(layers).scans(&self.costs.far, bytes, true, class))
        });
        Self::all(self.crew.scans(self.anywhere(), bytes, exclusive, class), layered)
    }

    /// All algorithms of all-to-alls of blocks of `block` bytes.
    pub fn alltoalls(&self, block: usize) -> Algorithms<Alltoall> {
        let layered = self.layers_for(false).map(|layers| {
            let of_rank = block.saturating_mul(self.crew.ranks as usize) as f64;
            let within = self.within(layers.most, &self.costs.near, |_, ranks| {
                let others = f64::from(ranks - 1);
                // The first rank sorts all blocks of its node twice.
                let sorted = 2.0 * f64::from(ranks) * of_rank;
                let there = Load::fan_in(others, of_rank).copying(sorted);
                there.then(Load::fan_out(others, of_rank))
            });
            let of_nodes = block.saturating_mul((layers.most as usize).saturating_pow(2));
            let among = Self::leaders(layers).alltoalls(&self.costs.far, of_nodes).into_iter();
            // Nodes may be of different sizes.
            Self::each(within, among.filter(|one| one.form.partners().is_some()).collect())
        });
        Self::all(self.crew.alltoalls(self.anywhere(), block), layered)
    }

    /// All algorithms of reductions whose result, `total` bytes, is cut among all.
    pub fn reduce_scatters(
        &self,
        total: usize,
        operands: impl Into<ReductionOperands>,
    ) -> Algorithms<ReduceScatter> {
        let operands = operands.into();
        let near = &self.costs.near.combining(operands.class());
        let layered = self.layers_for(true).map(|layers| {
            let within = self.within(layers.most, near, |tree, ranks| {
                let block = total as f64 / f64::from(self.crew.ranks);
                let reduce = reduce(ranks, reduce_within(tree), (total, 1));
                reduce.then(Load::fan_out(f64::from(ranks - 1), block))
            });
            Self::each(
                within,
                Self::leaders(layers).reduce_scatters(&self.costs.far, total, operands),
            )
        });
        Self::all(self.crew.reduce_scatters(self.anywhere(), total, operands), layered)
    }
}

#[cfg(test)]
mod tests;
