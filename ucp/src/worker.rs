//! The worker: lanes, engine and waiting together.
//!
//! All methods take `&self`. The inside is borrowed for the length of a call and never while code
//! of the user runs (handlers, conditions of `wait_until`), so those may call back in.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use bowline_base::doorbell::WakeSet;
use bowline_base::slab::Key;
use bowline_uct::{Caps, Iface, LocalSlice, PeerFailure, Posted, RemoteSlice};

use crate::action::Action;
use crate::address::{FEATURES, LaneAddress, WorkerAddress};
use crate::am::Handlers;
use crate::engine::{Counters, Engine};
use crate::error::{ConnectError, OpError, SpaceError, WorkerError};
use crate::lanes::{BUDGET, Lane};
use crate::matching::MatchEngine as _;
use crate::peer::{Ep, PeerIndex, PeerState};
use crate::request::{Body, RequestId, Status, token};
use crate::settings::Options;
use crate::space::SpaceOptions;
use crate::wait::{FailureSource, Waiter};
use crate::wire;

/// Bytes fetched in one go, so that other traffic is looked at in between: some 400 us. With 1 MiB
/// a message of 4 MiB took a fifth longer.
const SEGMENT: u64 = 4 << 20;

/// The packed key by which a transport opens a peer's whole memory to reads.
const WHOLE_PROCESS: [u8; 1] = [1];

/// Looks of [`Worker::yield_until`] between two progress calls.
const PROGRESS_EVERY: u32 = 16;

/// Looks of [`Worker::yield_until`] before its first yield.
const SPINS_BESIDE: u32 = 2;

/// Progress calls between two looks at the failure source; a worker that goes to sleep looks
/// as well.
const LOOKS: u32 = 64;

/// What a worker is made of.
pub struct WorkerParts {
    /// Its job.
    pub job: u64,
    /// Its rank in the job.
    pub rank: u32,
    /// How many times this rank was started anew.
    pub incarnation: u32,
    /// Random and different for every worker.
    pub uid: u64,
    /// Transports, the preferred first.
    pub lanes: Vec<Box<dyn Iface>>,
    /// How to pass the time.
    pub waiter: Box<dyn Waiter>,
    /// Who knows of deaths.
    pub failures: Option<Box<dyn FailureSource>>,
    /// Values of [`SETTINGS`](crate::SETTINGS).
    pub config: bowline_base::config::Config,
}

impl std::fmt::Debug for WorkerParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerParts").field("rank", &self.rank).finish_non_exhaustive()
    }
}

/// What a call borrows.
pub(crate) struct Inner {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) engine: Engine,
    pub(crate) own_address: Vec<u8>,
    pub(crate) failures: Option<Box<dyn FailureSource>>,
    failure_generation: u32,
    looks: u32,
    /// The one lane to poll, where there is just one.
    pub(crate) only: Option<usize>,
    /// What to sleep on; made at the first sleep, and anew when another lane is polled.
    pub(crate) descriptors: Option<Arc<WakeSet>>,
}

/// A worker. See the crate's text.
pub struct Worker {
    pub(crate) inner: RefCell<Inner>,
    pub(crate) handlers: RefCell<Handlers>,
    pub(crate) waiter: RefCell<Box<dyn Waiter>>,
    pub(crate) sleeps: Cell<u64>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("sleeps", &self.sleeps).finish_non_exhaustive()
    }
}

/// Which lane carries messages to a peer, and why not the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneReport {
    /// The provider.
    pub provider: &'static str,
    /// `Ok(true)`: chosen. `Ok(false)`: it could, another is preferred. `Err`: why it cannot.
    pub verdict: Result<bool, String>,
    /// What the provider had to choose from, in words; empty where there is nothing to choose.
    pub ways: Vec<String>,
}

