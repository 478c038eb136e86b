//! What the books of the engine still have of a peer that goes, and how it is taken out.

use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmHeader, PeerFailure};

use super::{CloseMode, Flush};
use crate::action::Action;
use crate::engine::Engine;
use crate::error::OpError;
use crate::matching::MatchEngine as _;
use crate::peer::{NO_PEER, PeerIndex, PeerState, REJECTED};
use crate::protocol::Protocol;
use crate::request::{Body, RequestId, SendPhase};
use crate::status::OpStatus;
use crate::unexpected::Payload;

impl Engine {
    #[cold]
    pub(crate) fn disconnected(
        &mut self,
        index: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        if header[0] > 1 || header[1] != 0 || !payload.is_empty() {
            return None;
        }
        match self.peers[index as usize].state {
            PeerState::Closing => {
                // Forgotten at once: a fresh HELLO may come in the same progress.
                self.forget(index);
                self.actions.push(Action::Closed(index));
            }
            PeerState::Known | PeerState::Ready => {
                self.unbind(index);
                self.lose_peer(index, PeerFailure::Closed);
                self.peers[index as usize].state = PeerState::Leaving;
                self.actions.push(Action::Farewell(index));
            }
            PeerState::Leaving => return None,
            PeerState::Failed(_) => {}
        }
        Some(())
    }

    /// Whether our DISCONNECT is on its way to a peer.
    #[inline]
    pub(crate) fn is_closing(&self, index: PeerIndex) -> bool {
        self.peers[index as usize].state == PeerState::Closing
    }

    /// No message is this peer's any more.
    pub(super) fn unbind(&mut self, index: PeerIndex) {
        for table in &mut self.sources {
            let theirs = table.iter_mut().filter(|peer| [index, index | REJECTED].contains(peer));
            theirs.for_each(|peer| *peer = NO_PEER);
        }
    }

    /// As if it had never been met.
    pub(super) fn forget(&mut self, index: PeerIndex) {
        self.unbind(index);
        self.forget_uid(index);
    }

    /// The next contact with its worker is a first one.
    pub(crate) fn forget_uid(&mut self, index: PeerIndex) {
        let uid = self.peers[index as usize].address.uid;
        if self.by_uid.get(&uid) == Some(&index) {
            self.by_uid.remove(&uid);
        }
    }

    /// Ends the requests that wait for the close of an endpoint.
    pub(crate) fn end_close(&mut self, index: PeerIndex, how: PeerFailure) {
        let Some(end) = self.peers[index as usize].end.take() else { return };
        let outcome = match how {
            PeerFailure::Closed => Ok(()),
            _ if end.mode == CloseMode::Force => Ok(()),
            how => Err(how.into()),
        };
        if let Flush::Posted(key) = end.flush {
            // Its answer is nobody's.
            self.detach(RequestId(key));
        }
        for key in end.requests {
            self.finish(key, OpStatus { outcome, ..OpStatus::NONE });
        }
    }

    /// Whether something of a send is to be done yet, or something else waits to be posted.
    pub(super) fn sends_to(&self, index: PeerIndex) -> bool {
        !self.peers[index as usize].pending.is_empty()
            || self.requests.iter().any(|(_, request)| match &request.body {
                Body::Send(send) => !request.done && send.peer == index,
                _ => false,
            })
    }

    /// Whether this side reads memory of the peer, or may be writing to it.
    pub(super) fn touches(&self, index: PeerIndex) -> bool {
        self.requests.iter().any(|(_, request)| match &request.body {
            Body::Receive(receive) if !request.done => {
                receive.fetch.as_ref().is_some_and(|fetch| fetch.peer == index)
            }
            Body::Send(send) if !request.done => {
                let moving = match &send.phase {
                    SendPhase::Moving(sender) => sender.touches_memory(),
                    _ => false,
                };
                send.peer == index && moving
            }
            _ => false,
        })
    }

    pub(super) fn fetches_from(&self, index: PeerIndex) -> Vec<Key> {
        let requests = self.requests.iter().filter(|(_, request)| !request.done);
        let from = requests.filter(|(_, request)| match &request.body {
            Body::Receive(receive) => receive.fetch.as_ref().is_some_and(|f| f.peer == index),
            _ => false,
        });
        from.map(|(key, _)| key).collect()
    }

    /// The sends to a peer in which this side has still a part, and their protocols.
    pub(super) fn moving_to(&self, index: PeerIndex) -> Vec<(Key, &'static Protocol)> {
        let requests = self.requests.iter().filter(|(_, request)| !request.done);
        let moving = requests.filter_map(|(key, request)| match &request.body {
            Body::Send(send) if send.peer == index => Some((key, request.protocol()?)),
            _ => None,
        });
        moving.collect()
    }

    /// Ends sends to a peer. Those whose buffers it may be reading only with `exposed`.
    pub(super) fn cancel_sends(&mut self, index: PeerIndex, exposed: bool) {
        let requests = self.requests.iter().filter(|(_, request)| !request.done);
        let theirs = requests.filter(|(_, request)| match &request.body {
            Body::Send(send) => {
                let read = match &send.phase {
                    SendPhase::Moving(sender) => sender.touches_memory(),
                    SendPhase::Offered => send.rendezvous,
                    SendPhase::Queued { .. } => false,
                };
                // What the transport reads ends with its report.
                send.peer == index && !send.in_flight() && (exposed || !read)
            }
            _ => false,
        });
        let theirs: Vec<Key> = theirs.map(|(key, _)| key).collect();
        for key in theirs {
            self.fail(key, OpError::Cancelled);
        }
    }

    /// Drops the envelopes of messages that lie with a peer and that nobody has matched: they cannot
    /// be read any more.
    pub(super) fn drop_offers(&mut self, index: PeerIndex) {
        self.drop_unexpected(index, |payload| matches!(payload, Payload::Remote(_)));
    }

    /// Drops unexpected messages of a peer, by their payload.
    pub(crate) fn drop_unexpected(&mut self, index: PeerIndex, which: impl Fn(&Payload) -> bool) {
        let of_peer = self.unexpected.iter().filter(|(_, message)| message.peer == index);
        let lost: Vec<_> = of_peer
            .filter(|(_, message)| which(&message.payload))
            .map(|(key, message)| (key, message.space, message.source, message.tag))
            .collect();
        for (key, space, source, tag) in lost {
            let mut is_it = |value: u64| value == key.to_wire();
            let space = self.spaces.get_mut(space);
            let found = space.and_then(|s| s.engine.remove_unexpected(source, tag, &mut is_it));
            // One that a probe has claimed is in no queue: its receive finds it, or fails.
            if found.is_some() {
                self.remove_unexpected(key);
            }
        }
    }
}
