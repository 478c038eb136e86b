//! The proof that a schedule is an allreduce: all ranks are followed at once, and a value is the ordered list of
//! the contributions that it was combined of.
//!
//! Contributions that follow each other are one interval, so that a value of a schedule that keeps the order of
//! ranks is as short as can be, whatever the number of ranks.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::schedule::Schedule;
use crate::stages::{Operand, Part, Piece, Stage};

/// What a value was combined of, from left to right.
pub type Contributions = Arc<[Range<u32>]>;

/// What was proven of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleProof {
    /// Messages of all ranks.
    pub messages: u64,
    /// Of each part of the vector, the order in which every rank has combined all contributions.
    pub orders: Vec<Contributions>,
}

impl ScheduleProof {
    /// Whether contributions are combined in the order of ranks.
    pub fn in_order(&self) -> bool {
        self.orders.iter().all(|order| order.len() == 1)
    }
}

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleFlaw {
    /// A rank waits for a message that is not sent, or is sent one that it does not wait for.
    Unmatched {
        /// The stage.
        stage: usize,
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
    },
    /// A rank has given away, or never had, a part that it has to send or combine.
    Missing {
        /// The stage.
        stage: usize,
        /// The rank.
        rank: u32,
    },
    /// A rank's result has contributions more than once, or not at all.
    Incomplete {
        /// The rank.
        rank: u32,
        /// What it has.
        has: Contributions,
    },
    /// Ranks have combined in different orders, so that results may differ.
    Disagreement {
        /// A rank that differs from rank 0.
        rank: u32,
    },
}

impl fmt::Display for ScheduleFlaw {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmatched { stage, from, to } => {
                write!(out, "in stage {stage}, ranks {from} and {to} disagree on a message")
            }
            Self::Missing { stage, rank } => {
                write!(
                    out,
                    "in stage {stage}, rank {rank} has no value of what it sends or combines"
                )
            }
            Self::Incomplete { rank, has } => {
                write!(out, "rank {rank} has the contributions {has:?}, not each one once")
            }
            Self::Disagreement { rank } => {
                write!(out, "rank {rank} has combined in another order than rank 0")
            }
        }
    }
}

impl std::error::Error for ScheduleFlaw {}

/// Follows all ranks through a schedule.
///
/// # Errors
/// The first [`ScheduleFlaw`].
pub fn check(schedule: &Schedule) -> Result<ScheduleProof, ScheduleFlaw> {
    follow((0..schedule.ranks()).map(|rank| schedule.stages(rank)).collect())
}

/// Follows ranks, whose stages these are.
///
/// # Errors
/// The first [`ScheduleFlaw`].
pub fn follow(ranks: Vec<Vec<Stage>>) -> Result<ScheduleProof, ScheduleFlaw> {
    let size = ranks.len() as u32;
    let cells = cells(&ranks);
    // Of each rank, what it has of each part of the vector.
    let mut values: Vec<Vec<Option<Contributions>>> =
        (0..size).map(|rank| vec![Some(own(rank)); cells as usize]).collect();
    let mut messages = 0;
    for stage in 0..ranks.first().map_or(0, Vec::len) {
        messages += matched(&ranks, stage)?;
        let mut new = Vec::new();
        for (rank, stages) in ranks.iter().enumerate() {
            news(&stages[stage], rank, cells, &values, &mut new)
                .ok_or(ScheduleFlaw::Missing { stage, rank: rank as u32 })?;
        }
        for (rank, stages) in ranks.iter().enumerate() {
            let Stage { combines, takes, keeps, .. } = &stages[stage];
            if !combines.is_empty() || !takes.is_empty() {
                let keeps = keeps.cells(cells);
                values[rank][..keeps.start].fill(None);
                values[rank][keeps.end..].fill(None);
            }
        }
        for (rank, cell, value) in new {
            values[rank][cell] = Some(value);
        }
    }
    for (rank, value) in values.iter().enumerate() {
        // What is equal to the first rank's is as complete.
        let differs = |cell: usize| rank == 0 || value[cell] != values[0][cell];
        for cell in (0..cells as usize).filter(|&cell| differs(cell)) {
            complete(value[cell].as_ref(), size)
                .map_err(|has| ScheduleFlaw::Incomplete { rank: rank as u32, has })?;
        }
    }
    match values.iter().position(|value| *value != values[0]) {
        Some(rank) => Err(ScheduleFlaw::Disagreement { rank: rank as u32 }),
        None => {
            let orders = values.into_iter().next().unwrap_or_default();
            Ok(ScheduleProof { messages, orders: orders.into_iter().flatten().collect() })
        }
    }
}

