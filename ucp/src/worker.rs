//! The worker: lanes, engine and waiting together.
//!
//! All methods take `&self`. The inside is borrowed for the length of a call and never while code
//! of the user runs (handlers, conditions of `wait_until`), so those may call back in.

mod deliver;
pub(crate) mod driver;
pub(crate) mod handlers;
mod waiting;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use bowline_base::slab::{Key, Slab};
use bowline_base::worker_lock::WorkerLock;
use bowline_model::transport::KnownCosts;
use bowline_uct::{Caps, Iface};

use crate::address::{FEATURES, LaneAddress, WorkerAddress};
use crate::book::Book;
use crate::cm::Introductions;
use crate::engine::{Engine, Inner};
use crate::error::{ConnectError, OpError, SpaceError, WorkerError};
use crate::lanes::{BUDGET, Lane};
use crate::matching::{self, EngineKind, MatchEngine as _};
use crate::measured;
use crate::peer::{Ep, PeerState};
use crate::proto;
use crate::settings::{self, Options};
use crate::space::{Lost, SpaceOptions};
use crate::state::counters::{AtEnd, Counters};
use crate::state::keepalive::Rounds;
use crate::state::wakeup::Wakeup;
use crate::wait::{FailureSource, Waiter};
use crate::wire;

use driver::InstalledDriver;
pub use driver::{LeftToWatch, ProgressDriver, WatchedReceive};
pub(crate) use handlers::Place;
pub use handlers::{AmHandler, AmKept, AmMessage, CompletionHandler, ErrorHandler};
use handlers::{Handlers, Watchers};

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
    /// Transports, the preferred first. Each has active messages, by a receive queue if not by itself.
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

/// A worker. See the crate's text.
pub struct Worker {
    /// First: it is gone before what it drives.
    pub(crate) installed: InstalledDriver,
    pub(crate) inner: WorkerLock<Inner>,
    pub(crate) handlers: RefCell<Handlers>,
    /// What is called when a request is complete; the engine names them by their keys.
    pub(crate) callbacks: RefCell<Slab<CompletionHandler>>,
    pub(crate) waiter: RefCell<Box<dyn Waiter>>,
    pub(crate) sleeps: Cell<u64>,
    /// Polls since the last one that found something; see [`Worker::progress_or_yield`].
    empty_polls: Cell<u32>,
    /// What the layer above has been called for last that concerns many ranks; empty for nothing.
    pub(crate) called: Cell<&'static str>,
    /// Which sleep on the worker's descriptor nobody has ended yet, as far as is known.
    pub(crate) slept_on: Cell<Option<u64>>,
    /// What is called at the end of an endpoint.
    pub(crate) watchers: RefCell<Watchers>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("sleeps", &self.sleeps).finish_non_exhaustive()
    }
}

impl Worker {
    /// Makes a worker.
    ///
    /// # Errors
    /// When there is no lane, or one that cannot carry messages.
    pub fn new(parts: WorkerParts) -> Result<Self, WorkerError> {
        Self::with_costs(parts, &KnownCosts::default())
    }

