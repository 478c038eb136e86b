//! What two interfaces agree on by datagrams, as a state machine without devices or clocks.
//!
//! ```text
//!            ask: pair made, Request sent                  Reply / the peer's own Request
//!   Idle ───────────────────────────────► Asking ─────────────────────────────────────► Up
//!    ▲ ◄────────── no answer in time, Refuse ┘                                          │
//!    ├───────────── Request of the peer: pair made, Reply sent ────────────────────────►│
//!    └──────────────────────── Close of either side ◄───────────────────────────────────┘
//! ```
//!
//! **Rules.**
//! 1. Each side has at most one queue pair for the other. Requests that cross need no decision:
//!    each names its sender's pair, which is all that the receiver lacks.
//! 2. A Request is repeated until it is answered or its time is over. One that is `Up` already and
//!    gets the same Request again repeats its Reply.
//! 3. Serials of a peer's Requests only go up; an older one is a straggler and is dropped. A newer
//!    one with another end means that the peer has lost the old connection: the old one is over.
//! 4. While `Idle` and watched, the peer is asked from time to time whether it is there, and so is
//!    one that is `Up` where connections cannot show it. One that has not been heard for the configured
//!    time has failed.
//! 5. A peer that is `Idle`, that nobody watches, and that has not been heard for twice that time is
//!    forgotten, with the serials of its Requests: no straggler is that late. So a server keeps nothing of
//!    clients that have gone.
//! 6. Only time in which this side runs is a peer's silence. When it is called later than it asked for, since its
//!    process or the whole machine stood still or had no processor, nothing was asked meanwhile, and the
//!    limits of rules 2 and 4 move by as much as it is late. A machine on which this side has been late by an eighth of
//!    the configured time may be that of the peer, too, or hold back what has arrived: for four times the
//!    configured time from then on a peer has twice the configured time.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use bowline_uct::PeerFailure;

use super::wire::{Body, Datagram, PairEnd};
use crate::addr::Address;

/// Makes and connects queue pairs; the device, or a test.
pub trait Pairs {
    /// A queue pair.
    type Pair;

    /// A pair for this peer that is ready to be connected, and its end. Nothing arrives on it
    /// before it is connected: this reports its number to the interface in time.
    ///
    /// # Errors
    /// When the device has no more.
    fn make(&mut self, peer: &Address) -> io::Result<(Self::Pair, PairEnd)>;

    /// Connects it to the peer's end.
    ///
    /// # Errors
    /// When the device refuses.
    fn connect(
        &mut self,
        pair: &mut Self::Pair,
        ours: PairEnd,
        peer: &Address,
        theirs: PairEnd,
    ) -> io::Result<()>;
}

/// What is reported to the interface.
#[derive(Debug)]
pub enum TableEvent<P> {
    /// A pair for this peer has this number, and may soon bring messages.
    Made {
        /// The peer.
        peer: Address,
        /// The pair's number.
        number: u32,
    },
    /// A connection with this peer; one that there was before is over.
    Up {
        /// The peer.
        peer: Address,
        /// The connected pair.
        pair: P,
    },
    /// There is no connection with this peer, and none to be had.
    Failed {
        /// The peer's uid.
        uid: u64,
        /// How.
        how: PeerFailure,
    },
    /// The peer has ended the connection of this pair of ours.
    Ended {
        /// The peer's uid.
        uid: u64,
        /// Our pair.
        number: u32,
        /// How.
        how: PeerFailure,
    },
}

#[derive(Debug)]
enum State<P> {
    Idle,
    Asking { pair: P, ours: PairEnd, serial: u32, again: Instant, pause: Duration, until: Instant },
    Up { ours: PairEnd, theirs: PairEnd },
}

#[derive(Debug)]
struct Record<P> {
    address: Address,
    /// Somebody has an endpoint to it.
    watched: bool,
    state: State<P>,
    /// Highest serial of its requests.
    seen: u32,
    heard: Instant,
    ping: Instant,
}

