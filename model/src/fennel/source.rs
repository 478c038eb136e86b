//! Where the steps of ranks come from: they were written down, or an algorithm states them again whenever a rank goes
//! on.

use crate::coll::plan::{Place, Plan, Span};
use crate::coll::record::{PlanRecorder, Step, Steps};
use crate::stages::{Part, Stage};

/// The steps of all ranks.
pub trait StepSource {
    /// How many ranks there are.
    fn ranks(&self) -> u32;

    /// Hands the steps of a rank from number `first` on to `take`, until that says no.
    fn steps(&self, rank: u32, first: usize, take: &mut dyn FnMut(Step) -> bool);
}

/// Steps that were written down, for each rank.
impl StepSource for [Steps] {
    fn ranks(&self) -> u32 {
        self.len() as u32
    }

    fn steps(&self, rank: u32, first: usize, take: &mut dyn FnMut(Step) -> bool) {
        let steps = &self[rank as usize];
        let mut next = first;
        while let Some(step) = steps.get(next) {
            if !take(step) {
                return;
            }
            next += 1;
        }
    }
}

/// Stages of ranks as the published simulator runs them: a rank sends its value, waits, and computes once for all that
/// it has received. (The engine reduces value by value; its steps are those of [`multiply`](crate::coll::multiply).)
#[derive(Clone, Copy, Debug)]
pub struct Published<F> {
    ranks: u32,
    bytes: usize,
    stages: F,
}

impl<F: Fn(u32) -> Vec<Stage>> Published<F> {
    /// The stages of so many ranks, whose values have `bytes`.
    pub const fn new(ranks: u32, bytes: usize, stages: F) -> Self {
        Self { ranks, bytes, stages }
    }
}

impl<F: Fn(u32) -> Vec<Stage>> StepSource for Published<F> {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn steps(&self, rank: u32, first: usize, take: &mut dyn FnMut(Step) -> bool) {
        let value = Span::input(self.bytes);
        let stages = (self.stages)(rank);
        let steps = stages.iter().flat_map(|stage| {
            let part = move |part: Part| {
                let bytes = part.elements(value.len);
                value.part(bytes.start, bytes.len())
            };
            // A stage in which nothing is received is no reason to compute.
            let received = stage.receives().next().is_some();
            let combines = stage.receives().count() > stage.takes.len();
            let recv = stage.receives().map(move |from| Step::Recv {
                from: from.rank,
                into: part(from.part),
                phase: 0,
            });
            let send = stage.sends.iter().map(move |to| Step::Send {
                to: to.rank,
                from: part(to.part),
                phase: 0,
            });
            let wait = received.then_some(Step::Wait);
            let reduced = part(stage.part);
            let compute = combines.then_some(Step::Reduce { left: reduced, right: reduced });
            send.chain(recv).chain(wait).chain(compute)
        });
        for step in steps.skip(first) {
            if !take(step) {
                return;
            }
        }
    }
}

/// Writes the steps of all ranks down. `None` where a span reaches beyond a terabyte.
pub fn write_down(source: &(impl StepSource + ?Sized)) -> Option<Vec<Steps>> {
    let ranks = 0..source.ranks();
    ranks
        .map(|rank| {
            let mut recorder = PlanRecorder::<Stopped>::default();
            source.steps(rank, 0, &mut |step| {
                let done = match step {
                    Step::Send { to, from, phase } => {
                        recorder.phase(phase);
                        recorder.send(to, from)
                    }
                    Step::Recv { from, into, phase } => {
                        recorder.phase(phase);
                        recorder.recv(from, into)
                    }
                    Step::Wait => recorder.wait(),
                    Step::Copy { from, into } => {
                        recorder.copy(from, into);
                        Ok(())
                    }
                    Step::Reduce { left, right } => {
                        recorder.reduce(left, right);
                        Ok(())
                    }
                    Step::Track(track) => recorder.track(track),
                    Step::Join => recorder.join(),
                };
                done.is_ok()
            });
            recorder.finish()
        })
        .collect()
}

/// Steps that an algorithm states. Nothing is kept of them: whenever a rank goes on, the algorithm runs from its
/// beginning, and what has been done is passed over. That is the better bargain while a rank waits some dozens of
/// times; a ring of many ranks is better written down.
#[derive(Clone, Copy, Debug)]
pub struct Stated<F> {
    ranks: u32,
    algorithm: F,
}

impl<F: Fn(&mut Walk<'_>, Place) -> Result<(), Stopped>> Stated<F> {
    /// The steps that `algorithm` states for each of so many ranks.
    pub const fn new(ranks: u32, algorithm: F) -> Self {
        Self { ranks, algorithm }
    }
}

impl<F: Fn(&mut Walk<'_>, Place) -> Result<(), Stopped>> StepSource for Stated<F> {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn steps(&self, rank: u32, first: usize, take: &mut dyn FnMut(Step) -> bool) {
        let mut walk = Walk { before: first, take, phase: 0, stopped: false };
        // An algorithm that was stopped has said all that is wanted of it now.
        let _ = (self.algorithm)(&mut walk, Place { rank, size: self.ranks });
    }
}

/// The taker wants no more steps now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped;

/// A plan that passes over the steps that were taken before, and hands the others on.
#[expect(missing_debug_implementations, reason = "its taker is a function")]
pub struct Walk<'a> {
    before: usize,
    take: &'a mut dyn FnMut(Step) -> bool,
    phase: u8,
    stopped: bool,
}

impl Walk<'_> {
    fn step(&mut self, step: Step) -> Result<(), Stopped> {
        if self.before > 0 {
            self.before -= 1;
            return Ok(());
        }
        self.stopped = self.stopped || !(self.take)(step);
        if self.stopped { Err(Stopped) } else { Ok(()) }
    }
}

impl Plan for Walk<'_> {
    type Error = Stopped;

    fn send(&mut self, to: u32, from: Span) -> Result<(), Stopped> {
        self.step(Step::Send { to, from, phase: self.phase })
    }

    fn recv(&mut self, from: u32, into: Span) -> Result<(), Stopped> {
        self.step(Step::Recv { from, into, phase: self.phase })
    }

    fn wait(&mut self) -> Result<(), Stopped> {
        self.step(Step::Wait)
    }

    fn copy(&mut self, from: Span, into: Span) {
        // An algorithm that stopped at a copy is not asked again: the next send, receive or wait ends the algorithm.
        let _ = self.step(Step::Copy { from, into });
    }

    fn reduce(&mut self, left: Span, right: Span) {
        let _ = self.step(Step::Reduce { left, right });
    }

    fn phase(&mut self, phase: u8) {
        self.phase = phase;
    }

    fn track(&mut self, track: u8) -> Result<(), Stopped> {
        self.step(Step::Track(track))
    }

    fn join(&mut self) -> Result<(), Stopped> {
        self.step(Step::Join)
    }
}
