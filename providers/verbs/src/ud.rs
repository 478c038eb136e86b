//! Datagrams: one queue pair for all peers, messages only, with reliability of our own. The
//! windows are in `window`, the header in `wire`, peers in `peer`, sending in `post`, arrivals and
//! time in `progress`.
//!
//! **What makes it reliable.** Datagrams to a peer are numbered; at most a window of them is not
//! acknowledged. The receiver takes them in order and drops others, so that a message is taken
//! once. It acknowledges with its own messages where it has some, else when enough are owed or
//! nothing else is to be done. What is not acknowledged in time is sent again, the pauses growing;
//! a receiver that sees a gap, or had no room and has some now, asks for that at once.
//!
//! Every header says how many datagrams its receiver may have under way, so that all that send to
//! an interface share its receive buffers (`shares`).
//!
//! **What makes a peer fail** is not that it does not acknowledge, since it may compute, but that
//! the thread that agrees on connections does not answer.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_uct::runtime::{EventQueue, WritableList};
use bowline_uct::{AtomicOps, Caps, IfaceAttr, Limits, OpLimits, OpenError, PeerFailure};
use rustix::event::epoll;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use crate::addr::Address;
use crate::control::table::Pairs;
use crate::control::wire::End;
use crate::control::{Command, Control, GRH_BYTES};
use crate::options::{ConnectWhen, Mode, VerbsOptions};
use crate::pool::{ReceivePool, SendPool};
use crate::rails::{Rails, random_word};
use crate::rc::{MAX_ENDPOINTS, NumberHasher};
use crate::sys::{Ah, Cq, PairSizes, Pd, Qp, RECEIVE_BATCH, Wc};
use crate::wire::HEADER_BYTES;
use peer::Peer;
use shares::Shares;
use wire::HEAD_BYTES;

mod contract;
mod peer;
mod post;
mod progress;
mod shares;
pub mod window;
pub mod wire;

bowline_base::counters! {
    /// What a datagram interface counts.
    pub struct UdCounters {
        /// Datagrams posted, of all kinds; each is one request and one ringing of the device.
        requests,
        /// Requests whose completion was asked for.
        signalled,
        /// Calls that looked for completions.
        polls,
        /// Completions found.
        completions,
        /// Calls that posted receive buffers.
        receive_posts,
        /// Active messages sent.
        sent,
        /// Active messages received.
        received,
        /// Arrivals that the sink kept.
        kept,
        /// Datagrams that only acknowledge.
        acknowledgements,
        /// Datagrams sent again.
        repeated,
        /// Datagrams dropped because they came again or early.
        dropped,
        /// Datagrams dropped because receivers keep all buffers and enough of them wait for one.
        no_spare,
        /// Posts refused for want of room.
        refused,
        /// Connections agreed on.
        connections,
        /// Connections that failed.
        failures,
    }
}

/// Messages that wait for a connection, to each peer.
const WAITING: usize = 16;

/// Bytes in front of a message in a receive buffer, and of its payload.
const BEFORE_MESSAGE: usize = GRH_BYTES + HEAD_BYTES;

/// A connection: there is no queue pair behind it, only two ends and a way.
#[derive(Debug)]
pub(crate) struct Agreed {
    ours: End,
    /// The peer's, once it is known.
    theirs: Option<(End, Ah)>,
}

/// Numbers of ends, and ways to peers.
#[derive(Debug)]
struct NumberedPairs {
    rails: Arc<Rails>,
    next: u32,
}

impl Pairs for NumberedPairs {
    type Pair = Agreed;

    fn make(&mut self, _: &Address) -> io::Result<(Agreed, End)> {
        // 24 bits, and never 0.
        self.next = self.next % 0x00ff_fffe + 1;
        let ours = End { pair: self.next, psn: self.rails.random_psn() };
        Ok((Agreed { ours, theirs: None }, ours))
    }

    fn connect(
        &mut self,
        pair: &mut Agreed,
        _: End,
        peer: &Address,
        theirs: End,
    ) -> io::Result<()> {
        let way = Ah::new(&self.rails.pd, &self.rails.route_to(peer))?;
        pair.theirs = Some((theirs, way));
        Ok(())
    }
}

