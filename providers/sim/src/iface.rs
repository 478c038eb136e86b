//! The interface: endpoints, progress. The impl of the contract is in `contract`,
//! posting of one-sided operations in `rma`.
//!
//! **Life of an endpoint.** Open by `connect`, failed by `invalidate` or by news of its peer, over by
//! `disconnect`. There is one endpoint for each peer.
//!
//! **Order of events in `progress`.** Completions, then endpoints that may post again, in order of
//! asking, then messages and failures of peers, in order. With a budget of one the second and the
//! third alternates.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bowline_base::doorbell::Doorbell;
use bowline_base::slab::Key;
use bowline_uct::runtime::{EpTable, EventQueue, KeyTable, MemoryTable, WritableList};
use bowline_uct::{
    Arrival, EpId, IfaceAttr, OpenError, PeerFailure, PostError, Sink, Source, Unreachable, Verdict,
};

use crate::caps;
use crate::net::{Cancel, Item};
use crate::network::Network;
use crate::options::Drive;
use crate::wire;

mod contract;
mod rma;

/// Called by an interface whose progress found nothing, with no lock held. It must not use the
/// interface.
pub type IdleHook = Arc<dyn Fn() + Send + Sync>;

#[derive(Debug)]
struct Endpoint {
    peer: u32,
    /// What it was last refused for: a receive buffer of its peer, or else space of its own.
    lacks_slot: bool,
}

/// An interface of a simulated network.
pub struct SimIface {
    attr: IfaceAttr,
    network: Network,
    node: u32,
    network_id: u64,
    drive: Drive,
    whole_process: bool,
    /// Zcopy operations that may still be posted.
    permits: u32,
    domain: MemoryTable,
    /// Handles of peers' memory, by node; none for the whole process, which may be read.
    keys: KeyTable<u32, Option<Key>>,
    endpoints: EpTable<Endpoint>,
    by_peer: BTreeMap<u32, EpId>,
    waiters: WritableList,
    /// Endpoints invalidated and not reported yet.
    invalidated: EventQueue,
    doorbell: Doorbell,
    idle: Option<IdleHook>,
    /// Whether a budget of one goes to an endpoint that wants to post.
    odd_call: bool,
}

impl fmt::Debug for SimIface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimIface")
            .field("node", &self.node)
            .field("endpoints", &self.endpoints.len())
            .finish_non_exhaustive()
    }
}

impl Network {
    /// Opens an interface. They are numbered from 0 in the order of opening.
    pub fn open(&self) -> SimIface {
        SimIface::open(self.clone())
    }
}

impl SimIface {
    fn open(network: Network) -> Self {
        let doorbell = Doorbell::private();
        let mut net = network.lock();
        let node = net.open(doorbell.clone());
        let options = &net.options;
        let drive = options.drive;
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
            whole_process,
            permits,
            domain: MemoryTable::default(),
            keys: KeyTable::default(),
            endpoints: EpTable::default(),
            by_peer: BTreeMap::new(),
            waiters: WritableList::default(),
            invalidated: EventQueue::default(),
            doorbell,
            idle: None,
            odd_call: false,
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

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        let peer = self.peer_at(address)?;
        if let Some(how) = self.network.lock().known_end(self.node, peer) {
            return Err(OpenError::PeerFailed(how));
        }
        if let Some(&known) = self.by_peer.get(&peer) {
            return Ok(known);
        }
        if self.endpoints.len() >= self.attr.max_endpoints as usize {
            let why = "all endpoints of the simulated interface are in use";
            return Err(OpenError::Limit(why.to_owned()));
        }
        let ep = self.endpoints.insert(Endpoint { peer, lacks_slot: true });
        self.by_peer.insert(peer, ep);
        self.network.lock().nodes[self.node as usize].known.insert(peer);
        Ok(ep)
    }

    fn disconnect(&mut self, ep: EpId) {
        let Some(endpoint) = self.endpoints.remove(ep) else { return };
        self.waiters.cancel(ep);
        self.invalidated.forget(ep);
        self.by_peer.remove(&endpoint.peer);
    }