/// First pause before a Request is repeated; it doubles each time up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// All that is known of peers, and what is to be sent and reported.
#[derive(Debug)]
pub struct PeerTable<P> {
    own: Address,
    timeout: Duration,
    most: usize,
    /// Whether peers with a connection are asked whether they are there, too.
    probe_up: bool,
    records: HashMap<u64, Record<P>>,
    serial: u32,
    /// When the next tick was asked for.
    due: Option<Instant>,
    /// Until when peers have twice the time (rule 6).
    short_of_processors: Option<Instant>,
    /// Datagrams to be sent, in order.
    pub outgoing: Vec<(Address, Datagram)>,
    /// Events to be reported, in order.
    pub events: Vec<TableEvent<P>>,
}

impl<P> PeerTable<P> {
    /// An empty table of the interface `own`, for at most `most` peers. `probe_up`: connections
    /// do not notice a dead peer by themselves, so that it is asked as without one.
    pub fn new(own: Address, timeout: Duration, most: usize, probe_up: bool) -> Self {
        Self {
            own,
            timeout,
            most,
            probe_up,
            records: HashMap::new(),
            serial: 0,
            due: None,
            short_of_processors: None,
            outgoing: Vec::new(),
            events: Vec::new(),
        }
    }

    fn send(&mut self, to: Address, body: Body) {
        let datagram = Datagram { to: to.uid, from: self.own, body };
        self.outgoing.push((to, datagram));
    }

    fn record(&mut self, address: &Address, now: Instant) -> Option<&mut Record<P>> {
        if !self.records.contains_key(&address.uid) && self.records.len() >= self.most {
            return None;
        }
        let record = self.records.entry(address.uid).or_insert_with(|| Record {
            address: *address,
            watched: false,
            state: State::Idle,
            seen: 0,
            heard: now,
            ping: now,
        });
        Some(record)
    }

    /// An endpoint to the peer was made: it is watched from now on.
    pub fn watch(&mut self, peer: &Address, now: Instant) {
        let pause = self.timeout / 4;
        if let Some(record) = self.record(peer, now) {
            record.watched = true;
            record.heard = now;
            record.ping = now + pause;
        }
    }

    /// The endpoint was closed.
    pub fn forget(&mut self, uid: u64) {
        let Some(record) = self.records.get_mut(&uid) else { return };
        record.watched = false;
        if matches!(record.state, State::Idle) && record.seen == 0 {
            self.records.remove(&uid);
        }
    }

    /// Whether anything is known of a peer.
    pub fn knows(&self, uid: u64) -> bool {
        self.records.contains_key(&uid)
    }

    /// Peers of which something is known.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// A connection is wanted.
    pub fn ask(&mut self, peer: &Address, now: Instant, pairs: &mut impl Pairs<Pair = P>) {
        let timeout = self.timeout;
        self.serial += 1;
        let serial = self.serial;
        let Some(record) = self.record(peer, now) else {
            let how = PeerFailure::Unreachable;
            return self.events.push(TableEvent::Failed { uid: peer.uid, how });
        };
        if !matches!(record.state, State::Idle) {
            // Asked already, or the peer was quicker and the event is on its way.
            return;
        }
        match pairs.make(peer) {
            Ok((pair, ours)) => {
                let (again, until) = (now + FIRST_PAUSE, now + timeout);
                record.state =
                    State::Asking { pair, ours, serial, again, pause: FIRST_PAUSE, until };
                self.send(*peer, Body::Request { serial, end: ours });
            }
            Err(error) => self.cannot(peer.uid, &error),
        }
    }

    /// The connection of our pair `number` is over at this side.
    pub fn end(&mut self, uid: u64, number: u32, in_order: bool) {
        let Some(record) = self.records.get_mut(&uid) else { return };
        match record.state {
            State::Up { ours, .. } if ours.pair == number => record.state = State::Idle,
            _ => return,
        }
        let address = record.address;
        self.send(address, Body::Close { pair: number, in_order });
    }