/// An interface over datagrams.
#[derive(Debug)]
pub struct UdIface {
    attr: IfaceAttr,
    own: Address,
    window: usize,
    peers: Vec<Peer>,
    by_uid: HashMap<u64, u32>,
    /// Peers by the number of our end.
    by_number: HashMap<u32, u32, BuildHasherDefault<NumberHasher>>,
    waiters: WritableList,
    events: EventQueue,
    failed: VecDeque<u32>,
    /// Connections that their peers have ended, with our end's number: broken when all that has
    /// arrived on them was taken in.
    ended: Vec<(u32, u32, PeerFailure)>,
    /// Connections of peers whose earlier one is among `ended`: they begin when that is broken.
    anew: Vec<(u32, Agreed)>,
    /// Messages that were found when they could not be shown: without a budget, without a spare,
    /// or when their sender's end was told.
    stash: VecDeque<Wc>,
    /// Most of them while there is no spare, so that acknowledgements still find buffers.
    most_aside: usize,
    shares: Shares,
    /// Scratch for buffers that an acknowledgement frees.
    freed: Vec<u32>,
    /// Peers to which an acknowledgement may be owed.
    owing: VecDeque<u32>,
    /// Datagrams in the device's queue, in order: their send buffers, if they have one.
    queued: VecDeque<Option<u32>>,
    /// Number of the next datagram in the device's queue.
    next_queued: u64,
    unsignalled: u32,
    depth: usize,
    /// How often each send buffer stands in the device's queue; and whether it is to be freed
    /// when it does no more.
    in_queue: Vec<(u32, bool)>,
    /// Something was dropped for want of a spare.
    starved: bool,
    rounds: u32,
    next_scan: Instant,
    timeout: Duration,
    at_once: bool,
    poller: Option<(OwnedFd, OwnedFd)>,
    quiet: bool,
    pair: Qp,
    send: SendPool,
    receive: ReceivePool,
    cq: Arc<Cq>,
    _pd: Arc<Pd>,
    control: Control<Agreed>,
    counters: UdCounters,
}

impl UdIface {
    /// Opens the interface on the device that the options name.
    ///
    /// # Errors
    /// When there is no such device, or it cannot give what the options ask for.
    pub fn open(options: &VerbsOptions) -> Result<Self, OpenError> {
        let rails = Rails::open(options)?;
        let device = rails.attributes;
        let at_most = |wanted: u32, limit: i32| wanted.min(u32::try_from(limit).unwrap_or(1));
        let receives = at_most(options.receive_buffers, device.max_qp_wr);
        let depth = at_most(options.send_buffers * 2, device.max_qp_wr);
        let fail = |act| move |source| OpenError::System { act, source };
        let completions = at_most(receives + depth, device.max_cqe);
        let cq =
            Cq::new(rails.pd.context(), completions).map_err(fail("make a completion queue"))?;
        let sizes =
            PairSizes { sends: depth, receives, send_pieces: 1, inline_bytes: HEAD_BYTES as u32 };
        let pair = Qp::datagrams(&rails.pd, &cq, sizes).map_err(fail("make a queue pair"))?;
        pair.start_datagrams(rails.port, rails.qkey).map_err(fail("start a queue pair"))?;
        // What a packet of the port carries is what a datagram is.
        let packet = 128_usize << rails.mtu;
        let longest = packet - HEAD_BYTES;
        let send = SendPool::new(&rails.pd, options.send_buffers, packet)
            .map_err(fail("reserve send buffers"))?;
        let bytes = GRH_BYTES + packet;
        let receive = ReceivePool::new(&rails.pd, receives, options.spare_buffers, bytes)
            .map_err(fail("reserve receive buffers"))?;
        // Buffers that are free wait for a batch of them, and acknowledgements want some, too.
        let unposted = RECEIVE_BATCH as u32;
        let uid = random_word();
        let payload = (longest - HEADER_BYTES).min(options.max_bcopy);
        let attr = attributes(&rails, payload, &receive);
        let rails = Arc::new(rails);
        let data = pair.number();
        let own = |pair| Address {
            mode: Mode::Ud,
            uid,
            gid: rails.gid,
            lid: rails.lid,
            ethernet: rails.ethernet,
            mtu: rails.mtu,
            pair,
            data,
            qkey: rails.qkey,
            longest: payload as u32,
        };
        let pairs = NumberedPairs { rails: Arc::clone(&rails), next: 0 };
        let (control, own) = Control::start(
            &rails,
            own,
            options.secret.clone(),
            options.peer_timeout,
            MAX_ENDPOINTS,
            pairs,
            true,
        )
        .map_err(fail("start the thread that makes connections"))?;
        let mut iface = Self {
            attr,
            own,
            window: options.ud_window as usize,
            peers: Vec::new(),
            by_uid: HashMap::new(),
            by_number: HashMap::default(),
            waiters: WritableList::default(),
            events: EventQueue::with_capacity(64),
            failed: VecDeque::new(),
            ended: Vec::new(),
            anew: Vec::new(),
            stash: VecDeque::with_capacity(receives as usize),
            most_aside: receives as usize / 2,
            shares: Shares::new(receives.saturating_sub(unposted).max(receives / 2)),
            freed: Vec::with_capacity(options.ud_window as usize),
            owing: VecDeque::new(),
            queued: VecDeque::with_capacity(depth as usize),
            next_queued: 0,
            unsignalled: 0,
            depth: depth as usize,
            in_queue: vec![(0, false); options.send_buffers as usize],
            starved: false,
            rounds: 0,
            next_scan: Instant::now(),
            timeout: options.peer_timeout,
            at_once: options.connect == ConnectWhen::AtOnce,
            poller: None,
            quiet: false,
            pair,
            send,
            receive,
            cq,
            _pd: Arc::clone(&rails.pd),
            control,
            counters: UdCounters::default(),
        };
        iface.post_receives(true).map_err(fail("post receive buffers"))?;
        tracing::debug!(device = iface.attr.device, uid, payload, "opened");
        Ok(iface)
    }

