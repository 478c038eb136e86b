//! A peer and the connection to it.
//!
//! ```text
//!              connect                 handshake done            error, end of stream, BYE
//!   (none) ──────────────► Connecting ───────────────► Open ─────────────────────────────► Failed
//!      │                        │                        ▲                                    ▲
//!      │                        └── no route leads there ┼────────────────────────────────────┘
//!      └───── the peer connected to us ──────────────────┘
//! ```
//!
//! 1. A peer is one interface elsewhere, known by its uid, and has one connection, which both
//!    directions share. Its number is the number of its endpoint and of its source.
//! 2. `has_ep` is set by `connect` and cleared by `disconnect`. A connection outlives its endpoint,
//!    since the peer may use it and since it may be wanted again; it ends with either interface.
//! 3. Peers that met by a socket address (`by_request`) are an exception: each request makes a
//!    connection of its own, which ends with its endpoint.
//! 4. A failed peer stays failed. Its number is not given out again; a later connection with the
//!    same interface makes a new peer.
//! 5. In `Open` the queue is only left non-empty while `blocked` is set: then the kernel says when
//!    there is space.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use bowline_uct::runtime::CompletionOf;
use bowline_uct::{LocalSlice, PeerFailure, PostError, Token};

use crate::addr::Address;
use crate::frame::MAX_REQUESTS;
use crate::queue::SendQueue;

/// Where a peer stands; see the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Connecting,
    Open,
    Failed(PeerFailure),
}

/// Something that we asked a peer for. Answers come in the order of asking.
#[derive(Debug)]
pub(crate) enum Request {
    /// Bytes of its memory, of which `filled` have come.
    Get { token: Token, pieces: Vec<LocalSlice>, filled: usize, len: usize },
    /// An atomic's old value.
    Old { token: Token },
    /// Word that it has done everything before.
    Flush { waiter: CompletionOf },
}

// SAFETY: the pieces of a get are only written by system calls and copies of the interface that
// owns the request, on whatever thread it lives, and their owner keeps them until the token was
// reported.
unsafe impl Send for Request {}

/// Payload on its way that goes where it belongs without being held first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direct {
    /// Into memory that the peer named. Searched for again at each step, since it may be released.
    Put { handle: u64, address: u64, left: usize },
    /// Into the pieces of the first request.
    Get { left: usize },
    /// Nowhere: the memory is gone.
    Discard { left: usize },
}

impl Direct {
    pub(crate) const fn left(&self) -> usize {
        match *self {
            Self::Put { left, .. } | Self::Get { left } | Self::Discard { left } => left,
        }
    }

    /// Notes that `more` bytes have come.
    pub(crate) const fn came(&mut self, more: usize) {
        match self {
            Self::Put { address, left, .. } => {
                *address += more as u64;
                *left -= more;
            }
            Self::Get { left } | Self::Discard { left } => *left -= more,
        }
    }
}

/// A connection on its way.
#[derive(Debug)]
pub(crate) struct Connecting {
    /// The peer's address, where it has one: routes to it are searched for again.
    pub(crate) address: Option<Address>,
    /// Where the peer may listen, best first.
    pub(crate) places: Vec<SocketAddr>,
    /// The place that is tried now.
    pub(crate) at: usize,
    /// The handshake that is under way.
    pub(crate) handshake: Option<u32>,
    /// When all of it must be done.
    pub(crate) deadline: Instant,
    /// Until when a peer that cannot be reached is tried again.
    pub(crate) reach_until: Instant,
    /// When to try again, after a pause.
    pub(crate) again: Option<Instant>,
    /// Pauses that were made.
    pub(crate) tries: u32,
    /// Private data of a request.
    pub(crate) private: Vec<u8>,
    /// What the places that failed said of the peer.
    pub(crate) how: PeerFailure,
    /// Whether one of the places that failed may be reached later.
    pub(crate) passes: bool,
}

/// A peer; see the module's text.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) uid: u64,
    /// Distinguishes it from others that had its number before.
    pub(crate) serial: u64,
    pub(crate) state: State,
    pub(crate) has_ep: bool,
    pub(crate) by_request: bool,
    /// Its address says that it runs on this machine.
    pub(crate) near: bool,
    /// The kernel had no space, and says when it has.
    pub(crate) blocked: bool,
    /// Something was posted whose arrival a flush has to wait for.
    pub(crate) unflushed: bool,
    /// The failure was reported to the layer above.
    pub(crate) reported: bool,
    /// Sending failed: what the peer has said before is read, then it fails.
    pub(crate) broken: Option<PeerFailure>,
    /// Since when the endpoint of a request's peer is closed: ends when the queue is empty and the other
    /// side has ended too, or does not for too long.
    pub(crate) closing: Option<Instant>,
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) queue: SendQueue,
    pub(crate) requests: VecDeque<(u32, Request)>,
    pub(crate) next_request: u32,
    /// The beginning of a frame whose rest has not come, while others use the receive buffer.
    pub(crate) tail: Vec<u8>,
    pub(crate) direct: Option<Direct>,
    pub(crate) connecting: Option<Box<Connecting>>,
    /// Since when the kernel asks the peer's kernel in vain.
    pub(crate) in_vain: Option<Instant>,
    /// Attempts of the peer up to this number mean nothing any more.
    pub(crate) attempt: u64,
}

impl Peer {
    pub(crate) fn new(uid: u64, state: State) -> Self {
        Self {
            uid,
            serial: 0,
            state,
            has_ep: false,
            by_request: false,
            near: false,
            blocked: false,
            unflushed: false,
            reported: false,
            broken: None,
            closing: None,
            socket: None,
            queue: SendQueue::default(),
            requests: VecDeque::new(),
            next_request: 0,
            tail: Vec::new(),
            direct: None,
            connecting: None,
            in_vain: None,
            attempt: 0,
        }
    }

    /// Whether an operation may be posted.
    #[inline]
    pub(crate) const fn check(&self) -> Result<(), PostError> {
        if !self.has_ep {
            return Err(PostError::BadEndpoint);
        }
        if matches!(self.state, State::Failed(_)) || self.broken.is_some() {
            return Err(PostError::PeerFailed);
        }
        Ok(())
    }

    /// The socket, where the kernel may take bytes at once.
    #[inline]
    pub(crate) fn ready_socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.socket {
            Some(socket) if !self.blocked && self.broken.is_none() => Some(socket.as_fd()),
            _ => None,
        }
    }

    /// Whether a flush has to ask the peer. Messages too are to be out of our hands when it is
    /// answered, and what lies in the queue leaves only while there is progress.
    pub(crate) fn has_to_flush(&self) -> bool {
        self.unflushed || !self.queue.is_empty()
    }

    /// Whether an endpoint that asked may be reported as writable.
    pub(crate) fn has_space(&self) -> bool {
        !self.blocked && self.queue.is_empty() && self.requests.len() < MAX_REQUESTS
    }

    /// The number of a new request, or none while too many have no answer.
    pub(crate) fn ask(&mut self, request: Request) -> u32 {
        let number = self.next_request;
        self.next_request = number.wrapping_add(1);
        self.requests.push_back((number, request));
        number
    }

    /// Bytes of memory that the peer takes, without the kernel's.
    pub(crate) fn held(&self) -> usize {
        size_of::<Self>()
            + self.queue.held()
            + self.tail.capacity()
            + self.requests.capacity() * size_of::<(u32, Request)>()
    }
}
