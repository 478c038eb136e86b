//! What listeners and connections by socket address are: their names, states and outcomes.
//!
//! What an interface does with them is in [`crate::listener`].

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use bowline_uct::{EpId, PeerFailure};

/// A listener of an interface.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) fd: OwnedFd,
    pub(crate) at: SocketAddr,
    pub(crate) loopback: bool,
    /// For requests by socket address, and not in the interface's own address.
    pub(crate) user: bool,
    /// Clients cannot be served now: epoll does not watch it, so that its connections keep
    /// nobody from sleep, and the timer tries again.
    pub(crate) paused: bool,
}

impl Listening {
    pub(crate) const fn new(fd: OwnedFd, at: SocketAddr, loopback: bool, user: bool) -> Self {
        Self { fd, at, loopback, user, paused: false }
    }
}

/// A listener made by [`crate::TcpIface::listen`]; its number is never another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpListenerId(pub u32);

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpRequestId {
    pub(crate) index: u32,
    pub(crate) number: u64,
}

/// Somebody who knows the job's secret wants to be connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpRequest {
    /// Names it in the answer.
    pub id: TcpRequestId,
    /// Where it came in.
    pub listener: TcpListenerId,
    /// Whence it came.
    pub from: SocketAddr,
    /// What the client sent along.
    pub private: Vec<u8>,
}

/// A connection asked for by [`crate::TcpIface::connect_to`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectId {
    pub(crate) index: u32,
    pub(crate) serial: u64,
}

/// A request that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// The endpoint.
    pub ep: EpId,
    /// What the server sent along.
    pub private: Vec<u8>,
}

/// Why a request led to no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TcpConnectError {
    /// The server's user said no, or nobody listens for requests there.
    #[error("the server rejected the request")]
    Rejected {
        /// What the server sent along.
        private: Vec<u8>,
    },
    /// The server cannot be reached, ended, or does not know the secret.
    #[error("the request was not answered: {0}")]
    Failed(PeerFailure),
    /// The name is unknown, or its outcome was taken before.
    #[error("no such request is under way")]
    NoSuch,
}

/// Outcomes that nobody took yet, by the peer's serial.
pub(crate) type Outcomes = HashMap<u64, Result<Vec<u8>, TcpConnectError>>;
