//! Reliable connections and what waits for them.
//!
//! A broken connection is gone at once: its queue pair is stopped and destroyed, so that the device
//! touches nothing any more, then every operation under way is answered with the failure, then the
//! failure is reported. That to the interface itself is made otherwise (`loopback`) and fails alike.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use bowline_uct::runtime::CompletionOf;
use bowline_uct::{PeerFailure, PostError, Token};

use super::{Peer, RcCounters, RcIface, Reliable, WAITING};
use crate::addr::Address;
use crate::control::{Command, TableEvent};
use crate::domain::Pieces;
use crate::service::Service;
use crate::sys::{Bytes, Qp, Request, Work};
use crate::wire;
use bowline_base::slab::Key;

/// What is given back when a request is complete.
#[derive(Debug)]
pub(super) enum Holds {
    Nothing,
    /// A send buffer.
    Buffer(u32),
    /// Registrations, and a send buffer for the header.
    Lent(Vec<Key>, Option<u32>),
    /// A word for the result of an atomic.
    Result(u32),
    /// An atomic that is made of several requests.
    Emulated(Key),
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) token: Token,
    pub(super) holds: Holds,
    /// Whether it is a read or an atomic, for which a fence waits.
    pub(super) reads: bool,
}

impl Op {
    pub(super) const NOTHING: Self =
        Self { token: Token::NONE, holds: Holds::Nothing, reads: false };
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(super) pair: Qp,
    /// The other end, if that is this interface's own: what is sent arrives there.
    pub(super) far: Option<Qp>,
    /// Distinguishes this connection's completions from those of an earlier one, 15 bits.
    pub(super) generation: u32,
    /// Number of the next request.
    pub(super) next: u32,
    /// Requests under way, in order; the last one is `next - 1`.
    pub(super) ops: VecDeque<Op>,
    /// Requests since the last one whose completion was asked for.
    pub(super) unsignalled: u32,
    /// The oldest request that was under way, or the next one, when the clock was read last: as
    /// long as it moves, the peer answers.
    pub(super) oldest_seen: u32,
    /// Reads and atomics under way.
    pub(super) reads: u32,
    /// Flushes, by the request after whose completion they are answered.
    pub(super) flushes: VecDeque<(u32, CompletionOf)>,
}

/// What waits for the connection.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A message in a send buffer.
    Message { buffer: u32, len: usize },
    /// A put or a get of lent memory.
    Transfer { get: bool, address: u64, key: u32, pieces: Pieces, token: Token },
    /// A flush of what stands before it.
    Flush(CompletionOf),
}

/// What is kept of a peer besides.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// The pair that the connection will have.
    pub(super) expected: Option<u32>,
    pub(super) generation: u32,
    /// The next request waits for earlier reads and atomics.
    pub(super) fence: bool,
}

impl Link {
    /// The number of our pair on which messages of this connection arrive.
    pub(super) fn arrives_on(&self) -> u32 {
        self.far.as_ref().unwrap_or(&self.pair).number()
    }

    /// Number of the oldest request under way; of the next one, if none is.
    pub(super) fn oldest(&self) -> u32 {
        self.next.wrapping_sub(self.ops.len() as u32)
    }
}

pub(super) fn pair_number(peer: &Peer) -> Option<u32> {
    peer.link.as_ref().map(|link| link.pair.number())
}

pub(super) fn under_way(peer: &Peer) -> usize {
    peer.link.as_ref().map_or(0, |link| link.ops.len())
}

/// What a completion brings back: the peer, the connection's generation, the request's number.
pub(super) const fn request_id(peer: u32, generation: u32, number: u32) -> u64 {
    (generation as u64 & 0x7fff) << 48 | (peer as u64) << 32 | number as u64
}

impl Service for Reliable {
    type Pair = Qp;
    type Link = Link;
    type Waiting = Waiting;
    type Beside = Beside;
    type Counters = RcCounters;

    fn handle(iface: &mut RcIface, event: TableEvent<Qp>) {
        iface.handle(event);
    }

