//! The interface: endpoints, kept messages, progress. The impl of the contract is in `contract`,
//! posting of one-sided operations in `rma`.
//!
//! **Life of an endpoint.** `Free` -> `Open` by `connect` -> `Failed` by `invalidate` or by news of
//! its peer -> `Free` by `disconnect`, which also leads from `Open` to `Free`. There is one endpoint
//! for each peer.
//!
//! **Order of events in `progress`.** Completions, then endpoints that may post again, in order of
//! asking, then messages and failures of peers, in order. With a budget of one the second and the
//! third take turns.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use bowline_base::doorbell::Doorbell;
use bowline_base::slab::Slab;
use bowline_uct::{
    Arrival, Desc, EpId, IfaceAttr, OpenError, PeerFailure, PostError, Sink, Source, Token,
    Unreachable, Verdict,
};

use crate::caps::{self, INLINE_BYTES};
use crate::md::{Domain, Opened};
use crate::net::{Cancel, Item};
use crate::network::Network;
use crate::options::Drive;
use crate::payload::Bytes;
use crate::wire;

mod contract;
mod rma;

/// Called by an interface whose progress found nothing, with no lock held. It must not use the
/// interface.
pub type IdleHook = Arc<dyn Fn() + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Failed,
}

#[derive(Debug)]
struct Endpoint {
    state: State,
    peer: u32,
    /// Stands among those that want to know when they may post.
    asked: bool,
    /// What it was last refused for: a receive buffer of its peer, or else room of its own.
    lacks_slot: bool,
}

/// An interface of a simulated network.
pub struct SimIface {
    attr: IfaceAttr,
    network: Network,
    node: u32,
    network_id: u64,
    drive: Drive,
    spares: usize,
    whole_process: bool,
    /// Zcopy operations that may still be posted.
    permits: u32,
    domain: Domain,
    keys: Slab<Opened>,
    endpoints: Vec<Endpoint>,
    free_endpoints: Vec<u32>,
    by_peer: BTreeMap<u32, u32>,
    /// Endpoints that asked for `writable`, in order of asking; each at most once.
    waiters: VecDeque<EpId>,
    /// Endpoints invalidated and not reported yet.
    invalidated: VecDeque<EpId>,
    kept: Slab<Bytes>,
    doorbell: Doorbell,
    idle: Option<IdleHook>,
    /// Whether a budget of one goes to an endpoint that wants to post.
    turn: bool,
}

impl fmt::Debug for SimIface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimIface")
            .field("node", &self.node)
            .field("endpoints", &self.endpoints.len())
            .finish_non_exhaustive()
    }
}

impl SimIface {
    pub(crate) fn open(network: Network) -> Self {
        let doorbell = Doorbell::private();
        let mut net = network.lock();
        let node = net.open(doorbell.clone());
        let options = &net.options;
        let (drive, spares) = (options.drive, options.spares as usize);
        let permits = options.refuse_after;
        let whole_process = options.whole_process && options.one_sided;
        let (attr, network_id) = (caps::attr(options), net.id);
        drop(net);
        Self {
            attr,
            network,
            node,
            network_id,
            drive,
            spares,
            whole_process,
            permits,
            domain: Domain::default(),
            keys: Slab::default(),
            endpoints: Vec::new(),
            free_endpoints: Vec::new(),
            by_peer: BTreeMap::new(),
            waiters: VecDeque::new(),
            invalidated: VecDeque::new(),
            kept: Slab::default(),
            doorbell,
            idle: None,
            turn: false,
        }
    }

    /// Its number in the network.
    pub const fn node(&self) -> u32 {
        self.node
    }

    /// The network.
    pub const fn network(&self) -> &Network {
        &self.network
    }

    /// Has `hook` called whenever progress finds nothing: a scheduler lets others run there.
    pub fn on_idle(&mut self, hook: IdleHook) {
        self.idle = Some(hook);
    }

