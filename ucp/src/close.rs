//! Closing an endpoint in order: both sides say farewell, and each knows from the other's that its
//! memory is its own again.
//!
//! ```text
//!   closer                                               peer
//!   Ready   close: nothing new is taken
//!           flush: waits for what is under way
//!           force: cancels it
//!           then flushes what it wrote to the peer
//!   Closing ── DISCONNECT ─────────────────────────────► fails with Closed, calls its handler
//!                                                Leaving  until it reads nothing of the closer's
//!   Failed  ◄───────────────────────────── DISCONNECT ── Failed
//! ```
//! Rules.
//!
//! 1. DISCONNECT is the last message of its sender on this connection, and a promise: the sender
//!    reads and writes no memory of the receiver any more. So it comes behind the last acknowledgement,
//!    behind a flush of what was put, and after the last read of the peer's memory.
//! 2. A close that waits (flush) waits until every send to the peer is complete as its kind has it
//!    (a synchronous one: matched; a rendezvous: read), and every rendezvous from the peer that was
//!    matched has been read. A close that does not (force) cancels them. A send whose buffer the peer
//!    may be reading, and a receive that it may be writing to, stay until the peer's DISCONNECT or its
//!    proven death.
//! 3. What the peer sent before its DISCONNECT arrives and counts, but for messages that still lie
//!    with it: those that nobody has matched at the close are dropped.
//! 4. The answer to DISCONNECT is DISCONNECT. Where both sides close at once, each takes the other's
//!    for the answer.
//! 5. After it, the same worker can be connected to anew: that makes a fresh endpoint on either side.
//!    The old one stays closed.
//! 6. A peer that does not know DISCONNECT is not notified; its endpoint is not made anew either.

mod books;

use bowline_uct::{EpId, PeerFailure};

use crate::action::Action;
use crate::address::DISCONNECTS;
use crate::engine::Inner;
use crate::error::OpError;
use crate::one_sided::Progress;
use crate::peer::{CloseMode, End, Ep, Flush, NO_PEER, PeerIndex, PeerState, SlotState};
use crate::request::{self, Body, OneSided, RequestId, Sent};
use crate::wire;
use crate::worker::Worker;

impl Worker {
    /// Closes an endpoint. From the call on, it takes no operations. The request, whose outcome says
    /// whether the peer failed before it was notified of a close that waits, is complete when the peer
    /// has answered; then its worker can be connected to anew. An endpoint that was never used, or
    /// has failed, is closed at once.
    ///
    /// A close that waits can be made one that does not by closing again with [`CloseMode::Force`].
    /// The endpoint's error handler is not called.
    ///
    /// # Errors
    /// When there is no such endpoint, or it is being closed already.
    pub fn close(&self, ep: Ep, mode: CloseMode) -> Result<Sent, OpError> {
        let inner = &mut *self.inner.borrow_mut();
        let index = match inner.engine.index_of(ep) {
            Ok(index) => index,
            // It is over, and so much so that its place is another's.
            Err(OpError::PeerFailed(_)) => return Ok(Sent::Done),
            Err(error) => return Err(error),
        };
        let peer = &mut inner.engine.peers[index as usize];
        peer.closed_here = true;
        let peer = &inner.engine.peers[index as usize];
        let unused = peer.rx_sequence == 0 && inner.endpoints_of(index).is_empty();
        match peer.state {
            PeerState::Known if unused => {
                inner.engine.forget(index);
                let peer = &mut inner.engine.peers[index as usize];
                peer.state = PeerState::Failed(PeerFailure::Closed);
                peer.slot = SlotState::Ended;
                // What is left of an endpoint that is over should be small.
                peer.address.lanes = Vec::new();
                self.watchers.borrow_mut().remove(ep);
                return Ok(Sent::Done);
            }
            PeerState::Failed(_) => {
                inner.retire(index);
                self.watchers.borrow_mut().remove(ep);
                return Ok(Sent::Done);
            }
            PeerState::Known => {
                if inner.ready(index).is_err() {
                    // There is no peer to be notified.
                    inner.retire(index);
                    self.watchers.borrow_mut().remove(ep);
                    return Ok(Sent::Done);
                }
            }
            PeerState::Ready | PeerState::Closing | PeerState::Leaving => {}
        }
        let begun = request::begin(
            &mut inner.engine.requests,
            Body::OneSided(Box::new(OneSided { in_flight: 1, ..OneSided::default() })),
        );
        let peer = &mut inner.engine.peers[index as usize];
        match &mut peer.end {
            Some(end) if mode == CloseMode::Flush || end.mode == CloseMode::Force => {
                request::end(&mut inner.engine.requests, begun);
                return Err(OpError::EndpointClosed);
            }
            Some(end) => {
                end.mode = mode;
                end.requests.push(begun);
            }
            None => {
                let end = End { mode, flush: Flush::Wanted, requests: vec![begun] };
                peer.end = Some(Box::new(end));
                peer.recompute_short_limit();
            }
        }
        if !inner.engine.closings.contains(&index) {
            inner.engine.closings.push(index);
        }
        self.watchers.borrow_mut().remove(ep);
        inner.step_closings();
        inner.act();
        Ok(Sent::Pending(RequestId(begun)))
    }
}

