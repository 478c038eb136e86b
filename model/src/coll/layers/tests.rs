//! Every algorithm in layers is proven on nodes of many shapes: those with names here, in all variants on up to 40 ranks;
//! what prices offer in [`offered`]. Blocks of different lengths are in [`uneven`].

mod offered;
mod uneven;

use super::super::forms::{
    Allgather, Allreduce, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree,
};
use super::super::nodes::Nodes;
use super::super::prove::{PlanProof, layers as prove};
use super::super::reduce_scatter::allows;
use super::super::verify::PlanFlaw;
use super::Layered;
use crate::choice::{FactorOrder, choose};

/// The nodes of all ranks, for up to 40 of them: of one size, of one size but for the last, of many sizes, in turn, and
/// in no order.
fn shapes() -> Vec<Vec<u32>> {
    let mut shapes = vec![vec![0], vec![0; 5], (0..5).collect(), vec![9, 9, 2, 2, 2, 7]];
    for (size, each) in [(4, 2), (6, 3), (8, 4), (9, 2), (12, 4), (16, 4), (23, 5), (40, 8)] {
        shapes.push((0..size).map(|rank| rank / each).collect());
        shapes.push((0..size).map(|rank| rank % (size / each)).collect());
        shapes.push((0..size).map(|rank| (rank * rank + 3 * rank) % 7 % each).collect());
        shapes.push((0..size).map(|rank: u32| (rank + 1).ilog2()).collect());
    }
    shapes
}

const WITHIN: [Tree; 2] = [Tree::Linear, Tree::Binomial];

#[track_caller]
fn holds(
    proof: Result<PlanProof, PlanFlaw>,
    shape: &[u32],
    what: &dyn std::fmt::Debug,
) -> PlanProof {
    proof.unwrap_or_else(|flaw| {
        let (size, first) = (shape.len(), &shape[..shape.len().min(100)]);
        panic!("{what:?} of {size} ranks on nodes {first:?}: {flaw}")
    })
}

fn roots(size: u32) -> [u32; 4] {
    [0, size / 3, size / 2, size - 1]
}

#[test]
fn barriers() {
    for shape in shapes() {
        let (nodes, size) = (Nodes::new(shape.iter().copied()), shape.len() as u32);
        for how in [Barrier::Dissemination, Barrier::Flat] {
            holds(prove::barrier(&nodes, size, how), &shape, &how);
        }
    }
}

#[test]
fn broadcasts_cross_nodes_once_for_each() {
    for shape in shapes() {
        let (nodes, size) = (Nodes::new(shape.iter().copied()), shape.len() as u32);
        let all = [Bcast::Flat, Bcast::Binomial, Bcast::ScatterAllgather, Bcast::Chain];
        for (among, within) in
            all.into_iter().flat_map(|among| WITHIN.map(|within| (among, within)))
        {
            let lengths = [0, 100, 700 << 10];
            for (root, len) in
                roots(size).into_iter().flat_map(|root| lengths.map(|len| (root, len)))
            {
                let how = Layered { within, among };
                let proof = holds(prove::bcast(&nodes, size, how, root, len), &shape, &(how, root));
                if among == Bcast::Flat {
                    assert_eq!(proof.messages(), u64::from(size - 1));
                }
            }
        }
    }
}

#[test]
fn reductions() {
    for shape in shapes() {
        let (nodes, size) = (Nodes::new(shape.iter().copied()), shape.len() as u32);
        let all = [Reduce::Flat, Reduce::Binomial, Reduce::Ordered, Reduce::Halving, Reduce::Chain];
        for (among, within) in
            all.into_iter().flat_map(|among| WITHIN.map(|within| (among, within)))
        {
            let how = Layered { within, among };
            for root in roots(size) {
                for vector in [(0, 1), (12, 3), (200, 1), (700 << 10, 40)] {
                    let proof = prove::reduce(&nodes, size, how, root, vector);
                    holds(proof, &shape, &(how, root, vector));
                }
            }
        }
    }
}

#[test]
fn allreductions() {
    for shape in shapes() {
        let (nodes, size) = (Nodes::new(shape.iter().copied()), shape.len() as u32);
        let all =
            [Allreduce::Doubling, Allreduce::Halving, Allreduce::Flat, Allreduce::ReduceBcast];
        for (among, within) in
            all.into_iter().flat_map(|among| WITHIN.map(|within| (among, within)))
        {
            let how = Layered { within, among };
            for (vector, in_place) in [((0, 1), false), ((12, 3), true), ((200, 1), false)] {
                let proof = prove::allreduce(&nodes, size, how, vector, in_place);
                holds(proof, &shape, &(how, vector, in_place));
            }
        }
        for (ratio, within) in [(0.0, Tree::Linear), (3.0, Tree::Binomial), (50.0, Tree::Linear)] {
            let schedule = choose(nodes.count(), ratio, FactorOrder::ByCost);
            let proof = prove::multiplying(&nodes, size, (within, &schedule), 40);
            holds(proof, &shape, &(within, &schedule));
        }
    }
}

#[test]
fn allgathers_of_consecutive_nodes() {
    for shape in shapes() {
        let (nodes, size) = (Nodes::new(shape.iter().copied()), shape.len() as u32);
        if !nodes.are_consecutive() {
            continue;
        }
        let all = [Allgather::Bruck, Allgather::Ring, Allgather::Direct];
        for (among, within) in
            all.into_iter().flat_map(|among| WITHIN.map(|within| (among, within)))
        {
            let how = Layered { within, among };
            for (len, in_place) in [(0, false), (9, false), (9, true)] {
                let proof = prove::allgather(&nodes, size, how, len, in_place);
                holds(proof, &shape, &(how, len, in_place));
            }
        }
    }
}