    fn peer_at(&self, address: &[u8]) -> Result<u32, Unreachable> {
        let peer = wire::parse_address(self.network_id, address).map_err(Unreachable::because)?;
        match self.network.lock().unreachable(self.node, peer) {
            None => Ok(peer),
            Some(why) => Err(Unreachable::because(why)),
        }
    }

    fn open_endpoint(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        let peer = self.peer_at(address)?;
        if let Some(how) = self.network.lock().known_end(self.node, peer) {
            return Err(OpenError::PeerFailed(how));
        }
        if let Some(&known) = self.by_peer.get(&peer) {
            return Ok(EpId(known));
        }
        let endpoint = Endpoint { state: State::Open, peer, asked: false, lacks_slot: true };
        let index = match self.free_endpoints.pop() {
            Some(index) => {
                self.endpoints[index as usize] = endpoint;
                index
            }
            None => {
                if self.endpoints.len() >= self.attr.max_endpoints as usize {
                    let why = "all endpoints of the simulated interface are in use";
                    return Err(OpenError::Limit(why.to_owned()));
                }
                self.endpoints.push(endpoint);
                self.endpoints.len() as u32 - 1
            }
        };
        self.by_peer.insert(peer, index);
        self.network.lock().nodes[self.node as usize].known.insert(peer);
        Ok(EpId(index))
    }

    fn close_endpoint(&mut self, ep: EpId) {
        let Some(endpoint) = self.endpoints.get_mut(ep.0 as usize) else { return };
        if endpoint.state == State::Free {
            return;
        }
        endpoint.state = State::Free;
        let peer = endpoint.peer;
        self.forget_wishes(ep);
        self.by_peer.remove(&peer);
        self.free_endpoints.push(ep.0);
    }

    /// The endpoint is not to be spoken of any more.
    fn forget_wishes(&mut self, ep: EpId) {
        if std::mem::take(&mut self.endpoints[ep.0 as usize].asked) {
            self.waiters.retain(|&waiting| waiting != ep);
        }
        self.invalidated.retain(|&failed| failed != ep);
    }

    fn fail_endpoint(&mut self, ep: EpId) {
        let Ok(peer) = self.check_open(ep) else { return };
        self.forget_wishes(ep);
        self.endpoints[ep.0 as usize].state = State::Failed;
        self.network.lock().cancel(self.node, peer, PeerFailure::Died, Cancel::Borrowing);
        self.invalidated.push_back(ep);
        self.doorbell.ring();
    }

    /// The peer of `ep`, which may take operations.
    fn check_open(&self, ep: EpId) -> Result<u32, PostError> {
        match self.endpoints.get(ep.0 as usize) {
            Some(Endpoint { state: State::Open, peer, .. }) => Ok(*peer),
            Some(Endpoint { state: State::Failed, .. }) => Err(PostError::PeerFailed),
            _ => Err(PostError::BadEndpoint),
        }
    }

    /// Notes what `ep` was refused for.
    fn refused(&mut self, ep: EpId, am: bool, error: PostError) -> PostError {
        if error == PostError::NoResource {
            self.endpoints[ep.0 as usize].lacks_slot = am;
        }
        error
    }

    fn can_tell(&self, ep: EpId) -> bool {
        let endpoint = &self.endpoints[ep.0 as usize];
        self.network.lock().has_room(self.node, endpoint.peer, endpoint.lacks_slot)
    }

    /// Tells at most `budget` waiting endpoints, in order of asking, that they may post. Returns
    /// the events.
    fn tell_writable(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = 0;
        for _ in 0..self.waiters.len() {
            let Some(ep) = self.waiters.pop_front() else { break };
            if events < budget && self.can_tell(ep) {
                self.endpoints[ep.0 as usize].asked = false;
                sink.writable(ep);
                events += 1;
            } else {
                // Round and round: whoever is not told keeps the place.
                self.waiters.push_back(ep);
            }
        }
        self.ask_for_room();
        events
    }

