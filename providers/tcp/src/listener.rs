//! Connections by socket address: a server listens, a client asks with private data, the server's
//! user accepts or rejects, with private data of its own.
//!
//! ```text
//!   client                                server
//!                                         listen(address)
//!   connect_to(address, private)  ─────►  next_request() = (id, private)
//!   connect_outcome(id) = endpoint ◄────  accept_request(id, private) = endpoint
//!                       = rejected ◄────  reject_request(id, private)
//! ```
//!
//! Each accepted request is a connection of its own, with an endpoint on either side, authenticated
//! like every other; it ends when either side closes its endpoint. Requests and outcomes are asked
//! for after `progress`; while one is there, `arm` says that the interface is busy.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;

use bowline_uct::{EpId, OpenError, PeerFailure, Unreachable};
use rustix::event::epoll::EventFlags;
use rustix::net::Shutdown;

use crate::frame::Frame;
use crate::handshake::{Handshake, Role, Stage};
use crate::hello::{MAX_PRIVATE, Purpose, Verdict};
use crate::iface::{TcpIface, tag};
use crate::listening::{
    ConnectId, Connected, Listening, TcpConnectError, TcpListenerId, TcpRequest, TcpRequestId,
};
use crate::peer::{Peer, State};
use crate::socket;

fn check_private(private: &[u8]) -> Result<(), OpenError> {
    if private.len() <= MAX_PRIVATE {
        return Ok(());
    }
    Err(OpenError::Limit(format!(
        "{} bytes of private data exceed the {MAX_PRIVATE} that a request or its answer may carry",
        private.len()
    )))
}

impl TcpIface {
    pub(crate) fn add_listener(&mut self, listening: Listening) -> Result<u32, OpenError> {
        let index = self.next_listener;
        self.watch(listening.fd.as_fd(), tag::LISTENER, index, EventFlags::IN)?;
        self.next_listener += 1;
        self.listeners.insert(index, listening);
        Ok(index)
    }

    /// Whether epoll says when somebody comes to a listener.
    pub(crate) fn pause_listener(&mut self, index: u32, pause: bool) {
        let Some(listening) = self.listeners.get_mut(&index) else { return };
        if std::mem::replace(&mut listening.paused, pause) == pause {
            return;
        }
        let flags = if pause { EventFlags::empty() } else { EventFlags::IN };
        if let Some(listening) = self.listeners.get(&index) {
            self.rewatch(listening.fd.as_fd(), tag::LISTENER, index, flags);
        }
        self.set_timer();
    }

    /// Serves those that have come to paused listeners, as far as there is space by now.
    pub(crate) fn try_paused_listeners(&mut self) {
        let paused = self.listeners.iter().filter(|(_, listening)| listening.paused);
        let paused: Vec<u32> = paused.map(|(&index, _)| index).collect();
        for index in paused {
            self.welcome_handshakes(index);
        }
    }

    /// Listens for requests at `at`; port 0 takes any that is free. Returns where it listens.
    ///
    /// # Errors
    /// When the address is not this host's, or the port is taken.
    pub fn listen(&mut self, at: SocketAddr) -> Result<(TcpListenerId, SocketAddr), OpenError> {
        let port = at.port();
        let (fd, at) = socket::listen(at.ip(), (port, port), &self.options)
            .map_err(|source| OpenError::System { act: "listen for requests", source })?;
        let index = self.add_listener(Listening::new(fd, at, false, true))?;
        Ok((TcpListenerId(index), at))
    }

    /// Stops listening. Requests that came in before stay.
    pub fn close_listener(&mut self, listener: TcpListenerId) {
        if self.listeners.get(&listener.0).is_some_and(|listening| listening.user)
            && let Some(listening) = self.listeners.remove(&listener.0)
        {
            let _ = rustix::event::epoll::delete(&self.epoll, &listening.fd);
        }
    }

    /// A request has proved that it knows the secret and waits for the user.
    pub(crate) fn hold_request(&mut self, index: u32) {
        if self.requests.len() >= self.options.handshakes as usize {
            // The user does not keep up; the client hears it at once instead of waiting.
            if let Some(handshake) = self.take_handshake(index) {
                let _ = self.say_answer(&handshake, Verdict::Rejected, &[]);
            }
            return;
        }
        if let Some(Some(handshake)) = self.handshakes.get_mut(index as usize) {
            handshake.stage = Stage::User;
            self.requests.push_back(index);
        }
    }

    /// The next request that was not reported yet, oldest first.
    pub fn next_request(&mut self) -> Option<TcpRequest> {
        let index = self.requests.pop_front()?;
        let handshake = self.handshakes.get(index as usize)?.as_ref()?;
        let Role::Server { listener, from } = handshake.role else { return None };
        Some(TcpRequest {
            id: TcpRequestId { index, number: handshake.number },
            listener: TcpListenerId(listener),
            from,
            private: handshake.private.clone(),
        })
    }

