//! What both transport services share: the interface's table of peers, endpoints, connections that are asked
//! for, failures that are to be reported. Each service keeps its own state beside it (`rc`, `ud`).
//!
//! ```text
//!   peer, as its endpoint:  Closed ──connect──► Open ──the connection breaks──► Failed
//!                             ▲ ◄───────────────disconnect──────────────────────┘
//!   its connection:         none ──first use, or the peer's──► asked ──► up ──breaks──► none
//! ```
//!
//! **Numbers.** A peer is an interface elsewhere, named by its uid. Its place in the table is the
//! number of the endpoint to it and the [`Source`] of its messages.
//!
//! The connection belongs to the peer, not to the endpoint: it stays when the endpoint is closed,
//! and carries the peer's messages whether there is an endpoint or not.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_uct::runtime::{EventQueue, WritableList};
use bowline_uct::{EpId, IfaceAttr, OpenError, PeerFailure, PostError, Sink, Source, Unreachable};
use rustix::event::epoll;

use crate::addr::Address;
use crate::control::{Command, Control, POLLS, TableEvent};
use crate::options::{ConnectWhen, MAX_ENDPOINTS, VerbsOptions};
use crate::pool::{ReceivePool, SendPool};
use crate::sys::Cq;

/// Messages that wait for a connection, to each peer.
pub(crate) const WAITING: usize = 16;

/// Completions taken in one call.
pub(crate) const BATCH: usize = 16;

