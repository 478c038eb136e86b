//! The interpreter of plans that communicates: blocking, one stage after the other.
//!
//! It makes endpoints of ranks and tags of phases; memory is the business of the arena. A plan that has failed for a
//! reason of its own goes on to its end without bytes and without waits, so that no other rank waits for this
//! one (rule 3 of [`memory`](crate::steps::memory)); [`Engine::end`] says how it ended.

use bowline_ucp::{Envelope, MatchSpec, OpError};

use super::arena::{Arena, Buffers};
use crate::comm::{CommInner, Communicator};
use crate::error::MpiError;
use crate::op::operands::Combine;
use crate::steps::memory::{Own, recv_empty, send_empty};
use crate::tags;
use bowline_model::coll::plan::{Plan, Span};

pub(crate) struct Engine<'a> {
    comm: &'a CommInner,
    arena: Arena<'a>,
    combine: Option<Combine<'a>>,
    /// The tag of phase 0.
    base: u64,
    tag: u64,
    /// Why the plan goes on without bytes.
    failed: Option<MpiError>,
}

impl Communicator {
    /// Begins a collective: takes its number and its memory.
    #[inline]
    pub(crate) fn engine<'a>(
        &'a self,
        buffers: Buffers<'a>,
        scratch: usize,
        combine: Option<Combine<'a>>,
    ) -> Engine<'a> {
        let comm = &*self.inner;
        let base = tags::collective(comm.generation, comm.next_sequence());
        let arena = Arena::new(&comm.process, comm.own(), buffers, scratch);
        Engine { comm, arena, combine, base, tag: base, failed: None }
    }
}

/// Polls for a death that a partner knows of already.
const POLLS: u32 = 1000;

impl CommInner {
    /// Why a partner refused what it was sent in a collective with this tag: it knows of a member's death,
    /// which this rank is about to learn.
    #[cold]
    pub(super) fn refusal(&self, tag: u64) -> MpiError {
        let spec = self.stage_spec(None, tag);
        let worker = &self.process.worker;
        for _ in 0..POLLS {
            if let Err(death) = worker.check(&spec) {
                return death.into();
            }
            worker.progress();
            std::thread::yield_now();
        }
        MpiError::Protocol(OpError::BadRemote)
    }

    /// Where messages of collectives match, and this rank there.
    #[inline]
    pub(super) fn own(&self) -> Own {
        Own { space: self.collective_space(), rank: self.rank }
    }

    /// The match of a message of a collective from a rank.
    #[inline]
    pub(super) fn stage_spec(&self, source: Option<u32>, tag: u64) -> MatchSpec {
        MatchSpec { space: self.collective_space(), source, tag, tag_mask: u64::MAX }
    }

    /// The envelope of what this rank sends in a collective.
    #[inline]
    pub(super) fn stage_envelope(&self, tag: u64) -> Envelope {
        Envelope { space: self.collective_space(), source: self.rank, tag }
    }
}

impl Engine<'_> {
    /// How the plan has ended, of which `followed` says whether it came to its end.
    #[inline]
    pub(crate) fn end(self, followed: Result<(), MpiError>) -> Result<(), MpiError> {
        match self.failed {
            Some(error) => Err(error),
            None => followed,
        }
    }

    /// Operations under way have failed: goes on without bytes, or ends, as `error` wants.
    #[cold]
    fn fail(&mut self, error: MpiError) -> Result<(), MpiError> {
        if error == MpiError::Protocol(OpError::BadRemote) {
            return Err(self.comm.refusal(self.tag));
        }
        if !error.is_own() {
            return Err(error);
        }
        self.arena.give_up();
        self.failed = Some(error);
        Ok(())
    }
}

impl Plan for Engine<'_> {
    type Error = MpiError;

    #[inline]
    fn send(&mut self, to: u32, from: Span) -> Result<(), MpiError> {
        let comm = self.comm;
        let ep = comm.endpoint(to)?;
        let envelope = comm.stage_envelope(self.tag);
        if self.failed.is_some() {
            send_empty(&comm.process.worker, ep, envelope);
            return Ok(());
        }
        match self.arena.send(ep, envelope, from) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.fail(error.into())?;
                self.send(to, from)
            }
        }
    }

    #[inline]
    fn recv(&mut self, from: u32, into: Span) -> Result<(), MpiError> {
        if self.failed.is_some() {
            recv_empty(&self.comm.process.worker, self.comm.stage_spec(Some(from), self.tag));
            return Ok(());
        }
        match self.arena.recv(self.comm.stage_spec(Some(from), self.tag), into) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.fail(error.into())?;
                self.recv(from, into)
            }
        }
    }

    #[inline]
    fn wait(&mut self) -> Result<(), MpiError> {
        self.arena.wait().or_else(|error| self.fail(error))
    }

    #[inline]
    fn copy(&mut self, from: Span, into: Span) {
        if self.failed.is_none() {
            self.arena.copy(from, into);
        }
    }

    #[inline]
    fn reduce(&mut self, left: Span, right: Span) {
        if self.failed.is_some() {
            return;
        }
        let combine = self.combine.expect("plans with reductions are run with an operation");
        self.arena.reduce(left, right, combine);
    }

    #[inline]
    fn phase(&mut self, phase: u8) {
        self.tag = self.base + u64::from(phase);
    }

    fn track(&mut self, track: u8) -> Result<(), MpiError> {
        self.arena.track(track);
        Ok(())
    }

    fn join(&mut self) -> Result<(), MpiError> {
        self.arena.join().or_else(|error| self.fail(error))
    }
}
