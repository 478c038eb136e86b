//! The interface: endpoints, active messages, progress. One-sided operations are in `rma`, the
//! impl of the contract that dispatches to them in `contract`.
//!
//! **Life of an endpoint.** `Free` (its number may be given out) -> `Open` by `connect` ->
//! `Failed` by `invalidate` -> `Free` by `disconnect`, which also leads from `Open` to `Free`. Its
//! incarnation goes up at each `connect`, so that a message lent by an earlier one is not taken
//! for the present one's.
//!
//! **Order of events in `progress`.** Tokens of failed operations, then failed endpoints, then
//! one endpoint that may post again, then arrivals. Where the arrivals have to make the room
//! first, the endpoint comes after them and a unit of the budget is kept for it. With a budget of
//! one they take turns: neither starves the other.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, Hasher as _};

use bowline_base::doorbell::Doorbell;
use bowline_base::view::{View, copy_small};
use bowline_uct::{
    AmHeader, AmId, Arrival, Desc, EpId, IfaceAttr, LocalSlice, OpenError, PeerFailure, PostError,
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
        /// Arrivals that the sink kept.
        kept,
        /// Posts refused because the queue or the pool was full.
        refused,
        /// Endpoints told that they may post again.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Failed,
}

/// What an endpoint was last refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Slot,
    Buffer,
}

