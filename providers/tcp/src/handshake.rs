//! Handshakes: connections whose peers have not proved yet that they know the secret.
//!
//! ```text
//!   client   Reaching ──► Challenge ──► Answer ──► a peer's connection
//!   server   Hello ──► Auth ──► (User, for requests) ──► a peer's connection
//! ```
//!
//! What the messages are is in [`crate::hello`], what they prove in [`crate::auth`], who wins
//! when both sides connect at once in [`crate::connect`], and what an interface does with its
//! handshakes in [`crate::handshake_steps`].
//!
//! A handshake costs a descriptor and at most one message of memory, and has a limited time. There
//! is a limited number of them; when it is reached, those that have been silent longest are dropped.
//! A peer that loses its place, for instance because it computes, tries again.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;

use crate::auth::MAC_BYTES;
use crate::hello::{self, BadHello, CHALLENGE_BYTES, HELLO_BYTES, Hello, Kind, PREFIX_BYTES};
use crate::socket;

/// What is due next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The kernel connects.
    Reaching,
    /// A message of the handshake.
    Await(Kind),
    /// The user's decision.
    User,
}

/// Which side of the handshake we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client { peer: u32 },
    Server { listener: u32, from: SocketAddr },
}

/// A connection whose peer has not proved yet that it knows the secret.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) socket: OwnedFd,
    pub(crate) stage: Stage,
    pub(crate) role: Role,
    /// Names it for the user, who may decide too late.
    pub(crate) number: u64,
    pub(crate) since: Instant,
    /// The message that is coming in, and its length.
    pub(crate) buffer: Vec<u8>,
    need: usize,
    pub(crate) hello: [u8; HELLO_BYTES],
    pub(crate) challenge: [u8; CHALLENGE_BYTES],
    pub(crate) auth: [u8; MAC_BYTES],
    /// Private data of a request.
    pub(crate) private: Vec<u8>,
}

/// How far the message at hand has come.
pub(crate) enum Filled {
    Whole,
    Part,
    Gone,
    Bad(BadHello),
}

impl Handshake {
    pub(crate) fn client(socket: OwnedFd, peer: u32, hello: &Hello) -> Self {
        let role = Role::Client { peer };
        Self::new(socket, Stage::Reaching, role, hello.encode())
    }

    pub(crate) fn server(socket: OwnedFd, listener: u32, from: SocketAddr) -> Self {
        let role = Role::Server { listener, from };
        Self::new(socket, Stage::Await(Kind::Hello), role, [0; HELLO_BYTES])
    }

    fn new(socket: OwnedFd, stage: Stage, role: Role, hello: [u8; HELLO_BYTES]) -> Self {
        Self {
            socket,
            stage,
            role,
            number: 0,
            since: Instant::now(),
            buffer: Vec::new(),
            need: PREFIX_BYTES,
            hello,
            challenge: [0; CHALLENGE_BYTES],
            auth: [0; MAC_BYTES],
            private: Vec::new(),
        }
    }

    /// Receives up to the end of the message at hand, never beyond: frames may follow it.
    pub(crate) fn fill(&mut self, kind: Kind) -> Filled {
        loop {
            if self.buffer.len() == self.need {
                if self.need > PREFIX_BYTES {
                    return Filled::Whole;
                }
                let prefix = self.buffer.first_chunk().expect("as long as a prefix");
                match hello::length(kind, prefix) {
                    Ok(len) => self.need = len,
                    Err(bad) => return Filled::Bad(bad),
                }
            }
            let mut bytes = [0; 256];
            let most = (self.need - self.buffer.len()).min(bytes.len());
            // SAFETY: `most` bytes of the array are writable.
            let got = unsafe { socket::receive(self.socket.as_fd(), bytes.as_mut_ptr(), most) };
            match got {
                Ok(0) => return Filled::Gone,
                Ok(got) => self.buffer.extend_from_slice(&bytes[..got]),
                Err(Errno::AGAIN) => return Filled::Part,
                Err(Errno::INTR) => {}
                Err(_) => return Filled::Gone,
            }
        }
    }

    /// Waits for the next message.
    pub(crate) fn expect(&mut self, kind: Kind) {
        self.stage = Stage::Await(kind);
        self.buffer.clear();
        self.need = PREFIX_BYTES;
    }

    /// Sends a message whole. A fresh connection has space for it.
    pub(crate) fn say(&self, parts: &[&[u8]]) -> Result<(), Errno> {
        let message = parts.concat();
        match socket::send(self.socket.as_fd(), &message)? {
            sent if sent == message.len() => Ok(()),
            _ => Err(Errno::NOBUFS),
        }
    }

    /// The client's first message, once it is known.
    pub(crate) fn hello(&self) -> Option<Hello> {
        Hello::decode(&self.hello).ok()
    }
}
