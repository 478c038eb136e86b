//! The interface: endpoints, active messages, progress. One-sided operations are in `rma`, the
//! impl of the contract that dispatches to them in `contract`.
//!
//! **Life of an endpoint.** Open by `connect`, failed by `invalidate`, over by `disconnect`. Each has an
//! incarnation of its own, so that a message lent by an earlier one of its number is not taken for its own.
//!
//! **Order of events in `progress`.** Endpoints that failed, each behind the tokens of its operations, then
//! one endpoint that may post again, then arrivals. Where the arrivals have to make the space
//! first, the endpoint comes after them and a unit of the budget is kept for it. With a budget of
//! one each is served in every other call: neither starves the other.

use std::hash::{BuildHasher as _, Hasher as _};

use bowline_base::copy::copy_bytes;
use bowline_base::doorbell::Doorbell;
use bowline_base::view::View;
use bowline_uct::runtime::{EpTable, EventQueue, WritableList};
use bowline_uct::{
    AmHeader, AmId, Arrival, EpId, IfaceAttr, LocalSlice, OpenError, PeerFailure, PostError,
    Posted, Sink, Source, Token, Verdict,
};

use crate::caps::{self, MAX_ENDPOINTS, SelfConfig};
use crate::md::Domain;
use crate::queue::{Body, Entry, INLINE_BYTES, Lent, Pool, Queue};
use crate::wire::{Identity, Mismatch};

mod contract;
mod rma;

bowline_base::counters! {
    /// What an interface of the self transport counts.
    pub struct SelfCounters {
        /// Active messages sent by copy in the call.
        am_short,
        /// Active messages packed by the caller.
        am_bcopy,
        /// Active messages received from where they lie.
        am_zcopy,
        /// Arrivals handed to the sink.
        received,
        /// Posts refused because the queue or the pool was full.
        refused,
        /// Endpoints reported as writable.
        writable,
        /// Puts of all flavours.
        puts,
        /// Gets of all flavours.
        gets,
        /// Atomic operations.
        atomics,
    }
}

/// The number under which a worker's messages to itself arrive.
const MYSELF: Source = Source(0);

/// What an endpoint was last refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Slot,
    Buffer,
}

#[derive(Debug)]
struct Endpoint {
    incarnation: u32,
    missing: Missing,
}

/// An interface whose only peer is its own worker.
#[derive(Debug)]
pub struct SelfIface {
    attr: IfaceAttr,
    identity: Identity,
    queue: Queue,
    pool: Pool,
    domain: Domain,
    endpoints: EpTable<Endpoint>,
    /// Incarnations of endpoints so far.
    incarnations: u32,
    waiters: WritableList,
    /// Failed endpoints, and before them the tokens of their lent messages: at most one per slot, since
    /// arrivals wait for them.
    events: EventQueue,
    doorbell: Doorbell,
    /// Whether a budget of one goes to an endpoint that wants to post.
    odd_call: bool,
    counters: SelfCounters,
}

impl SelfIface {
    /// Opens the interface of a worker.
    ///
    /// # Errors
    /// When there is no memory for the pool of buffers.
    pub fn open(config: SelfConfig) -> Result<Self, OpenError> {
        let pool = Pool::new(config.buffers, config.buffer_bytes).map_err(|error| {
            let source = std::io::Error::other(error);
            OpenError::System { act: "reserve the buffers of the self transport", source }
        })?;
        // The standard hasher is keyed at random for each process and moves on with each use, so
        // two interfaces do not share a number, whatever their processes.
        let instance = std::hash::RandomState::new().build_hasher().finish();
        let identity = Identity { pid: std::process::id(), instance };
        Ok(Self {
            attr: caps::attr(config),
            identity,
            queue: Queue::new(config.slots),
            pool,
            domain: Domain::new(instance),
            endpoints: EpTable::default(),
            incarnations: 0,
            waiters: WritableList::default(),
            events: EventQueue::default(),
            doorbell: Doorbell::private(),
            odd_call: false,
            counters: SelfCounters::default(),
        })
    }