    /// The interface goes: every peer without a connection is notified.
    pub fn leave(&mut self) {
        let idle = |record: &Record<P>| !matches!(record.state, State::Up { .. });
        let all: Vec<Address> =
            self.records.values().filter(|record| idle(record)).map(|r| r.address).collect();
        for address in all {
            self.send(address, Body::Close { pair: 0, in_order: true });
        }
    }

    fn cannot(&mut self, uid: u64, error: &io::Error) {
        tracing::warn!(peer = uid, %error, "cannot make a connection");
        if let Some(record) = self.records.get_mut(&uid) {
            record.state = State::Idle;
        }
        self.events.push(TableEvent::Failed { uid, how: PeerFailure::Unreachable });
    }

    /// A datagram has arrived.
    pub fn arrived(&mut self, datagram: &Datagram, now: Instant, pairs: &mut impl Pairs<Pair = P>) {
        let from = datagram.from;
        if datagram.to != self.own.uid || self.own.reaches(&from).is_err() {
            return;
        }
        // Only a request makes a peer known.
        let known = self.records.get_mut(&from.uid);
        if let Some(record) = known {
            if record.address != from {
                // The same name with another address is not the peer that we know.
                return;
            }
            record.heard = now;
        }
        match datagram.body {
            Body::Request { serial, end } => self.requested(&from, serial, end, now, pairs),
            Body::Reply { end, yours } => self.replied(&from, end, yours, pairs),
            Body::Refuse => {
                if let Some(record) = self.records.get_mut(&from.uid)
                    && matches!(record.state, State::Asking { .. })
                {
                    record.state = State::Idle;
                    let how = PeerFailure::Unreachable;
                    self.events.push(TableEvent::Failed { uid: from.uid, how });
                }
            }
            Body::Close { pair, in_order } => self.closed(from.uid, pair, in_order),
            Body::Ping => self.send(from, Body::Pong),
            Body::Pong => {}
        }
    }

    fn requested(
        &mut self,
        from: &Address,
        serial: u32,
        theirs: PairEnd,
        now: Instant,
        pairs: &mut impl Pairs<Pair = P>,
    ) {
        let Some(record) = self.record(from, now) else {
            return self.send(*from, Body::Refuse);
        };
        if serial < record.seen {
            return;
        }
        record.seen = serial;
        match std::mem::replace(&mut record.state, State::Idle) {
            State::Up { ours, theirs: known } if known == theirs => {
                record.state = State::Up { ours, theirs };
                self.send(*from, Body::Reply { end: ours, yours: theirs.pair });
            }
            State::Asking { pair, ours, .. } => self.join(from, pair, ours, theirs, pairs),
            State::Up { .. } | State::Idle => match pairs.make(from) {
                Ok((pair, ours)) => self.join(from, pair, ours, theirs, pairs),
                Err(error) => {
                    tracing::warn!(peer = from.uid, %error, "cannot answer a connection");
                    self.send(*from, Body::Refuse);
                }
            },
        }
    }

    /// Connects a pair to the end that a request named, and answers.
    fn join(
        &mut self,
        from: &Address,
        mut pair: P,
        ours: PairEnd,
        theirs: PairEnd,
        pairs: &mut impl Pairs<Pair = P>,
    ) {
        match pairs.connect(&mut pair, ours, from, theirs) {
            Ok(()) => {
                self.up(from, pair, ours, theirs);
                self.send(*from, Body::Reply { end: ours, yours: theirs.pair });
            }
            Err(error) => {
                self.cannot(from.uid, &error);
                self.send(*from, Body::Refuse);
            }
        }
    }

    fn up(&mut self, from: &Address, pair: P, ours: PairEnd, theirs: PairEnd) {
        if let Some(record) = self.records.get_mut(&from.uid) {
            record.state = State::Up { ours, theirs };
        }
        self.events.push(TableEvent::Up { peer: *from, pair });
    }

