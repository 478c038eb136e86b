//! What the engine wants posted once the lane that it was called from has returned.

use std::collections::VecDeque;

use bowline_base::slab::Key;
use bowline_uct::{MemHandle, PeerFailure, RkeyId};

use crate::peer::PeerIndex;
use crate::protocol::Protocol;

/// Something to do outside of a lane's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make an endpoint back to a peer that said hello.
    Connect(PeerIndex),
    /// Go on with a request by the protocol that moves its message.
    Run(Key),
    /// Go on with what belongs to no single request of a protocol.
    Poll(&'static Protocol),
    /// Report to a sender that its synchronous message was matched or its buffer read.
    Acknowledge {
        /// The sender.
        peer: PeerIndex,
        /// Its request, as it named it.
        request: u64,
    },
    /// Report to a sender that its message cannot be received.
    Refuse {
        /// The sender.
        peer: PeerIndex,
        /// Its request, as it named it.
        request: u64,
        /// The outcome as the ACK has it.
        outcome: u64,
    },
    /// Close a key that a failed message leaves.
    CloseKey {
        /// The lane that it was opened on.
        lane: u32,
        /// Which.
        rkey: RkeyId,
    },
    /// Ask a peer to give back a message that has just left wholly, since it is cancelled.
    PostSendCancel(Key),
    /// Free a detached request that a signal handler has completed.
    End(Key),
    /// Give eager credit back.
    Credit(PeerIndex),
    /// Send SELECT: how messages of a class are to come.
    Select {
        /// The sender.
        peer: PeerIndex,
        /// Which choice.
        place: u8,
        /// In pieces, else as an offer.
        eager: bool,
    },
    /// Try what waits for this peer's lane again.
    Resume(PeerIndex),
    /// Fill receives of a peer's stream.
    FeedStream(PeerIndex),
    /// Try sends of a stream again that were without credit.
    Unpark(PeerIndex),
    /// Do what peers ask for on memory of this worker.
    ServeRemotes,
    /// Post more pieces of operations that a peer carries out on its memory.
    PostEmulated(PeerIndex),
    /// Try the one-sided operations that wait for space again.
    ResumeOneSided,
    /// Something ended that closings of endpoints may have waited for.
    StepClosings,
    /// A lane to this peer has failed: take in what the peer sent by others, then take it for failed. For progress alone.
    Lost {
        /// Which.
        peer: PeerIndex,
        /// How.
        how: PeerFailure,
    },
    /// A peer has closed: say farewell to it.
    Farewell(PeerIndex),
    /// Report to a peer that was rejected why.
    Notice(PeerIndex),
    /// Let go of the endpoint of a transport to a peer that has failed.
    LetGo(PeerIndex),
    /// A peer has more eager payload here than it was granted.
    Overrun(PeerIndex),
    /// The entries of what came unasked exceed their limit.
    EnforceEnvelopeLimit,
    /// A peer has answered the close of its endpoint.
    Closed(PeerIndex),
    /// Take a buffer back from the reads or writes of peers.
    Withdraw {
        /// The lane that it was lent on.
        lane: u32,
        memory: MemHandle,
    },
}

impl Action {
    /// The peer that it names itself, if it does; one that names a request is about that one's.
    pub(crate) const fn peer(&self) -> Option<PeerIndex> {
        match *self {
            Self::Connect(peer)
            | Self::Acknowledge { peer, .. }
            | Self::Refuse { peer, .. }
            | Self::Select { peer, .. }
            | Self::Lost { peer, .. }
            | Self::Credit(peer)
            | Self::Resume(peer)
            | Self::FeedStream(peer)
            | Self::Unpark(peer)
            | Self::PostEmulated(peer)
            | Self::Farewell(peer)
            | Self::Notice(peer)
            | Self::LetGo(peer)
            | Self::Overrun(peer)
            | Self::Closed(peer) => Some(peer),
            Self::Run(_)
            | Self::Poll(_)
            | Self::CloseKey { .. }
            | Self::PostSendCancel(_)
            | Self::End(_)
            | Self::ServeRemotes
            | Self::ResumeOneSided
            | Self::StepClosings
            | Self::EnforceEnvelopeLimit
            | Self::Withdraw { .. } => None,
        }
    }
}

/// Actions in order. The queue begins with space for one action per event of a progress call's budget and is drained
/// after every call, so that it grows only when arrivals ask for more than one each, and keeps what it has grown to.
#[derive(Debug)]
pub(crate) struct Actions(VecDeque<Action>);

impl Actions {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self(VecDeque::with_capacity(capacity))
    }

    #[inline]
    pub(crate) fn push(&mut self, action: Action) {
        self.0.push_back(action);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Action> {
        self.0.pop_front()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Action> {
        self.0.iter()
    }

    /// Makes space for `more` beside those that are there.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.0.reserve(more);
    }

    /// Whether `more` can be added without allocating.
    #[inline]
    pub(crate) fn has_capacity(&self, more: usize) -> bool {
        self.0.capacity() - self.0.len() >= more
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
