//! Requests by socket address, over TCP: the [`ConnectionManager`] that a worker of this machine is given.
//!
//! It is an interface of the TCP provider that carries nothing but requests and their answers: each
//! request is a connection of its own, proved with the secret that both sides must know, and closed
//! once it was answered: by the client, and by the server if the client does not within
//! `BOWLINE_TCP_HANDSHAKE_TIMEOUT`. A secret that people choose must be as hard to guess as a random one,
//! since anybody who reaches the listener gets a message that proves it, and can test guesses on that. What unauthenticated peers may cost is bounded there: their number
//! (`BOWLINE_TCP_HANDSHAKES`), the bytes they may send, and their time
//! (`BOWLINE_TCP_HANDSHAKE_TIMEOUT`).

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bowline_base::config::Config;
use bowline_base::doorbell::WakeSet;
use bowline_tcp::{ConnectId, MAX_PRIVATE, TcpConnectError, TcpIface, TcpOptions, TcpRequestId};
use bowline_ucp::{
    Answer, ConnectionManager, ConnectionManagerEvent, DialId, IncomingId, ListenerId,
};
use bowline_uct::{
    Armed, Arrival, EpId, Iface as _, PeerFailure, Sink, Source, Token, Verdict, Wakeup as _,
};

/// See the module's text.
#[derive(Debug)]
pub struct TcpConnectionManager {
    iface: TcpIface,
    /// Requests that wait for their answer.
    incoming: HashMap<IncomingId, TcpRequestId>,
    dials: HashMap<DialId, ConnectId>,
    /// Connections of accepted requests, oldest first, each with the time at which it is ended if the
    /// client does not end it.
    accepted: VecDeque<(Instant, EpId)>,
    patience: Duration,
    next: u64,
}

/// Notes which connections have ended; nothing else comes over them.
#[derive(Default)]
struct Ends(Vec<EpId>);

impl Sink for Ends {
    fn am(&mut self, _: Arrival<'_>) -> Verdict {
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, ep: Option<EpId>, _: PeerFailure) {
        self.0.extend(ep);
    }
}

impl TcpConnectionManager {
    /// Opens it with the settings of the TCP transport and a secret that clients and servers share.
    ///
    /// # Errors
    /// When the transport cannot be opened.
    pub fn open(config: &Config, secret: [u8; 32]) -> Result<Self, bowline_uct::OpenError> {
        let patience = config.get(bowline_tcp::HANDSHAKE_TIMEOUT);
        let iface = TcpIface::open(TcpOptions::from_config(config, secret))?;
        Ok(Self {
            iface,
            accepted: VecDeque::new(),
            patience,
            incoming: HashMap::new(),
            dials: HashMap::new(),
            next: 0,
        })
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// What the end of a request's connection means for the client.
const fn in_words(how: PeerFailure) -> &'static str {
    match how {
        PeerFailure::Died => "nobody listens there, or the server ended before it answered",
        PeerFailure::Closed => "the server closed the connection before it answered",
        PeerFailure::Unreachable => {
            "nothing answers at that address; BOWLINE_TCP_CONNECT_TIMEOUT says how long to try"
        }
        PeerFailure::Refused => {
            "who listens there is not of this program, or was given another secret"
        }
        _ => "who listens there answered something that is no answer",
    }
}

impl ConnectionManager for TcpConnectionManager {
    fn max_data(&self) -> usize {
        MAX_PRIVATE
    }

    fn listen(&mut self, at: SocketAddr) -> Result<(ListenerId, SocketAddr), String> {
        let (id, at) = self.iface.listen(at).map_err(|error| error.to_string())?;
        Ok((ListenerId(id.0), at))
    }

    fn close_listener(&mut self, listener: ListenerId) {
        self.iface.close_listener(bowline_tcp::TcpListenerId(listener.0));
    }

    fn dial(&mut self, to: SocketAddr, data: &[u8]) -> Result<DialId, String> {
        let id = self.iface.connect_to(to, data).map_err(|error| error.to_string())?;
        let dial = DialId(self.number());
        self.dials.insert(dial, id);
        Ok(dial)
    }

    fn answer(&mut self, id: IncomingId, accept: bool, data: &[u8]) -> Result<(), String> {
        let request = self.incoming.remove(&id).ok_or("the request was answered before")?;
        let answered = if accept {
            // The connection has done its work with the answer. The client ends it, since an end that
            // came with the answer would be a failure to it.
            let accepted = self.iface.accept_request(request, data);
            accepted.map(|ep| self.accepted.push_back((Instant::now() + self.patience, ep)))
        } else {
            self.iface.reject_request(request, data)
        };
        answered.map_err(|error| error.to_string())
    }

    fn progress(&mut self, budget: u32, report: &mut dyn FnMut(ConnectionManagerEvent)) {
        let mut ends = Ends::default();
        self.iface.progress(&mut ends, budget);
        for ep in ends.0 {
            self.accepted.retain(|(_, accepted)| *accepted != ep);
            self.iface.disconnect(ep);
        }
        while let Some(&(end, ep)) = self.accepted.front()
            && Instant::now() >= end
        {
            self.accepted.pop_front();
            self.iface.disconnect(ep);
        }
        for _ in 0..budget {
            let Some(request) = self.iface.next_request() else { break };
            let id = IncomingId(self.number());
            self.incoming.insert(id, request.id);
            let listener = ListenerId(request.listener.0);
            report(ConnectionManagerEvent::Request {
                id,
                listener,
                from: request.from,
                data: request.private,
            });
        }
        let iface = &mut self.iface;
        self.dials.retain(|&id, &mut connect| {
            let Some(outcome) = iface.connect_outcome(connect) else { return true };
            let answer = match outcome {
                Ok(connected) => {
                    iface.disconnect(connected.ep);
                    Answer::Accepted(connected.private)
                }
                Err(TcpConnectError::Rejected { private }) => Answer::Rejected(private),
                Err(TcpConnectError::Failed(how)) => Answer::Failed(in_words(how).to_owned()),
                Err(error) => Answer::Failed(error.to_string()),
            };
            report(ConnectionManagerEvent::Outcome { id, answer });
            false
        });
    }

    fn add_to(&mut self, set: &mut WakeSet) -> Result<(), String> {
        let event = self.iface.event_fd().map_err(|error| error.to_string())?;
        set.add(event).map_err(|error| error.to_string())
    }

    fn arm(&mut self) -> bool {
        self.iface.arm(true) == Armed::Busy
    }

    fn disarm(&mut self) {
        self.iface.disarm();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to a request at `to`.
    fn answer(to: SocketAddr) -> Answer {
        let nothing: [(&str, &str); 0] = [];
        let config = Config::from_pairs(nothing, &[bowline_tcp::SETTINGS]).expect("no bad value");
        let mut manager = TcpConnectionManager::open(&config, [1; 32]).expect("there is a network");
        manager.dial(to, b"hello").expect("it begins");
        let mut answers = Vec::new();
        while answers.is_empty() {
            manager.progress(8, &mut |event| match event {
                ConnectionManagerEvent::Outcome { answer, .. } => answers.push(answer),
                ConnectionManagerEvent::Request { .. } => {}
            });
            std::thread::yield_now();
        }
        answers.remove(0)
    }

    #[test]
    fn a_request_that_nobody_hears_says_so() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let at = free.local_addr().expect("it is bound");
        drop(free);
        let Answer::Failed(why) = answer(at) else { panic!("nobody is there to answer") };
        assert!(why.starts_with("nobody listens there"), "{why}");
    }
}
