//! The registry of protocols, and the life that each of them has.
//!
//! A protocol is a value: its name, and its life (`Life`). Each has a file, with what it costs, its part of a request
//! as one state type for each side (`Receiving`, `Sending`), and what it does with its messages. What is common to
//! all knows none of them by name: actions, failures, cancelling, closing, queries and signal-safe progress ask the
//! protocol of a request. So a new protocol is its own file and a line of the registry.
//!
//! ```text
//!               receiver                                          sender
//!   a choice by cost: probe ([`table`])            ──── offers the message (RTS) ────
//!   can, start ([`rendezvous`]) ─► Receiver state    its message: on_message ─► Sender state
//!   Action::Run: receive                             Action::Run: send
//!   its message: on_message                          room in the lane: Sending::post
//!   transport: on_completion                         transport: on_completion
//!   abort, peer fails: Receiving::{abort, ends_with}   closing: stop; peer fails: Sending::in_flight
//!                        Action::Poll: what belongs to no single request
//! ```
//! Rules. (1) A message is received by one protocol at a time; before one has started, and after one was refused, by
//! none. (2) A state says itself whether its request may end: not while the transport or the peer may read or write its
//! buffer. (3) What the state has opened or lent is named by it, and given back by whatever ends the request. (4) A
//! method whose name ends in `signal_safe` runs in a signal handler: it allocates and frees nothing, and what it does not
//! do is done by the next ordinary call.

pub(crate) mod coop;
pub(crate) mod eager;
pub(crate) mod fragments;
pub(crate) mod get;
pub(crate) mod one_sided;
pub(crate) mod put;
mod registry;
pub(crate) mod rendezvous;
pub(crate) mod rtr;
pub(crate) mod table;

use std::any::Any;
use std::fmt;

use bowline_base::buffer::SendBuf;
use bowline_base::slab::Key;
use bowline_model::cheapest::Line;
use bowline_uct::{AmId, Arrival, Iface, MemHandle, PeerFailure, PostError, RkeyId};

use crate::engine::Engine;
use crate::error::OpError;
use crate::lanes::Lane;
use crate::peer::{Peer, PeerIndex};
use crate::request::{Status, WaitsFor};
use crate::settings::RndvScheme;
use crate::worker::Inner;

pub use registry::ALL;
pub(crate) use registry::{Protocols, Receiver, Sender};
pub(crate) use rendezvous::Offer;
pub(crate) use table::Choices;
pub use table::{Conditions, Op, Range, SelectionContext, Table};

/// A protocol.
pub struct Protocol {
    pub(crate) name: &'static str,
    /// Whether an envelope goes first and the receiver has the data brought.
    pub(crate) rendezvous: bool,
    pub(crate) life: &'static dyn Life,
}

/// The life of one that has a price only: others post its messages.
pub(crate) struct Priced(pub(crate) Price);

