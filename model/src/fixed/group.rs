//! An algorithm on some of the ranks: a part of one that is composed.

use crate::coll::plan::{Plan, Span};

/// A plan whose ranks are `first`, `first + stride` and so on of another one, and whose phases are behind some of its.
#[derive(Debug)]
pub struct Group<'a, P> {
    /// The other plan.
    pub plan: &'a mut P,
    /// Its rank that is rank 0 here.
    pub first: u32,
    /// How far the next rank is from one.
    pub stride: u32,
    /// The phase that phase 0 is.
    pub phase: u8,
}

impl<'a, P: Plan> Group<'a, P> {
    /// All ranks, at a later phase.
    pub fn later(plan: &'a mut P, phase: u8) -> Self {
        plan.phase(phase);
        Self { plan, first: 0, stride: 1, phase }
    }

    const fn rank(&self, rank: u32) -> u32 {
        self.first + rank * self.stride
    }
}

impl<P: Plan> Plan for Group<'_, P> {
    type Error = P::Error;

    fn send(&mut self, to: u32, from: Span) -> Result<(), P::Error> {
        let to = self.rank(to);
        self.plan.send(to, from)
    }

    fn recv(&mut self, from: u32, into: Span) -> Result<(), P::Error> {
        let from = self.rank(from);
        self.plan.recv(from, into)
    }

    fn wait(&mut self) -> Result<(), P::Error> {
        self.plan.wait()
    }

    fn copy(&mut self, from: Span, into: Span) {
        self.plan.copy(from, into);
    }

    fn reduce(&mut self, left: Span, right: Span) {
        self.plan.reduce(left, right);
    }

    fn phase(&mut self, phase: u8) {
        self.plan.phase(self.phase + phase);
    }

    fn track(&mut self, track: u8) -> Result<(), P::Error> {
        self.plan.track(track)
    }

    fn join(&mut self) -> Result<(), P::Error> {
        self.plan.join()
    }
}
