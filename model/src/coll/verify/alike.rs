//! The proof of plans that are the same for all ranks but for the numbers of ranks: one rank is followed in place of all.
//!
//! A [`Symmetry`] takes rank 0 to any other one and all ranks with it. It takes a plan to another one: the peers of its
//! messages get other numbers, and so do the blocks of a space that has one for each rank. It takes what bytes are to
//! something else, too. The proof has three parts:
//! 1. The plan of each rank that is compared is what the symmetry makes of rank 0's plan. Order does not count among
//!    receives that are started one after the other, nor among sends; copies and reductions are compared block by block.
//! 2. In each stage of rank 0, what it receives is what it sends, taken by the symmetry: each message is received in the
//!    stage in which it is sent, with the same length. So all ranks go from stage to stage, and nobody waits for ever.
//! 3. Rank 0 keeps the rules of plans, and its result is right. What a rank sends it is what rank 0 itself has where it
//!    sends its own message, taken by the symmetry.
//!
//! It is the caller who states that inputs and results are taken to those of other ranks, too. Where not all ranks are
//! compared, the proof holds for those that are.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;

use super::contributions::{Combined, ContributionTable};
use super::memory::{MemoryPiece, split_front};
use super::stage::Stage;
use super::{CollectiveOutcome, Job, PlanFlaw, Rank, Spaces, check_peer};
use crate::coll::plan::{Place, Space, Span};
use crate::coll::record::{PlanRecorder, Step, Steps};

/// What takes rank 0 to rank `by`, and all ranks with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symmetry {
    /// `rank + by`, around the end.
    Rotation,
    /// `rank ^ by`, of powers of two.
    Exchange,
}

/// What the elements of a vector are numbered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// There is a block of them for each rank.
    Blocks,
    /// Each rank has a block of them for each rank; its own number stands from bit 40 on.
    OfRanks,
}

/// How the plans of ranks are alike.
#[derive(Clone, Copy, Debug)]
pub struct Alike {
    /// Ranks.
    pub size: u32,
    /// What takes one to the other.
    pub symmetry: Symmetry,
    /// Bytes of a block, at least 1.
    pub block: usize,
    /// Whether the input, the output and the scratch have a block for each rank, in order. Bytes of others stay in place.
    pub moving: [bool; 3],
    /// What elements are.
    pub elements: Elements,
}

/// Where the rank stands in the number of an element.
const RANK: u32 = 40;

impl Alike {
    /// What becomes of a rank when rank 0 becomes `by`.
    const fn image(&self, by: u32, rank: u32) -> u32 {
        match self.symmetry {
            Symmetry::Rotation if rank < self.size - by => rank + by,
            Symmetry::Rotation => rank - (self.size - by),
            Symmetry::Exchange => rank ^ by,
        }
    }

    /// The rank that becomes this one.
    const fn original(&self, by: u32, rank: u32) -> u32 {
        match self.symmetry {
            Symmetry::Rotation if rank >= by => rank - by,
            Symmetry::Rotation => rank + (self.size - by),
            Symmetry::Exchange => rank ^ by,
        }
    }

    /// The span that becomes this one. `None` where it is in more than one block, or behind the last one.
    fn original_span(&self, by: u32, span: Span) -> Option<Span> {
        if !self.moving[span.space as usize] || span.len == 0 {
            return Some(span);
        }
        let (block, at) = (span.at / self.block, span.at % self.block);
        if block >= self.size as usize || at + span.len > self.block {
            return None;
        }
        let block = self.original(by, block as u32) as usize;
        Some(Span { at: block * self.block + at, ..span })
    }

    /// Bytes of a span up to the end of a block that moves.
    const fn in_block(&self, span: Span) -> usize {
        if self.moving[span.space as usize] {
            self.block - span.at % self.block
        } else {
            usize::MAX
        }
    }

