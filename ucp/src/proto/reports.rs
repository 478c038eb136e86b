//! What a sender reports to the receivers of what it has written: messages for announced receives ([`super::rtr`]) and for
//! lent ones ([`super::any`]) in the one order in which they were sent, since a receiver matches by that.

use bowline_base::slab::Key;
use bowline_uct::PostError;

use super::peer_offers::{Offers, Unreported, Writing};
use super::put::putting;
use crate::engine::Inner;
use crate::peer::{PeerIndex, PeerState};
use crate::status::OpStatus;

impl Inner {
    /// Notifies a peer of all that is written to its receives.
    ///
    /// # Errors
    /// When the lane refuses; what was not reported by then stays.
    pub(super) fn report_all(&mut self, index: PeerIndex) -> Result<(), PostError> {
        self.report(index, usize::MAX)
    }

    /// The writing of a send has ended of which the peer was not notified: it is notified of that, of what is in front
    /// of it, and of what has waited behind it.
    pub(super) fn report_written(&mut self, index: PeerIndex, key: Key) {
        let Some(offers) = self.engine.peers[index as usize].watches.of::<Offers>() else { return };
        let Some(at) = offers.unreported.iter().position(|one| one.key == key) else { return };
        let ended = |one: &&Unreported| one.state != Writing::UnderWay;
        let behind = offers.unreported.iter().skip(at + 1).take_while(ended).count();
        self.report_first(index, at + 1 + behind);
    }

    /// Notifies a peer of what is whole in front of anything that is not, of either protocol.
    /// Whether the lane took all.
    pub(super) fn report_whole(&mut self, index: PeerIndex) -> bool {
        let peer = &self.engine.peers[index as usize];
        if peer.state != PeerState::Ready {
            return true;
        }
        let ended = |one: &&Unreported| one.state != Writing::UnderWay;
        let whole = |offers: &Offers| offers.unreported.iter().take_while(ended).count();
        let count = peer.watches.of().map_or(0, whole);
        self.report_first(index, count)
    }

    fn report_first(&mut self, index: PeerIndex, count: usize) -> bool {
        match self.report(index, count) {
            Ok(()) => true,
            Err(PostError::NoResource) => {
                let peer = &self.engine.peers[index as usize];
                self.lanes[peer.lane as usize].iface.want_writable(peer.ep);
                self.call_progress_thread();
                false
            }
            Err(error) => {
                let _ = self.refused(index, error);
                false
            }
        }
    }

    /// Reports of the first `count` unreported sends how far they are.
    fn report(&mut self, index: PeerIndex, count: usize) -> Result<(), PostError> {
        for _ in 0..count {
            let peer = &self.engine.peers[index as usize];
            let first = |offers: &Offers| offers.unreported.front().copied();
            let Some(unreported) = peer.watches.of().and_then(first) else { break };
            match unreported.flagged {
                true => self.report_lent(index, unreported)?,
                false => self.report_announced(index, unreported)?,
            }
        }
        Ok(())
    }

    /// A send was written, and its peer was notified of it.
    pub(super) fn end_written(&mut self, key: Key) {
        let Some((index, buffer, put)) = putting(&mut self.engine.requests, key) else { return };
        let (length, rkey) = (buffer.len() as u64, put.take_key());
        if let Some(rkey) = rkey {
            let lane = self.engine.peers[index as usize].lane;
            self.lanes[lane as usize].iface.rkey_release(rkey);
        }
        self.engine.finish(key, OpStatus { length, ..OpStatus::NONE });
    }
}
