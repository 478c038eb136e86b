//! The memory that the steps of a rank work on, and the operations under way on it.
//!
//! It makes of spans buffer handles, copies and operands. It is safe to use whatever an
//! algorithm asks for:
//! 1. Every span is checked against its space.
//! 2. Every operation under way is noted with its span until it is complete. Nothing may overlap
//!    a span that is being received into, and a span that is being sent may only be read; an
//!    algorithm that breaks this is stopped by a panic, before anything is touched.
//! 3. A plan that fails for a reason of its own, which no other rank learns (a block of another length than
//!    expected), waits for nobody any more, and nobody waits for it: what it would still send is sent without
//!    bytes, which is another length than its receiver expects, so that the failure spreads with the messages;
//!    what it would still receive is received into no bytes, so that its sender's buffer is free.
//!    What the death of a member ends needs none of that: its communicator's space fails at every member.
//!
//! Who waits for operations, and that the memory stays until they have ended, is the business of the users: the
//! [arena](crate::coll::arena) of a blocking collective, and a [run](crate::coll::run).

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::copy::copy_bytes;
use bowline_base::sync::LINE;
use bowline_ucp::{
    Envelope, Ep, MatchSpec, OpError, OpStatus, RemoteWorker, RequestId, SendMode, Sent, Worker,
};

use crate::error::MpiError;
use crate::op::operands::Operands;
use crate::unwinding::without_unwinding;
use crate::workspace::{Flight, Partner, Workspace};
use bowline_model::coll::plan::{Space, Span};

/// Where operations are posted and taken: a worker, by its own thread or by a helper.
pub(crate) trait Port {
    fn send(&self, ep: Ep, envelope: Envelope, buffer: SendBuf) -> Result<Sent, OpError>;
    fn recv(&self, spec: MatchSpec, buffer: RecvBuf) -> Result<RequestId, OpError>;
    /// The rank is going to compute before it waits for a send.
    fn watch_send(&self, id: RequestId);
    fn take(&self, id: RequestId) -> Option<OpStatus>;
    fn cancel(&self, id: RequestId);
    fn detach(&self, id: RequestId);
}

macro_rules! ports {
    ($($type:ty, $recv:ident);*) => {$(
        impl Port for $type {
            #[inline]
            fn send(&self, ep: Ep, envelope: Envelope, buffer: SendBuf) -> Result<Sent, OpError> {
                self.send(ep, envelope, buffer, SendMode::Standard)
            }

            #[inline]
            fn recv(&self, spec: MatchSpec, buffer: RecvBuf) -> Result<RequestId, OpError> {
                self.$recv(spec, buffer)
            }

            #[inline]
            fn watch_send(&self, id: RequestId) {
                self.watch_send(id);
            }

            #[inline]
            fn take(&self, id: RequestId) -> Option<OpStatus> {
                self.take(id)
            }

            #[inline]
            fn cancel(&self, id: RequestId) {
                self.cancel(id);
            }

            #[inline]
            fn detach(&self, id: RequestId) {
                self.detach(id);
            }
        }
    )*};
}

ports!(Worker, recv_stage; RemoteWorker, recv);

/// Start and length of a space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
}

impl Region {
    /// Where a span starts, which must lie inside.
    #[inline]
    pub(crate) fn start_of(self, span: Span) -> *mut u8 {
        let inside = span.at <= self.len && span.len <= self.len - span.at;
        assert!(inside, "{span:?} leaves its space of {} bytes", self.len);
        self.start.wrapping_add(span.at)
    }
}

/// The three spaces of a rank.
#[derive(Debug)]
pub(crate) struct Spaces {
    input: Region,
    output: Region,
    scratch: Region,
}

// SAFETY: it is three addresses. The maker has promised the memory for as long as they are used, whatever thread
// uses them: bytes belong to no thread.
unsafe impl Send for Spaces {}

impl Spaces {
    /// The spaces of a collective, of which the scratch comes from a workspace.
    ///
    /// # Safety
    /// Until all operations over the spaces have ended, and nobody uses the spaces any more: the bytes of the input
    /// can be read and nobody writes them; those of the output can be read and written and nobody else uses them;
    /// the workspace stays, and its scratch is used for nothing else. No two of the three overlap.
    pub(crate) unsafe fn new(
        (input, output): (Region, Region),
        workspace: &mut Workspace,
        scratch: usize,
    ) -> Self {
        let lines = scratch.div_ceil(LINE);
        if workspace.scratch.len() < lines {
            workspace.scratch.resize_with(lines, || bowline_base::sync::CacheLine([0; LINE]));
        }
        let start = workspace.scratch.as_mut_ptr().cast();
        Self { input, output, scratch: Region { start, len: scratch } }
    }