    /// The steps of a rank as they are for rank 0, block by block. `None` where there are none.
    fn original_steps(&self, by: u32, steps: &Steps, into: &mut Vec<Step>) -> Option<()> {
        into.clear();
        let span = |span| self.original_span(by, span);
        let rank = |rank| (rank < self.size).then(|| self.original(by, rank));
        // What is copied or reduced, block by block.
        let cut =
            |(one, other): (Span, Span), into: &mut Vec<Step>, step: fn(Span, Span) -> Step| {
                let mut done = 0;
                while done < one.len {
                    let (left, right) =
                        (one.part(done, one.len - done), other.part(done, one.len - done));
                    let len = left.len.min(self.in_block(left)).min(self.in_block(right));
                    into.push(step(span(left.part(0, len))?, span(right.part(0, len))?));
                    done += len;
                }
                Some(())
            };
        for step in steps.iter() {
            match step {
                Step::Send { to, from, phase } => {
                    into.push(Step::Send { to: rank(to)?, from: span(from)?, phase });
                }
                Step::Recv { from, into: at, phase } => {
                    into.push(Step::Recv { from: rank(from)?, into: span(at)?, phase });
                }
                Step::Wait => into.push(step),
                Step::Copy { from, into: to } => {
                    cut((from, to), into, |from, into| Step::Copy { from, into })?;
                }
                Step::Reduce { left, right } => {
                    cut((left, right), into, |left, right| Step::Reduce { left, right })?;
                }
                Step::Track(_) | Step::Join => return None,
            }
        }
        // Messages of one pair of ranks and one phase keep their order.
        for messages in
            into.chunk_by_mut(|one, next| kind(one).is_some() && kind(one) == kind(next))
        {
            messages.sort_by_key(peer);
        }
        Some(())
    }

    /// What an element of rank 0's becomes at rank `by`: of a block of elements, the first one.
    const fn image_element(&self, by: u32, element: u64) -> u64 {
        let (rank, at) = (element >> RANK, element & ((1 << RANK) - 1));
        let (block, at) = (at / self.block as u64, at % self.block as u64);
        let block = self.image(by, block as u32) as u64;
        let rank = match self.elements {
            Elements::Blocks => rank,
            Elements::OfRanks => self.image(by, rank as u32) as u64,
        };
        (rank << RANK) + block * self.block as u64 + at
    }

    /// What pieces of rank 0's become at rank `by`. `None` where some are combined, which nothing has to send yet.
    fn image_pieces(
        &self,
        by: u32,
        mut pieces: Vec<MemoryPiece>,
        contributions: &mut ContributionTable,
    ) -> Option<Vec<MemoryPiece>> {
        let mut images = Vec::new();
        pieces.reverse();
        while let Some(&piece) = pieces.last() {
            let combined = if piece.combined == Combined::DATA {
                Combined::DATA
            } else {
                let rank = contributions.single(piece.combined)?;
                contributions.of(self.image(by, rank))
            };
            let at = piece.element % (1 << RANK) % self.block as u64;
            let len = piece.len.min(self.block - at as usize);
            images.push(MemoryPiece {
                len,
                element: self.image_element(by, piece.element),
                combined,
            });
            split_front(&mut pieces, len);
        }
        Some(images)
    }

