//! Multirail: several transports that carry the messages to a peer together, as one interface over their
//! interfaces.
//!
//! ```text
//!   user ──── am ──► log ──► the path in use ─────────────► numbers: in order, once ──► user
//!              ▲      │ (the first that is up)                │
//!              │      └── rewind, where that path fails       └── ack, with the next message or alone
//!              └── forgets what is acknowledged
//!   user ──── get ──► split by cost ──► parts on every path that is up ──► completed, once
//!                        ▲ a part whose path fails goes by another ──┘
//! ```
//! A *path* is one of the transports; a *link* is a peer, with a path for each of ours that leads to it.
//!
//! ```text
//!   path:  None ──(endpoint made)──► Up ──(its transport says so, refuses a post, or the peer has
//!                                    │     given it up)──► Down, to the end
//!   link:  made by connect, or by the peer's HELLO; fails when no path is up any more
//! ```
//! Rules.
//!
//! 1. Everything that takes part in matching is numbered and goes over one path: the first that is up.
//!    So order is that of the path, and messages of others never overtake.
//! 2. A message stays in its sender's log until the receiver has acknowledged its number. When its path
//!    fails, everything in the log goes again by the next one, from the oldest on.
//! 3. The receiver hands on the number that it expects and no other. One that it has had is dropped, and
//!    acknowledged again; one that comes too early is damage, since no path has gaps before its end.
//! 4. A path that was given up on one side is ignored there from then on, whatever it still brings: it
//!    may have lost what came before. Every message and acknowledgement names the paths that its sender
//!    has given up, so that the other side need not find out by itself.
//! 5. A read names disjoint parts of memory; a part is asked for again by another path only after the
//!    transport has answered for the first. So nothing is written twice at the same time.
//! 6. The link fails after all its reads were answered, and once.
//! 7. A path that lends no memory has no part in reads and all of it in messages. One whose transport
//!    refuses a part of a read has no further part in that read.
//! 8. Every path is greeted as soon as a link is used, so that a death is noticed on all of them: where
//!    the peer is dead, one path after the other fails, and then the link.
//! 9. A link that is over is dropped, and its number is for the next peer (`link`).
//! 10. A peer that greets and is gone by the time its paths are made may have sent by any of those on which it is
//!     known to be gone. The link fails when all these have said so, or when nothing was heard of it for many rounds.
//!     A goodbye on any path makes that a close, where another path just ends.
//!
//! Puts and atomic operations are not here: what was not known to have happened when its path failed
//! could not be repeated. They go by another interface of the network.
//!
//! Active messages of the user keep their ids as content of messages whose ids are multirail's own
//! ([`AmId`](bowline_uct::AmId) says why they cannot meet). So multirail may stand on multirail.
//!
//! **Thread safety.** The interface belongs to one thread at a time.
//! **Cleanup.** Dropping it brings out what was accepted, as far as the peers take it, and closes the
//! transports.
//!
//! Why it is an interface below the engine is in `docs/decisions/0018-several-lanes.md`.

mod contract;
mod drive;
mod flush;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod link;
mod log;
mod memory;
mod reads;
mod relay;
pub mod split;
mod wire;

use std::collections::VecDeque;

use bowline_base::doorbell::WakeSource;
use bowline_base::slab::{Key, Slab};
use bowline_model::transport::{Figure, KnownCosts, TransportCosts};
use bowline_uct::runtime::{EpTable, EventQueue, KeyTable, MemoryTable, NumberTable, WritableList};
use bowline_uct::{Caps, Iface, IfaceAttr, Limits, OpLimits, OpenError, PeerFailure};

use self::flush::Flush;
use self::link::Links;
use self::memory::{Handles, Keys};
use self::reads::{Asked, Read};
use self::relay::Note;
use self::split::{MAX_PATHS, PathCost};
use self::wire::{Address, FRONT, KEY_EACH, KEY_FRONT};

bowline_base::counters! {
    /// What is counted.
    pub struct RailStats {
        /// Paths that were given up.
        paths_lost,
        /// Messages that were posted again, on another path.
        repeated,
        /// Messages that came again and were dropped.
        duplicates,
        /// Acknowledgements that travelled alone.
        acknowledgements,
        /// Reads that were split.
        split_reads,
        /// Parts of reads that went by another path, because theirs failed.
        moved_parts,
        /// Messages that meant nothing.
        stray,
    }
}

/// What every path needs.
const MESSAGES: Caps = Caps::AM_SHORT.union(Caps::AM_BCOPY).union(Caps::AM_ORDERED);

/// What a path needs to take part in reads.
const READS: Caps = Caps::GET_ZCOPY.union(Caps::EXPOSE).union(Caps::RMA_REGISTERED);

