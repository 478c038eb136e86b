//! What follows from damage: of a slot, for its source; of the queue's own words, for everybody.

use bowline_base::scmp;
use bowline_base::scmp::seq::POISON;
use bowline_uct::{AtomicOp, PeerFailure};

use super::lane::QueueLane;
use super::link::Seat;
use super::options::QueueForm;

impl QueueLane {
    /// A slot was damaged: the one whose source it names is not believed any more.
    #[cold]
    pub(super) fn blame(&mut self, source: u16) {
        if self.has_seals() {
            if let Some(link) = self.lose_sealed(source) {
                self.break_link(link, PeerFailure::Damaged);
            }
            return;
        }
        self.promotion.lose(source);
        let Some(seat) = self.seats.get_mut(usize::from(source)) else { return };
        let link = std::mem::replace(seat, Seat::EMPTY).link;
        if link != Seat::NOBODY {
            self.break_link(link, PeerFailure::Damaged);
        }
    }

    /// The queue's own words were damaged, which anybody may have done.
    #[cold]
    pub(super) fn poison(&mut self, damage: scmp::Damage) {
        if std::mem::replace(&mut self.poisoned, true) {
            return;
        }
        tracing::warn!(%damage, "the receive queue is damaged and closed");
        if self.own_link.is_some() {
            // The word that the processor wrote may be lost between atomics of the device. If this
            // one cannot be posted either, the peers see the links break.
            let closed = if self.shape.form == QueueForm::Locked {
                AtomicOp::Cswap { compare: self.flip_expected, new: u64::from(POISON) }
            } else {
                AtomicOp::Swap(u64::from(POISON))
            };
            let _ = self.swap_own(closed);
        }
        for index in 0..self.links.len() as u32 {
            if self.links[index as usize].introduced {
                self.break_link(index, PeerFailure::Damaged);
            }
        }
    }
}
