//! The network behind its lock: nodes, links, and the events that virtual time brings.
//!
//! Everything here happens in the order of calls and of (time, number) of events, and every random
//! choice comes from the one seed: so equal runs are equal. Nothing here may depend on an address
//! of memory, on a real clock, or on the order of a hash table.

mod apply;
mod end;
mod link;
mod node;
mod op;
mod post;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use bowline_base::slab::{Key, Slab};
use bowline_uct::{PeerFailure, Token};

pub(crate) use self::end::Cancel;
use self::link::{Link, Promises};
use self::node::Node;
pub(crate) use self::node::{Item, Range, State};
use self::op::Op;
pub(crate) use self::op::{Kind, Remote};
use crate::options::{LinkMode, Moment, NetworkOptions};
use crate::random::Random;
use crate::trace::{Mark, Trace};

bowline_base::counters! {
    /// What a network counts.
    pub struct SimCounters {
        /// Operations posted.
        posted,
        /// Operations refused for want of space.
        refused,
        /// Active messages handed to receivers.
        delivered,
        /// Transmissions lost.
        lost,
        /// Messages doubled.
        duplicated,
        /// Messages held back.
        reordered,
        /// Arrivals put off by a partition.
        parted,
        /// Events that time brought.
        events,
        /// Interfaces that died.
        deaths,
    }
}

/// How an interface ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was dropped in order.
    Closed,
    /// It was killed.
    Died,
    /// It was dropped by a panic, which to its peers is a death.
    Panicked,
    /// It was cut off, so that what it waited for failed.
    CutOff,
}

/// What an event does.
#[derive(Clone, Copy, Debug)]
enum What {
    Depart(Key),
    Arrive(Key),
    Complete(Key),
    Notice { to: u32, about: u32, how: PeerFailure },
    Kill(u32),
    GiveUp { partition: usize },
}

#[derive(Debug)]
struct Event {
    at: u64,
    order: u64,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// A flush over one link or several.
#[derive(Debug)]
struct Group {
    node: u32,
    token: Token,
    left: u32,
    result: Result<u64, PeerFailure>,
}

/// The network. See the module's text.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) options: NetworkOptions,
    /// No other network of this process has had it.
    pub(crate) id: u64,
    pub(crate) counters: SimCounters,
    pub(crate) nodes: Vec<Node>,
    pub(crate) trace: Trace,
    now: u64,
    order: u64,
    heap: BinaryHeap<Reverse<Event>>,
    ops: Slab<Op>,
    groups: Slab<Group>,
    links: BTreeMap<(u32, u32), Link>,
    random: Random,
    /// Nodes that have something to poll, each once, until somebody asks.
    woken: Vec<u32>,
    /// Who has asked after whom among the dead.
    asked: BTreeSet<(u32, u32)>,
}