impl Inner {
    /// Moves every close on as far as it goes.
    #[cold]
    pub(crate) fn step_closings(&mut self) {
        for index in std::mem::take(&mut self.engine.closings) {
            let state = self.engine.peers[index as usize].state;
            match state {
                PeerState::Ready if !self.step(index) => self.engine.closings.push(index),
                PeerState::Leaving => self.farewell(index),
                _ => {}
            }
        }
    }

    /// Moves a close on. Whether its DISCONNECT is on its way, or none is needed.
    fn step(&mut self, index: PeerIndex) -> bool {
        let Some(end) = &self.engine.peers[index as usize].end else { return true };
        let force = end.mode == CloseMode::Force;
        if force {
            self.cancel_all(index);
        }
        for at in 0..self.engine.protocols.lives.len() {
            let life = self.engine.protocols.lives[at];
            life.on_close(self, index);
        }
        if self.engine.touches(index) || !force && self.engine.sends_to(index) {
            return false;
        }
        if !self.flushed(index) {
            return false;
        }
        // The flush may have ended with the peer's failure.
        let peer = &self.engine.peers[index as usize];
        if peer.state != PeerState::Ready {
            return true;
        }
        let knows = peer.address.features & DISCONNECTS != 0;
        self.engine.drop_offers(index);
        if !knows {
            self.engine.fail_peer(index, PeerFailure::Closed);
            return true;
        }
        self.control(index, wire::DISCONNECT, [u64::from(force), 0], &[]);
        let peer = &mut self.engine.peers[index as usize];
        if peer.state == PeerState::Ready {
            peer.state = PeerState::Closing;
            peer.recompute_short_limit();
        }
        true
    }

    /// Whether what was put to the peer is visible there; else that is asked for.
    fn flushed(&mut self, index: PeerIndex) -> bool {
        let stage = self.engine.peers[index as usize].end.as_ref().map(|end| end.flush);
        let next = match stage {
            None | Some(Flush::Done) => return true,
            Some(Flush::Posted(key)) => match self.engine.take(key) {
                Some(_) => Flush::Done,
                None => return false,
            },
            Some(Flush::Wanted) => {
                let targets = self.endpoints_of(index);
                let served = self.engine.emulation.is_busy(index).then_some(index);
                match self.begin_flush(targets, served.as_slice()) {
                    Progress::Done(_) => Flush::Done,
                    Progress::Pending(id) => Flush::Posted(id.0),
                }
            }
        };
        if let Some(end) = &mut self.engine.peers[index as usize].end {
            end.flush = next;
        }
        next == Flush::Done
    }

    /// The endpoints of transports by which a peer is reached.
    pub(crate) fn endpoints_of(&self, index: PeerIndex) -> Vec<(usize, Option<EpId>)> {
        let peer = &self.engine.peers[index as usize];
        let mut all: Vec<_> = self.keys_open.iter().collect();
        all.retain(|(_, used)| used.peer == index);
        let mut all: Vec<_> = all.iter().map(|(at, _)| **at).collect();
        let own = (peer.lane as usize, peer.ep);
        if peer.ep.0 != u32::MAX && !all.contains(&own) {
            all.push(own);
        }
        all.into_iter().map(|(lane, ep)| (lane, Some(ep))).collect()
    }

    /// Ends what is under way with a peer, but for what touches memory.
    fn cancel_all(&mut self, index: PeerIndex) {
        for (key, protocol) in self.engine.moving_to(index) {
            self.engine.protocols.life(protocol).stop(self, key);
        }
        self.engine.cancel_sends(index, false);
        let mine = self.endpoints_of(index);
        self.engine.cancel_one_sided(&mine);
        self.engine.cancel_emulated(index, OpError::Cancelled);
        for key in self.engine.fetches_from(index) {
            self.abandon_fetch(key, OpError::Cancelled);
        }
    }

