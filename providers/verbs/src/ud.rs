//! Datagrams: one queue pair for all peers, messages only, with reliability of our own. The
//! windows are in `window`, the header in `wire`, peers in `peer`, sending in `post`, arrivals and
//! time in `progress`.
//!
//! **What makes it reliable.** Datagrams to a peer are numbered; at most a window of them is not
//! acknowledged. The receiver takes them in order and drops others, so that a message is taken
//! once. It acknowledges with its own messages where it has some, else when enough are owed or
//! nothing else is to be done. What is not acknowledged in time is sent again, the pauses growing;
//! a receiver that sees a gap, or had no space and has some now, asks for that at once.
//!
//! Every header says how many datagrams its receiver may have under way, so that all that send to
//! an interface share its receive buffers (`shares`).
//!
//! **What makes a peer fail** is not that it does not acknowledge, since it may compute, but that
//! the thread that agrees on connections does not answer.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use bowline_uct::{AtomicOps, Caps, IfaceAttr, Limits, OpLimits, OpenError, PeerFailure};
use rustix::event::epoll;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use crate::addr::Address;
use crate::control::table::Pairs;
use crate::control::wire::PairEnd;
use crate::control::{Command, Control, GRH_BYTES, TableEvent};
use crate::device_context::{DeviceContext, random_word};
use crate::options::{MAX_ENDPOINTS, VerbsMode, VerbsOptions};
use crate::pool::{ReceivePool, SendPool};
use crate::service::{BATCH, ByNumber, Service, ServiceIface, WAITING};
use crate::sys::{Ah, Cq, PairSizes, Pd, Qp, RECEIVE_BATCH, Wc};
use crate::wire::HEADER_BYTES;
use peer::{Link, Waiting};
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
        /// Calls that polled for completions.
        polls,
        /// Completions found.
        completions,
        /// Calls that posted receive buffers.
        receive_posts,
        /// Active messages sent.
        sent,
        /// Active messages received.
        received,
        /// Datagrams that only acknowledge.
        acknowledgements,
        /// Datagrams sent again.
        repeated,
        /// Datagrams dropped because they came again or early.
        dropped,
        /// Posts refused for want of space.
        refused,
        /// Connections agreed on.
        connections,
        /// Connections that failed.
        failures,
    }
}

/// Bytes in front of a message in a receive buffer, and of its payload.
const BEFORE_MESSAGE: usize = GRH_BYTES + HEAD_BYTES;

/// A connection: there is no queue pair behind it, only two ends and an address handle.
#[derive(Debug)]
pub(crate) struct Agreed {
    ours: PairEnd,
    /// The peer's, once it is known.
    theirs: Option<(PairEnd, Ah)>,
}

/// Numbers of ends, and address handles of peers.
#[derive(Debug)]
struct NumberedPairs {
    context: Arc<DeviceContext>,
    next: u32,
}

impl Pairs for NumberedPairs {
    type Pair = Agreed;

    fn make(&mut self, _: &Address) -> io::Result<(Agreed, PairEnd)> {
        // 24 bits, and never 0.
        self.next = self.next % 0x00ff_fffe + 1;
        let ours = PairEnd { pair: self.next, psn: self.context.random_psn() };
        Ok((Agreed { ours, theirs: None }, ours))
    }

    fn connect(
        &mut self,
        pair: &mut Agreed,
        _: PairEnd,
        peer: &Address,
        theirs: PairEnd,
    ) -> io::Result<()> {
        let handle = Ah::new(&self.context.pd, &self.context.route_to(peer))?;
        pair.theirs = Some((theirs, handle));
        Ok(())
    }
}

/// An interface over datagrams.
pub type UdIface = ServiceIface<Datagrams>;

/// What datagrams need besides.
#[derive(Debug)]
pub struct Datagrams {
    window: usize,
    /// Peers by the number of our end.
    by_number: ByNumber,
    /// Connections that their peers have ended, with our end's number: broken when all that has
    /// arrived on them was taken in.
    ended: Vec<(u32, u32, PeerFailure)>,
    /// Connections of peers whose earlier one is among `ended`: they begin when that is broken.
    anew: Vec<(u32, Agreed)>,
    /// Messages that were found when they could not be shown: without a budget, or when their sender's end was reported.
    stash: VecDeque<Wc>,
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
    rounds: u32,
    next_scan: Instant,
    /// Wakes a sleeper that has to send again.
    clock: Option<OwnedFd>,
    pair: Qp,
    _pd: Arc<Pd>,
}

