//! The loads of allreduces by a schedule, in closed form: stage by stage, with the ranks that take part and the part of
//! the vector that they have.

use super::Load;
use super::operands::whole;
use crate::schedule::{Cut, JointStage, Merged, Schedule};

/// What takes part in a stage.
#[derive(Clone, Copy)]
struct At {
    /// Ranks.
    active: f64,
    /// Bytes of what each has.
    len: f64,
}

/// What an allreduce by a schedule does, of vectors of `bytes` that are cut between elements of `width` bytes.
pub fn multiplying(schedule: &Schedule, (bytes, width): (usize, usize)) -> Load {
    let width = width.max(1) as f64;
    // What is gathered is gathered where the result goes.
    let copied = if schedule.splits() { 0.0 } else { bytes as f64 };
    let mut load = Load::default().copying(copied);
    let mut at = At { active: f64::from(schedule.ranks()), len: bytes as f64 };
    let mut open = Vec::new();
    for (token, length) in schedule.with_lengths() {
        // Allreduces of this kind that go on beside each other.
        let beside = |at: At| at.active / f64::from(length);
        let stage = match token {
            JointStage::Exchange { factor } => {
                let width = f64::from(factor - 1);
                Load::exchange(at.active, width, at.len).all_reducing(at.active, width * at.len)
            }
            JointStage::Collapse { threshold, base } => {
                open.push(at);
                let (width, blocks) = (f64::from(base - 1), f64::from(threshold / base));
                let blocks = blocks * beside(at);
                at.active -= blocks * width;
                let one = Load::fan_in(width, at.len).reducing(width * at.len);
                in_all(one, blocks * width, at.len, blocks * width)
            }
            JointStage::Expand { threshold, base } => {
                at = open.pop().unwrap_or(at);
                let (width, blocks) = (f64::from(base - 1), f64::from(threshold / base));
                let blocks = blocks * beside(at);
                in_all(Load::fan_out(width, at.len), blocks * width, at.len, 0.0)
            }
            JointStage::Merge(merged) | JointStage::OrderedMerge(merged) => {
                open.push(at);
                let rest = f64::from(merged.remainder) * beside(at);
                at.active -= rest;
                merge(merged, at, rest)
            }
            JointStage::InverseMerge(merged) => {
                let stage = inverse_merge(
                    merged,
                    at,
                    f64::from(merged.remainder) * at.active / f64::from(length - merged.remainder),
                );
                at = open.pop().unwrap_or(at);
                stage
            }
            JointStage::Split(cut) => {
                open.push(at);
                at.len = whole(at.len / f64::from(cut.factor), width);
                parts(cut, at).all_reducing(at.active, f64::from(cut.factor - 1) * at.len)
            }
            JointStage::Gather(cut) => {
                let part = at;
                at = open.pop().unwrap_or(at);
                parts(cut, part).copying(part.len)
            }
        };
        load = load.then(stage);
    }
    load
}

/// What is done several times beside each other: so many messages of `len` bytes, and as many values reduced as said.
fn in_all(one: Load, messages: f64, len: f64, reduced: f64) -> Load {
    Load { messages, all_bytes: messages * len, all_reduced: reduced * len, ..one }
}

fn merge(merged: Merged, at: At, rest: f64) -> Load {
    let At { active, len } = at;
    let factor = f64::from(merged.factor);
    let more = f64::from(merged.remainder.div_ceil(merged.groups));
    let taken = factor - 1.0 + more;
    let messages = rest * factor + active * (factor - 1.0);
    let one = Load {
        sends: factor,
        receives: taken,
        bytes: factor * len,
        ..Load::exchange(active, 1.0, len)
    };
    let reduced = active * (factor - 1.0) + rest * factor;
    in_all(Load { reduced: taken * len, ..one }, messages, len, reduced)
}

fn inverse_merge(merged: Merged, at: At, rest: f64) -> Load {
    let At { active, len } = at;
    let factor = f64::from(merged.factor);
    let width = factor - 1.0 + f64::from(merged.remainder.div_ceil(merged.groups));
    let messages = rest * factor + active * (factor - 1.0);
    let one = Load {
        sends: width,
        receives: factor,
        bytes: width * len,
        ..Load::exchange(active, 1.0, len)
    };
    let reduced = (active + rest) * (factor - 1.0);
    in_all(Load { reduced: (factor - 1.0) * len, ..one }, messages, len, reduced)
}

/// The messages of a cut, or of what undoes it.
fn parts(cut: Cut, part: At) -> Load {
    let rounds = f64::from(cut.rounds());
    let width = f64::from(cut.factor - 1) / rounds;
    Load::exchange(part.active, width, part.len).times(rounds)
}