/// A hash for numbers that the device or a random generator chose.
#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(31).wrapping_add(u64::from(*byte));
        }
    }
    fn write_u32(&mut self, number: u32) {
        // The golden ratio spreads numbers that follow each other (Knuth, volume 3, 6.4).
        self.0 = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Peers by a number of ours.
pub(crate) type ByNumber = HashMap<u32, u32, BuildHasherDefault<NumberHasher>>;

/// What the services differ in.
pub(crate) trait Service: Debug + Sized {
    /// What two peers agree on to be connected.
    type Pair: Debug + Send + 'static;
    /// A connection.
    type Link: Debug;
    /// What waits for a connection.
    type Waiting: Debug;
    /// What is kept of a peer besides.
    type Beside: Debug + Default;
    type Counters: Debug + Default;

    /// Takes an event of the thread that makes connections.
    fn handle(iface: &mut ServiceIface<Self>, event: TableEvent<Self::Pair>);

    /// The peer is new.
    fn met(&mut self, number: u32);

    /// An endpoint to a peer is open.
    fn opened(iface: &mut ServiceIface<Self>);

    /// Whether a message to the peer would be taken.
    fn may_post(iface: &ServiceIface<Self>, number: u32) -> bool;

    /// Lets `poller` wake a sleeper for what is the service's own, too.
    fn watch(&mut self, poller: &OwnedFd) -> io::Result<()>;

    /// Ends all connections in order.
    fn close(iface: &mut ServiceIface<Self>);
}

#[derive(Debug)]
pub(crate) struct Peer<S: Service> {
    pub(crate) address: Address,
    /// There is an endpoint.
    pub(crate) open: bool,
    pub(crate) failed: Option<PeerFailure>,
    /// A connection was asked for.
    pub(crate) asked: bool,
    pub(crate) link: Option<S::Link>,
    pub(crate) waiting: VecDeque<S::Waiting>,
    pub(crate) beside: S::Beside,
}

impl<S: Service> Peer<S> {
    pub(crate) const fn uid(&self) -> u64 {
        self.address.uid
    }

    /// Whether messages wait for a connection that may still come.
    pub(crate) fn has_waiting(&self) -> bool {
        self.failed.is_none() && self.link.is_none() && !self.waiting.is_empty()
    }
}

/// An interface over one of the services.
#[derive(Debug)]
#[expect(private_bounds, reason = "there are two of them, which the crate names")]
pub struct ServiceIface<S: Service> {
    pub(crate) attr: IfaceAttr,
    pub(crate) own: Address,
    pub(crate) peers: Vec<Peer<S>>,
    pub(crate) by_uid: HashMap<u64, u32>,
    pub(crate) waiters: WritableList,
    pub(crate) events: EventQueue,
    /// Peers whose failure is to be reported, each with the pair of the connection that failed, where
    /// what came on it is reported first.
    pub(crate) failed: VecDeque<(u32, Option<u32>)>,
    pub(crate) timeout: Duration,
    pub(crate) at_once: bool,
    pub(crate) poller: Option<OwnedFd>,
    /// Closed without a word, as by a crash.
    pub(crate) quiet: bool,
    /// Before the memory that requests name.
    pub(crate) state: S,
    pub(crate) send: SendPool,
    pub(crate) receive: ReceivePool,
    pub(crate) cq: Arc<Cq>,
    pub(crate) control: Control<S::Pair>,
    pub(crate) counters: S::Counters,
}

#[expect(private_bounds, reason = "as above")]
impl<S: Service> ServiceIface<S> {
    /// Puts an interface together.
    pub(crate) fn assemble(
        options: &VerbsOptions,
        attr: IfaceAttr,
        (control, own): (Control<S::Pair>, Address),
        (send, receive): (SendPool, ReceivePool),
        cq: Arc<Cq>,
        state: S,
    ) -> Self {
        Self {
            attr,
            own,
            peers: Vec::new(),
            by_uid: HashMap::new(),
            waiters: WritableList::default(),
            events: EventQueue::with_capacity(64),
            failed: VecDeque::new(),
            timeout: options.peer_timeout,
            at_once: options.connect == ConnectWhen::AtOnce,
            poller: None,
            quiet: false,
            state,
            send,
            receive,
            cq,
            control,
            counters: S::Counters::default(),
        }
    }

    /// Whether every endpoint has its connection, or the news that there is none.
    pub fn is_settled(&self) -> bool {
        let settled = |peer: &Peer<S>| !peer.open || peer.link.is_some() || !peer.asked;
        self.peers.iter().all(settled)
    }

    /// Ends the interface as a crash of its process would: nothing is sent to anybody.
    #[doc(hidden)]
    pub fn abandon(mut self) {
        self.quiet = true;
    }

    pub(crate) const fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    pub(crate) fn address(&self) -> Vec<u8> {
        self.own.encode()
    }

    pub(crate) fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        match self.read_address(address) {
            Ok(_) => Ok(()),
            Err(OpenError::Unreachable(reason)) => Err(reason),
            Err(error) => Err(Unreachable::because(error.to_string())),
        }
    }

    pub(crate) fn source_of(&self, address: &[u8]) -> Option<Source> {
        let address = Address::decode(address).ok()?;
        self.by_uid.get(&address.uid).map(|number| Source(*number))
    }

    pub(crate) fn want_writable(&mut self, ep: EpId) {
        if self.open_peer(ep).is_ok() {
            self.waiters.ask(ep);
        }
    }

    /// The peer of an endpoint that may take operations.
    #[inline]
    pub(crate) fn open_peer(&self, ep: EpId) -> Result<u32, PostError> {
        match self.peers.get(ep.0 as usize) {
            Some(peer) if peer.open => match peer.failed {
                None => Ok(ep.0),
                Some(_) => Err(PostError::PeerFailed),
            },
            _ => Err(PostError::BadEndpoint),
        }
    }

    /// Reads an address and says whether it can be reached.
    fn read_address(&self, bytes: &[u8]) -> Result<Address, OpenError> {
        let address =
            Address::decode(bytes).map_err(|error| OpenError::BadAddress(error.to_string()))?;
        self.own.reaches(&address)?;
        Ok(address)
    }

    pub(crate) fn peer_with(&mut self, address: &Address) -> Result<u32, OpenError> {
        if let Some(peer) = self.by_uid.get(&address.uid) {
            return Ok(*peer);
        }
        let number = self.peers.len();
        if number == MAX_ENDPOINTS {
            let reason = format!("all {MAX_ENDPOINTS} endpoints of the interface are in use");
            return Err(OpenError::Limit(reason));
        }
        self.peers.push(Peer {
            address: *address,
            open: false,
            failed: None,
            asked: false,
            link: None,
            waiting: VecDeque::new(),
            beside: S::Beside::default(),
        });
        self.by_uid.insert(address.uid, number as u32);
        // Space for everything that may be said of the peer is made here.
        self.failed.reserve(number + 1 - self.failed.len());
        self.waiters.reserve(number + 1);
        self.state.met(number as u32);
        Ok(number as u32)
    }

    pub(crate) fn open_endpoint(&mut self, bytes: &[u8]) -> Result<EpId, OpenError> {
        let address = self.read_address(bytes)?;
        let number = self.peer_with(&address)?;
        let peer = &mut self.peers[number as usize];
        if peer.address != address {
            let reason = "another address of the same name is known".to_owned();
            return Err(OpenError::BadAddress(reason));
        }
        if peer.failed == Some(PeerFailure::Closed) {
            // It does not come back, and what it has sent, with its end behind that, may not be reported yet.
            return Err(OpenError::PeerFailed(PeerFailure::Closed));
        }
        if !peer.open {
            // A failure belongs to the endpoint that it was reported to.
            peer.failed = None;
            peer.open = true;
            self.control.command(Command::Watch(address));
        }
        S::opened(self);
        // The failure of an earlier connection is reported even if this attempt fails.
        let mut earlier = self.failed.iter().any(|(failed, _)| *failed == number);
        if self.at_once && self.peers[number as usize].failed.is_none() {
            self.ask(number);
            // The thread answers in time; in pauses, of which a process that stood still misses one.
            let mut pauses = 2 * POLLS;
            while self.peers[number as usize].link.is_none() {
                match self.control.wait(Instant::now() + self.timeout / POLLS) {
                    Some(event) => S::handle(self, event),
                    None => pauses -= 1,
                }
                if pauses == 0 || self.peers[number as usize].failed.is_some() {
                    self.disconnect(EpId(number));
                    self.failed.retain(|(failed, _)| {
                        *failed != number || std::mem::replace(&mut earlier, false)
                    });
                    return Err(Unreachable::because("the peer does not answer").into());
                }
            }
        }
        Ok(EpId(number))
    }

    pub(crate) fn disconnect(&mut self, ep: EpId) {
        let Some(peer) = self.peers.get_mut(ep.0 as usize).filter(|peer| peer.open) else {
            return;
        };
        peer.open = false;
        self.waiters.cancel(ep);
        // One to which messages are under way is still watched, so that they end.
        let uid = peer.uid();
        if peer.link.is_none() && !peer.asked {
            self.control.command(Command::Forget(uid));
        }
    }

    /// Asks for a connection, once.
    pub(crate) fn ask(&mut self, number: u32) {
        let peer = &mut self.peers[number as usize];
        if peer.link.is_none() && !peer.asked {
            peer.asked = true;
            let address = peer.address;
            self.control.command(Command::Ask(address));
        }
    }

    /// Takes the events of the thread that makes connections.
    #[cold]
    pub(crate) fn take_events(&mut self) {
        while let Some(event) = self.control.event() {
            S::handle(self, event);
        }
    }

    /// The peer has no connection any more, and all that was under way is answered: has the failure
    /// reported. `pair` is where messages of the connection arrived.
    pub(crate) fn note_failure(&mut self, number: u32, pair: Option<u32>, how: PeerFailure) {
        let peer = &mut self.peers[number as usize];
        if peer.failed.is_none() {
            peer.failed = Some(how);
            self.waiters.cancel(EpId(number));
            self.failed.push_back((number, pair));
        }
    }

    pub(crate) fn report_failure(&self, number: u32, sink: &mut dyn Sink) {
        let peer = &self.peers[number as usize];
        let how = peer.failed.unwrap_or(PeerFailure::Unreachable);
        sink.failed(Some(Source(number)), peer.open.then_some(EpId(number)), how);
    }

    /// Reports endpoints that asked and have space now, in the order of asking.
    pub(crate) fn report_writable(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut waiters = std::mem::take(&mut self.waiters);
        let events = waiters.report(sink, budget, |ep| S::may_post(self, ep.0));
        self.waiters = waiters;
        events
    }

    /// Whether an endpoint that asked has space now.
    pub(crate) fn is_writable(&self) -> bool {
        self.waiters.iter().any(|ep| S::may_post(self, ep.0))
    }

    /// The descriptor that becomes readable when there is something to do: completions, or an
    /// event of the thread that makes connections.
    pub(crate) fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        if self.poller.is_none() {
            let act = "make a descriptor to sleep on";
            let poller = self.make_poller().map_err(|source| OpenError::System { act, source })?;
            self.poller = Some(poller);
        }
        Ok(self.poller.as_ref().expect("made just now").as_fd())
    }

    fn make_poller(&mut self) -> io::Result<OwnedFd> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = epoll::EventFlags::IN;
        epoll::add(&poller, self.cq.fd(), epoll::EventData::new_u64(0), flags)?;
        epoll::add(&poller, self.control.bell(), epoll::EventData::new_u64(1), flags)?;
        self.state.watch(&poller)?;
        Ok(poller)
    }
}

impl<S: Service> Drop for ServiceIface<S> {
    fn drop(&mut self) {
        if !self.quiet {
            S::close(self);
        }
        // Pairs go before the memory that requests name; with them everything under way.
        self.peers.clear();
        self.control.stop(self.quiet);
    }
}
