//! The proof of plans: all ranks are followed at once, with bytes that know what they are.
//!
//! A byte is an element of a vector and the ranks whose contributions it holds, in order. Bytes are kept as
//! [intervals](SymbolicMemory), so that a vector of a thousand ranks' contributions is as short as that of one. Sends are
//! rendezvous: they end when they are matched, so that a plan that relies on buffering is a deadlock here. The rules
//! of [`plan`](super::plan) are checked at each step.
//!
//! Plans with tracks are followed twice: in the order in which they are stated, and each track as far as it comes.
//! Plans that differ by the numbers of ranks only are followed at [one rank](Alike) in place of all, and others of many
//! ranks at [some](Sample).

mod alike;
mod contributions;
mod memory;
mod sampled;
mod sorted;
mod stage;
mod tracks;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;

pub use alike::{Alike, Elements, Symmetry, moving};
pub use contributions::{Combined, ContributionTable};
pub use memory::{MemoryPiece, SymbolicMemory};
pub use sampled::{Sample, Sampled, SampledMessage};
use sorted::Sorted;
use stage::Stage;
use tracks::{Cursor, Touched};

use super::plan::{Place, Space, Span};
use super::record::{PlanRecorder, Step, Steps};

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanFlaw {
    /// A number of a rank's plan is too great to be written down.
    TooGreat(u32),
    /// A rank uses a span that is not in its space.
    Outside(u32, Span),
    /// A rank writes its input.
    InputWritten(u32, Span),
    /// A rank uses a span that it receives into, or writes one that it sends, before the stage has ended.
    InUse(u32, Span),
    /// A rank copies or reduces between spans that overlap.
    Overlap(u32, Span, Span),
    /// A rank reads bytes that were never written.
    Unwritten(u32, Span),
    /// A rank reduces bytes that are different elements, or none of a vector.
    Mixed(u32, Span, Span),
    /// A rank names one that does not exist, or itself.
    NoPeer(u32, u32),
    /// What one rank sends is not as long as what the other one receives.
    Lengths {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// Bytes sent.
        sent: usize,
        /// Bytes that are received.
        received: usize,
    },
    /// So many ranks wait for ever.
    Deadlock {
        /// How many.
        ranks: u32,
        /// The first of them.
        first: u32,
    },
    /// A rank uses bytes in one track that another one writes.
    Shared(u32, Span),
    /// A rank names one, in one phase, in two tracks.
    SharedPhase(u32, u8),
    /// A rank's plan ends before its operations do.
    NotAwaited(u32),
    /// A rank does something else than rank 0 with the numbers of ranks changed.
    NotAlike(u32),
    /// A rank's output does not hold what it has to.
    Wrong {
        /// The rank.
        rank: u32,
        /// The first byte of those that are wrong.
        at: usize,
    },
}

impl fmt::Display for PlanFlaw {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooGreat(rank) => write!(out, "rank {rank} uses spans beyond a terabyte"),
            Self::Outside(rank, span) => write!(out, "rank {rank}: {span:?} is not in its space"),
            Self::InputWritten(rank, span) => write!(out, "rank {rank} writes its input, {span:?}"),
            Self::InUse(rank, span) => {
                write!(out, "rank {rank} uses {span:?} in a stage that sends or receives it")
            }
            Self::Overlap(rank, one, other) => {
                write!(out, "rank {rank} combines {one:?} and {other:?}, which overlap")
            }
            Self::Unwritten(rank, span) => {
                write!(out, "rank {rank} reads {span:?}, some of which was never written")
            }
            Self::Mixed(rank, one, other) => {
                write!(out, "rank {rank} reduces different elements, {one:?} and {other:?}")
            }
            Self::NoPeer(rank, peer) => write!(out, "rank {rank} has no peer {peer}"),
            Self::Lengths { from, to, sent, received } => {
                write!(out, "rank {from} sends {sent} bytes, of which rank {to} expects {received}")
            }
            Self::Deadlock { ranks, first } => {
                write!(out, "{ranks} ranks wait for ever, rank {first} among them")
            }
            Self::Shared(rank, span) => {
                write!(out, "rank {rank} uses {span:?} in two tracks, one of which writes it")
            }
            Self::SharedPhase(rank, phase) => {
                write!(out, "rank {rank} names a rank in two tracks of phase {phase}")
            }
            Self::NotAwaited(rank) => write!(out, "rank {rank} ends before its operations do"),
            Self::NotAlike(rank) => {
                write!(out, "rank {rank} does something else than rank 0 under other numbers")
            }
            Self::Wrong { rank, at } => write!(out, "rank {rank} has a wrong result at byte {at}"),
        }
    }
}

