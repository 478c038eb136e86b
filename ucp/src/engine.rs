//! The engine: what a worker knows, and what it does with what its lanes report.
//!
//! It is the `Sink` of every lane. Inside a lane's progress it matches, copies arrivals into
//! waiting receives and notes [`Action`]s; it never posts. Short tagged arrivals allocate nothing;
//! a first contact and a message without receive do.

mod active;
mod arrive;
mod failure;
mod inner;
pub(crate) mod life;
mod matches;
mod poll;
mod progress;
mod remote;

use std::collections::{HashMap, HashSet, VecDeque};

use bowline_base::slab::{Key, Slab};
use bowline_uct::{Arrival, EpId, PeerFailure, Sink, Source, Token, Verdict};

use crate::action::{Action, Actions};
use crate::buffer_pool::BufferPool;
use crate::error::OpError;
use crate::peer::{NO_PEER, Peer, PeerIndex, REJECTED};
use crate::request::{Body, Receive, RequestId, Requests, SendPhase};
use crate::select::Meter;
use crate::settings::Options;
use crate::space::{Lost, Spaces};
use crate::state::async_state::AsyncState;
use crate::state::counters::Counters;
use crate::state::emulation::Emulation;
use crate::state::in_place::InPlace;
use crate::state::inbox::Delivery;
use crate::state::slots::FreeSlots;
use crate::state::stream::Streams;
use crate::status::{MessageInfo, OpStatus, ReceiveError};
use crate::unexpected::Unexpected;
use crate::wire;

pub(crate) use inner::Inner;
use life::Protocols;
pub(crate) use matches::LONG;
pub use remote::{BackgroundWork, RemoteWorker};

/// Everything but the lanes.
pub(crate) struct Engine {
    pub(crate) peers: Vec<Peer>,
    pub(crate) by_uid: HashMap<u64, PeerIndex>,
    pub(crate) sources: Vec<Vec<PeerIndex>>,
    /// For each lane, which peer an endpoint leads to.
    pub(crate) endpoints: Vec<Vec<PeerIndex>>,
    pub(crate) spaces: Spaces,
    pub(crate) requests: Requests,
    pub(crate) unexpected: Slab<Unexpected>,
    pub(crate) actions: Actions,
    /// One-sided operations that wait for space in their lanes, in order.
    pub(crate) one_sided: VecDeque<Key>,
    /// Those that the owners of the memory carry out.
    pub(crate) emulation: Emulation,
    /// By which messages travel.
    pub(crate) protocols: Protocols,
    /// Measures long messages.
    pub(crate) meter: Meter,
    pub(crate) streams: Streams,
    /// Active messages whose data lies with their sender, and that were neither received nor dropped:
    /// the peer, and its request.
    pub(crate) am_waiting: HashSet<(PeerIndex, u64)>,
    /// What waits to be given to code of the user.
    pub(crate) inbox: VecDeque<Delivery>,
    /// Messages of it that were taken out and will be put back: their handlers are running.
    pub(crate) set_aside: usize,
    /// Handlers of active messages that are called while these arrive.
    pub(crate) in_place: InPlace,
    /// Payloads of active messages in the inbox.
    pub(crate) am_buffers: BufferPool,
    /// Bytes of streams that no receive waits for.
    pub(crate) stream_buffers: BufferPool,
    /// Requests that have a callback, by their place, and the callback as the worker keeps it.
    pub(crate) callbacks: Vec<Option<(Key, Key)>>,
    /// Peers whose endpoints are being closed here, until our DISCONNECT is queued.
    pub(crate) closings: Vec<PeerIndex>,
    pub(crate) counters: Counters,
    pub(crate) options: Options,
    /// What is left of the budget for shares beyond the first.
    pub(crate) budget: i64,
    /// What the entries of waiting messages take; see [`crate::unasked`].
    pub(crate) envelope_bytes: u64,
    /// A limit on what came unasked is exceeded, and an action that deals with it is noted.
    pub(crate) overrun: bool,
    /// A protocol watches the receives of some spaces: what meets one of them is its to hear.
    pub(crate) watches_receives: bool,
    pub(crate) job: u64,
    /// Ranks of the own job that have failed, and how.
    pub(crate) dead: Vec<Lost>,
    /// For progress from beside.
    pub(crate) async_state: AsyncState,
    /// Which slots of `peers` are nobody's.
    pub(crate) slots: FreeSlots,
}