/// Parts of the vector that are never cut.
fn cells(ranks: &[Vec<Stage>]) -> u32 {
    let (mut cells, mut last) = (1, 1);
    for stage in ranks.iter().flatten() {
        let parts = [stage.part, stage.keeps].into_iter();
        for part in parts.chain(stage.sends.iter().chain(&stage.takes).map(|piece| piece.part)) {
            if part.of != last {
                last = part.of;
                cells = cells / divisor(cells, last) * last;
            }
        }
    }
    cells
}

/// The greatest common one.
const fn divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { divisor(other, one % other) }
}

/// The new values of a rank in a stage: for which part. Nothing when somebody does not have what it gives.
fn news(
    stage: &Stage,
    rank: usize,
    cells: u32,
    values: &[Vec<Option<Contributions>>],
    new: &mut Vec<(usize, usize, Contributions)>,
) -> Option<()> {
    if !stage.combines.is_empty() {
        for cell in stage.part.cells(cells) {
            new.push((rank, cell, combined(&stage.combines, rank, cell, values)?));
        }
    }
    for piece in &stage.takes {
        for cell in piece.part.cells(cells) {
            new.push((rank, cell, values[piece.rank as usize][cell].clone()?));
        }
    }
    Some(())
}

/// Whether each contribution is there once; what is there, if not.
fn complete(value: Option<&Contributions>, size: u32) -> Result<(), Contributions> {
    let Some(value) = value else { return Err([].into()) };
    let mut sorted = value.to_vec();
    sorted.sort_by_key(|range| range.start);
    let each_once = sorted.windows(2).all(|pair| pair[0].end == pair[1].start);
    let whole = sorted.first().map(|range| range.start) == Some(0)
        && sorted.last().map(|range| range.end) == Some(size);
    if each_once && whole { Ok(()) } else { Err(Arc::clone(value)) }
}

/// What a rank contributes itself.
fn own(rank: u32) -> Contributions {
    std::iter::once(rank..rank + 1).collect()
}

fn combined(
    operands: &[Operand],
    own: usize,
    cell: usize,
    values: &[Vec<Option<Contributions>>],
) -> Option<Contributions> {
    let mut all: Vec<Range<u32>> = Vec::new();
    for operand in operands {
        let rank = match operand {
            Operand::Own => own,
            Operand::Of(rank) => *rank as usize,
        };
        for range in values[rank][cell].as_ref()?.iter() {
            match all.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => all.push(range.clone()),
            }
        }
    }
    Some(all.into())
}

/// The number of a stage's messages, each of which is sent and received.
fn matched(ranks: &[Vec<Stage>], stage: usize) -> Result<u64, ScheduleFlaw> {
    // What each rank has to send, by receiver.
    let mut wanted: Vec<Vec<(u32, Part)>> = vec![Vec::new(); ranks.len()];
    for (rank, stages) in (0..).zip(ranks) {
        for Piece { rank: from, part } in stages[stage].receives() {
            let sender = wanted.get_mut(from as usize);
            sender.ok_or(ScheduleFlaw::Unmatched { stage, from, to: rank })?.push((rank, part));
        }
    }
    let mut messages = 0;
    for (from, (stages, wanted)) in (0..).zip(ranks.iter().zip(&mut wanted)) {
        let mut sent: Vec<_> = stages[stage].sends.iter().map(|to| (to.rank, to.part)).collect();
        sent.sort_unstable();
        wanted.sort_unstable();
        if sent != *wanted {
            let differs = sent.iter().zip(&*wanted).find(|(one, other)| one != other);
            let longer = if sent.len() > wanted.len() { &sent } else { &*wanted };
            let &(to, _) = match differs {
                Some((one, other)) => one.min(other),
                None => &longer[sent.len().min(wanted.len())],
            };
            return Err(ScheduleFlaw::Unmatched { stage, from, to });
        }
        messages += sent.len() as u64;
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(text: &str, ranks: u32) -> Vec<Vec<Stage>> {
        let schedule = Schedule::parse(ranks, text).unwrap();
        (0..ranks).map(|rank| schedule.stages(rank)).collect()
    }

    #[test]
    fn a_flaw_is_found() {
        assert_eq!(follow(stages("a2,a2", 4)).unwrap().messages, 8);
        let mut silent = stages("a2,a2", 4);
        silent[2][1].sends.clear();
        assert_eq!(follow(silent), Err(ScheduleFlaw::Unmatched { stage: 1, from: 2, to: 0 }));
        let mut twice = stages("a2,a2", 4);
        twice.iter_mut().for_each(|stages| stages[1] = stages[0].clone());
        assert!(matches!(follow(twice), Err(ScheduleFlaw::Incomplete { rank: 0, .. })));
        let mut turned = stages("a2,a2", 4);
        turned[3][1].combines.reverse();
        assert_eq!(follow(turned), Err(ScheduleFlaw::Disagreement { rank: 3 }));
    }
}
