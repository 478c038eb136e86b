//! The proof of plans at some ranks in place of all, for algorithms of many ranks with a message for each pair of them.
//!
//! What a chosen rank receives is not followed to where it comes from: the caller says what it has to be. Of each chosen
//! rank it is proven that its plan keeps the rules, that all it sends has been written before, and that its result is what
//! it has to be if what it receives is. Of each pair of chosen ranks it is proven that their messages match one by one:
//! both sides have the same [`Time`] and the same length, and what is sent is what the receiver has to get.
//!
//! A rank does nothing at a time before it has ended all that it did in earlier stages, and those have earlier times. So what
//! holds at all times before one gives what is sent at it, and both sides of a message are there. If all ranks and all
//! pairs are like the chosen ones, nobody waits for ever and all results are right. Of ranks that are not chosen nothing
//! is proven. Plans with tracks are not for this, nor are those of one layer whose ranks have different stages.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;

use super::contributions::ContributionTable;
use super::memory::{MemoryPiece, SymbolicMemory, split_front};
use super::stage::Stage;
use super::{PlanFlaw, Rank, Spaces, check_peer};
use crate::coll::layers::PHASES;
use crate::coll::plan::{Place, Span};
use crate::coll::record::{PlanRecorder, Step};

/// A message that a chosen rank receives.
#[derive(Clone, Copy, Debug)]
pub struct SampledMessage {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// The receiver's stage in the layer, counted from 0.
    pub stage: u32,
    /// Where it goes.
    pub into: Span,
}

/// Some of the ranks.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// How many ranks there are.
    pub size: u32,
    /// Those that are followed, in ascending order, each once.
    pub chosen: &'a [u32],
}

/// How the chosen ranks ended.
#[derive(Debug)]
pub struct Sampled {
    /// Their outputs, in the order in which they were chosen.
    pub outputs: Vec<SymbolicMemory>,
    /// What the outputs were combined of.
    pub contributions: ContributionTable,
    /// Messages between two of them, of which both sides were compared.
    pub compared: u64,
}

/// When a rank sends or receives: the layer, which phases give, and the stage, counted from the layer's first one at this rank.
/// Ranks that have no part in a layer so have the same times in the next one as those that have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Time {
    layer: u8,
    stage: u32,
}

/// The times of a rank. They rise from stage to stage, since phases of a plan never fall.
#[derive(Default)]
struct Clock {
    /// Stages that have ended.
    ended: u32,
    /// The layer of the last message, and how many stages had ended when it began.
    layer: (u8, u32),
}

impl Clock {
    /// The time of a message with this phase.
    fn message(&mut self, phase: u8) -> Time {
        let layer = phase / PHASES;
        if self.layer.0 != layer {
            self.layer = (layer, self.ended);
        }
        Time { layer, stage: self.ended - self.layer.1 }
    }
}

/// One side of a message between two chosen ranks.
struct Side {
    time: Time,
    span: Span,
    pieces: Vec<MemoryPiece>,
}

/// By sender, receiver and phase, in order.
type Sides = BTreeMap<(u32, u32, u8), VecDeque<Side>>;