impl Engine {
    pub(crate) fn new(
        lanes: usize,
        job: u64,
        options: Options,
        actions: usize,
        protocols: Protocols,
    ) -> Self {
        let mut engine = Self {
            peers: Vec::new(),
            by_uid: HashMap::new(),
            sources: vec![Vec::new(); lanes],
            endpoints: vec![Vec::new(); lanes],
            spaces: Spaces::default(),
            requests: Requests::with_capacity(256),
            unexpected: Slab::default(),
            actions: Actions::with_capacity(actions),
            one_sided: VecDeque::new(),
            emulation: Emulation::default(),
            protocols: Protocols::default(),
            meter: Meter::default(),
            streams: Streams::default(),
            am_waiting: HashSet::new(),
            inbox: VecDeque::new(),
            set_aside: 0,
            in_place: InPlace::default(),
            // What one message of a transport holds, as a rule, and as many as one poll brings.
            am_buffers: BufferPool::new(64, 16 << 10),
            stream_buffers: BufferPool::new(8, 128 << 10),
            callbacks: Vec::new(),
            closings: Vec::new(),
            counters: Counters::default(),
            options,
            budget: options.budget,
            envelope_bytes: 0,
            overrun: false,
            watches_receives: false,
            job,
            dead: Vec::new(),
            async_state: AsyncState::NONE,
            slots: FreeSlots::default(),
        };
        engine.set_protocols(protocols);
        engine
    }

    /// Messages travel by these protocols from now on.
    pub(crate) fn set_protocols(&mut self, protocols: Protocols) {
        let watched = |&collective: &bool| protocols.watch_receives(&self.options, collective);
        self.watches_receives = [false, true].iter().any(watched);
        self.protocols = protocols;
    }

    /// What was counted so far.
    pub(crate) fn counted(&mut self) -> Counters {
        Counters { index_grown: self.spaces.growths(), ..self.counters.clone() }
    }

    /// Whose messages come from `source` on `lane`.
    #[inline]
    pub(crate) fn peer_of(&self, lane: usize, source: Source) -> PeerIndex {
        match self.sources[lane].get(source.0 as usize) {
            Some(&peer) => peer,
            None => NO_PEER,
        }
    }

    /// From now on, messages from `source` on `lane` are `peer`'s.
    pub(crate) fn bind(&mut self, lane: usize, source: Source, peer: PeerIndex) {
        let index = source.0 as usize;
        let table = &mut self.sources[lane];
        if index >= table.len() {
            table.resize(index + 1, NO_PEER);
        }
        table[index] = peer;
    }

    /// What comes from `source` on `lane` from now on is a first contact: a transport may give the
    /// number of a peer that has failed to the next one. Returns whose messages came from there.
    #[cold]
    pub(crate) fn unbind_source(&mut self, lane: usize, source: Source) -> PeerIndex {
        let bound = self.sources[lane].get_mut(source.0 as usize);
        match bound.map_or(NO_PEER, |peer| std::mem::replace(peer, NO_PEER)) {
            NO_PEER => NO_PEER,
            peer => peer & !REJECTED,
        }
    }

    /// The peer that an endpoint of a lane leads to.
    pub(crate) fn peer_at(&self, lane: usize, ep: EpId) -> PeerIndex {
        self.endpoints[lane].get(ep.0 as usize).copied().unwrap_or(NO_PEER)
    }

    /// Notes by which endpoint a peer is reached from now on.
    #[cold]
    pub(crate) fn bind_ep(&mut self, index: PeerIndex, lane: usize, ep: EpId) {
        let peer = &mut self.peers[index as usize];
        (peer.lane, peer.ep) = (lane as u32, ep);
        // In a signal handler a control message that the lane refuses is queued without allocating.
        peer.pending.reserve(1);
        let (at, table) = (ep.0 as usize, &mut self.endpoints[lane]);
        if at >= table.len() {
            table.resize(at + 1, NO_PEER);
        }
        table[at] = index;
    }