    /// Where a span starts, which must lie inside of its space.
    #[inline]
    pub(crate) fn start(&self, span: Span) -> *mut u8 {
        let region = match span.space {
            Space::Input => self.input,
            Space::Output => self.output,
            Space::Scratch => self.scratch,
        };
        region.start_of(span)
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

/// The operations of a stage that are under way.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) flights: Vec<Flight>,
    /// The track of those that are begun now.
    pub(crate) track: u8,
    /// Operations that [`poll`](Self::poll) has seen ended, and the first error of them.
    ended: usize,
    failed: Option<MpiError>,
    /// Whether operations that are cancelled are replaced by empty ones (rule 3).
    pub(crate) empties: bool,
    /// What the receives of this stage write, by space.
    written: [Hull; 3],
    /// What the sends of this stage read, by space.
    read: [Hull; 3],
}

impl Stage {
    /// Nothing is under way. `flights` is an empty list, whose capacity is used.
    #[inline]
    pub(crate) fn new(flights: Vec<Flight>) -> Self {
        Self {
            flights,
            track: 0,
            ended: 0,
            failed: None,
            empties: false,
            written: [Hull::EMPTY; 3],
            read: [Hull::EMPTY; 3],
        }
    }

    /// Starts a send of a span. Which request it has, if it is not complete.
    #[inline]
    pub(crate) fn send(
        &mut self,
        port: &impl Port,
        spaces: &Spaces,
        ep: Ep,
        envelope: Envelope,
        span: Span,
    ) -> Result<Option<RequestId>, OpError> {
        let start = self.readable(spaces, span);
        // SAFETY: the bytes lie in a space (rule 1), which stays until the operation is complete, as the maker of
        // the spaces has promised. Until then nothing writes them (rule 2: `read` holds the span from here or
        // it is complete already).
        let buffer = unsafe { SendBuf::borrowed(start, span.len) };
        let sent = without_unwinding(|| port.send(ep, envelope, buffer))?;
        let Sent::Pending(id) = sent else { return Ok(None) };
        self.read[span.space as usize].add(span);
        let (tag, partner) = (envelope.tag, Partner::To(ep));
        self.flights.push(Flight { id, span, tag, partner, track: self.track });
        Ok(Some(id))
    }

    /// Starts a receive into a span, which `post` posts.
    #[inline]
    pub(crate) fn recv(
        &mut self,
        spaces: &Spaces,
        MatchSpec { source, tag, .. }: MatchSpec,
        span: Span,
        post: impl FnOnce(RecvBuf) -> Result<RequestId, OpError>,
    ) -> Result<(), OpError> {
        let start = self.writable(spaces, span);
        self.written[span.space as usize].add(span);
        // SAFETY: the bytes lie in a space that stays, as in `send`, and are not the input (rule 1 and `writable`).
        // Until the operation is complete nothing reads or writes them, since `written` holds the span (rule 2).
        let buffer = unsafe { RecvBuf::borrowed(start, span.len) };
        let id = without_unwinding(|| post(buffer))?;
        let partner = Partner::From(source);
        self.flights.push(Flight { id, span, tag, partner, track: self.track });
        Ok(())
    }

    /// Whether all operations under way have ended, and how. After the first failure what has not matched is
    /// cancelled. Moves nothing on.
    pub(crate) fn poll(&mut self, port: &impl Port, own: Own) -> Option<Result<(), MpiError>> {
        while let Some(&flight) = self.flights.get(self.ended) {
            let status = port.take(flight.id)?;
            self.ended += 1;
            let ended = outcome(status.length, status.outcome, flight.received());
            if let Err(error) = ended {
                self.abandon(port, error);
                self.replace(port, own, &flight, status.outcome);
            }
        }
        self.end();
        Some(self.failed.take().map_or(Ok(()), Err))
    }

    /// All operations have ended.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.ended = 0;
        self.flights.clear();
        self.written = [Hull::EMPTY; 3];
        self.read = [Hull::EMPTY; 3];
    }

    /// Cancels what is under way because of an error, which [`poll`](Self::poll) gives in the end.
    #[cold]
    pub(crate) fn abandon(&mut self, port: &impl Port, error: MpiError) {
        if self.failed.is_none() {
            self.failed = Some(error);
            self.empties |= error.is_own();
            self.cancel(port, self.ended);
        }
    }

    /// Cancels the operations from number `from` on.
    #[cold]
    pub(crate) fn cancel(&self, port: &impl Port, from: usize) {
        for flight in &self.flights[from..] {
            port.cancel(flight.id);
        }
    }

