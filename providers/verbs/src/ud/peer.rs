//! Connections of datagrams, and what waits for them.

use std::collections::VecDeque;

use bowline_uct::PeerFailure;
use bowline_uct::runtime::CompletionOf;

use super::window::{Incoming, Outgoing};
use super::{Agreed, BATCH, UdIface};
use crate::addr::Address;
use crate::control::wire::PairEnd;
use crate::control::{Command, TableEvent};
use crate::sys::Ah;

/// A datagram under way: its send buffer, and its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(super) buffer: u32,
    pub(super) len: u32,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(super) ours: PairEnd,
    pub(super) theirs: PairEnd,
    pub(super) handle: Ah,
    pub(super) outgoing: Outgoing<Sent>,
    pub(super) incoming: Incoming,
    /// Stands among those to which an acknowledgement may be owed.
    pub(super) owing: bool,
    /// Period in which it last counted among those that send.
    pub(super) counted: u32,
    /// Flushes, by the datagram that must be acknowledged for them.
    pub(super) flushes: VecDeque<(u32, CompletionOf)>,
}

/// What waits for the connection.
#[derive(Debug)]
pub(crate) enum Waiting {
    Message(Sent),
    Flush(CompletionOf),
}

impl UdIface {
    /// Whether no message is under way or may yet be.
    pub(super) fn all_sent(&self) -> bool {
        self.peers.iter().all(|peer| match &peer.link {
            Some(link) => link.outgoing.is_empty() && !link.incoming.owes(),
            None => !peer.has_waiting(),
        })
    }

    pub(super) fn handle(&mut self, event: TableEvent<Agreed>) {
        match event {
            // A datagram of an end that is not known yet is dropped and comes again.
            TableEvent::Made { .. } => {}
            TableEvent::Up { peer, pair } => self.connected(&peer, pair),
            TableEvent::Failed { uid, how } => {
                if let Some(&number) = self.by_uid.get(&uid)
                    && self.peers[number as usize].link.is_none()
                {
                    self.break_link(number, how);
                }
            }
            TableEvent::Ended { uid, number: ours, how } => {
                if let Some(&number) = self.by_uid.get(&uid)
                    && self.newest(number) == Some(ours)
                {
                    self.end_after_arrivals(number, ours, how);
                }
            }
        }
    }

    /// The end of ours in the connection with a peer, or in the last one that will begin.
    fn newest(&self, number: u32) -> Option<u32> {
        let anew = self.state.anew.iter().rev().find(|(peer, _)| *peer == number);
        let link = self.peers[number as usize].link.as_ref();
        anew.map(|(_, pair)| pair.ours.pair).or(link.map(|link| link.ours.pair))
    }

    /// Has a connection broken when what has arrived on it was shown. All of that is set aside
    /// now: others may go on sending without end.
    fn end_after_arrivals(&mut self, number: u32, ours: u32, how: PeerFailure) {
        self.state.ended.push((number, ours, how));
        while self.absorb() == BATCH {}
    }

    /// Breaks the connections that have ended and of which nothing waits to be shown any more, and
    /// begins those that come after them.
    pub(super) fn break_ended(&mut self) {
        for (number, ours, how) in std::mem::take(&mut self.state.ended) {
            let link = self.peers[number as usize].link.as_ref();
            let is_up = link.is_some_and(|link| link.ours.pair == ours);
            if is_up && !self.is_aside(ours) {
                self.break_link(number, how);
            } else if is_up || self.state.anew.iter().any(|(_, pair)| pair.ours.pair == ours) {
                self.state.ended.push((number, ours, how));
            }
        }
        self.begin_anew();
    }

    /// Begins the connections whose predecessors are gone.
    pub(super) fn begin_anew(&mut self) {
        for (number, pair) in std::mem::take(&mut self.state.anew) {
            let free = self.peers[number as usize].link.is_none();
            if free && !self.state.anew.iter().any(|(peer, _)| *peer == number) {
                self.begin(number, pair);
            } else {
                self.state.anew.push((number, pair));
            }
        }
    }

    fn connected(&mut self, address: &Address, pair: Agreed) {
        let Ok(number) = self.peer_with(address) else {
            let (uid, number) = (address.uid, pair.ours.pair);
            return self.control.command(Command::End { uid, number, in_order: false });
        };
        let Some(old) = self.newest(number) else { return self.begin(number, pair) };
        // The peer lost the old connection and came anew. What it had sent by then, and the news
        // that it failed, come first; datagrams of the new one are dropped and come again.
        self.state.anew.push((number, pair));
        if !self.state.ended.iter().any(|(_, ours, _)| *ours == old) {
            self.end_after_arrivals(number, old, PeerFailure::Unreachable);
        }
    }

    fn begin(&mut self, number: u32, pair: Agreed) {
        let Agreed { ours, theirs: Some((theirs, handle)) } = pair else { return };
        let peer = &mut self.peers[number as usize];
        peer.asked = false;
        if !peer.open {
            // Of an endpoint that nobody has any more.
            peer.failed = None;
        }
        self.state.by_number.insert(ours.pair, number);
        peer.link = Some(Link {
            ours,
            theirs,
            handle,
            outgoing: Outgoing::new(self.state.window),
            incoming: Incoming::default(),
            owing: false,
            counted: 0,
            flushes: VecDeque::new(),
        });
        self.counters.connections += 1;
        self.post_waiting(number);
    }

    /// Ends a connection, answers what was under way, and has the failure reported.
    pub(super) fn break_link(&mut self, number: u32, how: PeerFailure) {
        let peer = &mut self.peers[number as usize];
        peer.asked = false;
        if peer.link.is_none() && peer.waiting.is_empty() && (peer.failed.is_some() || !peer.open) {
            return;
        }
        if let Some(mut link) = peer.link.take() {
            let uid = peer.address.uid;
            self.counters.failures += u64::from(how != PeerFailure::Closed);
            self.state.by_number.remove(&link.ours.pair);
            let in_order = how == PeerFailure::Closed;
            self.control.command(Command::End { uid, number: link.ours.pair, in_order });
            let sent: Vec<Sent> = link.outgoing.drain().collect();
            for sent in sent {
                self.free(sent.buffer);
            }
            for (_, waiter) in link.flushes.drain(..) {
                self.events.answer(waiter, Err(how));
            }
        }
        while let Some(waiting) = self.peers[number as usize].waiting.pop_front() {
            match waiting {
                Waiting::Message(sent) => self.free(sent.buffer),
                Waiting::Flush(waiter) => self.events.answer(waiter, Err(how)),
            }
        }
        self.note_failure(number, None, how);
    }
}
