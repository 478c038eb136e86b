//! The loads of the algorithms, in closed forms.

use super::operands::whole;
use super::staged::CACHE_BYTES;
use super::{Load, levels};
use crate::coll::bcast::CHAIN_PIECE;
use crate::coll::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree,
};

fn log2(ranks: f64) -> f64 {
    ranks.log2().ceil()
}

/// How many ranks have a bit set.
fn with_bit(ranks: u32, bit: u32) -> f64 {
    let (ranks, bit) = (u64::from(ranks), 1 << bit);
    let both = 2 * bit;
    (ranks / both * bit + (ranks % both).saturating_sub(bit)) as f64
}

/// What a barrier does.
pub fn barrier(ranks: u32, how: Barrier) -> Load {
    let n = f64::from(ranks);
    match how {
        _ if ranks < 2 => Load::default(),
        Barrier::Dissemination => Load::exchange(n, 1.0, 0.0).times(log2(n)),
        Barrier::Multiplying(stages) => levels::barrier(ranks, stages),
        Barrier::Flat => Load::fan_in(n - 1.0, 0.0).then(Load::fan_out(n - 1.0, 0.0)),
    }
}

/// What a broadcast of `bytes` does.
pub fn bcast(ranks: u32, how: Bcast, bytes: usize) -> Load {
    let (n, bytes) = (f64::from(ranks), bytes as f64);
    match how {
        _ if ranks < 2 => Load::default(),
        Bcast::Flat => Load::fan_out(n - 1.0, bytes),
        Bcast::Binomial => {
            let algorithm = Load::fan_out(1.0, bytes).times(log2(n));
            let hops = f64::from(ranks.ilog2());
            Load { hops, messages: n - 1.0, all_bytes: (n - 1.0) * bytes, ..algorithm }
        }
        Bcast::ScatterAllgather => {
            // Parts set out around the ring while others are still scattered.
            let scatter = Load {
                hops: 0.0,
                bytes: bytes * (n - 1.0) / n,
                messages: n - 1.0,
                all_bytes: bytes * log2(n) / 2.0,
                ..Load::fan_out(1.0, 0.0).times(log2(n))
            };
            // The root gets nothing, and nobody sends to it.
            let ring = Load::exchange(n - 1.0, 1.0, bytes / n).times(n - 1.0);
            scatter.then(ring)
        }
        Bcast::Multiplying(stages) => levels::bcast(ranks, (stages, 0), bytes),
        Bcast::Split(stages, split) => levels::bcast(ranks, (stages, split), bytes),
        Bcast::TwoTrees(kilobytes) => {
            let trees = Trees::of(ranks, (bytes, 1.0), kilobytes);
            // Each rank sends to two children in one tree, and gets pieces in both.
            let piece = Load::fan_out(2.0, trees.piece);
            trees.load(n, bytes, piece, Load { hops: 0.0, receives: 2.0, ..piece })
        }
        Bcast::Chain => {
            let pieces = (bytes / CHAIN_PIECE as f64).ceil().max(1.0);
            let piece = Load::fan_out(1.0, bytes / pieces);
            let algorithm = piece.times(n - 1.0);
            // What follows the first piece is behind it by what a rank is busy with a piece.
            let behind = Load { hops: 0.0, switches: 1.0, ..piece }.times(pieces - 1.0);
            let all =
                Load { messages: (n - 1.0) * pieces, all_bytes: (n - 1.0) * bytes, ..algorithm };
            Load { messages: 0.0, all_bytes: 0.0, ..behind }.then(all)
        }
    }
}

/// Blocks that are sent on the longest path up a binomial tree: along the last ranks, or along a full half of them.
fn gathered(ranks: u32) -> u32 {
    if ranks < 2 {
        return 0;
    }
    let half = 1 << (ranks - 1).ilog2();
    let rest = ranks - half;
    (gathered(rest) + rest).max(half - 1)
}

