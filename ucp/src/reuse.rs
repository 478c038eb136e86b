//! Slots in the table of peers that are used again, so that a server's memory grows with the clients
//! that it has at once, and not with those that it ever had.
//!
//! ```text
//!   meet ──► Held ──(farewells of both sides, or close of a failed one)──► Ended ─┐
//!     ▲        └──(failed, and of another job)──────────────────────────────────┐ │
//!     │                                                                         ▼ ▼
//!     └─────────────── Free, the generation one higher ◄──(nothing names it)── gone through  
//! ```
//! Rules.
//!
//! 1. *An [`Ep`] is an index and a generation.* Whatever takes one from the user compares it with the
//!    name of the peer at the slot ([`Engine::index_of`]; the short path on its own, beside its
//!    limit). One of an earlier generation is as one that was closed: it has failed with
//!    [`PeerFailure::Closed`], its close is done, and nothing is known of it.
//! 2. *Inside of the worker a peer is an index without generation.* That is sound since a slot is freed
//!    only when no table of the worker names it any more. Nobody counts: from time to time all tables
//!    are gone through, the slots that they name are marked, and of those that are over the others are
//!    freed. [`Inner::named`] takes every table by name, so that a new one does not compile before
//!    somebody has decided about it. What is handed to the user and comes back, a kept active message
//!    for instance, names an [`Ep`].
//! 3. *Over is* what was closed in order, from either side, or has failed. A failed peer of the worker's
//!    own job keeps its slot until it is closed here: its rank's name is known to the program, which
//!    is to get the failure whenever it asks; and there are no more of them than ranks.
//! 4. *What names a slot:* requests that were not taken, unexpected messages, active messages before
//!    their handler, actions, keys of its memory, its stream while it has bytes and was not closed here,
//!    sources of transports that are bound to it, barred ones included. So a peer that was rejected
//!    has its slot until its transport has given it up.
//! 5. *When.* The tables are gone through when as many peers have come since the last time as kept their
//!    slots then, 64 at least, and one for every 16 requests and messages that wait. So a new peer pays
//!    for a constant number of entries; and since a slot is added only when none is free, there are at
//!    most twice as many as peers at once, or 64 more, and what one call of the transports brings (or a
//!    16th of what waits). It happens at the begin of a connect or at the end of a progress,
//!    where no code up the stack has an index in its hands; code of the user may be there, which has
//!    endpoints.

use bowline_uct::PeerFailure;

use crate::address::WorkerAddress;
use crate::engine::{Engine, Inner};
use crate::error::OpError;
use crate::peer::{Ep, NO_PEER, Peer, PeerIndex, PeerState, REJECTED, SlotState, writes_no_more};
use crate::request::{Body, OneSided, Receive};
use crate::state::inbox::Delivery;
use crate::worker::Worker;

/// Peers that come between two passes through the tables, at least.
const SOME: usize = 64;

/// Requests and waiting messages for each of them.
const SHARE: usize = 16;

/// How many peers a worker has to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCount {
    /// Those that it knows: connected, or over and not forgotten yet.
    pub known: usize,
    /// For how many it has memory. It grows with the number known at once, and stays.
    pub slots: usize,
}

impl Worker {
    /// How many peers there are.
    pub fn peer_count(&self) -> PeerCount {
        let engine = &self.inner.borrow().engine;
        let free = engine.peers.iter().filter(|peer| peer.slot == SlotState::Free).count();
        PeerCount { known: engine.peers.len() - free, slots: engine.peers.len() }
    }
}

impl Engine {
    /// The endpoint that names a peer.
    #[inline]
    pub(crate) fn ep(&self, index: PeerIndex) -> Ep {
        self.peers[index as usize].name
    }

    /// The peer that an endpoint names.
    #[inline]
    pub(crate) fn index_of(&self, ep: Ep) -> Result<PeerIndex, OpError> {
        match self.peers.get(ep.index() as usize) {
            Some(peer) if peer.name == ep => Ok(ep.index()),
            Some(_) => Err(PeerFailure::Closed.into()),
            None => Err(OpError::BadEndpoint),
        }
    }

    /// The same; [`NO_PEER`] for one that is over.
    #[inline]
    pub(crate) fn slot_of(&self, ep: Ep) -> PeerIndex {
        self.index_of(ep).unwrap_or(NO_PEER)
    }

    /// Gives a peer a slot.
    pub(crate) fn allocate_slot(&mut self, mut peer: Peer) -> PeerIndex {
        let slots = &mut self.slots;
        slots.came += 1;
        slots.wanted = slots.came >= slots.due.max(SOME);
        if let Some(index) = slots.free.pop_front() {
            let slot = &mut self.peers[index as usize];
            peer.name = slot.name;
            *slot = peer;
            return index;
        }
        let index = self.peers.len() as PeerIndex;
        debug_assert!(index & REJECTED == 0);
        peer.name = Ep::new(index, 1);
        self.peers.push(peer);
        index
    }

    /// Rule 3.
    fn is_over(&self, index: PeerIndex) -> bool {
        let peer = &self.peers[index as usize];
        let failed = matches!(peer.state, PeerState::Failed(_));
        // What is still said to it, or awaited for it.
        let quiet = peer.end.is_none() && !peer.notice && peer.pending.is_empty();
        let left = match peer.slot {
            SlotState::Ended => true,
            SlotState::Held => peer.closed_here || peer.address.job != self.job,
            SlotState::Free => false,
        };
        failed && quiet && left
    }
}