    /// Has the network ring when there is room for those that wait. A ring uses the wish up, and
    /// the room may be somebody else's by then, so this is done after every vain look.
    fn ask_for_room(&self) {
        if self.waiters.is_empty() {
            return;
        }
        let mut net = self.network.lock();
        for ep in &self.waiters {
            net.want_room(self.node, self.endpoints[ep.0 as usize].peer);
        }
    }

    fn has_spare(&self) -> bool {
        self.kept.len() < self.spares
    }

    /// Hands at most `budget` messages, completions and failures to the sink.
    fn deliver(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = 0;
        while events < budget {
            let item = self.network.lock().take_item(self.node, self.has_spare());
            match item {
                None => break,
                Some(Item::Completed { token, result }) => sink.completed(token, result),
                Some(Item::Am { from, id, header, payload }) => {
                    self.arrive(sink, from, (id, header), payload);
                }
                Some(Item::Failed { peer, how }) => self.peer_failed(sink, peer, how),
            }
            events += 1;
        }
        events
    }

    fn arrive(
        &mut self,
        sink: &mut dyn Sink,
        from: u32,
        (id, header): (bowline_uct::AmId, bowline_uct::AmHeader),
        payload: Bytes,
    ) {
        let source = Source(from);
        if payload.len() <= INLINE_BYTES {
            let payload = payload.view();
            // Without a descriptor there is nothing to keep.
            let (Verdict::Consumed | Verdict::Keep) =
                sink.am(Arrival { source, id, header, payload, desc: None });
            return;
        }
        let key = self.kept.insert(payload);
        let payload = self.kept.get(key).expect("just kept").view();
        let desc = Some(Desc(key));
        if sink.am(Arrival { source, id, header, payload, desc }) == Verdict::Consumed {
            self.kept.remove(key);
        }
    }

    fn peer_failed(&mut self, sink: &mut dyn Sink, peer: u32, how: PeerFailure) {
        let ep = self.by_peer.get(&peer).map(|&index| EpId(index));
        let open = ep.filter(|ep| self.endpoints[ep.0 as usize].state == State::Open);
        if let Some(ep) = open {
            self.forget_wishes(ep);
            self.endpoints[ep.0 as usize].state = State::Failed;
        }
        sink.failed(Some(Source(peer)), open, how);
    }

    /// Everything that there is to report, within the budget.
    fn report(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = 0;
        if !self.invalidated.is_empty() {
            events += self.report_invalidated(sink, budget);
        }
        if self.waiters.is_empty() {
            return events + self.deliver(sink, budget - events);
        }
        self.turn = !self.turn;
        let left = budget - events;
        if left > 1 || self.turn {
            events += self.tell_writable(sink, left);
        }
        events += self.deliver(sink, budget - events);
        if events == 0 {
            events += self.tell_writable(sink, budget);
        }
        events
    }

    /// Reports invalidated endpoints, after the answers of their operations.
    #[cold]
    fn report_invalidated(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = 0;
        while events < budget {
            let completion = self.network.lock().take_completion(self.node);
            if let Some((token, result)) = completion {
                sink.completed(token, result);
            } else if let Some(ep) = self.invalidated.pop_front() {
                sink.failed(None, Some(ep), PeerFailure::Died);
            } else {
                break;
            }
            events += 1;
        }
        events
    }

    /// Whether progress would report something, or, where nobody else does, bring something.
    fn has_events(&self) -> bool {
        let net = self.network.lock();
        if net.has_item(self.node, self.has_spare())
            || self.drive == Drive::OnIdle && net.next_event().is_some()
        {
            return true;
        }
        drop(net);
        !self.invalidated.is_empty() || self.waiters.iter().any(|&ep| self.can_tell(ep))
    }
}

impl Drop for SimIface {
    fn drop(&mut self) {
        // The network forgets this interface's memory and buffers before they go with the fields.
        let mut net = self.network.lock();
        if std::thread::panicking() {
            // Whoever panics did not close in order.
            net.crash(self.node);
        }
        net.close(self.node);
    }
}

/// A completion, as the network has it.
pub(crate) type Completion = (Token, Result<u64, PeerFailure>);