impl std::error::Error for PlanFlaw {}

/// The memories of a rank at the start.
#[derive(Clone, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "the three spaces of a plan")]
pub struct Spaces {
    /// What it contributes.
    pub input: SymbolicMemory,
    /// Its result.
    pub output: SymbolicMemory,
    /// Bytes of scratch.
    pub scratch: usize,
}

/// How a collective ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct CollectiveOutcome {
    /// The output of each rank.
    pub outputs: Vec<SymbolicMemory>,
    /// Messages sent by each rank.
    pub sent: Vec<u64>,
    /// What the outputs were combined of.
    pub contributions: ContributionTable,
}

/// The steps of each of `size` ranks.
///
/// # Errors
/// [`PlanFlaw::TooGreat`].
pub fn record(
    size: u32,
    algorithm: impl Fn(&mut PlanRecorder<Infallible>, Place) -> Result<(), Infallible>,
) -> Result<Vec<Steps>, PlanFlaw> {
    let one = |rank| {
        let mut recorder = PlanRecorder::default();
        let Ok(()) = algorithm(&mut recorder, Place { rank, size });
        recorder.finish().ok_or(PlanFlaw::TooGreat(rank))
    };
    (0..size).map(one).collect()
}

/// Follows ranks with these steps. `spaces` makes the memories of each, with contributions that it takes from its
/// second argument.
///
/// # Errors
/// The first [`PlanFlaw`] that is met.
pub fn follow(
    steps: Vec<Steps>,
    spaces: impl Fn(u32, &mut ContributionTable) -> Spaces,
) -> Result<CollectiveOutcome, PlanFlaw> {
    if steps.iter().any(|steps| steps.tracks() > 1) {
        follow_by(steps.clone(), &spaces, true)?;
    }
    follow_by(steps, &spaces, false)
}

/// The same, in the order in which steps are stated or by tracks.
fn follow_by(
    steps: Vec<Steps>,
    spaces: &impl Fn(u32, &mut ContributionTable) -> Spaces,
    as_stated: bool,
) -> Result<CollectiveOutcome, PlanFlaw> {
    let mut contributions = ContributionTable::default();
    let ranks: Vec<_> = (0..)
        .zip(steps)
        .map(|(rank, steps)| {
            let tracks = steps.tracks();
            let rank = Rank::new(spaces(rank, &mut contributions), tracks);
            Rank { cursors: Cursor::of(tracks, as_stated), steps, ..rank }
        })
        .collect();
    let unmatched = ranks.iter().map(|_| Sorted::default()).collect();
    let mut job = Job { ranks, contributions, unmatched, able: Vec::new() };
    // Rank 0 goes first.
    job.able.extend((0..job.size()).rev());
    while let Some(rank) = job.able.pop() {
        job.advance(rank)?;
    }
    job.finish()
}

#[derive(Debug)]
struct Rank {
    steps: Steps,
    /// One for each track, or one for all.
    cursors: Vec<Cursor>,
    spaces: [SymbolicMemory; 3],
    /// Of each track.
    stages: Vec<Stage>,
    /// What tracks have used since the last join.
    touched: Touched,
    sent: u64,
}

impl Rank {
    /// One without steps.
    fn new(spaces: Spaces, tracks: u8) -> Self {
        let Spaces { input, output, scratch } = spaces;
        Self {
            steps: Steps::default(),
            cursors: Vec::new(),
            spaces: [input, output, SymbolicMemory::new(scratch)],
            stages: (0..tracks).map(|_| Stage::default()).collect(),
            touched: Touched::default(),
            sent: 0,
        }
    }

    fn memory(&mut self, space: Space) -> &mut SymbolicMemory {
        &mut self.spaces[space as usize]
    }

    /// Whether this rank, whose number is `me`, may use a span in a track.
    fn check(&mut self, me: u32, track: u8, span: Span, write: bool) -> Result<(), PlanFlaw> {
        if span
            .at
            .checked_add(span.len)
            .is_none_or(|end| end > self.spaces[span.space as usize].len())
        {
            return Err(PlanFlaw::Outside(me, span));
        }
        if write && span.space == Space::Input && span.len > 0 {
            return Err(PlanFlaw::InputWritten(me, span));
        }
        if self.stages[usize::from(track)].forbids(span, write) {
            return Err(PlanFlaw::InUse(me, span));
        }
        if self.stages.len() > 1 && !self.touched.use_span(track, span, write) {
            return Err(PlanFlaw::Shared(me, span));
        }
        Ok(())
    }

