//! The interface: its structure, opening, closing, and what happens to its peers.
//!
//! What the contract asks of it stands in [`crate::contract`], which names the files that do the
//! work.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use bowline_base::doorbell::Doorbell;
use bowline_uct::runtime::{EventQueue, KeyTable, MemoryTable, WritableList};
use bowline_uct::{AtomicOps, Caps, EpId, IfaceAttr, Limits, OpLimits, OpenError, Token};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use crate::addr::{Address, Host, MAX_PLACES, Place};
use crate::frame::{HEADER_BYTES, MAX_RMA};
use crate::handshake::Handshake;
use crate::interfaces::{self, RouteChoice};
use crate::listening::{Listening, Outcomes};
use crate::options::TcpOptions;
use crate::peer::Peer;
use crate::receiver::Receiver;
use crate::socket;
use crate::watcher::Watcher;

bowline_base::counters! {
    /// What a tcp interface counts.
    pub struct TcpCounters {
        /// Active messages sent.
        am_sent,
        /// Active messages handed to the sink.
        am_received,
        /// Posts refused because a peer's queue was full.
        refused,
        /// Times that the kernel's buffer of a connection was found full.
        blocked,
        /// Calls of `recv` and its kin.
        receives,
        /// Of these, calls that found nothing.
        receives_empty,
        /// Calls of `epoll_wait`.
        epoll_waits,
        /// Connections that stand or stood.
        connections,
        /// Handshakes given up because the peer's own connection was there first.
        duplicates,
        /// Pauses after which a peer that could not be reached, or hung up, was tried again.
        tried_again,
        /// Handshakes dropped: wrong secret, malformed, too slow, or too many.
        handshakes_dropped,
        /// Peers that sent what no correct peer sends.
        damaged,
        /// Peers lost for whatever reason.
        peers_lost,
        /// Puts, gets and atomics by peers that were carried out here.
        served,
        /// Of peers' operations, those that named memory which is not (or no longer) reachable.
        refused_accesses,
    }
}

/// Most endpoints of an interface. Descriptors end sooner on most systems.
const MAX_ENDPOINTS: u32 = 1 << 20;
/// Most pieces of a zcopy operation.
pub(crate) const MAX_IOV: usize = 16;
/// Time between polls of what may have to be given up.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// What an epoll event is about; the low half of its data is an index.
pub(crate) mod tag {
    pub(crate) const LISTENER: u64 = 0;
    pub(crate) const HANDSHAKE: u64 = 1;
    pub(crate) const PEER: u64 = 2;
    pub(crate) const TIMER: u64 = 3;
    pub(crate) const BELL: u64 = 4;
}

