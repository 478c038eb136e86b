//! SCMP: one queue of fixed memory per consumer, any number of producers.
//!
//! The idea is that of M. Rüfenacht's thesis (Edinburgh 2020): two halves of slots and a
//! reservation counter whose top bit names the active half. A producer reserves with one
//! fetch-and-add; the consumer takes the whole half away from the producers by replacing the
//! counter, and drains it while they fill the other one. Memory does not grow with the number of
//! peers, no producer ever waits for another, and nobody compares and swaps.
//!
//! Three forms stand here, because homes differ in one thing: whether a put is ordered before what
//! follows it without waiting.
//!
//! - [`counted`]: as in the thesis, with counters of finalised and failed reservations. For
//!   homes where messages arrive by unordered puts (verbs, libfabric).
//! - [`seq`]: the finalise travels in the slot, as a tag that differs for every flip. For shared
//!   memory: a message moves one cache line, and counters settle only what is left over.
//! - [`checksummed`]: the same over puts, whose bytes land in any order: each message carries a checksum from
//!   which its consumer sees that all of it has landed.
//!
//! **Slots** are 64 bytes, the same in all forms ([`slot`]).
//!
//! **A producer that dies** between its reservation and its finalise must not stop the queue. It
//! announced its [`Intent`] before it reserved; [`Producers`] lets the consumer read the
//! intents and who is dead, and [`seq`] says why that settles every case.
//!
//! **Damage.** Everything that a peer wrote is checked when it is read, once. What cannot be
//! true of a control word poisons the queue ([`Fault::Poisoned`]): the counter is left in a
//! state that every producer recognises, so that each gets an error and nobody waits for ever.
//! A damaged slot is the fault of the source that it names ([`Fault::Source`]).
//!
//! It knows no doorbells, does no system calls and allocates only when it settles the dead.

#[cfg(not(bowline_loom))]
pub mod checksummed;
pub mod counted;
pub mod seq;
mod settle;
pub mod slot;

#[cfg(all(any(test, fuzzing), not(bowline_loom)))]
pub mod fuzz;

use thiserror::Error;

use crate::sync::LINE;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::words::{LineWords, Words};

pub use slot::{FIRST_BYTES, MORE_BYTES, Message, QueuedMessage, slots_for};

/// Fewest slots in a half.
pub const MIN_SLOTS: u32 = 4;

/// Most slots in a half.
pub const MAX_SLOTS: u32 = 1 << 15;

/// Most slots of one message in a queue of halves of `slots`: half of a half, so that a drained
/// half always has space for it before the consumer must flip, and at most what the slot's length
/// field can say.
pub const fn max_message_slots(slots: u32) -> u32 {
    let most = slots_for(slot::MAX_BYTES) as u32;
    if slots / 2 < most { slots / 2 } else { most }
}

/// Longest payload, in bytes, of one message in a queue of halves of `slots`.
pub const fn max_message_bytes(slots: u32) -> usize {
    let bytes = slot::bytes_in(max_message_slots(slots) as usize);
    if bytes < slot::MAX_BYTES { bytes } else { slot::MAX_BYTES }
}

/// Why a message was not taken. Nothing observable has happened in any of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// No space before the consumer flips. Trying again makes sense when the queue's generation
    /// is another one than `generation`.
    #[error("the receive queue is full; wait until its consumer has flipped it")]
    Full {
        /// The generation that was found full.
        generation: u32,
    },
    /// Longer than the queue can ever take.
    #[error("the message needs more slots than the receive queue takes at once")]
    TooLong,
    /// The queue's control words were damaged and its consumer has closed it.
    #[error("the receive queue is damaged and was closed by its consumer")]
    Poisoned,
}

/// Which control word could not be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Damage {
    /// The reservation counter names a half or a generation that the consumer did not set.
    #[error("the reservation counter carries a generation that never was")]
    Generation,
    /// More reservations than there can be producers, or fewer than messages were found.
    #[error("the reservation counter does not fit the messages found")]
    Reserved,
    /// More failed reservations than reservations.
    #[error("more reservations failed than were made")]
    Failed,
    /// More slots finalised than were reserved.
    #[error("more slots were finalised than were reserved")]
    Finalised,
    /// Slots are missing for which neither the living nor the dead account.
    #[error("reserved slots are missing for which no producer accounts")]
    Missing,
}

/// Why a consumer handed out nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The queue is closed; every call says so from now on.
    #[error("the receive queue is poisoned: {0}")]
    Poisoned(Damage),
    /// One slot was damaged and has been skipped; the queue goes on. The source is the one that
    /// the slot claims.
    #[error("source {source_id} wrote a damaged slot")]
    Source {
        /// The claimed source.
        source_id: u16,
    },
}

/// Why a queue was not attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The memory holds no queue of this kind and version.
    #[error("cannot attach to the queue: the memory holds no queue of this version")]
    NotAQueue,
    /// The number of slots is no power of two within the limits.
    #[error("cannot attach to the queue: its number of slots is not a power of two in 4..=32768")]
    Slots,
    /// The memory is smaller than the queue says that it is.
    #[error("cannot attach to the queue: its memory is smaller than its number of slots needs")]
    TooSmall,
}

