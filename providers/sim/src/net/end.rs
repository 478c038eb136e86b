//! Ends: what happens to operations when a node dies, closes or is given up.
//!
//! Rules: (1) an operation with a token is answered before the failure of its peer is reported.
//! (2) What a node sent before its end arrives before its end is reported: a close travels behind it,
//! and a death is reported no earlier than the last arrival. (3) What had not departed at a death
//! never does. (4) No operation of an ended node keeps a pointer to its buffers. (5) To itself an
//! ended node is the only one alive: every peer has failed, so that whatever its program
//! still waits for ends.

use bowline_base::slab::Key;
use bowline_uct::{PeerFailure, Token};

use super::link::Pending;
use super::node::Item;
use super::op::{Class, Kind};
use super::{Ended, Net, State, What};
use crate::trace::Mark;

impl Net {
    pub(crate) fn is_alive(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|node| node.state == State::Alive)
    }

    /// Ends a node as a crash would.
    pub(crate) fn kill(&mut self, node: u32) {
        if !self.is_alive(node) {
            return;
        }
        self.counters.deaths += 1;
        self.note(Mark::Kill, node, node, [0, 0]);
        self.stop(node, Ended::Died, PeerFailure::Died);
        let reported = self.options.reports_deaths;
        for observer in (0..self.nodes.len() as u32).filter(|&other| other != node) {
            if reported && self.is_alive(observer) {
                self.announce(observer, node);
            }
        }
    }

    /// Ends a node whose program panicked.
    pub(crate) fn crash(&mut self, node: u32) {
        if self.is_alive(node) {
            self.kill(node);
            self.nodes[node as usize].state = State::Ended(Ended::Panicked);
        }
    }

    /// `from` asks after `to` where no deaths are reported: if it has died, the answer will not come,
    /// which is noticed after the time-out.
    pub(crate) fn ask_after(&mut self, from: u32, to: u32) {
        let dead = |node: &super::node::Node| {
            matches!(node.state, State::Ended(Ended::Died | Ended::Panicked | Ended::CutOff))
        };
        if !self.options.reports_deaths
            && self.nodes.get(to as usize).is_some_and(dead)
            && self.asked.insert((from, to))
        {
            self.announce(from, to);
        }
    }

    /// Why `from` cannot connect to `to`, whatever has happened to `to`.
    pub(crate) fn unreachable(&self, from: u32, to: u32) -> Option<&'static str> {
        if self.nodes.get(to as usize).is_none() {
            return Some("the address names an interface that this network does not have");
        }
        (!self.is_alive(from)).then_some("this interface has ended")
    }

    /// How `to`, which is of this network, has ended as far as `from` knows. A death is not known
    /// before it is reported.
    pub(crate) fn known_end(&self, from: u32, to: u32) -> Option<PeerFailure> {
        let failed = self.links.get(&(from, to)).and_then(|link| link.failed);
        let closed = self.nodes[to as usize].state == State::Ended(Ended::Closed);
        failed.or_else(|| closed.then_some(PeerFailure::Closed))
    }

    /// Whether the news has come to `from` that `to` has failed, read or not.
    pub(crate) fn has_failed(&self, from: u32, to: u32) -> bool {
        self.links.get(&(from, to)).is_some_and(|link| link.failed.is_some())
    }

    /// Schedules the news of a death.
    fn announce(&mut self, observer: u32, node: u32) {
        let last = self.last_arrival(node, observer);
        let jitter = self.random.below(self.options.detect_jitter_ns + 1);
        let at = (self.now + self.options.detect_ns + jitter).max(last + 1);
        self.event(at, What::Notice { to: observer, about: node, how: PeerFailure::Died });
    }

    /// When the last message that is in the air between two nodes is due.
    fn last_arrival(&self, from: u32, to: u32) -> u64 {
        let Some(link) = self.links.get(&(from, to)) else { return self.now };
        if link.pending.is_empty() {
            return self.now;
        }
        let due = self.heap.iter().filter_map(|std::cmp::Reverse(event)| match event.what {
            What::Arrive(key) => {
                let op = self.ops.get(key)?;
                (op.from == from && op.to == to).then_some(event.at)
            }
            _ => None,
        });
        due.max().unwrap_or(self.now)
    }

    /// Fails everything that a node waits for, without a word to the others.
    pub(crate) fn cut_off(&mut self, node: u32) {
        if self.is_alive(node) {
            self.note(Mark::Kill, node, node, [1, 0]);
            self.stop(node, Ended::CutOff, PeerFailure::Unreachable);
        }
    }

    /// Ends a node that was dropped in order; its peers hear of it behind what it sent.
    pub(crate) fn close(&mut self, node: u32) {
        self.nodes[node as usize].memory.clear();
        if !self.is_alive(node) {
            return;
        }
        self.note(Mark::Close, node, node, [0, 0]);
        for to in self.links_from(node) {
            self.cancel(node, to, PeerFailure::Closed, Cancel::Borrowing);
        }
        let peers: Vec<u32> = (0..self.nodes.len() as u32)
            .filter(|&other| other != node && self.is_alive(other))
            .filter(|&other| self.nodes[other as usize].known.contains(&node))
            .collect();
        for to in peers {
            self.post(node, to, Token::NONE, Kind::Close, 0, None);
        }
        self.nodes[node as usize].state = State::Ended(Ended::Closed);
        self.clear_inbox(node);
    }

    /// Ends a node: rules 3 to 5.
    fn stop(&mut self, node: u32, ended: Ended, how: PeerFailure) {
        for to in self.links_from(node) {
            self.cancel(node, to, how, Cancel::NotDeparted);
        }
        self.clear_inbox(node);
        let others = self.nodes.len() as u32;
        let place = &mut self.nodes[node as usize];
        place.state = State::Ended(ended);
        place.memory.clear();
        // Its own messages to itself come no more either.
        place.learn(0..others);
        for peer in place.known.clone() {
            place.inbox.push_back(Item::Failed { peer, how });
        }
        self.wake(node);
    }

    /// Messages that an ended node did not take, it never takes.
    fn clear_inbox(&mut self, node: u32) {
        self.nodes[node as usize].inbox.clear();
    }

    fn links_from(&self, node: u32) -> Vec<u32> {
        self.links.range((node, 0)..=(node, u32::MAX)).map(|(&(_, to), _)| to).collect()
    }

    /// `to` learns of the end of `about`.
    pub(super) fn notice(&mut self, to: u32, about: u32, how: PeerFailure) {
        if !self.is_alive(to) {
            return;
        }
        if !self.nodes[to as usize].reported.insert(about) {
            return;
        }
        self.note(Mark::Fail, to, about, [code(how), 0]);
        self.link(to, about).failed = Some(how);
        self.cancel(to, about, how, Cancel::All);
        self.link(about, to).failed = Some(how);
        self.cancel(about, to, how, Cancel::All);
        let node = &mut self.nodes[to as usize];
        if how != PeerFailure::Closed {
            node.learn([about]);
        }
        if node.known.contains(&about) {
            node.inbox.push_back(Item::Failed { peer: about, how });
        }
        self.wake(to);
    }

    /// The sides of a partition give each other up.
    pub(super) fn give_up(&mut self, partition: usize) {
        let part = self.options.partitions[partition].clone();
        let count = self.nodes.len() as u32;
        for a in 0..count {
            for b in (0..count).filter(|&b| a != b && part.parts(a, b)) {
                self.notice(a, b, PeerFailure::Unreachable);
            }
        }
    }

    /// Ends operations of a link; see [`Cancel`]. Those that go on borrow nothing any more and
    /// owe nobody an answer.
    pub(crate) fn cancel(&mut self, from: u32, to: u32, how: PeerFailure, which: Cancel) {
        let now = self.now;
        let Some(link) = self.links.get_mut(&(from, to)) else { return };
        let ops = &mut self.ops;
        let mut gone: Vec<Pending> = Vec::new();
        let mut answers: Vec<Token> = Vec::new();
        link.pending.retain(|_, pending| {
            let Some(op) = ops.get_mut(pending.op) else { return false };
            let ends = match which {
                Cancel::All => true,
                Cancel::Borrowing => false,
                Cancel::NotDeparted => op.departs > now,
            };
            if ends || matches!(op.kind, Kind::Get { .. } | Kind::Flush { .. }) {
                gone.push(*pending);
                return false;
            }
            if let Kind::Am { payload, .. } | Kind::Put { payload, .. } = &mut op.kind {
                payload.depart();
            }
            answers.push(std::mem::replace(&mut op.token, Token::NONE));
            true
        });
        for key in std::mem::take(&mut link.done) {
            self.answer_now(key, how);
        }
        for token in answers {
            self.report(from, token, Err(how));
        }
        for pending in gone {
            self.drop_pending(from, to, pending, how);
        }
        if which != Cancel::All {
            self.settle(from, to);
        }
    }

    /// An operation that never happens; its initiator is answered.
    fn drop_pending(&mut self, from: u32, to: u32, pending: Pending, how: PeerFailure) {
        let Some(op) = self.ops.remove(pending.op) else { return };
        if pending.class == Class::Am && (!op.copy || pending.arrived) {
            self.release_slot(to);
        }
        if op.kind.one_sided() {
            self.unload(from);
        }
        match op.kind {
            Kind::Flush { group } => self.flush_failed(group, how),
            _ => self.report(from, op.token, Err(how)),
        }
    }

    /// Reports the outcome of an operation that has happened, before its time.
    fn answer_now(&mut self, key: Key, how: PeerFailure) {
        let Some(op) = self.ops.remove(key) else { return };
        match op.kind {
            Kind::Flush { group } => self.end_group(group),
            // The bytes were on their way back.
            Kind::Get { .. } => self.report(op.from, op.token, Err(how)),
            _ => self.report(op.from, op.token, op.result),
        }
    }
}

/// Which operations of a link end, beside gets and flushes, which always do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// All: one of the two is given up.
    All,
    /// No others: the sender closes or gives the endpoint up.
    Borrowing,
    /// What has not left the sender, which died.
    NotDeparted,
}

/// A failure as the trace has it.
const fn code(how: PeerFailure) -> u64 {
    match how {
        PeerFailure::Died => 1,
        PeerFailure::Closed => 2,
        PeerFailure::Unreachable => 3,
        PeerFailure::Damaged => 4,
        PeerFailure::Refused => 5,
        _ => 6,
    }
}