impl UdIface {
    /// Opens the interface on the device that the options name.
    ///
    /// # Errors
    /// When there is no such device, or it cannot give what the options ask for.
    pub fn open(options: &VerbsOptions) -> Result<Self, OpenError> {
        let context = DeviceContext::open(options)?;
        let device = context.attributes;
        let at_most = |wanted: u32, limit: i32| wanted.min(u32::try_from(limit).unwrap_or(1));
        let receives = at_most(options.receive_buffers, device.max_qp_wr);
        let depth = at_most(options.send_buffers * 2, device.max_qp_wr);
        let fail = |act| move |source| OpenError::System { act, source };
        let completions = at_most(receives + depth, device.max_cqe);
        let cq =
            Cq::new(context.pd.context(), completions).map_err(fail("make a completion queue"))?;
        let sizes =
            PairSizes { sends: depth, receives, send_pieces: 1, inline_bytes: HEAD_BYTES as u32 };
        let pair = Qp::datagrams(&context.pd, &cq, sizes).map_err(fail("make a queue pair"))?;
        pair.start_datagrams(context.port, context.qkey).map_err(fail("start a queue pair"))?;
        // What a packet of the port carries is what a datagram is.
        let packet = 128_usize << context.mtu;
        let longest = packet - HEAD_BYTES;
        let send = SendPool::new(&context.pd, options.send_buffers, packet)
            .map_err(fail("reserve send buffers"))?;
        let bytes = GRH_BYTES + packet;
        let receive = ReceivePool::new(&context.pd, receives, bytes)
            .map_err(fail("reserve receive buffers"))?;
        // Buffers that are free wait for a batch of them, and acknowledgements want some, too.
        let unposted = RECEIVE_BATCH as u32;
        let uid = random_word();
        let payload = (longest - HEADER_BYTES).min(options.max_bcopy);
        let attr = attributes(&context, payload, &receive);
        let context = Arc::new(context);
        let own = (VerbsMode::Ud, uid, pair.number());
        let pairs = NumberedPairs { context: Arc::clone(&context), next: 0 };
        let control = Control::start(&context, options, own, payload, pairs)
            .map_err(fail("start the thread that makes connections"))?;
        let state = Datagrams {
            window: options.ud_window as usize,
            by_number: ByNumber::default(),
            ended: Vec::new(),
            anew: Vec::new(),
            stash: VecDeque::with_capacity(receives as usize),
            shares: Shares::new(receives.saturating_sub(unposted).max(receives / 2)),
            freed: Vec::with_capacity(options.ud_window as usize),
            owing: VecDeque::new(),
            queued: VecDeque::with_capacity(depth as usize),
            next_queued: 0,
            unsignalled: 0,
            depth: depth as usize,
            in_queue: vec![(0, false); options.send_buffers as usize],
            rounds: 0,
            next_scan: Instant::now(),
            clock: None,
            pair,
            _pd: Arc::clone(&context.pd),
        };
        let mut iface = Self::assemble(options, attr, control, (send, receive), cq, state);
        iface.post_receives(true).map_err(fail("post receive buffers"))?;
        tracing::debug!(device = iface.attr.device, uid, payload, "opened");
        Ok(iface)
    }

    /// What was counted.
    pub const fn counters(&self) -> &UdCounters {
        &self.counters
    }

    fn post_receives(&mut self, all: bool) -> io::Result<()> {
        let calls = self.receive.post_due(all, |batch| self.state.pair.post_receives(batch))?;
        self.counters.receive_posts += u64::from(calls);
        Ok(())
    }
}

fn attributes(context: &DeviceContext, payload: usize, receive: &ReceivePool) -> IfaceAttr {
    let caps = Caps::MESSAGES | Caps::PEER_FAILURE | Caps::EVENT_FD | Caps::INTER_NODE;
    IfaceAttr {
        provider: "verbs",
        device: format!("{}:{}", context.device, context.port),
        caps,
        limits: Limits {
            am: OpLimits {
                max_short: payload,
                max_bcopy: payload,
                opt_align: 64,
                ..OpLimits::default()
            },
            ..Limits::default()
        },
        atomics: AtomicOps::empty(),
        max_endpoints: MAX_ENDPOINTS as u32,
        receive_bytes: receive.memory_bytes(),
    }
}

impl Service for Datagrams {
    type Pair = Agreed;
    type Link = Link;
    type Waiting = Waiting;
    type Beside = ();
    type Counters = UdCounters;

    fn handle(iface: &mut UdIface, event: TableEvent<Agreed>) {
        iface.handle(event);
    }

    fn met(&mut self, number: u32) {
        self.owing.reserve(number as usize + 1 - self.owing.len());
    }

    fn opened(iface: &mut UdIface) {
        iface.begin_anew();
    }

    fn may_post(iface: &UdIface, number: u32) -> bool {
        let peer = &iface.peers[number as usize];
        let space = match peer.link {
            Some(_) => iface.has_space(number),
            None => peer.waiting.len() < WAITING,
        };
        space && iface.send.has_free()
    }

    fn watch(&mut self, poller: &OwnedFd) -> io::Result<()> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let clock = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(poller, &clock, epoll::EventData::new_u64(2), epoll::EventFlags::IN)?;
        self.clock = Some(clock);
        Ok(())
    }

    fn close(iface: &mut UdIface) {
        // As long as a peer may be silent: acknowledgements may take as long.
        let end = Instant::now() + iface.timeout;
        while !iface.all_sent() && Instant::now() < end {
            iface.drain_quietly();
        }
        for peer in &iface.peers {
            if let Some(link) = &peer.link {
                let (uid, number) = (peer.uid(), link.ours.pair);
                iface.control.command(Command::End { uid, number, in_order: true });
            }
        }
    }
}
