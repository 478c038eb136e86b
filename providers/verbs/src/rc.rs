//! Reliable connections: the interface, how it is opened and closed. Peers and their connections
//! are in `peer`, posting in `post`, `rma` and `atomics`, completions in `progress`.
//!
//! One queue pair for each peer that is talked to, one completion queue and one shared receive
//! queue for all: receive memory does not grow with the number of peers.
//!
//! **Numbers.** A peer is an interface elsewhere, named by its uid. Its place in the table is the
//! number of the endpoint to it and the [`Source`](bowline_uct::Source) of its messages.
//!
//! **Requests** of a connection are numbered. Few ask for a completion: one says that all before
//! it are complete, too, since a reliable connection completes in order.
//!
//! **The interface itself** can be a peer, too: see `loopback`.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bowline_base::slab::Slab;
use bowline_uct::{AtomicOps, Caps, IfaceAttr, Limits, OpLimits, OpenError, PeerFailure};

use crate::control::{Command, Control, POLLS, ReliablePairs};
use crate::device_context::{DeviceContext, random_word};
use crate::domain::Domain;
use crate::options::{MAX_ENDPOINTS, VerbsMode, VerbsOptions};
use crate::pool::{ReceivePool, Results, SendPool};
use crate::service::{BATCH, ByNumber, ServiceIface, WAITING};
use crate::sys::{PairSizes, Srq, Wc, ffi};
use crate::wire::HEADER_BYTES;

mod atomics;
mod contract;
mod disconnect;
mod loopback;
mod peer;
mod post;
mod progress;
mod rma;
mod signal_safe;

use atomics::Emulated;
use peer::{pair_number, under_way};
use signal_safe::Left;

bowline_base::counters! {
    /// What a reliable interface counts.
    pub struct RcCounters {
        /// Requests posted.
        requests,
        /// Calls that posted requests; each rings the device once.
        doorbells,
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
        /// Of those, messages that were copied into the device's queue.
        inline,
        /// Active messages received.
        received,
        /// Posts refused for want of space.
        refused,
        /// Connections made.
        connections,
        /// Connections that failed.
        failures,
        /// Requests that only ask whether a silent peer is there.
        probes,
    }
}

/// Pieces of local memory in one request.
const PIECES: usize = 16;

/// Requests beyond the configured depth: markers for flushes, probes, the last message.
const RESERVE: usize = 8;

/// Atomics with a result under way at once.
const RESULTS: u32 = 256;

/// A receive completion that waits for budget, with its sender.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    buffer: u32,
    len: usize,
    peer: u32,
    /// Our queue pair that it came on.
    pair: u32,
}

/// An interface over reliable connections.
pub type RcIface = ServiceIface<Reliable>;

type Peer = crate::service::Peer<Reliable>;

/// What reliable connections need besides.
#[derive(Debug)]
pub struct Reliable {
    depth: usize,
    /// Requests after which a completion is asked for.
    signal_every: u32,
    /// Peers by the number of our queue pair to them.
    by_pair: ByNumber,
    /// What was found there last.
    last_pair: Option<(u32, u32)>,
    /// Where completions are polled to.
    completions: Box<[Wc]>,
    /// Arrivals in order.
    arrived: VecDeque<Arrived>,
    /// Arrivals on pairs of which it is not known yet whose they are, in order.
    unclaimed: Vec<Arrived>,
    emulated: Slab<Emulated>,
    /// Requests under way on all connections, and the most that the completion queue holds.
    under_way: usize,
    most_under_way: usize,
    /// Connections that broke while completions were read.
    broken: Vec<(u32, PeerFailure)>,
    /// A request that the device refused, with the error, until somebody may write a line about it.
    refused: Option<(u32, i32)>,
    left: Left,
    idle_rounds: u32,
    /// When silent peers are to be searched for.
    next_check: Instant,
    results: Results,
    domain: Domain,
    srq: Arc<Srq>,
    /// Makes the pairs of the connection to this interface itself.
    own_pairs: ReliablePairs,
}