/// Slots that are named.
struct Named(Vec<bool>);

impl Named {
    fn note(&mut self, peer: PeerIndex) {
        if let Some(named) = self.0.get_mut(peer as usize) {
            *named = true;
        }
    }

    fn all(&mut self, peers: impl IntoIterator<Item = PeerIndex>) {
        peers.into_iter().for_each(|peer| self.note(peer));
    }
}

impl Inner {
    /// Rule 5.
    #[inline]
    pub(crate) fn reclaim_slots(&mut self) {
        if self.engine.slots.wanted {
            self.free_slots();
        }
    }

    /// Frees the slots of peers that are over and named nowhere.
    #[cold]
    fn free_slots(&mut self) {
        let Named(named) = self.named();
        let mut kept = 0;
        for (index, named) in (0..).zip(named) {
            if !named && self.engine.is_over(index) {
                self.free(index);
            } else {
                kept += usize::from(self.engine.peers[index as usize].slot != SlotState::Free);
            }
        }
        let peers = &self.engine.peers;
        self.rounds.forget(|peer| peers[peer as usize].slot == SlotState::Free);
        let waiting = self.engine.requests.len() + self.engine.unexpected.len();
        let slots = &mut self.engine.slots;
        (slots.came, slots.due, slots.wanted) = (0, kept.max(waiting / SHARE), false);
        tracing::debug!(kept, free = slots.free.len(), "went through the slots of peers");
    }

    /// Rules 2 and 4: the slots that the tables of the worker name.
    fn named(&self) -> Named {
        let Self {
            lanes: _,
            engine,
            keys_open: _, // leaves the peer's name with its endpoint
            rounds: _,    // forgets it
            background: _,
            book: _, // has endpoints
            introductions: _,
            own_address: _,
            failures: _,
            wakeup: _,
            at_end: _,
            descriptors: _,
            only: _,
            failure_generation: _,
            polls: _,
        } = self;
        let Engine {
            peers,
            sources,
            requests,
            unexpected,
            actions,
            protocols,
            emulation,
            streams,
            am_waiting,
            inbox,
            closings,
            meter: _,     // of lanes
            by_uid: _,    // forgets it
            endpoints: _, // as do these
            // By keys of requests and of unexpected messages.
            spaces: _,
            one_sided: _,
            callbacks: _,
            async_state: _,
            // By rank.
            dead: _,
            set_aside: _,
            in_place: _,
            am_buffers: _,
            stream_buffers: _,
            counters: _,
            options: _,
            budget: _,
            envelope_bytes: _,
            overrun: _,
            watches_receives: _,
            job: _,
            slots: _,
        } = engine;
        let mut named = Named(vec![false; peers.len()]);
        for &source in sources.iter().flatten().filter(|&&source| source != NO_PEER) {
            named.note(source & !REJECTED);
        }
        for (_, request) in requests.iter() {
            match &request.body {
                Body::Send(send) => named.note(send.peer),
                Body::Receive(Receive { fetch, .. }) => named.all(fetch.as_ref().map(|f| f.peer)),
                Body::Expecting(expecting) => named.note(expecting.peer()),
                Body::Stream(receive) => named.note(receive.peer),
                Body::OneSided(one) => {
                    let OneSided { emulated, .. } = &**one;
                    named.all(*emulated);
                }
                Body::Free => {}
            }
        }
        named.all(unexpected.iter().map(|(_, message)| message.peer));
        named.all(actions.iter().filter_map(|action| action.peer()));
        named.all(emulation.peers());
        let gone = |peer: PeerIndex| peers[peer as usize].failure().is_some_and(writes_no_more);
        protocols.kept.iter().for_each(|(_, kept)| named.all(kept.peers(&gone)));
        for (index, stream) in streams.peers() {
            let wanted = stream.is_left() && !peers[index as usize].closed_here;
            named.all((wanted || stream.is_read()).then_some(index));
        }
        named.all(am_waiting.iter().map(|&(peer, _)| peer));
        for delivery in inbox {
            match delivery {
                Delivery::Am(arrival) => named.note(engine.slot_of(arrival.from)),
                Delivery::End(ep, _) => named.note(engine.slot_of(*ep)),
                Delivery::Completed(_) => {}
            }
        }
        named.all(closings.iter().copied());
        named
    }

    /// A slot is nobody's from now on.
    fn free(&mut self, index: PeerIndex) {
        if self.engine.peers[index as usize].ep.0 != u32::MAX || !self.keys_open.is_empty() {
            self.leave_endpoints(index);
        }
        let engine = &mut self.engine;
        engine.forget_uid(index);
        engine.forget_stream(index);
        engine.emulation.forget(index);
        engine.protocols.kept.forget(index);
        let peer = &mut engine.peers[index as usize];
        if peer.share_grown {
            let options = &engine.options;
            engine.budget += options.share - options.share_first;
        }
        let next = peer.name.generation().wrapping_add(1);
        *peer = Peer::new(WorkerAddress::NONE, 0);
        peer.name = Ep::new(index, next);
        peer.state = PeerState::Failed(PeerFailure::Closed);
        peer.slot = SlotState::Free;
        // Once all generations are used up, the slot stays empty: an endpoint never names another peer.
        if next != u32::MAX {
            engine.slots.free.push_back(index);
        }
    }
}