    /// Whether a cursor stands at a step that ends stages, and may go on.
    fn may_end(&self, cursor: &Cursor) -> bool {
        match self.steps.get(cursor.next) {
            Some(Step::Wait) => self.stages[usize::from(cursor.track)].is_matched(),
            // All others have come to the same join.
            Some(Step::Join) => {
                let same = |other: &Cursor| other.next == cursor.next;
                self.stages.iter().all(Stage::is_matched) && self.cursors.iter().all(same)
            }
            _ => false,
        }
    }

    /// Whether a track may name a rank in a phase, to send or to receive.
    fn check_phase(&mut self, me: u32, track: u8, named: (u32, u8, bool)) -> Result<(), PlanFlaw> {
        if self.stages.len() > 1 && !self.touched.use_phase(track, named) {
            return Err(PlanFlaw::SharedPhase(me, named.1));
        }
        Ok(())
    }

    fn read(&self, me: u32, span: Span) -> Result<Vec<MemoryPiece>, PlanFlaw> {
        self.spaces[span.space as usize]
            .read(span.at, span.len)
            .ok_or(PlanFlaw::Unwritten(me, span))
    }

    /// Copies between spans of this rank, whose number is `me`.
    fn copy(&mut self, me: u32, track: u8, from: Span, into: Span) -> Result<(), PlanFlaw> {
        if from == into {
            return Ok(());
        }
        if from.overlaps(into) {
            return Err(PlanFlaw::Overlap(me, from, into));
        }
        self.check(me, track, from, false)?;
        self.check(me, track, into, true)?;
        let pieces = self.read(me, from)?;
        self.memory(into.space).write(into.at, &pieces);
        Ok(())
    }

    /// Reduces spans of this rank, whose number is `me`.
    fn reduce(
        &mut self,
        contributions: &mut ContributionTable,
        (me, track): (u32, u8),
        left: Span,
        right: Span,
    ) -> Result<(), PlanFlaw> {
        if left.overlaps(right) {
            return Err(PlanFlaw::Overlap(me, left, right));
        }
        self.check(me, track, left, false)?;
        self.check(me, track, right, true)?;
        let one = |span: Span| self.spaces[span.space as usize].read_one(span.at, span.len);
        if let (Some(one), Some(other)) = (one(left), one(right))
            && one.element == other.element
            && let Some(combined) = contributions.join(one.combined, other.combined)
        {
            self.memory(right.space).write(right.at, &[MemoryPiece { combined, ..other }]);
            return Ok(());
        }
        let (mut lefts, mut rights) = (self.read(me, left)?, self.read(me, right)?);
        lefts.reverse();
        rights.reverse();
        let mut made = Vec::new();
        while let (Some(&one), Some(&other)) = (lefts.last(), rights.last()) {
            let len = one.len.min(other.len);
            let joined = contributions.join(one.combined, other.combined);
            let Some(combined) = joined.filter(|_| one.element == other.element) else {
                return Err(PlanFlaw::Mixed(me, left, right));
            };
            made.push(MemoryPiece { len, element: one.element, combined });
            memory::split_front(&mut lefts, len);
            memory::split_front(&mut rights, len);
        }
        self.memory(right.space).write(right.at, &made);
        Ok(())
    }
}

/// Operations of one sender, receiver and phase that wait for the other side. They match in order.
#[derive(Debug)]
struct Unmatched {
    sends: bool,
    first: End,
    others: VecDeque<End>,
}

/// One side of a message: its bytes and its track.
type End = (Span, u8);

#[derive(Debug, Default)]
struct Job {
    ranks: Vec<Rank>,
    contributions: ContributionTable,
    /// For each receiver, by sender and phase.
    unmatched: Vec<Sorted<(u32, u8), Unmatched>>,
    /// Ranks that have something to do.
    able: Vec<u32>,
}

/// Whether a rank of so many may send to another one, or receive from it.
fn check_peer(size: u32, me: u32, peer: u32) -> Result<(), PlanFlaw> {
    if peer < size && peer != me { Ok(()) } else { Err(PlanFlaw::NoPeer(me, peer)) }
}

impl Job {
    fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Carries out the steps of a rank until all of its tracks have to wait.
    fn advance(&mut self, me: u32) -> Result<(), PlanFlaw> {
        loop {
            let mut moved = false;
            for index in 0..self.ranks[me as usize].cursors.len() {
                while self.take_step(me, index)? {
                    moved = true;
                }
            }
            // Where there is one, it has come as far as it can.
            if !moved || self.ranks[me as usize].cursors.len() == 1 {
                return Ok(());
            }
        }
    }

