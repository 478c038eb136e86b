//! The buffers of one blocking collective on one rank, and waiting for the operations on them.
//!
//! What spans mean and what may overlap is said in [`memory`](super::memory). Here:
//! 1. Tracks go in the order in which the plan states them, and a wait of one is for its operations only.
//! 2. Dropping the arena, also by a panic in a user's operation, waits for what is under way. The
//!    buffers are borrowed for longer than that.

use std::marker::PhantomData;

use bowline_base::copy::copy_bytes;
use bowline_ucp::{Envelope, Ep, MatchSpec, OpError};

use crate::error::MpiError;
use crate::handles;
use crate::op::operands::{Combine, Operands};
use crate::process::Process;
use crate::steps::memory::{Own, Region, Spaces, Stage, outcome};
use crate::workspace::Workspace;
use bowline_model::coll::plan::{Space, Span};

/// The buffers that a collective is called with, for as long as it takes.
#[derive(Debug)]
pub struct Buffers<'a> {
    input: Region,
    output: Region,
    memory: PhantomData<(&'a [u8], &'a mut [u8])>,
}

impl<'a> Buffers<'a> {
    /// Slices.
    #[inline]
    pub(crate) fn of(input: &'a [u8], output: &'a mut [u8]) -> Self {
        // Spaces are reached through one kind of pointer; the input's is never written to.
        let input = Region { start: input.as_ptr().cast_mut(), len: input.len() };
        let output = Region { start: output.as_mut_ptr(), len: output.len() };
        Self { input, output, memory: PhantomData }
    }

    /// Memory at two addresses. Those of nothing may be any.
    ///
    /// # Safety
    /// During `'a`, the bytes of the input can be read and nobody writes them, those of the output can be
    /// read and written and nobody else uses them, and the two do not overlap.
    #[inline]
    pub(crate) unsafe fn at(input: (*const u8, usize), output: (*mut u8, usize)) -> Self {
        let region = |start: *mut u8, len| {
            // Handles of buffers want an address even where there is nothing.
            let start = if len == 0 { std::ptr::dangling_mut() } else { start };
            Region { start, len }
        };
        let input = region(input.0.cast_mut(), input.1);
        Self { input, output: region(output.0, output.1), memory: PhantomData }
    }

    /// Input and output.
    #[inline]
    pub(super) fn regions(&self) -> (Region, Region) {
        (self.input, self.output)
    }

    /// Where a span of the buffers starts.
    fn start(&self, span: Span) -> *mut u8 {
        let region = match span.space {
            Space::Input => self.input,
            Space::Output => self.output,
            Space::Scratch => unreachable!("scratch is no buffer of a caller"),
        };
        region.start_of(span)
    }

    /// The bytes of a span, to be read.
    #[inline]
    pub(crate) fn bytes(&self, span: Span) -> &[u8] {
        // SAFETY: the span lies inside its buffer, which can be read for `'a`, and which nobody writes while `self` is
        // borrowed. Its bytes are initialised: they are of slices, or of memory that came from outside of Rust.
        unsafe { std::slice::from_raw_parts(self.start(span), span.len) }
    }

    /// The bytes of a span of the output, to be written.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, span: Span) -> &mut [u8] {
        assert!(span.space == Space::Output, "the input is never written");
        // SAFETY: as in `bytes`; the output can be written and is nobody else's while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.start(span), span.len) }
    }

    /// Copies a span to one of the output, with which it does not overlap or which it is.
    #[inline]
    pub(crate) fn copy(&mut self, from: Span, into: Span) {
        assert_eq!(from.len, into.len, "copies keep the length");
        if from == into {
            return;
        }
        assert!(!from.overlaps(into), "copies do not overlap: {from:?}, {into:?}");
        assert!(into.space == Space::Output, "the input is never written");
        // SAFETY: both spans lie inside their buffers, do not overlap, and the output can be written.
        unsafe { copy_bytes(self.start(from), self.start(into), from.len) };
    }

    /// Lets `combine` do `right = left OP right`: left is of the input, right of the output.
    pub(crate) fn combine(&mut self, left: Span, right: Span, combine: Combine<'_>) {
        assert_eq!(left.len, right.len, "operands have one length");
        assert!(left.space == Space::Input && right.space == Space::Output, "in place");
        if left.len > 0 {
            // SAFETY: both lie inside their buffers, which do not overlap; the output can be written and is nobody
            // else's.
            combine(unsafe { Operands::new(self.start(left), self.start(right), left.len) });
        }
    }

    /// Copies a span out.
    #[inline]
    pub(crate) fn read(&self, span: Span, out: &mut [u8]) {
        assert_eq!(span.len, out.len(), "copies keep the length");
        // SAFETY: the span lies inside its buffer, which can be read; `out` is the caller's alone.
        unsafe { copy_bytes(self.start(span), out.as_mut_ptr(), span.len) };
    }

    /// Copies to a span of the output.
    #[inline]
    pub(crate) fn write(&mut self, span: Span, from: &[u8]) {
        assert_eq!(span.len, from.len(), "copies keep the length");
        assert!(span.space == Space::Output, "the input is never written");
        // SAFETY: as in `read`; the output can be written and is nobody else's.
        unsafe { copy_bytes(from.as_ptr(), self.start(span), span.len) };
    }
}

