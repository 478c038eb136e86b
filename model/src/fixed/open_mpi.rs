//! What Open MPI 5.0.10 chooses by default: its component *tuned* on ranks of one node, or that have nodes of their own,
//! and *HAN* on nodes with several ranks, for most collectives.
//!
//! Tuned looks up a number, and the algorithm that the number stands for may itself fall back to a simpler one.

mod tables;

use super::FixedCall;
use super::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Gather, Reduce, ReduceScatter, Scatter, Tree,
};
use tables::find;

/// For vectors.
pub fn allreduce(call: FixedCall) -> Allreduce {
    let table = if call.commutative { tables::ALLREDUCE } else { tables::ALLREDUCE_IN_ORDER };
    match find(table, call.ranks, call.bytes) {
        2 => Allreduce::ReduceBcast(reduce(call), bcast(call)),
        4 | 5 if call.count() >= call.ranks as usize => Allreduce::Ring,
        3..=5 => Allreduce::Doubling,
        6 if call.commutative && call.cuttable() => Allreduce::SharedHalving,
        _ => Allreduce::Linear,
    }
}

/// For one span.
pub fn bcast(call: FixedCall) -> Bcast {
    match find(tables::BCAST, call.ranks, call.bytes) {
        2 | 3 => Bcast::Tree(Tree::Chain),
        4 => Bcast::SplitBinary,
        5 => Bcast::Tree(Tree::Binary),
        6 => Bcast::Tree(Tree::Highest),
        7 => Bcast::Tree(Tree::Nomial(4)),
        8 if call.count() >= call.ranks as usize => Bcast::ScatterDoubling,
        _ => Bcast::Linear,
    }
}

/// For vectors.
pub fn reduce(call: FixedCall) -> Reduce {
    let table = if call.commutative { tables::REDUCE } else { tables::REDUCE_IN_ORDER };
    match find(table, call.ranks, call.bytes) {
        2 | 3 => Reduce::Tree(Tree::Chain),
        4 => Reduce::Tree(Tree::Binary),
        5 => Reduce::Binomial,
        6 => Reduce::InOrder,
        7 if call.commutative && call.cuttable() => Reduce::SharedHalving,
        _ => Reduce::Linear,
    }
}

/// For blocks.
pub fn allgather(call: FixedCall) -> Allgather {
    match find(tables::ALLGATHER, call.ranks, call.bytes) {
        3 if call.ranks.is_power_of_two() => Allgather::Doubling,
        2 | 3 => Allgather::Bruck,
        5 if call.ranks.is_multiple_of(2) => Allgather::Neighbours,
        // One exchange of two ranks is a ring too.
        _ => Allgather::Ring,
    }
}

/// For blocks, not in place.
pub fn alltoall(call: FixedCall) -> Alltoall {
    match find(tables::ALLTOALL, call.ranks, call.bytes) {
        1 | 4 => Alltoall::Staged(call.ranks),
        3 => Alltoall::Bruck,
        // One exchange of two ranks is a pairwise one too.
        _ => Alltoall::Staged(1),
    }
}

/// For vectors that are cut into blocks of any lengths.
pub fn reduce_scatter(call: FixedCall) -> ReduceScatter {
    match find(tables::REDUCE_SCATTER, call.ranks, call.bytes) {
        _ if !call.commutative => ReduceScatter::ViaRoot(reduce(call)),
        2 => ReduceScatter::Halving,
        3 => ReduceScatter::Ring,
        4 => ReduceScatter::Butterfly,
        _ => ReduceScatter::ViaRoot(reduce(call)),
    }
}

/// For vectors that are cut into blocks of one length. As everywhere, a call's bytes are those of the vector.
pub fn reduce_scatter_block(call: FixedCall) -> ReduceScatter {
    let block = call.bytes / call.ranks as usize;
    match find(tables::REDUCE_SCATTER_BLOCK, call.ranks, block) {
        _ if !call.commutative => ReduceScatter::ViaRoot(reduce(call)),
        2 => ReduceScatter::Doubling,
        3 => ReduceScatter::Halving,
        4 => ReduceScatter::Butterfly,
        _ => ReduceScatter::ViaRoot(reduce(call)),
    }
}

/// For a barrier.
pub fn barrier(ranks: u32) -> Barrier {
    match find(tables::BARRIER, ranks, 0) {
        3 => Barrier::Doubling,
        4 => Barrier::Dissemination,
        6 => Barrier::Tree,
        _ => Barrier::Linear,
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
pub const fn han_bcast(nodes: u32) -> Bcast {
    if nodes <= 4 { Bcast::Linear } else { Bcast::Binomial }
}

/// How it reduces one. `call` is that of a segment on the nodes.
pub const fn han_reduce(call: FixedCall) -> Reduce {
    if call.commutative && call.ranks > 2 && call.cuttable() {
        Reduce::SharedHalving
    } else if call.ranks > 4 || call.bytes < SEGMENT {
        Reduce::Binomial
    } else {
        Reduce::Tree(Tree::Chain)
    }
}