    fn met(&mut self, number: u32) {
        self.broken.reserve((number as usize + 1).saturating_sub(self.broken.len()));
    }

    fn opened(_: &mut RcIface) {}

    fn may_post(iface: &RcIface, number: u32) -> bool {
        let peer = &iface.peers[number as usize];
        let space = match peer.link {
            Some(_) => iface.has_space(number, 1),
            None => peer.waiting.len() < WAITING,
        };
        space && iface.send.has_free()
    }

    fn watch(&mut self, _: &OwnedFd) -> io::Result<()> {
        Ok(())
    }

    fn close(iface: &mut RcIface) {
        iface.close_connections();
    }
}

impl RcIface {
    fn handle(&mut self, event: TableEvent<Qp>) {
        match event {
            TableEvent::Made { peer, number } => {
                if let Ok(peer) = self.peer_with(&peer) {
                    self.state.by_pair.insert(number, peer);
                    self.state.last_pair = None;
                    self.meet(number, peer);
                    let before = self.peers[peer as usize].beside.expected.replace(number);
                    self.forget_pair(peer, before);
                }
            }
            TableEvent::Up { peer, pair } => self.connected(&peer, pair),
            TableEvent::Failed { uid, how } => {
                if let Some(&number) = self.by_uid.get(&uid)
                    && self.peers[number as usize].link.is_none()
                {
                    let before = self.peers[number as usize].beside.expected.take();
                    self.forget_pair(number, before);
                    self.break_link(number, how);
                }
            }
            TableEvent::Ended { uid, number, how } => {
                if let Some(&peer) = self.by_uid.get(&uid)
                    && pair_number(&self.peers[peer as usize]) == Some(number)
                {
                    self.drain_then_break(peer, how);
                }
            }
        }
    }

    /// The number of a pair that never came up, or is gone, names nobody.
    pub(super) fn forget_pair(&mut self, peer: u32, number: Option<u32>) {
        let peer = &self.peers[peer as usize];
        if let Some(number) = number
            && pair_number(peer) != Some(number)
            && peer.beside.expected != Some(number)
        {
            self.state.by_pair.remove(&number);
            self.state.last_pair = None;
        }
    }

    fn connected(&mut self, address: &Address, pair: Qp) {
        let Ok(number) = self.peer_with(address) else {
            // No place: the pair goes, and the peer's messages find nobody.
            let (uid, number) = (address.uid, pair.number());
            return self.control.command(Command::End { uid, number, in_order: false });
        };
        if self.peers[number as usize].link.is_some() {
            // The peer lost the old connection and came anew.
            self.drain_then_break(number, PeerFailure::Unreachable);
        }
        self.link_up(number, pair, None);
        self.post_waiting(number);
    }

    /// Notes a connection. `far`: its other end, if that is this interface's own.
    pub(super) fn link_up(&mut self, number: u32, pair: Qp, far: Option<Qp>) {
        let peer = &mut self.peers[number as usize];
        peer.asked = false;
        if !peer.open {
            // Of an endpoint that nobody has any more.
            peer.failed = None;
        }
        peer.beside.generation = peer.beside.generation.wrapping_add(1);
        peer.beside.expected = None;
        let link = Link {
            pair,
            far,
            // From 1, since receive buffers have a 0 there.
            generation: peer.beside.generation % 0x7fff + 1,
            next: 0,
            ops: VecDeque::with_capacity(self.state.depth + super::RESERVE),
            unsignalled: 0,
            oldest_seen: 0,
            reads: 0,
            flushes: VecDeque::new(),
        };
        self.state.by_pair.insert(link.arrives_on(), number);
        self.state.last_pair = None;
        peer.link = Some(link);
        self.counters.connections += 1;
    }