/// What [`Life::probe`] does.
pub(crate) type Price = fn(Op, &SelectionContext<'_>) -> Option<(Line, u64, u64)>;

impl Protocol {
    const fn priced(name: &'static str, life: &'static Priced) -> Self {
        Self { name, rendezvous: false, life }
    }
}

impl Life for Priced {
    fn probe(&self, op: Op, context: &SelectionContext<'_>) -> Option<(Line, u64, u64)> {
        self.0(op, context)
    }
}

/// The life of a protocol. What a protocol has no part in does nothing.
pub(crate) trait Life: Sync {
    /// What it would cost for `op`, and for which sizes it can be used, from the first to the last; `None` when it cannot
    /// be used there, or is not chosen by cost.
    fn probe(&self, _: Op, _: &SelectionContext<'_>) -> Option<(Line, u64, u64)> {
        None
    }

    /// How many processors copy a message by it at the same time, where processors do.
    fn copiers(&self) -> f64 {
        1.0
    }

    /// The active messages that are its own.
    fn ids(&self) -> &'static [AmId] {
        &[]
    }

    /// One of them has come. `None`: no correct peer sends it.
    fn on_message(&self, _: &mut Engine, _: PeerIndex, _: &Arrival<'_>) -> Option<()> {
        None
    }

    /// The same. Whether it was taken; else it comes again.
    fn on_message_signal_safe(&self, _: &mut Engine, _: PeerIndex, _: &Arrival<'_>) -> bool {
        false
    }

    /// The transport has done with an operation of the request.
    fn on_completion(&self, _: &mut Engine, _: Key, _: Result<u64, PeerFailure>) {}

    /// Whether a setting asks for it before all others.
    fn is_asked_for(&self, _: RndvScheme) -> bool {
        false
    }

    /// Whether it can bring a message.
    fn can(&self, _: &mut Offer<'_>) -> bool {
        false
    }

    /// Begins to receive a message, after [`can`](Self::can). `false`: it cannot after all, and nothing has begun.
    fn start(&self, _: &mut Inner, _: Key) -> bool {
        false
    }

    /// The same, of a message of a ready peer that was read from before, in one piece, by the key of its whole memory.
    fn start_signal_safe(&self, _: &mut Inner, _: Key) -> bool {
        false
    }

    /// Goes on with a receive.
    fn receive(&self, _: &mut Inner, _: Key) {}

    /// The same. `copied`: whether this round of progress has copied a piece, of which there is one at most. Whether it
    /// is done with that.
    fn receive_signal_safe(&self, _: &mut Inner, _: Key, _copied: &mut bool) -> bool {
        false
    }

    /// Goes on with a send.
    fn send(&self, _: &mut Inner, _: Key) {}

    /// The endpoint of a send is closed by force: nothing more is done to memory of the peer.
    fn stop(&self, _: &mut Inner, _: Key) {}

    /// The user wants a receive back that the sender knows of.
    fn cancel(&self, _: &mut Engine, _: Key) {}

    /// Such a receive is to end.
    fn finish(&self, _: &mut Engine, _: Key, _: Status) {}

    /// A peer has failed, or has after a failure ended.
    fn on_peer_failure(&self, _: &mut Engine, _: PeerIndex, _: PeerFailure) {}

    /// Goes on with what belongs to no single request.
    fn poll(&self, _: &mut Inner) {}

    /// The same. Whether nothing of it is left.
    fn poll_signal_safe(&self, _: &mut Inner, _copied: &mut bool) -> bool {
        false
    }
}

/// A protocol's part of a receive: see [`Receiver`].
pub(crate) trait Receiving: fmt::Debug + Send + Any {
    fn protocol(&self) -> &'static Protocol;

    /// Bytes that the transport is reading.
    fn in_flight(&self) -> u64 {
        0
    }

    /// Whether the receive may end since its peer has failed in this way.
    fn ends_with(&self, _: PeerFailure) -> bool {
        self.in_flight() == 0
    }

    /// The receive is to fail. `false`: not yet; it will with this error as soon as it may, unless it succeeds before.
    fn abort(&mut self, _: OpError) -> bool {
        self.in_flight() == 0
    }

    /// The buffer as it is lent to the sender, and on which lane.
    fn lent(&self) -> Option<(u32, MemHandle)> {
        None
    }

    /// The worker ends: whether the sender, which has failed as `how` says or lives, may write to the buffer after that.
    fn is_written_after_end(&self, _: &Lane, _how: Option<PeerFailure>) -> bool {
        false
    }

    /// At most how many of so many bytes this side's processor has to copy yet, once it has begun.
    fn left_to_copy(&self, _wanted: u64) -> Option<u64> {
        None
    }

    /// How many bytes others have to move before the message is complete, if this side need do nothing.
    fn moved_by_others(&self, _: &Lane) -> Option<u64> {
        Some(self.in_flight()).filter(|&bytes| bytes > 0)
    }

    /// Whether others have completed the message without a word.
    fn is_settled(&self, _: &Lane) -> bool {
        false
    }
}

/// A protocol's part of a send: see [`Sender`].
pub(crate) trait Sending: fmt::Debug + Send + Any {
    fn protocol(&self) -> &'static Protocol;

    /// Posts more of the message as the lane has room. Whether nothing is awaited any more.
    fn post(
        &mut self,
        _: &mut dyn Iface,
        _: &mut Peer,
        _: &mut SendBuf,
    ) -> Result<bool, PostError> {
        Ok(false)
    }

    /// Whether the transport has operations that read the buffer, so that only its report ends the send.
    fn in_flight(&self) -> bool {
        false
    }

    /// Whether either side may be touching memory of the other.
    fn touches_memory(&self) -> bool {
        true
    }

    /// The key that it has opened.
    fn key(&self) -> Option<RkeyId> {
        None
    }

    /// Where the receiver's answer is noted, if it may come while the send goes on.
    fn answer(&mut self) -> Option<&mut Option<Result<(), OpError>>> {
        None
    }

    /// Bytes moved, and what it waits for.
    fn describe(&self) -> (u64, WaitsFor);
}

impl Protocol {
    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// A protocol is equal to itself alone.
impl PartialEq for Protocol {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Protocol {}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests;