impl Worker {
    /// Makes a worker.
    ///
    /// # Errors
    /// When there is no lane, or one that cannot carry messages.
    pub fn new(parts: WorkerParts) -> Result<Self, WorkerError> {
        if parts.lanes.is_empty() {
            return Err(WorkerError::NoLane);
        }
        if parts.lanes.len() > 255 {
            return Err(WorkerError::TooManyLanes);
        }
        let mut lanes = Vec::new();
        let mut addresses = Vec::new();
        for iface in parts.lanes {
            let attr = iface.attr();
            if !attr.caps.contains(Caps::AM_SHORT | Caps::AM_BCOPY | Caps::AM_ORDERED) {
                return Err(WorkerError::NoActiveMessages(attr.provider));
            }
            addresses
                .push(LaneAddress { provider: attr.provider.to_owned(), address: iface.address() });
            lanes.push(Lane::new(iface));
        }
        let own = WorkerAddress {
            job: parts.job,
            rank: parts.rank,
            incarnation: parts.incarnation,
            uid: parts.uid,
            features: FEATURES,
            lanes: addresses,
        };
        let options = Options::of(&parts.config);
        let actions = BUDGET as usize * lanes.len();
        let engine = Engine::new(lanes.len(), parts.job, options, actions);
        let mut inner = Inner {
            lanes,
            engine,
            own_address: own.pack(),
            failures: parts.failures,
            failure_generation: 0,
            looks: 0,
            only: None,
            descriptors: None,
        };
        for lane in 0..inner.lanes.len() {
            if inner.lanes[lane].polled {
                inner.poll_lane(lane);
            }
        }
        Ok(Self {
            inner: RefCell::new(inner),
            handlers: RefCell::default(),
            waiter: RefCell::new(parts.waiter),
            sleeps: Cell::new(0),
        })
    }

    /// The address under which peers connect.
    pub fn address(&self) -> Vec<u8> {
        self.inner.borrow().own_address.clone()
    }

    /// An endpoint to the worker with this address. No message is sent before its first
    /// operation; calling it again returns the same endpoint.
    ///
    /// # Errors
    /// When the address is damaged, no transport reaches the peer, or it is known to be dead.
    pub fn connect(&self, address: &[u8]) -> Result<Ep, ConnectError> {
        let parsed = WorkerAddress::parse(address)?;
        let inner = &mut *self.inner.borrow_mut();
        let rank = parsed.rank;
        if parsed.job == inner.engine.job && inner.engine.dead.contains(&rank) {
            return Err(ConnectError::PeerFailed { rank, how: PeerFailure::Died });
        }
        if let Some(&known) = inner.engine.by_uid.get(&parsed.uid) {
            return match inner.engine.peers[known as usize].failure() {
                Some(how) => Err(ConnectError::PeerFailed { rank, how }),
                None => Ok(Ep(known)),
            };
        }
        // Whether there is a way is asked now, so that the error comes with its reasons.
        inner.route(&parsed)?;
        Ok(Ep(inner.engine.meet(parsed)))
    }

    /// The lanes to a peer with this address: the chosen one, and why not the others.
    ///
    /// # Errors
    /// When the address is damaged.
    pub fn explain(&self, address: &[u8]) -> Result<Vec<LaneReport>, ConnectError> {
        let parsed = WorkerAddress::parse(address)?;
        let inner = self.inner.borrow();
        let mut chosen = false;
        let reports = inner.lanes.iter().map(|lane| {
            let provider = lane.iface.attr().provider;
            let verdict = lane.reaches(&parsed).map(|_| !std::mem::replace(&mut chosen, true));
            let ways = lane.theirs(&parsed).map(|address| lane.iface.explain(address));
            LaneReport { provider, verdict, ways: ways.unwrap_or_default() }
        });
        Ok(reports.collect())
    }

    /// Opens a matching space. Messages that came for it before are in it.
    ///
    /// # Errors
    /// When it is open.
    pub fn open_space(&self, id: u32, options: SpaceOptions) -> Result<(), SpaceError> {
        let engine = &mut self.inner.borrow_mut().engine;
        let space = engine.spaces.make(id);
        if space.open {
            return Err(SpaceError::Taken(id));
        }
        space.open = true;
        space.options = options;
        engine.inherit_deaths(id);
        Ok(())
    }

    /// Closes a space: receives in it are cancelled, messages that wait in it dropped. Senders of
    /// synchronous or fetched messages among them are told.
    pub fn close_space(&self, id: u32) {
        let inner = &mut *self.inner.borrow_mut();
        let engine = &mut inner.engine;
        engine.park_direct();
        let Some(mut space) = engine.spaces.remove(id) else {
            return;
        };
        let (mut posted, mut waiting) = (Vec::new(), Vec::new());
        space.engine.remove_posted_where(&mut |_| true, &mut posted);
        space.engine.unexpected_values(&mut waiting);
        for value in posted {
            engine.fail(Key::from_wire(value), OpError::Cancelled);
        }
        for value in waiting {
            engine.drop_message(Key::from_wire(value), None);
        }
        inner.act();
    }

