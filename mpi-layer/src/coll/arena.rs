//! The memory of one collective on one rank, and the operations under way on it.
//!
//! It turns spans into buffer handles, copies and operands. It is safe to use whatever an
//! algorithm asks for:
//! 1. Every span is checked against its space.
//! 2. Every operation under way is noted with its span until it is complete. Nothing may overlap
//!    a span that is being received into, and a span that is being sent may only be read; an
//!    algorithm that breaks this is stopped by a panic, before anything is touched.
//! 3. The first receive of a stage is not posted at once, since nothing can arrive before the
//!    stage's end: when it stays the only one, it is waited for where it is posted, which is the
//!    short way to receive.
//!    (A caller that must not wait posts it at once, by [`post_recv`](Arena::post_recv), and ends the stage by
//!    [`poll`](Arena::poll).)
//! 4. Dropping the arena, also by a panic in a user's operation, waits for what is under way. The
//!    buffers are borrowed for longer than that.

use std::marker::PhantomData;
use std::ops::Deref;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::sync::LINE;
use bowline_ucp::{Envelope, Ep, MatchSpec, OpError, RequestId, SendMode, Sent, Worker};

use super::engine::{Combine, Operands};
use crate::error::MpiError;
use crate::handles;
use crate::process::{Process, Workspace};
use bowline_model::coll::plan::{Space, Span};

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Flight {
    id: RequestId,
    span: Span,
    receive: bool,
}

/// Start and length of a space.
#[derive(Clone, Copy, Debug)]
struct Region {
    start: *mut u8,
    len: usize,
}

impl Region {
    /// Where a span starts, which must lie inside.
    #[inline]
    fn start_of(self, span: Span) -> *mut u8 {
        let inside = span.at <= self.len && span.len <= self.len - span.at;
        assert!(inside, "{span:?} leaves its space of {} bytes", self.len);
        self.start.wrapping_add(span.at)
    }
}

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

    /// Where a span of the buffers starts.
    fn start(&self, span: Span) -> *mut u8 {
        let region = match span.space {
            Space::Input => self.input,
            Space::Output => self.output,
            Space::Scratch => unreachable!("scratch is no buffer of a caller"),
        };
        region.start_of(span)
    }

    /// Copies a span out.
    #[inline]
    pub(crate) fn read(&self, span: Span, out: &mut [u8]) {
        assert_eq!(span.len, out.len(), "copies keep the length");
        // SAFETY: the span lies inside its buffer, which can be read; `out` is the caller's alone.
        unsafe { out.as_mut_ptr().copy_from_nonoverlapping(self.start(span), span.len) };
    }

    /// Copies to a span of the output.
    #[inline]
    pub(crate) fn write(&mut self, span: Span, from: &[u8]) {
        assert_eq!(span.len, from.len(), "copies keep the length");
        assert!(span.space == Space::Output, "the input is never written");
        // SAFETY: as in `read`; the output can be written and is nobody else's.
        unsafe { self.start(span).copy_from_nonoverlapping(from.as_ptr(), span.len) };
    }
}

/// From the lowest to the highest byte that some operations of a stage use in one space; empty
/// when `from >= to`.
#[derive(Clone, Copy, Debug)]
struct Hull {
    from: usize,
    to: usize,
}

impl Hull {
    const EMPTY: Self = Self { from: usize::MAX, to: 0 };

    #[inline]
    fn add(&mut self, span: Span) {
        self.from = self.from.min(span.at);
        self.to = self.to.max(span.at + span.len);
    }

    #[inline]
    const fn may_hold(&self, span: Span) -> bool {
        span.at < self.to && self.from < span.at + span.len
    }
}

#[derive(Debug)]
pub(crate) struct Arena<'a, P: Deref<Target = Process> = &'a Process> {
    process: P,
    input: Region,
    output: Region,
    scratch: Region,
    workspace: Workspace,
    /// Operations of this stage that [`poll`](Self::poll) has seen ended, and the first error of them.
    ended: usize,
    failed: Option<MpiError>,
    /// The stage's first receive while it is the only one (rule 3).
    first: Option<(MatchSpec, Span)>,
    /// What the receives of this stage write, by space.
    written: [Hull; 3],
    /// What the sends of this stage read, by space.
    read: [Hull; 3],
    memory: PhantomData<(&'a [u8], &'a mut [u8])>,
}

impl<'a, P: Deref<Target = Process>> Arena<'a, P> {
    /// An arena over the user's buffers and `scratch` bytes of the library's.
    pub(crate) fn new(process: P, buffers: Buffers<'a>, scratch: usize) -> Self {
        let mut workspace = process.take_workspace();
        let lines = scratch.div_ceil(LINE);
        if workspace.scratch.len() < lines {
            workspace.scratch.resize_with(lines, || bowline_base::sync::Line([0; LINE]));
        }
        let start = workspace.scratch.as_mut_ptr().cast();
        Self {
            process,
            input: buffers.input,
            output: buffers.output,
            scratch: Region { start, len: scratch },
            workspace,
            ended: 0,
            failed: None,
            first: None,
            written: [Hull::EMPTY; 3],
            read: [Hull::EMPTY; 3],
            memory: PhantomData,
        }
    }

