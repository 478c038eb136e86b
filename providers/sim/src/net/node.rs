//! A node: what the network holds for one interface.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bowline_base::doorbell::Doorbell;
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmHeader, AmId, PeerFailure, Token};

use super::{Ended, Net};
use crate::payload::Bytes;
use crate::trace::Mark;

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Alive,
    Ended(Ended),
}

/// Something for an interface to report.
#[derive(Debug)]
pub(crate) enum Item {
    Completed { token: Token, result: Result<u64, PeerFailure> },
    Am { from: u32, id: AmId, header: AmHeader, payload: Bytes },
    Failed { peer: u32, how: PeerFailure },
}

/// A completion of an operation.
pub(crate) type Completion = (Token, Result<u64, PeerFailure>);

/// Memory that operations may reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    start: *mut u8,
    len: usize,
    /// Whether peers may write there.
    pub(crate) writable: bool,
}

// SAFETY: the pointer is used only through views, whose operations work from any thread, and only
// while the entry is in its node's table.
unsafe impl Send for Range {}

impl Range {
    /// Of so many bytes at an address. The caller takes the range out of the table of the network before the memory goes.
    pub(crate) const fn of((start, len): (u64, u64), writable: bool) -> Self {
        Self { start: start as *mut u8, len: len as usize, writable }
    }

    pub(crate) fn start(&self) -> u64 {
        self.start as u64
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The bytes `address .. address + len`, if all are inside.
    pub(crate) fn reach(&self, address: u64, len: usize) -> Option<View<'_>> {
        let offset = usize::try_from(address.checked_sub(self.start())?).ok()?;
        // SAFETY: the memory is held by the interface, which takes this range out of the table,
        // under the network's lock, before it lets the memory go. It is only reached by views, and written only
        // where `writable` says so.
        unsafe { View::from_raw(self.start, self.len) }.slice(offset, len)
    }
}

/// What the network holds for one interface.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) state: State,
    pub(crate) doorbell: Doorbell,
    /// Completions, which go first.
    pub(crate) completions: VecDeque<Item>,
    /// Messages and failures of peers, in order.
    pub(crate) inbox: VecDeque<Item>,
    /// Receive buffers promised or filled.
    pub(crate) reserved: u32,
    /// One-sided operations under way.
    pub(crate) outstanding: u32,
    /// Nodes that wait for one of its receive buffers.
    pub(crate) space_waiters: BTreeSet<u32>,
    /// When its last departure is over.
    pub(crate) nic_free: u64,
    /// Posts so far, refused ones included.
    pub(crate) posts: u64,
    /// Memory by handle.
    pub(crate) memory: BTreeMap<Key, Range>,
    /// Nodes that it has an endpoint to, or has heard of.
    pub(crate) known: BTreeSet<u32>,
    /// Nodes whose end was reported to it.
    pub(crate) reported: BTreeSet<u32>,
    /// Nodes that it knows to have failed, and how often that changed.
    pub(crate) failures: BTreeSet<u32>,
    pub(crate) failure_generation: u32,
    /// Stands in the network's list of the woken.
    pub(crate) woken: bool,
}

impl Node {
    fn new(doorbell: Doorbell) -> Self {
        Self {
            state: State::Alive,
            doorbell,
            completions: VecDeque::new(),
            inbox: VecDeque::new(),
            reserved: 0,
            outstanding: 0,
            space_waiters: BTreeSet::new(),
            nic_free: 0,
            posts: 0,
            memory: BTreeMap::new(),
            known: BTreeSet::new(),
            reported: BTreeSet::new(),
            failures: BTreeSet::new(),
            failure_generation: 0,
            woken: false,
        }
    }

    /// Notes the failure of others.
    pub(crate) fn learn(&mut self, others: impl IntoIterator<Item = u32>) {
        let before = self.failures.len();
        self.failures.extend(others);
        if self.failures.len() != before {
            self.failure_generation = self.failure_generation.wrapping_add(1);
        }
    }
}

impl Net {
    /// A new node; gives its number.
    pub(crate) fn open(&mut self, doorbell: Doorbell) -> u32 {
        let node = u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes");
        self.nodes.push(Node::new(doorbell));
        self.note(Mark::Open, node, node, [0, 0]);
        node
    }

    /// The next thing for a node to report.
    pub(crate) fn take_item(&mut self, node: u32) -> Option<Item> {
        let place = &mut self.nodes[node as usize];
        if let Some(item) = place.completions.pop_front() {
            return Some(item);
        }
        let item = place.inbox.pop_front()?;
        if let Item::Am { from, payload, .. } = &item {
            let (from, len) = (*from, payload.len() as u64);
            self.counters.delivered += 1;
            self.note(Mark::Deliver, from, node, [len, 0]);
            self.release_slot(node);
        }
        Some(item)
    }

    /// The next completion for a node to report.
    pub(crate) fn take_completion(&mut self, node: u32) -> Option<Completion> {
        match self.nodes[node as usize].completions.pop_front()? {
            Item::Completed { token, result } => Some((token, result)),
            other => unreachable!("only completions stand there, not {other:?}"),
        }
    }

    /// Whether [`take_item`](Self::take_item) would find something.
    pub(crate) fn has_item(&self, node: u32) -> bool {
        let place = &self.nodes[node as usize];
        !place.completions.is_empty() || !place.inbox.is_empty()
    }

    /// A receive buffer of `node` is free again; those who wait for one poll.
    pub(crate) fn release_slot(&mut self, node: u32) {
        let place = &mut self.nodes[node as usize];
        place.reserved = place.reserved.saturating_sub(1);
        for waiter in std::mem::take(&mut place.space_waiters) {
            self.wake(waiter);
        }
    }

    /// Has `from` woken when `to` has a receive buffer.
    pub(crate) fn want_space(&mut self, from: u32, to: u32) {
        self.note(Mark::Ask, from, to, [0, 0]);
        self.nodes[to as usize].space_waiters.insert(from);
        if self.has_space(from, to, true) {
            self.wake(from);
        }
    }

    /// Hands a completion to `node`, unless nobody wants it.
    pub(crate) fn report(&mut self, node: u32, token: Token, result: Result<u64, PeerFailure>) {
        if token == Token::NONE {
            return;
        }
        self.note(Mark::Complete, node, node, [u64::from(result.is_ok()), 0]);
        self.nodes[node as usize].completions.push_back(Item::Completed { token, result });
        self.wake(node);
    }
}
