//! The interpreter of plans that communicates: blocking, one stage after the other.
//!
//! It turns ranks into endpoints and phases into tags; memory is the business of the arena.

use std::marker::PhantomData;

use bowline_ucp::{Envelope, MatchSpec, OpError};

use super::arena::{Arena, Buffers};
use crate::comm::{CommInner, Communicator};
use crate::error::MpiError;
use crate::tags;
use bowline_model::coll::plan::{Plan, Span};

/// Two vectors in memory that are to become one: `right = left OP right`.
#[derive(Debug)]
pub struct Operands<'a> {
    left: *const u8,
    right: *mut u8,
    len: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Operands<'a> {
    /// The operands at two addresses.
    ///
    /// # Safety
    /// During `'a`, `len` bytes at `left` can be read and nobody writes them; `len` bytes at `right` can
    /// be read and written and nobody else uses them. They do not overlap.
    #[inline]
    pub unsafe fn new(left: *const u8, right: *mut u8, len: usize) -> Self {
        Self { left, right, len, memory: PhantomData }
    }

    /// The operands in two slices, which have one length.
    #[inline]
    pub(crate) fn of(left: &'a [u8], right: &'a mut [u8]) -> Self {
        let len = left.len().min(right.len());
        Self { left: left.as_ptr(), right: right.as_mut_ptr(), len, memory: PhantomData }
    }

    /// Where the contributions of lower ranks are.
    #[inline]
    pub fn left(&self) -> *const u8 {
        self.left
    }

    /// Where those of higher ranks are, and where the result goes.
    #[inline]
    pub fn right(&self) -> *mut u8 {
        self.right
    }

    /// Bytes of each: those of whole elements.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "nobody combines nothing")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The operands as slices.
    ///
    /// # Safety
    /// All bytes are initialised.
    #[inline]
    pub(crate) unsafe fn slices(self) -> (&'a [u8], &'a mut [u8]) {
        // SAFETY: the maker has promised that the memory is there for `'a`, that the left operand is only
        // read and the right one is nobody else's; the caller says that it is initialised.
        unsafe {
            let left = std::slice::from_raw_parts(self.left, self.len);
            (left, std::slice::from_raw_parts_mut(self.right, self.len))
        }
    }
}

/// A reduction on bytes.
pub(crate) type Combine<'a> = &'a dyn Fn(Operands<'_>);

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
        buffers: Buffers<'a>,
        scratch: usize,
        combine: Option<Combine<'a>>,
    ) -> Engine<'a> {
        let comm = &*self.inner;
        let base = tags::collective(comm.generation, comm.next_sequence());
        let arena = Arena::new(&comm.process, buffers, scratch);
        Engine { comm, arena, combine, base, tag: base }
    }
}

/// Looks for a death that a partner knows of already.
const LOOKS: u32 = 1000;

impl CommInner {
    /// Why a partner refused what it was sent in a collective with this tag: it knows of a member's death,
    /// which this rank is about to learn.
    #[cold]
    pub(super) fn refusal(&self, tag: u64) -> MpiError {
        let spec = self.stage_spec(None, tag);
        let worker = &self.process.worker;
        for _ in 0..LOOKS {
            if let Err(death) = worker.check(&spec) {
                return death.into();
            }
            worker.progress();
            std::thread::yield_now();
        }
        MpiError::Protocol(OpError::BadRemote)
    }

    /// What a message of a collective from a rank looks like.
    #[inline]
    pub(super) fn stage_spec(&self, source: Option<u32>, tag: u64) -> MatchSpec {
        MatchSpec { space: self.collective_space(), source, tag, tag_mask: u64::MAX }
    }

    /// What this rank sends in a collective looks like so.
    #[inline]
    pub(super) fn stage_envelope(&self, tag: u64) -> Envelope {
        Envelope { space: self.collective_space(), source: self.rank, tag }
    }
}

impl Plan for Engine<'_> {
    type Error = MpiError;

    #[inline]
    fn send(&mut self, to: u32, from: Span) -> Result<(), MpiError> {
        let comm = self.comm;
        let ep = comm.endpoint(to)?;
        Ok(self.arena.send(ep, comm.stage_envelope(self.tag), from)?)
    }

    #[inline]
    fn recv(&mut self, from: u32, into: Span) -> Result<(), MpiError> {
        let spec = self.comm.stage_spec(Some(from), self.tag);
        Ok(self.arena.recv(spec, into)?)
    }

    #[inline]
    fn wait(&mut self) -> Result<(), MpiError> {
        match self.arena.wait() {
            Err(MpiError::Protocol(OpError::BadRemote)) => Err(self.comm.refusal(self.tag)),
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

    fn track(&mut self, track: u8) -> Result<(), MpiError> {
        self.arena.track(track);
        Ok(())
    }

    fn join(&mut self) -> Result<(), MpiError> {
        match self.arena.join() {
            Err(MpiError::Protocol(OpError::BadRemote)) => Err(self.comm.refusal(self.tag)),
            outcome => outcome,
        }
    }
}