    /// The peer is reached by no endpoint any more. Returns the one that it had.
    #[cold]
    pub(crate) fn unbind_ep(&mut self, index: PeerIndex) -> (usize, EpId) {
        let peer = &mut self.peers[index as usize];
        let (lane, ep) = (peer.lane as usize, std::mem::replace(&mut peer.ep, EpId(u32::MAX)));
        // A newer peer may have been given the same endpoint.
        if let Some(bound) = self.endpoints[lane].get_mut(ep.0 as usize)
            && *bound == index
        {
            *bound = NO_PEER;
        }
        (lane, ep)
    }

    /// Completes a request.
    #[inline]
    pub(crate) fn finish(&mut self, key: Key, status: OpStatus) {
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        match &mut request.body {
            Body::Send(send) => {
                let lane = self.peers[send.peer as usize].lane;
                if let Some(memory) = send.exposed.take() {
                    // Before the user learns of the end: actions are carried out first.
                    self.actions.push(Action::Withdraw { lane, memory });
                }
                if let SendPhase::Moving(sender) = send.end_phase() {
                    let opened = sender.key().map(|rkey| Action::CloseKey { lane, rkey });
                    opened.into_iter().for_each(|action| self.actions.push(action));
                    self.protocols.retire(sender);
                }
            }
            Body::Receive(Receive { fetch: fetch @ Some(_), .. }) => {
                let fetch = fetch.take().expect("matched as there");
                if let Some((lane, memory)) = fetch.receiver.as_ref().and_then(|r| r.lent()) {
                    self.actions.push(Action::Withdraw { lane, memory });
                }
                if let Some(rkey) = fetch.rkey {
                    let lane = self.peers[fetch.peer as usize].lane;
                    self.actions.push(Action::CloseKey { lane, rkey });
                }
                self.async_state.keep(fetch);
            }
            Body::Expecting(expecting) => {
                return self.protocols.life(expecting.protocol()).finish(self, key, status);
            }
            Body::Receive(_) | Body::OneSided(_) | Body::Stream(_) | Body::Free => {}
        }
        request.status = status;
        request.done = true;
        if !self.closings.is_empty() {
            self.actions.push(Action::StepClosings);
        }
        let detached = request.detached;
        if self.streams.fetches > 0 {
            self.stream_fetched(key);
        }
        if detached {
            self.end_detached(key);
        }
    }

    /// Frees a request if it is complete, with what `of` makes of its status. `None`: there is no such
    /// request.
    #[inline(always)]
    fn take_as<R>(&mut self, key: Key, of: impl FnOnce(&OpStatus) -> R) -> Option<Option<R>> {
        self.requests.release_with(key, |request| {
            if !request.done {
                return None;
            }
            let result = of(&request.status);
            request.empty();
            Some(result)
        })
    }

    /// Takes a completed request's status and frees it.
    #[inline]
    pub(crate) fn take(&mut self, key: Key) -> Option<OpStatus> {
        self.take_as(key, |status| *status).flatten()
    }

    /// Has a request freed by itself when it completes.
    pub(crate) fn detach(&mut self, id: RequestId) {
        if let Some(request) = self.requests.get_mut(id.0) {
            request.detached = true;
            if request.done {
                crate::request::end(&mut self.requests, id.0);
            }
        }
    }

    /// The same for a wait: one for a request that is not there ends, since nobody can complete it. A
    /// success is four words, which stay in registers; a status in memory would be copied several times.
    #[inline(always)]
    pub(crate) fn take_message(&mut self, key: Key) -> Option<Result<MessageInfo, ReceiveError>> {
        let mut runs = false;
        let taken = self.requests.release_with(key, |request| {
            runs = !request.done;
            request.take_plain()
        });
        match taken {
            Some(Some(info)) => Some(Ok(info)),
            _ if runs => None,
            _ => self.take_other(key),
        }
    }

    /// The same of what is no plain receive. Apart, so that the path of those keeps nothing across a call.
    #[inline(never)]
    fn take_other(&mut self, key: Key) -> Option<Result<MessageInfo, ReceiveError>> {
        match self.take_as(key, OpStatus::message) {
            Some(ended) => ended,
            None => Some(Err(OpError::Cancelled.into())),
        }
    }