/// Whether a queue with halves of `slots`, which takes `bytes_for` them, can be in the memory.
fn check_slots<W: Words>(
    words: &W,
    slots: u32,
    bytes_for: fn(u32) -> usize,
) -> Result<(), AttachError> {
    if !slots.is_power_of_two() || !(MIN_SLOTS..=MAX_SLOTS).contains(&slots) {
        return Err(AttachError::Slots);
    }
    if words.lines() * LINE < bytes_for(slots) {
        return Err(AttachError::TooSmall);
    }
    Ok(())
}

/// Says in the first line of a queue that it is there; the rest of it has been written.
fn announce<W: Words>(words: &W, magic: u64, slots: u32) {
    // Relaxed: ordered by the magic.
    words.line(0).store(1, u64::from(slots), Ordering::Relaxed);
    // Release: pairs with the Acquire load in `announced`; who sees the magic sees the rest.
    words.line(0).store(0, magic, Ordering::Release);
}

/// The slots of a queue that was announced with `magic`, and whose slots begin at line `first`.
fn announced<W: Words>(
    words: &W,
    magic: u64,
    first: usize,
    bytes_for: fn(u32) -> usize,
) -> Result<u32, AttachError> {
    if words.lines() < first {
        return Err(AttachError::TooSmall);
    }
    let line = words.line(0);
    // Acquire: pairs with the Release store in `announce`.
    if line.load(0, Ordering::Acquire) != magic {
        return Err(AttachError::NotAQueue);
    }
    // Relaxed: ordered by the magic; read once.
    let slots = u32::try_from(line.load(1, Ordering::Relaxed)).map_err(|_| AttachError::Slots)?;
    check_slots(words, slots, bytes_for)?;
    Ok(slots)
}

/// What a producer says in its own control block before it reserves.
///
/// ```text
///   63 ........ 32   31 .... 16   15 ........ 1   0
///   announcement     queue        slots           unfinished
/// ```
///
/// `queue` is the consumer's number, `announcement` counts the producer's announcements to that
/// queue, so that two announcements are never the same word. `0`, or any word without the lowest
/// bit: nothing is under way. Written by its producer only; one producer uses it for one message
/// at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent(u64);

impl Intent {
    /// Nothing under way.
    pub const NONE: Self = Self(0);

    const UNFINISHED: u64 = 1;

    /// `slots` slots in `queue` are under way.
    #[inline]
    pub const fn new(queue: u16, slots: u32, announcement: u32) -> Self {
        Self(
            ((announcement as u64) << 32)
                | ((queue as u64) << 16)
                | (((slots & 0x7fff) as u64) << 1)
                | Self::UNFINISHED,
        )
    }

    /// The same with the next announcement.
    #[inline]
    pub(crate) const fn next(self) -> Self {
        Self(self.0.wrapping_add(1 << 32))
    }

    /// An intent of no slots with `slots` slots, at most 2^15 - 1.
    #[inline]
    pub(crate) const fn of(self, slots: u32) -> Self {
        Self(self.0 + ((slots as u64) << 1))
    }

    /// As it stands in memory.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// As found in memory.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// Whether something is under way to `queue`.
    #[inline]
    pub const fn concerns(self, queue: u16) -> bool {
        self.0 & Self::UNFINISHED != 0 && (self.0 >> 16) as u16 == queue
    }

    /// Slots under way.
    #[inline]
    pub const fn slots(self) -> u32 {
        (self.0 >> 1) as u32 & 0x7fff
    }

    #[inline]
    pub(crate) fn announce(self, word: &AtomicU64) {
        // Release: pairs with the Acquire load in `Producers::intent`. The fetch-and-add on R
        // publishes the announcement; but who reads it in place of an earlier one takes it for
        // proof that the earlier message is finalised, and must see its slots.
        word.store(self.0, Ordering::Release);
    }

    /// Says in `word` that nothing is under way.
    #[inline]
    pub(crate) fn clear(word: &AtomicU64) {
        // Release: pairs with the Acquire load in `Producers::intent`; who sees the intent gone
        // sees the slots finalised, or the failed reservation counted.
        word.store(Self::NONE.0, Ordering::Release);
    }
}

/// All who may have an intent on a queue: what the consumer asks when it settles a hole. Cold.
pub trait Producers {
    /// Producers are numbered from zero; the number is the source in their messages.
    fn count(&self) -> u32;

    /// The intent word of `producer`, by an Acquire load; `0` for one that never came.
    fn intent(&self, producer: u32) -> u64;

    /// Whether the death of `producer` is proven: it will not write any more, and an intent read
    /// after this answer is its last. Acquire.
    fn is_dead(&self, producer: u32) -> bool;
}

#[cfg(test)]
mod harness;
#[cfg(all(test, bowline_loom))]
mod loom_tests;
#[cfg(all(test, not(bowline_loom)))]
mod tests;
