//! Transport over TCP, between ranks of one or several hosts.
//!
//! # Opening
//!
//! Every rank of a job opens an interface with the job's secret, which its launcher hands out, and
//! gives the address to its peers by any means:
//!
//! ```
//! use bowline_tcp::{TcpIface, TcpOptions};
//! use bowline_uct::Iface as _;
//!
//! let secret = [7; 32]; // from the launcher
//! let mut a = TcpIface::open(TcpOptions::with_secret(secret))?;
//! let b = TcpIface::open(TcpOptions::with_secret(secret))?;
//! let ep = a.connect(&b.address())?; // made by the progress of both
//! for route in a.explain(&b.address())? {
//!     println!("{route}"); // + lo 127.0.0.1 to 127.0.0.1:34567: loopback: the peer is on this host
//! }
//! # let _ = ep;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What moves how
//!
//! One connection for each pair of interfaces, made on first use by the first to send; when both
//! are, one of the two attempts wins and nothing is lost. A post goes to the kernel in the call;
//! what the kernel does not take waits in a bounded queue. Payload of puts and of the answers to
//! gets goes straight to its place. Puts, gets and atomics are carried out by the target's
//! progress, in the order of the stream.
//!
//! # Who may connect
//!
//! A peer that proves, both ways, that it knows the secret; before that a connection is a few hundred
//! bytes and a place in a bounded list. It is a proof of who opened the connection, not
//! encryption.
//!
//! # Failures
//!
//! The end of a stream without a goodbye is a death. The kernel's probes notice a host that has
//! fallen silent after `BOWLINE_TCP_TIMEOUT`, whatever its ranks are doing. A process that was
//! forked and keeps its parent's descriptors keeps the parent's connections alive.
//!
//! # Zero copy by the kernel
//!
//! `MSG_ZEROCOPY` is not used: on loopback and between network namespaces the kernel copies all
//! the same (its documentation says so), and pays for the pinning on top. io_uring is not used
//! either; `docs/decisions/0008-sockets-by-system-calls.md` has the figures.
//!
//! # Cleanup
//!
//! Dropping the interface brings out what was posted (for at most `BOWLINE_TCP_LINGER`) and says
//! goodbye: peers see [`PeerFailure::Closed`](bowline_uct::PeerFailure::Closed).

mod addr;
mod auth;
mod closing;
mod connect;
mod contract;
mod failure;
mod frame;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod handshake;
mod handshake_steps;
mod hello;
mod iface;
mod interfaces;
mod listener;
mod listening;
mod md;
mod options;
mod peer;
mod post;
mod progress;
mod queue;
mod receive;
mod receiver;
mod serve;
mod socket;
mod watcher;

#[cfg(test)]
mod tests;

pub use hello::MAX_PRIVATE;
pub use iface::{TcpCounters, TcpIface};
pub use interfaces::{RouteChoice, interfaces};
pub use listening::{
    ConnectId, Connected, TcpConnectError, TcpListenerId, TcpRequest, TcpRequestId,
};
pub use options::{
    CONNECT_TIMEOUT, HANDSHAKE_TIMEOUT, HANDSHAKES, INTERFACES, LINGER, MAX_BCOPY, PORTS, QUEUE,
    RCVBUF, SETTINGS, SNDBUF, TIMEOUT, TcpOptions,
};
