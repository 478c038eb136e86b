//! Messages of the engine's own: behind what waits for a peer, or in front of it.

use bowline_uct::PostError;

use crate::engine::Inner;
use crate::peer::{PeerIndex, Pending};
use crate::post;
use crate::wire::{self, MessageId};

/// Messages that wait for a peer from which on it is asked how many of them are answers.
const MANY: usize = 1 << 10;

impl Inner {
    /// Sends a control message, behind what waits.
    pub(crate) fn control(
        &mut self,
        index: PeerIndex,
        id: impl Into<MessageId>,
        words: [u64; 2],
        payload: &[u8],
    ) {
        self.control_as(index, id.into(), words, payload);
    }

    fn control_as(&mut self, index: PeerIndex, id: MessageId, words: [u64; 2], payload: &[u8]) {
        if self.ready(index).is_err() {
            return;
        }
        let peer = &mut self.engine.peers[index as usize];
        if !peer.pending.is_empty() {
            let payload = self.engine.async_state.payload(payload);
            peer.push_control(id, words, payload);
            let waiting = peer.pending.len();
            if waiting >= MANY && waiting.is_power_of_two() {
                self.engine.note_answers(index);
            }
            return;
        }
        let lane = &mut *self.lanes[peer.lane as usize].iface;
        let first = peer.tx_sequence;
        match post::parts(lane, peer, id, words, &[payload]) {
            Ok(()) => peer.note_control(first, id, payload),
            Err(PostError::NoResource) => {
                let payload = self.engine.async_state.payload(payload);
                self.wait_until_writable(index, Pending::Control { id, words, payload });
            }
            Err(error) => {
                let _ = self.refused(index, error);
            }
        }
    }

    /// Gives eager credit back, and more of it while the budget lasts.
    pub(crate) fn give_credit(&mut self, index: PeerIndex) {
        let engine = &mut self.engine;
        let Some(peer) = engine.peers.get_mut(index as usize) else {
            return;
        };
        let mut bytes = std::mem::take(&mut peer.taken);
        let growth = engine.options.share - engine.options.share_first;
        if !peer.share_grown && growth > 0 && engine.budget >= growth {
            peer.share_grown = true;
            engine.budget -= growth;
            bytes += growth as u64;
        }
        if bytes > 0 {
            self.control_now(index, wire::CREDIT.into(), [bytes, 0]);
        }
    }

    /// Sends a control message in front of what waits. Sends that wait for credit would otherwise
    /// keep the peer's credit from it, and two such peers each other.
    fn control_now(&mut self, index: PeerIndex, id: MessageId, words: [u64; 2]) {
        if self.ready(index).is_err() {
            return;
        }
        let peer = &mut self.engine.peers[index as usize];
        let greets = |waits: &Pending| matches!(waits, Pending::Control { id, .. } if id.am() == wire::HELLO);
        if peer.pending.front().is_some_and(greets) {
            // Nothing goes before the greeting.
            return peer.push_control(id, words, Vec::new());
        }
        let lane = &mut *self.lanes[peer.lane as usize].iface;
        let first = peer.tx_sequence;
        match post::parts(lane, peer, id, words, &[]) {
            Ok(()) => peer.note_control(first, id, &[]),
            Err(PostError::NoResource) => {
                self.wait_until_writable(
                    index,
                    Pending::Control { id, words, payload: Vec::new() },
                );
            }
            Err(error) => {
                let _ = self.refused(index, error);
            }
        }
    }
}