/// No buffer of a Rust program is larger.
const ANY: usize = isize::MAX as usize;

/// A transport, and what reading by it costs.
pub struct Rail {
    /// The transport.
    pub iface: Box<dyn Iface>,
    /// Its costs.
    pub costs: TransportCosts,
}

impl std::fmt::Debug for Rail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rail").field("device", &self.iface.attr().device).finish_non_exhaustive()
    }
}

/// One of the transports.
struct Path {
    iface: Box<dyn Iface>,
    cost: PathCost,
    /// Whether reads go by it.
    reads: bool,
    /// Bytes that have come by its reads.
    read_bytes: u64,
    /// Links by the number of their sender, and by that of their endpoint.
    sources: NumberTable,
    by_ep: NumberTable,
}

/// Several transports as one. See the module's text.
pub struct MultiRail {
    /// First: they are dropped before what they may still write to.
    paths: Vec<Path>,
    attr: IfaceAttr,
    uid: u64,
    own_address: Vec<u8>,
    links: Links,
    /// Links that are to be dropped: their failure is among `events`, and the user has no endpoint.
    over: Vec<u32>,
    /// Links that end when nothing is heard of their peers any more (rule 10), and how.
    ending: Vec<(u32, PeerFailure)>,
    /// The links of endpoints.
    endpoints: EpTable<u32>,
    /// By the name of the peer.
    keys: KeyTable<u64, Keys>,
    memory: MemoryTable<Handles>,
    reads: Slab<Read>,
    parts: Slab<Asked>,
    /// Reads that wait for space in a path.
    refused: Vec<Key>,
    notes: Vec<Note>,
    /// Links that have something to post, each once.
    work: VecDeque<u32>,
    events: EventQueue,
    waiters: WritableList,
    flushes: Vec<Flush>,
    wake: Option<WakeSource>,
    /// A message with its front, as it is posted.
    scratch: Vec<u8>,
    /// Where messages are packed.
    staging: Vec<u8>,
    /// Which path is polled first.
    next: usize,
    costs: TransportCosts,
    stats: RailStats,
}

impl std::fmt::Debug for MultiRail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MultiRail").field("attr", &self.attr).finish_non_exhaustive()
    }
}

impl MultiRail {
    /// The provider's name, by which peers know what their addresses belong to.
    pub const PROVIDER: &'static str = "multirail";

    /// Puts transports together, the preferred first: it carries all messages as long as it works.
    /// `uid` is random and different for every worker.
    ///
    /// # Errors
    /// When there are none or too many, or one has no ordered messages.
    pub fn open(rails: Vec<Rail>, uid: u64) -> Result<Self, OpenError> {
        if rails.is_empty() || rails.len() > MAX_PATHS {
            let why = format!("one to {MAX_PATHS} transports go together, not {}", rails.len());
            return Err(OpenError::Limit(why));
        }
        for rail in &rails {
            let attr = rail.iface.attr();
            let space = attr.limits.am.max_bcopy;
            if !attr.caps.contains(MESSAGES) || space < 256 || attr.caps.contains(Caps::LOOPBACK) {
                let why = format!("{} carries no ordered messages of 256 bytes", attr.provider);
                return Err(OpenError::Limit(why));
            }
        }
        let attr = attr(&rails);
        let costs = together(&rails);
        let own = Address {
            uid,
            paths: rails
                .iter()
                .map(|rail| (rail.iface.attr().provider.to_owned(), rail.iface.address()))
                .collect(),
        };
        let own_address = own.pack();
        let longest = rails.iter().map(|rail| rail.iface.attr().limits.am.max_bcopy).min();
        if longest.is_none_or(|longest| own_address.len() > longest) {
            let why =
                "the address of all transports is longer than a message of one of them".to_owned();
            return Err(OpenError::Limit(why));
        }
        let path = |rail: Rail| Path {
            cost: path_cost(&rail.costs),
            reads: rail.iface.attr().caps.contains(READS),
            read_bytes: 0,
            iface: rail.iface,
            sources: NumberTable::default(),
            by_ep: NumberTable::default(),
        };
        Ok(Self {
            paths: rails.into_iter().map(path).collect(),
            scratch: vec![0; attr.limits.am.max_bcopy + FRONT],
            staging: vec![0; attr.limits.am.max_bcopy],
            attr,
            uid,
            own_address,
            links: Links::default(),
            over: Vec::new(),
            ending: Vec::new(),
            endpoints: EpTable::default(),
            keys: KeyTable::default(),
            memory: MemoryTable::default(),
            reads: Slab::default(),
            parts: Slab::default(),
            refused: Vec::new(),
            notes: Vec::new(),
            work: VecDeque::new(),
            events: EventQueue::default(),
            waiters: WritableList::default(),
            flushes: Vec::new(),
            wake: None,
            next: 0,
            costs,
            stats: RailStats::default(),
        })
    }