/// What a gather of blocks of `block` bytes does.
pub fn gather(ranks: u32, how: Tree, block: usize) -> Load {
    let (n, len) = (f64::from(ranks), block as f64);
    match how {
        _ if ranks < 2 => Load::default().copying(len),
        // The root copies its own block while others are under way.
        Tree::Linear => Load::fan_in(n - 1.0, len),
        Tree::Binomial => {
            // The root gets a half, a quarter and so on; each block travels about half of the rounds.
            let rounds = log2(n);
            let algorithm =
                Load { receives: rounds, ..Load::fan_in(1.0, 0.0).times(f64::from(ranks.ilog2())) };
            let bytes = f64::from(gathered(ranks)) * len;
            Load { bytes, messages: n - 1.0, all_bytes: n * len * rounds / 2.0, ..algorithm }
                .copying(n * len)
        }
    }
}

/// What a scatter of blocks of `block` bytes does.
pub fn scatter(ranks: u32, how: Tree, block: usize) -> Load {
    let (n, len) = (f64::from(ranks), block as f64);
    match how {
        _ if ranks < 2 => Load::default().copying(len),
        Tree::Linear => Load::fan_out(n - 1.0, len).copying(len),
        Tree::Binomial => {
            // A half of the blocks goes first, then a quarter and so on; a root that is not rank 0 sorts them before.
            let rounds = log2(n);
            let (hops, bytes) = (f64::from(ranks.ilog2()), (n - 1.0) * len);
            let algorithm = Load { hops, receives: hops, ..Load::fan_out(1.0, 0.0).times(rounds) };
            Load { bytes, messages: n - 1.0, all_bytes: n * len * rounds / 2.0, ..algorithm }
                .copying(n * len)
        }
    }
}

/// What a reduction of vectors of `bytes` does, which are cut between elements of `width` bytes.
pub fn reduce(ranks: u32, how: Reduce, (bytes, width): (usize, usize)) -> Load {
    let (n, bytes, width) = (f64::from(ranks), bytes as f64, width.max(1) as f64);
    match how {
        _ if ranks < 2 => Load::default().copying(bytes),
        Reduce::Flat => Load::fan_in(n - 1.0, bytes).reducing((n - 1.0) * bytes).copying(bytes),
        Reduce::Binomial | Reduce::Ordered => {
            let (rounds, hops) = (log2(n), f64::from(ranks.ilog2()));
            Load {
                receives: rounds,
                reduced: rounds * bytes,
                messages: n - 1.0,
                all_bytes: (n - 1.0) * bytes,
                all_reduced: (n - 1.0) * bytes,
                ..Load::fan_in(1.0, bytes).times(hops)
            }
        }
        Reduce::Multiplying(stages) => levels::reduce(ranks, (stages, 0), (bytes, width)),
        Reduce::Split(stages, split) => levels::reduce(ranks, (stages, split), (bytes, width)),
        Reduce::TwoTrees(kilobytes) => {
            let trees = Trees::of(ranks, (bytes, width), kilobytes);
            let piece = Load::fan_in(2.0, trees.piece).reducing(2.0 * trees.piece);
            // A rank that two others send to in one tree sends in both.
            let behind = Load { hops: 0.0, sends: 2.0, bytes: 2.0 * trees.piece, ..piece };
            let all_reduced = (n - 1.0) * bytes;
            Load { all_reduced, ..trees.load(n, bytes, piece, behind) }
        }
        Reduce::Chain => {
            let longest = (CHAIN_PIECE as f64 / width).floor().max(1.0) * width;
            let pieces = (bytes / longest).ceil().max(1.0);
            let piece = Load::fan_in(1.0, bytes / pieces).reducing(bytes / pieces);
            // What follows the first piece is behind it by what a rank is busy with a piece.
            let behind = Load { hops: 0.0, ..piece }.times(pieces - 1.0);
            let all = Load {
                messages: (n - 1.0) * pieces,
                all_bytes: (n - 1.0) * bytes,
                all_reduced: (n - 1.0) * bytes,
                ..piece.times(n - 1.0)
            };
            Load { messages: 0.0, all_bytes: 0.0, all_reduced: 0.0, ..behind }.then(all)
        }
        Reduce::Halving => {
            let parts = f64::from(1_u32 << ranks.ilog2());
            // A root that gave its vector away has no part itself.
            let others = if ranks.is_power_of_two() { parts - 1.0 } else { parts };
            let part = whole(bytes / parts, width);
            halving(ranks, (bytes, width)).then(Load::fan_in(others, part).copying(part))
        }
    }
}