impl RcIface {
    /// Opens the interface on the device that the options name.
    ///
    /// # Errors
    /// When there is no such device, or it cannot give what the options ask for.
    pub fn open(options: &VerbsOptions) -> Result<Self, OpenError> {
        let mut context = DeviceContext::open(options)?;
        let device = context.attributes;
        let at_most = |wanted: u32, limit: i32| wanted.min(u32::try_from(limit).unwrap_or(1));
        let receives = at_most(options.receive_buffers, device.max_srq_wr);
        let reserve = RESERVE as u32;
        let depth = at_most(options.send_depth, device.max_qp_wr - RESERVE as i32);
        // Every request may complete with an error, whether its completion was asked for or not;
        // those of a broken connection may still be unread when others take their place.
        let wanted = (4 * (depth + reserve)).max(options.send_buffers * 2);
        let completions = at_most(receives + 2 * wanted, device.max_cqe);
        let sends = completions.saturating_sub(receives) / 2;
        let sizes = PairSizes {
            sends: depth + reserve,
            receives: 0,
            send_pieces: at_most(PIECES as u32, device.max_sge),
            inline_bytes: options.inline,
        };
        let (cq, srq) = context.share(completions, receives, sizes)?;
        let fail = |act| move |source| OpenError::System { act, source };
        let trial = context.make_pair().map_err(fail("make a queue pair"))?;
        let inline = (trial.inline_bytes() as usize).min(options.inline as usize);
        drop(trial);
        let longest = HEADER_BYTES + options.max_bcopy;
        let send = SendPool::new(&context.pd, options.send_buffers, longest)
            .map_err(fail("reserve send buffers"))?;
        let receive = ReceivePool::new(&context.pd, receives, longest)
            .map_err(fail("reserve receive buffers"))?;
        let results =
            Results::new(&context.pd, RESULTS).map_err(fail("reserve words for atomics"))?;
        let uid = random_word();
        let domain = Domain::new(&context.pd, uid);
        let attr = attributes(&context, options, inline, sizes.send_pieces as usize, &receive);
        let context = Arc::new(context);
        let pairs = ReliablePairs(Arc::clone(&context));
        let own_pairs = ReliablePairs(Arc::clone(&context));
        let own = (VerbsMode::Rc, uid, 0);
        let control = Control::start(&context, options, own, longest, pairs)
            .map_err(fail("start the thread that makes connections"))?;
        let state = Reliable {
            depth: depth as usize,
            signal_every: (depth / 4).clamp(1, 32),
            by_pair: ByNumber::default(),
            last_pair: None,
            completions: vec![Wc::default(); BATCH].into_boxed_slice(),
            arrived: VecDeque::with_capacity(receives as usize),
            unclaimed: Vec::with_capacity(receives as usize),
            emulated: Slab::default(),
            under_way: 0,
            most_under_way: sends as usize,
            broken: Vec::new(),
            refused: None,
            left: Left::new(),
            idle_rounds: 0,
            next_check: Instant::now() + options.peer_timeout / POLLS,
            results,
            domain,
            srq,
            own_pairs,
        };
        let mut iface = Self::assemble(options, attr, control, (send, receive), cq, state);
        iface.post_receives(true).map_err(fail("post receive buffers"))?;
        tracing::debug!(device = iface.attr.device, uid, inline, depth, "opened");
        Ok(iface)
    }

    /// What was counted.
    pub const fn counters(&self) -> &RcCounters {
        &self.counters
    }

    /// Registrations of memory that is lent to operations or to reads of peers at present.
    pub fn transient_registrations(&self) -> usize {
        self.state.domain.transient()
    }

    /// Posts receive buffers: full batches, or all that are due.
    #[inline]
    fn post_receives(&mut self, all: bool) -> io::Result<()> {
        let calls = self.receive.post_due(all, |batch| self.state.srq.post(batch))?;
        self.counters.receive_posts += u64::from(calls);
        Ok(())
    }
}

