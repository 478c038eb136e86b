//! Peers and the connections to them, as in rc: a peer's place in the table is the number of the
//! endpoint to it and the source of its messages; the connection belongs to the peer.
//!
//! ```text
//!   endpoint:    Closed ──connect──► Open ──the connection breaks──► Failed ──disconnect──► Closed
//!   connection:  none ──first use, or the peer's──► asked ──► up ──breaks──► none
//! ```

use std::collections::VecDeque;
use std::time::Instant;

use bowline_uct::runtime::CompletionOf;
use bowline_uct::{EpId, OpenError, PeerFailure, PostError, Source, Unreachable};

use super::progress::BATCH;
use super::window::{Incoming, Outgoing};
use super::{Agreed, UdIface};
use crate::addr::Address;
use crate::control::wire::End;
use crate::control::{Command, Event};
use crate::rc::MAX_ENDPOINTS;
use crate::sys::Ah;

/// A datagram under way: its send buffer, and its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) buffer: u32,
    pub(super) len: u32,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) ours: End,
    pub(super) theirs: End,
    pub(super) way: Ah,
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
pub(super) enum Waiting {
    Message(Sent),
    Flush(CompletionOf),
}

/// A peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: Address,
    pub(super) open: bool,
    pub(super) failed: Option<PeerFailure>,
    pub(super) asked: bool,
    pub(super) link: Option<Link>,
    pub(super) waiting: VecDeque<Waiting>,
}

impl Peer {
    /// Whether messages are under way or may yet be.
    pub(super) fn is_busy(&self) -> bool {
        match &self.link {
            Some(link) => !link.outgoing.is_empty() || link.incoming.owes(),
            None => self.failed.is_none() && !self.waiting.is_empty(),
        }
    }
}

impl UdIface {
    /// The peer of an endpoint that may take operations.
    #[inline]
    pub(super) fn open_peer(&self, ep: EpId) -> Result<u32, PostError> {
        match self.peers.get(ep.0 as usize) {
            Some(peer) if peer.open => match peer.failed {
                None => Ok(ep.0),
                Some(_) => Err(PostError::PeerFailed),
            },
            _ => Err(PostError::BadEndpoint),
        }
    }

    pub(super) fn read_address(&self, bytes: &[u8]) -> Result<Address, OpenError> {
        let address =
            Address::decode(bytes).map_err(|error| OpenError::BadAddress(error.to_string()))?;
        self.own.reaches(&address)?;
        Ok(address)
    }