    /// What was counted.
    pub const fn counters(&self) -> &UdCounters {
        &self.counters
    }

    /// Whether every endpoint has its connection, or the news that there is none.
    pub fn is_settled(&self) -> bool {
        let settled = |peer: &Peer| !peer.open || peer.link.is_some() || !peer.asked;
        self.peers.iter().all(settled)
    }

    /// Ends the interface as a crash of its process would: nobody is told anything.
    #[doc(hidden)]
    pub fn abandon(mut self) {
        self.quiet = true;
    }

    fn post_receives(&mut self, all: bool) -> io::Result<()> {
        let calls = self.receive.post_due(all, |batch| self.pair.post_receives(batch))?;
        self.counters.receive_posts += u64::from(calls);
        Ok(())
    }

    /// The descriptor to sleep on, and the clock in it.
    fn make_poller(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let clock = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let flags = epoll::EventFlags::IN;
        epoll::add(&poller, self.cq.fd(), epoll::EventData::new_u64(0), flags)?;
        epoll::add(&poller, self.control.bell(), epoll::EventData::new_u64(1), flags)?;
        epoll::add(&poller, &clock, epoll::EventData::new_u64(2), flags)?;
        Ok((poller, clock))
    }
}

fn attributes(rails: &Rails, payload: usize, receive: &ReceivePool) -> IfaceAttr {
    let caps = Caps::AM_SHORT
        | Caps::AM_BCOPY
        | Caps::AM_ORDERED
        | Caps::PEER_FAILURE
        | Caps::EVENT_FD
        | Caps::INTER_NODE;
    IfaceAttr {
        provider: "verbs",
        device: format!("{}:{}", rails.device, rails.port),
        caps,
        limits: Limits {
            am: OpLimits {
                max_short: payload,
                max_bcopy: payload,
                min_zcopy: 0,
                max_zcopy: 0,
                max_iov: 0,
                opt_align: 64,
            },
            put: OpLimits::default(),
            get: OpLimits::default(),
        },
        atomic_post: AtomicOps::empty(),
        atomic_fetch: AtomicOps::empty(),
        max_endpoints: MAX_ENDPOINTS as u32,
        receive_bytes: receive.memory_bytes(),
    }
}

impl Drop for UdIface {
    fn drop(&mut self) {
        if !self.quiet {
            // As long as a peer may be silent: acknowledgements may take as long.
            let end = Instant::now() + self.timeout;
            while self.peers.iter().any(Peer::is_busy) && Instant::now() < end {
                self.drain_quietly();
            }
            for peer in &self.peers {
                if let Some(link) = &peer.link {
                    let (uid, number) = (peer.address.uid, link.ours.pair);
                    self.control.command(Command::End { uid, number, in_order: true });
                }
            }
        }
        self.control.stop(self.quiet);
    }
}