    /// The handshake behind a request, if it is still there.
    fn requester(&mut self, id: TcpRequestId, private: &[u8]) -> Result<Box<Handshake>, OpenError> {
        check_private(private)?;
        let gone = || OpenError::Unreachable(Unreachable::because("the client has given up"));
        let there = self.handshakes.get(id.index as usize).and_then(Option::as_ref);
        if there.is_none_or(|there| there.number != id.number || there.stage != Stage::User) {
            return Err(gone());
        }
        self.take_handshake(id.index).ok_or_else(gone)
    }

    /// Accepts a request, with private data for the client. The endpoint can be used at once.
    ///
    /// # Errors
    /// When the client has given up meanwhile, or the private data are too long.
    pub fn accept_request(&mut self, id: TcpRequestId, private: &[u8]) -> Result<EpId, OpenError> {
        let handshake = self.requester(id, private)?;
        self.say_answer(&handshake, Verdict::Welcome, private)
            .map_err(|error| OpenError::System { act: "answer a request", source: error.into() })?;
        let uid = handshake.hello().map_or(0, |hello| hello.uid);
        let mut peer = Peer::new(uid, State::Connecting);
        (peer.by_request, peer.has_ep) = (true, true);
        let index = self.add_peer(peer)?;
        self.install(index, *handshake, 0);
        Ok(EpId(index))
    }

    /// Rejects a request, with private data for the client, the reason for instance.
    ///
    /// # Errors
    /// When the client has given up meanwhile, or the private data are too long.
    pub fn reject_request(&mut self, id: TcpRequestId, private: &[u8]) -> Result<(), OpenError> {
        let handshake = self.requester(id, private)?;
        self.say_answer(&handshake, Verdict::Rejected, private)
            .map_err(|error| OpenError::System { act: "answer a request", source: error.into() })?;
        self.set_timer();
        Ok(())
    }

    /// Asks the listener at `to` for a connection, with private data for its user. `progress` makes
    /// it; [`connect_outcome`](Self::connect_outcome) says what became of it.
    ///
    /// # Errors
    /// When the private data are too long, or there is no space for another endpoint.
    pub fn connect_to(&mut self, to: SocketAddr, private: &[u8]) -> Result<ConnectId, OpenError> {
        check_private(private)?;
        let index = self.begin(0, vec![to], private.to_vec(), Purpose::Request)?;
        let serial = self.peer(index).map_or(0, |peer| peer.serial);
        self.start_attempt(index);
        Ok(ConnectId { index, serial })
    }

    /// What became of a request; `None` while it is under way. Each outcome is reported once.
    pub fn connect_outcome(&mut self, id: ConnectId) -> Option<Result<Connected, TcpConnectError>> {
        let ConnectId { index, serial } = id;
        let Some(outcome) = self.outcomes.remove(&serial) else {
            let waits = self.peer(index).is_some_and(|peer| {
                peer.serial == serial
                    && peer.by_request
                    && peer.state == State::Connecting
                    && peer.connecting.is_some()
            });
            return if waits { None } else { Some(Err(TcpConnectError::NoSuch)) };
        };
        let peer = self.peer_mut(index).filter(|peer| peer.serial == serial);
        Some(outcome.and_then(|private| match peer {
            Some(peer) => {
                peer.has_ep = true;
                Ok(Connected { ep: EpId(index), private })
            }
            None => Err(TcpConnectError::Failed(PeerFailure::Died)),
        }))
    }

    /// Keeps what became of an own request, if `index` is one, until it is asked for.
    pub(crate) fn note_outcome(&mut self, index: u32, outcome: Result<Vec<u8>, TcpConnectError>) {
        if let Some(peer) = self.peer(index).filter(|peer| peer.by_request) {
            self.outcomes.insert(peer.serial, outcome);
        }
    }

    /// The endpoint of a request's connection was closed: ends it when everything is sent.
    pub(crate) fn close_request_peer(&mut self, index: u32) {
        self.send_control(index, &Frame::bye().encode());
        let Some(peer) = self.peer_mut(index) else { return };
        peer.closing = Some(Instant::now());
        if peer.queue.is_empty() {
            self.hang_up(index);
        }
    }

    /// Everything is said: the peer hears the end of the stream, and ends its side.
    pub(crate) fn hang_up(&mut self, index: u32) {
        if let Some(socket) = self.peer(index).and_then(|peer| peer.socket.as_ref())
            && let Err(error) = rustix::net::shutdown(socket, Shutdown::Write)
        {
            tracing::debug!(%error, "a connection had ended before it was closed");
        }
    }
}