    /// Moves everything on. Returns how many events there were.
    #[inline]
    pub fn progress(&self) -> u32 {
        let (events, deliver) = {
            let inner = &mut *self.inner.borrow_mut();
            let events = inner.progress();
            (events, !inner.engine.am_inbox.is_empty())
        };
        if deliver {
            self.deliver_am();
        }
        events
    }

    /// Waits for a request and frees it.
    #[inline]
    pub fn wait(&self, id: RequestId) -> Status {
        let mut waiting = Waiting::new(self);
        loop {
            let (events, deliver) = {
                let inner = &mut *self.inner.borrow_mut();
                // Asked first: out of an option, the status would be copied twice.
                if inner.engine.is_done(id.0)
                    && let Some(request) = inner.engine.requests.get_mut(id.0)
                {
                    let status = request.status;
                    request.empty();
                    inner.engine.requests.release(id.0);
                    return status;
                }
                (inner.progress(), !inner.engine.am_inbox.is_empty())
            };
            if deliver {
                self.deliver_am();
            }
            if events == 0 {
                if self.inner.borrow().engine.requests.get(id.0).is_none() {
                    // Nobody can complete a request that is not there.
                    return Status::failed(OpError::Cancelled);
                }
                waiting.idle();
            } else {
                waiting.busy();
            }
        }
    }

    /// Waits until `done` says so, which is asked after every progress.
    #[inline]
    pub fn wait_until(&self, mut done: impl FnMut() -> bool) {
        let mut waiting = Waiting::new(self);
        while !done() {
            if self.progress() == 0 {
                waiting.idle();
            } else {
                waiting.busy();
            }
        }
    }

    /// Waits for something that no message tells of, without sleeping: asks `done` before each
    /// yield of the processor, and progresses now and then. `false` when it is time to sleep.
    #[inline]
    pub fn yield_until(&self, mut done: impl FnMut() -> bool) -> bool {
        let stages = self.waiter.borrow().stages();
        for round in 0..stages.yields.saturating_add(stages.spins) {
            if done() {
                return true;
            }
            if round % PROGRESS_EVERY == PROGRESS_EVERY - 1 {
                self.progress();
            }
            if round >= stages.spins.min(SPINS_BESIDE) {
                self.waiter.borrow_mut().yield_now();
            }
        }
        done()
    }

    /// World ranks of the own job that are known to be dead.
    pub fn failures(&self) -> Vec<u32> {
        self.inner.borrow().engine.dead.clone()
    }

    /// Acknowledges the deaths known so far: receives from any source in `space` work again.
    pub fn acknowledge_failures(&self, space: u32) {
        if let Some(space) = self.inner.borrow_mut().engine.spaces.get_mut(space) {
            space.acknowledged = space.dead.len();
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.inner.borrow().engine.counters.clone()
    }

    /// How often the worker slept.
    pub fn sleeps(&self) -> u64 {
        self.sleeps.get()
    }

    /// Attributes of the lanes.
    pub fn lane_attrs(&self) -> Vec<bowline_uct::IfaceAttr> {
        self.inner.borrow().lanes.iter().map(|lane| lane.iface.attr().clone()).collect()
    }

    /// Wakes the worker's thread if it sleeps; callable where a clone of the doorbell is held.
    pub fn doorbell(&self) -> Option<bowline_base::doorbell::Doorbell> {
        let inner = self.inner.borrow();
        let lane = inner.lanes.iter().find(|lane| !lane.loopback).or(inner.lanes.first())?;
        lane.iface.doorbell().cloned()
    }
}

/// The stages of one wait.
pub(crate) struct Waiting<'a> {
    worker: &'a Worker,
    round: u32,
    stages: Option<crate::wait::Stages>,
}

impl<'a> Waiting<'a> {
    #[inline]
    pub(crate) fn new(worker: &'a Worker) -> Self {
        Self { worker, round: 0, stages: None }
    }

    #[inline]
    pub(crate) fn busy(&mut self) {
        self.round = 0;
    }

    /// Progress found nothing; whether to look again at once.
    #[inline]
    pub(crate) fn spins(&mut self) -> bool {
        let worker = self.worker;
        let stages = *self.stages.get_or_insert_with(|| worker.waiter.borrow().stages());
        self.round = self.round.saturating_add(1);
        self.round <= stages.spins
    }

