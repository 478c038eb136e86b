//! The interpreter of plans that writes them down.
//!
//! No algorithm looks at data or at how an operation ends, so the steps of a rank are known before anything is
//! sent. They are carried out later by a [`run`](super::run), and proven by the simulator of the tests.

use std::marker::PhantomData;

use super::plan::{Plan, Span};

/// A step of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Send { to: u32, from: Span, phase: u8 },
    Recv { from: u32, into: Span, phase: u8 },
    Wait,
    Copy { from: Span, into: Span },
    Reduce { left: Span, right: Span },
}

/// A plan that is written down. It never fails; `E` is what its user calls an error.
#[derive(Debug)]
pub(crate) struct Recorder<E> {
    pub(crate) steps: Vec<Step>,
    phase: u8,
    error: PhantomData<E>,
}

impl<E> Default for Recorder<E> {
    fn default() -> Self {
        Self { steps: Vec::new(), phase: 0, error: PhantomData }
    }
}

impl<E> Plan for Recorder<E> {
    type Error = E;

    fn send(&mut self, to: u32, from: Span) -> Result<(), E> {
        self.steps.push(Step::Send { to, from, phase: self.phase });
        Ok(())
    }

    fn recv(&mut self, from: u32, into: Span) -> Result<(), E> {
        self.steps.push(Step::Recv { from, into, phase: self.phase });
        Ok(())
    }

    fn wait(&mut self) -> Result<(), E> {
        self.steps.push(Step::Wait);
        Ok(())
    }

    fn copy(&mut self, from: Span, into: Span) {
        self.steps.push(Step::Copy { from, into });
    }

    fn reduce(&mut self, left: Span, right: Span) {
        self.steps.push(Step::Reduce { left, right });
    }

    fn phase(&mut self, phase: u8) {
        assert!(phase >= self.phase, "phases go forward, or a message could match an earlier one");
        self.phase = phase;
    }
}
