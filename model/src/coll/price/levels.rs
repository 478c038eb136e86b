//! The loads of collectives by multiplying in so many [stages](crate::coll::levels), in closed form: level by level, of
//! the longest chunk.

use super::Load;
use crate::coll::levels::Factors;

/// What a chunk of a level does.
struct Level {
    /// Ranks of the chunk.
    ranks: f64,
    /// Ranks of the longest of its own chunks.
    own: f64,
    /// Other chunks with ranks in them.
    others: f64,
    /// Ranks that the busiest one serves beside its own partners: they have no place of theirs in its chunk.
    beside: f64,
}

/// The longest chunk of each level, that of the whole first.
fn levels(ranks: u32, stages: u32) -> impl Iterator<Item = Level> {
    Factors::of(ranks, stages)
        .iter()
        .scan(ranks, |left, factor| {
            let (len, own) = (*left, left.div_ceil(factor));
            let (short, longer) = (len / factor, len % factor);
            *left = own;
            let beside = if short > 0 { longer.div_ceil(short) } else { 0 };
            Some(Level {
                ranks: f64::from(len),
                own: f64::from(own),
                others: f64::from(factor.min(len) - 1),
                beside: f64::from(beside),
            })
        })
        .filter(|level| level.others > 0.0)
}

/// Messages of all ranks, each of which gets one of each other chunk of its own.
fn messages(ranks: u32, stages: u32) -> f64 {
    // Chunks of a level have one of two lengths that follow each other.
    let (mut short, mut count) = (ranks, [1_u64, 0]);
    let mut messages = 0;
    for factor in Factors::of(ranks, stages).iter() {
        let next = short / factor;
        let mut cut = [0, 0];
        for (len, chunks) in [(short, count[0]), (short + 1, count[1])] {
            messages += chunks * u64::from(len) * u64::from(factor.min(len).saturating_sub(1));
            let all = next * factor;
            // So many chunks are one longer than the shortest.
            let longer = u64::from(len - all);
            cut[0] += chunks * (u64::from(factor) - longer);
            cut[1] += chunks * longer;
        }
        (short, count) = (next, cut);
    }
    messages as f64
}

pub(super) fn barrier(ranks: u32, stages: u32) -> Load {
    let mut load = Load::default();
    let mut reached = 1_u64;
    for factor in Factors::of(ranks, stages).iter() {
        let width = u64::from(factor - 1).min((u64::from(ranks) - 1) / reached);
        if width > 0 {
            load = load.then(Load::exchange(f64::from(ranks), width as f64, 0.0));
        }
        reached *= u64::from(factor);
    }
    load
}

pub(super) fn bcast(ranks: u32, stages: u32, bytes: f64) -> Load {
    let all = f64::from(ranks - 1);
    let way = levels(ranks, stages).map(|level| Load::fan_out(level.others, bytes));
    let way = way.fold(Load::default(), Load::then);
    Load { messages: all, all_bytes: all * bytes, ..way }
}

pub(super) fn allgather(ranks: u32, stages: u32, block: f64) -> Load {
    let n = f64::from(ranks);
    let stage = |level: Level| {
        let width = level.others + level.beside;
        Load {
            receives: level.others,
            bytes: (level.ranks - level.own) * block + level.beside * (level.own - 1.0) * block,
            ..Load::exchange(1.0, width, 0.0)
        }
    };
    let way = levels(ranks, stages).map(stage).fold(Load::default(), Load::then);
    let all = Load { messages: messages(ranks, stages), all_bytes: n * (n - 1.0) * block, ..way };
    all.copying(block)
}

pub(super) fn reduce_scatter(ranks: u32, stages: u32, total: f64) -> Load {
    let n = f64::from(ranks);
    let block = total / n;
    let stage = |level: Level| {
        let width = level.others + level.beside;
        Load {
            sends: level.others,
            bytes: (level.ranks - level.own) * block,
            reduced: width * level.own * block,
            ..Load::exchange(1.0, width, 0.0)
        }
    };
    let way = levels(ranks, stages).map(stage).fold(Load::default(), Load::then);
    let (messages, all) = (messages(ranks, stages), (n - 1.0) * total);
    Load { messages, all_bytes: all, all_reduced: all, ..way }.copying(block)
}
