//! What the engine wants posted once the lane that it was called from has returned.

use std::collections::VecDeque;

use bowline_base::slab::Key;
use bowline_uct::MemHandle;

use crate::peer::PeerIndex;

/// Something to do outside of a lane's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make an endpoint back to a peer that said hello.
    Connect(PeerIndex),
    /// Fetch a rendezvous message into its receive request.
    Fetch(Key),
    /// Stream a rendezvous message whose receiver cannot fetch.
    Stream(Key),
    /// Tell a sender that its synchronous message was matched or its buffer read.
    Acknowledge {
        /// The sender.
        peer: PeerIndex,
        /// Its request, as it named it.
        request: u64,
    },
    /// Tell a sender that its message cannot be received.
    Refuse {
        /// The sender.
        peer: PeerIndex,
        /// Its request, as it named it.
        request: u64,
        /// The outcome as the ACK has it.
        outcome: u64,
    },
    /// Give eager credit back.
    Credit(PeerIndex),
    /// Try what waits for this peer's lane again.
    Resume(PeerIndex),
    /// Try the one-sided operations that wait for room again.
    ResumeOneSided,
    /// Take a send's buffer back from the reads of peers.
    Withdraw {
        /// The lane that it was lent on.
        lane: u32,
        /// Its handle there.
        memory: MemHandle,
    },
}

/// Actions in order. The ring has room for one action per event of a progress call's budget and
/// is drained after every call, so that it grows only when one arrival asks for two.
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

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