    /// Rule 3, of an operation that has ended in some way.
    #[cold]
    pub(crate) fn replace(
        &self,
        port: &impl Port,
        Own { space, rank }: Own,
        &Flight { tag, partner, .. }: &Flight,
        outcome: Result<(), OpError>,
    ) {
        if !self.empties || outcome != Err(OpError::Cancelled) {
            return;
        }
        match partner {
            Partner::To(ep) => send_empty(port, ep, Envelope { space, source: rank, tag }),
            Partner::From(source) => {
                recv_empty(port, MatchSpec { space, source, tag, tag_mask: u64::MAX });
            }
        }
    }

    /// Copies one span to another; they do not overlap, or are the same.
    #[inline]
    pub(crate) fn copy(&mut self, spaces: &Spaces, from: Span, into: Span) {
        assert_eq!(from.len, into.len, "copies keep the length");
        if from == into || from.len == 0 {
            return;
        }
        assert!(!from.overlaps(into), "copies do not overlap: {from:?}, {into:?}");
        let (source, target) = (self.readable(spaces, from), self.writable(spaces, into));
        // SAFETY: both are `len` bytes inside their spaces (rule 1) and do not overlap, as
        // asserted; different spaces are different memories. Nothing under way touches the target
        // or writes the source (rule 2).
        unsafe { copy_bytes(source, target, from.len) };
    }

    /// Lets `combine` do `right = left OP right`.
    #[inline]
    pub(crate) fn reduce(
        &mut self,
        spaces: &Spaces,
        left: Span,
        right: Span,
        combine: impl FnOnce(Operands<'_>),
    ) {
        assert_eq!(left.len, right.len, "operands have one length");
        if left.len == 0 {
            return;
        }
        assert!(!left.overlaps(right), "operands do not overlap: {left:?}, {right:?}");
        let (operand, target) = (self.readable(spaces, left), self.writable(spaces, right));
        // SAFETY: both are `left.len` bytes inside their spaces (rule 1) and do not overlap, as asserted.
        // Nothing under way writes the one or touches the other (rule 2), and nothing starts during the
        // call.
        combine(unsafe { Operands::new(operand, target, left.len) });
    }

    /// Stops a plan that uses a span which another track, whose stage this is, receives or sends.
    pub(crate) fn refuse(&self, span: Span, write: bool) {
        let space = span.space as usize;
        if self.written[space].may_hold(span) || write && self.read[space].may_hold(span) {
            self.refuse_overlap(span, !write);
        }
    }

    /// Where a span starts that may be read now.
    #[inline]
    fn readable(&self, spaces: &Spaces, span: Span) -> *const u8 {
        let start = spaces.start(span);
        if self.written[span.space as usize].may_hold(span) {
            self.refuse_overlap(span, true);
        }
        start
    }

    /// Where a span starts that may be written now.
    #[inline]
    fn writable(&self, spaces: &Spaces, span: Span) -> *mut u8 {
        let start = spaces.start(span);
        assert!(span.space != Space::Input, "the input is never written");
        let space = span.space as usize;
        if self.written[space].may_hold(span) || self.read[space].may_hold(span) {
            self.refuse_overlap(span, false);
        }
        start
    }

    #[cold]
    fn refuse_overlap(&self, span: Span, only_receives: bool) {
        let flights = self.flights.iter().filter(|old| old.received().is_some() || !only_receives);
        let mut used = flights.map(|old| old.span);
        let hit = used.find(|old| old.overlaps(span));
        assert!(hit.is_none(), "{span:?} is in use by {hit:?}");
    }
}

/// The space in which a plan's messages match, and this rank in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) space: u32,
    pub(crate) rank: u32,
}

/// Sends no bytes in place of a message (rule 3). An error means that its receiver learns of a failure anyway.
#[cold]
pub(crate) fn send_empty(port: &impl Port, ep: Ep, envelope: Envelope) {
    // SAFETY: no byte is read.
    let buffer = unsafe { SendBuf::borrowed(std::ptr::dangling(), 0) };
    if let Ok(Sent::Pending(id)) = without_unwinding(|| port.send(ep, envelope, buffer)) {
        port.detach(id);
    }
}

/// Receives a message into no bytes (rule 3). An error means that its sender learns of a failure anyway.
#[cold]
pub(crate) fn recv_empty(port: &impl Port, spec: MatchSpec) {
    // SAFETY: no byte is written.
    let buffer = unsafe { RecvBuf::borrowed(std::ptr::dangling_mut(), 0) };
    if let Ok(id) = without_unwinding(|| port.recv(spec, buffer)) {
        port.detach(id);
    }
}

/// How an operation ended; a message must fill the span of its receive.
#[inline]
pub(crate) fn outcome(
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
