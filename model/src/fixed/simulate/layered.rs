//! What algorithms of this project take in layers, on the nodes of the simulator. Roots are rank 0.

use super::{Ran, Simulator, even, scattered, vectors};
use crate::coll::forms;
use crate::coll::layers::{self, AmongNodes, Layered};
use crate::coll::nodes::Nodes;
use crate::coll::plan::{Space, Span};
use crate::coll::price::AllreduceForm;
use crate::fixed::FixedCall;

impl Simulator {
    /// The nodes, as layers want them.
    fn nodes(&self, ranks: u32) -> Nodes {
        Nodes::new((0..ranks).map(|rank| rank / self.network.each))
    }

    /// A barrier of this project's in layers.
    ///
    /// # Errors
    /// [`RunError`](crate::fennel::machine::RunError), as of all that follow.
    pub fn our_layered_barrier(&self, ranks: u32, how: forms::Barrier) -> Ran {
        let nodes = self.nodes(ranks);
        self.time(ranks, |plan, place| layers::barrier(plan, place, &nodes, how))
    }

    /// A broadcast of this project's in layers.
    pub fn our_layered_bcast(&self, call: FixedCall, how: Layered<forms::Bcast>) -> Ran {
        let (nodes, data) = (self.nodes(call.ranks), Span::output(call.bytes));
        self.time(call.ranks, |plan, place| layers::bcast(plan, place, &nodes, how, 0, data))
    }

    /// A reduction of this project's in layers.
    pub fn our_layered_reduce(&self, call: FixedCall, how: Layered<forms::Reduce>) -> Ran {
        let nodes = self.nodes(call.ranks);
        self.time(call.ranks, |plan, place| {
            layers::reduce(plan, place, &nodes, how, 0, vectors(call))
        })
    }

    /// An allreduce of this project's in layers.
    pub fn our_layered_allreduce(&self, call: FixedCall, how: &Layered<AllreduceForm>) -> Ran {
        let nodes = self.nodes(call.ranks);
        self.time(call.ranks, |plan, place| {
            let stages;
            let among = match &how.among {
                AllreduceForm::Form(form) => AmongNodes::Form(*form),
                AllreduceForm::Multiplying(schedule) => {
                    stages = schedule.stages(nodes.node(place.rank));
                    AmongNodes::Multiplying(&stages)
                }
            };
            let how = Layered { within: how.within, among };
            layers::allreduce(plan, place, &nodes, how, vectors(call))
        })
    }

    /// A gather of this project's in layers.
    pub fn our_layered_gather(&self, call: FixedCall, how: Layered<forms::Tree>) -> Ran {
        let nodes = self.nodes(call.ranks);
        let (own, output) = (Span::input(call.bytes), even(Space::Output, call.bytes));
        self.time(call.ranks, |plan, place| {
            layers::gather(plan, place, &nodes, how, 0, own, output)
        })
    }

    /// A scatter of this project's in layers.
    pub fn our_layered_scatter(&self, call: FixedCall, how: Layered<forms::Tree>) -> Ran {
        let nodes = self.nodes(call.ranks);
        let (input, own) = (even(Space::Input, call.bytes), Span::output(call.bytes));
        self.time(call.ranks, |plan, place| {
            layers::scatter(plan, place, &nodes, how, 0, input, own)
        })
    }

    /// A prefix reduction of this project's in layers.
    pub fn our_layered_scan(&self, call: FixedCall, how: Layered<forms::Scan>) -> Ran {
        let nodes = self.nodes(call.ranks);
        let vectors = (Span::input(call.bytes), Span::output(call.bytes));
        self.time(call.ranks, |plan, place| layers::scan(plan, place, &nodes, how, false, vectors))
    }

    /// An allgather of this project's in layers, by what allows blocks of different lengths among nodes.
    pub fn our_layered_allgather(&self, call: FixedCall, how: Layered<forms::Allgather>) -> Ran {
        let nodes = self.nodes(call.ranks);
        let (own, output) = (Span::input(call.bytes), even(Space::Output, call.bytes));
        self.time(call.ranks, |plan, place| {
            layers::allgather(plan, place, &nodes, how, own, output)
        })
    }

    /// An all-to-all of this project's in layers, with so many partners among nodes at a time.
    pub fn our_layered_alltoall(&self, call: FixedCall, partners: u32) -> Ran {
        let nodes = self.nodes(call.ranks);
        let (input, output) = (even(Space::Input, call.bytes), even(Space::Output, call.bytes));
        self.time(call.ranks, |plan, place| {
            layers::alltoall(plan, place, &nodes, partners, input, output)
        })
    }

    /// A reduction of this project's in layers of which each rank gets as much. What does not divide is left away.
    pub fn our_layered_reduce_scatter(
        &self,
        call: FixedCall,
        how: Layered<forms::ReduceScatter>,
    ) -> Ran {
        let (nodes, (blocks, own)) = (self.nodes(call.ranks), scattered(call));
        self.time(call.ranks, |plan, place| {
            layers::reduce_scatter(plan, place, &nodes, how, &blocks, own)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coll::forms::{Allgather, ReduceScatter, Scan, Tree};
    use crate::coll::price::Costs;

    /// Within nodes messages cost next to nothing, so layers take about what one rank of each node takes alone.
    #[test]
    fn layers_take_what_nodes_take_among_them() {
        // Receivers are busy alike within nodes and between them.
        let far = Costs { receive: 0.0, copy: 0.0, reduce: 0.0, ..Costs::TCP };
        let near = Costs { pipelining: 0.1, required: 0.1, byte: 0.0, ..far };
        let among = Simulator::new(far);
        let all = among.with_nodes(4, near);
        let call = |ranks, bytes| FixedCall { ranks, bytes, width: 8, commutative: true };
        let near = |layers: Ran, nodes: Ran, what: &str| {
            let (layers, nodes) = (layers.unwrap().nanoseconds, nodes.unwrap().nanoseconds);
            assert!((layers / nodes - 1.0).abs() < 0.05, "{what}: {layers} beside {nodes}");
        };
        let (ranks, nodes) = (call(24, 64), call(6, 4 * 64));
        let how = |among| Layered { within: Tree::Linear, among };
        near(
            all.our_layered_gather(ranks, how(Tree::Linear)),
            among.our_gather(nodes, Tree::Linear),
            "gather",
        );
        let tree = Layered { within: Tree::Linear, among: Tree::Binomial };
        near(
            all.our_layered_scatter(ranks, tree),
            among.our_scatter(nodes, Tree::Binomial),
            "scatter",
        );
        let ring = Layered { within: Tree::Linear, among: Allgather::Ring };
        near(
            all.our_layered_allgather(ranks, ring),
            among.our_allgather(nodes, Allgather::Ring),
            "allgather",
        );
        near(
            all.our_layered_alltoall(call(24, 8), 64),
            among.our_alltoall(call(6, 16 * 8), forms::Alltoall::Staged(64)),
            "alltoall",
        );
        let direct = Layered { within: Tree::Linear, among: ReduceScatter::Direct };
        near(
            all.our_layered_reduce_scatter(call(24, 24 * 64), direct),
            among.our_reduce_scatter(call(6, 24 * 64), ReduceScatter::Direct),
            "reduce_scatter",
        );
        let scan = Layered { within: Tree::Linear, among: Scan::Chain };
        near(
            all.our_layered_scan(call(24, 64), scan),
            among.our_scan(call(6, 64), Scan::Chain),
            "scan",
        );
    }
}