    /// Progress found nothing: looks again, gives the processor away or sleeps.
    #[inline]
    pub(crate) fn idle(&mut self) {
        // No pause instruction: a look at the queues takes longer than a pause is meant to, and
        // on recent processors a pause alone costs more than half of a message's latency.
        if !self.spins() {
            self.rest();
        }
    }

    /// After [`Waiting::spins`] said no: gives the processor away or sleeps.
    pub(crate) fn rest(&mut self) {
        if let Some(stages) = self.stages
            && self.round > stages.spins
        {
            self.long(stages);
        }
    }

    #[cold]
    fn long(&mut self, stages: crate::wait::Stages) {
        if self.round <= stages.spins.saturating_add(stages.yields) {
            self.worker.waiter.borrow_mut().yield_now();
        } else {
            self.worker.sleep();
        }
    }
}

impl Inner {
    /// One round over the lanes, and what follows from it.
    #[inline]
    pub(crate) fn progress(&mut self) -> u32 {
        let mut events = self.poll();
        self.looks += 1;
        if self.looks >= LOOKS {
            // What a failure completes is an event: whoever waits must look before it sleeps.
            events += self.look_for_failures();
        }
        if !self.engine.actions.is_empty() {
            self.act();
            events += 1;
        }
        events
    }

    #[inline]
    pub(crate) fn failures_changed(&self) -> bool {
        match &self.failures {
            Some(source) => source.generation() != self.failure_generation,
            None => false,
        }
    }

    #[cold]
    fn look_for_failures(&mut self) -> u32 {
        self.looks = 0;
        let changed = self.failures_changed();
        if changed {
            self.note_failures();
        }
        u32::from(changed)
    }

    /// Learns of deaths. What the dead sent before is taken in first: those messages count.
    #[cold]
    pub(crate) fn note_failures(&mut self) {
        let Some(source) = &self.failures else { return };
        let mut dead = Vec::new();
        self.failure_generation = source.generation();
        source.dead(&mut dead);
        // Bounded: a living peer may go on sending for ever.
        self.lanes.iter_mut().for_each(Lane::awaken);
        for _ in 0..1000 {
            if self.poll() == 0 {
                break;
            }
        }
        for rank in dead {
            self.engine.fail_rank(rank, PeerFailure::Died);
        }
    }

    /// Carries out what the engine noted. What an action asks for anew waits for the next call,
    /// so that other traffic is looked at in between.
    pub(crate) fn act(&mut self) {
        for _ in 0..self.engine.actions.len() {
            let Some(action) = self.engine.actions.pop() else {
                return;
            };
            match action {
                // A failure is the peer's state, which the next operation reports.
                Action::Connect(peer) => drop(self.ready(peer)),
                Action::Fetch(key) => self.fetch(key),
                Action::Stream(key) => self.stream(key),
                Action::Acknowledge { peer, request } => {
                    self.control(peer, wire::ACK, [request, 0], &[]);
                }
                Action::Refuse { peer, request, outcome } => {
                    self.control(peer, wire::ACK, [request, outcome], &[]);
                }
                Action::Credit(peer) => self.give_credit(peer),
                Action::Resume(peer) => self.resume(peer),
                Action::ResumeOneSided => self.resume_one_sided(),
                Action::Withdraw { lane, memory } => {
                    // Lent memory is nobody's but the sender's: there is nothing to give back.
                    drop(self.lanes[lane as usize].iface.mem_release(memory));
                }
            }
        }
    }