fn attributes(
    context: &DeviceContext,
    options: &VerbsOptions,
    inline: usize,
    pieces: usize,
    receive: &ReceivePool,
) -> IfaceAttr {
    let mut caps = Caps::MESSAGES
        | Caps::PUTS
        | Caps::AM_ZCOPY
        | Caps::GET_ZCOPY
        // A responder carries out the requests of a queue pair in their order (InfiniBand Architecture, volume 1, 9.5).
        | Caps::PUT_BEFORE_AM
        | Caps::PUT_NOTIFY
        | Caps::PEER_FAILURE
        | Caps::EP_CHECK
        | Caps::EVENT_FD
        | Caps::INTER_NODE
        | Caps::RMA_REGISTERED
        | Caps::EXPOSE
        | Caps::LEND
        | Caps::CARRIES
        | Caps::SIGNAL_SAFE
        | Caps::GET_PREPARED;
    let mut atomics = AtomicOps::empty();
    if context.attributes.atomic_cap != ffi::ATOMIC_NONE && context.reads > 0 {
        atomics = AtomicOps::all();
        caps |= Caps::PUT_BEFORE_ATOMIC;
        caps |= if context.attributes.atomic_cap == ffi::ATOMIC_GLOB {
            Caps::ATOMIC_CPU
        } else {
            Caps::ATOMIC_DEVICE
        };
    }
    // A request names its length with 32 bits, and a device carries less.
    let largest = context.max_message.min(1 << 30);
    let rma = OpLimits {
        max_short: inline,
        max_bcopy: options.max_bcopy,
        min_zcopy: 0,
        max_zcopy: largest,
        max_iov: pieces,
        opt_align: 64,
    };
    IfaceAttr {
        provider: "verbs",
        device: format!("{}:{}", context.device, context.port),
        caps,
        limits: Limits {
            am: OpLimits {
                max_short: inline - HEADER_BYTES,
                max_bcopy: options.max_bcopy,
                min_zcopy: 0,
                max_zcopy: options.max_bcopy,
                // One piece is the header's.
                max_iov: pieces - 1,
                opt_align: 64,
            },
            put: rma,
            get: OpLimits { max_short: 0, max_bcopy: 0, ..rma },
        },
        atomics,
        max_endpoints: MAX_ENDPOINTS as u32,
        receive_bytes: receive.memory_bytes(),
    }
}

impl RcIface {
    /// Says goodbye on every connection, after all that was posted before.
    pub(crate) fn close_connections(&mut self) {
        /// Longest that a goodbye is waited for.
        const GOODBYE: Duration = Duration::from_secs(2);
        // Messages that wait for a connection may still find it: their receivers may wait for
        // nothing else.
        let patience = self.timeout;
        self.drain_while(patience, |peers| peers.iter().filter(|peer| peer.has_waiting()).count());
        self.mark_all();
        self.drain_while(patience, |peers| peers.iter().map(under_way).sum());
        for peer in 0..self.peers.len() as u32 {
            self.post_close(peer);
        }
        // Who closes at the same time may be gone before the goodbye, which nobody needs then.
        self.drain_while(GOODBYE.min(patience), |peers| peers.iter().map(under_way).sum());
        for peer in &self.peers {
            if let Some(number) = pair_number(peer)
                && !self.is_own(peer)
            {
                let uid = peer.uid();
                self.control.command(Command::End { uid, number, in_order: true });
            }
        }
    }

    /// Asks for the completion of all that is under way: without one nothing says that the last
    /// requests are complete.
    fn mark_all(&mut self) {
        for peer in 0..self.peers.len() {
            if self.peers[peer].link.as_ref().is_some_and(|link| link.unsignalled > 0)
                && let Err(error) = self.mark(peer as u32)
            {
                tracing::debug!(%error, "a peer's last requests cannot be asked for");
            }
        }
    }

    /// Whether nothing waits for a connection and nothing is under way.
    fn all_sent(&mut self) -> bool {
        self.mark_all();
        self.peers.iter().all(|peer| !peer.has_waiting() && under_way(peer) == 0)
    }

    /// Makes progress until `left` is 0, or has not become less for `patience`: a peer that has no
    /// space for so long is as if it were gone.
    fn drain_while(&mut self, patience: Duration, left: impl Fn(&[Peer]) -> usize) {
        let mut before = usize::MAX;
        let mut end = Instant::now() + patience;
        loop {
            match left(&self.peers) {
                0 => return,
                now if now < before => {
                    before = now;
                    end = Instant::now() + patience;
                }
                _ if Instant::now() >= end => {
                    let left = before;
                    tracing::debug!(left, "closed while requests to silent peers were under way");
                    return;
                }
                _ => {}
            }
            self.drain_quietly();
        }
    }
}
