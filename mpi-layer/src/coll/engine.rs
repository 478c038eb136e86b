//! The interpreter of plans that communicates: blocking, one stage after the other.
//!
//! It turns ranks into endpoints and phases into tags; memory is the business of the arena.

use bowline_ucp::{Envelope, MatchSpec, OpError};

use super::arena::Arena;
use super::plan::{Place, Plan, Span};
use crate::comm::{CommInner, Communicator};
use crate::error::MpiError;
use crate::tags;

/// A reduction on bytes.
pub(crate) type Combine<'a> = &'a dyn Fn(&[u8], &mut [u8]);

pub(crate) struct Engine<'a> {
    comm: &'a CommInner,
    arena: Arena<'a>,
    combine: Option<Combine<'a>>,
    /// The tag of phase 0.
    base: u64,
    tag: u64,
}

impl Communicator {
    /// Begins a collective: takes its number and its memory.
    #[inline]
    pub(crate) fn engine<'a>(
        &'a self,
        input: &'a [u8],
        output: &'a mut [u8],
        scratch: usize,
        combine: Option<Combine<'a>>,
    ) -> Engine<'a> {
        let comm = &*self.inner;
        let base = tags::collective(comm.generation, comm.next_sequence());
        let arena = Arena::new(&comm.process, input, output, scratch);
        Engine { comm, arena, combine, base, tag: base }
    }

    /// This rank and the number of ranks.
    #[inline]
    pub(crate) fn place(&self) -> Place {
        Place { rank: self.inner.rank, size: self.inner.size }
    }
}

/// Looks for a death that a partner knows of already.
const LOOKS: u32 = 1000;

impl Engine<'_> {
    /// Why a partner refused what it was sent: it knows of a member's death, which this rank is
    /// about to learn.
    #[cold]
    fn refusal(&self) -> MpiError {
        let spec = self.spec(None);
        let worker = &self.comm.process.worker;
        for _ in 0..LOOKS {
            if let Err(death) = worker.check(&spec) {
                return death.into();
            }
            worker.progress();
            std::thread::yield_now();
        }
        MpiError::Protocol(OpError::BadRemote)
    }

    #[inline]
    fn spec(&self, source: Option<u32>) -> MatchSpec {
        let space = self.comm.collective_space();
        MatchSpec { space, source, tag: self.tag, tag_mask: u64::MAX }
    }
}

impl Plan for Engine<'_> {
    type Error = MpiError;

    #[inline]
    fn send(&mut self, to: u32, from: Span) -> Result<(), MpiError> {
        let comm = self.comm;
        let ep = comm.endpoint(to)?;
        let envelope =
            Envelope { space: comm.collective_space(), source: comm.rank, tag: self.tag };
        Ok(self.arena.send(ep, envelope, from)?)
    }

    #[inline]
    fn recv(&mut self, from: u32, into: Span) -> Result<(), MpiError> {
        let spec = self.spec(Some(from));
        Ok(self.arena.recv(spec, into)?)
    }

    #[inline]
    fn wait(&mut self) -> Result<(), MpiError> {
        match self.arena.wait() {
            Err(MpiError::Protocol(OpError::BadRemote)) => Err(self.refusal()),
            outcome => outcome,
        }
    }

    #[inline]
    fn copy(&mut self, from: Span, into: Span) {
        self.arena.copy(from, into);
    }

    #[inline]
    fn reduce(&mut self, left: Span, right: Span) {
        let combine = self.combine.expect("plans with reductions are run with an operation");
        self.arena.reduce(left, right, combine);
    }

    #[inline]
    fn phase(&mut self, phase: u8) {
        self.tag = self.base + u64::from(phase);
    }
}
