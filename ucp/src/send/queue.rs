//! What waits for a peer, in order: for its connection, for space in its lane, for credit.

use bowline_base::slab::Key;
use bowline_uct::{PeerFailure, PostError};

use super::Post;
use crate::engine::Inner;
use crate::error::{ConnectError, OpError};
use crate::peer::{PeerIndex, PeerState, Pending};
use crate::post;
use crate::request::{Body, Request, SendKind, send_of};
use crate::status::OpStatus;
use crate::unexpected::INLINE;
use crate::wire::{self, MessageId};

impl Inner {
    /// Makes the endpoint to a peer and greets it, if that was not done yet.
    pub(crate) fn ready(&mut self, index: PeerIndex) -> Result<(), OpError> {
        let peer = self.engine.peers.get(index as usize).ok_or(OpError::BadEndpoint)?;
        match peer.state {
            PeerState::Ready => Ok(()),
            PeerState::Failed(how) => Err(how.into()),
            PeerState::Closing => Err(OpError::EndpointClosed),
            PeerState::Leaving => Err(PeerFailure::Closed.into()),
            PeerState::Known => self.establish(index),
        }
    }

    #[cold]
    fn establish(&mut self, index: PeerIndex) -> Result<(), OpError> {
        let address = self.engine.peers[index as usize].address.clone();
        let route = self.route(&address);
        let peer = &mut self.engine.peers[index as usize];
        let (lane, ep) = match route {
            Ok(route) => route,
            Err(error) => {
                // A peer that is gone is no fault of the path to it: one that has ended in order may still be sent what
                // it does not need, such as a wake-up.
                let how = if let ConnectError::PeerFailed { how, .. } = error {
                    tracing::debug!(rank = peer.address.rank, %how, "a peer is gone");
                    how
                } else {
                    tracing::warn!(rank = peer.address.rank, %error, "no transport reaches a peer");
                    PeerFailure::Unreachable
                };
                self.engine.fail_peer(index, how);
                return Err(how.into());
            }
        };
        peer.state = PeerState::Ready;
        let longest = self.lanes[lane].iface.attr().limits.am.max_short.min(INLINE);
        peer.longest_short = longest as i32;
        self.engine.bind_ep(index, lane, ep);
        self.watch_over(index);
        let peer = &mut self.engine.peers[index as usize];
        let payload = self.own_address.clone();
        peer.queue_first(Pending::Control { id: wire::HELLO.into(), words: [0, 0], payload });
        self.resume(index);
        Ok(())
    }

    /// Posts what waits for a peer, in order, until the lane is full.
    pub(crate) fn resume(&mut self, index: PeerIndex) {
        let waited = !self.engine.peers[index as usize].pending.is_empty();
        if self.engine.peers[index as usize].watches.check() && !self.resume_protocols(index) {
            return;
        }
        loop {
            let peer = &mut self.engine.peers[index as usize];
            let speaks =
                matches!(peer.state, PeerState::Ready | PeerState::Closing | PeerState::Leaving);
            if !speaks && !peer.notice {
                return;
            }
            let Some(first) = peer.pending.pop_front() else {
                peer.recompute_short_limit();
                // Space that nothing waits for is no end of a close: our DISCONNECT may be yet to come.
                if waited && (peer.state != PeerState::Ready || peer.end.is_some()) {
                    self.sent_all(index);
                }
                return;
            };
            let outcome = match &first {
                Pending::Send(key) => self.post(*key),
                Pending::Control { id, .. } if !self.may_post(index, *id) => Post::Blocked,
                Pending::Control { id, words, payload } => {
                    let peer = &mut self.engine.peers[index as usize];
                    let lane = &mut *self.lanes[peer.lane as usize].iface;
                    let first = peer.tx_sequence;
                    match post::parts(lane, peer, *id, *words, &[payload]) {
                        Ok(()) => {
                            peer.note_control(first, *id, payload);
                            Post::Complete
                        }
                        Err(error) => self.refused(index, error),
                    }
                }
            };
            match (outcome, first) {
                (Post::Complete, Pending::Send(key)) => self.sent(key),
                (Post::Failed(error), Pending::Send(key)) => self.engine.fail(key, error),
                (Post::Blocked, first) => {
                    self.wait_until_writable(index, first);
                    return;
                }
                (Post::Starved, Pending::Send(key)) => self.park_am(index, key),
                (Post::Starved, Pending::Control { .. }) => {}
                (Post::Complete | Post::Awaiting | Post::Failed(_), _) => {}
            }
        }
    }

