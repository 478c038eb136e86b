//! What the suite does not ask: handshakes, damage, both sides connecting at once, requests.

mod busy;
mod damage;
mod handshakes;
mod late;
mod requests;
mod storm;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bowline_uct::conformance::Watchdog;
use bowline_uct::conformance::harness::Recorder;
use bowline_uct::{AmId, EpId, Iface, PostError};

use crate::addr::Address;
use crate::auth::{self, Secret};
use crate::hello::{CHALLENGE_BYTES, CHALLENGE_SIGNED, Challenge, Hello, Purpose, encode_auth};
use crate::{TcpIface, TcpOptions};

const SECRET: [u8; 32] = [3; 32];
const ID: AmId = AmId::new(5);

fn watchdog(name: &'static str) -> Watchdog {
    Watchdog::start("tcp", name)
}

fn options() -> TcpOptions {
    TcpOptions::with_secret(SECRET)
}

/// An interface and what it has reported.
struct Side {
    iface: TcpIface,
    seen: Recorder,
}

impl Side {
    fn open(options: TcpOptions) -> Self {
        Self { iface: TcpIface::open(options).unwrap(), seen: Recorder::default() }
    }

    fn progress(&mut self) -> u32 {
        self.iface.progress(&mut self.seen, 16)
    }

    /// Its first place, at IPv4 loopback.
    fn place(&self) -> SocketAddr {
        let places = Address::parse(&self.iface.address()).unwrap().places;
        places.iter().find(|place| place.loopback && place.at.is_ipv4()).unwrap().at
    }

    fn uid(&self) -> u64 {
        self.iface.uid
    }

    fn post(&mut self, ep: EpId, number: u64) {
        while let Err(error) = self.iface.am_short(ep, ID, &[number, 0, 0], &[7; 20]) {
            assert_eq!(error, PostError::NoResource);
            self.progress();
        }
    }

    fn handshakes(&self) -> usize {
        self.iface.handshakes.iter().flatten().count()
    }
}

/// Rounds of progress until `done`; the watchdog ends what never does.
#[track_caller]
fn until(sides: &mut [&mut Side], mut done: impl FnMut(&mut [&mut Side]) -> bool) {
    while !done(sides) {
        let events: u32 = sides.iter_mut().map(|side| side.progress()).sum();
        if events == 0 {
            std::thread::yield_now();
        }
    }
}

/// Two interfaces; the first has an endpoint to the second.
fn pair() -> (Side, Side, EpId) {
    let (mut a, b) = (Side::open(options()), Side::open(options()));
    let ep = a.iface.connect(&b.iface.address()).unwrap();
    (a, b, ep)
}

/// That two interfaces still work with each other.
#[track_caller]
fn works(a: &mut Side, b: &mut Side) {
    let ep = a.iface.connect(&b.iface.address()).unwrap();
    let before = b.seen.messages.len();
    a.post(ep, 77);
    until(&mut [a, b], |sides| sides[1].seen.messages.len() > before);
    assert_eq!(b.seen.messages.pop().unwrap().header[0], 77);
}

/// A bare socket that plays a peer.
struct Raw {
    stream: TcpStream,
    uid: u64,
}

impl Raw {
    fn connect(to: &Side) -> Self {
        let stream = TcpStream::connect(to.place()).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self { stream, uid: 0xfeed }
    }

    fn say(&mut self, bytes: &[u8]) {
        // A handshake that was dropped meanwhile is what some tests are about.
        let _ = self.stream.write_all(bytes);
    }

    /// Reads `len` bytes while `other` makes progress; `None` when the stream ends before.
    fn hear(&mut self, other: &mut Side, len: usize) -> Option<Vec<u8>> {
        let (mut bytes, mut filled) = (vec![0; len], 0);
        while filled < len {
            other.progress();
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => return None,
                Ok(more) => filled += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(_) => return None,
            }
        }
        Some(bytes)
    }

    /// Waits until the stream ends.
    fn dropped(&mut self, other: &mut Side) {
        while self.hear(other, 1).is_some() {}
    }

    fn hello(&self, to: &Side) -> Hello {
        let (uid, wanted) = (self.uid, to.uid());
        Hello { nonce: [9; 32], uid, wanted, attempt: 1, purpose: Purpose::Peer }
    }

    /// The handshake up to and with AUTH.
    fn introduce(&mut self, to: &mut Side, hello: &Hello, secret: [u8; 32], private: &[u8]) {
        let hello = hello.encode();
        self.say(&hello);
        let challenge = self.hear(to, CHALLENGE_BYTES).expect("a hello is answered");
        let (said, mac) = Challenge::decode(&challenge).unwrap();
        assert_eq!(said.uid, to.uid());
        let signed = &challenge[..CHALLENGE_SIGNED];
        assert!(Secret::new(SECRET).verify(auth::SERVER, &[&hello, signed], mac));
        let front = encode_auth(private);
        let parts: [&[u8]; 4] = [&hello, &challenge, &front, private];
        let mac = Secret::new(secret).sign(auth::CLIENT, &parts);
        self.say(&[&front[..], &mac, private].concat());
    }

    /// A whole handshake.
    fn join(to: &mut Side) -> Self {
        let mut raw = Self::connect(to);
        raw.join_as(to);
        raw
    }

    /// The same by a connection that stands.
    fn join_as(&mut self, to: &mut Side) {
        let hello = self.hello(to);
        self.introduce(to, &hello, SECRET, &[]);
        let answer = self.hear(to, 56).expect("it knows the secret");
        assert_eq!(answer[8], 1, "welcome");
    }

    /// Asks the listener at `at`, whose user has not answered then.
    fn ask(&mut self, to: &mut Side, at: SocketAddr) {
        let linger = rustix::net::sockopt::socket_linger(&self.stream).unwrap();
        self.stream = TcpStream::connect(at).unwrap();
        self.stream.set_nonblocking(true).unwrap();
        rustix::net::sockopt::set_socket_linger(&self.stream, linger).unwrap();
        let mut hello = self.hello(to);
        (hello.wanted, hello.purpose) = (0, Purpose::Request);
        self.introduce(to, &hello, SECRET, b"private");
    }

    /// A request that is accepted.
    fn request(&mut self, to: &mut Side, at: SocketAddr) {
        self.ask(to, at);
        let mut request = None;
        until(&mut [to], |sides| {
            request = sides[0].iface.next_request();
            request.is_some()
        });
        to.iface.accept_request(request.expect("just seen").id, &[]).unwrap();
        let answer = self.hear(to, 56).expect("it was accepted");
        assert_eq!(answer[8], 1, "welcome");
    }
}