    #[inline]
    fn worker(&self) -> &Worker {
        &self.process.worker
    }

    /// Starts a send of a span.
    #[inline]
    pub(crate) fn send(&mut self, ep: Ep, envelope: Envelope, span: Span) -> Result<(), OpError> {
        let start = self.readable(span);
        // SAFETY: the bytes lie in a buffer borrowed for `'a` or in the workspace (rule 1). Until
        // the operation is complete nothing writes them (rule 2: `read` holds the span from here
        // or it is complete already), and the arena stays (rule 4).
        let buffer = unsafe { SendBuf::borrowed(start, span.len) };
        let worker = self.worker();
        let sent =
            handles::without_unwinding(|| worker.send(ep, envelope, buffer, SendMode::Standard))?;
        if let Sent::Pending(id) = sent {
            self.read[span.space as usize].add(span);
            self.workspace.flights.push(Flight { id, span, receive: false });
        }
        Ok(())
    }

    /// Starts a receive into a span.
    #[inline]
    pub(crate) fn recv(&mut self, spec: MatchSpec, span: Span) -> Result<(), OpError> {
        self.writable(span);
        self.written[span.space as usize].add(span);
        if self.first.is_none() && self.workspace.flights.is_empty() {
            self.first = Some((spec, span));
            return Ok(());
        }
        if let Some((spec, span)) = self.first.take() {
            self.post(spec, span)?;
        }
        self.post(spec, span)
    }

    /// Starts a receive into a span, and posts it.
    pub(crate) fn post_recv(&mut self, spec: MatchSpec, span: Span) -> Result<(), OpError> {
        self.writable(span);
        self.written[span.space as usize].add(span);
        self.post(spec, span)
    }

    /// Whether all operations under way have ended, and how. After the first failure what has not matched is
    /// cancelled. Moves nothing on.
    pub(crate) fn poll(&mut self) -> Option<Result<(), MpiError>> {
        while let Some(&Flight { id, span, receive }) = self.workspace.flights.get(self.ended) {
            let status = self.process.worker.take(id)?;
            self.ended += 1;
            let ended = outcome(status.length, status.outcome, receive.then_some(span));
            if let Err(error) = ended {
                self.abandon(error);
            }
        }
        self.ended = 0;
        self.workspace.flights.clear();
        self.written = [Hull::EMPTY; 3];
        self.read = [Hull::EMPTY; 3];
        Some(self.failed.take().map_or(Ok(()), Err))
    }

    /// Cancels what is under way because of an error, which [`poll`](Self::poll) gives in the end.
    #[cold]
    pub(crate) fn abandon(&mut self, error: MpiError) {
        if self.failed.is_none() {
            self.failed = Some(error);
            self.cancel(self.ended);
        }
    }

    /// Posts a receive whose span is entered in `written`.
    fn post(&mut self, spec: MatchSpec, span: Span) -> Result<(), OpError> {
        let start = self.start(span);
        // SAFETY: the bytes lie in a buffer borrowed for `'a` or in the workspace, and are not the
        // input (rule 1 and `writable`, in `recv`). Until the operation is complete nothing reads
        // or writes them, since `written` holds the span (rule 2), and the arena stays (rule 4).
        let buffer = unsafe { RecvBuf::borrowed(start, span.len) };
        let worker = self.worker();
        let id = handles::without_unwinding(|| worker.recv(spec, buffer))?;
        self.workspace.flights.push(Flight { id, span, receive: true });
        Ok(())
    }

    /// Waits for all operations under way. After the first failure what has not matched is
    /// cancelled, since it may never match.
    #[inline]
    pub(crate) fn wait(&mut self) -> Result<(), MpiError> {
        let mut result = Ok(());
        if let Some((spec, span)) = self.first.take() {
            let start = self.start(span);
            // SAFETY: as in `post`; the receive is complete when `recv_blocking` returns.
            let buffer = unsafe { RecvBuf::borrowed(start, span.len) };
            let message = handles::receive_buffer(&self.process, spec, buffer);
            result = match message {
                Ok(message) => outcome(message.length, Ok(()), Some(span)),
                Err(error) => outcome(0, Err(error.error()), Some(span)),
            };
        }
        if !self.workspace.flights.is_empty() {
            result = self.land(result);
        }
        self.written = [Hull::EMPTY; 3];
        self.read = [Hull::EMPTY; 3];
        result
    }