/// The tcp transport of one worker. See the crate's text for how to open one.
#[derive(Debug)]
pub struct TcpIface {
    pub(crate) peers: Vec<Option<Box<Peer>>>,
    /// Numbers of peers that are over, to be used again.
    pub(crate) free_peers: Vec<u32>,
    /// Peers so far: distinguishes the users of a number.
    pub(crate) met: u64,
    /// The connection that brought something last; where there is no other, it is asked by `recv`.
    pub(crate) last_active: u32,
    /// Connections that were found ready and have not been read yet.
    pub(crate) ready: VecDeque<u32>,
    /// Connections that stand.
    pub(crate) open: u32,
    /// Sockets that need the kernel's word: handshakes under way, blocked connections.
    pub(crate) restless: u32,
    /// Calls of `progress`.
    pub(crate) polls: u32,
    pub(crate) receiver: Receiver,
    /// Where short and packed messages are put together.
    pub(crate) staging: Box<[u8]>,
    pub(crate) events: EventQueue,
    pub(crate) waiters: WritableList,
    /// Peers to which sending failed, to be read to their end.
    pub(crate) broken: Vec<u32>,
    pub(crate) sent: Vec<Token>,
    pub(crate) epoll: OwnedFd,
    pub(crate) attr: IfaceAttr,
    pub(crate) options: TcpOptions,
    pub(crate) counters: TcpCounters,
    pub(crate) uid: u64,
    pub(crate) host: Host,
    pub(crate) by_uid: HashMap<u64, u32>,
    /// By numbers, which are not used again.
    pub(crate) listeners: BTreeMap<u32, Listening>,
    pub(crate) next_listener: u32,
    pub(crate) handshakes: Vec<Option<Box<Handshake>>>,
    /// Peers that connect.
    pub(crate) connecting: Vec<u32>,
    /// Requests that wait for the user, oldest first.
    pub(crate) requests: VecDeque<u32>,
    /// Outcomes of own requests that nobody took yet, by the serials of their peers.
    pub(crate) outcomes: Outcomes,
    pub(crate) next_handshake: u64,
    pub(crate) attempts: u64,
    pub(crate) domain: MemoryTable,
    /// Handles of peers' memory, by the peer's number and serial: the number may be another one's later.
    pub(crate) rkeys: KeyTable<(u32, u64), u64>,
    pub(crate) bell: Doorbell,
    /// Whether the doorbell is ours to arm.
    pub(crate) own_bell: bool,
    /// Whether the doorbell's descriptor is among those that epoll watches.
    pub(crate) bell_watched: bool,
    pub(crate) watcher: Option<Watcher>,
    pub(crate) timer: OwnedFd,
    pub(crate) timer_period: Duration,
    pub(crate) last_patrol: Instant,
    /// Whether a malformed handshake or one with a wrong secret was logged.
    pub(crate) handshake_logged: bool,
    pub(crate) access_logged: bool,
    pub(crate) accept_logged: bool,
    pub(crate) sleep_logged: bool,
    /// The process that opened it.
    pub(crate) pid: u32,
    /// Ends without a word, as by a crash.
    pub(crate) abandoned: bool,
}

fn system(act: &'static str) -> impl Fn(rustix::io::Errno) -> OpenError {
    move |error| OpenError::System { act, source: error.into() }
}

fn random_uid() -> Result<u64, OpenError> {
    let mut bytes = [0; 8];
    random(&mut bytes).map_err(system("draw a random number"))?;
    // 0 is nobody's.
    Ok(u64::from_le_bytes(bytes) | 1)
}

/// Fills `bytes` from the system's random numbers.
pub(crate) fn random(bytes: &mut [u8]) -> rustix::io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn attr(options: &TcpOptions, device: String, receive_bytes: usize) -> IfaceAttr {
    let max = options.max_bcopy;
    let short = max.min(8 << 10);
    let rma = OpLimits {
        max_short: short,
        max_bcopy: max,
        min_zcopy: 0,
        max_zcopy: MAX_RMA,
        max_iov: MAX_IOV,
        opt_align: 1,
    };
    IfaceAttr {
        provider: "tcp",
        device,
        caps: Caps::MESSAGES
            | Caps::PUTS
            | Caps::AM_ZCOPY
            | Caps::GET_ZCOPY
            | Caps::ATOMIC_CPU
            | Caps::PUT_BEFORE_ATOMIC
            | Caps::PUT_BEFORE_AM
            | Caps::PUT_NOTIFY
            | Caps::PEER_FAILURE
            | Caps::EP_CHECK
            | Caps::WAKEUP
            | Caps::EVENT_FD
            | Caps::RUNG_BY_THREAD
            | Caps::INTER_NODE
            | Caps::RMA_REGISTERED
            | Caps::RMA_WAKES
            | Caps::EXPOSE
            | Caps::LEND,
        limits: Limits {
            am: OpLimits { max_zcopy: max, ..rma },
            put: rma,
            get: OpLimits { max_short: 0, max_bcopy: 0, ..rma },
        },
        atomics: AtomicOps::all(),
        max_endpoints: MAX_ENDPOINTS,
        receive_bytes,
    }
}