    /// Fails a request, whatever it was doing.
    pub(crate) fn fail(&mut self, key: Key, error: OpError) {
        let status = match self.requests.get_mut(key) {
            Some(request) => match request.early_answer() {
                // Only this side's part in it had not ended.
                Some(status) => status,
                None => OpStatus { outcome: Err(error), ..request.status },
            },
            None => OpStatus::failed(error),
        };
        self.finish(key, status);
    }

    /// Notes that `bytes` of a peer's eager payload were taken, and gives credit back in lumps.
    #[inline]
    pub(crate) fn taken(&mut self, peer: PeerIndex, bytes: usize) {
        if bytes <= crate::unexpected::INLINE {
            return;
        }
        self.give_back(peer, bytes);
    }

    /// Whether a peer is to be granted its whole share since an offered message of so many bytes is taken. For want of
    /// credit it may have been offered: the share grows with what is taken of it, and what is longer than the first
    /// share never is.
    pub(crate) fn may_grow(&self, index: PeerIndex, bytes: u64) -> bool {
        let Options { share, share_first, .. } = self.options;
        let growth = share - share_first;
        let fits = bytes <= share as u64 && growth > 0 && self.budget >= growth;
        fits && self.peers.get(index as usize).is_some_and(|peer| !peer.share_grown)
    }

    /// The same, whatever their number: of streams every byte counts.
    #[inline(never)]
    pub(crate) fn give_back(&mut self, index: PeerIndex, bytes: usize) {
        let lump = self.options.share_first as u64 / 2;
        let Some(peer) = self.peers.get_mut(index as usize) else {
            return;
        };
        let before = peer.taken;
        peer.taken += bytes as u64;
        if before < lump && peer.taken >= lump {
            self.actions.push(Action::Credit(index));
        }
    }
}

pub(crate) struct LaneSink<'a> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) lane: usize,
}

impl Sink for LaneSink<'_> {
    #[inline]
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        let peer = self.engine.peer_of(self.lane, arrival.source);
        if let Some(known) = self.engine.peers.get_mut(peer as usize) {
            let expected = known.rx_sequence;
            known.rx_sequence = expected.wrapping_add(1);
            if wire::sequence(&arrival.header) != expected {
                self.engine.out_of_sequence(peer);
            } else {
                return match arrival.id {
                    wire::EAGER => self.engine.eager(peer, &arrival),
                    _ => self.engine.other(peer, &arrival),
                };
            }
        } else {
            self.engine.first_contact(self.lane, &arrival);
        }
        Verdict::Consumed
    }

    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        self.engine.transport_completed(Key::from_wire(token.0), result);
    }

    fn writable(&mut self, ep: EpId) {
        self.engine.writable(self.lane, ep);
    }

    fn failed(&mut self, source: Option<Source>, ep: Option<EpId>, how: PeerFailure) {
        self.engine.lane_failed(self.lane, source, ep, how);
    }
}

impl Engine {
    /// The lane of an endpoint has space again.
    fn writable(&mut self, lane: usize, ep: EpId) {
        let index = self.peer_at(lane, ep);
        if index != NO_PEER {
            self.actions.push(Action::Resume(index));
        }
        if !self.one_sided.is_empty() {
            self.actions.push(Action::ResumeOneSided);
        }
    }

    /// An operation that the transport had in flight is complete.
    pub(crate) fn transport_completed(&mut self, key: Key, result: Result<u64, PeerFailure>) {
        let Some(request) = self.requests.get(key) else {
            return;
        };
        match &request.body {
            Body::OneSided(_) => self.one_sided_completed(key, result),
            _ => {
                if let Some(protocol) = request.protocol().filter(|_| !request.done) {
                    self.protocols.life(protocol).on_completion(self, key, result);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;

    /// What one message touches should stay small; a change that makes it larger is to be noticed.
    #[test]
    fn hot_structures_keep_their_size() {
        let sizes = [
            ("Request", size_of::<Request>(), 120),
            ("Peer", size_of::<Peer>(), 256),
            ("Unexpected", size_of::<Unexpected>(), 96),
            ("Action", size_of::<Action>(), 24),
        ];
        for (name, bytes, limit) in sizes {
            println!("{name}: {bytes} bytes");
            assert!(bytes <= limit, "{name} has {bytes} bytes, more than {limit}");
        }
    }
}
