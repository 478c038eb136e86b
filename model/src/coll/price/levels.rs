//! The loads of collectives by multiplying in so many [stages](crate::coll::levels), in closed form: level by level, of
//! the longest chunk.

use super::Load;
use super::operands::whole;
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

/// Messages of all ranks in the first so many stages, in each of which a rank gets one of each other chunk of its own.
/// The first rank of a whole chunk may need none.
fn messages(ranks: u32, (stages, split): (u32, u32), first_needs: bool) -> f64 {
    // Chunks of a level have one of two lengths that follow each other.
    let (mut short, mut count) = (ranks, [1_u64, 0]);
    let mut messages = 0;
    for factor in Factors::of(ranks, stages).iter().take(split as usize) {
        let next = short / factor;
        let mut cut = [0, 0];
        for (len, chunks) in [(short, count[0]), (short + 1, count[1])] {
            let getting = u64::from(len) - u64::from(!first_needs && len > 0);
            messages += chunks * getting * u64::from(factor.min(len).saturating_sub(1));
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

/// A stage in which ranks swap their chunks' parts, of `block` bytes for each rank.
fn gathering(level: &Level, block: f64) -> Load {
    let width = level.others + level.beside;
    Load {
        receives: level.others,
        bytes: (level.ranks - level.own) * block + level.beside * (level.own - 1.0) * block,
        ..Load::exchange(1.0, width, 0.0)
    }
}

/// The same of reductions: ranks give parts away and reduce their own, in elements of `width` bytes.
fn distributing(level: &Level, (block, width): (f64, f64)) -> Load {
    let partners = level.others + level.beside;
    Load {
        sends: level.others,
        bytes: whole((level.ranks - level.own) * block, width),
        reduced: partners * whole(level.own * block, width),
        ..Load::exchange(1.0, partners, 0.0)
    }
}

/// The levels with the bytes that each rank of a chunk has to do with, where the first ones split a vector.
fn parts(
    ranks: u32,
    (stages, split): (u32, u32),
    (bytes, width): (f64, f64),
) -> impl Iterator<Item = (Level, f64)> {
    let block = bytes / f64::from(ranks);
    levels(ranks, stages).enumerate().scan(bytes, move |part, (number, level)| {
        if number < split as usize {
            *part = whole(level.own * block, width);
        }
        Some((level, *part))
    })
}

/// The levels that split, with `stage` of each.
fn splitting(ranks: u32, (stages, split): (u32, u32), stage: impl Fn(&Level) -> Load) -> Load {
    let all = levels(ranks, stages).take(split as usize);
    all.map(|level| stage(&level)).fold(Load::default(), Load::then)
}

pub(super) fn bcast(ranks: u32, how: (u32, u32), bytes: f64) -> Load {
    let n = f64::from(ranks);
    let down =
        parts(ranks, how, (bytes, 1.0)).map(|(level, part)| Load::fan_out(level.others, part));
    let down = down.fold(Load::default(), Load::then);
    let back = splitting(ranks, how, |level| {
        let stage = gathering(level, bytes / n);
        // Of two single ranks, the first one has the other's part: its own follows that down the tree.
        let hops = if level.ranks == 2.0 { 0.0 } else { stage.hops };
        Load { hops, ..stage }
    });
    let swapped = if how.1 > 0 { (n - 1.0) * bytes } else { 0.0 };
    Load {
        messages: n - 1.0 + messages(ranks, how, false),
        all_bytes: (n - 1.0) * bytes + swapped,
        ..down.then(back)
    }
}

pub(super) fn reduce(ranks: u32, how: (u32, u32), (bytes, width): (f64, f64)) -> Load {
    let n = f64::from(ranks);
    let given = splitting(ranks, how, |level| distributing(level, (bytes / n, width)));
    let trees = parts(ranks, how, (bytes, width)).enumerate().map(|(number, (level, part))| {
        let arrive = Load::fan_in(level.others, part);
        if number < how.1 as usize { arrive } else { arrive.reducing(level.others * part) }
    });
    let up = trees.fold(Load::default(), Load::then);
    let swapped = if how.1 > 0 { (n - 1.0) * bytes } else { 0.0 };
    Load {
        messages: n - 1.0 + messages(ranks, how, true),
        all_bytes: (n - 1.0) * bytes + swapped,
        all_reduced: (n - 1.0) * bytes,
        ..given.then(up)
    }
}

/// Blocks that a rank of an allgather gets from the ranks whose own they are: those of the first stage, which is that of
/// the smallest chunks.
pub(super) fn first_hand(ranks: u32, stages: u32) -> f64 {
    levels(ranks, stages).last().map_or(0.0, |level| level.ranks - level.own)
}

pub(super) fn allgather(ranks: u32, stages: u32, block: f64) -> Load {
    let n = f64::from(ranks);
    let all = (stages, u32::MAX);
    let algorithm = splitting(ranks, all, |level| gathering(level, block));
    let (messages, all_bytes) = (messages(ranks, all, true), n * (n - 1.0) * block);
    Load { messages, all_bytes, ..algorithm }.copying(block)
}

pub(super) fn reduce_scatter(ranks: u32, stages: u32, total: f64) -> Load {
    let n = f64::from(ranks);
    let all = (stages, u32::MAX);
    let algorithm = splitting(ranks, all, |level| distributing(level, (total / n, 1.0)));
    let (messages, sent) = (messages(ranks, all, true), (n - 1.0) * total);
    Load { messages, all_bytes: sent, all_reduced: sent, ..algorithm }.copying(total / n)
}

/// Beside that, the input is put in another order, and the own operand of each stage beside the others.
pub(super) fn ordered(ranks: u32, stages: u32, total: f64) -> Load {
    let block = total / f64::from(ranks);
    let kept = levels(ranks, stages).map(|level| level.own * block).sum::<f64>();
    reduce_scatter(ranks, stages, total).copying(total + kept)
}