    /// The peer has said farewell, and this side has not: that is done once it reads nothing of the
    /// peer's any more.
    #[cold]
    pub(crate) fn farewell(&mut self, index: PeerIndex) {
        let peer = &mut self.engine.peers[index as usize];
        if peer.state != PeerState::Leaving || !peer.pending.is_empty() {
            // It is over, or the farewell waits for space: nothing else is queued since the failure.
            return;
        }
        if self.engine.touches(index) {
            return self.engine.closings.push(index);
        }
        let peer = &mut self.engine.peers[index as usize];
        if peer.ep.0 == u32::MAX {
            // It has heard nothing from here yet.
            let address = peer.address.clone();
            let Ok((lane, ep)) = self.route(&address) else { return self.retire(index) };
            self.engine.bind_ep(index, lane, ep);
        }
        let peer = &mut self.engine.peers[index as usize];
        if peer.tx_sequence == 0 {
            // Nor where the greeting still waited for space and went with all that did. Numbers go round: a greeting too
            // many, after 2^32 messages, ends a connection that is over by then.
            let payload = self.own_address.clone();
            peer.push_control(wire::HELLO, [0, 0], payload);
        }
        self.engine.peers[index as usize].push_control(wire::DISCONNECT, [0, 0], Vec::new());
        self.resume(index);
        if self.engine.peers[index as usize].state != PeerState::Leaving {
            // The post failed: nobody is there to hear it.
            self.retire(index);
        }
    }

    /// Everything that waited for a closing peer is posted.
    pub(crate) fn sent_all(&mut self, index: PeerIndex) {
        let peer = &self.engine.peers[index as usize];
        if peer.state == PeerState::Leaving {
            self.retire(index);
        } else if peer.notice {
            self.release(index);
        } else if peer.state == PeerState::Ready && !self.engine.closings.is_empty() {
            self.engine.actions.push(Action::StepClosings);
        }
    }

    /// The peer has answered: rule 2 holds for it, nothing of ours is read or written any more.
    #[cold]
    pub(crate) fn closed(&mut self, index: PeerIndex) {
        self.engine.cancel_sends(index, true);
        self.engine.lose_peer(index, PeerFailure::Closed);
        self.retire(index);
    }

    /// The endpoint is over: what the transport held for it is given back.
    pub(crate) fn retire(&mut self, index: PeerIndex) {
        let knows = self.engine.peers[index as usize].address.features & DISCONNECTS != 0;
        if knows {
            self.engine.forget(index);
        }
        let peer = &mut self.engine.peers[index as usize];
        if peer.failure().is_none() || peer.state == PeerState::Leaving {
            peer.state = PeerState::Failed(PeerFailure::Closed);
        }
        let how = peer.failure().unwrap_or(PeerFailure::Closed);
        peer.notice = false;
        peer.slot = SlotState::Ended;
        peer.pending = Default::default();
        peer.address.lanes = Vec::new();
        self.engine.end_close(index, how);
        self.leave_endpoints(index);
    }

    /// Closes the endpoints of transports to a peer, but for those that keys were opened through.
    pub(crate) fn leave_endpoints(&mut self, index: PeerIndex) {
        let whole_rkey = self.engine.peers[index as usize].whole_rkey.take();
        let (lane, ep) = self.engine.unbind_ep(index);
        if let Some(rkey) = whole_rkey {
            self.lanes[lane].iface.rkey_release(rkey);
        }
        // One that nothing was sent to has none, but keys may have been opened.
        let mut over = Vec::new();
        over.extend((ep.0 != u32::MAX).then_some((lane, ep)));
        self.keys_open.retain(|&at, used| {
            if used.peer == index {
                used.peer = NO_PEER;
                if used.open > 0 {
                    over.retain(|&other| other != at);
                    return true;
                }
                if !over.contains(&at) {
                    over.push(at);
                }
                return false;
            }
            true
        });
        for (lane, ep) in over {
            self.leave(lane, ep);
        }
    }

    /// Closes an endpoint of a transport that nobody uses any more.
    pub(crate) fn leave(&mut self, lane: usize, ep: EpId) {
        if self.engine.peer_at(lane, ep) == NO_PEER {
            self.lanes[lane].iface.disconnect(ep);
        }
    }

    /// The last key opened through an endpoint of a transport was released.
    pub(crate) fn key_released(&mut self, lane: usize, ep: EpId) {
        let Some(used) = self.keys_open.get_mut(&(lane, ep)) else { return };
        used.open = used.open.saturating_sub(1);
        if used.open == 0 && used.peer == NO_PEER {
            self.keys_open.remove(&(lane, ep));
            self.leave(lane, ep);
        }
    }
}