    /// What was counted.
    pub const fn counters(&self) -> &SelfCounters {
        &self.counters
    }

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        match self.identity.check(address) {
            Ok(()) => {}
            Err(Mismatch::Damaged(how)) => return Err(OpenError::BadAddress(how.to_owned())),
            Err(other) => return Err(OpenError::Unreachable(other.into())),
        }
        if self.endpoints.len() == MAX_ENDPOINTS as usize {
            return Err(OpenError::Limit(format!(
                "all {MAX_ENDPOINTS} endpoints of the self transport are in use; disconnect some"
            )));
        }
        self.incarnations = self.incarnations.wrapping_add(1);
        let incarnation = self.incarnations;
        let ep = self.endpoints.insert(Endpoint { incarnation, missing: Missing::Slot });
        // Space for everything that may later be said of the endpoint is made here, so that
        // nothing but `connect` allocates.
        let endpoints = self.endpoints.numbers();
        self.waiters.reserve(endpoints);
        self.events.reserve(endpoints + self.queue.slots());
        Ok(ep)
    }

    fn disconnect(&mut self, ep: EpId) {
        if self.endpoints.remove(ep).is_some() {
            self.waiters.cancel(ep);
            // The user who closed an endpoint does not want to hear of it any more.
            self.events.forget(ep);
        }
    }

    fn invalidate(&mut self, ep: EpId) {
        let Some(endpoint) = self.endpoints.fail(ep) else { return };
        let now = endpoint.incarnation;
        self.waiters.cancel(ep);
        for entry in self.queue.iter_mut() {
            // What has been delivered already completes as a success, whatever came after.
            let Body::Lent { token, ep: lender, incarnation, .. } = entry.body else {
                continue;
            };
            if lender == ep && incarnation == now {
                entry.body = Body::Dropped;
                self.events.complete(token, Err(PeerFailure::Died));
            }
        }
        // The worker itself lives, and so do its other endpoints: only this one failed.
        self.events.fail(None, Some(ep), PeerFailure::Died);
        self.doorbell.ring();
    }

    /// That `ep` may take operations.
    #[inline]
    fn check_open(&self, ep: EpId) -> Result<(), PostError> {
        self.endpoints.open(ep).map(drop)
    }

    #[cold]
    fn refuse(&mut self, ep: EpId, missing: Missing) -> PostError {
        if let Ok(endpoint) = self.endpoints.open_mut(ep) {
            endpoint.missing = missing;
        }
        self.counters.refused += 1;
        PostError::NoResource
    }

    #[inline]
    fn push(&mut self, id: AmId, header: &AmHeader, body: Body) {
        self.queue.push(Entry { header: *header, id, body });
        self.doorbell.ring();
    }

    /// Copies a payload of at most [`INLINE_BYTES`] into an entry.
    #[inline]
    fn push_inline(&mut self, id: AmId, header: &AmHeader, payload: &[u8]) {
        debug_assert!(payload.len() <= INLINE_BYTES, "limits were checked before");
        let len = payload.len().min(INLINE_BYTES);
        let mut bytes = [0; INLINE_BYTES];
        // SAFETY: `payload` is readable and `bytes` writable for `len`, which is at most the
        // length of either; they are distinct.
        unsafe { copy_bytes(payload.as_ptr(), bytes.as_mut_ptr(), len) };
        self.push(id, header, Body::Inline { len: len as u8, bytes });
    }

    /// Queues a payload that stays where it is.
    fn am_zcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        pieces: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        let incarnation = self.endpoints.open(ep)?.incarnation;
        if pieces.len() > 1 {
            return Err(PostError::BadArgument);
        }
        if self.queue.is_full() {
            return Err(self.refuse(ep, Missing::Slot));
        }
        self.counters.am_zcopy += 1;
        let Some(piece) = pieces.first() else {
            self.push_inline(id, header, &[]);
            return Ok(Posted::Done);
        };
        let payload = Lent::new(piece.as_ptr(), piece.len());
        self.push(id, header, Body::Lent { payload, token, ep, incarnation });
        Ok(Posted::InFlight)
    }

    fn is_writable_now(&self, ep: EpId) -> bool {
        let missing = self.endpoints.open(ep).map(|endpoint| endpoint.missing);
        !self.queue.is_full() && (missing == Ok(Missing::Slot) || !self.pool.is_exhausted())
    }

    /// Reports one waiting endpoint as writable: the first to have asked for which there is
    /// what it misses. Returns the events, 0 or 1.
    ///
    /// Only one, since it may take all the space that there is: were others reported at the same time,
    /// they would find nothing and stand at the end again, the same ones each time.
    fn report_writable(&mut self, sink: &mut dyn Sink) -> u32 {
        let mut waiters = std::mem::take(&mut self.waiters);
        let reported = waiters.report(sink, 1, |ep| {
            let ready = self.is_writable_now(ep);
            if ready && let Ok(endpoint) = self.endpoints.open_mut(ep) {
                endpoint.missing = Missing::Slot;
            }
            ready
        });
        self.waiters = waiters;
        self.counters.writable += u64::from(reported);
        reported
    }

    /// Hands at most `budget` arrivals and completions to the sink.
    fn deliver(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = 0;
        while events < budget
            && let Some(Entry { header, id, body }) = self.queue.front()
        {
            let (header, id) = (*header, *id);
            let mut arrive = |payload: View<'_>| {
                self.counters.received += 1;
                events += 1;
                sink.am(Arrival { source: MYSELF, id, header, payload })
            };
            match body {
                Body::Inline { len, bytes } => {
                    // SAFETY: the bytes live in the queue, which nobody touches during the call.
                    let payload = unsafe { View::from_raw(bytes.as_mut_ptr(), usize::from(*len)) };
                    let (Verdict::Consumed | Verdict::Enough) = arrive(payload);
                }
                Body::Held { buffer, len } => {
                    let payload = self.pool.view(*buffer, *len as usize);
                    let (Verdict::Consumed | Verdict::Enough) = arrive(payload);
                    self.pool.give_back(*buffer);
                }
                Body::Lent { payload, token, .. } => {
                    let (Verdict::Consumed | Verdict::Enough) = arrive(payload.view());
                    let token = *token;
                    if token != Token::NONE {
                        *body = Body::Delivered { token };
                        continue;
                    }
                }
                Body::Delivered { token } => {
                    sink.completed(*token, Ok(0));
                    events += 1;
                }
                Body::Dropped => {}
            }
            self.queue.pop();
        }
        events
    }

    /// Whether `progress` would report something.
    fn has_events(&self) -> bool {
        !self.queue.is_empty()
            || !self.events.is_empty()
            || self.waiters.iter().any(|ep| self.is_writable_now(ep))
    }
}
