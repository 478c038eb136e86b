//! Peers that this worker rejects because of what they sent: damage, or more than its limits admit.
//!
//! ```text
//!   this worker                                             peer
//!   a message that no correct peer sends, or a limit
//!   Failed(Damaged | Overrun), its messages reach nobody
//!        ├── NOTICE, reason ──────────────────────────────► Failed(Rejected | Overrun)
//!        └── then lets go of the transport's endpoint          └── lets go of its own
//! ```
//! Rules. (1) A rejected peer has failed in every respect: what waits for it ends, and so do receives of
//! its rank in the spaces that it is a member of ([`Engine::peer_failed`]). (2) What still arrives from
//! it is dropped before anything reads it, a second HELLO included: its sources are barred, until the
//! transport gives their numbers to somebody else. (3) The NOTICE is the last message to it, so that a
//! peer that did not mean harm reports the true reason; a peer that does not know NOTICE is not sent
//! one. (4) Behind the NOTICE the transport's endpoint is closed. Where an operation of the transport is
//! still under way with the peer, which may never answer it, the endpoint is made to fail instead, which
//! ends the operation; the transport may then drop a NOTICE that has not left. (5) Memory that the peer
//! may be writing to stays until the transport excludes that, or until its death is known. (6) It is
//! logged once on either side, here.

use bowline_base::view::View;
use bowline_uct::{AmHeader, EpId, PeerFailure};

use crate::action::Action;
use crate::address::NOTICES;
use crate::engine::{Engine, Inner};
use crate::peer::{NO_PEER, PeerIndex, PeerState, REJECTED};
use crate::request::{Body, Fetch};
use crate::wire;

impl Engine {
    /// Ends the connection to a peer because of what it sent, which `why` says for the log.
    #[cold]
    pub(crate) fn reject(&mut self, index: PeerIndex, how: PeerFailure, why: &str) {
        let Some(peer) = self.peers.get(index as usize) else { return };
        if peer.failure().is_some() {
            return;
        }
        let (job, rank) = (peer.address.job, peer.address.rank);
        tracing::warn!(job, rank, why, "ended the connection to a peer: {how}");
        self.peer_failed(index, how);
        self.mark_rejected(index);
        self.actions.push(Action::Notice(index));
    }

    /// Rule 2.
    fn mark_rejected(&mut self, index: PeerIndex) {
        for table in &mut self.sources {
            table.iter_mut().filter(|peer| **peer == index).for_each(|peer| *peer |= REJECTED);
        }
    }

    /// Whether what comes from a source is dropped.
    pub(crate) fn is_rejected(&self, lane: usize, source: bowline_uct::Source) -> bool {
        let bound = self.sources[lane].get(source.0 as usize);
        bound.is_some_and(|&peer| peer != NO_PEER && peer & REJECTED != 0)
    }

    /// A peer has rejected this worker.
    #[cold]
    pub(crate) fn notice(
        &mut self,
        index: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        if header[1] != 0 || !payload.is_empty() {
            return None;
        }
        let how = match header[0] {
            wire::OVERRUN => PeerFailure::Overrun,
            // A reason of a later version is a reason to end the connection as well.
            _ => PeerFailure::Rejected,
        };
        let peer = &self.peers[index as usize];
        if peer.failure().is_some() {
            return Some(());
        }
        let (job, rank) = (peer.address.job, peer.address.rank);
        tracing::warn!(job, rank, reason = header[0], "a peer has ended the connection: {how}");
        self.peer_failed(index, how);
        self.mark_rejected(index);
        self.actions.push(Action::LetGo(index));
        Some(())
    }

    /// Whether a transport has an operation under way that the peer must answer.
    fn is_awaited(&self, index: PeerIndex, endpoints: &[(usize, Option<EpId>)]) -> bool {
        self.requests.iter().any(|(_, request)| match &request.body {
            _ if request.done => false,
            Body::Receive(receive) => {
                let reads = |fetch: &Fetch| fetch.in_flight > 0;
                receive.fetch.as_ref().is_some_and(|f| f.peer == index && reads(f))
            }
            Body::Send(send) => send.peer == index && send.in_flight(),
            Body::OneSided(one) => {
                let to = one.task.map(|task| (task.lane, Some(task.ep)));
                // Of a flush it is not known to whom its parts go.
                one.in_flight > 0 && to.is_none_or(|to| endpoints.contains(&to))
            }
            Body::Expecting(_) | Body::Stream(_) | Body::Free => false,
        })
    }
}

impl Inner {
    /// Rule 3: sends the reason, and rule 4 once it is posted.
    #[cold]
    pub(crate) fn send_notice(&mut self, index: PeerIndex) {
        let peer = &self.engine.peers[index as usize];
        let reason = match peer.state {
            PeerState::Failed(PeerFailure::Damaged) => wire::DAMAGED,
            PeerState::Failed(PeerFailure::Overrun) => wire::OVERRUN,
            // Its death, or the end of its endpoint, was noticed meanwhile.
            _ => return self.release(index),
        };
        if peer.address.features & NOTICES == 0 {
            return self.release(index);
        }
        if peer.ep.0 == u32::MAX {
            let address = peer.address.clone();
            let Ok((lane, ep)) = self.route(&address) else { return };
            self.engine.bind_ep(index, lane, ep);
        }
        let greeting = self.own_address.clone();
        let peer = &mut self.engine.peers[index as usize];
        if peer.tx_sequence == 0 {
            peer.push_control(wire::HELLO, [0, 0], greeting);
        }
        peer.push_control(wire::NOTICE, [reason, 0], Vec::new());
        peer.notice = true;
        self.resume(index);
    }

    /// Rule 4.
    #[cold]
    pub(crate) fn release(&mut self, index: PeerIndex) {
        let peer = &mut self.engine.peers[index as usize];
        peer.notice = false;
        peer.pending = Default::default();
        let endpoints = self.endpoints_of(index);
        if !self.engine.is_awaited(index, &endpoints) {
            return self.leave_endpoints(index);
        }
        for (lane, ep) in endpoints {
            if let Some(ep) = ep {
                self.lanes[lane].iface.invalidate(ep);
            }
        }
    }
}
