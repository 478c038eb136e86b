//! Making the one connection between two interfaces, whichever begins, and both at once.
//!
//! Each side may connect. Nothing but the handshake is sent before the server has said WELCOME,
//! so an attempt can be given up without loss. The side with the **lower uid decides**:
//!
//! 1. It has no attempt of its own under way that has reached the other side: it takes the other's
//!    (WELCOME), and forgets its own if there is one.
//! 2. It has: it answers DUPLICATE, and the other side waits for the attempt that is under way.
//!
//! The side with the higher uid takes what comes and forgets its own. So each side installs the
//! same connection. A late message of an attempt that was given up must not pass for a new
//! connection: attempts are numbered per interface, WELCOME says up to which number those of its
//! sender are void, and a higher number from a peer whose connection stands means that the peer
//! has lost that connection and made a new one.
//!
//! # Trying again
//!
//! The places of a peer are tried one after the other. What follows from a failure:
//!
//! | what happened at a place | what follows |
//! |---|---|
//! | no route, no answer, a link that is down, no descriptor left: it may pass | the next place; behind the last one a pause, then all again, with the routes that exist by then, until `BOWLINE_TCP_TIMEOUT` has gone by since the beginning |
//! | the connection is refused: nobody listens (any more), and an address is only given out by who listens | the next place; behind the last one the peer has failed |
//! | a listener that does not know the secret, or is somebody else's | as above, at once |
//! | the peer hangs up in the middle of the handshake: it may have been short of space | a pause, then the same place, until `BOWLINE_TCP_CONNECT_TIMEOUT` |
//!
//! Pauses grow from [`PAUSE`]'s first to its second value.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use bowline_uct::{EpId, OpenError, PeerFailure, Unreachable};
use rustix::io::Errno;

use crate::addr::Address;
use crate::handshake::{Handshake, Role, Stage};
use crate::hello::{Answer, Hello, Purpose, Verdict};
use crate::iface::{PEER_EVENTS, TcpIface, random, tag};
use crate::interfaces;
use crate::listening::TcpConnectError;
use crate::peer::{Connecting, Peer, State};
use crate::receive::failure_of;
use crate::socket;

/// First and longest pause before a peer is tried again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Why a place did not lead to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setback {
    how: PeerFailure,
    /// It may be different in a moment.
    passes: bool,
}

impl Setback {
    /// Trying again would end in the same way.
    pub(crate) const fn lasting(how: PeerFailure) -> Self {
        Self { how, passes: false }
    }

    /// Nobody answers there.
    pub(crate) const SILENCE: Self = Self { how: PeerFailure::Unreachable, passes: true };

    /// What the system said of an attempt to connect.
    pub(crate) const fn of(error: Errno) -> Self {
        Self { how: failure_of(error), passes: socket::may_pass(error) }
    }
}

impl TcpIface {
    fn parse(&self, address: &[u8]) -> Result<Address, OpenError> {
        let address = Address::parse(address).map_err(OpenError::BadAddress)?;
        if address.uid == self.uid {
            return Err(OpenError::Unreachable(Unreachable::because(
                "the address is this interface's own; messages of a worker to itself go by the \
                 self transport",
            )));
        }
        Ok(address)
    }

    /// Where the peer may be connected to, now or else in a moment, or why nowhere.
    fn places(&self, address: &Address) -> Result<Vec<std::net::SocketAddr>, Unreachable> {
        let (routes, later) = interfaces::routes_and_later(&self.options, self.host, address);
        let places: Vec<_> =
            routes.iter().filter(|route| route.chosen).filter_map(|route| route.remote).collect();
        if !places.is_empty() {
            return Ok(places);
        }
        if !later.is_empty() {
            return Ok(later);
        }
        let reasons: Vec<String> = routes.iter().map(ToString::to_string).collect();
        Err(Unreachable::because(if reasons.is_empty() {
            "the peer listens nowhere".to_owned()
        } else {
            format!("no route leads to the peer: {}", reasons.join("; "))
        }))
    }

