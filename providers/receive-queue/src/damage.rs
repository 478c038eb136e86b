//! What ends a link or the whole queue: damage of a slot, for its source; damage of the queue's own words,
//! or a queue that cannot be flipped any more, for everybody. What a closed queue says to
//! its senders is in [`crate::closed`].

use bowline_base::scmp;
use bowline_base::scmp::counted::{R_BYTE, remote_ring};
use bowline_base::sync::atomic::Ordering;
use bowline_uct::PeerFailure;

use super::closed::{Closed, closed_by};
use super::lane_core::LaneCore;
use super::link::SenderEntry;

impl LaneCore {
    /// Messages of nobody known were dropped.
    pub(super) fn count_unknown_senders(&mut self, unknown_senders: u64) {
        if unknown_senders > 0 {
            self.stats.unknown_senders += unknown_senders;
            tracing::warn!(
                unknown_senders,
                "messages of nobody known in the receive queue; dropped"
            );
        }
    }

    /// A slot was damaged: the one whose source it names is not believed any more.
    #[cold]
    pub(super) fn distrust(&mut self, source: u16) {
        let Some(sender) = self.senders.get_mut(usize::from(source)) else { return };
        let link = std::mem::replace(sender, SenderEntry::EMPTY).link;
        if link != SenderEntry::NO_LINK {
            self.break_link(link, PeerFailure::Damaged);
        }
    }

    /// The queue's own words were damaged, which anybody may have done.
    #[cold]
    pub(super) fn poison(&mut self, damage: scmp::Damage) {
        if self.closed.is_none() {
            tracing::warn!(%damage, "the receive queue is damaged and closed");
            self.close(Closed::Damaged);
        }
    }

    /// The queue cannot be flipped any more, or it is not known whether the last flip has happened: what
    /// its senders reserve is never read.
    #[cold]
    pub(super) fn lose_flips(&mut self, how: PeerFailure) {
        if self.closed.is_none() {
            tracing::error!(
                %how,
                "the connection of a receive queue to its own device has failed; the queue is closed"
            );
            self.close(Closed::Unflippable(how));
        }
    }

    fn close(&mut self, why: Closed) {
        self.closed = Some(why);
        self.mark_closed();
        for ring in 0..self.shape.rings as usize {
            remote_ring::close(&self.ring_words(ring));
        }
        for index in 0..self.links.len() as u32 {
            let link = &self.links[index as usize];
            if link.introduced || link.open && self.own_link != Some(index) {
                self.break_link(index, why.failure());
            }
        }
    }

    /// Writes the mark into R, unless it is there.
    pub(super) fn mark_closed(&self) {
        let Some(why) = self.closed else { return };
        let word = self.inner.mem_view(self.memory).and_then(|view| view.word(R_BYTE));
        // Relaxed, both: the mark publishes nothing but itself, and who finds it puts no slot.
        if let Some(word) = word.filter(|word| closed_by(word.load(Ordering::Relaxed)).is_none()) {
            word.store(why.mark(), Ordering::Relaxed);
        }
    }
}