    /// Posts what waited for the connection, in order.
    fn post_waiting(&mut self, number: u32) {
        while let Some(waiting) = self.peers[number as usize].waiting.pop_front() {
            match waiting {
                Waiting::Message { buffer, len } => {
                    let piece = [self.send.piece(buffer, len)];
                    let op = Op { holds: Holds::Buffer(buffer), ..Op::NOTHING };
                    if self.push(number, Work::Send, Bytes::Registered(&piece), op, false).is_err()
                    {
                        // The connection broke under it, which is about to be reported.
                        self.send.give(buffer);
                        return self.break_marked_links();
                    }
                }
                Waiting::Transfer { get, address, key, pieces, token } => {
                    let work = if get {
                        Work::Read { address, key }
                    } else {
                        Work::Write { address, key }
                    };
                    let op = Op { token, holds: Holds::Lent(pieces.lent, None), reads: get };
                    if self.push_lent(number, work, &pieces.sges, op).is_err() {
                        self.events.complete(token, Err(PeerFailure::Unreachable));
                        return self.break_marked_links();
                    }
                }
                Waiting::Flush(waiter) => match self.flush_link(number, waiter) {
                    Ok(true) => {}
                    Ok(false) => self.events.answer(waiter, Ok(0)),
                    Err(_) => {
                        self.events.answer(waiter, Err(PeerFailure::Unreachable));
                        return self.break_marked_links();
                    }
                },
            }
        }
    }

    /// Sends the last message of a connection.
    pub(super) fn post_close(&mut self, number: u32) {
        let peer = &self.peers[number as usize];
        if peer.link.is_none() || self.is_own(peer) {
            return;
        }
        let header = wire::encode_close();
        let bytes = Bytes::Inline(&header, &[]);
        if let Err(error) = self.push(number, Work::Send, bytes, Op::NOTHING, true) {
            tracing::debug!(%error, "a peer is not notified of the close");
        }
    }

    /// Posts a request that does nothing, so that its completion says that all before are
    /// complete and that the peer's device is there.
    pub(super) fn mark(&mut self, number: u32) -> Result<(), PostError> {
        let work = Work::Write { address: 0, key: 0 };
        self.push(number, work, Bytes::Inline(&[], &[]), Op::NOTHING, true)
    }

    /// Posts a request: the only place where one is. `Err` leaves no trace.
    pub(super) fn push(
        &mut self,
        number: u32,
        work: Work<'_>,
        bytes: Bytes<'_>,
        op: Op,
        signalled: bool,
    ) -> Result<(), PostError> {
        self.push_here(number, work, bytes, op, signalled)
    }

    /// [`Self::push`], where the kind of request is known when this is compiled: most of it falls
    /// away then.
    #[inline(always)]
    pub(super) fn push_here(
        &mut self,
        number: u32,
        work: Work<'_>,
        bytes: Bytes<'_>,
        op: Op,
        signalled: bool,
    ) -> Result<(), PostError> {
        let peer = &mut self.peers[number as usize];
        let Some(link) = &mut peer.link else { return Err(PostError::NoResource) };
        if link.ops.len() >= self.state.depth + super::RESERVE {
            return Err(PostError::NoResource);
        }
        let signalled = signalled || link.unsignalled + 1 >= self.state.signal_every;
        let request = Request {
            id: request_id(number, link.generation, link.next),
            work,
            bytes,
            signalled,
            fenced: peer.beside.fence && link.reads > 0,
        };
        if let Err(error) = link.pair.post(&request) {
            return Err(self.post_failed(number, &error));
        }
        peer.beside.fence = false;
        link.next = link.next.wrapping_add(1);
        link.unsignalled = if signalled { 0 } else { link.unsignalled + 1 };
        link.reads += u32::from(op.reads);
        link.ops.push_back(op);
        self.state.under_way += 1;
        self.counters.requests += 1;
        self.counters.doorbells += 1;
        self.counters.signalled += u64::from(signalled);
        Ok(())
    }

    /// Whether completions of the sending side name a connection that is there.
    #[inline]
    pub(super) fn link_of(&mut self, id: u64) -> Option<(u32, &mut Link)> {
        let number = (id >> 32) as u32 & 0xffff;
        let link = self.peers.get_mut(number as usize)?.link.as_mut()?;
        (u64::from(link.generation) == id >> 48).then_some((number, link))
    }
}