/// Two trees that carry a half of a vector each.
struct Trees {
    /// Ranks from the root to the last one.
    depth: f64,
    /// Pieces of a half.
    pieces: f64,
    /// Bytes of a piece.
    piece: f64,
}

impl Trees {
    fn of(ranks: u32, (bytes, width): (f64, f64), kilobytes: u32) -> Self {
        let half = whole(bytes / 2.0, width);
        let longest = (f64::from(kilobytes) * 1024.0 / width).floor().max(1.0) * width;
        let pieces = (half / longest).ceil().max(1.0);
        Self { depth: f64::from((ranks - 1).ilog2() + 1), pieces, piece: half / pieces }
    }

    /// What a first piece does at each rank of its way, and what each that follows keeps a rank busy.
    fn load(&self, n: f64, bytes: f64, first: Load, behind: Load) -> Load {
        let algorithm = first.times(self.depth).then(behind.times(self.pieces - 1.0));
        let messages = 2.0 * self.pieces * (n - 1.0);
        Load { messages, all_bytes: (n - 1.0) * bytes, ..algorithm }
    }
}

/// Ranks beyond the last power of two give their vectors to neighbours.
fn fold(ranks: u32, bytes: f64) -> Load {
    let rest = f64::from(ranks - (1 << ranks.ilog2()));
    if rest == 0.0 {
        return Load::default();
    }
    let one = Load::fan_in(1.0, bytes).reducing(bytes).copying(bytes);
    Load { messages: rest, all_bytes: rest * bytes, all_reduced: rest * bytes, ..one }
}

/// They get results back.
fn unfold(ranks: u32, bytes: f64) -> Load {
    Load { reduced: 0.0, all_reduced: 0.0, copied: 0.0, ..fold(ranks, bytes) }
}

/// The bytes of a half of a vector, a quarter and so on, as many as there are rounds among so many ranks.
fn halves(ranks: u32, (bytes, width): (f64, f64)) -> f64 {
    (1..=ranks.ilog2()).map(|round| whole(bytes / f64::from(1_u32 << round), width)).sum()
}

/// The halves, quarters and so on of a vector are exchanged and reduced.
fn halving(ranks: u32, (bytes, width): (f64, f64)) -> Load {
    let parts = f64::from(1_u32 << ranks.ilog2());
    let part = halves(ranks, (bytes, width));
    let rounds = Load::exchange(parts, 1.0, 0.0).times(log2(parts));
    let sent = Load { bytes: part, all_bytes: part * parts, ..rounds };
    fold(ranks, bytes).then(sent.all_reducing(parts, part))
}