    /// What was counted so far.
    pub const fn stats(&self) -> &RailStats {
        &self.stats
    }

    /// Bytes that have come by the reads of each path, in their order.
    pub fn read_bytes(&self) -> impl Iterator<Item = u64> {
        self.paths.iter().map(|path| path.read_bytes)
    }

    /// Adds to `costs` what operations by all paths together cost.
    pub fn learn(&self, costs: &mut KnownCosts) {
        for (name, figure) in self.costs.figures() {
            costs.learn(Self::PROVIDER, &name, figure);
        }
    }

    /// Predicted nanoseconds of a read of `length` bytes by all paths, and each path's part; `None`
    /// where reads are not split.
    pub fn predict(&self, length: u64) -> Option<split::Split> {
        let all: Vec<_> = self.paths.iter().map(|path| path.reads.then_some(path.cost)).collect();
        split::split(length, &all)
    }
}

fn path_cost(costs: &TransportCosts) -> PathCost {
    PathCost { fixed: costs.get.time(1.0, 0.0), per_byte: costs.get.per_byte.value }
}

/// Costs of all together: messages go by the first, reads by all that read at the same time.
fn together(rails: &[Rail]) -> TransportCosts {
    let mut costs = rails[0].costs;
    let reads = |rail: &&Rail| rail.iface.attr().caps.contains(READS);
    let all: Vec<_> = rails.iter().filter(reads).map(|rail| rail.costs).collect();
    if all.is_empty() {
        return costs;
    }
    let paths = all.iter().map(path_cost);
    let rate: f64 = paths.clone().map(|path| 1.0 / path.per_byte.max(1e-6)).sum();
    let begun: f64 = paths.map(|path| path.fixed / path.per_byte.max(1e-6)).sum();
    let figures = all.iter().flat_map(|costs| costs.get.figures());
    let origin = figures.map(|(_, figure)| figure.origin).min();
    let figure = |value| Figure { value, origin: origin.unwrap_or(costs.copy.origin) };
    let (fixed, per_byte) = (figure(begun / rate), figure(1.0 / rate));
    costs.get.required.value = costs.get.required.value.min(fixed.value);
    costs.get.required.origin = fixed.origin;
    costs.get.pipelining = figure(fixed.value - costs.get.required.value);
    costs.get.per_byte = per_byte;
    costs
}

/// What all of them can.
fn attr(rails: &[Rail]) -> IfaceAttr {
    let all = |caps: Caps| rails.iter().all(|rail| rail.iface.attr().caps.contains(caps));
    let any = |caps: Caps| rails.iter().any(|rail| rail.iface.attr().caps.intersects(caps));
    let least = |of: fn(&IfaceAttr) -> usize| {
        rails.iter().map(|rail| of(rail.iface.attr())).min().unwrap_or(0)
    };
    let mut caps = MESSAGES;
    for bit in [Caps::PEER_FAILURE, Caps::EP_CHECK, Caps::EVENT_FD] {
        caps.set(bit, all(bit));
    }
    let reads = rails.iter().any(|rail| rail.iface.attr().caps.contains(READS));
    caps.set(READS, reads);
    caps.set(Caps::INTER_NODE, any(Caps::INTER_NODE));
    caps.set(Caps::RMA_WAKES, any(Caps::RMA_WAKES));
    let mut limits = Limits {
        am: OpLimits {
            max_short: least(|attr| attr.limits.am.max_short).saturating_sub(FRONT),
            max_bcopy: least(|attr| attr.limits.am.max_bcopy) - FRONT,
            ..OpLimits::default()
        },
        ..Limits::default()
    };
    if reads {
        limits.get = OpLimits { max_zcopy: ANY, max_iov: 1, opt_align: 64, ..OpLimits::default() };
    }
    let devices: Vec<String> = rails
        .iter()
        .map(|rail| format!("{} {}", rail.iface.attr().provider, rail.iface.attr().device))
        .collect();
    IfaceAttr {
        provider: MultiRail::PROVIDER,
        device: devices.join(" + "),
        caps,
        limits,
        atomics: bowline_uct::AtomicOps::empty(),
        max_endpoints: rails.iter().map(|rail| rail.iface.attr().max_endpoints).min().unwrap_or(0),
        receive_bytes: rails.iter().map(|rail| rail.iface.attr().receive_bytes).sum(),
    }
}

/// Longest packed key of paths whose own are as long as `each`.
fn key_bytes(each: impl Iterator<Item = usize>) -> usize {
    KEY_FRONT + each.map(|bytes| bytes + KEY_EACH).sum::<usize>()
}