    /// The same, with what is known of the transports' costs on this machine.
    ///
    /// # Errors
    /// As [`Worker::new`].
    pub fn with_costs(parts: WorkerParts, costs: &KnownCosts) -> Result<Self, WorkerError> {
        if parts.lanes.is_empty() {
            return Err(WorkerError::NoLane);
        }
        if parts.lanes.len() > 255 {
            return Err(WorkerError::TooManyLanes);
        }
        let conditions = settings::conditions(&parts.config);
        let protocols = proto::all();
        let mut lanes = Vec::new();
        let mut addresses = Vec::new();
        for iface in parts.lanes {
            let attr = iface.attr();
            if !attr.caps.contains(Caps::MESSAGES) {
                return Err(WorkerError::NoActiveMessages { transport: attr.provider });
            }
            addresses
                .push(LaneAddress { provider: attr.provider.to_owned(), address: iface.address() });
            let costs = costs.of(attr.provider, attr.caps.contains(Caps::INTER_NODE));
            lanes.push(Lane::new(iface, costs, conditions, &protocols.all));
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
        let mut engine = Engine::new(lanes.len(), parts.job, options, actions, protocols);
        engine.meter = measured::meter(parts.waiter.clock(), &options);
        measured::prepare(&mut engine.meter, &lanes, &engine.protocols);
        let mut inner = Inner {
            lanes,
            engine,
            own_address: own.pack(),
            failures: parts.failures,
            failure_generation: 0,
            polls: 0,
            only: None,
            keys_open: HashMap::new(),
            rounds: Rounds::new(parts.waiter.clock()),
            wakeup: Wakeup::default(),
            book: Book::default(),
            introductions: Introductions::default(),
            at_end: AtEnd::default(),
            background: None,
            descriptors: None,
        };
        for lane in 0..inner.lanes.len() {
            if inner.lanes[lane].polled {
                inner.poll_lane(lane);
            }
        }
        Ok(Self {
            installed: InstalledDriver::default(),
            inner: WorkerLock::new(inner),
            handlers: RefCell::default(),
            callbacks: RefCell::default(),
            waiter: RefCell::new(parts.waiter),
            sleeps: Cell::new(0),
            empty_polls: Cell::new(0),
            called: Cell::new(""),
            slept_on: Cell::new(None),
            watchers: RefCell::default(),
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
        inner.reclaim_slots();
        let rank = parsed.rank;
        let lost = inner.engine.dead.iter().find(|lost| lost.rank == rank);
        if let Some(&Lost { how, .. }) = lost.filter(|_| parsed.job == inner.engine.job) {
            return Err(ConnectError::PeerFailed { rank, how });
        }
        if let Some(&known) = inner.engine.by_uid.get(&parsed.uid) {
            let peer = &inner.engine.peers[known as usize];
            return match (peer.state, peer.failure()) {
                (PeerState::Closing | PeerState::Leaving, _) => Err(ConnectError::Closing { rank }),
                (_, Some(how)) => Err(ConnectError::PeerFailed { rank, how }),
                (_, None) if peer.end.is_some() => Err(ConnectError::Closing { rank }),
                (_, None) => Ok(inner.engine.ep(known)),
            };
        }
        // Whether there is a route is asked now, so that the error comes with its reasons.
        inner.route(&parsed)?;
        let index = inner.engine.meet(parsed);
        Ok(inner.engine.ep(index))
    }

    /// Notes what the layer above is called for that concerns many ranks, such as a collective: reports of what this worker
    /// waits for name the last one.
    #[inline]
    pub fn note_call(&self, name: &'static str) {
        self.called.set(name);
    }

    /// Opens a matching space. Messages that came for it before are in it.
    ///
    /// # Errors
    /// When it is open.
    pub fn open_space(&self, id: u32, options: SpaceOptions) -> Result<(), SpaceError> {
        let engine = &mut self.inner.borrow_mut().engine;
        let space = engine.spaces.open(id).ok_or(SpaceError::Taken(id))?;
        let kind = options.engine.unwrap_or(engine.options.matching);
        let mut fresh = matching::Engine::new(kind, options.ranks);
        let mut early = Vec::new();
        space.engine.unexpected_values(&mut early);
        for value in early {
            if let Some(message) = engine.unexpected.get(Key::from_wire(value)) {
                fresh.add_unexpected(message.source, message.tag, value);
            }
        }
        space.engine = fresh;
        space.checks_receives =
            engine.protocols.watch_receives(&engine.options, options.collective);
        space.options = options;
        engine.inherit_deaths(id);
        Ok(())
    }

    /// Messages that wait for spaces which are not open.
    pub fn early_messages(&self) -> usize {
        self.inner.borrow().engine.spaces.early_messages()
    }

    /// Drops those of them for whose space and tag `stale` says that nobody will receive them. Their
    /// senders are notified as in [`close_space`](Self::close_space).
    pub fn drop_early(&self, mut stale: impl FnMut(u32, u64) -> bool) {
        let inner = &mut *self.inner.borrow_mut();
        let engine = &mut inner.engine;
        let (mut waiting, mut dropped) = (Vec::new(), Vec::new());
        for (id, space) in engine.spaces.early_mut() {
            waiting.clear();
            space.engine.unexpected_values(&mut waiting);
            for value in &waiting {
                let Some(message) = engine.unexpected.get(Key::from_wire(*value)) else { continue };
                let (source, tag) = (message.source, message.tag);
                if stale(id, tag) {
                    let mut this = |other| other == *value;
                    space.engine.remove_unexpected(source, tag, &mut this);
                    dropped.push(*value);
                }
            }
        }
        engine.spaces.drop_unopened();
        for value in dropped {
            engine.drop_message(Key::from_wire(value), wire::refusal(None));
        }
        inner.act();
    }

    /// The matching engine of a space.
    pub fn engine_of(&self, space: u32) -> Option<EngineKind> {
        let inner = &mut *self.inner.borrow_mut();
        inner.engine.spaces.get_mut(space).map(|space| space.engine.kind())
    }

    /// Closes a space: receives in it are cancelled, messages that wait in it dropped. Senders of
    /// synchronous or fetched messages among them are notified.
    pub fn close_space(&self, id: u32) {
        let inner = &mut *self.inner.borrow_mut();
        let engine = &mut inner.engine;
        let Some(mut space) = engine.spaces.remove(id) else {
            return;
        };
        let (mut posted, mut waiting) = (Vec::new(), Vec::new());
        let mut single = engine.spaces.take_single();
        space.remove_posted_where(id, &mut single, &mut |_| true, &mut posted);
        engine.spaces.put_single(single);
        space.engine.unexpected_values(&mut waiting);
        for value in posted {
            engine.fail(Key::from_wire(value), OpError::Cancelled);
        }
        for value in waiting {
            engine.drop_message(Key::from_wire(value), wire::refusal(None));
        }
        for at in 0..inner.engine.protocols.lives.len() {
            let life = inner.engine.protocols.lives[at];
            life.on_space_closed(inner, id);
        }
        inner.act();
    }

    /// Moves everything on. Returns how many events there were.
    #[inline]
    pub fn progress(&self) -> u32 {
        let (events, deliver) = {
            let inner = &mut *self.inner.borrow_mut();
            let events = inner.progress();
            (events, !inner.engine.inbox.is_empty())
        };
        if deliver {
            self.deliver();
        }
        events
    }

    /// [`progress`](Self::progress) for a caller that comes again and again instead of waiting: after as
    /// many empty calls as a wait spins, each gives the processor to another thread.
    pub fn progress_or_yield(&self) -> u32 {
        let events = self.progress();
        if events > 0 {
            self.empty_polls.set(0);
            return events;
        }
        let empty = self.empty_polls.get().saturating_add(1);
        self.empty_polls.set(empty);
        let mut waiter = self.waiter.borrow_mut();
        if empty > waiter.stages().spins {
            waiter.yield_now();
        }
        events
    }

    /// World ranks of the own job that are known to have failed: dead, unreachable, or rejected for
    /// what they sent.
    pub fn failures(&self) -> Vec<u32> {
        self.inner.borrow().engine.dead.iter().map(|lost| lost.rank).collect()
    }

    /// Acknowledges the deaths known so far: receives from any source in `space` work again.
    pub fn acknowledge_failures(&self, space: u32) {
        if let Some(space) = self.inner.borrow_mut().engine.spaces.get_mut(space) {
            space.acknowledged = space.dead.len() as u32;
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.inner.borrow_mut().engine.counted()
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
        self.inner.borrow().doorbell()
    }
}
