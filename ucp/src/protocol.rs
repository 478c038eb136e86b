//! What a protocol is to those below it: its name and price, and its part of a request.
//!
//! A protocol has no code here. What it does is its life (`Life`, in the engine's module), which the table of a worker's
//! protocols finds by the protocol. So requests, lanes and actions name protocols, and know none.

pub(crate) mod eager;
pub(crate) mod one_sided;
pub(crate) mod table;

use std::any::Any;
use std::fmt;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_model::cheapest::Line;
use bowline_uct::{Iface, MemHandle, PeerFailure, PostError, RkeyId};

use crate::error::OpError;
use crate::peer::{Peer, PeerIndex};
use crate::status::WaitsFor;

pub(crate) use table::Choices;
pub use table::{Conditions, Op, ProtocolRange, SelectionContext, Table};

/// A protocol.
pub struct Protocol {
    pub(crate) name: &'static str,
    /// Whether an envelope goes first and the receiver has the data brought.
    pub(crate) rendezvous: bool,
    /// How many processors copy a message by it at the same time, where processors do.
    pub(crate) copiers: f64,
    pub(crate) price: Price,
}

/// What a protocol would cost for an operation, and for which sizes it can be used, from the first to the last; `None`
/// when it cannot be used there, or is not chosen by cost.
pub(crate) type Price = fn(Op, &SelectionContext<'_>) -> Option<(Line, u64, u64)>;

impl Protocol {
    /// One whose messages others post.
    pub(crate) const fn priced(name: &'static str, price: Price) -> Self {
        Self { name, rendezvous: false, copiers: 1.0, price }
    }

    /// One by which a message that was offered is received.
    pub(crate) const fn rendezvous(name: &'static str, price: Price) -> Self {
        Self { name, rendezvous: true, copiers: 1.0, price }
    }

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

/// A protocol's part of a receive, and how far that came. It is not asked while the transport reads for the receive.
pub(crate) trait Receiving: fmt::Debug + Send + Any {
    fn protocol(&self) -> &'static Protocol;

    /// Whether the receive may end since its peer has failed in this way.
    fn ends_with(&self, _: PeerFailure) -> bool {
        true
    }

    /// The receive is to fail. `false`: not yet; it will with this error as soon as it may, unless it succeeds before.
    fn abort(&mut self, _: OpError) -> bool {
        true
    }

    /// The buffer as it is lent to the sender, and on which lane.
    fn lent(&self) -> Option<(u32, MemHandle)> {
        None
    }

    /// The worker ends: whether the sender, which has failed as `how` says or lives, may write to the buffer after that.
    fn is_written_after_end(&self, _: &dyn Iface, _how: Option<PeerFailure>) -> bool {
        false
    }

    /// At most how many of so many bytes this side's processor has to copy yet, once it has begun.
    fn left_to_copy(&self, _wanted: u64) -> Option<u64> {
        None
    }

    /// How many bytes others have to move before the message is complete, if this side need do nothing.
    fn moved_by_others(&self, _: &dyn Iface) -> Option<u64> {
        None
    }

    /// Whether others have completed the message without a word.
    fn is_settled(&self, _: &dyn Iface) -> bool {
        false
    }
}

/// How far a send came that has posted what the lane took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendStep {
    /// Nothing is awaited any more.
    Complete,
    /// Its state says what is.
    Moving,
    /// All that goes unasked is with the peer, whose answer is awaited.
    Offered,
}

/// A protocol's part of a send: and how far that came.
pub(crate) trait Sending: fmt::Debug + Send + Any {
    fn protocol(&self) -> &'static Protocol;

    /// Posts more of the message, a header of the user's and a buffer, as the lane has space.
    fn post(
        &mut self,
        _: &mut dyn Iface,
        _: &mut Peer,
        _header: &[u8],
        _: &mut SendBuf,
    ) -> Result<SendStep, PostError> {
        Ok(SendStep::Moving)
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

    /// Whether the receiver has the message when it has answered, whatever this side has still to do.
    fn answer_is_enough(&self) -> bool {
        true
    }

    /// Bytes moved, and what it waits for.
    fn describe(&self) -> (u64, WaitsFor);
}

/// A protocol's part of a receive that a peer knows of before a message has met it. Who matches, cancels or fails such a
/// receive asks the life of its protocol.
pub(crate) trait Expecting: fmt::Debug + Send + Any {
    fn protocol(&self) -> &'static Protocol;

    fn peer(&self) -> PeerIndex;

    fn buffer(&self) -> &RecvBuf;

    fn buffer_mut(&mut self) -> &mut RecvBuf;

    /// What it waits for, where its peer has this rank in the job.
    fn describe(&self, rank: u32) -> String;

    /// The worker ends: whether the peer, which has failed as `how` says or lives, may write to the buffer after that.
    fn is_written_after_end(&self, _how: Option<PeerFailure>) -> bool {
        false
    }
}

impl dyn Expecting {
    /// The state of one protocol.
    pub(crate) fn state<T: Expecting>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The same, to change it.
    pub(crate) fn state_mut<T: Expecting>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

impl dyn Receiving {
    /// The state of one protocol.
    pub(crate) fn state<T: Receiving>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

impl dyn Sending {
    /// The state of one protocol.
    pub(crate) fn state<T: Sending>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}