/// What an allreduce of vectors of `bytes` does, which are cut between elements of `width` bytes.
pub fn allreduce(ranks: u32, how: Allreduce, (bytes, width): (usize, usize)) -> Load {
    let (n, len) = (f64::from(ranks), bytes as f64);
    let cut = (len, width.max(1) as f64);
    let parts = f64::from(1_u32 << ranks.ilog2());
    match how {
        _ if ranks < 2 => Load::default().copying(len),
        Allreduce::Doubling => {
            let stage = Load::exchange(parts, 1.0, len).all_reducing(parts, len);
            fold(ranks, len).then(stage.times(log2(parts))).then(unfold(ranks, len))
        }
        Allreduce::Halving => {
            let part = halves(ranks, cut);
            let rounds = Load::exchange(parts, 1.0, 0.0).times(log2(parts));
            let back = Load { bytes: part, all_bytes: part * parts, ..rounds };
            halving(ranks, cut)
                .copying(whole(len / parts, cut.1))
                .then(back)
                .then(unfold(ranks, len))
        }
        Allreduce::Flat => {
            reduce(ranks, Reduce::Flat, (bytes, width)).then(Load::fan_out(n - 1.0, len))
        }
        Allreduce::ReduceBcast => {
            reduce(ranks, Reduce::Ordered, (bytes, width)).then(Load::fan_out(n - 1.0, len))
        }
    }
}

/// What an allgather of blocks of `block` bytes does.
pub fn allgather(ranks: u32, how: Allgather, block: usize) -> Load {
    let (n, len) = (f64::from(ranks), block as f64);
    // Blocks that a rank has got and passes on lie among its results. Where these do not stay in caches, they come from
    // memory again; a block that its own rank sends is read by all the others at about the same time.
    let first = match how {
        _ if ranks < 2 => 0.0,
        Allgather::Direct | Allgather::GatherBcast => n - 1.0,
        Allgather::Multiplying(stages) => levels::first_hand(ranks, stages),
        Allgather::Doubling | Allgather::Bruck | Allgather::Ring => 1.0,
    };
    let passed_on = (n * (n - 1.0 - first) * len).max(0.0);
    let spilled = passed_on.min((n * (n + 1.0) * len - CACHE_BYTES).max(0.0));
    let load = messages_of_allgather(ranks, how, block);
    Load { spilled, ..load }
}

/// The same without what caches do not hold.
fn messages_of_allgather(ranks: u32, how: Allgather, block: usize) -> Load {
    let (n, len) = (f64::from(ranks), block as f64);
    match how {
        _ if ranks < 2 => Load::default().copying(len),
        Allgather::Doubling | Allgather::Bruck => {
            let rounds = Load::exchange(n, 1.0, 0.0).times(log2(n));
            let sent = (n - 1.0) * len;
            let copied = if how == Allgather::Bruck { n + 1.0 } else { 1.0 };
            Load { bytes: sent, all_bytes: n * sent, ..rounds }.copying(copied * len)
        }
        Allgather::Ring => Load::exchange(n, 1.0, len).times(n - 1.0).copying(len),
        Allgather::Direct => Load::exchange(n, n - 1.0, len).copying(len),
        Allgather::Multiplying(stages) => levels::allgather(ranks, stages, len),
        Allgather::GatherBcast => {
            Load::fan_in(n - 1.0, len).then(Load::fan_out(n - 1.0, n * len)).copying(len)
        }
    }
}

/// What an allgather of blocks of different lengths does, of `total` bytes together; none has more than `longest`. For
/// the algorithms that can.
pub fn allgatherv(ranks: u32, how: Allgather, (total, longest): (f64, f64)) -> Load {
    let n = f64::from(ranks);
    let all_bytes = (n - 1.0) * total;
    match how {
        _ if ranks < 2 => Load::default().copying(total),
        Allgather::Ring => {
            // The longest one is under way in each round.
            let rounds = Load::exchange(n, 1.0, longest).times(n - 1.0);
            Load { all_bytes, ..rounds }.copying(longest)
        }
        Allgather::Direct => {
            Load { all_bytes, ..Load::exchange(n, n - 1.0, longest) }.copying(longest)
        }
        Allgather::Bruck
        | Allgather::Doubling
        | Allgather::GatherBcast
        | Allgather::Multiplying(_) => {
            // Each message of a rank begins with its own block.
            let rounds = log2(n);
            let bytes = rounds * longest + (n - 1.0 - rounds) * (total - longest) / (n - 1.0);
            let rounds = Load::exchange(n, 1.0, 0.0).times(rounds);
            Load { bytes, all_bytes, ..rounds }.copying(total + longest)
        }
    }
}