    /// Reads the next segment of a message that lies with its sender.
    fn fetch(&mut self, key: Key) {
        let Some(request) = self.engine.requests.get_mut(key) else {
            return;
        };
        let Body::Receive(receive) = &mut request.body else {
            return;
        };
        let Some(fetch) = receive.fetch.as_mut() else {
            return;
        };
        let index = fetch.peer;
        if fetch.copying {
            return self.ask_for_fragments(key);
        }
        if fetch.done >= fetch.wanted {
            return self.fetched(key);
        }
        let packed = (fetch.rts.rkey_len > 0).then_some((fetch.rts.rkey, fetch.rts.rkey_len));
        let known = fetch.rkey;
        if let Err(error) = self.ready(index) {
            return self.engine.fail(key, error);
        }
        let peer = &mut self.engine.peers[index as usize];
        let (lane, ep) = (&mut self.lanes[peer.lane as usize].iface, peer.ep);
        let rkey = match (known, packed) {
            (Some(rkey), _) => Some(rkey),
            (None, Some((bytes, n))) => lane.rkey_unpack(ep, &bytes[..usize::from(n)]).ok(),
            (None, None) if peer.reach_refused => None,
            (None, None) => {
                if peer.reach.is_none() {
                    peer.reach = lane.rkey_unpack(ep, &WHOLE_PROCESS).ok();
                }
                peer.reach
            }
        };
        let Some(rkey) = rkey else {
            return self.ask_for_fragments(key);
        };
        let Some(request) = self.engine.requests.get_mut(key) else {
            return;
        };
        let Body::Receive(receive) = &mut request.body else {
            return;
        };
        let Some(fetch) = receive.fetch.as_mut() else {
            return;
        };
        if packed.is_some() {
            fetch.rkey = Some(rkey);
        }
        // A transport that works on its own is asked for everything; one that copies in the call
        // comes back in between.
        let limit = lane.attr().limits.get.max_zcopy as u64;
        let works_alone = lane.attr().caps.contains(Caps::EXPOSE);
        let length = (fetch.wanted - fetch.done).min(if works_alone { limit } else { SEGMENT });
        let Some(address) = fetch.rts.address.checked_add(fetch.done) else {
            return self.refuse(key);
        };
        let to = LocalSlice::of_recv(&mut receive.buffer, fetch.done as usize, length as usize);
        let from = RemoteSlice { address, rkey };
        match lane.get_zcopy(ep, to.as_slice(), from, token(key)) {
            Ok(Posted::Done) => {
                fetch.done += length;
                if fetch.done >= fetch.wanted {
                    self.fetched(key);
                } else {
                    self.engine.actions.push(Action::Fetch(key));
                }
            }
            Ok(Posted::InFlight) => fetch.in_flight = length,
            Err(bowline_uct::PostError::NoResource) => {
                self.engine.actions.push(Action::Fetch(key));
            }
            Err(bowline_uct::PostError::BadRemote) => self.refuse(key),
            Err(bowline_uct::PostError::PeerFailed) => {
                self.engine.fail_peer(index, PeerFailure::Died);
            }
            // The kernel refuses, or the transport cannot: the message is copied instead.
            Err(_) => {
                self.engine.peers[index as usize].reach_refused = true;
                self.ask_for_fragments(key);
            }
        }
    }

    /// A message was read whole: the sender has its buffer back.
    fn fetched(&mut self, key: Key) {
        if let Some((peer, request)) = self.end_fetch(key) {
            self.engine.counters.fetched += 1;
            self.control(peer, wire::ACK, [request, 0], &[]);
            self.engine.complete_receive(key);
        }
    }

    /// The address that the sender gave cannot be read: the message fails on both sides.
    #[cold]
    fn refuse(&mut self, key: Key) {
        if let Some((peer, request)) = self.end_fetch(key) {
            self.control(peer, wire::ACK, [request, 1], &[]);
            self.engine.fail(key, OpError::BadRemote);
        }
    }

    fn end_fetch(&mut self, key: Key) -> Option<(PeerIndex, u64)> {
        let request = self.engine.requests.get_mut(key)?;
        let Body::Receive(receive) = &mut request.body else {
            return None;
        };
        let fetch = receive.fetch.take()?;
        if let Some(rkey) = fetch.rkey {
            let lane = self.engine.peers[fetch.peer as usize].lane;
            self.lanes[lane as usize].iface.rkey_release(rkey);
        }
        Some((fetch.peer, fetch.rts.request))
    }

    /// The message cannot be read; its sender is to send it in fragments.
    fn ask_for_fragments(&mut self, key: Key) {
        let Some(request) = self.engine.requests.get_mut(key) else {
            return;
        };
        let Body::Receive(receive) = &mut request.body else {
            return;
        };
        let Some(fetch) = receive.fetch.as_mut() else {
            return;
        };
        let (peer, sender, wanted) = (fetch.peer, fetch.rts.request, fetch.wanted);
        fetch.copying = true;
        fetch.done = 0;
        if wanted == 0 {
            return self.fetched(key);
        }
        self.control(peer, wire::CTS, [sender, key.to_wire()], &wanted.to_le_bytes());
        let state = self.engine.peers[peer as usize].state;
        if let PeerState::Failed(how) = state {
            self.engine.fail(key, how.into());
        }
    }
}