impl TcpIface {
    /// Opens an interface: listens at the chosen network interfaces and at loopback.
    ///
    /// # Errors
    /// When the options cannot be met (an unknown interface, no free port) or the system refuses
    /// a socket or memory.
    pub fn open(options: TcpOptions) -> Result<Self, OpenError> {
        let host = Host::current()
            .map_err(|source| OpenError::System { act: "identify this host", source })?;
        let uid = random_uid()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("make an epoll"))?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(system("make a timer descriptor"))?;
        epoll::add(&epoll, &timer, EventData::new_u64(tag::TIMER << 32), EventFlags::IN)
            .map_err(system("watch a timer"))?;
        let receiver = Receiver::new(options.max_bcopy)?;
        let (bell, own_bell) = match &options.doorbell {
            Some(bell) => (bell.clone(), false),
            None => (Doorbell::private(), true),
        };
        let staging = vec![0; HEADER_BYTES + 24 + options.max_bcopy].into_boxed_slice();
        let mut iface = Self {
            peers: Vec::new(),
            free_peers: Vec::new(),
            met: 0,
            last_active: u32::MAX,
            ready: VecDeque::new(),
            open: 0,
            restless: 0,
            polls: 0,
            attr: attr(&options, String::new(), receiver.capacity()),
            receiver,
            staging,
            events: EventQueue::default(),
            waiters: WritableList::default(),
            broken: Vec::new(),
            sent: Vec::new(),
            epoll,
            options,
            counters: TcpCounters::default(),
            uid,
            host,
            by_uid: HashMap::new(),
            listeners: BTreeMap::new(),
            next_listener: 0,
            handshakes: Vec::new(),
            connecting: Vec::new(),
            requests: VecDeque::new(),
            outcomes: HashMap::new(),
            next_handshake: 1,
            attempts: 0,
            domain: MemoryTable::default(),
            rkeys: KeyTable::default(),
            bell,
            own_bell,
            bell_watched: false,
            watcher: None,
            timer,
            timer_period: Duration::ZERO,
            last_patrol: Instant::now(),
            handshake_logged: false,
            access_logged: false,
            accept_logged: false,
            sleep_logged: false,
            pid: std::process::id(),
            abandoned: false,
        };
        iface.listen_everywhere()?;
        Ok(iface)
    }

    fn listen_everywhere(&mut self) -> Result<(), OpenError> {
        let range = socket::ports(&self.options.ports).ok_or_else(|| OpenError::System {
            act: "use the ports of BOWLINE_TCP_PORTS",
            source: std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                format!(
                    "it is `{}`, and takes 0, a port up to {} or a range such as 20000-20099",
                    self.options.ports,
                    u16::MAX
                ),
            ),
        })?;
        let mut names: Vec<String> = Vec::new();
        let mut refused = None;
        for (found, choice) in interfaces::judged(&self.options)? {
            if !choice.chosen || self.listeners.len() == MAX_PLACES {
                continue;
            }
            match socket::listen(found.ip, range, &self.options) {
                Ok((fd, at)) => {
                    let loopback = found.loopback;
                    self.add_listener(Listening::new(fd, at, loopback, false))?;
                    if !names.contains(&found.name) {
                        names.push(found.name);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, interface = found.name, ip = %found.ip, "cannot listen");
                    refused = Some(error);
                }
            }
        }
        if self.listeners.is_empty() {
            return Err(OpenError::System {
                act: "listen at any network interface (BOWLINE_TCP_INTERFACES, \
                      BOWLINE_TCP_PORTS)",
                source: refused.unwrap_or_else(|| std::io::ErrorKind::NotFound.into()),
            });
        }
        // The first that is no loopback names the device.
        let device = names.iter().find(|name| *name != "lo").or(names.first());
        self.attr.device = device.cloned().unwrap_or_default();
        Ok(())
    }

    /// What was counted.
    pub const fn counters(&self) -> &TcpCounters {
        &self.counters
    }

    /// The routes to the interface with this address, best first, and those that are none, with
    /// the reasons.
    ///
    /// # Errors
    /// When the address is damaged.
    pub fn explain(&self, address: &[u8]) -> Result<Vec<RouteChoice>, OpenError> {
        let address = Address::parse(address).map_err(OpenError::BadAddress)?;
        Ok(interfaces::routes(&self.options, self.host, &address))
    }

    /// The two ends of an endpoint's connection, ours first; `None` while there is none.
    pub fn connection(&self, ep: EpId) -> Option<(SocketAddr, SocketAddr)> {
        let socket = self.peer(ep.0)?.socket.as_ref()?;
        let local = SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
        let remote = rustix::net::getpeername(socket).ok()??;
        Some((local, SocketAddr::try_from(remote).ok()?))
    }

    /// Bytes of memory that the interface holds for its peers, and their number. The kernel's
    /// buffers are not among them.
    pub fn peer_memory(&self) -> (usize, usize) {
        let held: usize = self.peers.iter().flatten().map(|peer| peer.held()).sum();
        let places = self.peers.capacity() * size_of::<Option<Box<Peer>>>()
            + self.by_uid.capacity() * size_of::<(u64, u32)>();
        (held + places, self.peers.iter().flatten().count())
    }

    pub(crate) fn address_here(&self) -> Address {
        let places = self
            .listeners
            .values()
            .filter(|listening| !listening.user)
            .map(|listening| Place { at: listening.at, loopback: listening.loopback })
            .collect();
        Address { uid: self.uid, host: self.host, places }
    }

    #[inline]
    pub(crate) fn peer(&self, index: u32) -> Option<&Peer> {
        self.peers.get(index as usize)?.as_deref()
    }

    #[inline]
    pub(crate) fn peer_mut(&mut self, index: u32) -> Option<&mut Peer> {
        self.peers.get_mut(index as usize)?.as_deref_mut()
    }

    /// Adds a peer and names it.
    ///
    /// A number is used again after [`forget_if_over`](Self::forget_if_over), by when the layer above
    /// knows that the one before is over and nothing here names it any more: its socket is not watched,
    /// and it stands in no queue. What may outlive it, keys and outcomes, goes by the peer's serial.
    pub(crate) fn add_peer(&mut self, mut peer: Peer) -> Result<u32, OpenError> {
        self.met += 1;
        peer.serial = self.met;
        if let Some(index) = self.free_peers.pop() {
            self.peers[index as usize] = Some(Box::new(peer));
            return Ok(index);
        }
        let index = self.peers.len() as u32;
        if index == MAX_ENDPOINTS {
            return Err(OpenError::Limit(format!(
                "this interface has {MAX_ENDPOINTS} peers, which is all that it has numbers for; close \
                 endpoints"
            )));
        }
        self.peers.push(Some(Box::new(peer)));
        Ok(index)
    }

    /// Lets epoll watch a descriptor.
    pub(crate) fn watch(
        &self,
        fd: BorrowedFd<'_>,
        tag: u64,
        index: u32,
        flags: EventFlags,
    ) -> Result<(), OpenError> {
        let data = EventData::new_u64(tag << 32 | u64::from(index));
        epoll::add(&self.epoll, fd, data, flags).map_err(system("watch a socket"))
    }

    /// Changes what epoll says of a descriptor.
    pub(crate) fn rewatch(&self, fd: BorrowedFd<'_>, tag: u64, index: u32, flags: EventFlags) {
        let data = EventData::new_u64(tag << 32 | u64::from(index));
        if let Err(error) = epoll::modify(&self.epoll, fd, data, flags) {
            tracing::warn!(%error, "cannot change how a socket is watched");
        }
    }

    /// The kernel had no space for `index`, or has some again.
    pub(crate) fn set_blocked(&mut self, index: u32, blocked: bool) {
        let Some(peer) = self.peer_mut(index) else { return };
        if peer.blocked == blocked {
            return;
        }
        peer.blocked = blocked;
        let out = if blocked { EventFlags::OUT } else { EventFlags::empty() };
        if let Some(socket) = self.peer(index).and_then(|peer| peer.socket.as_ref()) {
            self.rewatch(socket.as_fd(), tag::PEER, index, PEER_EVENTS | out);
        }
        if blocked {
            self.counters.blocked += 1;
            self.restless += 1;
        } else {
            self.restless -= 1;
        }
    }

    /// Ends the interface as a crash of its process would: peers hear nothing but the end of the
    /// stream. For tests of what lies above.
    #[doc(hidden)]
    pub fn abandon(mut self) {
        self.abandoned = true;
    }
}

/// What epoll says of an established connection.
pub(crate) const PEER_EVENTS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);
