//! The memory of one collective on one rank, and the operations under way on it.
//!
//! It turns spans into buffer handles, copies and operands. It is safe to use whatever an
//! algorithm asks for:
//! 1. Every span is checked against its space.
//! 2. Every operation under way is noted with its span until it is complete. Nothing may overlap
//!    a span that is being received into, and a span that is being sent may only be read; an
//!    algorithm that breaks this is stopped by a panic, before anything is touched.
//! 3. Dropping the arena, also by a panic in a user's operation, waits for what is under way. The
//!    buffers are borrowed for longer than that.

use std::marker::PhantomData;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::sync::LINE;
use bowline_ucp::{Ep, Envelope, MatchSpec, OpError, RequestId, SendMode, Sent, Worker};

use super::plan::{Space, Span};
use crate::error::MpiError;
use crate::handles;
use crate::process::{Process, Workspace};

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
pub(crate) struct Arena<'a> {
    process: &'a Process,
    input: Region,
    output: Region,
    scratch: Region,
    workspace: Workspace,
    /// What the receives of this stage write, by space.
    written: [Hull; 3],
    /// What the sends of this stage read, by space.
    read: [Hull; 3],
    buffers: PhantomData<(&'a [u8], &'a mut [u8])>,
}

impl<'a> Arena<'a> {
    /// An arena over the user's buffers and `scratch` bytes of the library's.
    pub(crate) fn new(
        process: &'a Process,
        input: &'a [u8],
        output: &'a mut [u8],
        scratch: usize,
    ) -> Self {
        let mut workspace = process.take_workspace();
        let lines = scratch.div_ceil(LINE);
        if workspace.scratch.len() < lines {
            workspace.scratch.resize_with(lines, || bowline_base::sync::Line([0; LINE]));
        }
        let start = workspace.scratch.as_mut_ptr().cast();
        Self {
            process,
            // Spaces are reached through one kind of pointer; the input's is never written to.
            input: Region { start: input.as_ptr().cast_mut(), len: input.len() },
            output: Region { start: output.as_mut_ptr(), len: output.len() },
            scratch: Region { start, len: scratch },
            workspace,
            written: [Hull::EMPTY; 3],
            read: [Hull::EMPTY; 3],
            buffers: PhantomData,
        }
    }

    #[inline]
    fn worker(&self) -> &'a Worker {
        &self.process.worker
    }

    /// Starts a send of a span.
    #[inline]
    pub(crate) fn send(
        &mut self,
        ep: Ep,
        envelope: Envelope,
        span: Span,
    ) -> Result<(), OpError> {
        let start = self.readable(span);
        // SAFETY: the bytes lie in a buffer borrowed for `'a` or in the workspace (rule 1). Until
        // the operation is complete nothing writes them (rule 2: `read` holds the span from here
        // or it is complete already), and the arena stays (rule 3).
        let buffer = unsafe { SendBuf::borrowed(start, span.len) };
        let worker = self.worker();
        let sent = handles::without_unwinding(|| {
            worker.send(ep, envelope, buffer, SendMode::Standard)
        })?;
        if let Sent::Pending(id) = sent {
            self.read[span.space as usize].add(span);
            self.workspace.flights.push(Flight { id, span, receive: false });
        }
        Ok(())
    }

    /// Starts a receive into a span.
    #[inline]
    pub(crate) fn recv(&mut self, spec: MatchSpec, span: Span) -> Result<(), OpError> {
        let start = self.writable(span);
        // SAFETY: as in `send`; nothing reads or writes the bytes until the operation is complete,
        // since `written` holds the span. The input is refused by `writable`.
        let buffer = unsafe { RecvBuf::borrowed(start, span.len) };
        let worker = self.worker();
        let id = handles::without_unwinding(|| worker.recv(spec, buffer))?;
        self.written[span.space as usize].add(span);
        self.workspace.flights.push(Flight { id, span, receive: true });
        Ok(())
    }

    /// Waits for all operations under way. After the first failure what has not matched is
    /// cancelled, since it may never match.
    #[inline]
    pub(crate) fn wait(&mut self) -> Result<(), MpiError> {
        let mut result = Ok(());
        let mut next = 0;
        while next < self.workspace.flights.len() {
            let Flight { id, span, receive } = self.workspace.flights[next];
            next += 1;
            let status = handles::complete(&self.process.worker, id);
            let outcome = match status.outcome {
                Err(OpError::Truncated { message, .. }) => mismatch(span, message),
                Err(error) => Err(error.into()),
                Ok(()) if receive && status.length != span.len as u64 => {
                    mismatch(span, status.length)
                }
                Ok(()) => continue,
            };
            if result.is_ok() {
                result = outcome;
                self.cancel(next);
            }
        }
        self.workspace.flights.clear();
        self.written = [Hull::EMPTY; 3];
        self.read = [Hull::EMPTY; 3];
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
    pub(crate) fn reduce(
        &mut self,
        left: Span,
        right: Span,
        combine: &dyn Fn(&[u8], &mut [u8]),
    ) {
        assert_eq!(left.len, right.len, "operands have one length");
        if left.len == 0 {
            return;
        }
        assert!(!left.overlaps(right), "operands do not overlap: {left:?}, {right:?}");
        let (operand, target) = (self.readable(left), self.writable(right));
        // SAFETY: `left.len` readable bytes inside a space (rule 1), which nothing writes during
        // the call: no operation under way (rule 2), and `combine` has only the two slices.
        let operand = unsafe { std::slice::from_raw_parts(operand, left.len) };
        // SAFETY: as above, not overlapping the other, as asserted, and read by nothing under way.
        let target = unsafe { std::slice::from_raw_parts_mut(target, right.len) };
        combine(operand, target);
    }

    /// Where a span starts that may be read now.
    #[inline]
    fn readable(&self, span: Span) -> *const u8 {
        let region = self.region(span);
        if self.written[span.space as usize].may_hold(span) {
            self.refuse_overlap(span, true);
        }
        region.start.wrapping_add(span.at)
    }

    /// Where a span starts that may be written now.
    #[inline]
    fn writable(&self, span: Span) -> *mut u8 {
        let region = self.region(span);
        assert!(span.space != Space::Input, "the input is never written");
        let space = span.space as usize;
        if self.written[space].may_hold(span) || self.read[space].may_hold(span) {
            self.refuse_overlap(span, false);
        }
        region.start.wrapping_add(span.at)
    }

    #[inline]
    fn region(&self, span: Span) -> Region {
        let region = match span.space {
            Space::Input => self.input,
            Space::Output => self.output,
            Space::Scratch => self.scratch,
        };
        let inside = span.at <= region.len && span.len <= region.len - span.at;
        assert!(inside, "{span:?} leaves its space of {} bytes", region.len);
        region
    }

    #[cold]
    fn refuse_overlap(&self, span: Span, only_receives: bool) {
        let mut flights = self.workspace.flights.iter();
        let hit = flights.find(|old| (old.receive || !only_receives) && old.span.overlaps(span));
        assert!(hit.is_none(), "{span:?} is in use by {hit:?}");
    }
}

#[cold]
fn mismatch(span: Span, got: u64) -> Result<(), MpiError> {
    Err(MpiError::CountMismatch { expected: span.len as u64, got })
}

impl Drop for Arena<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.workspace.flights.is_empty() {
            // A collective that ends in the middle: an error, or a panic in a user's operation.
            self.cancel(0);
            if let Err(error) = self.wait() {
                tracing::debug!("a collective was given up: {error}");
            }
        }
        self.process.give_workspace(std::mem::take(&mut self.workspace));
    }
}