    /// Waits for all flights. The first error, `result` being the first of all.
    fn land(&mut self, mut result: Result<(), MpiError>) -> Result<(), MpiError> {
        if result.is_err() {
            self.cancel(0);
        }
        let mut next = 0;
        while next < self.workspace.flights.len() {
            let Flight { id, span, receive } = self.workspace.flights[next];
            next += 1;
            let status = handles::complete(&self.process, id);
            let ended = outcome(status.length, status.outcome, receive.then_some(span));
            if result.is_ok() && ended.is_err() {
                result = ended;
                self.cancel(next);
            }
        }
        self.workspace.flights.clear();
        result
    }

    #[cold]
    fn cancel(&self, from: usize) {
        for flight in &self.workspace.flights[from..] {
            self.process.worker.cancel(flight.id);
        }
    }

    /// Copies one span to another; they do not overlap, or are the same.
    #[inline]
    pub(crate) fn copy(&mut self, from: Span, into: Span) {
        assert_eq!(from.len, into.len, "copies keep the length");
        if from == into || from.len == 0 {
            return;
        }
        assert!(!from.overlaps(into), "copies do not overlap: {from:?}, {into:?}");
        let (source, target) = (self.readable(from), self.writable(into));
        // SAFETY: both are `len` bytes inside their spaces (rule 1) and do not overlap, as
        // asserted; different spaces are different memories. Nothing under way touches the target
        // or writes the source (rule 2).
        unsafe { std::ptr::copy_nonoverlapping(source, target, from.len) };
    }

    /// Lets `combine` do `right = left OP right`.
    #[inline]
    pub(crate) fn reduce(&mut self, left: Span, right: Span, combine: Combine<'_>) {
        assert_eq!(left.len, right.len, "operands have one length");
        if left.len == 0 {
            return;
        }
        assert!(!left.overlaps(right), "operands do not overlap: {left:?}, {right:?}");
        let (operand, target) = (self.readable(left), self.writable(right));
        // SAFETY: both are `left.len` bytes inside their spaces (rule 1) and do not overlap, as asserted.
        // Nothing under way writes the one or touches the other (rule 2), and nothing starts during the
        // call.
        combine(unsafe { Operands::new(operand, target, left.len) });
    }

    /// Where a span starts that may be read now.
    #[inline]
    fn readable(&self, span: Span) -> *const u8 {
        let start = self.start(span);
        if self.written[span.space as usize].may_hold(span) {
            self.refuse_overlap(span, true);
        }
        start
    }

    /// Where a span starts that may be written now.
    #[inline]
    fn writable(&self, span: Span) -> *mut u8 {
        let start = self.start(span);
        assert!(span.space != Space::Input, "the input is never written");
        let space = span.space as usize;
        if self.written[space].may_hold(span) || self.read[space].may_hold(span) {
            self.refuse_overlap(span, false);
        }
        start
    }

    /// Where a span starts, which must lie inside of its space.
    #[inline]
    fn start(&self, span: Span) -> *mut u8 {
        let region = match span.space {
            Space::Input => self.input,
            Space::Output => self.output,
            Space::Scratch => self.scratch,
        };
        region.start_of(span)
    }

    #[cold]
    fn refuse_overlap(&self, span: Span, only_receives: bool) {
        let flights = self.workspace.flights.iter();
        let flights = flights.filter(|old| old.receive || !only_receives).map(|old| old.span);
        let first = self.first.map(|(_, span)| span);
        let hit = flights.chain(first).find(|old| old.overlaps(span));
        assert!(hit.is_none(), "{span:?} is in use by {hit:?}");
    }
}

/// How an operation ended; a message must fill the span of its receive.
#[inline]
fn outcome(
    length: u64,
    outcome: Result<(), OpError>,
    received: Option<Span>,
) -> Result<(), MpiError> {
    match (outcome, received) {
        (Ok(()), Some(span)) if length != span.len as u64 => mismatch(span, length),
        (Ok(()), _) => Ok(()),
        (Err(OpError::Truncated { message, .. }), Some(span)) => mismatch(span, message),
        (Err(error), _) => Err(error.into()),
    }
}

#[cold]
fn mismatch(span: Span, got: u64) -> Result<(), MpiError> {
    Err(MpiError::CountMismatch { expected: span.len as u64, got })
}

impl<P: Deref<Target = Process>> Drop for Arena<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.workspace.flights.drain(..self.ended);
        if !self.workspace.flights.is_empty() {
            // A collective that ends in the middle: an error, or a panic in a user's operation.
            self.cancel(0);
            if let Err(error) = self.land(Ok(())) {
                tracing::debug!("a collective was given up: {error}");
            }
        }
        self.process.give_workspace(std::mem::take(&mut self.workspace));
    }
}
