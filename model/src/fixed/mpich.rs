//! What MPICH 5.0.1 chooses by default.
//!
//! On nodes with several ranks, barriers, broadcasts and reductions are composed of an algorithm inside of nodes and one
//! across their first ranks; all else is chosen as if each rank had a node of its own. Operations are predefined ones.

use super::FixedCall;
use super::forms::{
    FixedAllgather, FixedAllreduce, FixedAlltoall, FixedBarrier, FixedBcast, FixedReduce,
    FixedReduceScatter, Gather, Scatter,
};

const K: usize = 1 << 10;

/// Exchanges of an all-to-all that are under way at once.
const THROTTLE: u32 = 32;

/// For vectors, on ranks that have nodes of their own or are the first of them.
pub fn allreduce(call: FixedCall) -> FixedAllreduce {
    if call.bytes > 8 && call.cuttable() {
        FixedAllreduce::Halving
    } else {
        FixedAllreduce::Doubling
    }
}

/// For one span.
pub fn bcast(call: FixedCall) -> FixedBcast {
    match call.bytes {
        _ if call.ranks < 8 => FixedBcast::Binomial,
        ..=12_288 => FixedBcast::Binomial,
        ..=524_288 if call.ranks.is_power_of_two() => FixedBcast::ScatterDoubling,
        _ => FixedBcast::ScatterRing,
    }
}

/// For vectors.
pub fn reduce(call: FixedCall) -> FixedReduce {
    if call.bytes > 2 * K && call.cuttable() && call.commutative {
        FixedReduce::Halving
    } else if call.commutative {
        FixedReduce::Binomial
    } else {
        FixedReduce::OrderedBinomial
    }
}

/// For blocks.
pub fn allgather(call: FixedCall) -> FixedAllgather {
    let doubles = call.ranks.is_power_of_two();
    match call.total() {
        ..524_288 if doubles => FixedAllgather::Doubling,
        ..81_920 => FixedAllgather::Bruck,
        _ => FixedAllgather::Ring,
    }
}

/// For blocks, not in place.
pub fn alltoall(call: FixedCall) -> FixedAlltoall {
    match call.bytes {
        ..=256 if call.ranks > 8 => FixedAlltoall::Bruck,
        ..=32_768 => FixedAlltoall::Staged(THROTTLE),
        _ => FixedAlltoall::Staged(1),
    }
}

/// For vectors that are cut, into blocks of one length if `even`.
pub fn reduce_scatter(call: FixedCall, even: bool) -> FixedReduceScatter {
    match call.bytes {
        ..524_288 if call.commutative => FixedReduceScatter::Halving,
        _ if call.commutative => FixedReduceScatter::Pairwise,
        _ if even && call.ranks.is_power_of_two() => FixedReduceScatter::Ordered,
        _ => FixedReduceScatter::Doubling,
    }
}

/// For a barrier.
pub const fn barrier() -> FixedBarrier {
    FixedBarrier::Dissemination
}

/// For blocks.
pub const fn gather() -> Gather {
    Gather::Binomial
}

/// For blocks.
pub const fn scatter() -> Scatter {
    Scatter::Binomial
}

/// What a call is composed of, where ranks are on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Composition {
    /// One algorithm on all ranks.
    Flat,
    /// One algorithm on the ranks of a node, through memory that they share.
    Inside,
    /// Inside of nodes to their first ranks, across these, and inside again where all get the result. Data of a root
    /// that is not the first of its node takes a message of its own.
    Levels,
    /// The same, but the root's node does its part around the root and spares that message.
    AroundRoot,
}

/// Whether some rank shares a node with another one.
const fn shared(call: FixedCall, nodes: u32) -> bool {
    nodes != call.ranks
}

/// For allreduces of ranks on so many nodes.
pub const fn composed_allreduce(call: FixedCall, nodes: u32) -> Composition {
    match nodes {
        1 => Composition::Inside,
        _ if shared(call, nodes) && call.commutative => Composition::Levels,
        _ => Composition::Flat,
    }
}

/// For broadcasts.
pub const fn composed_bcast(call: FixedCall, nodes: u32) -> Composition {
    if !shared(call, nodes) {
        return Composition::Flat;
    }
    match call.bytes {
        _ if call.ranks < 8 => Composition::Levels,
        ..12_288 => Composition::Levels,
        ..524_288 if call.ranks.is_power_of_two() => Composition::AroundRoot,
        _ => Composition::Flat,
    }
}

/// For reductions.
pub const fn composed_reduce(call: FixedCall, nodes: u32) -> Composition {
    if !shared(call, nodes) || !call.commutative {
        Composition::Flat
    } else if call.bytes <= 2 * K {
        Composition::AroundRoot
    } else {
        Composition::Levels
    }
}

/// For barriers.
pub const fn composed_barrier(call: FixedCall, nodes: u32) -> Composition {
    if shared(call, nodes) { Composition::Levels } else { Composition::Flat }
}

/// Bytes of a piece in which a reduction goes through memory that ranks of a node share.
pub const REDUCE_PIECE: usize = 8 * K;

/// The same of a broadcast: a cell less two lines of a cache.
pub const BCAST_PIECE: usize = 8 * K - 128;

/// How many ranks of a node the flag of one reaches.
pub const BCAST_WIDTH: u32 = 64;

/// Of how many ranks of a node one reduces the pieces of so many bytes.
pub const fn reduce_width(piece: usize) -> u32 {
    if piece <= 2 * K { 4 } else { 2 }
}
