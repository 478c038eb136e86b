//! Connections by socket address: a server listens, a client asks with private data, the server
//! accepts or rejects with private data of its own.
//!
//! ```text
//!   client                                          server
//!                                                   listen(address)
//!   connect_addr(address, private) ──────────────►  next_request() = {from, private}
//!   dial_outcome(dial) = (endpoint, private) ◄────  accept(request, private) = endpoint
//!                      = rejected(private)   ◄────  reject(request, private)
//! ```
//! The two exchange the addresses of their workers, and no more: what they send each other then goes
//! over the best lane, shared memory where they are on one host. The exchange itself is an
//! [`ConnectionManager`]'s, which the worker is given and polls now and then: ucp has no socket.
//!
//! What comes from an unauthenticated client is bounded and checked: [`Introduction`] by itself, the number of
//! such clients and their time by the connection manager.
//!
//! An endpoint made so is one like any other: `close` notifies the other side.

use core::net::SocketAddr;
use std::collections::HashMap;

use bowline_base::doorbell::WakeSet;
use bowline_uct::{AddrReader, AddrWriter};
use thiserror::Error;

use crate::error::ConnectError;

/// In front of the private data of both sides.
const MAGIC: u32 = u32::from_le_bytes(*b"BWLI");
const VERSION: u16 = 1;

/// A listener, as the connection manager numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// A request to a listener, as the connection manager numbers it; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IncomingId(pub u64);

/// A request of ours, as the connection manager numbers it; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DialId(pub u64);

/// What a connection manager reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionManagerEvent {
    /// Somebody asks.
    Request {
        /// Names it in the answer.
        id: IncomingId,
        /// Where it came in.
        listener: ListenerId,
        /// Whence it came.
        from: SocketAddr,
        /// What came along.
        data: Vec<u8>,
    },
    /// A request of ours was answered, or failed.
    Outcome {
        /// Which.
        id: DialId,
        /// What was answered.
        answer: Answer,
    },
}

/// How a request of ours ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Accepted, with this data.
    Accepted(Vec<u8>),
    /// Rejected, with this data.
    Rejected(Vec<u8>),
    /// Not answered; why.
    Failed(String),
}

/// Who carries requests between hosts. It has to bound what unauthenticated clients cost, in number, bytes and time.
pub trait ConnectionManager: Send {
    /// Most bytes that a request and an answer carry.
    fn max_data(&self) -> usize;
    /// Listens at `at`; port 0 takes any. Returns where.
    fn listen(&mut self, at: SocketAddr) -> Result<(ListenerId, SocketAddr), String>;
    /// Ends that.
    fn close_listener(&mut self, listener: ListenerId);
    /// Asks the listener at `to`.
    fn dial(&mut self, to: SocketAddr, data: &[u8]) -> Result<DialId, String>;
    /// Answers a request. An error says that the client has given up.
    fn answer(&mut self, id: IncomingId, accept: bool, data: &[u8]) -> Result<(), String>;
    /// Makes progress: at most `budget` events are handed to `report`.
    fn progress(&mut self, budget: u32, report: &mut dyn FnMut(ConnectionManagerEvent));
    /// Adds what becomes readable when there may be events.
    fn add_to(&mut self, set: &mut WakeSet) -> Result<(), String>;
    /// Prepares for sleep; whether there are events already.
    fn arm(&mut self) -> bool;
    /// The sleeper is awake.
    fn disarm(&mut self);
}

/// Why a request by socket address came to nothing.
#[derive(Error)]
#[non_exhaustive]
pub enum DialError {
    /// The worker has no connection manager.
    #[error(
        "this worker was given nothing to listen or dial with; give it a connection manager first"
    )]
    NoConnectionManager,
    /// Too much private data.
    #[error("{given} bytes of private data exceed the {limit} that a request may carry")]
    TooLong {
        /// What was given.
        given: usize,
        /// What fits beside the worker's address.
        limit: usize,
    },
    /// The connection manager's reason.
    #[error("cannot {act}: {reason}")]
    ConnectionManager {
        /// What was tried.
        act: &'static str,
        /// Why not.
        reason: String,
    },
    /// The server said no.
    #[error("the server rejected the request")]
    Rejected {
        /// What it sent along.
        private: Vec<u8>,
    },
    /// The server cannot be reached, or ended.
    #[error("the request was not answered: {0}")]
    Failed(String),
    /// What the other side sent is no introduction.
    #[error("the other side's introduction is damaged, or of another version")]
    Damaged,
    /// No such request.
    #[error("no such request: it was answered, or its outcome taken, before")]
    NoSuch,
    /// No transport leads to the other side.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