impl Net {
    pub(crate) fn new(options: NetworkOptions, id: u64) -> Self {
        let mut net = Self {
            id,
            counters: SimCounters::default(),
            nodes: Vec::new(),
            trace: Trace::new(options.log),
            now: 0,
            order: 0,
            heap: BinaryHeap::new(),
            ops: Slab::default(),
            groups: Slab::default(),
            links: BTreeMap::new(),
            asked: BTreeSet::new(),
            random: Random::new(options.seed),
            woken: Vec::new(),
            options,
        };
        for death in net.options.deaths.clone() {
            if let Moment::At(at) = death.when {
                net.event(at, What::Kill(death.node));
            }
        }
        for partition in 0..net.options.partitions.len() {
            let part = &net.options.partitions[partition];
            let gives_up = part.from_ns.saturating_add(net.options.unreachable_ns);
            if gives_up < part.until_ns {
                net.event(gives_up, What::GiveUp { partition });
            }
        }
        net
    }

    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    pub(crate) fn next_event(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(event)| event.at)
    }

    /// Moves the nodes that have something to poll to `out`.
    pub(crate) fn take_woken(&mut self, out: &mut Vec<u32>) {
        for &node in &self.woken {
            self.nodes[node as usize].woken = false;
        }
        out.append(&mut self.woken);
    }

    fn wake(&mut self, node: u32) {
        let place = &mut self.nodes[node as usize];
        if !std::mem::replace(&mut place.woken, true) {
            self.woken.push(node);
        }
        place.doorbell.ring();
    }

    fn note(&mut self, mark: Mark, from: u32, to: u32, detail: [u64; 2]) {
        self.trace.note(self.now, mark, from, to, detail);
    }

    fn event(&mut self, at: u64, what: What) {
        let order = self.order;
        self.order += 1;
        self.heap.push(Reverse(Event { at: at.max(self.now), order, what }));
    }

    fn link(&mut self, from: u32, to: u32) -> &mut Link {
        self.links.entry((from, to)).or_default()
    }

    const fn promises(&self) -> Promises {
        Promises {
            am_ordered: matches!(self.options.link, LinkMode::Reliable),
            puts_ordered: self.options.puts_ordered,
            put_before_atomic: self.options.put_before_atomic,
            put_before_am: self.options.put_before_am,
        }
    }

    /// Brings the next event. `false` when there is none.
    pub(crate) fn advance(&mut self) -> bool {
        let Some(Reverse(event)) = self.heap.pop() else {
            return false;
        };
        self.now = event.at;
        self.counters.events += 1;
        match event.what {
            What::Depart(key) => self.depart(key),
            What::Arrive(key) => self.arrive(key),
            What::Complete(key) => self.complete(key),
            What::Notice { to, about, how } => self.notice(to, about, how),
            What::Kill(node) => {
                if (node as usize) < self.nodes.len() {
                    self.kill(node);
                }
            }
            What::GiveUp { partition } => self.give_up(partition),
        }
        true
    }

    /// Brings the events until `at`, which is now then.
    pub(crate) fn pass_until(&mut self, at: u64) {
        while self.next_event().is_some_and(|next| next <= at) {
            self.advance();
        }
        self.now = self.now.max(at);
    }

    fn depart(&mut self, key: Key) {
        let Some(op) = self.ops.get_mut(key) else { return };
        if let Kind::Am { payload, .. } | Kind::Put { payload, .. } = &mut op.kind {
            payload.depart();
        }
        let (from, to, seq) = (op.from, op.to, op.seq);
        self.note(Mark::Depart, from, to, [seq, 0]);
    }

    fn arrive(&mut self, key: Key) {
        let Some(op) = self.ops.get(key) else {
            return self.note(Mark::Duplicate, u32::MAX, u32::MAX, [0, 0]);
        };
        let (from, to, seq, lost, copy) = (op.from, op.to, op.seq, op.lost, op.copy);
        if self.nodes[to as usize].state != State::Alive {
            // Its sender learns that from the notice.
            return self.note(Mark::Lose, from, to, [seq, 1]);
        }
        if let Some(until) = self.parted(from, to) {
            return self.put_off(key, until);
        }
        let full = copy && self.nodes[to as usize].reserved >= self.options.slots;
        if lost || full {
            return self.lose(key);
        }
        if copy {
            self.nodes[to as usize].reserved += 1;
        }
        self.note(Mark::Arrive, from, to, [seq, 0]);
        if let Some(pending) = self.link(from, to).pending.get_mut(&seq) {
            pending.arrived = true;
        }
        self.settle(from, to);
    }

    /// When the partition between two nodes ends, if there is one now.
    fn parted(&self, from: u32, to: u32) -> Option<u64> {
        let cuts = self.options.partitions.iter().filter(|part| part.cuts(from, to, self.now));
        cuts.map(|part| part.until_ns).max()
    }

    /// An arrival that a partition stops.
    fn put_off(&mut self, key: Key, until: u64) {
        self.counters.parted += 1;
        let Some(op) = self.ops.get(key) else { return };
        let (from, to, seq) = (op.from, op.to, op.seq);
        if self.options.link == LinkMode::Raw && matches!(op.kind, Kind::Am { .. }) {
            return self.lose(key);
        }
        self.note(Mark::Lose, from, to, [seq, 2]);
        if until == u64::MAX {
            // It stays pending until the two give each other up.
            return;
        }
        let again = self.random.below(self.options.faults.retransmit_ns + 1);
        self.event(until + again, What::Arrive(key));
    }

    /// A raw transmission never arrives.
    fn lose(&mut self, key: Key) {
        let Some(op) = self.ops.get(key) else { return };
        let (from, to, seq, copy) = (op.from, op.to, op.seq, op.copy);
        self.note(Mark::Lose, from, to, [seq, 0]);
        self.link(from, to).pending.remove(&seq);
        if !copy {
            self.release_slot(to);
        }
        self.applied(key);
        self.settle(from, to);
    }

    /// Applies whatever need not wait any more.
    fn settle(&mut self, from: u32, to: u32) {
        let promises = self.promises();
        let ready = self.link(from, to).take_ready(promises);
        for key in ready {
            self.apply(key);
        }
    }
}