    fn invalidate(&mut self, ep: EpId) {
        let Some(&mut Endpoint { peer, .. }) = self.endpoints.fail(ep) else { return };
        self.waiters.cancel(ep);
        self.network.lock().cancel(self.node, peer, PeerFailure::Died, Cancel::Borrowing);
        self.invalidated.fail(None, Some(ep), PeerFailure::Died);
        self.doorbell.ring();
    }

    /// The peer of `ep`, which may take operations.
    fn check_open(&self, ep: EpId) -> Result<u32, PostError> {
        self.endpoints.open(ep).map(|endpoint| endpoint.peer)
    }

    fn refused(&mut self, ep: EpId, am: bool, error: PostError) -> PostError {
        if error == PostError::NoResource
            && let Ok(endpoint) = self.endpoints.open_mut(ep)
        {
            endpoint.lacks_slot = am;
        }
        error
    }

    fn is_writable_now(&self, ep: EpId) -> bool {
        self.endpoints.open(ep).is_ok_and(|endpoint| {
            self.network.lock().has_space(self.node, endpoint.peer, endpoint.lacks_slot)
        })
    }

    /// Reports at most `budget` waiting endpoints, in order of asking, as writable. Returns
    /// the events.
    fn report_writable(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut waiters = std::mem::take(&mut self.waiters);
        let events = waiters.report(sink, budget, |ep| self.is_writable_now(ep));
        self.waiters = waiters;
        self.ask_for_space();
        events
    }

    /// Has the network ring when there is space for those that wait. A ring uses the wish up, and
    /// the space may be somebody else's by then, so this is done after every vain poll.
    fn ask_for_space(&self) {
        if self.waiters.is_empty() {
            return;
        }
        let mut net = self.network.lock();
        for ep in self.waiters.iter() {
            if let Ok(endpoint) = self.endpoints.open(ep) {
                net.want_space(self.node, endpoint.peer);
            }
        }
    }

    /// Hands at most `budget` messages, completions and failures to the sink.
    fn deliver(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = 0;
        while events < budget {
            let item = self.network.lock().take_item(self.node);
            let mut verdict = Verdict::Consumed;
            match item {
                None => break,
                Some(Item::Completed { token, result }) => sink.completed(token, result),
                Some(Item::Am { from, id, header, payload }) => {
                    let (source, payload) = (Source(from), payload.view());
                    verdict = sink.am(Arrival { source, id, header, payload });
                }
                Some(Item::Failed { peer, how }) => self.peer_failed(sink, peer, how),
            }
            events += 1;
            if verdict == Verdict::Enough {
                break;
            }
        }
        events
    }

    fn peer_failed(&mut self, sink: &mut dyn Sink, peer: u32, how: PeerFailure) {
        let ep = self.by_peer.get(&peer).copied();
        let open = ep.filter(|&ep| self.endpoints.fail(ep).is_some());
        if let Some(ep) = open {
            self.waiters.cancel(ep);
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
        self.odd_call = !self.odd_call;
        let left = budget - events;
        if left > 1 || self.odd_call {
            events += self.report_writable(sink, left);
        }
        events += self.deliver(sink, budget - events);
        if events == 0 {
            events += self.report_writable(sink, budget);
        }
        events
    }

    /// Reports invalidated endpoints, after the answers of their operations.
    #[cold]
    fn report_invalidated(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = 0;
        while events < budget {
            let completion = self.network.lock().take_completion(self.node);
            let Some((token, result)) = completion else { break };
            sink.completed(token, result);
            events += 1;
        }
        events + self.invalidated.report(sink, budget - events)
    }

    /// Whether progress would report something, or, where nobody else does, bring something.
    fn has_events(&self) -> bool {
        let net = self.network.lock();
        if net.has_item(self.node) || self.drive == Drive::OnIdle && net.next_event().is_some() {
            return true;
        }
        drop(net);
        !self.invalidated.is_empty() || self.waiters.iter().any(|ep| self.is_writable_now(ep))
    }
}

impl Drop for SimIface {
    fn drop(&mut self) {
        // The network forgets this interface's memory and buffers before they go with the fields.
        let mut net = self.network.lock();
        if std::thread::panicking() {
            // An owner that panics did not close in order.
            net.crash(self.node);
        }
        net.close(self.node);
    }
}