bowline_base::debug_by_display!(DialError);

/// A request that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionRequest {
    /// Names it in the answer.
    pub id: IncomingId,
    /// Where it came in.
    pub listener: ListenerId,
    /// Whence it came.
    pub from: SocketAddr,
    /// What the client sent along.
    pub private: Vec<u8>,
}

/// What both sides send first: the address of a worker, and private data.
///
/// Layout (little endian): magic `BWLI`, version u16, the address with a 16-bit length, the rest is
/// private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Of the worker.
    pub address: Vec<u8>,
    /// The user's.
    pub private: Vec<u8>,
}

impl Introduction {
    /// Bytes beside address and private data.
    pub const FIXED: usize = 8;

    /// The bytes that travel.
    pub fn pack(&self) -> Vec<u8> {
        let mut writer = AddrWriter::new();
        writer.u32(MAGIC).u16(VERSION).bytes(&self.address);
        let mut out = writer.finish();
        out.extend_from_slice(&self.private);
        out
    }

    /// Reads bytes of an unauthenticated client; `None` for those that are no introduction.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = AddrReader::new(bytes);
        if reader.u32().ok()? != MAGIC || reader.u16().ok()? != VERSION {
            return None;
        }
        let address = reader.bytes().ok()?.to_vec();
        let private = bytes.get(Self::FIXED + address.len()..)?.to_vec();
        Some(Self { address, private })
    }
}

/// What a worker knows of requests.
#[derive(Default)]
pub(crate) struct Introductions {
    pub(crate) manager: Option<Box<dyn ConnectionManager>>,
    /// Requests that nobody has asked for yet.
    pub(crate) incoming: std::collections::VecDeque<ConnectionRequest>,
    /// Addresses of clients that wait for their answer.
    pub(crate) waiting: HashMap<IncomingId, Vec<u8>>,
    /// Our own requests; an answer once there is one.
    pub(crate) dials: HashMap<DialId, Option<Answer>>,
}

impl std::fmt::Debug for Introductions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Introductions")
            .field("waiting", &self.waiting.len())
            .field("dials", &self.dials.len())
            .finish_non_exhaustive()
    }
}

impl Introductions {
    /// Most events in one poll.
    const BUDGET: u32 = 64;

    /// Most requests that wait for the user to ask for them; others are rejected.
    const WAITING: usize = 4096;

    /// Polls the connection manager; returns how many events there were.
    pub(crate) fn poll(&mut self) -> u32 {
        let Self { manager: Some(manager), incoming, waiting, dials } = self else {
            return 0;
        };
        let mut refused = Vec::new();
        let mut count = 0;
        manager.progress(Self::BUDGET, &mut |event| {
            count += 1;
            match event {
                ConnectionManagerEvent::Request { id, listener, from, data } => match Introduction::parse(&data) {
                    Some(_) if incoming.len() >= Self::WAITING => refused.push(id),
                    Some(Introduction { address, private }) => {
                        waiting.insert(id, address);
                        incoming.push_back(ConnectionRequest { id, listener, from, private });
                    }
                    None => {
                        tracing::warn!(%from, "the introduction of an unauthenticated client is damaged");
                        refused.push(id);
                    }
                },
                ConnectionManagerEvent::Outcome { id, answer } => {
                    dials.insert(id, Some(answer));
                }
            }
        });
        for id in refused {
            // It may have given up by itself.
            let _ = manager.answer(id, false, &[]);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_bytes_of_an_introduction() {
        let introduction = Introduction { address: vec![1, 2, 3], private: vec![9, 8] };
        let bytes = [b'B', b'W', b'L', b'I', 1, 0, 3, 0, 1, 2, 3, 9, 8];
        assert_eq!(introduction.pack(), bytes);
        assert_eq!(Introduction::parse(&bytes), Some(introduction));
        for cut in 0..11 {
            assert_eq!(Introduction::parse(&bytes[..cut]), None, "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(introduction) = Introduction::parse(&bytes) {
                prop_assert_eq!(introduction.pack(), bytes);
            }
        }

        #[test]
        fn introductions_survive(
            address in proptest::collection::vec(any::<u8>(), 0..300),
            private in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let introduction = Introduction { address, private };
            prop_assert_eq!(Introduction::parse(&introduction.pack()), Some(introduction));
        }
    }
}