    /// Carries out the next step of a cursor. Whether it could.
    fn take_step(&mut self, me: u32, index: usize) -> Result<bool, PlanFlaw> {
        let size = self.size();
        let rank = &mut self.ranks[me as usize];
        let Some(step) = rank.cursors[index].find(&rank.steps) else { return Ok(false) };
        let cursor = rank.cursors[index];
        let track = cursor.track;
        match step {
            Step::Wait if rank.may_end(&cursor) => rank.stages[usize::from(track)].end(),
            Step::Join if rank.may_end(&cursor) => {
                rank.stages.iter_mut().for_each(Stage::end);
                rank.touched = Touched::default();
                rank.cursors.iter_mut().for_each(Cursor::pass_join);
                return Ok(true);
            }
            Step::Wait | Step::Join => return Ok(false),
            // It is the cursor's.
            Step::Track(_) => {}
            Step::Copy { from, into } => rank.copy(me, track, from, into)?,
            Step::Reduce { left, right } => {
                rank.reduce(&mut self.contributions, (me, track), left, right)?;
            }
            Step::Send { to, from, phase } => {
                check_peer(size, me, to)?;
                rank.check(me, track, from, false)?;
                rank.check_phase(me, track, (to, phase, true))?;
                rank.stages[usize::from(track)].send(from);
                rank.sent += 1;
                self.start((me, to, phase), (from, track), true)?;
            }
            Step::Recv { from, into, phase } => {
                check_peer(size, me, from)?;
                rank.check(me, track, into, true)?;
                rank.check_phase(me, track, (from, phase, false))?;
                rank.stages[usize::from(track)].receive(into);
                self.start((from, me, phase), (into, track), false)?;
            }
        }
        self.ranks[me as usize].cursors[index].next += 1;
        Ok(true)
    }

    /// An operation begins: it is matched, or waits for the other side.
    fn start(
        &mut self,
        (from, to, phase): (u32, u32, u8),
        end: End,
        send: bool,
    ) -> Result<(), PlanFlaw> {
        let waiting = &mut self.unmatched[to as usize];
        let Some(first) = waiting.get_mut((from, phase)) else {
            let new = Unmatched { sends: send, first: end, others: VecDeque::new() };
            waiting.insert((from, phase), new);
            return Ok(());
        };
        if first.sends == send {
            first.others.push_back(end);
            return Ok(());
        }
        let other = first.first;
        match first.others.pop_front() {
            Some(next) => first.first = next,
            None => drop(waiting.remove((from, phase))),
        }
        let (sent, into) = if send { (end, other) } else { (other, end) };
        self.deliver(from, to, sent, into)
    }

    /// Moves a message and ends both operations.
    fn deliver(
        &mut self,
        from: u32,
        to: u32,
        (sent, sender_track): End,
        (into, receiver_track): End,
    ) -> Result<(), PlanFlaw> {
        if sent.len != into.len {
            return Err(PlanFlaw::Lengths { from, to, sent: sent.len, received: into.len });
        }
        let sender = &self.ranks[from as usize];
        match sender.spaces[sent.space as usize].read_one(sent.at, sent.len) {
            Some(piece) => self.ranks[to as usize].memory(into.space).write(into.at, &[piece]),
            None => {
                let pieces = sender.read(from, sent)?;
                self.ranks[to as usize].memory(into.space).write(into.at, &pieces);
            }
        }
        for (rank, track) in [(from, sender_track), (to, receiver_track)] {
            let state = &mut self.ranks[rank as usize];
            state.stages[usize::from(track)].matched();
            // A rank that takes a step just now stands at none that ends a stage with this one.
            if state.cursors.iter().any(|cursor| state.may_end(cursor)) {
                self.able.push(rank);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<CollectiveOutcome, PlanFlaw> {
        let stuck = |rank: &Rank| rank.cursors.iter().any(|cursor| cursor.next < rank.steps.len());
        let ranks = self.ranks.iter().filter(|rank| stuck(rank)).count() as u32;
        if let Some(first) = self.ranks.iter().position(stuck) {
            return Err(PlanFlaw::Deadlock { ranks, first: first as u32 });
        }
        // A message that nobody takes is an operation of its sender that is not waited for.
        if let Some(rank) =
            self.ranks.iter().position(|rank| !rank.stages.iter().all(Stage::is_empty))
        {
            return Err(PlanFlaw::NotAwaited(rank as u32));
        }
        let sent = self.ranks.iter().map(|rank| rank.sent).collect();
        let outputs = self.ranks.into_iter().map(|rank| {
            let [_, output, _] = rank.spaces;
            output
        });
        Ok(CollectiveOutcome {
            outputs: outputs.collect(),
            sent,
            contributions: self.contributions,
        })
    }
}