#[derive(Debug)]
struct Endpoint {
    state: State,
    incarnation: u32,
    /// Stands in the queue of those that want to know when they may post.
    asked: bool,
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
    endpoints: Vec<Endpoint>,
    /// Numbers of free endpoints.
    free_endpoints: Vec<u32>,
    /// Endpoints that asked for `writable`, in order of asking; each at most once.
    waiters: VecDeque<EpId>,
    /// Tokens of lent messages whose endpoint failed; at most one per slot, since arrivals wait
    /// for them.
    failed_tokens: VecDeque<Token>,
    failed_endpoints: VecDeque<EpId>,
    doorbell: Doorbell,
    /// Whether a budget of one goes to an endpoint that wants to post.
    turn: bool,
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
            endpoints: Vec::new(),
            free_endpoints: Vec::new(),
            waiters: VecDeque::new(),
            failed_tokens: VecDeque::with_capacity(config.slots as usize),
            failed_endpoints: VecDeque::new(),
            doorbell: Doorbell::private(),
            turn: false,
            counters: SelfCounters::default(),
        })
    }

    /// What was counted.
    pub const fn counters(&self) -> &SelfCounters {
        &self.counters
    }

    fn open_endpoint(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        match self.identity.check(address) {
            Ok(()) => {}
            Err(Mismatch::Damaged(how)) => return Err(OpenError::BadAddress(how.to_owned())),
            Err(other) => return Err(OpenError::Unreachable(other.into())),
        }
        let index = match self.free_endpoints.pop() {
            Some(index) => index,
            None => self.grow_endpoints()?,
        };
        let endpoint = &mut self.endpoints[index as usize];
        endpoint.state = State::Open;
        endpoint.incarnation = endpoint.incarnation.wrapping_add(1);
        endpoint.missing = Missing::Slot;
        Ok(EpId(index))
    }

    fn grow_endpoints(&mut self) -> Result<u32, OpenError> {
        let index = self.endpoints.len() as u32;
        if index == MAX_ENDPOINTS {
            return Err(OpenError::Limit(format!(
                "all {MAX_ENDPOINTS} endpoints of the self transport are in use; disconnect some"
            )));
        }
        self.endpoints.push(Endpoint {
            state: State::Free,
            incarnation: 0,
            asked: false,
            missing: Missing::Slot,
        });
        // Room for everything that may later be said of the endpoint is made here, so that
        // nothing but `connect` allocates.
        let endpoints = self.endpoints.len();
        self.waiters.reserve(endpoints - self.waiters.len());
        self.failed_endpoints.reserve(endpoints - self.failed_endpoints.len());
        self.free_endpoints.reserve(endpoints - self.free_endpoints.len());
        Ok(index)
    }

    fn close_endpoint(&mut self, ep: EpId) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0 as usize) else {
            return;
        };
        if endpoint.state == State::Free {
            return;
        }
        endpoint.state = State::Free;
        if std::mem::take(&mut endpoint.asked) {
            self.waiters.retain(|&waiting| waiting != ep);
        }
        // Whoever closed an endpoint does not want to hear of it any more.
        self.failed_endpoints.retain(|&failed| failed != ep);
        self.free_endpoints.push(ep.0);
    }

    fn fail_endpoint(&mut self, ep: EpId) {
        if self.check_open(ep).is_err() {
            return;
        }
        let endpoint = &mut self.endpoints[ep.0 as usize];
        endpoint.state = State::Failed;
        let now = endpoint.incarnation;
        if std::mem::take(&mut endpoint.asked) {
            self.waiters.retain(|&waiting| waiting != ep);
        }
        for entry in self.queue.iter_mut() {
            // What has been delivered already completes as a success, whatever came after.
            let Body::Lent { token, ep: lender, incarnation, .. } = entry.body else {
                continue;
            };
            if lender == ep && incarnation == now {
                entry.body = Body::Dropped;
                if token != Token::NONE {
                    self.failed_tokens.push_back(token);
                }
            }
        }
        self.failed_endpoints.push_back(ep);
        self.doorbell.ring();
    }

    /// That `ep` may take operations.
    #[inline]
    fn check_open(&self, ep: EpId) -> Result<(), PostError> {
        match self.endpoints.get(ep.0 as usize).map(|endpoint| endpoint.state) {
            Some(State::Open) => Ok(()),
            Some(State::Failed) => Err(PostError::PeerFailed),
            Some(State::Free) | None => Err(PostError::BadEndpoint),
        }
    }

    #[cold]
    fn refuse(&mut self, ep: EpId, missing: Missing) -> PostError {
        self.endpoints[ep.0 as usize].missing = missing;
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
        unsafe { copy_small(payload.as_ptr(), bytes.as_mut_ptr(), len) };
        self.push(id, header, Body::Inline { len: len as u8, bytes });
    }

    /// Queues a payload that stays where it is.
    fn lend(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        pieces: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        self.check_open(ep)?;
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
        let incarnation = self.endpoints[ep.0 as usize].incarnation;
        self.push(id, header, Body::Lent { payload, token, ep, incarnation });
        Ok(Posted::InFlight)
    }

    fn can_tell(&self, ep: EpId) -> bool {
        let missing = self.endpoints[ep.0 as usize].missing;
        !self.queue.is_full() && (missing == Missing::Slot || !self.pool.is_exhausted())
    }

    /// Tells one waiting endpoint that it may post: the first to have asked for which there is
    /// what it misses. Returns the events, 0 or 1.
    ///
    /// Only one, since it may take all the room that there is: were others told at the same time,
    /// they would find nothing and stand at the end again, the same ones each time.
    fn tell_writable(&mut self, sink: &mut dyn Sink) -> u32 {
        let Some(place) = self.waiters.iter().position(|&ep| self.can_tell(ep)) else {
            return 0;
        };
        let Some(ep) = self.waiters.remove(place) else {
            return 0;
        };
        let endpoint = &mut self.endpoints[ep.0 as usize];
        endpoint.asked = false;
        endpoint.missing = Missing::Slot;
        self.counters.writable += 1;
        sink.writable(ep);
        1
    }

    /// Hands at most `budget` arrivals and completions to the sink.
    fn deliver(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = 0;
        while events < budget
            && let Some(Entry { header, id, body }) = self.queue.front()
        {
            let (header, id) = (*header, *id);
            let mut arrive = |payload: View<'_>, desc| {
                self.counters.received += 1;
                events += 1;
                sink.am(Arrival { source: MYSELF, id, header, payload, desc })
            };
            match body {
                Body::Inline { len, bytes } => {
                    // SAFETY: the bytes live in the queue, which nobody touches during the call.
                    let payload = unsafe { View::from_raw(bytes.as_mut_ptr(), usize::from(*len)) };
                    // Without a descriptor there is nothing to keep.
                    let (Verdict::Consumed | Verdict::Keep) = arrive(payload, None);
                }
                Body::Held { desc } => {
                    let payload = self.pool.view(*desc).expect("a queued message owns its buffer");
                    match arrive(payload, Some(Desc(*desc))) {
                        Verdict::Keep => self.counters.kept += 1,
                        Verdict::Consumed => {
                            self.pool.give_back(*desc);
                        }
                    }
                }
                Body::Lent { payload, token, .. } => {
                    let (Verdict::Consumed | Verdict::Keep) = arrive(payload.view(), None);
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

    /// Reports what failed, operations before endpoints.
    #[cold]
    fn report_failures(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = 0;
        while events < budget {
            if let Some(token) = self.failed_tokens.pop_front() {
                sink.completed(token, Err(PeerFailure::Died));
            } else if let Some(ep) = self.failed_endpoints.pop_front() {
                // The worker itself lives, and so do its other endpoints: only this one failed.
                sink.failed(None, Some(ep), PeerFailure::Died);
            } else {
                break;
            }
            events += 1;
        }
        events
    }

    /// Whether `progress` would report something.
    fn has_events(&self) -> bool {
        !self.queue.is_empty()
            || !self.failed_tokens.is_empty()
            || !self.failed_endpoints.is_empty()
            || self.waiters.iter().any(|&ep| self.can_tell(ep))
    }
}