/// What an all-to-all of blocks of `block` bytes does.
pub fn alltoall(ranks: u32, how: Alltoall, block: usize) -> Load {
    let (n, len) = (f64::from(ranks), block as f64);
    match how {
        _ if ranks < 2 => Load::default().copying(len),
        Alltoall::Bruck => {
            let rounds = log2(n);
            // About half of the blocks travel in each round, and are copied twice.
            let moved: f64 = (0..rounds as u32).map(|k| with_bit(ranks, k) * len).sum();
            let stages = Load::exchange(n, 1.0, 0.0).times(rounds);
            Load { bytes: moved, all_bytes: n * moved, ..stages }
                .copying(2.0 * moved + 2.0 * n * len)
        }
        Alltoall::Staged(partners) => {
            let stages = (n - 1.0) / f64::from(partners.max(1)).min(n - 1.0);
            let width = (n - 1.0) / stages;
            Load::exchange(n, width, len)
                .times(stages.ceil())
                .times(stages / stages.ceil())
                .copying(len)
        }
    }
}

/// What a reduction whose result, `total` bytes, is cut among all does.
pub fn reduce_scatter(ranks: u32, how: ReduceScatter, total: usize) -> Load {
    let (n, len) = (f64::from(ranks), total as f64);
    let block = len / n;
    match how {
        _ if ranks < 2 => Load::default().copying(len),
        ReduceScatter::ViaRoot => reduce(ranks, Reduce::Ordered, (total, 1))
            .then(Load::fan_out(n - 1.0, block))
            .copying(block),
        ReduceScatter::Halving => halving(ranks, (len, 1.0)).copying(block),
        ReduceScatter::Multiplying(stages) => levels::reduce_scatter(ranks, stages, len),
        ReduceScatter::Ordered(stages) => levels::ordered(ranks, stages, len),
        ReduceScatter::Pairwise => {
            let stage = Load::exchange(n, 1.0, block).all_reducing(n, block);
            stage.times(n - 1.0).copying(block)
        }
        ReduceScatter::Direct => Load::exchange(n, n - 1.0, block)
            .all_reducing(n, (n - 1.0) * block)
            .copying(2.0 * block),
    }
}

/// What a prefix reduction of vectors of `bytes` does, with the own vector in it or not.
pub fn scan(ranks: u32, how: Scan, exclusive: bool, bytes: usize) -> Load {
    let (n, len) = (f64::from(ranks), bytes as f64);
    match (how, exclusive) {
        (_, true) if ranks < 2 => Load::default(),
        (_, false) if ranks < 2 => Load::default().copying(len),
        (Scan::Chain, false) => Load::fan_in(1.0, len).reducing(len).times(n - 1.0).copying(len),
        (Scan::Chain, true) => {
            // Neither the first rank nor the last one reduces.
            let reduced = (n - 2.0) * len;
            let copied = if ranks > 2 { len } else { 0.0 };
            Load::fan_in(1.0, len).times(n - 1.0).reducing(reduced).copying(copied)
        }
        (Scan::Doubling, _) => {
            // Of two ranks, the upper one reduces what comes into its result and into what it passes on.
            let rounds = log2(n);
            let pairs: f64 = (0..rounds as u32).map(|bit| with_bit(ranks, bit)).sum();
            // What comes first to an exclusive result is copied.
            let first = if exclusive { 1.0 } else { 0.0 };
            let algorithm = Load::exchange(n, 1.0, len).times(rounds);
            Load {
                messages: 2.0 * pairs,
                all_bytes: 2.0 * pairs * len,
                reduced: (2.0 * rounds - first) * len,
                all_reduced: (3.0 * pairs - first * (n - 1.0)) * len,
                ..algorithm
            }
            .copying(2.0 * len)
        }
    }
}