#[test]
fn scattered_reductions_of_consecutive_nodes() {
    for shape in shapes() {
        let (nodes, size) = (Nodes::new(shape.iter().copied()), shape.len() as u32);
        if !nodes.are_consecutive() {
            continue;
        }
        let all = [
            ReduceScatter::ViaRoot,
            ReduceScatter::Pairwise,
            ReduceScatter::Direct,
            ReduceScatter::Halving,
            ReduceScatter::Multiplying(2),
            ReduceScatter::Ordered(2),
        ];
        let all = all.into_iter().filter(|&how| allows(how, nodes.count(), true));
        let lengths: [&dyn Fn(u32) -> usize; 3] = [&|_| 3, &|rank| (rank % 3) as usize, &|_| 0];
        for (among, within) in all.flat_map(|among| WITHIN.map(|within| (among, within))) {
            let how = Layered { within, among };
            for length in lengths {
                let mut offsets = vec![0];
                (0..size).for_each(|rank| offsets.push(offsets[rank as usize] + length(rank)));
                holds(prove::reduce_scatter(&nodes, how, &offsets), &shape, &how);
            }
        }
    }
}

#[test]
fn blocks_go_between_nodes_once() {
    for shape in shapes() {
        let (nodes, size) = (Nodes::new(shape.iter().copied()), shape.len() as u32);
        let trees = WITHIN.into_iter().flat_map(|among| WITHIN.map(|within| (among, within)));
        for (how, len, in_place) in trees.flat_map(|(among, within)| {
            let how = Layered { within, among };
            [(how, 0, false), (how, 5, false), (how, 5, true)]
        }) {
            for root in 0..size {
                let what = (how, root, len, in_place);
                let proof = prove::gather(&nodes, size, how, root, len, in_place);
                let messages = holds(proof, &shape, &what).messages();
                assert_eq!(messages, u64::from(size - 1), "{what:?} on {shape:?}");
                // A tree within the root's node writes the root's block.
                if in_place && how.within == Tree::Binomial {
                    continue;
                }
                let proof = prove::scatter(&nodes, size, how, root, len, in_place);
                let messages = holds(proof, &shape, &what).messages();
                assert_eq!(messages, u64::from(size - 1), "{what:?} on {shape:?}");
            }
        }
    }
}

#[test]
fn blocks_for_all_are_exchanged_between_nodes() {
    for shape in shapes() {
        let (nodes, size) = (Nodes::new(shape.iter().copied()), shape.len() as u32);
        let (ranks, count) = (u64::from(size), u64::from(nodes.count()));
        for (partners, len) in [(1, 3), (2, 1), (64, 3), (64, 0)] {
            let proof = prove::alltoall(&nodes, size, partners, len);
            let proof = holds(proof, &shape, &(partners, len));
            assert_eq!(proof.messages(), 2 * (ranks - count) + count * (count - 1));
        }
    }
}

#[test]
fn prefix_reductions_of_consecutive_nodes() {
    for shape in shapes() {
        let (nodes, size) = (Nodes::new(shape.iter().copied()), shape.len() as u32);
        if !nodes.are_consecutive() {
            continue;
        }
        for among in [Scan::Doubling, Scan::Chain] {
            for within in WITHIN {
                let how = Layered { within, among };
                for (exclusive, len) in [(false, 0), (false, 9), (true, 0), (true, 9)] {
                    let proof = prove::scan(&nodes, size, how, exclusive, len);
                    holds(proof, &shape, &(how, exclusive, len));
                }
            }
        }
    }
}

/// Of the same algorithms, each on its layer alone, the first would have to end before the second begins.
#[test]
fn pieces_of_a_chain_take_less_time_than_layers_one_by_one() {
    use crate::coll::price::Costs;
    use crate::fixed::FixedCall;
    use crate::fixed::simulate::{Simulator, Time};
    let time = |ran: Result<Time, _>| ran.expect("a plan that ends").nanoseconds;
    let bytes = 4 << 20;
    let (nodes, each) = (8, 8);
    // A byte takes so long between nodes that both layers have something to do.
    let between = Costs { required: 3000.0, receive: 3000.0, byte: 0.6, ..Costs::TCP };
    let leaders = Simulator::new(between);
    let on = leaders.with_nodes(each, Costs::SHARED_MEMORY);
    let inside = Simulator::new(between).with_nodes(each, Costs::SHARED_MEMORY);
    let call = |ranks| FixedCall::doubles(ranks, bytes);
    for tree in WITHIN {
        let how = Layered { within: tree, among: Bcast::Chain };
        let both = time(on.our_layered_bcast(call(nodes * each), how));
        let among = time(leaders.our_bcast(call(nodes), Bcast::Chain));
        let within = time(inside.our_bcast(call(each), super::bcast_within(tree)));
        assert!(both < among + within, "bcast {tree:?}: {both} beside {among} and {within}");
        let how = Layered { within: tree, among: Reduce::Chain };
        let both = time(on.our_layered_reduce(call(nodes * each), how));
        let among = time(leaders.our_reduce(call(nodes), Reduce::Chain));
        let within = time(inside.our_reduce(call(each), super::reduce_within(tree)));
        assert!(both < among + within, "reduce {tree:?}: {both} beside {among} and {within}");
    }
}