    fn replied(
        &mut self,
        from: &Address,
        theirs: PairEnd,
        yours: u32,
        pairs: &mut impl Pairs<Pair = P>,
    ) {
        let Some(record) = self.records.get_mut(&from.uid) else { return };
        let State::Asking { ours, .. } = &record.state else { return };
        if ours.pair != yours {
            return;
        }
        let State::Asking { mut pair, ours, .. } =
            std::mem::replace(&mut record.state, State::Idle)
        else {
            return;
        };
        match pairs.connect(&mut pair, ours, from, theirs) {
            Ok(()) => self.up(from, pair, ours, theirs),
            Err(error) => self.cannot(from.uid, &error),
        }
    }

    fn closed(&mut self, uid: u64, pair: u32, in_order: bool) {
        let Some(record) = self.records.get_mut(&uid) else { return };
        let how = if in_order { PeerFailure::Closed } else { PeerFailure::Unreachable };
        match &record.state {
            State::Up { ours, theirs } if theirs.pair == pair => {
                let number = ours.pair;
                record.state = State::Idle;
                self.events.push(TableEvent::Ended { uid, number, how });
            }
            State::Idle | State::Asking { .. } if pair == 0 => {
                record.state = State::Idle;
                if std::mem::take(&mut record.watched) {
                    self.events.push(TableEvent::Failed { uid, how });
                }
            }
            _ => {}
        }
    }

    /// Time has passed. Returns when to call again.
    pub fn tick(&mut self, now: Instant) -> Instant {
        let patience = self.extend_deadlines(now);
        let more = patience - self.timeout;
        let mut next = now + self.timeout / 4;
        let (mut sends, mut failed, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        for (uid, record) in &mut self.records {
            match &mut record.state {
                State::Asking { until, .. } if now >= *until + more => {
                    record.state = State::Idle;
                    record.watched = false;
                    failed.push(*uid);
                }
                State::Asking { ours, serial, again, pause, .. } => {
                    if now >= *again {
                        sends.push((record.address, Body::Request { serial: *serial, end: *ours }));
                        *pause = (*pause * 2).min(LONGEST_PAUSE);
                        *again = now + *pause;
                    }
                    next = next.min(*again);
                }
                // The connection shows it: silence begins where that ends.
                State::Up { .. } if !self.probe_up => record.heard = now,
                State::Idle | State::Up { .. } if record.watched && now >= record.ping => {
                    if now.saturating_duration_since(record.heard) <= patience {
                        record.ping = now + self.timeout / 4;
                        sends.push((record.address, Body::Ping));
                        continue;
                    }
                    record.watched = false;
                    match record.state {
                        State::Up { ours, .. } => ended.push((*uid, ours.pair)),
                        _ => failed.push(*uid),
                    }
                    record.state = State::Idle;
                }
                State::Idle | State::Up { .. } => {}
            }
        }
        let late = 2 * self.timeout;
        self.records.retain(|_, record| {
            record.watched
                || !matches!(record.state, State::Idle)
                || now.saturating_duration_since(record.heard) < late
        });
        for (address, body) in sends {
            self.send(address, body);
        }
        let how = PeerFailure::Unreachable;
        self.events.extend(failed.into_iter().map(|uid| TableEvent::Failed { uid, how }));
        let ended = ended.into_iter().map(|(uid, number)| TableEvent::Ended { uid, number, how });
        self.events.extend(ended);
        self.due = Some(next);
        next
    }

    /// Gives the time back by which this tick is late, and returns how long a peer may have been silent (rule 6).
    fn extend_deadlines(&mut self, now: Instant) -> Duration {
        let late = self.due.map_or(Duration::ZERO, |due| now.saturating_duration_since(due));
        if late > self.timeout / 8 {
            self.short_of_processors = Some(now + 4 * self.timeout);
        }
        for record in self.records.values_mut() {
            if let State::Asking { until, .. } = &mut record.state {
                *until = (*until + late).min(now + self.timeout);
            }
            // One that nobody watches is forgotten by the clock: rule 5 is about the network.
            if record.watched {
                record.heard = (record.heard + late).min(now);
            }
        }
        let short = self.short_of_processors.is_some_and(|until| now < until);
        if short { 2 * self.timeout } else { self.timeout }
    }
}

#[cfg(test)]
mod tests;
