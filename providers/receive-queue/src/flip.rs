//! The flip: the receiver takes a half from its senders by a swap of R.
//!
//! The processor does that where the transport's atomics are coherent with its own. Else the own device does, by the
//! connection of the lane to itself, and the answer comes later. Until the receiver has it, R and what the
//! receiver knows of it do not belong together.

use bowline_base::scmp::counted::R_BYTE;
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_uct::{AtomicOp, AtomicWidth, PeerFailure, PostError, RemoteSlice};

use super::lane_core::LaneCore;
use super::token::{What, own};

impl LaneCore {
    /// R, the counter at which senders reserve.
    fn counter(&self) -> Option<&AtomicU64> {
        self.inner.mem_view(self.memory)?.word(R_BYTE)
    }

    /// Whether senders have reserved something in the half that is theirs.
    pub(super) fn is_reserved(&self) -> bool {
        // Relaxed: a question. A device writes whole words, and a swap answers it before anything follows from
        // it. A peer that has ended reserved before that: the notice of its end ordered the two.
        self.counter().is_some_and(|word| word.load(Ordering::Relaxed) as u32 != 0)
    }

    /// Whether R was or is being swapped, and the consumer does not know of it yet.
    pub(super) const fn flip_is_under_way(&self) -> bool {
        self.flipping || self.flip_answer.is_some()
    }

    /// Swaps R for `word`, if no swap is under way.
    pub(super) fn flip(&mut self, word: u64) {
        if self.flip_is_under_way() || self.closed.is_some() {
            return;
        }
        if self.own_link.is_none() {
            // AcqRel. Acquire: pairs with the senders' additions, before which they had introduced
            // themselves. Release: the half that is exposed here was cleared before.
            self.flip_answer = self.counter().map(|counter| counter.swap(word, Ordering::AcqRel));
            return;
        }
        match self.swap_own(word) {
            Ok(answer) => {
                self.flipping = answer.is_none();
                self.flip_answer = answer;
            }
            Err(error) => self.flip_refused(error),
        }
    }

    /// A flip was not posted.
    #[cold]
    fn flip_refused(&mut self, error: PostError) {
        // No space: at the next poll.
        if error == PostError::NoResource {
            return;
        }
        let known = self.own_link.and_then(|own| self.links[own as usize].failed);
        self.lose_flips(known.unwrap_or(match error {
            PostError::PeerFailed => PeerFailure::Unreachable,
            _ => PeerFailure::Refused,
        }));
    }

    /// Swaps R through the own device.
    fn swap_own(&mut self, word: u64) -> Result<Option<u64>, PostError> {
        let index = self.own_link.ok_or(PostError::BadEndpoint)?;
        let link = &self.links[index as usize];
        let (Some(ep), Some(rkey)) = (link.inner, link.rkey) else {
            return Err(PostError::BadEndpoint);
        };
        let at = RemoteSlice { address: self.base + R_BYTE as u64, rkey };
        let token = own(What::Flip, index, link.generation);
        self.inner.atomic(ep, AtomicOp::Swap(word), AtomicWidth::W64, at, token)
    }
}
