//! How a sender sleeps until a full queue has space again, and how the consumer of the queue wakes it.
//!
//! ```text
//!   word      whose                     stored by
//!   waiting   one for each sender       the sender: which consumer it waits for, 0 for none
//!   wanted    one for each consumer     senders: 1; the consumer: 0
//! ```
//!
//! 1. A sender that was refused and has nothing else to do *asks*: it stores its `waiting`, then 1
//!    in the consumer's `wanted` (Release).
//! 2. It arms its doorbell, checks for space once more, and checks that `wanted` is still 1. It
//!    sleeps only if there is no space and its question stands.
//! 3. A consumer that may have made space makes a light fence and loads `wanted`. If it is not 0,
//!    it *answers*: it swaps 0 into it (Acquire) and rings every sender whose `waiting` names it.
//! 4. A consumer may answer between 1 and 2. It then rings a doorbell that is not armed, which does
//!    nothing, and the space may come later, when `wanted` is 0. Rule 2 finds that. With the fence
//!    of the arming between: either the sender's load sees the swap, or the ring that follows the
//!    swap sees the armed doorbell.
//! 5. `wanted` is one word for all senders. A 1 that another sender has stored after the answer is
//!    as good as the own one, since the next answer rings everybody who waits.
//!
//! What space is, and where the words lie, is the business of the user of this module.

use super::light_fence;
use crate::sync::atomic::{AtomicU32, Ordering};

/// What a sender that goes to sleep does, step by step; [`prepare`] has the order.
pub trait Sleeper {
    /// Whether there is something to do, space in a queue that was full included.
    fn has_work(&mut self) -> bool;
    /// Rule 1, at every consumer that is waited for; `false` if one of them could not wake it.
    fn ask(&mut self) -> bool;
    /// Arms the doorbell; `false` if that cannot be.
    fn arm(&mut self) -> bool;
    /// Whether every question stands: [`stands`] of the consumers that were asked.
    fn stands(&mut self) -> bool;
    /// Takes back what `ask` and `arm` did.
    fn disarm(&mut self);
}

/// Goes through the steps before a sleep. Whether the sleeper may sleep now; it is armed then.
pub fn prepare(sleeper: &mut impl Sleeper) -> bool {
    if sleeper.has_work() {
        return false;
    }
    let ready = sleeper.ask() && sleeper.arm() && !sleeper.has_work() && sleeper.stands();
    if !ready {
        sleeper.disarm();
    }
    ready
}

/// The sender's part of rule 1; it has stored its `waiting`.
pub fn ask(wanted: &AtomicU32) {
    // Release pairs with the Acquire of `answer`, which then finds who waits. A swap and not a store:
    // an answer that finds the 1 of another sender has to see what this one stored before its own,
    // which a chain of read-modify-writes carries on and a store would cut.
    wanted.swap(1, Ordering::Release);
}

/// The sender's part of rule 2, after it has armed its doorbell.
pub fn stands(wanted: &AtomicU32) -> bool {
    // Relaxed: ordered by the heavy fence of the arming, which pairs with the fence of the ring that
    // follows an answer.
    wanted.load(Ordering::Relaxed) != 0
}

/// The consumer's check, after it has made space.
#[inline]
pub fn is_asked(wanted: &AtomicU32) -> bool {
    // Between the space that was made and the check of who waits for it.
    light_fence();
    // Relaxed: ordered by the fence, which pairs with the heavy one of the arming.
    wanted.load(Ordering::Relaxed) != 0
}

/// The consumer takes the question away. It then rings everybody who waits for it.
pub fn answer(wanted: &AtomicU32) {
    // Acquire pairs with the Release of `ask`; Release orders nothing of ours.
    wanted.swap(0, Ordering::AcqRel);
}

#[cfg(all(test, bowline_loom))]
mod loom_tests;
