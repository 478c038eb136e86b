//! What follows from the failure of a peer: every operation that waits for it ends with an error.
//!
//! Failures come from several sides: a lane reports an endpoint or source, the job's launcher reports
//! a world rank, keep-alive and refused posts find that nobody is there, and this worker rejects a
//! peer because of what it sent ([`crate::reject`]). All of them end in [`Engine::peer_failed`] or
//! [`Engine::fail_rank`] and have the same consequences: what waits for the peer itself fails, and so
//! do receives of spaces that its rank is a member of, those that are posted later included, since a
//! receive can wait for a rank that never connected.

use bowline_base::slab::Key;
use bowline_uct::{EpId, PeerFailure, Source};

use super::Engine;
use crate::action::Action;
use crate::peer::{NO_PEER, PeerIndex, PeerState, writes_no_more};
use crate::request::{Body, Receive};
use crate::space::Lost;
use crate::state::inbox::Delivery;
use crate::wire;

impl Engine {
    /// A lane reports a failure. The source of a peer comes after all that the peer sent. An endpoint leads to the peer only,
    /// whose own messages may come over another lane and not be read yet: that failure counts once they are.
    #[cold]
    pub(super) fn lane_failed(
        &mut self,
        lane: usize,
        source: Option<Source>,
        ep: Option<EpId>,
        how: PeerFailure,
    ) {
        let by_source = source.map_or(NO_PEER, |source| self.unbind_source(lane, source));
        let by_ep = ep.map_or(NO_PEER, |ep| self.peer_at(lane, ep));
        self.peer_failed(by_source, how);
        if by_ep != NO_PEER && by_ep != by_source {
            self.actions.push(Action::Lost { peer: by_ep, how });
        }
    }

    /// A peer has failed, by whichever sign: the one entry for all of them but the launcher's news.
    #[cold]
    pub(crate) fn peer_failed(&mut self, index: PeerIndex, how: PeerFailure) {
        let Some(peer) = self.peers.get(index as usize) else { return };
        let (job, rank) = (peer.address.job, peer.address.rank);
        self.fail_peer(index, how);
        if job == self.job {
            self.fail_rank(rank, how);
        }
    }

    /// Ends everything that waits for `index`.
    #[cold]
    pub(crate) fn fail_peer(&mut self, index: PeerIndex, how: PeerFailure) {
        let Some(peer) = self.peers.get_mut(index as usize) else {
            return;
        };
        if peer.end.is_some() || peer.state == PeerState::Leaving {
            // Nobody will answer any more.
            self.actions.push(Action::Closed(index));
        }
        self.lose_peer(index, how);
    }

    /// The same, for a peer to which something may still be said.
    #[cold]
    pub(crate) fn lose_peer(&mut self, index: PeerIndex, how: PeerFailure) {
        let Some(peer) = self.peers.get_mut(index as usize) else {
            return;
        };
        if let Some(before) = peer.failure() {
            if writes_no_more(how) && !writes_no_more(before) {
                peer.state = PeerState::Failed(how);
                self.fail_receives(index, how);
            }
            return self.note_failure(index, how);
        }
        self.counters.peers_failed += 1;
        tracing::debug!(rank = peer.address.rank, %how, "peer failed");
        peer.state = PeerState::Failed(how);
        peer.pending.clear();
        peer.recompute_short_limit();
        if peer.end.is_none() {
            self.inbox.push_back(Delivery::End(peer.name, how));
        }
        let open = self.requests.iter().filter(|(_, request)| !request.done);
        let lost = open.filter_map(|(key, request)| {
            let waits = match &request.body {
                // One that the transport still reads from or writes into ends with its report.
                Body::Send(send) => send.peer == index && !send.in_flight(),
                Body::Receive(receive) => {
                    receive.fetch.as_ref().is_some_and(|fetch| fetch.ends_with(index, how))
                }
                Body::Stream(receive) => receive.peer == index,
                Body::Expecting(_) | Body::OneSided(_) | Body::Free => false,
            };
            waits.then_some(key)
        });
        let lost: Vec<Key> = lost.collect();
        for key in lost {
            self.fail(key, how.into());
        }
        self.note_failure(index, how);
        self.am_waiting.retain(|&(peer, _)| peer != index);
        self.fail_stream(index);
        self.lose_emulated(index, how.into());
        if !self.one_sided.is_empty() {
            // Those for this peer are refused now, and end by that.
            self.actions.push(Action::ResumeOneSided);
        }
    }