    /// Has protocols post what they hold back. Whether the lane took all.
    #[cold]
    fn resume_protocols(&mut self, index: PeerIndex) -> bool {
        (0..self.engine.protocols.lives.len())
            .all(|at| self.engine.protocols.lives[at].on_writable(self, index))
    }

    /// Whether a control message may be posted, which waits for its protocol where that checks what goes to the peer.
    fn may_post(&mut self, index: PeerIndex, id: MessageId) -> bool {
        if !self.engine.peers[index as usize].watches.check() {
            return true;
        }
        let life = self.engine.protocols.of(id);
        life.is_none_or(|life| life.before_control(self, index).is_ok())
    }

    /// An active message waits for credit, and later ones behind it; nothing else does. The short path
    /// would overtake it.
    pub(super) fn park_am(&mut self, index: PeerIndex, key: Key) {
        let peer = &mut self.engine.peers[index as usize];
        peer.ams_parked = true;
        peer.recompute_short_limit();
        self.engine.streams.make(index).parked_ams.push_back(key);
    }

    /// Credit has come back to sends that were without: rule 4 of [`crate::stream`].
    pub(crate) fn unpark(&mut self, index: PeerIndex) {
        let Some(stream) = self.engine.streams.get_mut(index) else { return };
        let (parked, ams) =
            (std::mem::take(&mut stream.parked), std::mem::take(&mut stream.parked_ams));
        let (requests, peer) = (&self.engine.requests, &mut self.engine.peers[index as usize]);
        (peer.streams, peer.ams_parked) = (true, false);
        // Sends of a kind that wait for space are newer than any that was parked.
        for (keys, stream) in [(parked, true), (ams, false)] {
            let is_one = |key: &Key| match requests.get(*key).map(|request| &request.body) {
                Some(Body::Send(send)) => match send.kind {
                    SendKind::Stream => stream,
                    SendKind::Am { .. } => !stream,
                    SendKind::Tagged(_) => false,
                },
                _ => false,
            };
            let newer = |waits: &Pending| matches!(waits, Pending::Send(key) if is_one(key));
            let at = peer.pending.iter().position(newer).unwrap_or(peer.pending.len());
            let newer = peer.pending.split_off(at);
            peer.pending.extend(keys.into_iter().map(Pending::Send).chain(newer));
        }
        self.resume(index);
    }

    pub(super) fn wait_until_writable(&mut self, index: PeerIndex, first: Pending) {
        let peer = &mut self.engine.peers[index as usize];
        peer.queue_first(first);
        self.lanes[peer.lane as usize].iface.want_writable(peer.ep);
        self.call_progress_thread();
    }

    /// What a refusal by the lane means.
    pub(crate) fn refused(&mut self, index: PeerIndex, error: PostError) -> Post {
        match error {
            PostError::NoResource => Post::Blocked,
            PostError::Unsupported => Post::Failed(OpError::Unsupported),
            PostError::TooLong => Post::Failed(OpError::TooLong),
            PostError::BadRemote | PostError::BadArgument => Post::Failed(OpError::BadRemote),
            // The lane reports the failure itself, after what the peer has sent before it: that may
            // be all that anybody still wants of a peer that has closed.
            PostError::PeerFailed => Post::Failed(PeerFailure::Died.into()),
            _ => {
                tracing::debug!(index, %error, "a lane refused a message to a peer");
                self.engine.peer_failed(index, PeerFailure::Died);
                self.withdraw_all();
                Post::Failed(PeerFailure::Died.into())
            }
        }
    }

    /// A send request is wholly posted, and no answer is awaited.
    pub(crate) fn sent(&mut self, key: Key) {
        let (length, outcome) = match self.engine.requests.get_mut(key) {
            Some(Request { body: Body::Send(send), .. }) => {
                (send.buffer.len() as u64, send.answer().unwrap_or(Ok(())))
            }
            _ => (0, Ok(())),
        };
        self.engine.finish(key, OpStatus { length, outcome, ..OpStatus::NONE });
    }

    /// Puts a send whose receiver has asked for it behind what waits for the peer.
    pub(crate) fn queue_send(&mut self, key: Key) {
        let Some(send) = send_of(&mut self.engine.requests, key) else { return };
        let index = send.peer;
        let peer = &mut self.engine.peers[index as usize];
        peer.queue(Pending::Send(key));
        if peer.pending.len() == 1 {
            self.resume(index);
        }
    }
}