    pub(crate) fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        let address = self.parse(address).map_err(|error| match error {
            OpenError::Unreachable(why) => why,
            other => Unreachable::because(other.to_string()),
        })?;
        self.places(&address).map(|_| ())
    }

    /// The number of the peer with this address, if it is known.
    pub(crate) fn known(&self, address: &[u8]) -> Option<u32> {
        let address = Address::parse(address).ok()?;
        self.by_uid.get(&address.uid).copied()
    }

    pub(crate) fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        let address = self.parse(address)?;
        let near = address.host.boot == self.host.boot;
        if let Some(&index) = self.by_uid.get(&address.uid) {
            let peer = self.peers[index as usize].as_mut();
            let peer = peer.expect("peers that are listed by uid are there");
            peer.has_ep = true;
            // Of one that connected to us the address is only known from here on.
            if !std::mem::replace(&mut peer.near, near)
                && near
                && let Some(socket) = &peer.socket
            {
                socket::tune(socket.as_fd(), &self.options, near);
            }
            return Ok(EpId(index));
        }
        let places = self.places(&address)?;
        let index = self.begin(address.uid, places, Vec::new(), Purpose::Peer)?;
        self.by_uid.insert(address.uid, index);
        if let Some(peer) = self.peer_mut(index) {
            (peer.has_ep, peer.near) = (true, near);
            if let Some(connecting) = &mut peer.connecting {
                connecting.address = Some(address);
            }
        }
        self.start_attempt(index);
        Ok(EpId(index))
    }

    /// Makes a peer that is to be connected to.
    pub(crate) fn begin(
        &mut self,
        uid: u64,
        places: Vec<std::net::SocketAddr>,
        private: Vec<u8>,
        purpose: Purpose,
    ) -> Result<u32, OpenError> {
        let mut peer = Peer::new(uid, State::Connecting);
        peer.by_request = purpose == Purpose::Request;
        let now = Instant::now();
        peer.connecting = Some(Box::new(Connecting {
            address: None,
            places,
            at: 0,
            handshake: None,
            deadline: now + self.options.connect_timeout,
            reach_until: now + self.options.timeout.min(self.options.connect_timeout),
            again: None,
            tries: 0,
            private,
            how: PeerFailure::Unreachable,
            passes: false,
        }));
        let index = self.add_peer(peer)?;
        self.connecting.push(index);
        Ok(index)
    }

    /// Private data that a request carries.
    pub(crate) fn private_of(&self, index: u32) -> Vec<u8> {
        let connecting = self.peer(index).and_then(|peer| peer.connecting.as_ref());
        connecting.map(|connecting| connecting.private.clone()).unwrap_or_default()
    }

    /// Begins to connect to the place that is due.
    pub(crate) fn start_attempt(&mut self, index: u32) {
        let Some(peer) = self.peer_mut(index) else { return };
        let (uid, by_request) = (peer.uid, peer.by_request);
        let Some(connecting) = &mut peer.connecting else { return };
        connecting.again = None;
        let place = connecting.places[connecting.at];
        self.attempts += 1;
        let mut hello = Hello {
            nonce: [0; 32],
            uid: self.uid,
            wanted: uid,
            attempt: self.attempts,
            purpose: if by_request { Purpose::Request } else { Purpose::Peer },
        };
        let begun = random(&mut hello.nonce).and_then(|()| socket::connect(place, &self.options));
        let handshake = match begun {
            Ok(socket) => self.add_handshake(Handshake::client(socket, index, &hello)),
            Err(error) => {
                tracing::debug!(%error, %place, "cannot begin to connect");
                let passes = socket::may_pass(error);
                let setback = Setback { how: PeerFailure::Unreachable, passes };
                return self.place_failed(index, setback);
            }
        };
        if handshake.is_none() {
            return self.place_failed(index, Setback::SILENCE);
        }
        if let Some(connecting) = self.peer_mut(index).and_then(|peer| peer.connecting.as_mut()) {
            connecting.handshake = handshake;
        }
    }

    /// A place cannot be reached or is somebody else's: the next one, if there is one; see the
    /// table in the module's text.
    pub(crate) fn place_failed(&mut self, index: u32, setback: Setback) {
        let Some(connecting) = self.peer_mut(index).and_then(|peer| peer.connecting.as_mut())
        else {
            return;
        };
        connecting.handshake = None;
        // That it refuses us says more than that one of its places cannot be reached.
        if connecting.how == PeerFailure::Unreachable {
            connecting.how = setback.how;
        }
        connecting.passes |= setback.passes;
        connecting.at += 1;
        if connecting.at < connecting.places.len() {
            return self.start_attempt(index);
        }
        let how = connecting.how;
        let passes = std::mem::take(&mut connecting.passes) && how == PeerFailure::Unreachable;
        if !passes || Instant::now() >= connecting.reach_until {
            return self.give_up(index, how);
        }
        connecting.at = 0;
        if connecting.tries == 0 {
            tracing::debug!(peer = index, "a peer cannot be reached yet; trying again");
        }
        self.try_again(index);
    }

    fn give_up(&mut self, index: u32, how: PeerFailure) {
        self.note_outcome(index, Err(TcpConnectError::Failed(how)));
        self.fail(index, how);
    }

    /// The place that is due shall be tried again after a pause.
    pub(crate) fn try_again(&mut self, index: u32) {
        let Some(connecting) = self.peer_mut(index).and_then(|peer| peer.connecting.as_mut())
        else {
            return;
        };
        connecting.handshake = None;
        let pause = PAUSE.0 * 2_u32.pow(connecting.tries.min(10));
        connecting.tries += 1;
        connecting.again = Some(Instant::now() + pause.min(PAUSE.1));
        self.counters.tried_again += 1;
        self.set_timer();
    }

    /// A pause is over. A peer that is tried anew from its first place on is tried by the routes that
    /// lead there now.
    fn go_on_connecting(&mut self, index: u32) {
        let connecting = self.peer(index).and_then(|peer| peer.connecting.as_ref());
        let Some(connecting) = connecting else { return };
        let address = connecting.address.as_ref().filter(|_| connecting.at == 0);
        match address.map(|address| self.places(address)) {
            None => {}
            Some(Err(why)) => {
                tracing::debug!(peer = index, %why, "no route leads to a peer any more");
                return self.give_up(index, PeerFailure::Unreachable);
            }
            Some(Ok(places)) => {
                if let Some(peer) = self.peer_mut(index)
                    && let Some(connecting) = &mut peer.connecting
                {
                    connecting.places = places;
                }
            }
        }
        self.start_attempt(index);
    }

    /// Gives up what takes too long, and tries again what is due.
    pub(crate) fn overdue_connections(&mut self, now: Instant) {
        for index in self.connecting.clone() {
            let Some(connecting) = self.peer(index).and_then(|peer| peer.connecting.as_ref())
            else {
                continue;
            };
            if now >= connecting.deadline {
                self.give_up(index, PeerFailure::Unreachable);
            } else if connecting.again.is_some_and(|again| now >= again) {
                self.go_on_connecting(index);
            }
        }
    }

    /// The listener that we reached belongs to somebody else of the job.
    pub(crate) fn wrong_peer(&mut self, index: u32) {
        let Some(handshake) = self.take_handshake(index) else { return };
        if let Role::Client { peer } = handshake.role {
            drop(handshake);
            self.place_failed(peer, Setback::lasting(PeerFailure::Died));
        }
    }

    /// A handshake has succeeded: what becomes of its connection.
    pub(crate) fn decide(&mut self, index: u32) {
        let Some(Some(handshake)) = self.handshakes.get(index as usize) else { return };
        let (Some(hello), Role::Server { listener, .. }) = (handshake.hello(), handshake.role)
        else {
            return;
        };
        let user = self.listeners.get(&listener).is_some_and(|listening| listening.user);
        let verdict = match hello.purpose {
            Purpose::Request if user => return self.hold_request(index),
            Purpose::Request => Verdict::Rejected,
            Purpose::Peer if hello.wanted != self.uid || hello.uid == self.uid => {
                Verdict::WrongPeer
            }
            Purpose::Peer => self.judge(&hello),
        };
        let Some(handshake) = self.take_handshake(index) else { return };
        let said = self.say_answer(&handshake, verdict, &[]);
        if verdict != Verdict::Welcome {
            if verdict == Verdict::Duplicate {
                self.counters.duplicates += 1;
            }
            return;
        }
        if let Err(error) = said {
            tracing::debug!(%error, "a peer ended right after its handshake");
        }
        let peer = match self.by_uid.get(&hello.uid) {
            Some(&known) => known,
            None => match self.add_peer(Peer::new(hello.uid, State::Connecting)) {
                Ok(new) => {
                    self.by_uid.insert(hello.uid, new);
                    new
                }
                Err(error) => {
                    tracing::error!(%error, "a peer that connected is dropped");
                    return;
                }
            },
        };
        self.install(peer, *handshake, hello.attempt);
    }

    /// Who wins, by the rules in the module's text. Forgets what has lost on this side.
    fn judge(&mut self, hello: &Hello) -> Verdict {
        let Some(&known) = self.by_uid.get(&hello.uid) else { return Verdict::Welcome };
        let Some(peer) = self.peer(known) else { return Verdict::Welcome };
        match peer.state {
            State::Open if hello.attempt > peer.attempt => {
                // It has lost the connection that stands here, and made a new one.
                self.fail(known, PeerFailure::Died);
                Verdict::Welcome
            }
            State::Open => Verdict::Duplicate,
            State::Failed(_) => Verdict::Welcome,
            State::Connecting => {
                let own = peer.connecting.as_ref().and_then(|connecting| connecting.handshake);
                let reached = own.is_some_and(|own| {
                    let own = self.handshakes.get(own as usize).and_then(Option::as_ref);
                    own.is_some_and(|own| own.stage != Stage::Reaching)
                });
                if reached && self.uid < hello.uid {
                    return Verdict::Duplicate;
                }
                if let Some(own) = own {
                    self.drop_handshake(own);
                }
                Verdict::Welcome
            }
        }
    }

    /// A server has answered.
    pub(crate) fn obey(&mut self, index: u32, answer: Answer) {
        let Some(handshake) = self.take_handshake(index) else { return };
        let Role::Client { peer } = handshake.role else { return };
        match answer.verdict {
            Verdict::Welcome => {
                self.note_outcome(peer, Ok(handshake.private.clone()));
                self.install(peer, *handshake, answer.void);
            }
            Verdict::Duplicate => {
                self.counters.duplicates += 1;
                let connecting = self.peer_mut(peer).and_then(|peer| peer.connecting.as_mut());
                if let Some(connecting) = connecting {
                    connecting.handshake = None;
                    // The peer's own attempt is on its way; should it fail, ours is tried again.
                    connecting.again = Some(Instant::now() + PAUSE.1);
                }
                self.set_timer();
            }
            Verdict::WrongPeer => {
                drop(handshake);
                self.place_failed(peer, Setback::lasting(PeerFailure::Died));
            }
            Verdict::Rejected => {
                let private = handshake.private.clone();
                drop(handshake);
                self.note_outcome(peer, Err(TcpConnectError::Rejected { private }));
                self.fail(peer, PeerFailure::Refused);
            }
        }
    }

    /// A handshake is done: its connection becomes that of `index`.
    pub(crate) fn install(&mut self, index: u32, handshake: Handshake, attempt: u64) {
        let socket = handshake.socket;
        self.rewatch(socket.as_fd(), tag::PEER, index, PEER_EVENTS);
        let near = self.peer(index).is_some_and(|peer| peer.near);
        socket::tune(socket.as_fd(), &self.options, near);
        if let Some(peer) = self.peer_mut(index) {
            peer.attempt = attempt;
        }
        self.stands(index, socket);
    }

    /// A connection stands: what was posted before it goes out.
    fn stands(&mut self, index: u32, socket: OwnedFd) {
        let Some(peer) = self.peer_mut(index) else { return };
        peer.socket = Some(socket);
        peer.state = State::Open;
        peer.connecting = None;
        self.connecting.retain(|&other| other != index);
        self.open += 1;
        self.counters.connections += 1;
        if !self.is_open(self.last_active) {
            self.last_active = index;
        }
        self.set_timer();
        self.flush_queue(index);
    }

    /// Gives a peer any stream socket, without a handshake.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn install_socket(&mut self, index: u32, socket: OwnedFd) {
        self.watch(socket.as_fd(), tag::PEER, index, PEER_EVENTS).expect("a socket can be watched");
        self.stands(index, socket);
    }
}
