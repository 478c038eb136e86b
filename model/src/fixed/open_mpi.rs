//! What Open MPI 5.0.10 chooses by default: its component *tuned* on ranks of one node, or that have nodes of their own,
//! and *HAN* on nodes with several ranks, for most collectives.
//!
//! Tuned reads a number from a table, and the algorithm that the number stands for may itself fall back to a simpler one.

mod tables;

use super::FixedCall;
use super::forms::{
    FixedAllgather, FixedAllreduce, FixedAlltoall, FixedBarrier, FixedBcast, FixedReduce,
    FixedReduceScatter, FixedTree, Gather, Scatter,
};
use tables::find;

/// For vectors.
pub fn allreduce(call: FixedCall) -> FixedAllreduce {
    let table = if call.commutative { tables::ALLREDUCE } else { tables::ALLREDUCE_IN_ORDER };
    match find(table, call.ranks, call.bytes) {
        2 => FixedAllreduce::ReduceBcast(reduce(call), bcast(call)),
        4 | 5 if call.count() >= call.ranks as usize => FixedAllreduce::Ring,
        3..=5 => FixedAllreduce::Doubling,
        6 if call.commutative && call.cuttable() => FixedAllreduce::SharedHalving,
        _ => FixedAllreduce::Linear,
    }
}

/// For one span.
pub fn bcast(call: FixedCall) -> FixedBcast {
    match find(tables::BCAST, call.ranks, call.bytes) {
        2 | 3 => FixedBcast::Tree(FixedTree::Chain),
        4 => FixedBcast::SplitBinary,
        5 => FixedBcast::Tree(FixedTree::Binary),
        6 => FixedBcast::Tree(FixedTree::Highest),
        7 => FixedBcast::Tree(FixedTree::Nomial(4)),
        8 if call.count() >= call.ranks as usize => FixedBcast::ScatterDoubling,
        _ => FixedBcast::Linear,
    }
}

/// For vectors.
pub fn reduce(call: FixedCall) -> FixedReduce {
    let table = if call.commutative { tables::REDUCE } else { tables::REDUCE_IN_ORDER };
    match find(table, call.ranks, call.bytes) {
        2 | 3 => FixedReduce::Tree(FixedTree::Chain),
        4 => FixedReduce::Tree(FixedTree::Binary),
        5 => FixedReduce::Binomial,
        6 => FixedReduce::InOrder,
        7 if call.commutative && call.cuttable() => FixedReduce::SharedHalving,
        _ => FixedReduce::Linear,
    }
}

/// For blocks.
pub fn allgather(call: FixedCall) -> FixedAllgather {
    match find(tables::ALLGATHER, call.ranks, call.bytes) {
        3 if call.ranks.is_power_of_two() => FixedAllgather::Doubling,
        2 | 3 => FixedAllgather::Bruck,
        5 if call.ranks.is_multiple_of(2) => FixedAllgather::Neighbours,
        // One exchange of two ranks is a ring too.
        _ => FixedAllgather::Ring,
    }
}

/// For blocks, not in place.
pub fn alltoall(call: FixedCall) -> FixedAlltoall {
    match find(tables::ALLTOALL, call.ranks, call.bytes) {
        1 | 4 => FixedAlltoall::Staged(call.ranks),
        3 => FixedAlltoall::Bruck,
        // One exchange of two ranks is a pairwise one too.
        _ => FixedAlltoall::Staged(1),
    }
}

/// For vectors that are cut into blocks of any lengths.
pub fn reduce_scatter(call: FixedCall) -> FixedReduceScatter {
    match find(tables::REDUCE_SCATTER, call.ranks, call.bytes) {
        _ if !call.commutative => FixedReduceScatter::ViaRoot(reduce(call)),
        2 => FixedReduceScatter::Halving,
        3 => FixedReduceScatter::Ring,
        4 => FixedReduceScatter::Butterfly,
        _ => FixedReduceScatter::ViaRoot(reduce(call)),
    }
}

/// For vectors that are cut into blocks of one length. As everywhere, a call's bytes are those of the vector.
pub fn reduce_scatter_block(call: FixedCall) -> FixedReduceScatter {
    let block = call.bytes / call.ranks as usize;
    match find(tables::REDUCE_SCATTER_BLOCK, call.ranks, block) {
        _ if !call.commutative => FixedReduceScatter::ViaRoot(reduce(call)),
        2 => FixedReduceScatter::Doubling,
        3 => FixedReduceScatter::Halving,
        4 => FixedReduceScatter::Butterfly,
        _ => FixedReduceScatter::ViaRoot(reduce(call)),
    }
}

/// For a barrier.
pub fn barrier(ranks: u32) -> FixedBarrier {
    match find(tables::BARRIER, ranks, 0) {
        3 => FixedBarrier::Doubling,
        4 => FixedBarrier::Dissemination,
        6 => FixedBarrier::Tree,
        _ => FixedBarrier::Linear,
    }
}

/// For blocks.
pub fn gather(call: FixedCall) -> Gather {
    match find(tables::GATHER, call.ranks, call.bytes) {
        2 => Gather::Binomial,
        3 => Gather::Asked,
        _ => Gather::Linear,
    }
}

/// For blocks.
pub fn scatter(call: FixedCall) -> Scatter {
    match find(tables::SCATTER, call.ranks, call.bytes) {
        2 => Scatter::Binomial,
        _ => Scatter::Linear,
    }
}

/// Bytes of a segment in which HAN works on vectors.
pub const SEGMENT: usize = 64 << 10;

/// Whether HAN answers: ranks are on several nodes, as many on each, and not one on each.
pub const fn han(call: FixedCall, nodes: u32) -> bool {
    nodes > 1 && nodes < call.ranks && call.ranks.is_multiple_of(nodes)
}

/// How HAN broadcasts a segment across nodes while another one is under way inside of them.
pub const fn han_bcast(nodes: u32) -> FixedBcast {
    if nodes <= 4 { FixedBcast::Linear } else { FixedBcast::Binomial }
}

/// How it reduces one. `call` is that of a segment on the nodes.
pub const fn han_reduce(call: FixedCall) -> FixedReduce {
    if call.commutative && call.ranks > 2 && call.cuttable() {
        FixedReduce::SharedHalving
    } else if call.ranks > 4 || call.bytes < SEGMENT {
        FixedReduce::Binomial
    } else {
        FixedReduce::Tree(FixedTree::Chain)
    }
}