    /// Compares the plans of ranks with rank 0's, and follows that. `spaces` are its memories.
    ///
    /// # Errors
    /// [`PlanFlaw::NotAlike`], or the first flaw of rank 0's plan.
    pub fn follow(
        &self,
        algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place) -> Result<(), Infallible>,
        compared: impl IntoIterator<Item = u32>,
        spaces: impl Fn(&mut ContributionTable) -> Spaces,
    ) -> Result<CollectiveOutcome, PlanFlaw> {
        let steps = |rank| {
            let mut recorder = PlanRecorder::default();
            let Ok(()) = algorithm(&mut recorder, Place { rank, size: self.size });
            recorder.finish().ok_or(PlanFlaw::TooGreat(rank))
        };
        let (mut first, mut other) = (Vec::new(), Vec::new());
        self.original_steps(0, &steps(0)?, &mut first).ok_or(PlanFlaw::NotAlike(0))?;
        for rank in compared {
            let same = self.original_steps(rank, &steps(rank)?, &mut other);
            if same.is_none() || first != other {
                return Err(PlanFlaw::NotAlike(rank));
            }
        }
        self.follow_first(&first, spaces)
    }

    /// Whether the plans of a collective with this root are those of root 0 when ranks are counted from the root on. Then
    /// they are right if those of root 0 are.
    ///
    /// # Errors
    /// [`PlanFlaw::NotAlike`].
    pub fn compare_root(
        &self,
        root: u32,
        algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place, u32) -> Result<(), Infallible>,
    ) -> Result<(), PlanFlaw> {
        let (mut first, mut other) = (Vec::new(), Vec::new());
        for relative in 0..self.size {
            let rank = self.image(root, relative);
            for (rank, root, steps) in [(relative, 0, &mut first), (rank, root, &mut other)] {
                let mut recorder = PlanRecorder::default();
                let Ok(()) = algorithm(&mut recorder, Place { rank, size: self.size }, root);
                let recorded = recorder.finish().ok_or(PlanFlaw::TooGreat(rank))?;
                self.original_steps(root, &recorded, steps).ok_or(PlanFlaw::NotAlike(rank))?;
            }
            if first != other {
                return Err(PlanFlaw::NotAlike(rank));
            }
        }
        Ok(())
    }

    /// Follows rank 0.
    fn follow_first(
        &self,
        steps: &[Step],
        spaces: impl Fn(&mut ContributionTable) -> Spaces,
    ) -> Result<CollectiveOutcome, PlanFlaw> {
        let mut contributions = ContributionTable::default();
        let rank = Rank::new(spaces(&mut contributions), 1);
        let mut job = Job { ranks: vec![rank], contributions, ..Job::default() };
        let (mut sends, mut receives) = (BTreeMap::<_, VecDeque<Span>>::new(), Vec::new());
        for &step in steps {
            let rank = &mut job.ranks[0];
            match step {
                Step::Copy { from, into } => rank.copy(0, 0, from, into)?,
                Step::Reduce { left, right } => {
                    rank.reduce(&mut job.contributions, (0, 0), left, right)?;
                }
                Step::Send { to, from, phase } => {
                    check_peer(self.size, 0, to)?;
                    rank.check(0, 0, from, false)?;
                    rank.stages[0].send(from);
                    rank.sent += 1;
                    sends.entry((to, phase)).or_default().push_back(from);
                }
                Step::Recv { from, into, phase } => {
                    check_peer(self.size, 0, from)?;
                    rank.check(0, 0, into, true)?;
                    rank.stages[0].receive(into);
                    receives.push((from, into, phase));
                }
                _ => self.end_stage(&mut job, &mut sends, &mut receives)?,
            }
        }
        if !job.ranks[0].stages[0].is_empty() {
            return Err(PlanFlaw::NotAwaited(0));
        }
        let sent = vec![job.ranks[0].sent; self.size as usize];
        let outputs = job.ranks.into_iter().map(|rank| {
            let [_, output, _] = rank.spaces;
            output
        });
        Ok(CollectiveOutcome { outputs: outputs.collect(), sent, contributions: job.contributions })
    }

    /// Delivers the messages of a stage.
    fn end_stage(
        &self,
        job: &mut Job,
        sends: &mut BTreeMap<(u32, u8), VecDeque<Span>>,
        receives: &mut Vec<(u32, Span, u8)>,
    ) -> Result<(), PlanFlaw> {
        let deadlock = PlanFlaw::Deadlock { ranks: self.size, first: 0 };
        let mut arrivals = Vec::new();
        for (from, into, phase) in receives.drain(..) {
            // What the sender sends to rank 0 is what rank 0 sends to the rank that rank 0 would be for it.
            let sent =
                sends.get_mut(&(self.original(from, 0), phase)).and_then(VecDeque::pop_front);
            let sent = sent.ok_or_else(|| deadlock.clone())?;
            if sent.len != into.len {
                return Err(PlanFlaw::Lengths { from, to: 0, sent: sent.len, received: into.len });
            }
            let pieces = job.ranks[0].read(0, sent)?;
            let pieces = self.image_pieces(from, pieces, &mut job.contributions);
            arrivals.push((into, pieces.ok_or(PlanFlaw::NotAlike(from))?));
        }
        if sends.values().any(|left| !left.is_empty()) {
            return Err(deadlock);
        }
        sends.clear();
        for (into, pieces) in arrivals {
            job.ranks[0].memory(into.space).write(into.at, &pieces);
        }
        job.ranks[0].stages[0] = Stage::default();
        Ok(())
    }
}

/// Whether a step sends or receives, if it does either.
const fn kind(step: &Step) -> Option<bool> {
    match step {
        Step::Send { .. } => Some(true),
        Step::Recv { .. } => Some(false),
        _ => None,
    }
}

/// The other rank of a message, and its phase.
const fn peer(step: &Step) -> (u32, u8) {
    match *step {
        Step::Send { to: peer, phase, .. } | Step::Recv { from: peer, phase, .. } => (peer, phase),
        _ => (0, 0),
    }
}

/// Whether a space moves, for [`Alike::moving`].
pub const fn moving(spaces: &[Space]) -> [bool; 3] {
    let mut moving = [false; 3];
    let mut index = 0;
    while index < spaces.len() {
        moving[spaces[index] as usize] = true;
        index += 1;
    }
    moving
}