impl Sample<'_> {
    fn has(&self, rank: u32) -> bool {
        self.chosen.binary_search(&rank).is_ok()
    }

    /// Follows the chosen ranks. `spaces` makes the memories of each, `arriving` says what a message has to be.
    ///
    /// # Errors
    /// The first [`PlanFlaw`] that is met.
    ///
    /// # Panics
    /// Where a plan has tracks, and where the chosen ranks are not in ascending order.
    pub fn follow(
        &self,
        algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place) -> Result<(), Infallible>,
        spaces: impl Fn(u32, &mut ContributionTable) -> Spaces,
        arriving: impl Fn(SampledMessage, &mut ContributionTable) -> Vec<MemoryPiece>,
    ) -> Result<Sampled, PlanFlaw> {
        assert!(self.chosen.is_sorted_by(|one, next| one < next), "ranks in ascending order");
        let mut contributions = ContributionTable::default();
        let (mut sent, mut received, mut outputs) = (Sides::new(), Sides::new(), Vec::new());
        for &me in self.chosen {
            let mut recorder = PlanRecorder::default();
            let Ok(()) = algorithm(&mut recorder, Place { rank: me, size: self.size });
            let steps = recorder.finish().ok_or(PlanFlaw::TooGreat(me))?;
            let mut rank = Rank::new(spaces(me, &mut contributions), 1);
            let (mut clock, mut coming) = (Clock::default(), Vec::new());
            for step in steps.iter() {
                match step {
                    Step::Copy { from, into } => rank.copy(me, 0, from, into)?,
                    Step::Reduce { left, right } => {
                        rank.reduce(&mut contributions, (me, 0), left, right)?;
                    }
                    Step::Send { to, from: span, phase } => {
                        check_peer(self.size, me, to)?;
                        rank.check(me, 0, span, false)?;
                        rank.stages[0].send(span);
                        let time = clock.message(phase);
                        let pieces = rank.read(me, span)?;
                        if self.has(to) {
                            let side = Side { time, span, pieces };
                            sent.entry((me, to, phase)).or_default().push_back(side);
                        }
                    }
                    Step::Recv { from, into: span, phase } => {
                        check_peer(self.size, me, from)?;
                        rank.check(me, 0, span, true)?;
                        rank.stages[0].receive(span);
                        let time = clock.message(phase);
                        coming.push((from, span, phase, time));
                    }
                    Step::Wait => {
                        for (from, span, phase, time) in coming.drain(..) {
                            let Time { stage, .. } = time;
                            let arrival = SampledMessage { from, to: me, stage, into: span };
                            let mut pieces = arriving(arrival, &mut contributions);
                            pieces.retain(|piece| piece.len > 0);
                            let due = pieces.iter().map(|piece| piece.len).sum();
                            if due != span.len {
                                let (sent, received) = (due, span.len);
                                return Err(PlanFlaw::Lengths { from, to: me, sent, received });
                            }
                            rank.memory(span.space).write(span.at, &pieces);
                            if self.has(from) {
                                let side = Side { time, span, pieces };
                                received.entry((from, me, phase)).or_default().push_back(side);
                            }
                        }
                        rank.stages[0] = Stage::default();
                        clock.ended += 1;
                    }
                    Step::Track(_) | Step::Join => panic!("rank {me} has tracks"),
                }
            }
            if !rank.stages[0].is_empty() {
                return Err(PlanFlaw::NotAwaited(me));
            }
            let [_, output, _] = rank.spaces;
            outputs.push(output);
        }
        let compared = compare(sent, received, &contributions)?;
        Ok(Sampled { outputs, contributions, compared })
    }
}

/// Compares the two sides of all messages, of which it gives the number.
fn compare(
    mut sent: Sides,
    received: Sides,
    contributions: &ContributionTable,
) -> Result<u64, PlanFlaw> {
    let mut compared = 0;
    for ((from, to, phase), all) in received {
        let mut sides = sent.remove(&(from, to, phase)).unwrap_or_default();
        for into in all {
            let side = sides.pop_front().filter(|side| side.time == into.time);
            let side = side.ok_or(PlanFlaw::Deadlock { ranks: 1, first: to })?;
            if side.span.len != into.span.len {
                let (sent, received) = (side.span.len, into.span.len);
                return Err(PlanFlaw::Lengths { from, to, sent, received });
            }
            if !are_same(side.pieces, into.pieces, contributions) {
                return Err(PlanFlaw::Wrong { rank: to, at: into.span.at });
            }
            compared += 1;
        }
        if !sides.is_empty() {
            return Err(PlanFlaw::NotAwaited(from));
        }
    }
    // What nobody receives.
    sent.keys().next().map_or(Ok(compared), |&(from, ..)| Err(PlanFlaw::NotAwaited(from)))
}

/// Whether pieces are the same elements of the same ranks, however they are cut.
fn are_same(
    mut one: Vec<MemoryPiece>,
    mut other: Vec<MemoryPiece>,
    contributions: &ContributionTable,
) -> bool {
    one.reverse();
    other.reverse();
    while let (Some(&left), Some(&right)) = (one.last(), other.last()) {
        if left.element != right.element || !contributions.same_ranks(left.combined, right.combined)
        {
            return false;
        }
        let len = left.len.min(right.len);
        split_front(&mut one, len);
        split_front(&mut other, len);
    }
    one.is_empty() && other.is_empty()
}

#[cfg(test)]
mod tests;