    fn peer_with(&mut self, address: &Address) -> Result<u32, OpenError> {
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
        });
        self.by_uid.insert(address.uid, number as u32);
        // Room for everything that may be said of the peer is made here.
        self.failed.reserve(number + 1 - self.failed.len());
        self.waiters.reserve(number + 1);
        self.owing.reserve(number + 1 - self.owing.len());
        Ok(number as u32)
    }

    pub(super) fn open_endpoint(&mut self, bytes: &[u8]) -> Result<EpId, OpenError> {
        let address = self.read_address(bytes)?;
        let number = self.peer_with(&address)?;
        let peer = &mut self.peers[number as usize];
        if peer.address != address {
            let reason = "another address of the same name is known".to_owned();
            return Err(OpenError::BadAddress(reason));
        }
        if !peer.open {
            // A failure belongs to the endpoint that it was told to.
            peer.failed = None;
            peer.open = true;
            self.control.command(Command::Watch(address));
        }
        self.begin_anew();
        if self.at_once && self.peers[number as usize].failed.is_none() {
            self.ask(number);
            let end = Instant::now() + self.timeout * 2;
            while self.peers[number as usize].link.is_none() {
                let event = self.control.wait(end);
                let waited = event.is_some();
                if let Some(event) = event {
                    self.handle(event);
                }
                if !waited || self.peers[number as usize].failed.is_some() {
                    self.close_endpoint(EpId(number));
                    self.failed.retain(|failed| *failed != number);
                    return Err(Unreachable::because("the peer does not answer").into());
                }
            }
        }
        Ok(EpId(number))
    }

    pub(super) fn close_endpoint(&mut self, ep: EpId) {
        let Some(peer) = self.peers.get_mut(ep.0 as usize).filter(|peer| peer.open) else {
            return;
        };
        peer.open = false;
        self.waiters.cancel(ep);
        // One to which messages are under way is still watched, so that they end.
        let (uid, idle) = (peer.address.uid, peer.link.is_none() && !peer.asked);
        if idle {
            self.control.command(Command::Forget(uid));
        }
    }

    /// Asks for a connection, once.
    pub(super) fn ask(&mut self, number: u32) {
        let peer = &mut self.peers[number as usize];
        if peer.link.is_none() && !peer.asked {
            peer.asked = true;
            let address = peer.address;
            self.control.command(Command::Ask(address));
        }
    }

    #[cold]
    pub(super) fn take_events(&mut self) {
        while let Some(event) = self.control.event() {
            self.handle(event);
        }
    }

    pub(super) fn handle(&mut self, event: Event<Agreed>) {
        match event {
            // A datagram of an end that is not known yet is dropped and comes again.
            Event::Made { .. } => {}
            Event::Up { peer, pair } => self.connected(&peer, pair),
            Event::Failed { uid, how } => {
                if let Some(&number) = self.by_uid.get(&uid)
                    && self.peers[number as usize].link.is_none()
                {
                    self.break_link(number, how);
                }
            }
            Event::Ended { uid, number: ours, how } => {
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
        let anew = self.anew.iter().rev().find(|(peer, _)| *peer == number);
        let link = self.peers[number as usize].link.as_ref();
        anew.map(|(_, pair)| pair.ours.pair).or(link.map(|link| link.ours.pair))
    }

    /// Has a connection broken when what has arrived on it was shown. All of that is set aside
    /// now: others may go on sending without end.
    fn end_after_arrivals(&mut self, number: u32, ours: u32, how: PeerFailure) {
        self.ended.push((number, ours, how));
        while self.absorb() == BATCH {}
    }

    /// Breaks the connections that have ended and of which nothing waits to be shown any more, and
    /// begins those that come after them.
    pub(super) fn break_ended(&mut self) {
        for (number, ours, how) in std::mem::take(&mut self.ended) {
            let link = self.peers[number as usize].link.as_ref();
            let is_up = link.is_some_and(|link| link.ours.pair == ours);
            if is_up && !self.is_aside(ours) {
                self.break_link(number, how);
            } else if is_up || self.anew.iter().any(|(_, pair)| pair.ours.pair == ours) {
                self.ended.push((number, ours, how));
            }
        }
        self.begin_anew();
    }

    /// Begins the connections whose predecessors are gone.
    pub(super) fn begin_anew(&mut self) {
        for (number, pair) in std::mem::take(&mut self.anew) {
            let free = self.peers[number as usize].link.is_none();
            if free && !self.anew.iter().any(|(peer, _)| *peer == number) {
                self.begin(number, pair);
            } else {
                self.anew.push((number, pair));
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
        self.anew.push((number, pair));
        if !self.ended.iter().any(|(_, ours, _)| *ours == old) {
            self.end_after_arrivals(number, old, PeerFailure::Unreachable);
        }
    }

    fn begin(&mut self, number: u32, pair: Agreed) {
        let Agreed { ours, theirs: Some((theirs, way)) } = pair else { return };
        let peer = &mut self.peers[number as usize];
        peer.asked = false;
        if !peer.open {
            // Of an endpoint that nobody has any more.
            peer.failed = None;
        }
        self.by_number.insert(ours.pair, number);
        peer.link = Some(Link {
            ours,
            theirs,
            way,
            outgoing: Outgoing::new(self.window),
            incoming: Incoming::default(),
            owing: false,
            counted: 0,
            flushes: VecDeque::new(),
        });
        self.counters.connections += 1;
        self.post_waiting(number);
    }

    /// Ends a connection, answers what was under way, and has the failure told.
    pub(super) fn break_link(&mut self, number: u32, how: PeerFailure) {
        let peer = &mut self.peers[number as usize];
        peer.asked = false;
        if peer.link.is_none() && peer.waiting.is_empty() && (peer.failed.is_some() || !peer.open) {
            return;
        }
        if let Some(mut link) = peer.link.take() {
            let uid = peer.address.uid;
            self.counters.failures += u64::from(how != PeerFailure::Closed);
            self.by_number.remove(&link.ours.pair);
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
        let peer = &mut self.peers[number as usize];
        if peer.failed.is_none() {
            peer.failed = Some(how);
            self.waiters.cancel(EpId(number));
            self.failed.push_back(number);
        }
    }

    pub(super) fn failure_of(&self, number: u32) -> (Option<Source>, Option<EpId>, PeerFailure) {
        let peer = &self.peers[number as usize];
        let how = peer.failed.unwrap_or(PeerFailure::Unreachable);
        (Some(Source(number)), peer.open.then_some(EpId(number)), how)
    }
}