#[derive(Debug)]
pub(crate) struct Arena<'a> {
    process: &'a Process,
    own: Own,
    spaces: Spaces,
    /// Its list of operations is the workspace's.
    stage: Stage,
    workspace: Workspace,
    memory: PhantomData<(&'a [u8], &'a mut [u8])>,
}

impl<'a> Arena<'a> {
    /// An arena over the user's buffers and `scratch` bytes of the library's.
    pub(crate) fn new(
        process: &'a Process,
        own: Own,
        buffers: Buffers<'a>,
        scratch: usize,
    ) -> Self {
        let mut workspace = process.take_workspace();
        let stage = Stage::new(std::mem::take(&mut workspace.flights));
        // SAFETY: the buffers are as promised for `'a`, and the workspace is the arena's. Both outlive what is under
        // way (rule 2).
        let spaces = unsafe { Spaces::new(buffers.regions(), &mut workspace, scratch) };
        Self { process, own, spaces, stage, workspace, memory: PhantomData }
    }

    /// Starts a send of a span.
    #[inline]
    pub(crate) fn send(&mut self, ep: Ep, envelope: Envelope, span: Span) -> Result<(), OpError> {
        // Waited for in this call, as the receives.
        self.stage.send(&self.process.worker, &self.spaces, ep, envelope, span).map(drop)
    }

    /// Starts a receive into a span.
    #[inline]
    pub(crate) fn recv(&mut self, spec: MatchSpec, span: Span) -> Result<(), OpError> {
        // The collective is waited for in the call that begins it, so that nobody has to poll for its messages.
        let worker = &self.process.worker;
        self.stage.recv(&self.spaces, spec, span, |buffer| worker.recv_awaited(spec, buffer))
    }

    /// Cancels the operations of all tracks and waits for their ends; those that have not matched are replaced by
    /// empty ones (rule 3 of [`memory`](crate::steps::memory)).
    #[cold]
    pub(crate) fn give_up(&mut self) {
        self.stage.empties = true;
        self.stage.cancel(&self.process.worker, 0);
        if let Err(error) = self.land(None) {
            tracing::debug!("a collective goes on without bytes: {error}");
        }
        self.stage.end();
    }

    /// Waits for all operations under way. After the first failure what has not matched is
    /// cancelled, since it may never match.
    #[inline]
    pub(crate) fn wait(&mut self) -> Result<(), MpiError> {
        let result = self.land(Some(self.stage.track));
        if self.stage.flights.is_empty() {
            self.stage.end();
        }
        result
    }

    /// What is begun from here on belongs to a track.
    pub(crate) fn track(&mut self, track: u8) {
        self.stage.track = track;
    }

    /// Waits for the operations of all tracks; the first one goes on.
    pub(crate) fn join(&mut self) -> Result<(), MpiError> {
        self.track(0);
        let result = self.land(None);
        self.stage.end();
        result
    }

    /// Waits for the flights of a track, or of all. The first error; after one those of other tracks are left to
    /// `drop`.
    #[inline]
    fn land(&mut self, track: Option<u8>) -> Result<(), MpiError> {
        let worker = &self.process.worker;
        let (mut result, mut next, mut left) = (Ok(()), 0, 0);
        while let Some(&flight) = self.stage.flights.get(next) {
            next += 1;
            if track.is_some_and(|track| track != flight.track) {
                left += 1;
                continue;
            }
            let status = handles::complete(self.process, flight.id);
            if let Err(error) = outcome(status.length, status.outcome, flight.received()) {
                if result.is_ok() {
                    result = Err(error);
                    self.stage.empties |= error.is_own();
                    self.stage.cancel(worker, next);
                }
                self.stage.replace(worker, self.own, &flight, status.outcome);
            }
        }
        if left == 0 {
            self.stage.flights.clear();
        } else {
            self.stage.flights.retain(|flight| Some(flight.track) != track);
        }
        result
    }

    /// Copies one span to another; they do not overlap, or are the same.
    #[inline]
    pub(crate) fn copy(&mut self, from: Span, into: Span) {
        self.stage.copy(&self.spaces, from, into);
    }

    /// Lets `combine` do `right = left OP right`.
    #[inline]
    pub(crate) fn reduce(&mut self, left: Span, right: Span, combine: Combine<'_>) {
        self.stage.reduce(&self.spaces, left, right, combine);
    }
}

impl Drop for Arena<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.stage.flights.is_empty() {
            // A collective that ends in the middle: an error, or a panic in a user's operation.
            self.stage.cancel(&self.process.worker, 0);
            if let Err(error) = self.land(None) {
                tracing::debug!("a collective was given up: {error}");
            }
        }
        self.workspace.flights = std::mem::take(&mut self.stage.flights);
        self.process.give_workspace(std::mem::take(&mut self.workspace));
    }
}