    /// A peer that had failed otherwise writes no more: what it may have been writing to is free.
    #[cold]
    fn fail_receives(&mut self, index: PeerIndex, how: PeerFailure) {
        let open = self.requests.iter().filter(|(_, request)| !request.done);
        let lost = open.filter(|(_, request)| match &request.body {
            Body::Receive(Receive { fetch: Some(fetch), .. }) => fetch.ends_with(index, how),
            _ => false,
        });
        let lost: Vec<Key> = lost.map(|(key, _)| key).collect();
        for key in lost {
            self.fail(key, how.into());
        }
    }

    fn note_failure(&mut self, index: PeerIndex, how: PeerFailure) {
        for at in 0..self.protocols.lives.len() {
            let life = self.protocols.lives[at];
            life.on_peer_failure(self, index, how);
        }
    }

    /// A process of the own job has failed, whether or not it ever connected.
    #[cold]
    pub(crate) fn fail_rank(&mut self, world_rank: u32, how: PeerFailure) {
        let died = how != PeerFailure::Closed;
        // Endpoints to it that were closed before are among them; and one that has failed otherwise
        // may have operations that only its death ends.
        for index in 0..self.peers.len() {
            let address = &self.peers[index].address;
            if address.job == self.job && address.rank == world_rank {
                self.fail_peer(index as PeerIndex, how);
            }
        }
        if died {
            if self.dead.iter().any(|lost| lost.rank == world_rank) {
                return;
            }
            self.dead.push(Lost { rank: world_rank, how });
        }
        // Messages that nobody will receive, and the rank of the dead in the space of each.
        let (mut lost, mut waiting, mut of) = (Vec::new(), Vec::new(), Vec::new());
        let mut single = self.spaces.take_single();
        for (id, space) in self.spaces.iter_mut() {
            let Some(rank) = space.options.members.as_ref().and_then(|m| m.rank_of(world_rank))
            else {
                continue;
            };
            let before = lost.len();
            let collective = space.options.collective && died;
            let member = Lost { rank, how };
            if died {
                space.dead.push(member);
                space.checks_receives = true;
            }
            space.remove_posted_where(
                id,
                &mut single,
                &mut |want| {
                    let anyone = want.source_mask == 0;
                    collective || (anyone && died) || (!anyone && want.source == rank)
                },
                &mut lost,
            );
            for value in &lost[before..] {
                let key = Key::from_wire(*value);
                if let Some(request) = self.requests.get_mut(key) {
                    request.status.outcome = Err(member.error());
                }
            }
            if collective {
                space.drain_unexpected(&mut waiting);
                of.resize(waiting.len(), rank);
            }
        }
        self.spaces.put_single(single);
        for (value, rank) in waiting.into_iter().zip(of) {
            self.drop_message(Key::from_wire(value), wire::refusal(Some(rank)));
        }
        for value in lost {
            let key = Key::from_wire(value);
            let Some(request) = self.requests.get(key) else {
                continue;
            };
            let status = request.status;
            self.finish(key, status);
        }
    }

    /// A space was opened: members that are dead already count.
    pub(crate) fn inherit_deaths(&mut self, id: u32) {
        let dead = std::mem::take(&mut self.dead);
        let (mut waiting, mut dead_member) = (Vec::new(), None);
        if let Some(space) = self.spaces.get_mut(id)
            && let Some(members) = space.options.members.clone()
        {
            let member = |lost: &Lost| Some(Lost { rank: members.rank_of(lost.rank)?, ..*lost });
            space.dead = dead.iter().filter_map(member).collect();
            space.checks_receives |= !space.dead.is_empty();
            dead_member = space.failed_collective_member();
            if dead_member.is_some() {
                space.drain_unexpected(&mut waiting);
            }
        }
        self.dead = dead;
        for value in waiting {
            self.drop_message(Key::from_wire(value), wire::refusal(dead_member));
        }
    }
}
